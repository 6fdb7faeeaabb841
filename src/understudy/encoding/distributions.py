"""Distribution functions of one column, made from noisy counts.

The public mathematics of the encoder: where to put cells, how to combine counts that were bought in several
rounds, which far cells are noise, and how to read the result in both directions. The one rule: nothing here sees
a row. What comes in are counts that already carry noise, and facts of the schema.

A partition is its ascending edges; cell i is [edges[i], edges[i + 1]). A value that a column repeats (an atom) is a
cell one float wide, [a, nextafter(a)). Integers live between half-integers, so that every whole number is a cell.

Sources: Hay et al. (2010), "Boosting the accuracy of differentially private histograms through consistency", for the
least squares on a tree; Duchi et al. (2008) for the projection to the simplex.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST = 2.0**900  # beyond it numbers are not told apart; the room above keeps widths and slopes from overflowing
SMALLEST_OCTAVE, LARGEST_OCTAVE = -20, 60
ALWAYS_LOOKED_AT = (-1.0, 0.0, 1.0)

# In noise deviations; chosen on real tables, see docs/design-notes.md.
OCCUPIED = 2.0  # a cell with more than this is split
ROWS_PER_PART = 5.0  # and each part should hold this many
MOST_PARTS = 32
NEAR, FAR = 2.0, 5.0  # asked of a neighbouring cell, and of one that would double the range
PER_DOUBLING = 0.05  # and for each further doubling of it: there are ever more cells in which noise could stand out
DOUBTFUL = 3.0  # a cell with less says nothing by itself

TAIL_ROWS = 0.5  # how many rows are expected beyond the last knot, on either side
TAIL_REACH = 0.25  # how far they may lie, as a part of the support
TAIL_KNOTS = np.array([0.02, 0.1, 0.3, 1.0])  # along that reach


def next_float(x):
    return np.nextafter(x, np.inf)


# Where to look ------------------------------------------------------------------------------------------------------


def starting_edges(
    *, low: float | None, high: float | None, integer: bool, atoms: Sequence[float], octaves: int
) -> Floats:
    """The data-independent grid of the first round: powers of two over all floats, cut to the bounds.

    Args:
        octaves: Doublings that one cell spans, see `octaves_for`.
    """
    powers = 2.0 ** np.arange(0 if integer else SMALLEST_OCTAVE, LARGEST_OCTAVE + 1, octaves)
    singles = np.array([*ALWAYS_LOOKED_AT, *atoms, *(b for b in (low, high) if b is not None)])
    first = -LARGEST if low is None else low
    last = LARGEST if high is None else high
    if integer:
        edges = np.concatenate([-powers + 0.5, powers - 0.5, singles - 0.5, singles + 0.5])
        first, last = first - 0.5, last + 0.5
    else:
        edges = np.concatenate([-powers, powers, singles, next_float(singles)])
        last = next_float(last) if high is not None else last
    edges = edges[(edges > first) & (edges < last)]
    return np.unique(np.concatenate([[first], edges, [last]]))


def octaves_for(noise: float, rows: float) -> int:
    """How many doublings a cell of the first round spans: 1, 2 or 4.

    The larger the noise beside the number of rows, the wider, so that a small group far from the rest falls into
    one cell and stands out.
    """
    return int(2 ** np.clip(np.ceil(np.log2(noise / rows / 0.0015)), 0, 2))


def cell_of(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """The cell of every value; beyond the edges the nearest one, and -1 for a missing value."""
    cells = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return np.where(np.isnan(values), -1, cells)


def _is_geometric(a, b):
    """Whether cells [a, b) are so wide that their inside is best measured in doublings."""
    near, far = np.minimum(np.abs(a), np.abs(b)), np.maximum(np.abs(a), np.abs(b))
    return (np.sign(a) * np.sign(b) > 0) & (far > 2.001 * near) & (near >= 2.0**SMALLEST_OCTAVE) & (far < LARGEST)


def _inner_points(a: float, b: float, parts: int) -> Floats:
    """`parts` + 1 points from a to b, evenly spaced or, over more than a doubling, evenly in the logarithm."""
    if _is_geometric(a, b):
        return np.sign(a) * np.geomspace(abs(a), abs(b), parts + 1)
    return np.linspace(a, b, parts + 1)


def split_cell(a: float, b: float, parts: int, *, integer: bool) -> list[float]:
    """The lower edges of the parts of one cell; a cell that cannot be divided stays whole."""
    narrow = b - a < 1.5 if integer else b <= next_float(a)
    if parts < 2 or narrow or max(abs(a), abs(b)) >= LARGEST:
        return [a]
    points = _inner_points(a, b, parts)[1:-1]
    points = np.floor(points) + 0.5 if integer else points
    return [a, *np.unique(points[(points > a) & (points < b)]).tolist()]


def refine(edges: Floats, masses: Floats, *, noise_so_far: float, noise_ahead: float, integer: bool):
    """Splits every cell that is surely occupied into parts that the noise still to come can tell apart.

    Returns:
        The finer edges, and for every new cell the index of the cell it came from.
    """
    new, parents = [], []
    for i, mass in enumerate(masses):
        parts = 1
        if mass > OCCUPIED * noise_so_far:
            parts = int(np.clip(mass // (ROWS_PER_PART * noise_ahead), 1, MOST_PARTS))
        lower = split_cell(edges[i], edges[i + 1], parts, integer=integer)
        new += lower
        parents += [i] * len(lower)
    return np.array([*new, edges[-1]]), np.array(parents)


# What was counted ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Round:
    """Noisy counts of one round over one partition, with their noise variance and each cell's parent."""

    counts: Floats
    variance: float
    parents: NDArray[np.int64]


