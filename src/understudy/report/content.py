"""The content of a report, as plain values: the page shows it, and `report.json` is it.

The one rule: two tables are compared by `evaluate` itself, on the same rows; what is drawn beside its numbers is read
by the same functions. Whatever comes from real rows lies under "utility", with its stamp.

Privacy:
    The model's receipt covers what follows from the model, rows drawn from it here included. It does not cover rows
    that were given as synthetic ones, and nothing covers what is under "utility".
"""

import dataclasses
import importlib.util
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from understudy.core.network_drawing import MOST_PARENTS
from understudy.evaluation.associations import associations
from understudy.evaluation.evaluate import NOT_COVERED, WORST, Evaluation, evaluate
from understudy.evaluation.pair import Parts, Side, in_known_groups, labels_of, open_table, open_tables
from understudy.evaluation.structure import compare
from understudy.model import Model
from understudy.privacy.ledger_file import LedgerFile
from understudy.report.noise import noise_of_columns
from understudy.report.privacy import privacy_part
from understudy.report.record import checklist, record_part
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.writing import to_frame

FORMAT = 3
BINS = 30
"""A histogram has so many bins."""
FEW_WHOLE_NUMBERS = 40
"""An integer column that spans no more than this has one bin for each number."""
OUTER = 0.005
"""This share of a column at either end is counted in the first and the last bin."""
MOST_LABELS = 12
"""At most so many categories have a bar of their own."""
MOST_IN_A_MATRIX = 30
"""At most so many columns are shown in a matrix of associations."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MISSING = "(missing)"
GIVEN = "given by the user: not known to come from this model, so not covered by this receipt"
"""The stamp on synthetic rows that were not drawn from the model here."""

Sides = Mapping[str, Side]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticRows:
    """The synthetic rows of a report.

    Attributes:
        table: The rows, as `evaluate` takes them.
        source: Where they came from, in words.
        covered_by_budget: Whether they were drawn from the model, here or seen to equal rows drawn here.
        file: The file that they came from, if any.
        doubt: Why they are not known to come from the model.
    """

    table: Any
    source: str
    covered_by_budget: bool
    file: Any = None
    doubt: str = ""

    def described(self, rows: int) -> dict[str, Any]:
        """What the report says of them."""
        covered = self.covered_by_budget
        stamp = {"covered_by_budget": covered, "note": None if covered else GIVEN, "doubt": self.doubt or None}
        return {"from": self.source, "rows": rows, **stamp}


def gather(
    model: Model,
    synthetic: SyntheticRows,
    *,
    real: Any = None,
    train: Any = None,
    ledger: LedgerFile | None = None,
    truth: Mapping[str, list[str]] | None = None,
    learners: Iterable[str] | None = None,
    seed: int = 0,
    model_file: Any = None,
) -> dict[str, Any]:
    """The whole content of a report, in types that JSON has.

    Args:
        model: What was fitted.
        synthetic: The rows to show.
        real: Real rows to compare with, or None for a report without utility.
        train: The table that was fitted, for two baselines.
        ledger: The ledger file of the table.
        truth: The true parents, if they are known.
        learners: The learners to train for usefulness; None: `default_learners`.
        seed: Of the evaluation.
        model_file: The path of the model's file, if it was read from one.
    """
    book = None if ledger is None else ledger.path
    files = {"ledger": book, "synthetic rows": synthetic.file, "real rows": real, "training rows": train}
    record, privacy = record_part(model, model_file=model_file, files=files), privacy_part(model, ledger)
    tables = {"synthetic": synthetic.table} if real is None else {"real": real, "synthetic": synthetic.table}
    columns, matrix, counts, pairs = summaries(model.schema, tables)
    noise = noise_of_columns(model)
    columns = [column | {"noise": noise.get(column["name"])} for column in columns]
    content = {
        "kind": "understudy-report",
        "format": FORMAT,
        "table": model.schema.name,
        "record": record,
        "privacy": privacy,
        "checklist": checklist(privacy, record),
        "network": network(model, truth, pairs if synthetic.covered_by_budget else {}),
        "synthetic": synthetic.described(counts["synthetic"]),
    }
    if real is None:
        return content | {"columns": columns, "associations": matrix, "utility": None}
    asked = default_learners(model.schema) if learners is None else list(learners)
    found = evaluate(real, synthetic.table, model.schema, learners=asked or None, train=train, seed=seed)
    utility = _utility(found, columns, matrix) | {
        "seed": seed,
        "real_rows": counts["real"],
        "target": model.schema.target,
        "learners": asked,
        "baselines": train is not None,
    }
    return content | {"columns": None, "associations": None, "utility": utility}


def _utility(found: Evaluation, columns: list[dict[str, Any]], matrix: dict[str, Any] | None) -> dict[str, Any]:
    """What comes from real rows, with its stamp."""
    values = found.to_dicts()
    return {
        "covered_by_budget": False,
        "note": NOT_COVERED,
        "verdict": found.verdict.to_json(),
        "rows": values,
        "columns": _worst_first(columns, values),
        "associations": matrix,
    }


def _worst_first(columns: list[dict[str, Any]], values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns with their distances, the largest Wasserstein distance first."""
    distances = {
        name: {row["columns"]: row["value"] for row in values if row["metric"] == name and row["columns"]}
        for name in ("wd", "tvd1")
    }
    scored = [column | {name: of.get(column["name"]) for name, of in distances.items()} for column in columns]
    return sorted(scored, key=lambda column: -(column["wd"] or 0.0))


