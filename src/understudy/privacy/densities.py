"""The densities of columns, as a training knows them: a network whose derivatives are written out in NumPy.

A part is some columns side by side. Column j reads some inputs of a row, and a one:

    a = [inputs, 1]
    [h, l] = aᵀ first        first layer: hidden pre-activations, and linear outputs
    b = [tanh h, 1]
    o = bᵀ second            second layer

Its state, if it has states, has probability softmax(l + o), or, if there are many, softmax(bias + places (l + o)). A
number that is regular (in state 0, or without states) is a mixture of K normals about its linear output, in units of a
fixed deviation s:

    score / s ~ Σ_k π_k N(l + shift_k, scale_k²),   (shift, log scale, log π up to a constant) = o

The one rule: everything here is done to each row by itself. Rows are the last axis, (columns, …, rows), and every
operation is one along earlier axes, one on single numbers, or a product of a matrix of weights and one whose columns
are rows. What is made of a row depends on that row and on the weights alone, and no value raises.

It is written out because a compiled program takes longer to compile, for most tables, than to run; and because the same
code then serves public rows (synthesizers/prada/likelihood/distillation.py) and private ones (density_training.py).

Source: Bishop (1994), "Mixture density networks".
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

# The deviation of a component stays between these, in units of s, so that no density is large without bound.
SCALES = (0.05, 3.0)
MIDDLE, HALF = (math.log(SCALES[0]) + math.log(SCALES[1])) / 2, (math.log(SCALES[1]) - math.log(SCALES[0])) / 2
# The logit of what is no state of a column.
NEVER = -1e9
# If columns read less than this part of all features, each is given those that it reads. Else all are given to all, and
# multiplied with weights of zero where they are not read: one large product takes half the time of many small ones.
FEW_READ = 0.5


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a part.

    Attributes:
        columns: Columns side by side.
        inputs: Inputs that each reads, at most.
        features: Different inputs that are read by any of them.
        number: Whether they are numbers.
        states: States that each has, at most; 0 for none.
        rank: The places of a state; 0 if states are drawn directly.
    """

    columns: int
    inputs: int
    features: int
    number: bool
    states: int
    rank: int
    hidden: int
    components: int

    @property
    def gathered(self) -> bool:
        """Whether every column is given the features that it reads, and not all."""
        return are_gathered(self.inputs, self.features)

    @property
    def drawn(self) -> int:
        """Outputs that states are drawn from."""
        return self.rank or self.states

    @property
    def linear(self) -> int:
        return self.number + self.drawn

    @property
    def outputs(self) -> int:
        return 3 * self.components * self.number + self.drawn

    @property
    def size(self) -> int:
        """How many numbers a sum of gradients has, those of both layers."""
        of_column = (self.inputs + 1) * (self.hidden + self.linear) + (self.hidden + 1) * self.outputs
        return self.columns * of_column

    @property
    def terms(self) -> int:
        """How many numbers are added up, at most, one after the other for the squared norm of a row."""
        return max(self.features + 1 + self.hidden + self.linear, self.hidden + 1 + self.outputs) + 2

    def check_norms(self, shape: tuple[int, ...]) -> None:
        """Refuses clipping norms that are not one for each column."""
        if shape != (self.columns,):
            raise ValueError(f"clip_norm: expected one for each column, got {shape}.")


def are_gathered(inputs: int, features: int) -> bool:
    """Whether columns that read at most so many of so many features are each given those that they read."""
    return inputs + 1 < FEW_READ * (features + 1)


class Weights(NamedTuple):
    """The weights of a part: those of its columns, padded and stacked."""

    first: Floats  # (columns, inputs + 1, hidden + linear)
    second: Floats  # (columns, hidden + 1, outputs)
    places: Floats  # (columns, states, rank); empty if states are drawn directly
    bias: Floats  # (columns, states); empty as well
    unit: Floats  # s: (columns,)
    sources: NDArray[np.int32]  # the feature that every input reads, -1 for none: (columns, inputs)
    is_state: NDArray[np.bool_]  # which states there are: (columns, states)


