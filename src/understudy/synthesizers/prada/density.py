"""The conditional densities: what every column is like, given the earlier ones, and rows drawn from that.

Pure functions over dictionaries of arrays, as in networks.py, whose layouts they share. Column j sees the features of
the earlier columns, others as exact zeros, and a one:

    a_j = [x_1, …, x_{j-1}, 0, …, 0, 1]
    [h, l] = a_jᵀ first_j        first layer: hidden pre-activations, and linear outputs, one for each feature of j
    o = [tanh h, 1]ᵀ second_j    second layer

A number is a mixture of K normals about its linear output, in units of a fixed deviation s_j:

    x_j / s_j ~ Σ_k π_k N(l + shift_k, scale_k²),   (shift, log scale, log π up to a constant) = o

and a state is drawn with probability softmax(l + o). A number that may be missing is first present or not, and then has
its score. `scale_k` is held within `SCALES`, so that no density is ever large without bound.

The one rule: a column reads an earlier one through its rows of `first_j` alone. Rows of zeros are an absent parent, and
what a column may not see has zeros from the start, so that all columns share one array of inputs. Rows of the table
are the last axis of every array: (features, rows).

Afterwards every column is *set straight* (`calibrate_marginals`): in generation order, scores go through the monotone map that
makes the generated ones standard normal, as real scores are, and states get constants that give them the shares that
were bought. The columns' own distributions are then the encoder's, and later columns see what they were trained on.

Sources: Bishop (1994), "Mixture density networks"; Uria, Murray and Larochelle (2013), arXiv:1306.0186, for one such
density after the other; Goodfellow (2015), arXiv:1510.01799, for gradients of single rows from factors.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from understudy.privacy.gradients import Layer
from understudy.synthesizers.prada.networks import CHUNK, Layout

SCALES = (0.05, 3.0)
"""Least and most deviation of a component, in units of s_j."""
SPREAD = 0.3
"""How far the outermost components lie from the middle at the start, in units of s_j."""
KNOTS = 64
"""Of the maps that set scores straight."""
ROUNDS = 6
"""Of setting the shares of states straight; each takes the error to its square, about."""
TILTS = 30
"""Rounds of setting counted tables straight."""
NEVER = -1e9

Params = dict[str, Any]
_MIDDLE, _HALF = (math.log(SCALES[0]) + math.log(SCALES[1])) / 2, (math.log(SCALES[1]) - math.log(SCALES[0])) / 2


# Shapes -------------------------------------------------------------------------------------------------------------


def outputs(layout: Layout, components: int) -> int:
    """Numbers that the second layer makes for a column."""
    return 3 * components * bool(layout.has_number.any()) + layout.width * bool(layout.has_states.any())


@functools.lru_cache(maxsize=64)
def _places(layout: Layout) -> np.ndarray:
    """Where every place of a padded block is among the features: (columns, width)."""
    return np.minimum(layout.starts[:, None] + np.arange(layout.width), layout.features - 1)


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


# The density --------------------------------------------------------------------------------------------------------


def seen(layout: Layout) -> np.ndarray:
    """Which inputs each column sees: the features of earlier columns, and the one: (columns, features + 1)."""
    return np.concatenate([layout.earlier, np.ones((layout.columns, 1), bool)], axis=1)


def factors(params: Params, x: jax.Array, weights: jax.Array, layout: Layout, components: int) -> list[Layer]:
    """For both layers, (a, δ) of every row: inputs, and derivatives of -Σ_j w_j log density by the pre-activations.

    The derivatives are those by something added to the pre-activations, at zero: exact, and no gradient of a row is
    ever formed. Columns are layers side by side, whose first ones share their inputs.
    """
    a = _with_one(x)
    first = _first(params, a)

    def densities(first, added):
        b, linear = _bent(first, params["second"].shape[1] - 1)
        return column_densities(linear, _second(params, b) + added, x, params["unit"], layout, components), b

    nothing = jnp.zeros((layout.columns, params["second"].shape[2], x.shape[1]), x.dtype)
    found, pull_back, b = jax.vjp(densities, first, nothing, has_aux=True)
    of_first, of_second = pull_back(jnp.broadcast_to(-weights[:, None], found.shape))
    return [Layer(a, of_first, seen(layout)), Layer(b, of_second)]


def _with_one(x: jax.Array) -> jax.Array:
    """Arrays of (..., features, rows) with a one below the features."""
    return jnp.concatenate([x, jnp.ones((*x.shape[:-2], 1, x.shape[-1]), x.dtype)], axis=-2)


def _first(params: Params, a: jax.Array) -> jax.Array:
    """What the first layers make of (features + 1, rows): (columns, hidden and linear outputs, rows)."""
    return jnp.einsum("dfo,fr->dor", params["first"], a)


def _second(params: Params, b: jax.Array) -> jax.Array:
    """What the second layers make of (columns, hidden + 1, rows): (columns, outputs, rows)."""
    return jnp.einsum("dho,dhr->dor", params["second"], b)


def _bent(first: jax.Array, hidden: int) -> tuple[jax.Array, jax.Array]:
    """What the second layer sees, [tanh h, 1], and the linear outputs."""
    return _with_one(jnp.tanh(first[:, :hidden])), first[:, hidden:]


def log_density(params: Params, x: jax.Array, layout: Layout, components: int) -> jax.Array:
    """The log density of every column of every row, given the earlier ones: (features, rows) to (columns, rows)."""
    return _density_of(params, x, x, layout, components)


def _density_of(params: Params, x: jax.Array, given: jax.Array, layout: Layout, components: int) -> jax.Array:
    """The log density of every column of x, given the earlier ones of other rows."""
    b, linear = _bent(_first(params, _with_one(given)), params["second"].shape[1] - 1)
    return column_densities(linear, _second(params, b), x, params["unit"], layout, components)


def column_densities(
    linear: jax.Array, second: jax.Array, x: jax.Array, unit: jax.Array, layout: Layout, components: int
) -> jax.Array:
    """log p(x_j | earlier) from what the layers make: (columns, …, rows) to (columns, rows)."""
    block = x[_places(layout)]  # (columns, width, rows)
    total = jnp.zeros((layout.columns, x.shape[1]), x.dtype)
    if layout.has_number.any():
        shift, log_scale, log_weight = _mixture(second[:, : 3 * components], components)
        z = (block[:, 0] / unit[:, None] - linear[:, 0])[:, None] - shift
        each = log_weight - log_scale - 0.5 * (z * jnp.exp(-log_scale)) ** 2
        density = logsumexp(each, axis=1) - 0.5 * math.log(2 * math.pi) - jnp.log(unit)[:, None]
        maybe = (layout.has_number & layout.has_states)[:, None]
        present = jnp.where(maybe, block[:, min(1, layout.width - 1)], 1.0)
        total += jnp.where(layout.has_number[:, None], present * density, 0.0)
    if layout.has_states.any():
        is_state = layout.is_state[:, :, None]
        logits = jnp.where(is_state, linear + second[:, -layout.width :], NEVER)
        chosen = jnp.where(is_state, block, 0.0)
        total += jnp.sum(chosen * jax.nn.log_softmax(logits, axis=1), axis=1)
    return total


def _mixture(raw: jax.Array, components: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Shifts, log scales and log weights from the second layer's outputs, (..., outputs, rows)."""
    shift, log_scale, weight = (raw[..., i * components : (i + 1) * components, :] for i in range(3))
    log_scale = _MIDDLE + _HALF * jnp.tanh((log_scale - _MIDDLE) / _HALF)
    return shift, log_scale, jax.nn.log_softmax(weight, axis=-2)


