"""The tables of benchmarks/speed.py: simulated ones of stated shapes, and public ones where they are at hand."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from understudy import datasets

Table = tuple[pl.DataFrame, us.Schema]


@dataclasses.dataclass(frozen=True)
class Case:
    """A table to be fitted.

    Attributes:
        make: Its rows and its schema.
        methods: Those that are run if none are named.
        suffix: Of the file that a fit reads.
        needs: A file that has to be in `UNDERSTUDY_DATA`; without it, the case is left out.
    """

    make: Callable[[], Table]
    methods: tuple[str, ...]
    suffix: str = ".csv"
    needs: str | None = None

    @property
    def at_hand(self) -> bool:
        folder = os.environ.get("UNDERSTUDY_DATA")
        return self.needs is None or (folder is not None and (Path(folder) / self.needs).exists())


def scores(rows: int, columns: int) -> np.ndarray:
    """Correlated standard normal scores, one shared factor and neighbours that hang together."""
    draw = np.random.default_rng(0)
    z = draw.standard_normal((rows, columns))
    z[:, 1:] = 0.8 * z[:, 1:] + 0.6 * z[:, :-1]
    return 0.5 * draw.standard_normal((rows, 1)) + 0.87 * z


def schema_of(columns: list[us.Column], rows: int) -> us.Schema:
    return us.Schema(columns=tuple(columns), name="speed", rows=rows)


def numbers(rows: int, columns: int) -> Table:
    """Numbers within bounds."""
    z = scores(rows, columns)
    frame = pl.DataFrame({f"c{j}": z[:, j] for j in range(columns)})
    return frame, schema_of([us.Column(f"c{j}", "continuous", low=-8.0, high=8.0) for j in range(columns)], rows)


def labels(z: np.ndarray, values: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """A score cut into that many categories, all of which are common."""
    names = tuple(f"v{i:03d}" for i in range(values))
    place = np.clip(((np.argsort(np.argsort(z)) + 0.5) / len(z) * values).astype(int), 0, values - 1)
    return np.array(names)[place], names


def categories(rows: int, columns: int, values: int) -> Table:
    """Columns of listed categories."""
    z = scores(rows, columns)
    data, facts = {}, []
    for j in range(columns):
        data[f"c{j}"], names = labels(z[:, j], values)
        facts.append(us.Column(f"c{j}", "categorical", values=names))
    return pl.DataFrame(data), schema_of(facts, rows)


def mixed(rows: int, columns: int) -> Table:
    """Correlated columns of mixed kinds: heavy tails, atoms, whole numbers, categories, missing values."""
    z, missing = scores(rows, columns), np.random.default_rng(1).random(rows) < 0.1
    data, facts = {}, []
    for j in range(columns):
        name, each = f"c{j}", z[:, j]
        if j % 5 == 0:
            data[name], column = np.exp(each), us.Column(name, "continuous", low=0.0, high=1000.0)
        elif j % 5 == 1:
            data[name], column = np.maximum(each, 0.0), us.Column(name, "continuous")
        elif j % 5 == 2:
            data[name], column = np.rint(100 + 20 * each), us.Column(name, "integer", low=0, high=1000)
        elif j % 5 == 3:
            data[name], names = labels(each, 4)
            column = us.Column(name, "categorical", values=names)
        else:
            data[name] = pl.Series(each).set(pl.Series(missing), None)
            column = us.Column(name, "continuous", nullable=True)
        facts.append(column)
    return pl.DataFrame(data), schema_of(facts, rows)


def one_wide(rows: int, values: int) -> Table:
    """Ten columns of mixed kinds and one of many categories."""
    frame, schema = mixed(rows, 10)
    column, names = labels(scores(rows, 2)[:, 1], values)
    facts = [*schema.columns, us.Column("wide", "categorical", values=names)]
    return frame.with_columns(pl.Series("wide", column)), schema_of(facts, rows)


def public(name: str, rows: int | None = None) -> Table:
    """A public table with the schema that comes with the package, and its number of rows, which is public here."""
    frame = datasets.load(name)
    frame = frame if rows is None else frame.sample(rows, seed=0)
    return frame, dataclasses.replace(datasets.schema(name), rows=len(frame))


USUAL = ("independent", "copula", "mst", "aim", "prada", "gem", "privmrf", "dp-merf")
CASES = {
    "numbers-8": Case(lambda: numbers(12_000, 8), USUAL),
    "numbers-20": Case(lambda: numbers(20_000, 20), USUAL),
    "wide-800": Case(lambda: one_wide(20_000, 800), USUAL),
    "categories-40": Case(lambda: categories(20_000, 15, 40), USUAL),
    "adult": Case(lambda: public("adult"), USUAL, needs="adult.csv"),
    "california": Case(lambda: public("california"), USUAL, needs="california.csv"),
    "house_16h": Case(lambda: public("house_16h"), USUAL, needs="house_16h.csv"),
    "cpu_act": Case(lambda: public("cpu_act"), USUAL, needs="cpu_act.csv"),
    "bank": Case(lambda: public("bank"), USUAL, needs="bank.csv"),
    "weather": Case(lambda: public("weather"), USUAL, needs="weather.csv"),
    "acs-60000": Case(lambda: public("acs_income", 60_000), USUAL, ".parquet", "acs_income.parquet"),
    "numbers-60": Case(lambda: numbers(20_000, 60), USUAL),
    "million": Case(lambda: mixed(1_000_000, 20), ("copula", "prada")),
    "numbers-300": Case(lambda: numbers(20_000, 300), ("independent", "copula", "mst", "aim", "prada")),
    "numbers-1000": Case(lambda: numbers(20_000, 1000), ("independent", "copula", "mst")),
    "acs": Case(lambda: public("acs_income"), ("copula", "aim", "prada"), ".parquet", "acs_income.parquet"),
}
"""The shapes that users have, the quick ones first."""

GROWTH = {
    "growth": Case(lambda: categories(20_000, 8, 20), ()),
    "growth-rows": Case(lambda: categories(40_000, 8, 20), ()),
    "growth-columns": Case(lambda: categories(20_000, 16, 20), ()),
    "growth-categories": Case(lambda: categories(20_000, 8, 40), ()),
}
"""A table, and what is twice as large in each of the others."""
