"""Distribution functions of one column, made from noisy counts over a partition.

Public mathematics: which far bins are noise, how the mass lies inside a bin, and how the tails end. The one rule:
nothing here sees a row. What comes in are counts that already carry noise, and facts of the schema. How a distribution
is read, in both directions, is in privacy/piecewise.py.
"""

from collections.abc import Sequence

import numpy as np

from understudy.encoding.consistency import to_simplex
from understudy.encoding.partitions import inner_points, is_geometric, next_float
from understudy.encoding.tails import Counted, long_tail
from understudy.privacy.piecewise import Distribution, Floats

# A neighbouring bin belongs to the support if it holds NEAR deviations of the noise, and one that would double the
# range if it holds FAR. All of these were chosen on real tables, see docs/design-notes.md.
NEAR, FAR = 2.0, 5.0
# Between bounds that the schema gives, noise cannot stretch the range far, so a far bin needs fewer deviations.
FAR_WITHIN_BOUNDS = 3.5
# Each further doubling of the range asks for this many deviations more: there are ever more bins in which noise could
# stand out.
PER_DOUBLING = 0.05
# A bin with fewer deviations of the noise than this says nothing by itself.
DOUBTFUL = 3.0

# This many rows are expected beyond the last knot, on either side.
TAIL_ROWS = 0.5
# They may lie this far out, as a share of the support.
TAIL_REACH = 0.25
# A tail has knots at these shares of its reach.
TAIL_KNOTS = np.array([0.02, 0.1, 0.3, 1.0])


def support(edges: Floats, masses: Floats, noise: float, *, far: float = FAR) -> tuple[int, Floats]:
    """The first bin that holds rows rather than noise, and the masses from it to the last one that does.

    Grows outwards from the heaviest bin. Evidence is a bin, or a run of bins, whose sum stands out of the noise;
    the farther it would stretch the range (as a multiple of the range so far), the more of it is asked for. A run that
    only stands out together is put where it begins: its rows are surely there, but how far out they go is unknown. So
    no value is made of noise alone, and a near tail or a small group far away is not cut off.

    Args:
        far: The deviations that a bin must hold to double the range.
    """
    first = last = int(np.argmax(masses))
    for _ in range(2):  # the second pass knows the width the first one found
        last, masses = _grow(edges, masses, noise, first, last, far)
        ends = len(masses) - 1 - last, len(masses) - 1 - first
        mirrored, masses = _grow(-edges[::-1], masses[::-1], noise, *ends, far)
        first, masses = len(masses) - 1 - mirrored, masses[::-1]
    return first, masses[first : last + 1]


def _grow(edges: Floats, masses: Floats, noise: float, first: int, last: int, far: float) -> tuple[int, Floats]:
    """The last bin of the support, grown upwards from `last`, and the masses with runs put where they begin."""
    position, masses = np.clip(edges, -1e150, 1e150), masses.copy()
    start = last + 1
    for i in range(start, len(masses)):
        end = position[last] + _used_width(position[last], position[last + 1], outward=1)
        width = end - position[first]
        stretch = (position[i + 1] - end) / max(width, 1e-100)
        asked = NEAR + (far - NEAR) * min(1.0, stretch)
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
    """Masses with their long runs of doubtful bins settled: evened out where they hold rows together, else emptied.

    Between two groups far apart lie many bins of nothing but noise, half of it positive; without this they would
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


def distribution(
    edges: Floats,
    masses: Floats,
    *,
    noise: float,
    low: float | None,
    high: float | None,
    integer: bool,
    counted: Sequence[Counted] = (),
) -> Distribution:
    """The distribution function that noisy masses over a partition stand for.

    Bins of noise at either end are dropped and masses are made non-negative. Wide bins are filled evenly in the
    logarithm; an end bin continues the density of its neighbour and dies away. Thin tails follow, with a trace that
    joins them to the bounds, if the schema gives any. What lies farther out is read as the last knot.

    Args:
        counted: All rounds of counts, of which a long upper tail is made (tails.py); without them, of bins alone.
    """
    bounded = low is not None and high is not None
    first, inside = support(edges, masses, noise, far=FAR_WITHIN_BOUNDS if bounded else FAR)
    inside = without_gaps(inside, noise)
    last = first + len(inside) - 1
    tail = long_tail(counted, masses, noise=noise, high=high, integer=integer, last=last) if counted else None
    if tail is not None and tail.start > first:
        inside = np.concatenate([inside[: tail.start - first], tail.masses])
        edges = np.concatenate([edges[: tail.start], tail.edges])
    total = max(float(inside.sum()), 1.0)
    inside = to_simplex(inside, total)
    kept = np.flatnonzero(inside > 0)
    inside = inside[kept[0] : kept[-1] + 1] / inside.sum()
    edges = edges[first + kept[0] : first + kept[-1] + 2]
    values, cdf = _knots(edges, inside, integer=integer)
    return _with_tails(values, cdf, low=low, high=high, integer=integer, mass=TAIL_ROWS / max(total, 1.0))


def _knots(edges: Floats, masses: Floats, *, integer: bool) -> tuple[Floats, Floats]:
    """Knots of every bin in turn: two for an atom, several for a wide or a dying bin."""
    values: list[Floats] = []
    cdf: list[Floats] = []
    level = 0.0
    for i, mass in enumerate(masses):
        points, shares = _inside(edges, masses, i, integer=integer)
        points, shares = _between_numbers(points, shares) if integer else (points, shares)
        values.append(points)
        cdf.append(level + mass * shares)
        level += mass
    return np.maximum.accumulate(np.concatenate(values)), np.clip(np.concatenate(cdf) / level, 0.0, 1.0)


def _inside(edges: Floats, masses: Floats, i: int, *, integer: bool) -> tuple[Floats, Floats]:
    """Where in bin i its mass lies: points, and the share of the mass below each."""
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
    if not is_geometric(a, b):
        return np.array([a, b]), np.array([0.0, 1.0])
    parts = int(np.ceil(2 * np.log2(max(abs(a), abs(b)) / min(abs(a), abs(b)))))
    return inner_points(a, b, parts), np.linspace(0.0, 1.0, parts + 1)


def _outermost(a: float, b: float, reach: float, *, outward: int) -> tuple[Floats, Floats]:
    """An end bin [a, b), its density continuing its neighbour's and falling exponentially with scale `reach`.

    Of a bin that spans several doublings only the first is used: a row that was counted there lies at least as far out
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
    """How much of an end bin [a, b) is used, from its inner end."""
    return min(b - a, abs(a if outward > 0 else b)) if is_geometric(a, b) else b - a


def _with_tails(
    values: Floats, cdf: Floats, *, low: float | None, high: float | None, integer: bool, mass: float
) -> Distribution:
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