def influences(params: Params, x: jax.Array, key: jax.Array, layout: Layout, components: int) -> jax.Array:
    """How much every column takes from each earlier one, √(nats lost when that one is drawn anew): (columns, columns).

    E[log p(x_j | x_k, others) - log p(x_j | x_k', others)] with x_k' another row's: what the density of j makes of k,
    through all its layers. For x_j ~ N(w x_k, s²) it is (w / s)², so that the root is in deviations of what is left.

    Args:
        x: Rows to measure on, (features, rows); generated ones.
    """
    return _once(_influences, (3, 4))(params, x, key, layout, components)


def _influences(params: Params, x: jax.Array, key: jax.Array, layout: Layout, components: int) -> jax.Array:
    before = jnp.mean(log_density(params, x, layout, components), axis=1)

    def without(k, key):
        shuffled = x[:, jax.random.permutation(key, x.shape[1])]
        given = jnp.where((jnp.asarray(layout.owners) == k)[:, None], shuffled, x)
        found = _density_of(params, x, given, layout, components)
        return jnp.where(jnp.arange(layout.columns) > k, before - jnp.mean(found, axis=1), 0.0)

    _, lost = lax.scan(
        lambda _, at: (None, without(*at)), None, (jnp.arange(layout.columns), jax.random.split(key, layout.columns))
    )
    return jnp.sqrt(jnp.maximum(lost.T, 0.0))


