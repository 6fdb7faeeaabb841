"""How far generated rows are from an embedding, and the gradient of that. NumPy alone, derivatives by hand.

Given the noise, the categories of different columns are drawn independently, so that the mean of a Fourier feature over
them is a product of sums over probabilities: no relaxation is needed, and the gradient is exact.

There is no compiler here on purpose: a step is a few passes over waves of a few thousand numbers that stay in the
processor's cache, and compiling a program for every shape of table would take about as long as a fit.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from understudy.privacy.embedding import EmbeddedColumn, Embedding, first_features

SHARE_WEIGHT = 4.0
"""Weight of squared gaps of shares, relative to those of scores."""
WAVE = 50
"""Frequencies that are worked on at a time, so that they stay in the processor's cache."""
WAVE_PER_COLUMN = 4
"""A wave has at least this many frequencies for every column with categories, since each of them costs a call."""
SMALL = 2**18
"""A matrix product with at most this many multiplications starts no threads in the libraries. If other processes run,
threads wait longer than they work."""


# Fakes ---------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(eq=False)
class Fakes:
    """Generated rows, column by column, and the gradient of a loss in them, added up part by part.

    Attributes:
        scores: One row for each column; 0 for a column that is no number.
        probabilities: The probabilities of each column's categories, (categories, fakes).
    """

    columns: Sequence[EmbeddedColumn]
    scores: NDArray
    probabilities: list[NDArray]
    score_gradients: NDArray
    probability_gradients: list[NDArray]

    @classmethod
    def of(cls, made: NDArray, columns: Sequence[EmbeddedColumn]) -> "Fakes":
        scores, probabilities, rows = np.zeros((len(columns), len(made)), made.dtype), [], np.ascontiguousarray(made.T)
        for c, (column, start) in enumerate(zip(columns, first_features(columns), strict=True)):
            if column.number:
                scores[c] = rows[start]
            logits = rows[start + column.number : start + column.width]
            weight = np.exp(logits - logits.max(axis=0, initial=-np.inf))
            probabilities.append(weight / weight.sum(axis=0))
        return cls(columns, scores, probabilities, np.zeros_like(scores), [np.zeros_like(p) for p in probabilities])

    def gradient(self) -> NDArray:
        """The gradient in scores and logits, shaped as the generated rows: dp_s / dlogit_t = p_s (1[s = t] - p_t)."""
        parts = []
        for column, x, p, dp in zip(
            self.columns, self.score_gradients, self.probabilities, self.probability_gradients, strict=True
        ):
            if column.number:
                parts.append(x[None])
            if column.categories:
                parts.append(p * (dp - (p * dp).sum(axis=0)))
        return np.concatenate(parts).T


# The loss ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Wave:
    """A few frequencies, as the e^{iA} of fakes are computed with them.

    Attributes:
        place: Which frequencies: every n-th, so that all waves touch about as many columns.
        w: The frequencies of numbers without categories, (frequencies, such columns).
        turns: For every touched column with categories: the column, which factor it is and of which rows, 1 and its w,
            and its e^{iθ}.
        factors: How many columns with categories a frequency touches, at most.
    """

    place: slice
    w: NDArray
    turns: list[tuple[int, int, NDArray, NDArray, NDArray]]
    factors: int


