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

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.normals import standard_normals
from understudy.privacy.densities import HALF, MIDDLE

SPREAD = 0.3
"""The outermost components start this far from the middle, in units of s."""
MOST_DIRECT = 16
"""A column with more states than this draws them through places."""
MOST_BYTES = 127
"""Of so many entries, one is counted in a byte."""

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


class Workspace:
    """Memory for the layers of one column after the other, over so many rows: it takes long to get it anew.

    What the layers make of one column is overwritten by the next.
    """

    def __init__(self, columns: Sequence[Column], rows: int):
        self.rows = rows
        self._read = np.empty((max(len(each.first) for each in columns), rows), np.float32)
        self._first = np.empty((max(each.first.shape[1] for each in columns), rows), np.float32)
        self._above = np.empty((max(len(each.second) for each in columns), rows), np.float32)
        self._second = np.empty((max(each.second.shape[1] for each in columns), rows), np.float32)

    def layers(self, column: Column, inputs: Array, sources: NDArray | None = None) -> tuple[Array, Array]:
        """The first and the second layer of a column: (hidden + linear, rows) and (outputs, rows).

        Args:
            inputs: Those that it reads, or, with `sources`, all of which it reads these.
        """
        read, first = self._read[: len(column.first)], self._first[: column.first.shape[1]]
        if sources is None:
            read[:-1] = inputs
        elif len(sources):
            np.take(inputs, sources, axis=0, out=read[:-1], mode="clip")
        read[-1] = 1.0
        np.matmul(column.first.T, read, out=first)
        above = self._above[: len(column.second)]
        np.tanh(first[: column.hidden], out=above[:-1])
        above[-1] = 1.0
        return first, np.matmul(column.second.T, above, out=self._second[: column.second.shape[1]])


def outputs_of(
    column: Column, inputs: Array, *, number: bool, components: int, within: Workspace | None = None
) -> Outputs:
    """What the layers make of inputs, (inputs, rows): of those that a column reads, or, within a workspace, of all."""
    if within is None:
        first, second = Workspace([column], inputs.shape[1]).layers(column, inputs)
    else:
        first, second = within.layers(column, inputs, column.sources)
    linear = first[column.hidden :]
    split = 3 * components * number
    logits = second[split:]
    logits += linear[int(number) :]
    if column.places.size:
        logits = column.places @ logits
        logits += column.bias[:, None]
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
    components = len(made.mixture) // 3
    sums = _cumulative(made.mixture[2 * components :])  # (components, rows)
    level = draw.random(sums.shape[1], dtype=np.float32)
    level *= sums[-1]
    place = np.multiply(_first_above(sums, level), len(level), dtype=np.intp)
    place += _numbers(len(level))
    scale = np.take(made.mixture[components:], place, mode="clip")  # of the chosen component alone
    scale -= np.float32(MIDDLE)
    scale *= np.float32(1 / HALF)
    np.tanh(scale, out=scale)
    scale *= np.float32(HALF)
    scale += np.float32(MIDDLE)
    found = standard_normals(len(level), draw)
    found *= np.exp(scale, out=scale)
    found += np.take(made.mixture, place, out=level, mode="clip")
    found += made.linear
    found *= column.unit
    return found


def draw_state(logits: Array, draw: np.random.Generator) -> NDArray[np.int64]:
    """A state of every row."""
    sums = _cumulative(logits)
    level = draw.random(logits.shape[1], dtype=np.float32)
    level *= sums[-1]
    return _first_above(sums, level).astype(np.int64)


def start_second(hidden: int, outputs: int, *, number: bool, components: int) -> Array:
    """The second layer before training: constants, so that a number is nearly normal about its linear output."""
    second = np.zeros((hidden + 1, outputs), np.float32)
    if number:
        shifts = np.linspace(-SPREAD, SPREAD, components) if components > 1 else np.zeros(1)
        second[-1, :components] = shifts
        log_scale = 0.5 * math.log(1 - np.mean(shifts**2))
        second[-1, components : 2 * components] = MIDDLE + HALF * math.atanh((log_scale - MIDDLE) / HALF)
    return second


def _cumulative(logits: Array) -> Array:
    """Sums of the weights up to each entry, in units of the largest weight: (entries, rows).

    Rows are added one by one: `cumsum` along the first axis takes ten times as long.
    """
    sums = logits - logits.max(axis=0)
    np.exp(sums, out=sums)
    for k in range(1, len(sums)):
        sums[k] += sums[k - 1]
    return sums


def _first_above(sums: Array, level: Array) -> NDArray[np.integer]:
    """The first entry of each row whose sum exceeds the level, or else the last: (rows,)."""
    if len(sums) > MOST_BYTES:
        found = np.zeros(len(level), np.int64)
        for each in sums[:-1]:
            found += each <= level
        return found
    found = np.zeros(len(level), np.int8)
    for each in sums[:-1]:
        found += np.less_equal(each, level).view(np.int8)  # a byte for a byte, which is several times as fast
    return found


@functools.lru_cache(maxsize=4)
def _numbers(rows: int) -> NDArray[np.intp]:
    """The numbers of so many rows."""
    found = np.arange(rows)
    found.setflags(write=False)
    return found


def _log_sum_exp(x: Array) -> Array:
    largest = x.max(axis=0)
    return largest + np.log(np.exp(x - largest).sum(axis=0))