# Rows ---------------------------------------------------------------------------------------------------------------


def _column(column: Params, x: jax.Array, key: jax.Array, layout: Layout, components: int) -> tuple[Any, Any, Any]:
    """One column drawn for all rows, (features, n): the score, the logits of its states, and noise to draw one with."""
    n, hidden = x.shape[1], column["second"].shape[0] - 1
    first = column["first"][:-1].T @ x + column["first"][-1][:, None]
    second = column["second"][:-1].T @ jnp.tanh(first[:hidden]) + column["second"][-1][:, None]
    linear = first[hidden:]
    for_component, for_score, for_state = jax.random.split(key, 3)
    score = jnp.zeros(n, x.dtype)
    if layout.has_number.any():
        shift, log_scale, log_weight = _mixture(second[: 3 * components], components)
        if components > 1:
            level = jax.random.uniform(for_component, (n,))
            chosen = jnp.sum(jnp.cumsum(jnp.exp(log_weight), axis=0)[:-1] < level, axis=0)
            chosen = jnp.arange(components)[:, None] == chosen
            shift, log_scale = (jnp.sum(jnp.where(chosen, part, 0.0), axis=0) for part in (shift, log_scale))
        else:
            shift, log_scale = shift[0], log_scale[0]
        score = column["unit"] * (linear[0] + shift + jnp.exp(log_scale) * jax.random.normal(for_score, (n,)))
    if not layout.has_states.any():
        return score, None, None
    logits = jnp.where(column["is_state"][:, None], linear + second[-layout.width :], NEVER)
    return score, logits, jax.random.gumbel(for_state, logits.shape)


def _block(score: jax.Array, logits: Any, gumbel: Any, column: Params, layout: Layout) -> jax.Array:
    """The features of a column, (width, n): exactly one state, and no score where it is missing."""
    place = jnp.arange(layout.width)[:, None]
    if logits is None:
        return jnp.where(place == 0, score, 0.0)
    state = jnp.where(column["is_state"][:, None], place == jnp.argmax(logits + gumbel, axis=0), False)
    state = jnp.where(column["has_states"], state, False).astype(score.dtype)
    present = jnp.where(column["has_states"], state[min(1, layout.width - 1)], 1.0)
    return jnp.where(column["has_number"] & (place == 0), score * present, state)


def _columns(params: Params, layout: Layout, key: jax.Array) -> Params:
    return {
        **params,
        "key": jax.random.split(key, layout.columns),
        "start": jnp.asarray(layout.starts),
        "has_number": jnp.asarray(layout.has_number),
        "has_states": jnp.asarray(layout.has_states),
        "is_state": jnp.asarray(layout.is_state),
    }


def _scan(step: Any, params: Params, layout: Layout, key: jax.Array, n: int) -> tuple[jax.Array, Any]:
    """A step for each column, in order. A narrow block's padding falls on later columns, which are written later."""
    x = jnp.zeros((layout.features + layout.width, n), jnp.float32)

    def one(x, column):
        block, made = step(x[: layout.features], column)
        return lax.dynamic_update_slice(x, block, (column["start"], 0)), made

    return lax.scan(one, x, _columns(params, layout, key))


def straight(score: jax.Array, knots: jax.Array, limit: float | jax.Array) -> jax.Array:
    """The map that takes the knots to normal quantiles: straight between them, of slope one beyond, within ±limit."""
    return jnp.clip(_interpolate(score, knots, jnp.asarray(quantiles())), -limit, limit)