def default_learners(schema: Schema) -> list[str]:
    """One learner if the schema has a target and the extra `eval` is installed; else none."""
    return ["catboost"] if schema.target is not None and importlib.util.find_spec("catboost") else []


# The network --------------------------------------------------------------------------------------------------------


def network(model: Model, truth: Mapping[str, list[str]] | None, pairs: Parts) -> dict[str, Any]:
    """The learned parents in the order of generation, and the true ones beside them if they are known.

    Args:
        pairs: The associations in rows that are covered by the receipt: how strong an arrow is if the method does not
            measure that.
    """
    parents, strengths, by = model.parents, model.strengths, "weights"
    if not any(strengths.values()) and pairs:
        strengths, by = (
            {name: {other: abs(pairs[other, name]) for other in of} for name, of in parents.items()},
            "association",
        )
    kept = {
        child: {parent: strengths[child][parent] for parent in of if parent in strengths.get(child, {})}
        for child, of in parents.items()
    }
    complete = all(len(of) == place for place, of in enumerate(parents.values()))
    right = None if truth is None else {name: list(truth.get(name, [])) for name in parents}
    return {
        "parents": parents,
        "strengths": kept if any(kept.values()) else {},
        "strength_by": by if any(kept.values()) else None,
        "cut": any(len(of) > MOST_PARENTS for of in parents.values()),
        "complete": complete and len(parents) > 1,
        "truth": right,
        "structure": None if right is None else dataclasses.asdict(compare(parents, right)),
    }


# Columns ------------------------------------------------------------------------------------------------------------


def summaries(schema: Schema, tables: Mapping[str, Any]) -> tuple[list[dict], dict | None, dict[str, int], Parts]:
    """Every column of these tables, in the order of the schema, every pair, the numbers of rows, and all pairs."""
    with np.errstate(all="ignore"):  # a warning would reveal somebody's value
        opened = in_known_groups(schema, {key: open_table(table, schema) for key, table in tables.items()})
        sides, labels = open_tables(schema, opened), labels_of(schema, opened)
        columns = [_column(column, sides, labels) for column in schema]
        found = {key: associations(side) for key, side in sides.items()}
        counts = {key: side.rows for key, side in sides.items()}
        return columns, matrices(schema, found), counts, found["synthetic"]


def _column(column: Column, sides: Sides, labels: Mapping[str, list[str]]) -> dict[str, Any]:
    seen = {"name": column.name, "kind": column.kind}
    if column.is_numeric:
        return seen | histogram(column, {key: side.numbers[column.name] for key, side in sides.items()})
    return seen | _bars(labels[column.name], {key: side.codes[column.name] for key, side in sides.items()})


