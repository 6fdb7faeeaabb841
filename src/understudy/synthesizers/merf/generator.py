"""The generator, and how it is fitted to an embedding. NumPy alone, slopes by hand; no row comes here.

    y = z V + b + U φ(… φ(z)),   z standard normal

gives every column its score and the logits of its states. It starts as the identity: independent normal scores, and
states at their shares.

Given z the states of different columns are drawn independently, so that the mean of a Fourier feature over them is a
product of sums over probabilities: no relaxation is needed, and the slope is exact.

There is no compiler here on purpose: a step is a few passes over waves of a few thousand numbers that stay in the
processor's cache, and compiling a program for every shape of table would take about as long as a fit.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.merf.embedding import Block, Embedding, starts
from understudy.synthesizers.merf.fitted import with_layers

Params = dict[str, NDArray]

SHARES = 4.0
"""Weight of squared gaps of shares beside those of scores."""
WAVE = 50
"""Frequencies that are worked on at a time, so that they stay in the processor's cache; but at least"""
WAVE_PER_COLUMN = 4
"""for every column of states, since each of them costs a call."""
SMALL = 2**18
"""Multiplications of a matrix product for which libraries call in no threads: where other processes run, threads wait
longer than they work."""


def initial(blocks: Sequence[Block], widths: Sequence[int], noise: int, draw: np.random.Generator) -> dict[str, Any]:
    """The identity: column c's score is the c-th number of the noise."""
    width = sum(block.width for block in blocks)
    straight, bias = np.zeros((noise, width)), np.zeros(width)
    for c, (block, start) in enumerate(zip(blocks, starts(blocks), strict=True)):
        if block.number:
            straight[c, start] = 1.0
        bias[start + block.number : start + block.width] = np.log(np.maximum(block.shares, 1e-4))
    params = {"straight": straight, "bias": bias}
    sizes = (noise, *widths)
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        params[f"weight {i}"] = draw.standard_normal((a, b)) * math.sqrt(1.0 / a)
        params[f"shift {i}"] = draw.standard_normal(b) * 0.5
    params[f"weight {len(widths)}"] = np.zeros((sizes[-1], width))
    return {name: value.astype(np.float32) for name, value in params.items()}


# Fakes ---------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(eq=False)
class Fakes:
    """What the generator made, column by column, and the slope of a loss in it, added up part by part.

    Attributes:
        scores: One row a column; 0 where it has none.
        chances: The probabilities of each column's states, (states, fakes).
    """

    blocks: Sequence[Block]
    scores: NDArray
    chances: list[NDArray]
    score_slopes: NDArray
    chance_slopes: list[NDArray]

    @classmethod
    def of(cls, made: NDArray, blocks: Sequence[Block]) -> "Fakes":
        scores, chances, rows = np.zeros((len(blocks), len(made)), made.dtype), [], np.ascontiguousarray(made.T)
        for c, (block, start) in enumerate(zip(blocks, starts(blocks), strict=True)):
            if block.number:
                scores[c] = rows[start]
            logits = rows[start + block.number : start + block.width]
            weight = np.exp(logits - logits.max(axis=0, initial=-np.inf))
            chances.append(weight / weight.sum(axis=0))
        return cls(blocks, scores, chances, np.zeros_like(scores), [np.zeros_like(p) for p in chances])

    def slope(self) -> NDArray:
        """In scores and logits, shaped as what was made: dp_s / dlogit_t = p_s (1[s = t] - p_t)."""
        parts = []
        for block, x, p, dp in zip(self.blocks, self.score_slopes, self.chances, self.chance_slopes, strict=True):
            if block.number:
                parts.append(x[None])
            if block.states:
                parts.append(p * (dp - (p * dp).sum(axis=0)))
        return np.concatenate(parts).T


# The loss ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Wave:
    """A few frequencies: what the e^{iA} of fakes are computed with.

    Attributes:
        place: Which frequencies: every so many-th, so that one wave touches as many columns as another.
        w: Of the numbers without states, (frequencies, such columns).
        turns: Of every touched column with states: the column, which factor it is and of which rows, 1 and its w, and
            its e^{iθ}.
        factors: How many columns with states a frequency touches, at most.
    """

    place: slice
    w: NDArray
    turns: list[tuple[int, int, NDArray, NDArray, NDArray]]
    factors: int