def _interpolate(x: jax.Array, at: jax.Array, to: jax.Array) -> jax.Array:
    beyond = jnp.where(x < at[0], x - at[0], jnp.where(x > at[-1], x - at[-1], 0.0))
    return jnp.interp(x, at, to) + beyond


def quantiles() -> np.ndarray:
    """Of the standard normal, at the middles of even parts; the outermost ones farther out."""
    from scipy.special import ndtri

    levels = (np.arange(KNOTS) + 0.5) / KNOTS
    levels[[0, -1]] = 0.002, 0.998
    return ndtri(levels).astype(np.float32)


def calibrate_marginals(
    params: Params,
    shares: jax.Array,
    limit: jax.Array,
    key: jax.Array,
    layout: Layout,
    components: int,
    n: int,
    tables: Mapping[str, Any] | None = None,
) -> tuple[Params, jax.Array]:
    """Sets every column straight on `n` rows: knots of its scores, and constants of its states in `second`.

    Where tables of two columns were counted, the later one's states also get linear weights in `first` (`_tilt`).

    Args:
        shares: Of the states, as bought: (columns, width).
        tables: `target` and `noise`, as of `tables.Tables`.

    Returns:
        The parameters, and the rows: (features, n).
    """
    return _once(_calibrate_marginals, (4, 5, 6))(params, shares, limit, key, layout, components, n, tables)


@functools.cache
def _once(function: Any, static: tuple[int, ...]) -> Any:
    """A program that runs once a fit: on a CPU it is compiled in less time than it would save by being fast."""
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    return jax.jit(function, static_argnums=static, compiler_options=options)


def _calibrate_marginals(
    params: Params,
    shares: jax.Array,
    limit: jax.Array,
    key: jax.Array,
    layout: Layout,
    components: int,
    n: int,
    tables: Mapping[str, Any] | None,
) -> tuple[Params, jax.Array]:
    from jax.scipy.special import ndtr

    levels = ndtr(jnp.asarray(quantiles()))

    def step(x, column):
        score, logits, gumbel = _column(column, x, column["key"], layout, components)
        constants, tilt = jnp.zeros(layout.width), jnp.zeros(())
        if tables is not None:
            tilt = _tilt(x, logits, column, layout)
            logits = logits + tilt.T @ x
        if logits is not None:
            wanted = jnp.where(column["is_state"], jnp.log(jnp.maximum(column["shares"], 1e-6)), 0.0)

            def round_(_, constants):
                made = jnp.mean(jax.nn.softmax(logits + constants[:, None], axis=0), axis=1)
                move = jnp.clip(wanted - jnp.log(jnp.maximum(made, 1e-9)), -3.0, 3.0)
                return jnp.where(column["is_state"], constants + move, 0.0)

            constants = lax.fori_loop(0, ROUNDS, round_, constants)
            logits = logits + constants[:, None]
        knots = jnp.quantile(score, levels)
        knots = knots + 1e-5 * jnp.arange(len(knots))  # ascending, whatever was drawn
        score = straight(score, knots, limit)
        return _block(score, logits, gumbel, column, layout), (knots, constants, tilt)

    x, (knots, constants, tilt) = _scan(step, {**params, "shares": shares, **(tables or {})}, layout, key, n)
    first, second = params["first"], params["second"]
    if layout.has_states.any():
        second = second.at[:, -1, -layout.width :].add(constants)
    if tables is not None:
        first = first.at[:, : layout.features, -layout.width :].add(tilt)
    return {**params, "first": first, "second": second, "knots": knots}, x[: layout.features]