def histogram(column: Column, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Shares of all rows by bin, on one grid for all tables, and quantiles of what is there."""
    present = {key: side[~np.isnan(side)] for key, side in values.items()}
    edges = _edges(column, [side for side in present.values() if len(side)])
    summaries = {key: _summary(side) for key, side in present.items()}
    return {
        "figure": "histogram",
        "edges": edges.tolist(),
        "bin_labels": _bin_labels(column, edges),
        "shares": {key: _binned(side, edges, len(values[key])) for key, side in present.items()},
        "missing": {key: 1 - len(present[key]) / len(side) for key, side in values.items()},
        "summary": summaries,
        "summary_text": summaries_as_text(column, summaries),
    }


def _edges(column: Column, sides: list[np.ndarray]) -> np.ndarray:
    if not sides:
        return np.array([0.0, 1.0])
    outer = np.array([np.quantile(side, [OUTER, 1 - OUTER], method="nearest") for side in sides])
    low, high = float(outer[:, 0].min()), float(outer[:, 1].max())
    if column.kind == "integer":
        step = 1 if high - low < FEW_WHOLE_NUMBERS else math.ceil((high - low + 1) / BINS)
        return low - 0.5 + step * np.arange(math.floor((high - low) / step) + 2)
    if high <= low:
        width = max(abs(low), 1.0) * 0.01
        low, high = low - width, high + width
    return low + (high - low) * np.arange(BINS + 1) / BINS


def _bin_labels(column: Column, edges: np.ndarray) -> list[list[str]]:
    """The first and the last value of every bin."""
    inside = 0.5 if column.kind == "integer" else 0.0
    words = as_text(column, np.concatenate([edges[:-1] + inside, edges[1:] - inside]))
    return [list(edge) for edge in zip(words[: len(edges) - 1], words[len(edges) - 1 :], strict=True)]


def _binned(side: np.ndarray, edges: np.ndarray, rows: int) -> list[float]:
    places = np.clip(np.searchsorted(edges, side, side="right") - 1, 0, len(edges) - 2)
    return (np.bincount(places, minlength=len(edges) - 1) / rows).tolist()


def _summary(side: np.ndarray) -> dict[str, float]:
    if not len(side):
        return {}
    names = (*(f"{100 * level:g} %" for level in QUANTILES), "mean")
    return dict(zip(names, [*np.quantile(side, QUANTILES).tolist(), float(side.mean())], strict=True))


def summaries_as_text(column: Column, summaries: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, str]]:
    """The numbers of all tables, formatted alike, because they stand side by side."""
    numbers = [value for summary in summaries.values() for value in summary.values()]
    words = iter(as_text(column, np.array(numbers)) if numbers else [])
    return {key: {name: next(words) for name in summary} for key, summary in summaries.items()}


def _bars(labels: list[str], codes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Shares of all rows by category, the commonest first; the rarest share one bar, and missing values have one."""
    size = len(labels) + 1  # the last code: missing
    shares = {key: np.bincount(side, minlength=size) / len(side) for key, side in codes.items()}
    order = np.argsort(-shares.get("real", shares["synthetic"])[:-1], kind="stable")
    groups = [(labels[place], [place]) for place in order[:MOST_LABELS]]
    if len(order) > MOST_LABELS:
        groups.append((f"({len(order) - MOST_LABELS} more together)", order[MOST_LABELS:].tolist()))
    if any(share[-1] for share in shares.values()):
        groups.append((MISSING, [size - 1]))
    return {
        "figure": "bars",
        "labels": [label for label, _ in groups],
        "shares": {key: [float(share[places].sum()) for _, places in groups] for key, share in shares.items()},
        "missing": {key: float(share[-1]) for key, share in shares.items()},
        "summary": {key: {} for key in codes},
        "summary_text": {key: {} for key in codes},
    }


def as_text(column: Column, values: np.ndarray) -> list[str]:
    """Numbers as people write them, and instants as dates or times."""
    if not column.is_instant:
        huge = bool(np.abs(values).max(initial=0.0) >= 1e9)
        return [_plain(value, huge) for value in values.tolist()]
    frame = to_frame({column.name: values}, Schema(columns=(column,)), {})
    instants = frame[column.name]
    days = column.kind == "date" or values.max() - values.min() > 3 * 86_400e6
    return instants.dt.to_string("%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S").to_list()


def _plain(value: float, huge: bool) -> str:
    """One number; beside huge ones, millions have an exponent as well."""
    if abs(value) >= 1000:
        return f"{value:.3g}" if abs(value) >= (1e6 if huge else 1e9) else f"{value:,.0f}"
    return f"{value:.4g}"


# Pairs --------------------------------------------------------------------------------------------------------------


def matrices(schema: Schema, found: dict[str, Parts]) -> dict[str, Any] | None:
    """The association of each pair of columns in each table, and the difference; None for a single column."""
    if len(schema) < 2:
        return None
    if "real" in found:
        found = dict(found)
        found["difference"] = {pair: found["synthetic"][pair] - value for pair, value in found["real"].items()}
    ranked = found.get("difference", found["synthetic"])
    peak = {name: max(abs(ranked[name, other]) for other in schema.names if other != name) for name in schema.names}
    kept = set(sorted(schema.names, key=lambda name: -peak[name])[:MOST_IN_A_MATRIX])
    names = [name for name in schema.names if name in kept]
    return {
        "names": names,
        "left_out": len(schema) - len(names),
        "tables": {key: [[of.get((one, other)) for other in names] for one in names] for key, of in found.items()},
        "worst": _worst(schema.names, found) if "real" in found else [],
    }


def _worst(names: Iterable[str], found: Mapping[str, Mapping[tuple[str, ...], float]]) -> list[dict[str, Any]]:
    gaps = found["difference"]
    pairs = sorted(itertools.combinations(names, 2), key=lambda pair: -abs(gaps[pair]))[:WORST]
    return [{"columns": list(pair), **{key: of[pair] for key, of in found.items()}} for pair in pairs]