def combine(rounds: Sequence[Round]) -> Floats:
    """Generalised least squares over nested partitions: the best unbiased masses of the last one's cells.

    Upwards, each cell's own count is averaged with the sum of its children, weighted by 1 / variance; downwards, the
    difference that remains is shared among the children in proportion to their variance.
    """
    z, v = rounds[-1].counts, np.full(len(rounds[-1].counts), rounds[-1].variance)
    below = []
    for upper, lower in zip(rounds[-2::-1], rounds[:0:-1], strict=True):
        size = len(upper.counts)
        child_sum, child_variance = np.bincount(lower.parents, z, size), np.bincount(lower.parents, v, size)
        below.append((z, v, child_sum, child_variance))
        v = 1 / (1 / upper.variance + 1 / child_variance)
        z = v * (upper.counts / upper.variance + child_sum / child_variance)
    for (z_child, v_child, child_sum, child_variance), lower in zip(below[::-1], rounds[1:], strict=True):
        z = z_child + v_child * ((z - child_sum) / child_variance)[lower.parents]
    return z


def to_simplex(masses: Floats, total: float) -> Floats:
    """The nearest non-negative masses with the given sum, in the Euclidean distance."""
    descending = np.sort(masses)[::-1]
    shift = (np.cumsum(descending) - total) / np.arange(1, len(masses) + 1)
    above = np.flatnonzero(descending > shift)
    if len(above) == 0:  # noise so large that the total is lost in rounding
        return np.where(np.arange(len(masses)) == np.argmax(masses), total, 0.0)
    return np.maximum(masses - shift[above[-1]], 0.0)


def support(edges: Floats, masses: Floats, noise: float) -> tuple[int, Floats]:
    """The first cell that holds rows rather than noise, and the masses from it to the last one that does.

    Grows outwards from the heaviest cell. Evidence is a cell, or a run of cells, whose sum stands out of the noise;
    the farther it would stretch the range (as a multiple of the range so far), the more of it is asked for. A run that
    only stands out together is put where it begins: that its rows are there at all is sure, how far out they go is
    not. So no value is made of noise alone, and a near tail or a small group far away is not cut off.
    """
    first = last = int(np.argmax(masses))
    for _ in range(2):  # the second pass knows the width the first one found
        last, masses = _grow(edges, masses, noise, first, last)
        mirrored, masses = _grow(-edges[::-1], masses[::-1], noise, len(masses) - 1 - last, len(masses) - 1 - first)
        first, masses = len(masses) - 1 - mirrored, masses[::-1]
    return first, masses[first : last + 1]


def _grow(edges: Floats, masses: Floats, noise: float, first: int, last: int) -> tuple[int, Floats]:
    """The last cell of the support, grown upwards from `last`, and the masses with runs put where they begin."""
    position, masses = np.clip(edges, -1e150, 1e150), masses.copy()
    start = last + 1
    for i in range(start, len(masses)):
        end = position[last] + _used_width(position[last], position[last + 1], outward=1)
        width = end - position[first]
        stretch = (position[i + 1] - end) / max(width, 1e-100)
        asked = NEAR + (FAR - NEAR) * min(1.0, stretch)
        if width > max(1e-100, 1e-9 * abs(end)):  # a single atom has no width to compare with
            asked += PER_DOUBLING * np.log2(max(1.0, stretch))
        run = masses[start : i + 1][::-1]
        deviations = np.cumsum(run) / (noise * np.sqrt(np.arange(1, len(run) + 1)))
        if masses[i] > noise and deviations.max() > asked:
            begin = i - int(deviations.argmax())
            held = masses[begin : i + 1].sum()
            masses[begin : i + 1] = 0.0
            masses[begin] = held
            last, start = begin, i + 1
    return last, masses


