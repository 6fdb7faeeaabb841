"""A table of hospital visits with everything that an export brings: dates, codes, cents, rare diagnoses, rules."""

import datetime

import numpy as np
import polars as pl

import understudy as us

CHAPTERS = "ABCDEFGHIJKLMNOPQRST"
SCHEMA = """
name = "visits"
constraints = ["discharge >= admission", "paid <= cost", "intensive implies emergency"]

[columns]
sex = { kind = "categorical", values = ["f", "m"] }
birth_year = { kind = "integer", low = 1900, high = 2024 }
postal_code = { kind = "categorical", levels = [1, 2] }
diagnosis = { kind = "categorical", levels = [1, 3] }
admission = { kind = "date", low = 2015-01-01, high = 2024-12-31, format = "%d.%m.%Y" }
discharge = { kind = "date", low = 2015-01-01, high = 2025-12-31, format = "%d.%m.%Y" }
cost = { kind = "continuous", low = 0, high = 100000, decimals = 2 }
paid = { kind = "continuous", low = 0, high = 100000, decimals = 2 }
emergency = { kind = "boolean" }
intensive = { kind = "boolean" }
"""


def codes(count: int = 800) -> list[str]:
    """Diagnoses like those of the ICD: a chapter, a category of two digits, a digit behind the point."""
    return [f"{CHAPTERS[i % 20]}{(i * 7) % 40:02d}.{(i * 3) % 10}" for i in range(count)]


def schema() -> us.Schema:
    return us.Schema.parse(SCHEMA)


def visits(rows: int, seed: int = 0) -> pl.DataFrame:
    """Rows of the table. Nothing here is anybody's."""
    rng = np.random.default_rng(seed)
    names = np.array(codes())
    weight = 1.0 / np.arange(1, len(names) + 1)
    diagnosis = rng.permutation(names)[rng.choice(len(names), rows, p=weight / weight.sum())]
    chapter = np.array([CHAPTERS.index(code[0]) for code in diagnosis])
    emergency = rng.random(rows) < 0.25 + 0.02 * chapter
    intensive = emergency & (rng.random(rows) < 0.3)
    admission = rng.integers(0, 3653, rows)
    stay = np.floor(rng.lognormal(0.5 + 0.03 * chapter + 0.8 * intensive, 1.0)).astype(int)
    cost = np.round(np.minimum(rng.lognormal(5.8, 0.9, rows) * (1 + stay) ** 0.7, 100_000.0), 2)
    paid = np.where(rng.random(rows) < 0.6, 0.0, np.round(cost * rng.beta(1, 6, rows), 2))
    first = datetime.date(2015, 1, 1)
    days = [
        [(first + datetime.timedelta(int(day))).strftime("%d.%m.%Y") for day in each]
        for each in (admission, admission + stay)
    ]
    return pl.DataFrame(
        {
            "sex": np.where(rng.random(rows) < 0.476, "m", "f"),
            "birth_year": rng.integers(1925, 2024, rows),
            "postal_code": [f"{code:05d}" for code in rng.choice(np.arange(1000, 99999, 331), rows, p=_zipf(300))],
            "diagnosis": diagnosis,
            "admission": days[0],
            "discharge": days[1],
            "cost": cost,
            "paid": paid,
            "emergency": emergency,
            "intensive": intensive,
        }
    )


def _zipf(count: int) -> np.ndarray:
    weight = 1.0 / np.arange(1, count + 1) ** 0.8
    return weight / weight.sum()
