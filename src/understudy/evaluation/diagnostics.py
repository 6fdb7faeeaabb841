"""What an analyst would trip over: tails, differences of dates, subgroup means, coefficients, invented associations.

The one rule: each finding names its columns and gives the real and the synthetic number side by side, the worst first.

Privacy:
    Reads real rows without noise. No budget covers what comes out.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from understudy.evaluation.associations import associations
from understudy.evaluation.pair import Floats, Side, location_and_deviation
from understudy.tables.schema import Schema

WORST = 5
"""How many findings of each kind are listed."""
FAINT = 0.1
"""An association below this counts as none, and one above it as one that an analyst would report."""
FEWEST = 30
"""A subgroup of fewer real rows has no mean worth comparing."""
DAY = 86_400e6
"""In microseconds, the scale of instants."""
_Z = 1.959964

Finding = dict[str, Any]


def invented(real: Side, synthetic: Side) -> tuple[list[Finding], list[Finding]]:
    """Pairs that are associated in synthetic rows alone, which noise has invented; and those in real rows alone."""
    before, after = associations(real), associations(synthetic)
    chance = 3 / np.sqrt(max(real.rows, 1))  # three deviations of a correlation of independent columns
    made, lost = [], []
    for pair in itertools.combinations([*real.numbers, *real.codes], 2):
        one, other = before[pair], after[pair]
        if abs(one) < FAINT <= abs(other) and abs(other) - abs(one) > chance:
            made.append({"columns": list(pair), "real": one, "synthetic": other})
        elif abs(other) < FAINT <= abs(one) and abs(one) - abs(other) > chance:
            lost.append({"columns": list(pair), "real": one, "synthetic": other})
    made.sort(key=lambda each: -abs(each["synthetic"]))
    lost.sort(key=lambda each: -abs(each["real"]))
    return made[:WORST], lost[:WORST]


def date_differences(schema: Schema, real: Side, synthetic: Side) -> list[Finding]:
    """The days between two columns of dates: their median and their 95 % quantile."""
    dates = [column.name for column in schema if column.kind in ("date", "datetime")]
    found = []
    for first, second in itertools.islice(itertools.combinations(dates, 2), 2 * WORST):
        sides = [side.numbers[second] - side.numbers[first] for side in (real, synthetic)]
        known = [side[~np.isnan(side)] / DAY for side in sides]
        if all(len(side) for side in known):
            numbers = [np.quantile(side, [0.5, 0.95]).tolist() for side in known]
            found.append({"columns": [first, second], "real": numbers[0], "synthetic": numbers[1]})
    return found


def tails(schema: Schema, real: Side, synthetic: Side) -> list[Finding]:
    """The 1 % and 99 % quantiles, those farthest off first, as a part of their real distance from the median."""
    found = []
    for column in schema:
        if column.kind not in ("continuous", "integer"):
            continue
        sides = [side.numbers[column.name] for side in (real, synthetic)]
        known = [side[~np.isnan(side)] for side in sides]
        if not all(len(side) for side in known):
            continue
        (low, middle, high), (low_now, _, high_now) = (np.quantile(side, [0.01, 0.5, 0.99]) for side in known)
        for name, was, now in (("1 %", low, low_now), ("99 %", high, high_now)):
            distance = abs(was - middle) or location_and_deviation(known[0])[1]
            error = float(abs(now - was) / distance)
            found.append({"column": column.name, "quantile": name, "real": was, "synthetic": now, "error": error})
    return sorted(found, key=lambda each: -each["error"])


def subgroup_means(schema: Schema, real: Side, synthetic: Side, labels: Mapping[str, Sequence[str]]) -> list[Finding]:
    """The means of numbers within categories, those that are farthest off first, in deviations of the real column."""
    found = []
    for number in (column.name for column in schema if column.kind in ("continuous", "integer")):
        column = real.numbers[number]
        deviation = location_and_deviation(column)[1]
        for category, size in real.sizes.items():
            sizes, means = _means(column, real.codes[category], size)
            counts, now = _means(synthetic.numbers[number], synthetic.codes[category], size)
            for code in np.flatnonzero((sizes >= FEWEST) & (counts > 0))[: 4 * WORST]:
                label = labels[category][code] if code < len(labels[category]) else "(missing)"
                numbers = {"real": float(means[code]), "synthetic": float(now[code])}
                error = abs(numbers["synthetic"] - numbers["real"]) / deviation
                found.append({"column": number, "group": f"{category} = {label}", **numbers, "error": error})
    return sorted(found, key=lambda each: -each["error"])


def _means(column: Floats, codes: np.ndarray, size: int) -> tuple[np.ndarray, Floats]:
    present = ~np.isnan(column)
    counts = np.bincount(codes[present], minlength=size)
    return counts, np.bincount(codes[present], column[present], minlength=size) / np.maximum(counts, 1)


# Cautions -----------------------------------------------------------------------------------------------------------

LARGE_TAIL, LARGE_MEAN, LARGE_DAYS = 0.5, 0.5, 0.25
"""Errors that an analyst must know of: of a tail, of a subgroup's mean, and of the median of days, relatively."""
BEYOND_CHANCE = 3.0
"""An error counts only if it is so many times that of other real rows."""


