"""Pooling: noisy marginals averaged where they are of the same clique, and made to agree with each other.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.marginals import Clique, Domain, Measured
from understudy.graphical.messages import summed

Floats = NDArray[np.float64]
Pooled = Mapping[Clique, tuple[Floats, float]]
"""For each clique, noisy counts and the deviation of their noise."""

# A count is never taken to be sharper than half a row: that would cost many steps and change nothing that can be seen.
SMALLEST_SIGMA = 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class _Average:
    """The average of the counts of one clique, weighted by precision.

    Attributes:
        margins: Its sums along every axis, one after another.
        bins: The bins of its columns, in the same order, as numbers among those of all columns.
    """

    counts: Floats
    precision: float
    margins: Floats
    bins: NDArray[np.int64]


class Pool:
    """Measured marginals in the domain's order; those of one clique are averaged, weighted by their precision.

    Attributes:
        in_blocks: Marginals that were counted in blocks (`Measured.starts`), which are not pooled.
    """

    def __init__(self, domain: Domain, measured: Iterable[Measured] = ()):
        self._domain, self._averages = domain, dict[Clique, _Average]()
        starts = np.cumsum([0, *domain.shape(domain.names)])
        self._starts = dict(zip(domain.names, starts.tolist(), strict=False))
        self.in_blocks: list[Measured] = []
        for each in measured:
            self.add(each)

    def add(self, measured: Measured) -> None:
        """Takes in one more marginal."""
        if measured.starts:
            self.in_blocks.append(measured)
            return
        clique = self._domain.ordered(measured.clique)
        counts = np.transpose(measured.counts, [measured.clique.index(name) for name in clique])
        precision = max(measured.sigma, SMALLEST_SIGMA) ** -2
        if (known := self._averages.get(clique)) is not None:
            total = known.precision * known.counts + precision * counts
            precision += known.precision
            counts = total / precision
        margins = np.concatenate([margin(counts, axis) for axis in range(counts.ndim)])
        ranges = [np.arange(self._domain.sizes[name]) + self._starts[name] for name in clique]
        self._averages[clique] = _Average(counts, precision, margins, np.concatenate(ranges))

    def consistent(self, rows: float) -> dict[Clique, tuple[Floats, float]]:
        """The averages, made to agree on the number of rows and on every single column.

        The counts of a single column are pooled from all marginals that hold it, weighted by precision: least squares
        as far as single columns go. Without this, marginals that disagree would hold large potentials against each
        other.
        """
        if not self._averages:
            return {}
        known = list(self._averages.values())
        margins, bins = (np.concatenate([getattr(each, name) for each in known]) for name in ("margins", "bins"))
        lengths = np.array([size for each in known for size in each.counts.shape])
        cells = np.array([each.counts.size for each in known for _ in each.counts.shape])
        weights = np.array([each.precision for each in known for _ in each.counts.shape]) * lengths / cells
        weight = np.repeat(weights, lengths)
        sums = np.bincount(bins, margins * weight, sum(self._domain.sizes.values())).astype(np.float64)
        precision = np.bincount(bins, weight, len(sums)).astype(np.float64)
        singles = self._singles(sums, precision, rows)
        # What is lacking is spread evenly; then every axis is corrected, which changes nothing along the others.
        first = np.cumsum([0, *(each.counts.ndim for each in known[:-1])])
        totals = np.add.reduceat(margins, np.cumsum([0, *lengths[:-1]]))
        lacking = (rows - totals) / lengths
        gaps = (singles[bins] - margins - np.repeat(lacking, lengths)) * np.repeat(lengths / cells, lengths)
        parts = np.split(gaps, np.cumsum(lengths)[:-1])
        found = self._measured_singles(singles, precision)
        for (clique, each), at in zip(self._averages.items(), first.tolist(), strict=True):
            even = lacking[at] * lengths[at] / cells[at]
            own = functools.reduce(np.add.outer, parts[at : at + each.counts.ndim])
            found[clique] = each.counts + (own + even), each.precision**-0.5
        return found

    def _singles(self, sums: Floats, precision: Floats, rows: float) -> Floats:
        """The counts of all bins of all columns, none negative, from their weighted sums and the weights'."""
        starts = np.array(list(self._starts.values()))
        lengths = np.array(list(self._domain.sizes.values()))
        precision = np.maximum(precision, 1e-300)  # a column that was not measured is 0, and is not asked for
        counts = sums / precision
        counts += np.repeat((rows - np.add.reduceat(counts, starts)) / lengths, lengths)
        counts = np.maximum(counts, precision**-0.5 / 4)  # a quarter of the noise may be in an empty cell
        return counts * np.repeat(rows / np.add.reduceat(counts, starts), lengths)

    def _measured_singles(self, singles: Floats, precision: Floats) -> dict[Clique, tuple[Floats, float]]:
        """The single columns that some marginal holds, and the deviation of their noise."""
        found: dict[Clique, tuple[Floats, float]] = {}
        for name, start in self._starts.items():
            if precision[start] > 0:
                found[(name,)] = singles[start : start + self._domain.sizes[name]], float(precision[start] ** -0.5)
        return found


def margin(counts: Floats, axis: int) -> Floats:
    """The sums of an array along one axis."""
    return summed(np.ascontiguousarray(counts), tuple(i for i in range(counts.ndim) if i != axis))
