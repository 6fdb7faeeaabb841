"""Conditions met by importance: rows of a small group from a model that has densities.

For a row x with the conditioned cell left out, the density at candidates for that cell gives the probability that the
condition holds, P(A | rest). Rows of the model are weighted by it and resampled, and the cell is drawn among the
candidates within the condition. Conditions on several columns are met one after the other. As the pool of rows grows,
the result has the model's distribution given the conditions; rejection would need 1 / P(A) rows for one.

The one rule: rows are not copied in secret. The effective number of rows is returned, and too small a one is an error.

Sources: Owen (2013), Monte Carlo theory, methods and examples, chapters 8 and 9; Kitagawa (1996) for resampling.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.synthesizers.base import Interval
from understudy.tables.rejection import SamplingError
from understudy.tables.rules import Condition

_SMALLEST_POOL, _LARGEST_POOL = 8192, 65_536
_STRATA = 24  # A number's levels within a condition, below and above it are each represented by so many.
_MOST_CANDIDATES = 3000
_MOST_EVALUATIONS = 20_000_000  # Candidates times rows: some ten seconds.
_FEWEST_EFFECTIVE = 20.0


class SampledDensity(Protocol):
    """A fitted generator that draws rows and knows their density."""

    def sample(self, n: int, *, key: Key) -> Levels: ...

    def log_density(
        self, encoder: Encoder, columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
    ) -> NDArray[np.float64]: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """Cells that represent all that a column can hold.

    Attributes:
        levels: One for each candidate, NaN for a missing cell.
        log_measure: How much of the features' measure each stands for.
        within: Whether the condition holds there.
        edges: The scores between which it stands for all levels, (2, candidates); NaN for a category.
    """

    levels: NDArray[np.float64]
    log_measure: NDArray[np.float64]
    within: NDArray[np.bool_]
    edges: NDArray[np.float64]


def draw_given(
    generator: SampledDensity,
    encoder: Encoder,
    conditions: Mapping[Condition, Interval],
    n: int,
    *,
    key: Key,
) -> tuple[Levels, float]:
    """Levels of `n` rows that meet the conditions, and how many independent rows they are worth.

    Args:
        conditions: Each with the levels at which it holds, if it is one on a number.

    Privacy:
        Costs nothing: the model and the conditions are public.

    Raises:
        SamplingError: The group is so unlike what the model draws that rows would be copies of a few.
    """
    found = {each: candidates(encoder, each, interval) for each, interval in conditions.items()}
    most = max(len(each.levels) for each in found.values())
    size = max(_SMALLEST_POOL, min(4 * n, _LARGEST_POOL, _MOST_EVALUATIONS // most))
    levels = generator.sample(size, key=key.child("pool"))
    effective = float(size)
    for place, (condition, each) in enumerate(found.items()):
        draw = key.child(f"condition {place}").numpy()
        masses = _masses(generator, encoder, levels, condition.column, each)  # (candidates, rows)
        inside = np.where(each.within[:, None], masses, 0.0)
        weights = inside.sum(axis=0) / np.maximum(masses.sum(axis=0), 1e-300)
        total = float(weights.sum())
        effective = min(effective, total**2 / float((weights**2).sum()) if total > 0 else 0.0)
        if effective < min(_FEWEST_EFFECTIVE, n):
            raise SamplingError(
                f"where: rows with {condition} are so rare in the model that {size} rows drawn from it are worth "
                f"{effective:.1f} of them. Widen the condition, or ask for fewer rows."
            )
        rows = systematic(weights, n if place == len(found) - 1 else size, draw)
        levels = {name: column[rows] for name, column in levels.items()}
        levels[condition.column] = _drawn(inside[:, rows], each, draw)
    order = key.child("order").numpy().permutation(n)  # copies of a row stand beside each other
    return {name: column[order] for name, column in levels.items()}, min(effective, float(n))


def is_supported(encoder: Encoder, condition: Condition) -> bool:
    """Whether candidates can stand for the column of a condition."""
    known = encoder.columns[condition.column]
    return not known.is_pass_through and (known.labels is None or len(known.labels) <= _MOST_CANDIDATES)


def candidates(encoder: Encoder, condition: Condition, interval: Interval) -> Candidates:
    """The cells that stand for all that the column of a condition can hold."""
    from scipy.special import ndtr

    known = encoder.columns[condition.column]
    if known.labels is not None:
        below, above = known.levels(np.arange(len(known.labels), dtype=np.float64))
        wanted = {str(value).lower() if isinstance(value, bool) else value for value in condition.values}
        levels, edges = (below + above) / 2, np.full((2, len(known.labels)), np.nan)
        log_measure = np.where(above > below, 0.0, -np.inf)  # the levels of a category without a share are another's
        within = np.array([label in wanted for label in known.labels])
    else:
        edges, within = _strata(*interval, outermost=encoder.outermost_level)
        levels, widths = ndtr(edges.mean(axis=0)), np.diff(ndtr(edges), axis=0)[0]
        log_measure = np.log(np.maximum(widths, 1e-300)) - _log_normal(encoder, condition.column, levels)
    if known.column.nullable:
        levels, edges = np.append(levels, np.nan), np.column_stack([edges, [np.nan, np.nan]])
        log_measure, within = np.append(log_measure, 0.0), np.append(within, condition.missing)
    return Candidates(levels, log_measure, within, edges)


def _strata(low: float, high: float, *, outermost: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Parts of [0, low], [low, high] and [high, 1] that are even in scores, (2, parts), and whether in the second."""
    from scipy.special import ndtri

    parts = [(0.0, low, False), (low, high, True), (high, 1.0, False)] if low < high else [(0.0, 1.0, False)]
    made = []
    for first, last, inside in parts:
        if last > first:
            ends = np.clip([first, last], min(outermost, last / 2), 1 - min(outermost, (1 - first) / 2))
            lowest, highest = ndtri(ends)
            made.append((np.linspace(lowest, highest, _STRATA + 1), inside))
    edges = np.concatenate([np.stack([each[:-1], each[1:]]) for each, _ in made], axis=1)
    return edges, np.repeat([inside for _, inside in made], _STRATA)


