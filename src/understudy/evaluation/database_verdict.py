"""The verdict on a database: what its numbers mean, in one word for each of its parts.

The parts and words are those of a single table, and four more. Each compares the synthetic units with other real units
and with the same units whose children are shuffled.

    integrity   b = share of rows whose key leads nowhere. Score 1 / (1 + b / 0.05).
    children    d = total variation of the number of children beyond that of real units. Score 1 / (1 + d / 0.15).
    columns     d = mean total variation of columns beyond that of real units. Score 1 / (1 + d / 0.15).
    pairs       the part kept of the dependence within a table: (shuffled - synthetic) / (shuffled - real).
    families    the same of parents with children.
    histories   the same of consecutive siblings.
    prediction  the part kept of what real units tell of a parent's children and of the next event.
    rules       b = share of rows that break a constraint within a row or between rows. Score 1 / (1 + b / 0.05).

The score of a part is the mean over its tables or links, the overall score the geometric mean of the parts.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from understudy.evaluation.database import Compared, Finding, transitions
from understudy.evaluation.verdict import (
    HALF_COLUMNS,
    HALF_RULES,
    LEAST_DEPENDENCE,
    Part,
    Verdict,
)

WORST = 5
UNLIKELY = 0.02
"""A share of steps that no real unit takes is worth a caution beyond this."""
_PARTS = {
    "integrity": (("integrity",), "share of rows whose key leads to no parent, or to several"),
    "children": (("children",), "total variation of the number of children, mean over links"),
    "columns": (("columns",), "share of rows that would have to change for a column to be that of real units"),
    "pairs": (("pairs",), "share of rows that would have to change for two columns of a table together"),
    "families": (("parent_child",), "share of rows that would have to change for a parent's column and a child's"),
    "histories": (("siblings",), "share of rows that would have to change for a column and one of the next sibling"),
    "prediction": (("aggregate", "next"), "part kept of what real units tell of children and of the next event"),
}


def judge_database(compared: Compared, found: Iterable[Finding]) -> Verdict:
    """The verdict that the metrics of a database amount to."""
    found, broken, parts = list(found), compared.broken, []
    for name, (metrics, meaning) in _PARTS.items():
        parts.append(_part(name, [each for each in found if each.metric in metrics], meaning))
    steps = transitions(compared)
    return Verdict(
        parts=(*(part for part in parts if part is not None), *_rules(broken)),
        rows=compared.target.units,
        against=compared.against,
        worst_columns=_worst(found, ("columns",)),
        worst_pairs=_worst(found, ("pairs", "parent_child", "siblings")),
        findings={"transitions": steps[:WORST], "rules": {rule: both[0] for rule, both in broken.items()}},
        cautions=tuple(_cautions(steps, broken)),
    )


def _part(name: str, found: list[Finding], meaning: str) -> Part | None:
    if not found:
        return None
    value, real, shuffled = (_mean(getattr(each, key) for each in found) for key in ("value", "floor", "reference"))
    assert value is not None
    score = float(np.mean([_score(name, each) for each in found]))
    return Part(name=name, score=score, value=value, real=real, shuffled=shuffled, meaning=meaning)


def _score(name: str, found: Finding) -> float:
    value, real = found.value or 0.0, found.floor or 0.0
    if name == "integrity":
        return 1 / (1 + value / HALF_RULES)
    if name in ("children", "columns"):
        return 1 / (1 + max(value - real, 0.0) / HALF_COLUMNS)
    if name == "prediction":
        return value
    depth = max((found.reference or 0.0) - real, LEAST_DEPENDENCE)
    return float(np.clip(1 - (value - real) / depth, 0, 1))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return float(np.mean(known)) if known else None


def _rules(broken: Mapping[str, tuple[float, float]]) -> list[Part]:
    if not broken:
        return []
    synthetic, real = (max(each) for each in zip(*broken.values(), strict=True))
    meaning = "share of rows that break a constraint of the schema, of the one that is broken most"
    score = 1 / (1 + synthetic / HALF_RULES)
    return [Part(name="rules", score=score, value=synthetic, real=real, shuffled=None, meaning=meaning)]


def _worst(found: Iterable[Finding], metrics: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    parts = [
        {"columns": [f"{each.table}: {', '.join(names)}"], "synthetic": value, "real": floor, "shuffled": reference}
        for each in found
        if each.metric in metrics
        for names, (value, floor, reference) in each.parts.items()
    ]
    farther = [part for part in parts if (part["synthetic"] or 0.0) > (part["real"] or 0.0)]
    return tuple(sorted(farther, key=lambda part: part["real"] - part["synthetic"])[:WORST])


def _cautions(steps: Iterable[Mapping[str, Any]], broken: Mapping[str, tuple[float, float]]) -> Iterable[str]:
    for step in steps:
        if step["synthetic"] - step["real"] > UNLIKELY:
            yield f"{step['columns'][0]}: no real unit takes {step['synthetic']:.0%} of the steps to the next row"
    for rule, (synthetic, real) in broken.items():
        if synthetic > real:
            yield f"{rule}: broken by {synthetic:.1%} of the synthetic rows"