def plain_weights(given: Weights, shape: Shape) -> Weights:
    """The weights, if they are plain arrays of numbers of this shape.

    Privacy:
        Weights come from outside of this folder and are multiplied with what is made of rows. An array of another
        class, or of objects, would be handed that by its own operators.
    """
    weights = Weights(*given)
    if any(type(each) is not np.ndarray or each.dtype.kind not in "fib" for each in weights):
        raise TypeError("weights: expected plain NumPy arrays of numbers.")
    expected = (
        (shape.columns, shape.inputs + 1, shape.hidden + shape.linear),
        (shape.columns, shape.hidden + 1, shape.outputs),
    )
    if (weights.first.shape, weights.second.shape) != expected:
        raise ValueError(f"weights: expected layers of {expected}, got {weights.first.shape}, {weights.second.shape}.")
    return weights


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DensityLoop:
    """A training of densities. Its functions are given noisy sums and public weights, and never a row.

    Attributes:
        steps_per_round: Steps whose random draws are made at a time; it divides the number of steps.
        weights: The weights in a state.
        update: The state after a step, given the noisy sums of the slopes of the log density by both layers.
        contrasts: How many rows the slope of a row is contrasted with, which the densities draw given the inputs of the
            row (`density_training.row_slopes`); 0 for none.
        silent: Whether slopes count as zero, so that sums are noise alone: for audits.
    """

    shape: Shape
    steps_per_round: int
    weights: Callable[[Any], Weights]
    update: Callable[[Any, Sequence[Floats]], Any]
    contrasts: int = 0
    silent: bool = False


class Fixed(NamedTuple):
    """What of the weights does not change in a training, as the derivatives need it."""

    unit: Floats  # (columns, 1)
    places: NDArray[np.int64]  # of every input and the one among features; unused ones beyond: (columns, inputs + 1)
    reads: Floats  # how many inputs of a column read a feature, or the one: (columns, features + 1)
    no_state: Floats  # `NEVER` where a column has no such state, else 0: (columns, states, 1)


class Layers(NamedTuple):
    """What both layers are given and make of rows.

    Attributes:
        read: What the first layer is given, with a one at last: (rows, features + 1), or, if the inputs of columns are
            gathered, (columns, inputs + 1, rows).
    """

    read: Floats
    hidden: Floats  # tanh h: (columns, hidden, rows)
    linear: Floats  # (columns, linear, rows)
    second: Floats  # (columns, outputs, rows)


class Derivatives(NamedTuple):
    """What both layers are given, and the derivatives of the log density of every row by what they make."""

    read: Floats  # as of `Layers`
    by_hidden: Floats  # by hidden pre-activations: (columns, hidden, rows)
    by_linear: Floats  # by linear outputs: (columns, linear, rows)
    hidden: Floats  # tanh h: (columns, hidden, rows)
    by_second: Floats  # (columns, outputs, rows)
    sums: Floats  # l + o of states: (columns, drawn, rows)
    by_logits: Floats  # (columns, states, rows)


class Slopes(NamedTuple):
    """Sums over rows of the slopes by both layers."""

    first: Floats  # (columns, inputs + 1, hidden + linear)
    second: Floats  # (columns, hidden + 1, outputs)


def fixed_of(weights: Weights, shape: Shape) -> Fixed:
    last = np.full((shape.columns, 1), shape.features)
    places = np.concatenate([np.where(weights.sources >= 0, weights.sources, shape.features + 1), last], axis=1)
    reads = np.zeros((shape.columns, shape.features + 2), np.float32)
    np.add.at(reads, (np.arange(shape.columns)[:, None], places), 1.0)
    return Fixed(
        unit=np.asarray(weights.unit, np.float32)[:, None],
        places=places.astype(np.int64),
        reads=reads[:, :-1],
        no_state=np.where(weights.is_state, np.float32(0.0), np.float32(NEVER))[:, :, None],
    )


def layers(weights: Weights, fixed: Fixed, features: Floats, shape: Shape) -> Layers:
    """What both layers make of every row.

    Args:
        features: With a one at last: (rows, features + 1).
    """
    h = shape.hidden
    read, hidden, linear = (_of_gathered if shape.gathered else _of_all)(weights.first, fixed, features, shape)
    np.tanh(hidden, out=hidden)
    second = weights.second[:, :h].transpose(0, 2, 1) @ hidden
    second += weights.second[:, h][:, :, None]
    return Layers(read, hidden, linear, second)


def _of_all(first: Floats, fixed: Fixed, features: Floats, shape: Shape) -> tuple[Floats, Floats, Floats]:
    """What the first layer is given, and makes: all features, with weights of zero where they are not read."""
    d, n, h = shape.columns, len(features), shape.hidden
    by_feature = np.zeros((d, h + shape.linear, shape.features + 2), np.float32)
    by_feature[np.arange(d)[:, None], :, fixed.places] = first
    by_feature = by_feature[:, :, :-1]
    hidden = np.ascontiguousarray(by_feature[:, :h]).reshape(d * h, -1) @ features.T
    linear = np.ascontiguousarray(by_feature[:, h:]).reshape(d * shape.linear, -1) @ features.T
    return features, hidden.reshape(d, h, n), linear.reshape(d, shape.linear, n)


