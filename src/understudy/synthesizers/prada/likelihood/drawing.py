"""Rows drawn from the densities, column by column, and the density of what is drawn.

A column is drawn as its density says (density.py); its score then goes through the monotone map that calibration.py has
found, which makes scores standard normal as real ones are.

Pure functions over arrays; rows of the table are the last axis: (features, rows). The columns are steps of one scan
over padded weights, so that the program is as long for many columns as for few.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import NEVER, Densities, log_density, mixture
from understudy.synthesizers.prada.programs import CHUNK, Array, rows_in_chunks

KNOTS = 64
"""The map that makes a column's scores normal has this many knots."""

Extra = TypeVar("Extra")
Made = TypeVar("Made")


class Calibrated(NamedTuple):
    """Densities, and for every column the scores that its map takes to normal quantiles."""

    first: Array
    second: Array
    unit: Array
    sources: Array
    knots: Array  # (columns, KNOTS)

    @property
    def densities(self) -> Densities:
        return Densities(self.first, self.second, self.unit, self.sources)

    def arrays(self) -> dict[str, NDArray]:
        """Arrays by name: weights, and whole numbers for what is read."""
        types = {"sources": np.int32}
        return {name: np.asarray(value, types.get(name, np.float32)) for name, value in self._asdict().items()}

    @classmethod
    def from_arrays(cls, params: Mapping[str, NDArray]) -> "Calibrated":
        """From arrays by name, on the device."""
        return cls(**{name: jnp.asarray(value) for name, value in params.items()})


class Column(NamedTuple):
    """One column as a step of the scan sees it: its weights, its place and its random stream."""

    weights: Densities
    key: jax.Array
    start: jax.Array
    has_number: jax.Array
    has_categories: jax.Array
    is_category: jax.Array  # (width,)


class Drawn(NamedTuple):
    """A column drawn for all rows: a score, the logits of its categories, and noise to draw one with."""

    score: Array  # (rows,)
    logits: jax.Array | None = None  # (width, rows)
    gumbel: jax.Array | None = None


def draw_column(column: Column, x: jax.Array, layout: Layout, components: int) -> Drawn:
    """One column for all rows, given the features of earlier ones, (features, rows)."""
    n, hidden = x.shape[1], column.weights.second.shape[0] - 1
    read = jnp.take(x, jnp.maximum(column.weights.sources, 0), axis=0, mode="clip")  # weights are 0 if it reads nothing
    first = column.weights.first[:-1].T @ read + column.weights.first[-1][:, None]
    second = column.weights.second[:-1].T @ jnp.tanh(first[:hidden]) + column.weights.second[-1][:, None]
    linear = first[hidden:]
    for_component, for_score, for_category = jax.random.split(column.key, 3)
    score = jnp.zeros(n, x.dtype)
    if layout.has_number.any():
        shift, log_scale, log_weight = mixture(second[: 3 * components], components)
        if components > 1:
            level = jax.random.uniform(for_component, (n,))
            chosen = jnp.sum(jnp.cumsum(jnp.exp(log_weight), axis=0)[:-1] < level[None, :], axis=0)
            chosen = jnp.arange(components)[:, None] == chosen[None, :]
            shift, log_scale = (jnp.sum(jnp.where(chosen, part, 0.0), axis=0) for part in (shift, log_scale))
        else:
            shift, log_scale = shift[0], log_scale[0]
        score = column.weights.unit * (linear[0] + shift + jnp.exp(log_scale) * jax.random.normal(for_score, (n,)))
    if not layout.has_categories.any():
        return Drawn(score)
    logits = jnp.where(column.is_category[:, None], linear + second[-layout.width :], NEVER)
    return Drawn(score, logits, jax.random.gumbel(for_category, logits.shape))


def to_block(drawn: Drawn, column: Column, layout: Layout) -> jax.Array:
    """The features of a column, (width, rows): exactly one category, and no score where it is missing."""
    score, logits, gumbel = drawn
    place = jnp.arange(layout.width)[:, None]
    if logits is None or gumbel is None:
        return jnp.where(place == 0, score[None, :], 0.0)
    category = jnp.where(column.is_category[:, None], place == jnp.argmax(logits + gumbel, axis=0)[None, :], False)
    category = jnp.where(column.has_categories, category, False).astype(score.dtype)
    present = jnp.where(column.has_categories, category[min(1, layout.width - 1)], 1.0)
    return jnp.where(column.has_number & (place == 0), score * present, category)


