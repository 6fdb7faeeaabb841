"""Second moments of the columns: what linear relations the private rows have, in values as well as in ranks.

Numbers enter as scores that follow their values too (value weighting): a few rows far from the rest can hold most of a
column's variance, and what they depend on hardly shows among ranks. Of a category, the most common values enter.

The one rule: rows go to `noisy_second_moments` and nowhere else. What comes back is public.

Source: Ledoit and Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices", for why a
noisy matrix is shrunk before it is inverted.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.stratified import stratified_levels
from understudy.encoding.encoder import Encoder, Levels
from understudy.encoding.features import Feature, category_count, feature_rows
from understudy.encoding.scores import value_weighting
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.moments import noisy_second_moments
from understudy.privacy.normal_scores import ValueWeighting, normal_score
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.moments import nearest_correlation, squared_clip_norm

Floats = NDArray[np.float64]

WANTED_NOISE = 0.006
"""The second moments get as much of the budget as makes the noise of one correlation this, ..."""
PARTS = (0.2, 0.5)
"""... within these parts of what they and the graphical model have together."""
MOST_CATEGORIES = 16
"""So many of the most common values of a categorical column have moments; the rest of them have none."""
CLIP_RANGE = (1.0, 3.0)
"""For their moments rows are clipped to a squared norm between these multiples of its expectation."""
NOISE_TARGET = 0.01
"""Rows are clipped as loosely as keeps the noise of a second moment at this deviation."""
SCALE_OF_CATEGORIES = 0.5
"""Categories have this weight beside numbers. Rows are clipped to less then, so that products of numbers have less
noise; products of categories have more, but pairs of categories are counted besides."""
LEAST_LOADING = 0.3
"""A value-weighted score is taken to have at least this much of the normal score in it."""
SMALLEST = 1e-3
"""A correlation matrix that is inverted has eigenvalues of at least this."""
SMALLEST_OF_NOISE = 0.5
"""Its eigenvalues are also at least this multiple of the radius of its noise."""
LEAST_PROBABILITY = 0.02
"""A predicted probability is at least this part of the share of its category."""


@dataclasses.dataclass(frozen=True, eq=False)
class MomentFeatures:
    """What second moments are taken of, column by column in generation order.

    A category is taken about its share, and at a smaller scale than a number: a common one hardly adds to the norm of
    a row then.

    Attributes:
        features: Scores, most common values, and whether a value is missing.
        weightings: The value weighting of each number column that has one.
    """

    encoder: Encoder
    order: tuple[str, ...]
    features: tuple[Feature, ...]
    weightings: Mapping[str, ValueWeighting]

    @classmethod
    def of(cls, encoder: Encoder, order: Sequence[str]) -> "MomentFeatures":
        found: list[Feature] = []
        for name in order:
            if encoder.columns[name].labels is None:
                found.append(Feature(name))
                found += [Feature(name, 1)] if category_count(encoder, name) else []
            else:
                common = np.argsort(-category_shares(encoder, name), kind="stable")[:MOST_CATEGORIES]
                found += [Feature(name, int(category)) for category in np.sort(common)]
        weightings = {name: value_weighting(encoder, name) for name in order}
        known = {name: weighting for name, weighting in weightings.items() if weighting is not None}
        return cls(encoder, tuple(order), tuple(found), known)

    @functools.cached_property
    def owners(self) -> NDArray[np.int64]:
        """The column of every feature."""
        place = {name: j for j, name in enumerate(self.order)}
        return np.array([place[each.column] for each in self.features])

    @functools.cached_property
    def means(self) -> Floats:
        return np.array([0.0 if f.category is None else self._share(f) for f in self.features])

    @functools.cached_property
    def variances(self) -> Floats:
        return np.array([self._variance(f) for f in self.features])

    @functools.cached_property
    def scales(self) -> Floats:
        return np.array([1.0 if f.category is None else SCALE_OF_CATEGORIES for f in self.features])

    @property
    def expected_square(self) -> float:
        """The expected squared norm of a row."""
        return float(np.sum(self.variances * self.scales**2))

    def _share(self, feature: Feature) -> float:
        assert feature.category is not None
        return float(category_shares(self.encoder, feature.column)[feature.category])

    def _variance(self, feature: Feature) -> float:
        if feature.category is None:
            return max(1.0 - self.encoder.columns[feature.column].missing, 1e-3)
        return max(self._share(feature) * (1.0 - self._share(feature)), 1e-4)

    def of_levels(self, levels: Levels) -> NDArray[np.float32]:
        """The features of public rows: (features, rows)."""
        return np.stack([self.of_level(i, levels[feature.column]) for i, feature in enumerate(self.features)])

    def of_level(self, number: int, level: Floats) -> NDArray[np.float32]:
        """One of the features, of public levels of its column."""
        return ((self._raw(number, level) - self.means[number]) * self.scales[number]).astype(np.float32)

    def _raw(self, number: int, level: Floats) -> NDArray:
        """A feature of public levels before it is centred and scaled."""
        feature = self.features[number]
        known, edge, missing = self.encoder.columns[feature.column], self.encoder.outermost_level, np.isnan(level)
        if feature.category is None:
            level = np.clip(np.nan_to_num(level, nan=0.5), edge, 1 - edge)
            score, weighting = normal_score(level), self.weightings.get(feature.column)
            if weighting is not None:
                score = weighting.score(known.distribution.quantile(level), score)
            return np.where(missing, 0.0, score)
        if known.labels is None or feature.category == len(known.labels):
            return missing
        low, high = known.distribution.cdf[feature.category], known.distribution.cdf[feature.category + 1]
        return (level >= low) & (level < high)


def category_shares(encoder: Encoder, name: str) -> Floats:
    """The measured shares of a column's categories; of a number, of present and missing values."""
    known = encoder.columns[name]
    if known.labels is None:
        return np.array([1.0 - known.missing, known.missing])
    present = (1.0 - known.missing) * np.diff(known.distribution.cdf)
    return np.append(present, known.missing)[: category_count(encoder, name)]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Noisy means of products of features, over rows clipped to a norm.

    Attributes:
        means: (features, features).
        noise: The deviation of the noise of one product.
        clip_norm: What rows were clipped to.
    """

    features: MomentFeatures
    means: Floats
    noise: float
    clip_norm: float

    @functools.cached_property
    def correlations(self) -> Floats:
        """The correlations of normal scores and categories that a normal copula with these moments has.

        The measured diagonal undoes what clipping took from each feature. A score that follows values is
        a = loading · Z + something that a copula cannot see, so its products are divided by the loading. What comes out
        becomes the nearest correlation matrix.
        """
        f = self.features
        loadings = np.array(
            [
                max(f.weightings[each.column].loading, LEAST_LOADING)
                if each.category is None and each.column in f.weightings
                else 1.0
                for each in f.features
            ]
        )
        variances = f.variances * f.scales**2
        kept = np.sqrt(np.clip(np.diag(self.means) / variances, 0.3, 1.2))
        covariance, spread = self.means / np.outer(kept, kept), np.sqrt(variances) * loadings
        smallest = min(max(SMALLEST, SMALLEST_OF_NOISE * 2 * self.noise * math.sqrt(len(f.features))), 0.9)
        matrix = np.clip(covariance / np.outer(spread, spread), -0.99, 0.99)
        return nearest_correlation(matrix, smallest=smallest, rounds=50, tolerance=None)

    def clipped(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features of public rows, (features, rows), clipped as the private ones were."""
        norms = np.sqrt(np.sum(x**2, axis=0, keepdims=True))
        return x * np.minimum(1.0, self.clip_norm / np.maximum(norms, 1e-12))

    def copula_rows(self, n: int, draw: np.random.Generator) -> Levels:
        """Rows of a normal copula with these moments: each column from a linear prediction by all earlier ones."""
        f, correlation = self.features, self.correlations
        x, levels = np.zeros((len(f.features), n)), dict[str, Floats]()
        for j, name in enumerate(f.order):
            own, read = np.flatnonzero(f.owners == j), np.flatnonzero(f.owners < j)
            among = correlation[np.ix_(read, read)] + SMALLEST * np.eye(len(read))
            cross = correlation[np.ix_(read, own)]
            found = np.linalg.solve(among, cross) if len(read) else np.zeros((0, len(own)))
            left = np.sqrt(np.clip(1.0 - np.sum(found * cross, axis=0), 0.0025, 1.0))
            x[own], levels[name] = self._drawn(name, own, found.T @ x[read], left, draw)
        return levels

    def _drawn(
        self, name: str, own: NDArray[np.int64], predicted: Floats, left: Floats, draw: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """One column, given what is predicted of its features in deviations: standardised features, and levels."""
        f, known, n = self.features, self.features.encoder.columns[name], predicted.shape[1]
        means, deviations = f.means[own], np.sqrt(f.variances[own])
        if known.labels is None:
            gone = np.zeros(n, bool)
            if len(own) > 1:
                gone = draw.random(n) < self._probability(means[1:], deviations[1:], predicted[1:])[0]
            unit = deviations[0]  # that of a score which is 0 where it is missing
            spread = math.sqrt(np.clip(1.0 - (1.0 - left[0] ** 2) / unit**2, 0.0025, 1.0))
            normal = np.where(gone, np.nan, predicted[0] / unit + spread * draw.standard_normal(n))
            level = stratified_levels(normal, draw)
            score = normal if known.is_pass_through else normal_score(level)
            features = np.stack([np.nan_to_num(score), gone - means[-1]][: len(own)]) / deviations[:, None]
            return features, score if known.is_pass_through else level
        shares = category_shares(f.encoder, name)
        common = np.array([f.features[i].category for i in own])
        chances = np.repeat(shares[:, None], n, axis=1)
        chances[common] = self._probability(means, deviations, predicted)
        sums = np.cumsum(chances, axis=0)
        code = np.minimum((sums <= draw.random(n) * sums[-1]).sum(axis=0), len(shares) - 1)
        cdf = known.distribution.cdf
        middle = np.append((cdf[:-1] + cdf[1:]) / 2, np.nan)
        return ((code == common[:, None]) - means[:, None]) / deviations[:, None], middle[code]

    @staticmethod
    def _probability(means: Floats, deviations: Floats, predicted: Floats) -> Floats:
        return np.maximum(means[:, None] + deviations[:, None] * predicted, LEAST_PROBABILITY * means[:, None])


def moments_part(
    encoder: Encoder, order: Sequence[str], planned: FilterShare, *, ledger: Ledger, rows_per_unit: int
) -> float:
    """The part of a privacy filter for the second moments: as much as makes the noise of a correlation `WANTED_NOISE`.

    It lies within `PARTS`: a graphical model needs the rest, and correlations are worth a little even if noise hardly
    spoils them. Everything it follows from is public.
    """
    noise = ledger.noise(planned, "discrete gaussian") * rows_per_unit
    whole = noise * MomentFeatures.of(encoder, order).expected_square / math.sqrt(2) / max(encoder.rows, 1.0)
    return float(np.clip((whole / WANTED_NOISE) ** 2, *PARTS))


def measure_moments(
    rows: PrivateRows, encoder: Encoder, order: Sequence[str], planned: FilterShare, *, ledger: Ledger, key: Key
) -> NoisyMoments:
    """Releases the second moments of value-weighted features.

    Privacy:
        One release of `noisy_second_moments`, under a share of a privacy filter. Rows are clipped to a norm that
        follows from the noise.
    """
    f = MomentFeatures.of(encoder, order)
    locked = feature_rows(rows, encoder, f.features, key=key, weightings=f.weightings)
    noise, total = ledger.noise(planned, "discrete gaussian") * rows.max_rows_per_unit, max(encoder.rows, 1.0)
    clip_squared = squared_clip_norm(
        f.expected_square,
        noise=noise,
        rows=total,
        noise_target=NOISE_TARGET,
        clip_range=CLIP_RANGE,
        largest_weighting=0.0,
    )
    moments = noisy_second_moments(
        locked,
        [feature.name for feature in f.features],
        clip_norm=math.sqrt(clip_squared),
        what="second moments of the features",
        planned=planned,
        ledger=ledger,
        key=key.child("moments"),
        centres=f.means.tolist(),
        scales=f.scales.tolist(),
    )
    return NoisyMoments(
        features=f,
        means=moments / total,
        noise=noise * clip_squared / math.sqrt(2) / total,
        clip_norm=math.sqrt(clip_squared),
    )