def waves_of(embedding: Embedding, dtype: Any) -> list[Wave]:
    blocks, touched = embedding.blocks, embedding.touched
    plain = [c for c, block in enumerate(blocks) if block.number and not block.states]
    stated = np.array([block.states > 0 for block in blocks])
    is_state = stated[touched] & (touched >= 0)
    factor = np.cumsum(is_state, axis=1) - 1  # the columns with states of a frequency, counted
    size, found = max(WAVE // 2 if stated.any() else WAVE, WAVE_PER_COLUMN * int(stated.sum())), []
    turning = np.result_type(dtype, np.complex64)
    many = -(-len(touched) // size)
    for start in range(many):
        place, turns = slice(start, None, many), []
        here, which = np.where(is_state[place], touched[place], -1), factor[place]
        for c, j in sorted({(int(c), int(j)) for c, j in zip(here.ravel(), which.ravel(), strict=True) if c >= 0}):
            rows = np.flatnonzero(((here == c) & (which == j)).any(axis=1))
            w = np.stack([np.ones(len(rows)), embedding.frequencies[place][rows, c]])
            phases = np.exp(1j * embedding.phases[c][place][rows])
            turns.append((c, j, rows, w.astype(turning), phases.astype(turning)))
        w = embedding.frequencies[place][:, plain].astype(dtype)
        found.append(Wave(place, w, turns, int(which.max(initial=-1)) + 1))
    return found


class Loss:
    """How far fakes are from a target: distance of embeddings, and of single columns from what is known of them.

    The fakes' two halves estimate the squared distance without bias: for independent halves
    E[(μ₁ - t)·(μ₂ - t)] = |E μ - t|². One batch alone would add its own variance, which is least for fakes that are
    all alike.
    """

    def __init__(self, embedding: Embedding, target: NDArray, *, emphasis: float, margins: float, dtype: Any):
        self.embedding, self.margins, self.dtype = embedding, margins, dtype
        self.waves = waves_of(embedding, dtype)
        self.room: NDArray | None = None
        self.plain = [c for c, block in enumerate(embedding.blocks) if block.number and not block.states]
        self.numbers = [c for c, block in enumerate(embedding.blocks) if block.number]
        count, pairs = len(embedding.touched), max(len(embedding.pairs[0]), 1)
        self.weights = float(pairs * emphasis), float(pairs)
        self.aim = (target[:count] + 1j * target[count : 2 * count]).astype(np.result_type(dtype, np.complex64))
        self.products = target[2 * count :].astype(dtype)

    def __call__(self, made: NDArray, some: Sequence[int] | None = None) -> tuple[float, NDArray]:
        """The loss of an even number of fakes, and its slope in them; with some of the waves standing for all."""
        fakes = Fakes.of(made, self.embedding.blocks)
        scale = len(self.waves) / len(waves := self.waves if some is None else [self.waves[i] for i in some])
        value = sum(self._fourier(wave, fakes, scale) for wave in waves)
        value += self._products(fakes) + self._margins(fakes)
        return float(value), fakes.slope()

    def means(self, made: NDArray) -> NDArray:
        """The mean over fakes of what `Embedding.rows` gives, in expectation over their states."""
        fakes, (fourier, product) = Fakes.of(made, self.embedding.blocks), self.embedding.weights
        mean = np.empty_like(self.aim)
        for wave in self.waves:
            mean[wave.place] = fourier * self._chain(wave, fakes)[0][-1].mean(axis=1)
        g = self._clipped(fakes)[0]
        i, j = self.embedding.pairs
        return np.concatenate([np.real(mean), np.imag(mean), product * (g @ g.T)[i, j] / len(made)])

    def _chain(self, wave: Wave, fakes: Fakes) -> tuple[NDArray, NDArray, list[NDArray]]:
        """e^{iA} of numbers, then times the factor of one column with states after the other; those factors; turns."""
        angles = times(wave.w, fakes.scores[self.plain])
        chain, factors = self._room(wave, angles.shape)  # (factors, frequencies, fakes)
        _turn(angles, chain[0])
        factors[:] = 1
        turned = []
        for c, j, rows, w, phases in wave.turns:
            p = fakes.chances[c]
            if fakes.blocks[c].number:
                turned.append(_turn(np.real(w[1, :, None]) * fakes.scores[c]) * phases[:, :1])
                factors[j, rows] = p[0] * turned[-1] + phases[:, 1:] * p[1]
            else:
                turned.append(phases)
                factors[j, rows] = phases @ p.astype(phases.dtype)
        for j in range(wave.factors):
            np.multiply(chain[j], factors[j], out=chain[j + 1])
        return chain, factors, turned

    def _room(self, wave: Wave, shape: tuple[int, int]) -> tuple[NDArray, NDArray]:
        """Where waves are worked out, one after the other: fresh memory for each would cost more than the work."""
        needed = (2 * wave.factors + 1, *shape)
        if self.room is None or any(a < b for a, b in zip(self.room.shape, needed, strict=True)):
            most = max(self.waves, key=lambda wave: wave.factors).factors
            self.room = np.empty((2 * most + 1, len(self.waves[0].w), shape[1]), self.aim.dtype)
        room = self.room[:, : shape[0], : shape[1]]
        return room[: wave.factors + 1], room[wave.factors + 1 : needed[0]]

    def _fourier(self, wave: Wave, fakes: Fakes, scale: float) -> float:
        """Of one wave: with c = dL / dμ, each factor's slope is c* times all other factors."""
        if not wave.factors:
            return self._numbers(wave, fakes, scale)
        chain, factors, turned = self._chain(wave, fakes)
        value, slopes = self._gap(_halves(chain[-1]).mean(axis=2), wave, scale)
        rest = chain[-1]
        _halves(rest)[:] = np.conj(slopes)[:, :, None] / (rest.shape[1] // 2)
        for j in range(wave.factors - 1, -1, -1):
            others = chain[j] * rest
            for (c, factor, rows, w, phases), turn in zip(wave.turns, turned, strict=True):
                if factor == j:
                    _add_factor_slope(fakes, c, w, phases, turn, others[rows])
            rest *= factors[j]
        rest *= chain[0]
        fakes.score_slopes[self.plain] -= times(wave.w.T, np.ascontiguousarray(np.imag(rest)))
        return value

    def _numbers(self, wave: Wave, fakes: Fakes, scale: float) -> float:
        """The same for numbers alone: dL/dA = Im c · cos A - Re c · sin A."""
        angles = times(wave.w, fakes.scores[self.plain])
        cosine, sine = np.cos(angles), np.sin(angles)
        half = cosine.shape[1] // 2
        mean = np.empty((len(cosine), 2), self.aim.dtype)
        mean.real, mean.imag = (np.add.reduce(_halves(part), axis=2) / half for part in (cosine, sine))
        value, slopes = self._gap(mean, wave, scale)
        slopes /= half
        for g, mine in enumerate((slice(0, half), slice(half, None))):
            cosine[:, mine] *= np.imag(slopes[:, g, None])
            sine[:, mine] *= np.real(slopes[:, g, None])
        cosine -= sine
        fakes.score_slopes[self.plain] += times(wave.w.T, cosine)
        return value

    def _gap(self, mean: NDArray, wave: Wave, scale: float) -> tuple[float, NDArray]:
        """(μ₁ - t)·(μ₂ - t), and its slopes in the means of both halves, before the features' own weight."""
        fourier, weight = self.embedding.weights[0], self.weights[0] * scale
        gap = fourier * mean - self.aim[wave.place, None]
        return weight * float(np.real(gap[:, 0] * np.conj(gap[:, 1])).sum()), (weight * fourier) * gap[:, ::-1]

    def _clipped(self, fakes: Fakes) -> tuple[NDArray, NDArray, NDArray]:
        """The scores that are multiplied, scaled to norm at most C as rows are; those before, and the scale."""
        scores = np.stack(
            [
                (x * p[0] if block.states else x) if block.number else np.asarray(block.scores, self.dtype) @ p
                for block, x, p in zip(fakes.blocks, fakes.scores, fakes.chances, strict=True)
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
        slope = np.empty_like(g)
        for mine, part, gap in zip((slice(0, half), slice(half, None)), halves, gaps[::-1], strict=True):
            outer = np.zeros((len(g), len(g)), self.dtype)
            outer[i, j] = weight * product / half * gap
            slope[:, mine] = times(outer + outer.T, part)
        # Of u C / |u|, where |u| > C: C / |u| times what is across u.
        across = (slope * scores).sum(axis=0) / np.maximum((scores**2).sum(axis=0), self.embedding.clip)
        slope = scale * (slope - np.where(scale < 1, across, 0.0).astype(self.dtype) * scores)
        for c, block in enumerate(fakes.blocks):
            if not block.number:
                fakes.chance_slopes[c] += np.outer(np.asarray(block.scores, self.dtype), slope[c])
            elif block.states:
                fakes.score_slopes[c] += fakes.chances[c][0] * slope[c]
                fakes.chance_slopes[c][0] += fakes.scores[c] * slope[c]
            else:
                fakes.score_slopes[c] += slope[c]
        return weight * float(gaps[0] @ gaps[1])

    def _margins(self, fakes: Fakes) -> float:
        """W₂² of scores to N(0, 1), squared gaps of shares."""
        n, value = fakes.scores.shape[1], 0.0
        if self.numbers:
            x = fakes.scores[self.numbers]
            gap = x - np.take(_normal(n).astype(self.dtype), x.argsort(axis=1).argsort(axis=1))
            fakes.score_slopes[self.numbers] += (2 * self.margins / n) * gap
            value += float((gap**2).sum()) / n
        for c, block in enumerate(fakes.blocks):
            if block.states:
                gap = fakes.chances[c].mean(axis=1) - np.asarray(block.shares, self.dtype)
                fakes.chance_slopes[c] += (2 * self.margins * SHARES / n) * gap[:, None]
                value += SHARES * float(gap @ gap)
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


def _add_factor_slope(fakes: Fakes, c: int, w: NDArray, phases: NDArray, turned: NDArray, others: NDArray) -> None:
    """Adds Re(others · dfactor) in the column's score and chances."""
    by_state = np.real(phases.T @ others)
    if fakes.blocks[c].number:
        present = w @ (turned * others)
        by_state[0] = np.real(present[0])
        fakes.score_slopes[c] -= fakes.chances[c][0] * np.imag(present[1])
    fakes.chance_slopes[c] += by_state


# The fit ------------------------------------------------------------------------------------------------------------


def fit(
    params: Mapping[str, NDArray],
    embedding: Embedding,
    target: NDArray,
    *,
    steps: int,
    rate: float,
    fakes: int,
    part: float,
    emphasis: float,
    margins: float,
    draw: np.random.Generator,
) -> Params:
    """Adam on the loss, with fresh fakes in every step and a rate that falls to zero along a cosine."""
    loss = Loss(embedding, target, emphasis=emphasis, margins=margins, dtype=np.float32)
    params = {name: np.array(value, np.float32) for name, value in params.items()}
    first, second = ({name: np.zeros_like(value) for name, value in params.items()} for _ in range(2))
    noise, keep_first, keep_second = params["straight"].shape[0], 0.9, 0.99
    widest = max(value.size for value in params.values())
    rows = next(rows for rows in range(min(fakes, max(SMALL // widest, 1)), 0, -1) if fakes % rows == 0)
    for step in range(steps):
        z = draw.standard_normal((fakes, noise), dtype=np.float32)
        made, layers = with_layers(params, z.reshape(-1, rows, noise))
        some = draw.permutation(len(loss.waves))[: math.ceil(part * len(loss.waves))].tolist()
        slope = loss(made.reshape(fakes, -1), some)[1]
        slopes = through(params, layers, slope.reshape(-1, rows, slope.shape[1]))
        now = rate * 0.5 * (1 + math.cos(math.pi * step / steps)) / (1 - keep_first ** (step + 1))
        for name, slope in slopes.items():
            first[name] += (1 - keep_first) * (slope - first[name])
            second[name] += (1 - keep_second) * (slope**2 - second[name])
            params[name] -= now * first[name] / (np.sqrt(second[name] / (1 - keep_second ** (step + 1))) + 1e-8)
    return params


def through(params: Mapping[str, NDArray], layers: Sequence[NDArray], slope: NDArray) -> Params:
    """The slope in the parameters, from that in what was made: back through the layers, (parts, rows, width) each."""

    def across(x: NDArray, back: NDArray) -> NDArray:
        return (x.swapaxes(1, 2) @ back).sum(axis=0)

    last = len(layers) - 1
    slopes = {"straight": across(layers[0], slope), "bias": slope.sum(axis=(0, 1))}
    slopes[f"weight {last}"] = across(layers[-1], slope)
    back = slope @ params[f"weight {last}"].T
    for i in range(last - 1, -1, -1):
        back = back * (1 - layers[i + 1] ** 2)
        slopes[f"weight {i}"], slopes[f"shift {i}"] = across(layers[i], back), back.sum(axis=(0, 1))
        if i:
            back = back @ params[f"weight {i}"].T
    return slopes