def without_gaps(masses: Floats, noise: float) -> Floats:
    """Masses with their long runs of doubtful cells settled: evened out where they hold rows together, else emptied.

    Between two groups far apart lie many cells of nothing but noise, half of it positive; without this they would
    fill the gap with rows.
    """
    masses = masses.copy()
    doubtful = np.r_[False, masses <= DOUBTFUL * noise, False]
    turns = np.diff(doubtful.astype(int))
    starts, stops = np.flatnonzero(turns == 1), np.flatnonzero(turns == -1)
    for start, stop in zip(starts, stops, strict=True):
        length, held = stop - start, masses[start:stop].sum()
        if length > 2:
            masses[start:stop] = held / length if held > DOUBTFUL * noise * np.sqrt(length) else 0.0
    return masses


# What is learned ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Distribution:
    """A distribution function: linear between knots (values, cdf), with a jump where a value is repeated.

    Attributes:
        values: Ascending knots; an atom a is two knots, both at a.
        cdf: Ascending from 0 to 1, same length.
        integer: Whole numbers: knots are half-integers, and a number k owns [k - 1/2, k + 1/2).
    """

    values: Floats
    cdf: Floats
    integer: bool = False

    def interval(self, x: Floats) -> tuple[Floats, Floats]:
        """The probabilities (P(X < x), P(X <= x)) of every value; they differ on atoms and whole numbers alone."""
        if self.integer:
            below, above = np.interp(x - 0.5, self.values, self.cdf), np.interp(x + 0.5, self.values, self.cdf)
            return below, np.maximum(below, above)
        first = np.searchsorted(self.values, x, side="left")
        after = np.searchsorted(self.values, x, side="right")
        level = np.interp(x, self.values, self.cdf)
        repeated = after - first > 1
        below = np.where(repeated, self.cdf[np.minimum(first, len(self.cdf) - 1)], level)
        return below, np.where(repeated, self.cdf[after - 1], level)

    def quantile(self, u: Floats) -> Floats:
        """The value at probability u: the other direction of `interval`."""
        x = np.interp(u, self.cdf, self.values)
        # A knot k + 1/2 is the end of k: several levels may lie on it, none of them of k + 1.
        return np.maximum(np.ceil(x - 0.5), np.ceil(self.values[0])) if self.integer else x

    def atoms(self) -> tuple[Floats, Floats]:
        """The probability intervals (below, above) that belong to one value each, for the moments of scores."""
        repeated = np.diff(self.values) <= (1.0 if self.integer else 0.0)
        return self.cdf[:-1][repeated], self.cdf[1:][repeated]


def distribution(edges: Floats, masses: Floats, *, noise: float, low, high, integer: bool) -> Distribution:
    """The distribution function that noisy masses over a partition stand for.

    Noise cells at the ends are dropped, masses are made non-negative, wide cells are filled evenly in the logarithm,
    an end cell continues the density of its neighbour and dies away, and thin tails follow, with a trace that joins
    them to the bounds where there are any. What lies farther out is read as the last knot.
    """
    first, inside = support(edges, masses, noise)
    inside = without_gaps(inside, noise)
    total = max(float(inside.sum()), 1.0)
    inside = to_simplex(inside, total)
    kept = np.flatnonzero(inside > 0)
    inside = inside[kept[0] : kept[-1] + 1] / inside.sum()
    edges = edges[first + kept[0] : first + kept[-1] + 2]
    values, cdf = _knots(edges, inside, integer=integer)
    return _with_tails(values, cdf, low=low, high=high, integer=integer, mass=TAIL_ROWS / max(total, 1.0))


def _knots(edges: Floats, masses: Floats, *, integer: bool) -> tuple[Floats, Floats]:
    """Knots of every cell in turn: two for an atom, several for a wide or a dying cell."""
    values, cdf, level = [], [], 0.0
    for i, mass in enumerate(masses):
        points, shares = _inside(edges, masses, i, integer=integer)
        points, shares = _between_numbers(points, shares) if integer else (points, shares)
        values.append(points)
        cdf.append(level + mass * shares)
        level += mass
    return np.maximum.accumulate(np.concatenate(values)), np.clip(np.concatenate(cdf) / level, 0.0, 1.0)