def _tilt(x: jax.Array, logits: jax.Array, column: Params, layout: Layout) -> jax.Array:
    """Linear weights of a column's states by earlier features that bring its counted tables about: (features, width).

    Let q be the shares of a table's cells as they are generated, and t as they were counted, with noise τ and without
    what they say of the earlier column alone, which is given. If the true shares lie about q with variance ω q, then
    t - q(w) = λ w with λ = τ² / ω has the most likely weights w, to first order: what is within the noise is left as it
    is. ω is each table's own, from how much farther t is from q than its noise is. Steps are Newton's by the
    diagonal alone, shared out between the tables of the column.
    """
    known = (column["noise"] > 0)[:, None] & column["is_state"][None, :]
    owner, widths = jnp.asarray(layout.owners), np.bincount(layout.owners)
    nothing = jnp.zeros((layout.features, layout.width))

    def of_tables(cells):
        by_feature = jnp.sum(jnp.where(known, cells, 0.0), axis=1)
        return jax.ops.segment_sum(by_feature, owner, layout.columns)[owner]

    def made(weights):
        return x @ jax.nn.softmax(logits + weights.T @ x, axis=0).T / x.shape[1]

    def off(q):
        r = jnp.where(known, column["target"] - q, 0.0)
        return r - q * jnp.sum(r, axis=1, keepdims=True) / jnp.maximum(jnp.sum(q, axis=1, keepdims=True), 1e-9)

    def found():
        q, noise = made(nothing), column["noise"][:, None] ** 2
        away = of_tables(off(q) ** 2 - noise) / (of_tables(q) + 1e-12)
        stiff = noise / jnp.maximum(away, 1e-9)[:, None]
        tables = jnp.sum(known.any(axis=1) / widths[layout.owners])

        def step(_, weights):
            q = made(weights)
            move = (off(q) - stiff * weights) / (jnp.maximum(q, 1e-6) + stiff) / tables
            return weights + jnp.where(known, jnp.clip(move, -1.0, 1.0), 0.0)

        return lax.fori_loop(0, TILTS, step, nothing)

    return lax.cond(known.any(), found, lambda: nothing)


def sample(params: Mapping[str, Any], layout: Layout, components: int, limit: float, key: jax.Array, n: int):
    """`n` rows, chunk by chunk: (n, features), every state exactly 0 or 1."""
    rows = np.empty((n, layout.features), dtype=np.float32)
    params = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    for i, start in enumerate(range(0, n, CHUNK)):
        chunk = _chunk(params, jnp.float32(limit), jax.random.fold_in(key, i), layout, components)
        rows[start : start + CHUNK] = np.asarray(chunk)[:, : n - start].T
    return rows


@functools.partial(jax.jit, static_argnames=("layout", "components"))
def _chunk(params: Params, limit: jax.Array, key: jax.Array, layout: Layout, components: int) -> jax.Array:
    def step(x, column):
        score, logits, gumbel = _column(column, x, column["key"], layout, components)
        return _block(straight(score, column["knots"], limit), logits, gumbel, column, layout), None

    x, _ = _scan(step, params, layout, key, CHUNK)
    return x[: layout.features]


def straight_log_density(params: Mapping[str, Any], x: np.ndarray, layout: Layout, components: int) -> np.ndarray:
    """The log density of rows of features under what `sample` draws, up to its limit: (rows,).

    A score y comes from z = g⁻¹(y) through the map g that sets its column straight: log p(y) = log p(z) + log dz/dy.
    """
    params = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    done = [
        _density_chunk(params, jnp.asarray(x[i : i + CHUNK].T), layout, components) for i in range(0, len(x), CHUNK)
    ]
    return np.concatenate([np.asarray(part, np.float64) for part in done]) if done else np.zeros(0)


@functools.partial(jax.jit, static_argnames=("layout", "components"))
def _density_chunk(params: Params, x: jax.Array, layout: Layout, components: int) -> jax.Array:
    scores, to = x[layout.starts], jnp.asarray(quantiles())  # (columns, rows)
    back = jax.vmap(lambda y, knots: _interpolate(y, to, knots))(scores, params["knots"])
    slopes = jnp.diff(params["knots"], axis=1) / jnp.diff(to)  # (columns, knots - 1)
    piece = jnp.clip(jnp.searchsorted(to, scores) - 1, 0, len(to) - 2)
    slope = jnp.where((scores < to[0]) | (scores > to[-1]), 1.0, jnp.take_along_axis(slopes, piece, axis=1))
    has_states, is_number = (jnp.asarray(each)[:, None] for each in (layout.has_states, layout.has_number))
    present = jnp.where(has_states, x[jnp.minimum(layout.starts + 1, layout.features - 1)], 1.0)
    moved = x.at[layout.starts].set(jnp.where(is_number, back, scores))
    found = _density_of(params, moved, x, layout, components)
    return jnp.sum(found + jnp.where(is_number, present * jnp.log(slope), 0.0), axis=0)
