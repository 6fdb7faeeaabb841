"""The long tail of a number column: smooth curves fitted to noisy counts.

Public mathematics: counts already carry noise. Far out a bin holds fewer rows than the noise, so that bins taken one by
one say nothing; all of them together still say how fast the tail dies away. So where a column has a long tail, curves
of three families are compared with everything that was counted beyond some point t:

    generalised Pareto:  P(X > x) = (1 + ξ (x - t) / s)^(-1/ξ)
    lognormal:           P(X > x) = Φ((m - ln x) / s)
    Weibull:             P(X > x) = exp(-(x / s)^k)

each given that X > t, times the rows M beyond t. A grid of shapes is laid out; each has the mass M that fits best, and
the weight exp(-χ²/2), χ² its squared distance from the counts in deviations of the noise. The quantiles of the tail
are the weighted geometric means of the curves' quantiles: an arithmetic mean would be that of the heaviest curves that
noise allows.

The farther in a curve begins, the more rows say how it goes on, but the less has the body to do with the tail. So
curves are fitted from several points on, and the geometric mean of those that fit is taken: where the body is of
another shape, only the curves that begin farther out fit. If none does (a separate group far out, a repeated value),
there is no smooth tail and bins are taken as they are.

Sources: Pickands (1975) for the generalised Pareto tail; Hoeting et al. (1999) for averaging over models.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from understudy.privacy.piecewise import Floats, Whole

# Whether a tail is long is judged from where this many deviations of the noise lie beyond, or this share of the rows.
TAIL_DEVIATIONS, TAIL_SHARE = 300.0, 0.35
# It is long if it reaches farther than this many times as far as that of a normal distribution.
LONG = 1.5
# Curves begin where these shares of the values above zero lie beyond, and at least this many deviations of the noise.
SHARES, FEWEST_DEVIATIONS = (0.9, 0.7, 0.5, 0.35, 0.25), 40.0
# A curve fits if χ² is within this many deviations of what noise makes it, and no bin is farther off than that.
WORST_FIT, WORST_BIN = 3.0, 4.5
# A curve says as many rows as were counted beyond where it begins, but for this share of them and the noise.
FARTHEST_OFF = 0.1
# The tail ends where so many rows, and so many deviations of the noise, are expected beyond.
LAST_ROWS, LAST_DEVIATIONS = 0.5, 0.02
# It reaches at most so many times as far as the bins do that stand out of the noise.
FARTHER = 64.0
# Beyond this, floats of a curve could overflow.
FARTHEST = 1e100
# A tail begins above this, well apart from zero.
NEAREST = 2.0**-30
# No curve dies away within a smaller part of the tail than this.
NARROWEST = 1e-4
# A smooth tail has so many bins.
TAIL_BINS = 60

# Tails of most columns have a shape of the first family, or a logarithm of the spread of the second or of the power of
# the third, about like this: a mean and a deviation, of little weight beside the counts.
USUAL_SHAPE, USUAL_SPREAD, USUAL_POWER = (0.1, 0.25), (0.0, 0.4), (-0.2, 0.4)
# Shapes are looked for on a coarse grid, then on finer and finer ones around the best.
_GRID, _FINER = 13, 4
# Where to look is decided on at most about this many bins a round, neighbours joined; the last grid sees all of them.
_COARSE = 256
_SHAPES, _SPREADS, _POWERS = (-0.3, 1.0), (0.25, 4.0), (0.25, 3.0)
# Beyond these shares of a tail its quantiles are computed.
_LEVELS = np.concatenate([np.linspace(1.0, 0.1, 60), np.geomspace(0.1, 1e-6, 100)[1:], [0.0]])


@dataclasses.dataclass(frozen=True)
class Counted:
    """The noisy counts of one round over one partition, and their noise variance."""

    edges: Floats
    counts: Floats
    variance: float


@dataclasses.dataclass(frozen=True)
class Tail:
    """A smooth tail: the edge of the finest partition that it begins at, its own edges from there, and their masses."""

    start: int
    edges: Floats
    masses: Floats


@dataclasses.dataclass(frozen=True)
class _Curve:
    """A fitted tail: how many rows lie beyond where it begins, and its quantiles at `_LEVELS`, ascending."""

    rows: float
    quantiles: Floats


def long_tail(
    counted: Sequence[Counted], masses: Floats, *, noise: float, high: float | None, integer: bool, last: int
) -> Tail | None:
    """The upper tail of a column if it is long and a smooth curve fits it; else None.

    Args:
        counted: All rounds; the last one has the finest partition.
        masses: The best estimate over the finest partition.
        noise: The deviation of a bin that is counted in every round.
        high: The column's upper bound, in which values beyond are counted.
        last: The last bin of the support.
    """
    coarse, edges = counted[-2].edges, counted[-1].edges
    if high is None:  # how far out a value may be made up would follow from noise alone
        return None
    bound = high - 0.5 if integer else high
    first = _start(coarse, edges, masses, min(TAIL_DEVIATIONS * noise, TAIL_SHARE * float(masses.sum())))
    if first is None or first >= last or not _is_long(edges, masses, first, last, noise):
        return None
    positive = float(masses[edges[:-1] > NEAREST].sum())
    enough = [share * positive for share in SHARES if share * positive >= FEWEST_DEVIATIONS * noise]
    starts = {_start(coarse, edges, masses, rows) for rows in enough or [float(masses.sum())]}  # else all above zero
    curves = {}
    for start in sorted(each for each in starts if each is not None and each < last):
        curve = _fitted(counted, masses, start, noise=noise, bound=bound, last=last)
        if curve is not None:
            curves[start] = curve
    if not curves:
        return None
    start = max(curves)
    return _tail(start, _mean(list(curves.values()), float(edges[start])), noise=noise, integer=integer)


def _fitted(
    counted: Sequence[Counted], masses: Floats, start: int, *, noise: float, bound: float, last: int
) -> _Curve | None:
    """The mean of the curves that begin at an edge, weighted by how well they fit; None if none fits well."""
    edges = counted[-1].edges
    end = min(bound, edges[start] + FARTHER * (edges[last + 1] - edges[start]))
    if end > FARTHEST or end <= edges[start + 1]:
        return None
    near = max(float(edges[start + 1]), float(edges[start] + NARROWEST * (end - edges[start])))
    observed = _Observed.of(counted, float(edges[start]), float(end), near)
    curve = observed.smoothed(_Observed.of(counted, float(edges[start]), float(end), near, most=_COARSE))
    held = float(masses[start:].sum())
    if curve is None or abs(curve.rows - held) > FARTHEST_OFF * held + WORST_BIN * noise:
        return None
    return curve


def _mean(curves: Sequence[_Curve], start: float) -> _Curve:
    """The geometric mean of curves, each as many rows from the end of the tail, from where the last one begins."""
    rows = float(np.mean([np.interp(start, each.quantiles, _LEVELS * each.rows) for each in curves]))
    beyond = _LEVELS * rows
    logs = [np.log(np.maximum(np.interp(-beyond, -_LEVELS * each.rows, each.quantiles), start)) for each in curves]
    return _Curve(rows, np.exp(np.mean(logs, axis=0)))


def _is_long(edges: Floats, masses: Floats, start: int, last: int, noise: float) -> bool:
    """Whether a tail reaches far, in distances from the median to where it begins, compared with a normal one."""
    total = max(float(masses.sum()), 1.0)
    beyond = float(masses[start:].sum()) / total
    median = float(edges[int(np.searchsorted(np.cumsum(masses), total / 2))])
    if beyond >= 0.5 or edges[start] <= median:
        return False
    begins, ends = -ndtri(beyond), -ndtri(min(3.0 * noise / total, beyond))
    return float(edges[last + 1] - edges[start]) / (edges[start] - median) > LONG * (ends - begins) / begins


def _start(coarse: Floats, edges: Floats, masses: Floats, held: float) -> int | None:
    """The last edge of the coarser partition beyond which so many rows lie, as an edge of the finest one.

    It is above zero, where many columns have most of their rows.
    """
    beyond = np.cumsum(masses[::-1])[::-1]
    places = np.searchsorted(edges, coarse[:-1])
    enough = (beyond[places] >= held) | (edges[places] <= 0.0)
    positive = places[edges[places] > NEAREST]
    return max(int(places[enough].max(initial=0)), int(positive[0])) if len(positive) else None


@dataclasses.dataclass(frozen=True)
class _Family:
    """Curves of one kind, with two parameters.

    Attributes:
        beyond: The probability of values beyond x.
        quantile: The value with a given probability beyond.
        first, second: The ranges of the parameters.
        usual: What the first one usually is, and its deviation.
    """

    beyond: Callable[[Floats, Floats, Floats], Floats]
    quantile: Callable[[Floats, Floats, Floats], Floats]
    first: tuple[float, float]
    second: tuple[float, float]
    usual: tuple[float, float]


def _pareto(start: float, end: float, near: float) -> _Family:
    def beyond(x: Floats, shape: Floats, scale: Floats) -> Floats:
        shape = np.where(np.abs(shape) < 1e-6, 1e-6, shape)
        return np.maximum(1.0 + shape * (x - start) / np.exp(scale), 0.0) ** (-1.0 / shape)

    def quantile(p: Floats, shape: Floats, scale: Floats) -> Floats:
        shape = np.where(np.abs(shape) < 1e-6, 1e-6, shape)
        return start + np.exp(scale) / shape * (np.maximum(p, 1e-250) ** -shape - 1.0)

    scales = float(np.log((near - start) / 8)), float(np.log(2 * (end - start)))
    return _Family(beyond, quantile, _SHAPES, scales, USUAL_SHAPE)


def _lognormal(start: float, end: float, near: float) -> _Family:
    def beyond(x: Floats, spread: Floats, middle: Floats) -> Floats:
        return ndtr((middle - np.log(x)) / np.exp(spread))

    def quantile(p: Floats, spread: Floats, middle: Floats) -> Floats:
        return np.exp(np.minimum(middle - np.exp(spread) * ndtri(np.maximum(p, 1e-250)), 500.0))

    spreads = float(np.log(_SPREADS[0])), float(np.log(_SPREADS[1]))
    return _Family(beyond, quantile, spreads, (float(np.log(start)) - 8.0, float(np.log(end))), USUAL_SPREAD)


def _weibull(start: float, end: float, near: float) -> _Family:
    def beyond(x: Floats, power: Floats, scale: Floats) -> Floats:
        return np.exp(-np.exp(np.minimum((np.log(x) - scale) * np.exp(power), 6.0)))

    def quantile(p: Floats, power: Floats, scale: Floats) -> Floats:
        exponent = -np.log(np.clip(p, 1e-250, 1.0 - 1e-12))
        return np.exp(np.minimum(scale + np.log(exponent) * np.exp(-power), 500.0))

    powers = float(np.log(_POWERS[0])), float(np.log(_POWERS[1]))
    return _Family(beyond, quantile, powers, (float(np.log(start)) - 10.0, float(np.log(end)) + 1.0), USUAL_POWER)


@dataclasses.dataclass(frozen=True)
class _Average:
    """The curves of one family, averaged: their least misfit, its worst bin, their evidence, and the mean curve."""

    misfit: float
    worst_bin: float
    evidence: float
    curve: _Curve


@dataclasses.dataclass(frozen=True)
class _Observed:
    """What was counted beyond the start of a tail, all rounds after another, in deviations of the noise.

    Attributes:
        start, end: Where the tail begins, and the farthest that it may reach.
        near: Where its first bin ends, or a little farther out.
        points: The edges of all bins, each once, between start and end.
        lower, upper: The places of every bin's edges among them.
        counts, deviations: The noisy counts, already divided by the deviations.
    """

    start: float
    end: float
    near: float
    points: Floats
    lower: Whole
    upper: Whole
    counts: Floats
    deviations: Floats

    @classmethod
    def of(
        cls, counted: Sequence[Counted], start: float, end: float, near: float, most: int | None = None
    ) -> "_Observed":
        """What was counted; with `most`, in about so many bins a round, each of as many neighbours as the others."""
        parts = []
        for each in counted:
            first = int(np.searchsorted(each.edges, start))  # a bin that lies across the start is left out
            held = each.counts[first : len(each.edges) - 1]
            joined = np.arange(0, len(held), 1 if most is None else -(-len(held) // most) or 1)
            lengths = np.diff(joined, append=len(held))
            deviations = np.sqrt(each.variance * lengths)
            edges = each.edges[first:][np.append(joined, len(held))]
            counts = np.add.reduceat(held, joined) if len(held) else held
            parts.append((edges[:-1], edges[1:], counts / deviations, deviations))
        lower, upper, counts, deviations = (np.concatenate(column) for column in zip(*parts, strict=True))
        # A partition has all edges of the coarser one before it.
        points, places = np.unique(np.clip(np.concatenate([lower, upper]), start, end), return_inverse=True)
        return cls(start, end, near, points, places[: len(lower)], places[len(lower) :], counts, deviations)

    def smoothed(self, coarse: "_Observed") -> _Curve | None:
        """The mean of all curves, weighted by how well they fit, found on coarser bins; None if none fits well."""
        families = [make(self.start, self.end, self.near) for make in (_pareto, _lognormal, _weibull)]
        averages = [self._averaged(family, coarse) for family in families]
        best = min(averages, key=lambda each: each.misfit)
        most = len(self.counts) + WORST_FIT * np.sqrt(2 * len(self.counts))
        if best.misfit > most or best.worst_bin > WORST_BIN:
            return None
        weights = np.array([each.evidence * np.exp(-(each.misfit - best.misfit) / 2) for each in averages])
        weights /= weights.sum()
        rows = float(weights @ [each.curve.rows for each in averages])
        return _Curve(rows, np.exp(weights @ np.log([each.curve.quantiles for each in averages])))

    def _averaged(self, family: _Family, coarse: "_Observed") -> _Average:
        """All curves of a family on a grid around the best, averaged."""
        first, second, usual = family.first, family.second, family.usual
        ranges, misfit, mass = [first, second], np.zeros(1), np.zeros(1)
        a = b = residual = np.zeros((1, 1))
        grids: list[Floats] = []
        for observed in [*[coarse] * (_FINER - 1), self]:
            grids = [np.linspace(low, high, _GRID) for low, high in ranges]
            a, b = (grid.ravel()[:, None] for grid in np.meshgrid(*grids))
            expected = observed._expected(family, a, b)
            squares = np.einsum("ij,ij->i", expected, expected)
            mass = np.maximum(expected @ observed.counts / np.maximum(squares, 1e-30), 0.0)
            residual = observed.counts - mass[:, None] * expected
            misfit = np.einsum("ij,ij->i", residual, residual) + ((a[:, 0] - usual[0]) / usual[1]) ** 2
            likely = misfit < misfit.min() + 16.0
            ranges = [
                (max(whole[0], each[likely].min() - step), min(whole[1], each[likely].max() + step))
                for each, whole, step in zip((a, b), (first, second), (g[1] - g[0] for g in grids), strict=True)
            ]
        best = int(np.argmin(misfit))
        weight = np.exp(-(misfit - misfit[best]) / 2)
        # Scales and middles are logarithms in all families, and every one of them was as likely before.
        evidence = float(weight.sum() * (grids[0][1] - grids[0][0]) / usual[1] * (grids[1][1] - grids[1][0]))
        weight /= weight.sum()
        curve = _Curve(float(weight @ mass), np.exp(weight @ np.log(self._quantiles(family, a, b))))
        return _Average(float(misfit[best]), float(np.abs(residual[best]).max()), evidence, curve)

    def _expected(self, family: _Family, a: Floats, b: Floats) -> Floats:
        """For each curve, the share of the tail that lies in each bin, in deviations of the noise."""
        ends, whole = (family.beyond(np.array([each]), a, b) for each in (self.end, self.start))
        beyond = family.beyond(self.points, a, b)
        expected = beyond[:, self.lower]
        expected -= beyond[:, self.upper]
        expected /= np.maximum(whole - ends, 1e-12)
        expected /= self.deviations
        return expected

    def _quantiles(self, family: _Family, a: Floats, b: Floats) -> Floats:
        """For each curve, its quantiles at `_LEVELS` of what lies between start and end."""
        ends, whole = (family.beyond(np.array([each]), a, b) for each in (self.end, self.start))
        quantiles = family.quantile(ends + _LEVELS * (whole - ends), a, b)
        quantiles = np.clip(quantiles, self.start, self.end)
        quantiles[:, 0] = self.start
        return np.maximum.accumulate(quantiles, axis=1)


def _tail(start: int, curve: _Curve, *, noise: float, integer: bool) -> Tail | None:
    """The tail in bins of equal steps of its survival in the logarithm, as far as rows are expected."""
    kept = int((_LEVELS * curve.rows >= max(LAST_ROWS, LAST_DEVIATIONS * noise)).sum()) + 1
    beyond, points = _LEVELS[:kept], np.maximum.accumulate(curve.quantiles[:kept])
    if len(points) < 3:
        return None
    steps = np.linspace(0.0, np.log(max(beyond[-1], 1e-9)), TAIL_BINS + 1)
    marks = np.interp(-steps, -np.log(np.maximum(beyond, 1e-9)), points)
    marks = np.unique(np.floor(marks) + 0.5 if integer else marks)
    marks[0] = points[0]
    left = np.interp(marks, points, beyond)
    if len(marks) < 3 or left[-1] >= 1.0:
        return None
    return Tail(start, marks, curve.rows * (left[:-1] - left[1:]) / (1.0 - left[-1]))
