"""Clipped sums of per-unit gradients, made of the factors of dense layers.

The one rule: the bound on what one unit can change holds whatever the factors are. Norms, clipping and the sum are
made of the same factors, in the same precision, and a row whose gradient is not finite counts as zero.

What is promised of floating point: two batches that differ by one unit have sums, *as computed*, that differ by at most
C (1 + SUMMATION + ...), whatever the order in which a machine adds, on however many threads (`summation.usable_part`
has the proof). So rows are added in float32 in a few blocks, and the blocks then, so that chains are short; and batches
of thousands of rows in float64.

The gradient of one row with respect to a dense layer is an outer product a ⊗ δ of the layer's input and of the
derivative with respect to its output, so its norm is |a| |δ| and no gradient is ever written out.

Source: Goodfellow (2015), arXiv:1510.01799, for norms from factors.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import functools
import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.privacy.summation import SMALLEST_FACTOR, summation_blocks

Array = jax.Array
Mask = NDArray[np.bool_]


class Layer(NamedTuple):
    """A dense layer's part in the gradient of every row, a ⊗ δ; rows are the last axis of both.

    Attributes:
        inputs: a, (in, rows); of many layers side by side (..., in, rows).
        deltas: δ, the derivatives by the outputs, (out, rows) or (..., out, rows).
        seen: Of layers side by side that share their inputs, (in, rows), which of them each one sees: (..., in).
    """

    inputs: Array
    deltas: Array
    seen: Mask | None = None


def clipped_sums(layers: Sequence[Layer], inside: Array, clip_norm: Array | float) -> list[Array]:
    """Σ_u c_u Σ_r a_r ⊗ δ_r for every layer, with c_u = min(1, C / Σ_r |g_r|) and |g_r|² = Σ_l |a_rl|² |δ_rl|².

    For layers side by side, a ⊗ δ is one outer product for each, and |a|² |δ|² the sum over them of theirs. With a
    norm C_j for each of them they are clipped one by one: j of all layers together is a network of its own then.

    Args:
        inside: (units, rows of a unit): which places hold a row.
        clip_norm: C, or one C_j for each of the layers side by side: (side by side,).

    Returns:
        For each layer (..., in, out), in float32, or in float64 if there are thousands of rows.

    Privacy:
        Releases nothing by itself: the sums have no noise. But for rounding (`summation.usable_part`), adding or
        removing one unit changes them by at most C in L2 norm, over all layers together: the norm of a unit's gradient
        is at most the sum of its rows' norms, and it is that sum which is clipped. Clipped one by one, the sums of j
        change by at most C_j, and all of them together by at most √Σ C_j². A row whose gradient is not finite counts
        as zero, since an error would be a release.
    """
    layers, norm = [_checked(layer) for layer in layers], jnp.asarray(clip_norm)
    if norm.ndim and any(layer.deltas.shape[:-2] != norm.shape for layer in layers):
        raise ValueError(f"clip_norm: expected one for each layer side by side, got {norm.shape}.")
    squares = functools.reduce(operator.add, (_squares(layer, apart=norm.ndim > 0) for layer in layers))
    finite = jnp.isfinite(squares) & inside.reshape(*(1 for _ in norm.shape), -1)
    norms = jnp.sqrt(jnp.where(finite, squares, 0.0)).reshape(*norm.shape, *inside.shape)
    of_unit = jnp.sum(norms, axis=-1, keepdims=True)
    scale = jnp.minimum(1.0, norm[..., None, None] / jnp.maximum(of_unit, 1e-30))
    weights = (jnp.broadcast_to(scale, norms.shape).reshape(squares.shape) * finite).astype(jnp.float32)
    blocks = summation_blocks(*inside.shape)
    return [_weighted_sum(layer, finite, weights, blocks, apart=norm.ndim > 0) for layer in layers]


def _along_rows(of_rows: Array, factor: Array) -> Array:
    """One number for each row, or for each row and layer side by side, with as many axes as a factor."""
    return jnp.expand_dims(of_rows, tuple(range(of_rows.ndim - 1, factor.ndim - 1)))


def _checked(layer: Layer) -> Layer:
    """A layer whose factors fit together, in float32, with entries that are zero or have squares that do not vanish."""
    a, delta, seen = layer
    axes = a.shape[:-2] if seen is None else np.shape(seen)[:-1]
    if axes != delta.shape[:-2] or a.shape[-1] != delta.shape[-1]:
        raise ValueError(f"factors: expected equal axes but for in and out, got {a.shape} and {delta.shape}.")
    if seen is not None and (type(seen) is not np.ndarray or seen.dtype != bool or seen.shape[-1:] != a.shape[:-1]):
        raise ValueError("factors, seen: expected a NumPy array of truth values, one for each input.")
    return Layer(_without_tiny(a), _without_tiny(delta), seen)


def _without_tiny(factor: Array) -> Array:
    """A factor in float32 whose entries are zero or large enough for their squares not to vanish."""
    factor = jnp.asarray(factor, jnp.float32)
    return jnp.where(jnp.abs(factor) < SMALLEST_FACTOR, 0.0, factor)


def _squares(layer: Layer, *, apart: bool) -> Array:
    """|a|² |δ|² of every row, summed over layers that are side by side unless they are kept apart."""
    a, delta, seen = layer
    if seen is None:
        of_inputs = jnp.sum(a**2, axis=-2)
    else:
        of_inputs = jnp.matmul(seen.astype(np.float32), a**2, precision=jax.lax.Precision.HIGHEST)
    products = of_inputs * jnp.sum(delta**2, axis=-2)
    return products if apart else jnp.sum(products, axis=tuple(range(products.ndim - 1)))


def _weighted_sum(layer: Layer, finite: Array, weights: Array, blocks: int, *, apart: bool) -> Array:
    """Σ_r w_r a_r ⊗ δ_r over finite rows, (..., in, out), in so many blocks of rows; with none of them in float64."""
    (a, delta, seen), rows = layer, layer.inputs.shape[-1]
    if not blocks:
        a, delta = _weighted(layer, finite, weights, apart=apart)
        with jax.enable_x64(True):
            return _outer_sum(a.astype(jnp.float64), delta.astype(jnp.float64), seen)
    length, sums = math.ceil(rows / blocks), list[Array]()
    for k in range(0, rows, length):
        block = Layer(a[..., k : k + length], delta[..., k : k + length], seen)
        parts = _weighted(block, finite[..., k : k + length], weights[..., k : k + length], apart=apart)
        sums.append(_outer_sum(*parts, seen))
    return functools.reduce(operator.add, sums)


def _weighted(layer: Layer, finite: Array, weights: Array, *, apart: bool) -> tuple[Array, Array]:
    """Both factors without rows that are not finite, and one of them, the smaller if it may be, with the weights."""
    a, delta, seen = layer
    shared = apart and seen is not None  # then inputs have no weights: each layer side by side has its own
    anywhere = jnp.any(finite, axis=tuple(range(finite.ndim - 1))) if shared else finite
    a, delta = jnp.where(_along_rows(anywhere, a), a, 0.0), jnp.where(_along_rows(finite, delta), delta, 0.0)
    if a.size < delta.size and not shared:
        return a * _along_rows(weights, a), delta
    return a, delta * _along_rows(weights, delta)


def _outer_sum(a: Array, delta: Array, seen: Mask | None) -> Array:
    """Σ_r a_r ⊗ δ_r, (..., in, out)."""
    if seen is None:
        return jnp.matmul(a, jnp.swapaxes(delta, -1, -2), precision=jax.lax.Precision.HIGHEST)
    every = jnp.einsum("...or,ir->...io", delta, a, precision=jax.lax.Precision.HIGHEST)
    return jnp.where(seen[..., None], every, 0.0)
