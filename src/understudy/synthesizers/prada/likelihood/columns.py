"""The density of one column, given what it reads: weights, log density and draws, in NumPy.

Column j reads some inputs of earlier columns (reading.py), and a one:

    a = [inputs, 1]
    [h, l] = aᵀ first        first layer: hidden pre-activations, and linear outputs
    o = [tanh h, 1]ᵀ second  second layer

Its state, if it has states, is drawn with probability softmax(l + o), or, if there are many, softmax(bias + places
(l + o)) with a few places for each state. A number that is regular is a mixture of K normals about its linear output,
in units of a fixed deviation s:

    score / s ~ Σ_k π_k N(l + shift_k, scale_k²),   (shift, log scale, log π up to a constant) = o

`scale_k` is held within `densities.SCALES`, so that no density is ever large without bound. Rows are the last axis.

Sources: Bishop (1994), "Mixture density networks"; Uria, Murray and Larochelle (2013), arXiv:1306.0186, for one such
density after the other.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.densities import HALF, MIDDLE

SPREAD = 0.3
"""The outermost components start this far from the middle, in units of s."""
MOST_DIRECT = 16
"""A column with more states than this draws them through places."""

Array = NDArray[np.float32]


class Column(NamedTuple):
    """The weights of one column."""

    first: Array  # (inputs + 1, hidden + linear)
    second: Array  # (hidden + 1, outputs)
    unit: Array  # s: ()
    sources: NDArray[np.int32]  # which inputs it reads: (inputs,)
    places: Array  # (states, rank); empty if states are drawn directly
    bias: Array  # (states,)

    @property
    def hidden(self) -> int:
        return self.second.shape[0] - 1


class Outputs(NamedTuple):
    """What the layers make of rows."""

    linear: Array | None  # of a number: (rows,)
    mixture: Array | None  # of a number: (3 · components, rows)
    logits: Array | None  # of states: (states, rows)


def outputs_of(column: Column, inputs: Array, *, number: bool, components: int) -> Outputs:
    """What the layers make of the inputs that a column reads, (inputs, rows)."""
    first = column.first[:-1].T @ inputs + column.first[-1][:, None]
    hidden = column.hidden
    second = column.second[:-1].T @ np.tanh(first[:hidden]) + column.second[-1][:, None]
    linear = first[hidden:]
    split = 3 * components * number
    logits = linear[int(number) :] + second[split:]
    if column.places.size:
        logits = column.places @ logits + column.bias[:, None]
    return Outputs(linear[0] if number else None, second[:split] if number else None, logits if len(logits) else None)


def mixture(raw: Array) -> tuple[Array, Array, Array]:
    """Shifts, log scales and log weights, (components, rows) each, from the second layer's outputs."""
    shift, log_scale, weight = np.split(raw, 3)
    log_scale = (MIDDLE + HALF * np.tanh((log_scale - MIDDLE) / HALF)).astype(np.float32, copy=False)
    return shift, log_scale, weight - _log_sum_exp(weight)


def log_density(column: Column, made: Outputs, own: Array, state: NDArray) -> Array:
    """log p(state) + log p(score), the latter where the state is regular or there are no states: (rows,)."""
    total = np.zeros(len(own), np.float32)
    regular = np.ones(len(own), bool)
    if made.logits is not None:
        total += made.logits[state, np.arange(len(own))] - _log_sum_exp(made.logits)
        regular = state == 0
    if made.mixture is not None and made.linear is not None:
        shift, log_scale, log_weight = mixture(made.mixture)
        z = (own / column.unit - made.linear)[None, :] - shift
        each = log_weight - log_scale - 0.5 * (z * np.exp(-log_scale)) ** 2
        found = (
            _log_sum_exp(each.astype(np.float32, copy=False))
            - 0.5 * math.log(2 * math.pi)
            - math.log(float(column.unit))
        )
        total += np.where(regular, found, 0.0)
    return total


def draw_score(column: Column, made: Outputs, draw: np.random.Generator) -> Array:
    """A score of every row, before calibration."""
    assert made.mixture is not None and made.linear is not None  # it is a number
    shift, log_scale, log_weight = mixture(made.mixture)
    rows = np.arange(shift.shape[1])
    level = draw.random(len(rows), dtype=np.float32)
    chosen = np.minimum((np.cumsum(np.exp(log_weight), axis=0) < level).sum(axis=0), len(shift) - 1)
    normal = draw.standard_normal(len(rows), dtype=np.float32)
    found = column.unit * (made.linear + shift[chosen, rows] + np.exp(log_scale[chosen, rows]) * normal)
    return found.astype(np.float32, copy=False)


def draw_state(logits: Array, draw: np.random.Generator) -> NDArray[np.int64]:
    """A state of every row."""
    weights = np.exp(logits - logits.max(axis=0))
    sums = np.cumsum(weights, axis=0)
    level = draw.random(logits.shape[1], dtype=np.float32) * sums[-1]
    return np.minimum((sums <= level).sum(axis=0), len(logits) - 1)


def start_second(hidden: int, outputs: int, *, number: bool, components: int) -> Array:
    """The second layer before training: constants, so that a number is nearly normal about its linear output."""
    second = np.zeros((hidden + 1, outputs), np.float32)
    if number:
        shifts = np.linspace(-SPREAD, SPREAD, components) if components > 1 else np.zeros(1)
        second[-1, :components] = shifts
        log_scale = 0.5 * math.log(1 - np.mean(shifts**2))
        second[-1, components : 2 * components] = MIDDLE + HALF * math.atanh((log_scale - MIDDLE) / HALF)
    return second


def _log_sum_exp(x: Array) -> Array:
    largest = x.max(axis=0)
    return largest + np.log(np.exp(x - largest).sum(axis=0))