def _inside(edges: Floats, masses: Floats, i: int, *, integer: bool) -> tuple[Floats, Floats]:
    """Where in cell i its mass lies: points, and the share of the mass below each."""
    a, b = edges[i], edges[i + 1]
    if not integer and b <= next_float(a):
        return np.array([a, a]), np.array([0.0, 1.0])
    outward = -1 if i == 0 else 1 if i == len(masses) - 1 else 0
    if not outward or len(masses) == 1:
        return _even(a, b)
    beside = i - outward
    width = edges[beside + 1] - edges[beside]
    is_atom = not integer and edges[beside + 1] <= next_float(edges[beside])
    density = 0.0 if is_atom else masses[beside] / width
    reach = masses[i] / density if masses[i] < density / 2 * (b - a) else np.inf
    return _outermost(a, b, reach, outward=outward)


def _between_numbers(points: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """The same shares at the half-integers around the points, so that no knot cuts through a whole number."""
    halves = np.unique(np.concatenate([np.floor(points - 0.5) + 0.5, np.ceil(points - 0.5) + 0.5]))
    return halves, np.interp(halves, points, shares)


def _even(a: float, b: float) -> tuple[Floats, Floats]:
    """Mass spread evenly over [a, b), in the logarithm if that spans more than a doubling."""
    if not _is_geometric(a, b):
        return np.array([a, b]), np.array([0.0, 1.0])
    parts = int(np.ceil(2 * np.log2(max(abs(a), abs(b)) / min(abs(a), abs(b)))))
    return _inner_points(a, b, parts), np.linspace(0.0, 1.0, parts + 1)


def _outermost(a: float, b: float, reach: float, *, outward: int) -> tuple[Floats, Floats]:
    """An end cell [a, b), its density continuing its neighbour's and falling exponentially with scale `reach`.

    Of a cell that spans several doublings only the first is used: whoever was counted there is at least as far out
    as the inner end, so no value is more than about twice as far out as a real one.
    """
    near = _used_width(a, b, outward=outward)
    if np.isfinite(reach):
        near = min(near, 6 * reach)  # e⁻⁶: what lies beyond is the thin tail's
        distance = np.concatenate([[0.0], np.geomspace(min(reach / 8, near / 2), near, 12)])
        share = -np.expm1(-distance / reach)
        share /= share[-1]
    else:
        distance, share = np.array([0.0, near]), np.array([0.0, 1.0])
    return (a + distance, share) if outward > 0 else (b - distance[::-1], 1.0 - share[::-1])


def _used_width(a: float, b: float, *, outward: int) -> float:
    """How much of an end cell [a, b) is used, from its inner end."""
    return min(b - a, abs(a if outward > 0 else b)) if _is_geometric(a, b) else b - a


def _with_tails(values: Floats, cdf: Floats, *, low, high, integer: bool, mass: float) -> Distribution:
    """Adds a thin tail of the given mass at either end, unless the end is a bound already."""
    margin = 0.5 if integer else 0.0
    width = max(values[-1] - values[0], abs(values[-1]) * 1e-9, abs(values[0]) * 1e-9, 1e-300)
    left, below = _tail(-values[0], None if low is None else margin - low, width, mass, margin)
    right, above = _tail(values[-1], None if high is None else high + margin, width, mass, margin)
    p_below, p_above = mass * bool(len(below)), mass * bool(len(above))
    cdf = np.concatenate([below[::-1], p_below + cdf * (1 - p_below - p_above), 1 - above])
    values = np.maximum.accumulate(np.concatenate([-left[::-1], values, right]))
    cdf = np.maximum.accumulate(np.clip(cdf, 0.0, 1.0))
    return Distribution(*(_between_numbers(values, cdf) if integer else (values, cdf)), integer)


def _tail(end: float, bound: float | None, width: float, mass: float, margin: float) -> tuple[Floats, Floats]:
    """Knots beyond `end`, upwards, and the mass beyond each: exponential, then a trace as far as the bound."""
    room = np.inf if bound is None else bound - end
    reach = min(width * TAIL_REACH, room)
    if end <= margin:  # nothing says that a column changes sign
        reach = min(reach, margin - end)
    if room <= 0 or (reach <= 0 and bound is None):
        return np.zeros(0), np.zeros(0)
    knots, beyond = end + max(reach, 0.0) * TAIL_KNOTS, mass * np.exp(-7 * TAIL_KNOTS)
    if bound is None or reach == room:
        beyond[-1] = 0.0
        return knots, beyond
    beyond[-1] *= 1e-3
    return np.append(knots, bound), np.append(beyond, 0.0)
