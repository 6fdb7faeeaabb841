"""The conditional densities: how every column is distributed, given the earlier ones.

Pure functions over arrays. Column j reads the features of its parents, which are earlier columns, and a one:

    a_j = [x_k for k in sources_j, 0, …, 0, 1]
    [h, l] = a_jᵀ first_j        first layer: hidden pre-activations, and linear outputs, one for each feature of j
    o = [tanh h, 1]ᵀ second_j    second layer

A number is a mixture of K normals about its linear output, in units of a fixed deviation s_j:

    x_j / s_j ~ Σ_k π_k N(l + shift_k, scale_k²),   (shift, log scale, log π up to a constant) = o

and a category is drawn with probability softmax(l + o). A number that may be missing is first present or not, and then
has its score. `scale_k` is held within `SCALES`, so that no density is ever large without bound.

The one rule: a column reads an earlier one through its `sources` alone, so that weights and time grow with parents and
not with columns squared. Columns with fewer inputs than others have some that read nothing; their weights are zero, and
stay zero. Rows of the table are the last axis of every array: (features, rows).

Sources: Bishop (1994), "Mixture density networks"; Uria, Murray and Larochelle (2013), arXiv:1306.0186, for one such
density after the other; Goodfellow (2015), arXiv:1510.01799, for gradients of single rows from factors.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from understudy.privacy.clipping import Layer
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.programs import Array

SCALES = (0.05, 3.0)
"""The deviation of a component stays between these, in units of s_j."""
SPREAD = 0.3
"""The outermost components start this far from the middle, in units of s_j."""
NEVER = -1e9
"""The logit of what is no category of a column."""

_MIDDLE, _HALF = (math.log(SCALES[0]) + math.log(SCALES[1])) / 2, (math.log(SCALES[1]) - math.log(SCALES[0])) / 2


class Densities(NamedTuple):
    """The weights of all columns, the unit s_j of each, and what each reads."""

    first: Array  # (columns, inputs + 1, hidden + width)
    second: Array  # (columns, hidden + 1, outputs)
    unit: Array  # (columns,)
    sources: Array  # the feature that every input reads, -1 for none: (columns, inputs)


def outputs(layout: Layout, components: int) -> int:
    """How many numbers the second layer makes for a column."""
    return 3 * components * bool(layout.has_number.any()) + layout.width * bool(layout.has_categories.any())


def start_second(layout: Layout, hidden: int, components: int) -> np.ndarray:
    """The second layer before training: constants, so that a number is nearly normal about its linear output."""
    second = np.zeros((layout.columns, hidden + 1, outputs(layout, components)), np.float32)
    if layout.has_number.any():
        shifts = np.linspace(-SPREAD, SPREAD, components) if components > 1 else np.zeros(1)
        second[:, -1, :components] = shifts
        second[:, -1, components : 2 * components] = _to_raw(0.5 * math.log(1 - np.mean(shifts**2)))
    return second


def _to_raw(log_scale: float) -> float:
    """The output that gives this log scale."""
    return _MIDDLE + _HALF * math.atanh((log_scale - _MIDDLE) / _HALF)


def factors(params: Densities, x: jax.Array, weights: Array, layout: Layout, components: int) -> list[Layer]:
    """For both layers, (a, δ) of every row: inputs, and derivatives of -Σ_j w_j log density by the pre-activations.

    The derivatives are those by something added to the pre-activations, at zero: exact, and no gradient of a row is
    ever formed. Columns are layers side by side.
    """
    a = _inputs(params, x)
    first = _first(params, a)

    def densities(first, added):
        b, linear = _bent(first, params.second.shape[1] - 1)
        return column_densities(linear, _second(params, b) + added, x, params.unit, layout, components), b

    nothing = jnp.zeros((layout.columns, params.second.shape[2], x.shape[1]), x.dtype)
    found, pull_back, b = jax.vjp(densities, first, nothing, has_aux=True)
    of_first, of_second = pull_back(jnp.broadcast_to(-weights[:, None], found.shape))
    return [Layer(a, of_first), Layer(b, of_second)]


def used_inputs(sources: Array) -> jax.Array:
    """Which rows of the first layers have weights: those of inputs that read something, and the constants."""
    used = jnp.asarray(sources) >= 0
    return jnp.concatenate([used, jnp.ones((used.shape[0], 1), bool)], axis=1)[:, :, None]


def _inputs(params: Densities, x: jax.Array) -> jax.Array:
    """What every column reads of rows, (features, rows), and a one: (columns, inputs + 1, rows)."""
    read = jnp.take(x, jnp.maximum(params.sources, 0), axis=0, mode="clip")
    return _with_one(read * (params.sources >= 0)[:, :, None].astype(x.dtype))


def _with_one(x: jax.Array) -> jax.Array:
    """Arrays of (..., features, rows) with a one below the features."""
    return jnp.concatenate([x, jnp.ones((*x.shape[:-2], 1, x.shape[-1]), x.dtype)], axis=-2)


def _first(params: Densities, a: jax.Array) -> jax.Array:
    """What the first layers make of (columns, inputs + 1, rows): (columns, hidden and linear outputs, rows)."""
    return jnp.einsum("dio,dir->dor", params.first, a)


def _second(params: Densities, b: jax.Array) -> jax.Array:
    """What the second layers make of (columns, hidden + 1, rows): (columns, outputs, rows)."""
    return jnp.einsum("dho,dhr->dor", params.second, b)


def _bent(first: jax.Array, hidden: int) -> tuple[jax.Array, jax.Array]:
    """What the second layer sees, [tanh h, 1], and the linear outputs."""
    return _with_one(jnp.tanh(first[:, :hidden])), first[:, hidden:]


def log_density(
    params: Densities, x: jax.Array, layout: Layout, components: int, *, given: jax.Array | None = None
) -> jax.Array:
    """The log density of every column of every row, given the earlier ones: (features, rows) to (columns, rows).

    Args:
        given: Rows whose earlier columns are given instead of those of x.
    """
    b, linear = _bent(_first(params, _inputs(params, x if given is None else given)), params.second.shape[1] - 1)
    return column_densities(linear, _second(params, b), x, params.unit, layout, components)


def column_densities(
    linear: jax.Array, second: jax.Array, x: jax.Array, unit: Array, layout: Layout, components: int
) -> jax.Array:
    """log p(x_j | earlier) from what the layers make: (columns, …, rows) to (columns, rows)."""
    block = x[layout.places]  # (columns, width, rows)
    total = jnp.zeros((layout.columns, x.shape[1]), x.dtype)
    if layout.has_number.any():
        shift, log_scale, log_weight = mixture(second[:, : 3 * components], components)
        z = (block[:, 0] / unit[:, None] - linear[:, 0])[:, None] - shift
        each = log_weight - log_scale - 0.5 * (z * jnp.exp(-log_scale)) ** 2
        density = logsumexp(each, axis=1) - 0.5 * math.log(2 * math.pi) - jnp.log(unit)[:, None]
        maybe = (layout.has_number & layout.has_categories)[:, None]
        present = jnp.where(maybe, block[:, min(1, layout.width - 1)], 1.0)
        total += jnp.where(layout.has_number[:, None], present * density, 0.0)
    if layout.has_categories.any():
        is_category = layout.is_category[:, :, None]
        logits = jnp.where(is_category, linear + second[:, -layout.width :], NEVER)
        chosen = jnp.where(is_category, block, 0.0)
        total += jnp.sum(chosen * jax.nn.log_softmax(logits, axis=1), axis=1)
    return total


def mixture(raw: Array, components: int) -> tuple[Array, Array, Array]:
    """Shifts, log scales and log weights from the second layer's outputs, (..., outputs, rows)."""
    shift, log_scale, weight = (raw[..., i * components : (i + 1) * components, :] for i in range(3))
    log_scale = _MIDDLE + _HALF * jnp.tanh((log_scale - _MIDDLE) / _HALF)
    return shift, log_scale, jax.nn.log_softmax(weight, axis=-2)
