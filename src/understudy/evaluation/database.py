"""Evaluation of a database: one call that compares synthetic tables with real ones, family by family.

The one rule: every value stands between two others. The floor is what other real units reach, the reference what the
same units reach with their children shuffled among the parents (or, within a table, with each column shuffled). All
databases are cut to one number of units, so that chance weighs the same on all of them.

Privacy:
    None. These numbers are computed on real rows without noise, and no budget covers them.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from understudy.core.text import did_you_mean
from understudy.evaluation.broken import broken_between, broken_within
from understudy.evaluation.families import Families, Link, assembled
from understudy.evaluation.foresight import TASKS, foresight
from understudy.evaluation.histograms import tuple_distances
from understudy.evaluation.kinship import BINS, KINSHIP, MEANING, pair_bins, unseen_transitions
from understudy.evaluation.pair import Pair, Parts, Side, labels_of, open_tables
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.families import sources_of
from understudy.tables.table import Table, read

if TYPE_CHECKING:
    from understudy.evaluation.pair import Source

    Database = Mapping[str, Source] | str | os.PathLike[str]
    """A database as `fit` takes it: tables by name, a folder with a file for each, or a file of SQLite or DuckDB."""

MOST_UNITS = 20_000
"""So many units of each database are compared at most."""
WORST = 10
"""How many pairs of columns are listed, those with the largest distances."""
COLUMN_BINS = 20
LOWEST_SCORE = 0.05
"""A target that real units predict no better than this does not count."""
FRAME = {
    "metric": pl.String,
    "table": pl.String,
    "columns": pl.String,
    "value": pl.Float64,
    "floor": pl.Float64,
    "reference": pl.Float64,
    "how": pl.String,
}
HOW = MEANING | {
    "integrity": "share of rows whose key leads to no parent, or to several",
    "columns": f"mean total variation of a column; numbers on {COLUMN_BINS} quantile bins",
    "pairs": f"mean total variation of two columns of a table; numbers on at most {BINS} quantile bins",
    "aggregate": "score of an additive model of the parent's columns for the number, the means and the commonest "
    "categories of its children, trained on these units and tested on real ones, as a part of one trained on real ones",
    "next": "score of an additive model of a row, its history and its parents for the next sibling and for whether "
    "there is one, trained on these units and tested on real ones, as a part of one trained on real ones",
}
"""What each metric is, in words."""
_BY_PART = {"columns": None, "pairs": WORST, "parent_child": WORST, "siblings": WORST, "autocorrelation": None}
_BY_PART |= {"gaps": None, "aggregate": None, "next": None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """A metric of one table or link, of the synthetic units and of the two that they are compared with.

    Attributes:
        metric: A key of `HOW`.
        table: The table, or the link as "patients → visits".
        value, floor, reference: None if undefined.
        parts: The same by column or pair of columns: value, floor and reference.
    """

    metric: str
    table: str
    value: float | None
    floor: float | None
    reference: float | None
    parts: Mapping[tuple[str, ...], tuple[float | None, float | None, float | None]] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Compared:
    """The databases of an evaluation, of one size: the real units, and what is held against them.

    Attributes:
        broken: By constraint of the schema, the shares of synthetic and of real rows that break it.
    """

    schema: DatabaseSchema
    target: Families
    made: Families
    base: Families
    against: str
    broken: Mapping[str, tuple[float, float]]
    seed: int

    @property
    def shuffled(self) -> Families:
        return self.base.shuffled(self.seed)


def open_databases(
    real: "Database", synthetic: "Database", schema: DatabaseSchema, *, train: "Database | None", seed: int
) -> Compared:
    """Reads databases of one schema and cuts them to one number of units.

    Without `train`, a half of the real units stands for the real ones, and is held against the other.

    Raises:
        TableError: A table cannot be found or read, or its structure is not the schema's.
    """
    given = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    opened = {who: _read(which, schema) for who, which in given.items()}
    families = _families(opened, schema)
    shares = {who: broken_within(schema, opened[who]) | broken_between(schema, families[who]) for who in families}
    if "train" not in families:
        order = np.random.default_rng(seed).permutation(families["real"].units)
        half = max(len(order) // 2, 1)
        families["real"], families["train"] = (families["real"].take(each) for each in (order[:half], order[-half:]))
    units = min(MOST_UNITS, *(each.units for each in families.values()))
    target, made, base = (families[who].sample(units, seed) for who in ("real", "synthetic", "train"))
    against = "the other half of the real units" if train is None else "the training units"
    broken = {rule: (share, shares["real"][rule]) for rule, share in shares["synthetic"].items()}
    return Compared(schema=schema, target=target, made=made, base=base, against=against, broken=broken, seed=seed)


def opened_families(given: "Mapping[str, Database]", schema: DatabaseSchema) -> dict[str, Families]:
    """Databases of one schema as families, over shared labels."""
    return _families({who: _read(which, schema) for who, which in given.items()}, schema)


def _families(opened: Mapping[str, Mapping[str, Table]], schema: DatabaseSchema) -> dict[str, Families]:
    sides, labels = {who: dict[str, Side]() for who in opened}, {}
    for name in schema.private:
        if not schema[name].columns:
            tables = dict.fromkeys(opened, Side(numbers={}, codes={}, sizes={}))
        else:
            own = {who: tables[name] for who, tables in opened.items()}
            tables, labels[name] = open_tables(schema[name].schema, own), labels_of(schema[name].schema, own)
        for who, side in tables.items():
            sides[who][name] = side
    found = {}
    for who, tables in opened.items():
        keys = {name: _keys(table) for name, table in tables.items()}
        found[who] = dataclasses.replace(assembled(schema, sides[who], keys), labels=labels)
    return found


def _read(which: "Database", schema: DatabaseSchema) -> dict[str, Table]:
    """The private tables of a database, each with its keys."""
    sources = sources_of(which, schema, private=True)
    return {name: read(sources[name], schema[name].with_keys, covered=False) for name in schema.private}


def _keys(table: Table) -> pl.DataFrame:
    """The cells of its open categories as text, the keys among them."""
    return pl.DataFrame(
        {
            name: pl.Series([*labels, None], dtype=pl.String).gather(table.columns[name] % (len(labels) + 1))
            for name, labels in table.labels.items()
        }
    )


def asked(metrics: Iterable[str] | None, learners: Iterable[str] | None) -> list[str]:
    """The metrics that the arguments of `evaluate` name; None: all.

    Raises:
        ValueError: A metric is unknown, or learners are asked for, which only single tables have.
    """
    if learners is not None:
        raise ValueError(
            "learners: expected none for a database, whose metrics `aggregate` and `next` train their own."
        )
    named = list(HOW) if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    for name in named:
        if name not in HOW:
            raise ValueError(f"metrics: expected some of {', '.join(HOW)}, got {name!r}.{did_you_mean(name, HOW)}")
    return named


# Metrics ------------------------------------------------------------------------------------------------------------


def findings(compared: Compared) -> list[Finding]:
    """All metrics of all tables and links."""
    with np.errstate(all="ignore"):  # a warning would depend on somebody's value
        return [
            *_integrity(compared),
            *_by_table(compared, "columns", width=1),
            *_by_table(compared, "pairs", width=2),
            *_by_link(compared),
            *_foresight(compared),
        ]


def _integrity(compared: Compared) -> Iterator[Finding]:
    for link in compared.target.links:
        values = [each.tables[link.table].broken for each in (compared.made, compared.base)]
        yield Finding(metric="integrity", table=link.name, value=values[0], floor=values[1], reference=None)
    for name, share in compared.made.second_keys.items():
        yield Finding(
            metric="integrity", table=name, value=share, floor=compared.base.second_keys[name], reference=None
        )


def _by_table(compared: Compared, metric: str, *, width: int) -> Iterator[Finding]:
    shuffled = compared.base.with_shuffled_columns(compared.seed) if width > 1 else None
    for name, members in compared.target.tables.items():
        names = [*members.side.numbers, *members.side.codes]
        if len(names) < width:
            continue
        tuples = [(a,) for a in names] if width == 1 else [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        parts, bins = [], COLUMN_BINS if width == 1 else pair_bins(members.rows)
        for other in (compared.made, compared.base, shuffled):
            if other is None:
                parts.append({})
                continue
            sides = (members.side, other.tables[name].side)
            pair = Pair(names=tuple(names), real=sides[0], synthetic=sides[1], scale=sides[0])
            parts.append(tuple_distances(pair, tuples, bins=bins))
        yield _finding(metric, name, parts)


def _by_link(compared: Compared) -> Iterator[Finding]:
    others = (compared.made, compared.base, compared.shuffled)
    for metric, distance in KINSHIP.items():
        for link in compared.target.links:
            parts = [distance(compared.target, other, link) for other in others]
            if metric == "children":
                parts[2] = {}  # shuffled children are as many as before
            if parts[0]:
                yield _finding(metric, link.name, parts)


def _finding(metric: str, table: str, parts: list[Parts]) -> Finding:
    means = [float(np.mean(list(each.values()))) if each else None for each in parts]
    by_part = {names: (value, parts[1].get(names), parts[2].get(names)) for names, value in parts[0].items() if names}
    return Finding(metric=metric, table=table, value=means[0], floor=means[1], reference=means[2], parts=by_part)


def _foresight(compared: Compared) -> Iterator[Finding]:
    """The part that each database keeps of what real units tell, mean over the targets that they tell anything of."""
    others = (compared.made, compared.base, compared.shuffled)
    for metric in TASKS:
        for link in compared.target.links:
            scores = [_scores(each, compared, link, metric) for each in others]
            counted = [name for name, score in scores[1].items() if score > LOWEST_SCORE]
            if counted:
                kept = [{(n,): float(np.clip(s.get(n, 0.0) / scores[1][n], 0, 1)) for n in counted} for s in scores]
                yield _finding(metric, link.name, kept)


def _scores(shown: Families, compared: Compared, link: Link, metric: str) -> dict[str, float]:
    return foresight(shown, compared.target, compared.base, link, metric, compared.seed)


def transitions(compared: Compared) -> list[dict[str, Any]]:
    """Steps from row to row that no real unit takes, by table and column, where they are commoner than by chance."""
    found = []
    for link in compared.target.links:
        made, base = (
            unseen_transitions(compared.target.tables[link.table], each.tables[link.table])
            for each in (compared.made, compared.base)
        )
        for name, share in made.items():
            if share > base.get(name, 0.0):
                found.append({"columns": [f"{link.table}.{name}"], "synthetic": share, "real": base.get(name, 0.0)})
    return sorted(found, key=lambda each: each["real"] - each["synthetic"])


# The frame ----------------------------------------------------------------------------------------------------------


def rows_of(found: list[Finding]) -> list[tuple[Any, ...]]:
    """The rows of the frame: tables and links first, then their columns, or the worst of their pairs."""
    rows = [(each.metric, each.table, "", each.value, each.floor, each.reference, HOW[each.metric]) for each in found]
    for each in found:
        if each.metric not in _BY_PART:
            continue
        ranked = sorted(each.parts.items(), key=lambda part: -(part[1][0] or 0.0))
        most = _BY_PART[each.metric]
        for names, values in ranked[:most] if most else each.parts.items():
            rows.append((each.metric, each.table, ", ".join(names), *values, HOW[each.metric]))
    return rows