def waves_of(embedding: Embedding, dtype: DTypeLike) -> list[Wave]:
    columns, touched = embedding.columns, embedding.touched
    plain = [c for c, column in enumerate(columns) if column.number and not column.categories]
    categorical = np.array([column.categories > 0 for column in columns])
    has_categories = categorical[touched] & (touched >= 0)
    factor = np.cumsum(has_categories, axis=1) - 1  # numbers a frequency's columns with categories
    size, found = max(WAVE // 2 if categorical.any() else WAVE, WAVE_PER_COLUMN * int(categorical.sum())), []
    turning = np.result_type(dtype, np.complex64)
    many = -(-len(touched) // size)
    for start in range(many):
        place, turns = slice(start, None, many), []
        here, which = np.where(has_categories[place], touched[place], -1), factor[place]
        for c, j in sorted({(int(c), int(j)) for c, j in zip(here.ravel(), which.ravel(), strict=True) if c >= 0}):
            rows = np.flatnonzero(((here == c) & (which == j)).any(axis=1))
            w = np.stack([np.ones(len(rows)), embedding.frequencies[place][rows, c]])
            phases = np.exp(1j * embedding.phases[c][place][rows])
            turns.append((c, j, rows, w.astype(turning), phases.astype(turning)))
        w = embedding.frequencies[place][:, plain].astype(dtype)
        found.append(Wave(place, w, turns, int(which.max(initial=-1)) + 1))
    return found


class Loss:
    """How far fakes are from a target: the distance of embeddings, and of single columns from what is known about them.

    The fakes' two halves estimate the squared distance without bias: for independent halves
    E[(μ₁ - t)·(μ₂ - t)] = |E μ - t|². One batch alone would add its own variance, which is least for fakes that are
    all alike.
    """

    def __init__(self, embedding: Embedding, target: NDArray, *, emphasis: float, margins: float, dtype: DTypeLike):
        self.embedding, self.margins, self.dtype = embedding, margins, dtype
        self.waves = waves_of(embedding, dtype)
        self._memory: NDArray | None = None
        self.plain = [c for c, column in enumerate(embedding.columns) if column.number and not column.categories]
        self.numbers = [c for c, column in enumerate(embedding.columns) if column.number]
        count, pairs = len(embedding.touched), max(len(embedding.pairs[0]), 1)
        self.weights = float(pairs * emphasis), float(pairs)
        self.aim = (target[:count] + 1j * target[count : 2 * count]).astype(np.result_type(dtype, np.complex64))
        self.products = target[2 * count :].astype(dtype)

    def __call__(self, made: NDArray, some: Sequence[int] | None = None) -> tuple[float, NDArray]:
        """The loss of an even number of fakes, and its gradient in them. If given, `some` waves stand for all."""
        fakes = Fakes.of(made, self.embedding.columns)
        scale = len(self.waves) / len(waves := self.waves if some is None else [self.waves[i] for i in some])
        value = sum(self._fourier(wave, fakes, scale) for wave in waves)
        value += self._products(fakes) + self._margins(fakes)
        return float(value), fakes.gradient()

    def means(self, made: NDArray) -> NDArray:
        """The mean over fakes of what `Embedding.embed` gives, in expectation over their categories."""
        fakes, (fourier, product) = Fakes.of(made, self.embedding.columns), self.embedding.weights
        mean = np.empty_like(self.aim)
        for wave in self.waves:
            mean[wave.place] = fourier * self._chain(wave, fakes)[0][-1].mean(axis=1)
        g = self._clipped(fakes)[0]
        i, j = self.embedding.pairs
        return np.concatenate([np.real(mean), np.imag(mean), product * (g @ g.T)[i, j] / len(made)])

    def _chain(self, wave: Wave, fakes: Fakes) -> tuple[NDArray, NDArray, list[NDArray]]:
        """e^{iA} of numbers, then times the factor of each column with categories in turn; those factors; turns."""
        angles = times(wave.w, fakes.scores[self.plain])
        chain, factors = self._scratch(wave, angles.shape)  # (factors, frequencies, fakes)
        _turn(angles, chain[0])
        factors[:] = 1
        turned = []
        for c, j, rows, w, phases in wave.turns:
            p = fakes.probabilities[c]
            if fakes.columns[c].number:
                turned.append(_turn(np.real(w[1, :, None]) * fakes.scores[c]) * phases[:, :1])
                factors[j, rows] = p[0] * turned[-1] + phases[:, 1:] * p[1]
            else:
                turned.append(phases)
                factors[j, rows] = phases @ p.astype(phases.dtype)
        for j in range(wave.factors):
            np.multiply(chain[j], factors[j], out=chain[j + 1])
        return chain, factors, turned

    def _scratch(self, wave: Wave, shape: tuple[int, int]) -> tuple[NDArray, NDArray]:
        """Memory that waves share one after the other: allocating it for each would cost more than the work."""
        needed = (2 * wave.factors + 1, *shape)
        if self._memory is None or any(a < b for a, b in zip(self._memory.shape, needed, strict=True)):
            most = max(self.waves, key=lambda wave: wave.factors).factors
            self._memory = np.empty((2 * most + 1, len(self.waves[0].w), shape[1]), self.aim.dtype)
        memory = self._memory[:, : shape[0], : shape[1]]
        return memory[: wave.factors + 1], memory[wave.factors + 1 : needed[0]]

    def _fourier(self, wave: Wave, fakes: Fakes, scale: float) -> float:
        """The loss of one wave: with c = dL / dμ, the gradient of each factor is c* times all other factors."""
        if not wave.factors:
            return self._numbers(wave, fakes, scale)
        chain, factors, turned = self._chain(wave, fakes)
        value, gradients = self._gap(_halves(chain[-1]).mean(axis=2), wave, scale)
        rest = chain[-1]
        _halves(rest)[:] = np.conj(gradients)[:, :, None] / (rest.shape[1] // 2)
        for j in range(wave.factors - 1, -1, -1):
            others = chain[j] * rest
            for (c, factor, rows, w, phases), turn in zip(wave.turns, turned, strict=True):
                if factor == j:
                    _add_factor_gradient(fakes, c, w, phases, turn, others[rows])
            rest *= factors[j]
        rest *= chain[0]
        fakes.score_gradients[self.plain] -= times(wave.w.T, np.ascontiguousarray(np.imag(rest)))
        return value

    def _numbers(self, wave: Wave, fakes: Fakes, scale: float) -> float:
        """The same for numbers alone: dL/dA = Im c · cos A - Re c · sin A."""
        angles = times(wave.w, fakes.scores[self.plain])
        cosine, sine = np.cos(angles), np.sin(angles)
        half = cosine.shape[1] // 2
        mean = np.empty((len(cosine), 2), self.aim.dtype)
        mean.real, mean.imag = (np.add.reduce(_halves(part), axis=2) / half for part in (cosine, sine))
        value, gradients = self._gap(mean, wave, scale)
        gradients /= half
        for g, mine in enumerate((slice(0, half), slice(half, None))):
            cosine[:, mine] *= np.imag(gradients[:, g, None])
            sine[:, mine] *= np.real(gradients[:, g, None])
        cosine -= sine
        fakes.score_gradients[self.plain] += times(wave.w.T, cosine)
        return value

    def _gap(self, mean: NDArray, wave: Wave, scale: float) -> tuple[float, NDArray]:
        """(μ₁ - t)·(μ₂ - t), and its gradients in the means of both halves, before the features' own weight."""
        fourier, weight = self.embedding.weights[0], self.weights[0] * scale
        gap = fourier * mean - self.aim[wave.place, None]
        return weight * float(np.real(gap[:, 0] * np.conj(gap[:, 1])).sum()), (weight * fourier) * gap[:, ::-1]

    def _clipped(self, fakes: Fakes) -> tuple[NDArray, NDArray, NDArray]:
        """The scores that are multiplied, scaled to norm at most C as rows are; the unscaled scores; the scale."""
        scores = np.stack(
            [
                (x * p[0] if column.categories else x) if column.number else np.asarray(column.scores, self.dtype) @ p
                for column, x, p in zip(fakes.columns, fakes.scores, fakes.probabilities, strict=True)
            ]
        )
        clip = self.embedding.clip
        scale = np.sqrt(clip / np.maximum((scores**2).sum(axis=0), clip)).astype(self.dtype)
        return scores * scale, scores, scale

    def _products(self, fakes: Fakes) -> float:
        (i, j), product, weight = self.embedding.pairs, self.embedding.weights[1], self.weights[1]
        if not len(i):
            return 0.0
        g, scores, scale = self._clipped(fakes)
        half = g.shape[1] // 2
        halves = g[:, :half], g[:, half:]
        gaps = [product * times(part, part.T)[i, j] / half - self.products for part in halves]
        gradient = np.empty_like(g)
        for mine, part, gap in zip((slice(0, half), slice(half, None)), halves, gaps[::-1], strict=True):
            outer = np.zeros((len(g), len(g)), self.dtype)
            outer[i, j] = weight * product / half * gap
            gradient[:, mine] = times(outer + outer.T, part)
        # Of u C / |u|, where |u| > C: C / |u| times what is across u.
        across = (gradient * scores).sum(axis=0) / np.maximum((scores**2).sum(axis=0), self.embedding.clip)
        gradient = scale * (gradient - np.where(scale < 1, across, 0.0).astype(self.dtype) * scores)
        for c, column in enumerate(fakes.columns):
            if not column.number:
                fakes.probability_gradients[c] += np.outer(np.asarray(column.scores, self.dtype), gradient[c])
            elif column.categories:
                fakes.score_gradients[c] += fakes.probabilities[c][0] * gradient[c]
                fakes.probability_gradients[c][0] += fakes.scores[c] * gradient[c]
            else:
                fakes.score_gradients[c] += gradient[c]
        return weight * float(gaps[0] @ gaps[1])

    def _margins(self, fakes: Fakes) -> float:
        """W₂² of scores to N(0, 1), squared gaps of shares."""
        n, value = fakes.scores.shape[1], 0.0
        if self.numbers:
            x = fakes.scores[self.numbers]
            gap = x - np.take(_normal(n).astype(self.dtype), x.argsort(axis=1).argsort(axis=1))
            fakes.score_gradients[self.numbers] += (2 * self.margins / n) * gap
            value += float((gap**2).sum()) / n
        for c, column in enumerate(fakes.columns):
            if column.categories:
                gap = fakes.probabilities[c].mean(axis=1) - np.asarray(column.shares, self.dtype)
                fakes.probability_gradients[c] += (2 * self.margins * SHARE_WEIGHT / n) * gap[:, None]
                value += SHARE_WEIGHT * float(gap @ gap)
        return self.margins * value


def times(a: NDArray, b: NDArray) -> NDArray:
    """a @ b, in pieces that are `SMALL`."""
    size = max(SMALL // max(a.size, 1), 1)
    pieces = [a @ b[:, start : start + size] for start in range(0, b.shape[1], size)]
    return np.concatenate(pieces, axis=1) if len(pieces) > 1 else pieces[0]


def _halves(x: NDArray) -> NDArray:
    return x.reshape(len(x), 2, -1)


def _normal(n: int) -> NDArray:
    from scipy.special import ndtri

    return ndtri((np.arange(n) + 0.5) / n)


def _turn(angles: NDArray, into: NDArray | None = None) -> NDArray:
    """e^{iA}."""
    turned = np.empty(angles.shape, np.result_type(angles.dtype, np.complex64)) if into is None else into
    turned.real, turned.imag = np.cos(angles), np.sin(angles)
    return turned


def _add_factor_gradient(fakes: Fakes, c: int, w: NDArray, phases: NDArray, turned: NDArray, others: NDArray) -> None:
    """Adds Re(others · dfactor) in the column's score and probabilities."""
    by_category = np.real(phases.T @ others)
    if fakes.columns[c].number:
        present = w @ (turned * others)
        by_category[0] = np.real(present[0])
        fakes.score_gradients[c] -= fakes.probabilities[c][0] * np.imag(present[1])
    fakes.probability_gradients[c] += by_category