def _of_gathered(first: Floats, fixed: Fixed, features: Floats, shape: Shape) -> tuple[Floats, Floats, Floats]:
    """The same, of the features that each column reads; an input that reads none is zero."""
    turned = np.zeros((shape.features + 2, len(features)), np.float32)
    turned[:-1] = features.T
    read = turned[fixed.places]
    hidden, linear = (np.ascontiguousarray(each) for each in np.split(first, [shape.hidden], axis=2))
    return read, hidden.transpose(0, 2, 1) @ read, linear.transpose(0, 2, 1) @ read


def own_of(x: Floats, shape: Shape) -> tuple[Floats, Floats]:
    """Own scores and own states, (columns, rows) each, of rows as `derivatives` reads them."""
    d, start = shape.columns, shape.features + 1
    own, state = (np.ascontiguousarray(x[:, start + i * d :][:, :d].T) for i in range(2))
    return own, state


def derivatives(weights: Weights, fixed: Fixed, x: Floats, shape: Shape) -> Derivatives:
    """The derivatives of log p(x_j | what it reads), for every row and column.

    Args:
        x: Features, a one, own scores and own states of rows: (rows, features + 1 + 2 · columns). A state that is none
            counts as the nearest.
    """
    made = layers(weights, fixed, x[:, : shape.features + 1], shape)
    return derivatives_at(weights, fixed, made, *own_of(x, shape), shape)


def derivatives_at(
    weights: Weights, fixed: Fixed, made: Layers, own: Floats, state: Floats, shape: Shape
) -> Derivatives:
    """The same, of what the layers made of rows.

    Args:
        own, state: (columns, rows).
    """
    read, hidden, linear, second = made
    d, n, h = shape.columns, hidden.shape[2], shape.hidden
    by_linear, by_second = np.empty_like(linear), np.empty_like(second)
    split = 3 * shape.components * shape.number
    sums = by_logits = np.zeros((d, 0, n), np.float32)
    if shape.states:
        sums = linear[:, int(shape.number) :] + second[:, split:]
        by_logits = _by_logits(weights, fixed, sums, state, shape)
        by_sum = weights.places.transpose(0, 2, 1) @ by_logits if shape.rank else by_logits
        by_second[:, split:] = by_sum
        by_linear[:, int(shape.number) :] = by_sum
    if shape.number:
        z = own / fixed.unit - linear[:, 0]
        _by_mixture(z, second[:, :split], by_second[:, :split], shape.components)
        if shape.states:
            by_second[:, :split] *= (state == 0).astype(np.float32)[:, None, :]
        by_linear[:, 0] = by_second[:, : shape.components].sum(axis=1)
    by_hidden = weights.second[:, :h] @ by_second
    by_hidden *= 1.0 - hidden * hidden
    return Derivatives(read, by_hidden, by_linear, hidden, by_second, sums, by_logits)


def draw_own(
    weights: Weights, fixed: Fixed, made: Layers, shape: Shape, draw: np.random.Generator
) -> tuple[Floats, Floats]:
    """Own scores and states that the densities draw of what their layers made: (columns, rows) each.

    What is drawn for a row depends on what was made of it, on the weights and on its place among the rows.
    """
    d, n, k = shape.columns, made.hidden.shape[2], shape.components * shape.number
    own, state = np.zeros((d, n), np.float32), np.zeros((d, n), np.float32)
    if shape.states:
        sums = made.linear[:, int(shape.number) :] + made.second[:, 3 * k :]
        state = _choice(logits_of(weights, fixed, sums, shape), draw).astype(np.float32)
    if shape.number:
        component = _choice(made.second[:, 2 * k : 3 * k], draw)[:, None, :]
        shift, raw = (np.take_along_axis(made.second[:, i : i + k], component, axis=1)[:, 0] for i in (0, k))
        scale = np.exp(np.float32(MIDDLE) + np.float32(HALF) * np.tanh((raw - np.float32(MIDDLE)) / np.float32(HALF)))
        own = (made.linear[:, 0] + shift + scale * draw.standard_normal((d, n), dtype=np.float32)) * fixed.unit
    return own, state


def _choice(logits: Floats, draw: np.random.Generator) -> NDArray[np.int64]:
    """An entry of every column and row, in proportion to exp(logits): (columns, rows)."""
    sums = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    level = draw.random((len(logits), 1, logits.shape[2]), dtype=np.float32) * sums[:, -1:]
    return np.minimum((sums <= level).sum(axis=1), logits.shape[1] - 1)


