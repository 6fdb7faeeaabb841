"""What is measured of a table of children: its columns one by one, second moments of many functions at once, and
counts of some pairs.

What a unit adds to them is bounded as a whole: rows of units that are much alike weigh less (privacy/unit_weights.py).
Drawn families are weighted in the same way before they are compared (correcting.py).

The one rule: rows go to `noisy_unit_margins`, `noisy_unit_moments`, `PairSelection` and `noisy_unit_counts`, and
nowhere else. What comes back is public.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins, bin_rows, make_bins
from understudy.encoding.encoder import Encoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.pair_selection import PairErrors, PairSelection
from understudy.privacy.rows import PrivateRows
from understudy.privacy.unit_sums import noisy_unit_counts, noisy_unit_margins, noisy_unit_moments
from understudy.synthesizers.base import Simulation
from understudy.synthesizers.conditional.basis import Bases, bases_of

Floats = NDArray[np.float64]

MARGINS, MOMENTS, CHOICE, PAIRS = "margins", "moments", "choice", "pairs"
"""The planned mechanisms are called this."""
BINS, FINE_BINS = 16, 64
"""Numbers are cut into about so many bins, and by themselves into so many more."""
DEGREES, NOISY = 4, 0.01
"""Products are measured of functions of numbers up to this degree, or to the highest at which the noise of a mean
product is at most `NOISY`. Of columns that are neither drawn nor of the row before the degree is one less."""
MARGINS_BOUND = 1.5
"""A unit of m rows, which are much alike, adds to the counts of d single columns at most this times √(m d), ..."""
MOMENTS_BOUND = 0.75
"""... to the moments at most this times √m times the expected squared norm of a row, ..."""
PAIRS_BOUND = 1.0
"""... and to the counts of a pair this times √m: what m rows have if all of them differ."""
NOISE_LEFT = 1.0
"""What is below the noise of a count, and so not learned, counts as this part of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Sums:
    """Weighted second moments of 1 and of the measured functions, as they were released: means over all rows.

    Attributes:
        places: Of the functions among all.
        given: Which of them are of columns that are given. Products of two of these are 0, and unknown.
        means: (1 and functions, 1 and functions).
        noise: The deviation of one.
        bound: Of the norm of what a unit adds to the sums.
    """

    places: NDArray[np.int64]
    given: NDArray[np.bool_]
    means: Floats
    noise: float
    bound: float


def measurable_bases(
    encoder: Encoder, bins: Mapping[str, Bins], simulation: Simulation, *, most: int, total: float, ledger: Ledger
) -> Bases:
    """The functions of all columns; products of as many of them are measured as the noise allows.

    Args:
        most: So many rows of a unit are learned from at most.
        total: About how many rows there are.
    """
    names = encoder.schema.names
    near = {name for name in names if name not in simulation.given}
    near |= set(simulation.structural) - set(simulation.smooth)

    def up_to(degree: int) -> Bases:
        degrees = {name: degree if name in near else max(degree - 1, 1) for name in names}
        return bases_of(encoder, bins, names, simulation.structural, simulation.shares, degrees)

    degree, found = DEGREES, up_to(DEGREES)
    while degree > 1 and moments_noise(found, most, total=total, ledger=ledger) > NOISY:
        degree -= 1
        found = up_to(degree)
    return found


def moments_bound(bases: Bases, most: int) -> float:
    """The norm of what a unit of so many rows adds to second moments at most."""
    return MOMENTS_BOUND * math.sqrt(most) * (1.0 + float(np.sum(bases.squares[bases.measured])))


def moments_noise(bases: Bases, most: int, *, total: float, ledger: Ledger) -> float:
    """The deviation of the noise of a mean product of two functions."""
    return ledger.noise(MOMENTS) * moments_bound(bases, most) / (math.sqrt(2) * total)


def measure_moments(
    coded: PrivateRows, bases: Bases, given: Collection[str], *, total: float, ledger: Ledger, key: Key
) -> Sums:
    """Releases second moments of the measured functions of all columns.

    Args:
        coded: Rows of bins.
        given: The columns whose products with each other are not wanted.
        total: About how many rows there are.

    Privacy:
        One release of `noisy_unit_moments`. What a unit adds is bounded by a norm that follows from public numbers.
    """
    places, bound = np.flatnonzero(bases.measured), moments_bound(bases, coded.max_rows_per_unit)
    found = noisy_unit_moments(
        coded,
        {name: each.table[:, each.measured] for name, each in zip(bases.names, bases.of, strict=True)},
        [name for name in bases.names if name in given],
        bound=bound,
        what="second moments of the context and the columns",
        planned=MOMENTS,
        ledger=ledger,
        key=key,
    )
    among = np.array([bases.names[j] in given for j in bases.owners[places]])
    noise = moments_noise(bases, coded.max_rows_per_unit, total=total, ledger=ledger)
    return Sums(places, among, found / total, noise, bound)