def _log_normal(encoder: Encoder, name: str, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The log density of the standard normal at the scores that stand for levels, a repeated value at its middle."""
    from scipy.special import ndtri

    known, edge = encoder.columns[name], encoder.outermost_level
    below, above = known.levels(known.values(levels))
    score = ndtri(np.clip((below + above) / 2, edge, 1 - edge))
    return -0.5 * score**2 - 0.5 * np.log(2 * np.pi)


def _masses(
    generator: SampledDensity, encoder: Encoder, levels: Levels, name: str, each: Candidates
) -> NDArray[np.float64]:
    """What every candidate is worth in every row, up to a factor of the row's: (candidates, rows)."""
    columns = encoder.decode(levels)
    rows = len(columns[name])
    logs = []
    for level, measure in zip(each.levels, each.log_measure, strict=True):
        columns[name] = encoder.columns[name].values(np.full(rows, level))
        logs.append(generator.log_density(encoder, columns, encoder.labels) + measure)
    stacked = np.nan_to_num(np.stack(logs), nan=-np.inf)
    return np.exp(stacked - np.maximum(stacked.max(axis=0), -1e300))


def systematic(weights: NDArray[np.float64], n: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """`n` places drawn in proportion to the weights, each as often as expected or once more."""
    edges = np.cumsum(weights)
    points = (np.arange(n) + draw.random()) * edges[-1] / n
    return np.minimum(np.searchsorted(edges, points, side="right"), len(weights) - 1)


def _drawn(inside: NDArray[np.float64], each: Candidates, draw: np.random.Generator) -> NDArray[np.float64]:
    """For every row a level within the condition: a candidate by its mass, then evenly between its edges."""
    from scipy.special import ndtr

    sums = np.cumsum(inside, axis=0)
    chosen = (sums < draw.random(inside.shape[1]) * sums[-1]).sum(axis=0)
    first, last = each.edges[:, chosen]
    level = ndtr(first + draw.random(len(chosen)) * (last - first))
    return np.where(np.isnan(first), each.levels[chosen], level)