def scan_columns(
    step: Callable[[jax.Array, Column, Extra], tuple[jax.Array, Made]],
    weights: Densities,
    extra: Extra,
    layout: Layout,
    key: jax.Array,
    n: int,
) -> tuple[jax.Array, Made]:
    """Takes a step for each column, in order: its block of features, and what else the step makes.

    Args:
        step: From the features so far, a column, and the column's part of `extra`.
        extra: Arrays with one entry for each column.

    Returns:
        The features, (features, n), and what the steps made, stacked.
    """
    columns = Column(
        weights=weights,
        key=jax.random.split(key, layout.columns),
        start=jnp.asarray(layout.starts),
        has_number=jnp.asarray(layout.has_number),
        has_categories=jnp.asarray(layout.has_categories),
        is_category=jnp.asarray(layout.is_category),
    )
    x = jnp.zeros((layout.features + layout.width, n), jnp.float32)

    def one(x, inputs):
        column, own = inputs
        block, made = step(x[: layout.features], column, own)
        # A narrow block's padding falls on later columns, which are written later.
        return lax.dynamic_update_slice(x, block, (column.start, 0)), made

    x, made = lax.scan(one, x, (columns, extra))
    return x[: layout.features], made


# The map to normal scores ---------------------------------------------------------------------------------------------


def quantiles() -> np.ndarray:
    """Of the standard normal, at the middles of even parts; the outermost ones farther out."""
    from scipy.special import ndtri

    levels = (np.arange(KNOTS) + 0.5) / KNOTS
    levels[[0, -1]] = 0.002, 0.998
    return ndtri(levels).astype(np.float32)


def to_normal(score: Array, knots: Array, limit: float | Array) -> jax.Array:
    """The map that takes the knots to normal quantiles: linear between them, of slope one beyond, within ±limit."""
    return jnp.clip(_interpolate(score, knots, jnp.asarray(quantiles())), -limit, limit)


def _interpolate(x: Array, at: Array, to: Array) -> jax.Array:
    beyond = jnp.where(x < at[0], x - at[0], jnp.where(x > at[-1], x - at[-1], 0.0))
    return jnp.interp(x, at, to) + beyond


# Rows and their density -----------------------------------------------------------------------------------------------


def sample(params: Calibrated, layout: Layout, components: int, limit: float, key: jax.Array, n: int) -> np.ndarray:
    """`n` rows: (n, features), every category exactly 0 or 1."""
    return rows_in_chunks(lambda k: _chunk(params, jnp.float32(limit), k, layout, components), key, n, layout.features)


@functools.partial(jax.jit, static_argnames=("layout", "components"))
def _chunk(params: Calibrated, limit: jax.Array, key: jax.Array, layout: Layout, components: int) -> jax.Array:
    def step(x: jax.Array, column: Column, knots: jax.Array) -> tuple[jax.Array, None]:
        drawn = draw_column(column, x, layout, components)
        return to_block(drawn._replace(score=to_normal(drawn.score, knots, limit)), column, layout), None

    x, _ = scan_columns(step, params.densities, jnp.asarray(params.knots), layout, key, CHUNK)
    return x.T


def calibrated_log_density(params: Calibrated, x: np.ndarray, layout: Layout, components: int) -> NDArray[np.float64]:
    """The log density of rows of features under what `sample` draws, up to its limit: (rows,).

    A score y comes from z = g⁻¹(y) through the map g of its column: log p(y) = log p(z) + log dz/dy.
    """
    done = [
        _density_chunk(params, jnp.asarray(x[i : i + CHUNK].T), layout, components) for i in range(0, len(x), CHUNK)
    ]
    return np.concatenate([np.asarray(part, np.float64) for part in done]) if done else np.zeros(0)


@functools.partial(jax.jit, static_argnames=("layout", "components"))
def _density_chunk(params: Calibrated, x: jax.Array, layout: Layout, components: int) -> jax.Array:
    scores, to = x[layout.starts], jnp.asarray(quantiles())  # (columns, rows)
    back = jax.vmap(lambda y, knots: _interpolate(y, to, knots))(scores, params.knots)
    slopes = jnp.diff(params.knots, axis=1) / jnp.diff(to)[None, :]  # (columns, knots - 1)
    piece = jnp.clip(jnp.searchsorted(to, scores) - 1, 0, len(to) - 2)
    slope = jnp.where((scores < to[0]) | (scores > to[-1]), 1.0, jnp.take_along_axis(slopes, piece, axis=1))
    has_categories, is_number = (jnp.asarray(each)[:, None] for each in (layout.has_categories, layout.has_number))
    present = jnp.where(has_categories, x[jnp.minimum(layout.starts + 1, layout.features - 1)], 1.0)
    moved = x.at[layout.starts].set(jnp.where(is_number, back, scores))
    found = log_density(params.densities, moved, layout, components, given=x)
    return jnp.sum(found + jnp.where(is_number, present * jnp.log(slope), 0.0), axis=0)