@dataclasses.dataclass(frozen=True, eq=False)
class Margins:
    """Noisy shares of weighted rows in fine bins of single columns, in one release.

    Attributes:
        bins: Of the columns, by their number.
        shares: Of the bins of each column.
        noise: The deviation of one.
        bound: Of the norm of what a unit adds to all counts; rows of units that would add more weigh less.
    """

    bins: Mapping[int, Bins]
    shares: Mapping[int, Floats]
    noise: float
    bound: float


def measure_margins(
    rows: PrivateRows,
    encoder: Encoder,
    bases: Bases,
    columns: Sequence[int],
    *,
    total: float,
    ledger: Ledger,
    key: Key,
) -> Margins:
    """Counts the rows in fine bins of some columns, each by itself.

    Args:
        columns: By their number.
        total: About how many rows there are.

    Privacy:
        One release of `noisy_unit_margins`. What a unit adds is bounded by a norm that follows from public numbers.
    """
    finer, names = make_bins(encoder, FINE_BINS), {j: bases.names[j] for j in columns}
    bins = {name: finer[name].cut_at(bases.bins[j].edges) for j, name in names.items()}
    bound = MARGINS_BOUND * math.sqrt(rows.max_rows_per_unit * len(names))
    found = noisy_unit_margins(
        bin_rows(rows, encoder, bins, key=key.child("codes")),
        {name: each.size for name, each in bins.items()},
        bound=bound,
        what="count columns by themselves",
        planned=MARGINS,
        ledger=ledger,
        key=key,
    )
    shares = {j: found[name] / total for j, name in names.items()}
    by_number = {j: bins[name] for j, name in names.items()}
    return Margins(by_number, shares, ledger.noise(MARGINS) * bound / total, bound)


@dataclasses.dataclass(frozen=True, eq=False)
class PairCount:
    """Noisy shares of rows in the bins of two columns.

    Attributes:
        first, second: The columns, by their number.
        shares: (bins of the first, bins of the second).
        noise: The deviation of one.
        bound: Of the norm of what a unit adds to the counts; rows of units that would add more weigh less.
    """

    first: int
    second: int
    shares: Floats
    noise: float
    bound: float


class PairRounds:
    """Chooses pairs of columns that a pool has most wrong, and counts them.

    Attributes:
        counted: The counts so far.

    Privacy:
        Rows are read by `PairSelection` and `noisy_unit_counts`.
    """

    def __init__(self, coded: PrivateRows, bases: Bases, *, total: float, ledger: Ledger, key: Key):
        self._coded, self._bases, self._ledger, self._key, self._total = coded, bases, ledger, key, total
        self._bound = PAIRS_BOUND * math.sqrt(coded.max_rows_per_unit)
        self._sizes = [each.size for each in bases.bins]
        self._selection = PairSelection(self._coded, bases.names, self._sizes)
        self._count = 0
        self.counted: list[PairCount] = []

    def compare(self, pairs: Floats, pool: int) -> None:
        """Takes what a pool of so many rows has from now on: shares of rows by the bins of all columns, in pairs."""
        starts = np.cumsum([0, *self._sizes[:-1]])
        expected = pairs * self._total
        noise = self._ledger.noise(PAIRS) * self._bound
        chance = np.sqrt(expected * (2 / np.pi) * (1.0 + self._total / max(pool, 1)))
        penalty = np.minimum(chance, 2 * expected) + NOISE_LEFT * np.minimum(math.sqrt(2 / math.pi) * noise, expected)
        penalties = np.add.reduceat(np.add.reduceat(penalty, starts, axis=0), starts, axis=1)
        columns = len(self._sizes)
        self._selection.compare(
            PairErrors(
                singles=np.diag(expected).copy(),
                pairs=expected,
                rows=self._total,
                weights=np.ones(len(expected)),
                factors=np.ones((columns, columns)),
                penalties=penalties,
            )
        )

    def choose(self, opened: NDArray[np.bool_]) -> tuple[int, int]:
        """The pair among the open ones that the pool has (nearly) the most wrong."""
        self._count += 1
        return self._selection.choose(
            opened,
            what="which columns go together",
            planned=CHOICE,
            ledger=self._ledger,
            key=self._key.child(f"choice {self._count}"),
        )

    def count(self, first: int, second: int) -> PairCount:
        """Counts the rows in the bins of two columns."""
        a, b = self._bases.names[first], self._bases.names[second]
        counts = noisy_unit_counts(
            self._coded,
            [a, b],
            [self._sizes[first], self._sizes[second]],
            bound=self._bound,
            what=f"count '{a}' with '{b}'",
            planned=PAIRS,
            ledger=self._ledger,
            key=self._key.child("count").child(a).child(b),
        )
        noise = self._ledger.noise(PAIRS) * self._bound / self._total
        self.counted.append(PairCount(first, second, counts / self._total, noise, self._bound))
        return self.counted[-1]