def slopes_of(made: Derivatives, fixed: Fixed, *, blocks: int = 1) -> Slopes:
    """The sums over rows of the slopes by both layers: of products of what a layer is given and of derivatives.

    Args:
        blocks: Rows are added up in so many blocks, and the blocks then.
    """
    n = made.hidden.shape[2]
    length = -(-n // blocks)
    totals: list[Floats] = []
    for rows in (slice(k, k + length) for k in range(0, n, length)):
        by_second = made.by_second[:, :, rows]
        sums = [
            _first_sums(made.read, made.by_hidden[:, :, rows], rows),
            _first_sums(made.read, made.by_linear[:, :, rows], rows),
            made.hidden[:, :, rows] @ by_second.transpose(0, 2, 1),
            by_second.sum(axis=2),
        ]
        totals = [total + each for total, each in zip(totals, sums, strict=True)] if totals else sums
    by_hidden, by_linear, second, constants = totals
    if made.read.ndim == 2:
        first = _of_inputs(by_hidden, by_linear, fixed)
    else:
        first = np.concatenate([by_hidden, by_linear], axis=2)
    return Slopes(first, np.concatenate([second, constants[:, None, :]], axis=1))


def _first_sums(read: Floats, by: Floats, rows: slice) -> Floats:
    """The sums over some rows of products of what the first layer is given and of derivatives by what it makes.

    Returns:
        By feature, (columns, derivatives, features + 1), or by gathered input, (columns, inputs + 1, derivatives).
    """
    if read.ndim == 3:
        return read[:, :, rows] @ by.transpose(0, 2, 1)
    d, made, n = by.shape
    return (by.reshape(d * made, n) @ read[rows]).reshape(d, made, -1)


def _of_inputs(by_hidden: Floats, by_linear: Floats, fixed: Fixed) -> Floats:
    """Sums by feature as sums by input: (columns, inputs + 1, hidden + linear). Those of unused inputs are zero."""
    (d, h, features), linear = by_hidden.shape, by_linear.shape[1]
    by_feature = np.zeros((d, h + linear, features + 1), by_hidden.dtype)
    by_feature[:, :h, :-1] = by_hidden
    by_feature[:, h:, :-1] = by_linear
    return by_feature[np.arange(d)[:, None], :, fixed.places]


def logits_of(weights: Weights, fixed: Fixed, sums: Floats, shape: Shape) -> Floats:
    """The logits of states, (columns, states, rows), of what both layers make for them."""
    return (weights.places @ sums + weights.bias[:, :, None] if shape.rank else sums) + fixed.no_state


def _by_logits(weights: Weights, fixed: Fixed, sums: Floats, state: Floats, shape: Shape) -> Floats:
    """The derivatives by the logits of states: (columns, states, rows)."""
    found = _softmax(logits_of(weights, fixed, sums, shape))
    np.negative(found, out=found)
    chosen = np.fmin(np.fmax(state, 0), shape.states - 1).astype(np.int64)  # what is no number counts as the first
    found[np.arange(len(state))[:, None], chosen, np.arange(state.shape[1])[None, :]] += 1.0
    return found


def _by_mixture(z: Floats, raw: Floats, out: Floats, components: int) -> None:
    """The derivatives by shifts, raw log scales and raw weights of the components, (columns, 3 · components, rows).

    Of a component with responsibility r, weight π and residual u = (z - shift) / scale they are r u / scale,
    r (u² - 1) times the slope of the bounded log scale, and r - π.
    """
    shift, raw_scale, raw_weight = (raw[:, i * components : (i + 1) * components] for i in range(3))
    bent = np.tanh((raw_scale - np.float32(MIDDLE)) * np.float32(1.0 / HALF))
    log_scale = np.float32(MIDDLE) + np.float32(HALF) * bent
    weight, inverse = _softmax(raw_weight), np.exp(-log_scale)
    u = (z[:, None, :] - shift) * inverse
    held = _softmax(np.log(np.maximum(weight, np.float32(1e-30))) - log_scale - np.float32(0.5) * u * u)
    np.multiply(held * u, inverse, out=out[:, :components])
    np.multiply(held * (u * u - 1.0), 1.0 - bent * bent, out=out[:, components : 2 * components])
    np.subtract(held, weight, out=out[:, 2 * components :])


def _softmax(x: Floats) -> Floats:
    """Over the middle axis."""
    found = x - x.max(axis=1, keepdims=True)
    np.exp(found, out=found)
    found /= found.sum(axis=1, keepdims=True)
    return found
