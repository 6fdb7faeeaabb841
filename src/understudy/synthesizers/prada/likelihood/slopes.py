"""The slope of a part's log density by its weights, in NumPy: what distillation follows.

It is the backward pass of columns.py, written out, over padded weights side by side (parts.py). Written out it needs no
compilation, which for most tables took longer than the training. Rows are the second axis here, (columns, rows, …), so
that every layer is one product of matrices.

The one rule: rows are public. Private rows meet the same densities in density.py, inside the mechanism.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.prada.likelihood.columns import HALF, MIDDLE, NEVER
from understudy.synthesizers.prada.likelihood.parts import Shape, Weights

Floats = NDArray[np.floating]


class Learned(NamedTuple):
    """What a distillation trains, or the slope by it."""

    first: Floats
    second: Floats
    places: Floats
    bias: Floats


class Given(NamedTuple):
    """What does not change in a training."""

    unit: Floats  # (columns, 1)
    sources: NDArray[np.int32]  # (columns · inputs,)
    used: Floats  # 1 where an input reads something: (columns, 1, inputs)
    no_state: Floats  # `NEVER` where a column has no such state, else 0: (columns, 1, states)


def given_of(weights: Weights) -> Given:
    sources, is_state = np.asarray(weights.sources), np.asarray(weights.is_state)
    return Given(
        unit=np.asarray(weights.unit, np.float32)[:, None],
        sources=np.maximum(sources, 0).ravel(),
        used=(sources >= 0).astype(np.float32)[:, None, :],
        no_state=np.where(is_state, np.float32(0.0), np.float32(NEVER))[:, None, :],
    )


def slope(learned: Learned, given: Given, x: Floats, shape: Shape) -> Learned:
    """The slope of the mean over rows of the summed log densities.

    Args:
        x: What the part reads of public rows, transposed: (rows, features + 2 · columns).
    """
    d, n, h = shape.columns, len(x), shape.hidden
    a = np.empty((d, n, shape.inputs + 1), np.float32)
    read = x[:, given.sources].reshape(n, d, shape.inputs).transpose(1, 0, 2)
    np.multiply(read, given.used, out=a[:, :, :-1])
    a[:, :, -1] = 1.0
    first = a @ learned.first
    b = np.empty((d, n, h + 1), np.float32)
    np.tanh(first[:, :, :h], out=b[:, :, :h])
    b[:, :, h] = 1.0
    second = b @ learned.second
    own, state = (x[:, shape.features + i * d : shape.features + (i + 1) * d].T for i in range(2))
    of_first, of_second = np.empty_like(first), np.empty_like(second)
    split, of_linear = 3 * shape.components * shape.number, of_first[:, :, h:]
    places = bias = np.zeros(0, np.float32)
    if shape.states:
        sums = first[:, :, h + shape.number :] + second[:, :, split:]
        by_sum, places, bias = _states(learned, given, sums, state, shape)
        of_second[:, :, split:] = by_sum
        of_linear[:, :, int(shape.number) :] = by_sum
    if shape.number:
        z = own / given.unit - first[:, :, h]
        _mixture(z, second[:, :, :split], of_second[:, :, :split], shape.components)
        if shape.states:
            of_second[:, :, :split] *= (state == 0).astype(np.float32)[:, :, None]
        of_linear[:, :, 0] = of_second[:, :, : shape.components].sum(axis=2)
    of_hidden, hidden = of_second @ learned.second[:, :h].transpose(0, 2, 1), b[:, :, :h]
    np.multiply(of_hidden, 1.0 - hidden * hidden, out=of_first[:, :, :h])
    by_first, by_second = a.transpose(0, 2, 1) @ of_first, b.transpose(0, 2, 1) @ of_second
    by_first[:, :-1] *= given.used.transpose(0, 2, 1)
    part = np.float32(1.0 / n)
    return Learned(part * by_first, part * by_second, part * places, part * bias)


def _states(learned: Learned, given: Given, sums: Floats, state: Floats, shape: Shape) -> tuple[Floats, Floats, Floats]:
    """The slopes by what states are drawn from, (columns, rows, drawn), and by places and bias."""
    logits = sums
    if shape.rank:
        logits = sums @ learned.places.transpose(0, 2, 1) + learned.bias[:, None, :]
    slopes = -_softmax(logits + given.no_state)
    at = np.ogrid[: slopes.shape[0], : slopes.shape[1]]
    slopes[at[0], at[1], state.astype(np.int64)] += 1.0
    if not shape.rank:
        nothing = np.zeros(0, np.float32)
        return slopes, nothing, nothing
    return slopes @ learned.places, slopes.transpose(0, 2, 1) @ sums, slopes.sum(axis=1)


def _mixture(z: Floats, raw: Floats, out: Floats, components: int) -> None:
    """The slopes by shifts, raw log scales and raw weights of the components, (columns, rows, 3 · components).

    Of a component with responsibility r, weight π and residual u = (z - shift) / scale they are r u / scale,
    r (u² - 1) times the slope of the bounded log scale, and r - π.
    """
    shift, raw_scale, raw_weight = (raw[:, :, i * components : (i + 1) * components] for i in range(3))
    bent = np.tanh((raw_scale - np.float32(MIDDLE)) * np.float32(1.0 / HALF))
    log_scale = np.float32(MIDDLE) + np.float32(HALF) * bent
    weight, inverse = _softmax(raw_weight), np.exp(-log_scale)
    u = (z[:, :, None] - shift) * inverse
    held = _softmax(np.log(np.maximum(weight, np.float32(1e-30))) - log_scale - np.float32(0.5) * u * u)
    np.multiply(held * u, inverse, out=out[:, :, :components])
    np.multiply(held * (u * u - 1.0), 1.0 - bent * bent, out=out[:, :, components : 2 * components])
    np.subtract(held, weight, out=out[:, :, 2 * components :])


def _softmax(x: Floats) -> Floats:
    """Along the last axis."""
    found = np.exp(x - x.max(axis=-1, keepdims=True))
    found /= found.sum(axis=-1, keepdims=True)
    return found
