"""Distances of histograms: total variation of marginals, and the Jensen-Shannon distance of columns.

The one rule: every result says how numbers were binned and which tuples of columns were looked at. All values are 0
for a table against itself; larger is worse. A missing value has a bin, or a category, of its own.

Source: Jensen-Shannon distance, Endres and Schindelin (2003), IEEE Trans. Inf. Theory 49.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from understudy.evaluation.pair import Codes, Floats, MetricResult, Pair, Parts

EQUAL_BINS, QUANTILE_BINS, JS_BINS = 100, {2: 20, 3: 6}, 20
"""How many bins a column of numbers has for `tvd`, for quantile bins of pairs and of triples, and for `js`."""
MOST_PAIRS, MOST_TUPLES, MOST_QUANTILE_TRIPLES = 5000, 200, 400
"""How many pairs, wider tuples and triples on quantile bins are looked at; of more, this many are drawn at random."""
_DENSE_CELLS = 2**17
"""A marginal of more cells than this is counted by sorting, because an array of all cells would be mostly zeros."""

Binned = tuple[Codes, Codes, int]
"""One column, or several jointly: the bins of the real rows, those of the synthetic rows, and how many there are."""
Binning = Callable[[Floats, Floats], Binned]
"""Bins two columns of numbers without their missing values."""


def tvd(pair: Pair, width: int) -> MetricResult:
    """Mean total variation distance of the marginals of `width` columns, on 100 equal bins a number.

    A number x is in bin round(99·(x − min) / (max − min)), over both sides.
    """
    binning = functools.partial(_equal_bins, place=lambda unit: np.rint((EQUAL_BINS - 1) * unit))
    definition = f"numbers: {EQUAL_BINS} equal-width bins over both tables; categories by label; missing: a bin"
    return _mean_tvd(pair, _binned(pair, binning), width, definition)


def tvd_quantile(pair: Pair, width: int) -> MetricResult:
    """Mean total variation distance of pairs or triples of columns, on bins of equal mass of the real side.

    A number has 20 bins for pairs and 6 for triples, so that most bins of a marginal hold several rows. A value that
    makes up a bin's share of the real column by itself, an atom, has a bin of its own.
    """
    bins = QUANTILE_BINS[width]
    definition = (
        f"numbers: {bins} quantile bins of the real table, each value with 1/{bins} of its "
        "column a bin by itself; categories by label; missing: a bin"
    )
    most = MOST_QUANTILE_TRIPLES if width == 3 else None
    binned = _binned(pair, functools.partial(quantile_bins, bins=bins))
    return _mean_tvd(pair, binned, width, definition, most=most)


def quantile_distances(pair: Pair, *, width: int, bins: int, most: int | None = None) -> Parts:
    """The total variation distance of each marginal of `width` columns, on quantile bins of the real side."""
    return _mean_tvd(pair, _binned(pair, functools.partial(quantile_bins, bins=bins)), width, "", most=most).parts


def tuple_distances(pair: Pair, tuples: Iterable[tuple[str, ...]], *, bins: int) -> Parts:
    """The total variation distance of some marginals, on quantile bins of the real side; 1 if one side has no rows."""
    if not pair.real.rows or not pair.synthetic.rows:
        return dict.fromkeys(tuples, float(pair.real.rows != pair.synthetic.rows))
    binned = _binned(pair, functools.partial(quantile_bins, bins=bins))
    return {names: total_variation(*_joint([binned[name] for name in names])) for names in tuples}


def js(pair: Pair) -> MetricResult:
    """Sum over columns of the Jensen-Shannon distance √JSD, in natural logarithms; at most √ln 2 a column."""
    from scipy.spatial.distance import jensenshannon

    binning = functools.partial(_equal_bins, place=lambda unit: np.minimum(np.floor(JS_BINS * unit), JS_BINS - 1))
    parts = {}
    for name, (real, synthetic, size) in _binned(pair, binning).items():
        p, q = shares(real, size), shares(synthetic, size)
        with np.errstate(invalid="ignore"):  # of two equal sides scipy may take the root of a small negative number
            parts[(name,)] = 0.0 if np.array_equal(p, q) else float(np.nan_to_num(jensenshannon(p, q)))
    definition = (
        f"Jensen-Shannon distance (natural log); numbers: {JS_BINS} equal-width bins over both tables; categories by "
        "label; missing: a bin"
    )
    return MetricResult(value=sum(parts.values()), summary="sum over columns", definition=definition, parts=parts)


def total_variation(real: Codes, synthetic: Codes, size: int) -> float:
    """Half the L1 distance of the shares of codes."""
    return 0.5 * float(np.abs(shares(real, size) - shares(synthetic, size)).sum())


def shares(codes: Codes, size: int) -> Floats:
    """The share of each of `size` codes."""
    return np.bincount(codes, minlength=size) / len(codes)


def _mean_tvd(
    pair: Pair, binned: dict[str, Binned], width: int, definition: str, *, most: int | None = None
) -> MetricResult:
    tuples, which = _tuples(pair.names, width, pair.seed, most or (MOST_PAIRS if width <= 2 else MOST_TUPLES))
    if not tuples:
        return MetricResult(value=None, summary=f"needs at least {width} columns")
    parts = {names: total_variation(*_joint([binned[name] for name in names])) for names in tuples}
    return MetricResult(
        value=float(np.mean(list(parts.values()))),
        summary=f"mean over {which}",
        definition=f"half the L1 distance of shares; {definition}",
        parts=parts,
    )


def _tuples(names: tuple[str, ...], width: int, seed: int, most: int) -> tuple[list[tuple[str, ...]], str]:
    """The tuples of columns to look at, and what they are: all, or a seeded draw if there are more than `most`."""
    total = math.comb(len(names), width)
    what = {1: "columns", 2: "pairs of columns", 3: "triples of columns"}.get(width, f"{width}-tuples of columns")
    if width == 1 or total <= most:
        return list(itertools.combinations(names, width)), f"all {total} {what}"
    draw, chosen = np.random.default_rng(seed), set()
    while len(chosen) < most:
        chosen.add(tuple(sorted(draw.choice(len(names), width, replace=False).tolist())))
    drawn = [tuple(names[place] for place in places) for places in sorted(chosen)]
    return drawn, f"{most} of {total} {what}, drawn with seed {seed}"


def _joint(columns: Sequence[Binned]) -> Binned:
    """The cells of a joint marginal, renumbered if they are too many to count densely."""
    real, synthetic, size = columns[0]
    for more_real, more_synthetic, factor in columns[1:]:
        real, synthetic, size = real * factor + more_real, synthetic * factor + more_synthetic, size * factor
        if size > _DENSE_CELLS:
            seen, places = np.unique(np.concatenate([real, synthetic]), return_inverse=True)
            real, synthetic, size = places[: len(real)], places[len(real) :], len(seen)
    return real, synthetic, size


# Binning ------------------------------------------------------------------------------------------------------------


def _binned(pair: Pair, binning: Binning) -> dict[str, Binned]:
    return {name: _binned_column(pair, name, binning) for name in pair.names}


def _binned_column(pair: Pair, name: str, binning: Binning) -> Binned:
    if name in pair.real.codes:
        return pair.real.codes[name], pair.synthetic.codes[name], pair.real.sizes[name]
    columns = [side.numbers[name] for side in pair.sides]
    present = [~np.isnan(column) for column in columns]
    *binned, size = binning(*(column[here] for column, here in zip(columns, present, strict=True)))
    real, synthetic = (np.full(len(column), size) for column in columns)  # the last bin: missing
    for codes, here, found in zip((real, synthetic), present, binned, strict=True):
        codes[here] = found
    return real, synthetic, size + 1


def _equal_bins(real: Floats, synthetic: Floats, *, place: Callable[[Floats], Floats]) -> Binned:
    """Bins of equal width over both sides; `place` is the bin of a number scaled to [0, 1]."""
    both = np.concatenate([real, synthetic])
    if not len(both):
        return both.astype(np.int64), both.astype(np.int64), 1
    width = both.max() - both.min()
    codes = place((both - both.min()) / width if width > 0 else np.zeros(len(both))).astype(np.int64)
    return codes[: len(real)], codes[len(real) :], int(codes.max()) + 1


def quantile_bins(real: Floats, synthetic: Floats, *, bins: int) -> Binned:
    """Bins of equal mass on the real side; a value with a whole bin's share, an atom, has one of its own."""
    if not len(real):  # without a quantile, all synthetic values share one bin
        return np.zeros(0, dtype=np.int64), np.zeros(len(synthetic), dtype=np.int64), 1
    values, counts = np.unique(real, return_counts=True)
    atoms = values[counts * bins >= len(real)]
    inner = np.quantile(real, np.arange(1, bins) / bins, method="inverted_cdf")
    edges = np.unique(np.concatenate([inner, atoms]))
    # [edge, next edge) has an even code; an atom has the odd code after that of its own edge.
    codes = [2 * np.searchsorted(edges, side, "right") + np.isin(side, atoms) for side in (real, synthetic)]
    return codes[0], codes[1], 2 * len(edges) + 2
