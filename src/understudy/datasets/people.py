"""The example table: simulated people whose Bayesian network is known.

The network is the paper's (its appendix on Bayesian networks): age, education_years → salary → working_hours →
credit_score, with one categorical and one nullable column added, so that a demonstration has every kind of column.
"""

import numpy as np
import polars as pl

from understudy.tables.column import Column
from understudy.tables.schema import Schema

EXAMPLE_PARENTS: dict[str, list[str]] = {
    "age": [],
    "education_years": ["age"],
    "salary": ["age", "education_years"],
    "working_hours": ["salary"],
    "credit_score": ["salary", "working_hours"],
    "region": [],
    "savings": ["salary"],
}


def example_schema(rows: int | None = None) -> Schema:
    """What an owner would know about the example without looking at a row."""
    return Schema(
        name="example",
        rows=rows,
        target="credit_score",
        columns=(
            Column(name="age", kind="integer", low=18, high=100),
            Column(name="education_years", kind="continuous", low=0.0, high=30.0),
            Column(name="salary", kind="continuous", low=0.0, high=500_000.0),
            Column(name="working_hours", kind="continuous", low=0.0, high=100.0),
            Column(name="credit_score", kind="integer", low=300, high=850),
            Column(name="region", kind="categorical", values=("north", "south", "east", "west"), other="elsewhere"),
            Column(name="savings", kind="continuous", low=0.0, nullable=True),
        ),
    )


def example(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` simulated people, drawn from the network that `EXAMPLE_PARENTS` describes."""
    draw = np.random.default_rng(seed)
    age = np.clip(np.rint(draw.gamma(9.0, 4.7, n) + 4), 18, 100)
    education = np.clip(draw.normal(13.0, 2.6, n) - 0.035 * np.maximum(age - 45, 0), 0, 30)
    growth = 0.045 * (age - 18) - 0.0006 * (age - 18) ** 2
    salary = np.clip(np.exp(9.1 + 0.085 * education + growth + draw.normal(0, 0.32, n)), 0, 500_000)
    hours = np.clip(36 + 3.2 * np.log(salary / 40_000) + draw.normal(0, 4.5, n), 0, 100)
    credit = 610 + 62 * np.log(salary / 40_000) - 1.6 * (hours - 37) + draw.normal(0, 38, n)
    region = draw.choice(["north", "south", "east", "west"], n, p=[0.4, 0.3, 0.2, 0.1])
    savings = np.where(draw.random(n) < 0.25, 0.0, salary * draw.lognormal(-1.2, 1.0, n))
    told = draw.random(n) < 1 / (1 + np.exp(-(np.log(salary / 40_000) + 1.6)))
    return pl.DataFrame(
        {
            "age": age.astype(np.int64),
            "education_years": education.round(1),
            "salary": salary.round(2),
            "working_hours": hours.round(1),
            "credit_score": np.clip(np.rint(credit), 300, 850).astype(np.int64),
            "region": region,
            "savings": pl.Series(savings.round(2)).set(pl.Series(~told), None),
        }
    )
