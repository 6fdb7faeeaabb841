"""Pooling: noisy marginals averaged where they are of the same clique, and made to agree with each other.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.marginals import Clique, Domain, Measured
from understudy.graphical.messages import shape_within, summed

Floats = NDArray[np.float64]
Pooled = Mapping[Clique, tuple[Floats, float]]
"""For each clique, noisy counts and the deviation of their noise."""

# A count is never taken to be sharper than half a row: that would cost many steps and change nothing that can be seen.
SMALLEST_SIGMA = 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class _Average:
    """The average of the counts of one clique, weighted by precision, and its sums along every axis."""

    counts: Floats
    precision: float
    margins: tuple[Floats, ...]

    @property
    def sigma(self) -> float:
        return self.precision**-0.5


class Pool:
    """Measured marginals in the domain's order; those of one clique are averaged, weighted by their precision.

    Attributes:
        in_blocks: Marginals that were counted in blocks (`Measured.starts`), which are not pooled.
    """

    def __init__(self, domain: Domain, measured: Iterable[Measured] = ()):
        self._domain, self._averages = domain, dict[Clique, _Average]()
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
        margins = tuple(margin(counts, axis) for axis in range(counts.ndim))
        self._averages[clique] = _Average(counts, precision, margins)

    def consistent(self, rows: float) -> dict[Clique, tuple[Floats, float]]:
        """The averages, made to agree on the number of rows and on every single column.

        The counts of a single column are pooled from all marginals that hold it, weighted by precision: least squares
        as far as single columns go. Without this, marginals that disagree would hold large potentials against each
        other.
        """
        singles = self._singles(rows)
        found: dict[Clique, tuple[Floats, float]] = {(name,): single for name, single in singles.items()}
        for clique, known in self._averages.items():
            size = known.counts.size
            lacking = rows - float(known.margins[0].sum())
            agreed = known.counts + lacking / size
            for name, own in zip(clique, known.margins, strict=True):
                # Spread evenly, what is lacking is in the margin by now; corrections of other axes add up to 0 in it.
                gap = (singles[name][0] - own - lacking / len(own)) * (len(own) / size)
                agreed += gap.reshape(shape_within(self._domain, (name,), clique))
            found[clique] = agreed, known.sigma
        return found

    def _singles(self, rows: float) -> dict[str, tuple[Floats, float]]:
        """The counts of every measured column, none negative, and the deviation of their noise."""
        sums = {name: (np.zeros(size), 0.0) for name, size in self._domain.sizes.items()}
        for clique, known in self._averages.items():
            for name, own in zip(clique, known.margins, strict=True):
                weight = known.precision * len(own) / known.counts.size
                total, precision = sums[name]
                sums[name] = total + weight * own, precision + weight
        found = {}
        for name, (total, precision) in sums.items():
            if precision > 0:
                counts = total / precision + (rows - total.sum() / precision) / len(total)
                counts = np.maximum(counts, precision**-0.5 / 4)  # a quarter of the noise may be in an empty cell
                found[name] = counts * (rows / counts.sum()), precision**-0.5
        return found


def margin(counts: Floats, axis: int) -> Floats:
    """The sums of an array along one axis."""
    return summed(np.ascontiguousarray(counts), tuple(i for i in range(counts.ndim) if i != axis))
