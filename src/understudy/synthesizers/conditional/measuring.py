"""What is measured of a table of children: second moments of all linear functions at once, and counts of some pairs.

The one rule: rows go to `noisy_second_moments`, `PairSelection` and `noisy_counts`, and nowhere else. What comes
back is public.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import bin_rows
from understudy.encoding.encoder import Encoder
from understudy.encoding.features import Feature, feature_rows
from understudy.privacy.counts import noisy_counts
from understudy.privacy.ledger import Ledger
from understudy.privacy.moments import noisy_second_moments
from understudy.privacy.pair_selection import PairErrors, PairSelection
from understudy.privacy.row_maps import Clip
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.moments import squared_clip_norm

Floats = NDArray[np.float64]

MOMENTS, CHOICE, PAIRS = "moments", "choice", "pairs"
"""The planned mechanisms are called this."""
ONE = "one"
"""A column of ones is called this: products with it are means."""
LEAST_KEPT = 0.3
"""Clipping is taken to leave at least this part of a square."""
NOISE_TARGET = 0.008
"""Rows are clipped so that the noise of a covariance is this, ..."""
CLIP_RANGE = (1.1, 2.5)
"""... within these multiples of their expected squared norm."""
NOISE_LEFT = 1.0
"""What is below the noise of a count, and so not learned, counts as this part of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
    """Covariances of linear functions.

    Attributes:
        places: Of these functions among all.
        covariances: (functions, functions).
        noise: The deviation of the noise of one.
    """

    places: NDArray[np.int64]
    covariances: Floats
    noise: float


def measure_moments(rows: PrivateRows, encoder: Encoder, bases: Bases, *, ledger: Ledger, key: Key) -> Moments:
    """Releases second moments of the linear functions of all columns.

    Privacy:
        One release of `noisy_second_moments`. Rows are clipped to a norm that follows from public numbers.
    """
    places = np.flatnonzero(bases.linear)
    features: list[Feature] = [feature for each in bases.of for feature in each.features]
    squares = bases.squares[places]
    locked = feature_rows(rows, encoder, features, key=key)
    locked = locked.derive({ONE: Clip(features[0].name, 1.0, 1.0)}, keep=True)
    noise, total = ledger.noise(MOMENTS) * rows.max_rows_per_unit, max(encoder.rows, 1.0)
    squared = squared_clip_norm(
        1.0 + float(np.sum(squares)),
        noise=noise,
        rows=total,
        noise_target=NOISE_TARGET,
        clip_range=CLIP_RANGE,
        largest_weighting=0.0,
    )
    found = noisy_second_moments(
        locked,
        [ONE, *(feature.name for feature in features)],
        clip_norm=math.sqrt(squared),
        what="second moments of the context and the columns",
        planned=MOMENTS,
        ledger=ledger,
        key=key.child("moments"),
    )
    kept = max(float(found[0, 0]) / total, LEAST_KEPT)  # what clipping has left of a square, on average
    units = np.concatenate([each.units for each in bases.of])
    found, deviation = found / (total * kept), noise * squared / (math.sqrt(2) * total * kept)
    means = found[0, 1:] / units
    covariances = found[1:, 1:] / np.outer(units, units) - np.outer(means, means)
    return Moments(places, covariances, deviation)


@dataclasses.dataclass(frozen=True, eq=False)
class PairCount:
    """Noisy shares of rows in the bins of two columns.

    Attributes:
        first, second: The columns, by their number.
        shares: (bins of the first, bins of the second).
        noise: The deviation of one.
    """

    first: int
    second: int
    shares: Floats
    noise: float


class PairRounds:
    """Chooses pairs of columns that a pool has most wrong, and counts them.

    Attributes:
        counted: The counts so far.

    Privacy:
        Rows are read by `PairSelection` and `noisy_counts`.
    """

    def __init__(self, rows: PrivateRows, encoder: Encoder, bases: Bases, *, ledger: Ledger, key: Key):
        self._rows, self._bases, self._ledger, self._key = rows, bases, ledger, key
        self._total = max(encoder.rows, 1.0)
        coded = dict(zip(bases.names, bases.bins, strict=True))
        self._coded = bin_rows(rows, encoder, coded, key=key.child("codes"))
        self._sizes = [each.size for each in bases.bins]
        self._selection = PairSelection(self._coded, bases.names, self._sizes)
        self._count = 0
        self.counted: list[PairCount] = []

    def compare(self, pairs: Floats, pool: int) -> None:
        """Takes what a pool of so many rows has from now on: shares of rows by the bins of all columns, in pairs."""
        starts = np.cumsum([0, *self._sizes[:-1]])
        expected = pairs * self._total
        noise = self._ledger.noise(PAIRS) * self._rows.max_rows_per_unit
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
        counts = noisy_counts(
            self._coded,
            [a, b],
            [self._sizes[first], self._sizes[second]],
            what=f"count '{a}' with '{b}'",
            planned=PAIRS,
            ledger=self._ledger,
            key=self._key.child("count").child(a).child(b),
        )
        noise = self._ledger.noise(PAIRS) * self._rows.max_rows_per_unit
        self.counted.append(PairCount(first, second, counts / self._total, noise / self._total))
        return self.counted[-1]