def cautions(found: Mapping[str, list[Finding]], by_chance: Mapping[str, list[Finding]]) -> list[str]:
    """What is so far off that it must be said beside the verdict, in words.

    Args:
        found: All tails, subgroup means and date differences of the synthetic rows.
        by_chance: The same of other real rows.
    """
    said = []
    for each, other in zip(found["date_differences"], by_chance["date_differences"], strict=True):
        gaps = [abs(side["synthetic"][0] - side["real"][0]) for side in (each, other)]
        if gaps[0] > max(1.0, LARGE_DAYS * abs(each["real"][0]), BEYOND_CHANCE * gaps[1]):
            medians = f"{each['synthetic'][0]:.3g}, of real rows {each['real'][0]:.3g}"
            said.append(f"the median of days from {each['columns'][0]} to {each['columns'][1]} is {medians}")
    for kind, key, limit, words in (
        ("tails", "quantile", LARGE_TAIL, "the {1} quantile of {0} is {2:.3g}, of real rows {3:.3g}"),
        ("subgroup_means", "group", LARGE_MEAN, "the mean of {0} where {1} is {2:.3g}, of real rows {3:.3g}"),
    ):
        chance = {(each["column"], each[key]): each["error"] for each in by_chance[kind]}
        for each in found[kind]:
            if each["error"] > max(limit, BEYOND_CHANCE * chance.get((each["column"], each[key]), 0.0)):
                said.append(words.format(each["column"], each[key], each["synthetic"], each["real"]))
    return said


# Regression coefficients --------------------------------------------------------------------------------------------


def coefficient_overlap(
    schema: Schema, real: Side, synthetic: Side, labels: Mapping[str, Sequence[str]]
) -> Finding | None:
    """How far the 95 % intervals of linear regression coefficients overlap, real and synthetic: 1 if they are equal.

    The response is the schema's target or, without one, its last number. The overlap of two intervals is the mean of
    their common length as a part of either, 0 if they are apart (Karr et al. 2006, doi:10.1198/000313006X124640).
    """
    target = schema.target or next(iter(reversed(list(real.numbers))), None)
    if target is None or len(schema) < 2:
        return None
    fits = []
    for side in (real, synthetic):
        x, names = _regressors(side, real, target, labels)
        fits.append((names, _intervals(x, _response(side, real, target))))
    (names, one), (_, other) = fits
    if one is None or other is None:
        return None
    common = np.maximum(0.0, np.minimum(one[:, 1], other[:, 1]) - np.maximum(one[:, 0], other[:, 0]))
    lengths = [np.maximum(each[:, 1] - each[:, 0], 1e-12) for each in (one, other)]
    overlap = (common / lengths[0] + common / lengths[1]) / 2
    worst = np.argsort(overlap, kind="stable")[:WORST]
    return {
        "target": target,
        "overlap": float(overlap.mean()),
        "coefficients": len(names),
        "worst": [
            {"name": names[i], "real": one[i].tolist(), "synthetic": other[i].tolist(), "overlap": float(overlap[i])}
            for i in worst
        ],
    }


def _response(side: Side, scale: Side, target: str) -> Floats:
    """The target as z-scores, or of a category whether it is the commonest value."""
    if target in side.numbers:
        centre, deviation = location_and_deviation(scale.numbers[target])
        return np.clip((side.numbers[target] - centre) / deviation, -5, 5)
    return (side.codes[target] == np.bincount(scale.codes[target]).argmax()).astype(np.float64)


def _regressors(side: Side, scale: Side, target: str, labels: Mapping[str, Sequence[str]]) -> tuple[Floats, list[str]]:
    """Z-scores of the other numbers, and the common values of the other categories but the commonest."""
    columns, names = [np.ones(side.rows)], []
    for name, column in side.numbers.items():
        if name != target and _varies(scale.numbers[name]):
            centre, deviation = location_and_deviation(scale.numbers[name])
            columns.append(np.nan_to_num(np.clip((column - centre) / deviation, -5, 5)))
            names.append(name)
    for name, codes in side.codes.items():
        counts = np.bincount(scale.codes[name], minlength=scale.sizes[name])
        for code in _common(counts) if name != target else ():
            label = labels[name][code] if code < len(labels[name]) else "(missing)"
            columns.append((codes == code).astype(np.float64))
            names.append(f"{name} = {label}")
    return np.column_stack(columns), names


def _varies(column: Floats) -> bool:
    present = column[~np.isnan(column)]
    return bool(len(present)) and present.min() < present.max()


def _common(counts: np.ndarray) -> Iterable[int]:
    """The codes of at least `FEWEST` rows without the commonest, at most nine of them."""
    ranked = np.argsort(-counts, kind="stable")
    return [int(code) for code in ranked[1:10] if counts[code] >= FEWEST]


def _intervals(x: Floats, y: Floats) -> Floats | None:
    """The 95 % intervals of least squares, without the intercept's; None if there are too few rows."""
    known = ~np.isnan(y)
    x, y = x[known], y[known]
    if len(y) <= x.shape[1] + 2 or x.shape[1] < 2:
        return None
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ (x.T @ y)
    variance = float(((y - x @ beta) ** 2).sum()) / (len(y) - x.shape[1])
    error = _Z * np.sqrt(np.maximum(np.diag(inverse) * variance, 0.0))
    return np.column_stack([beta - error, beta + error])[1:]
