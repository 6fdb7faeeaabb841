"""The networks: one small generator per column, in order, and one critic over whole rows.

Pure functions over plain dictionaries of arrays, so that they run under `jit`, `grad` and `vmap` over many fits. The
one rule: what a column takes from an earlier one goes through its rows of W_j, and nothing goes round them. A row of
zeros is then exactly an absent parent.

    x_j = head_j(h + U_jᵀ φ(h)),   h = W_jᵀ [x_1, …, x_{j-1}, z_j] + b_j

with φ a LeakyReLU and z_j standard normal, one dimension a column unless told otherwise.

Sources: the PrAda-GAN paper, sections "Adaptive Feature Selection" and "Model Architecture"; Jang, Gu and Poole (2017),
arXiv:1611.01144, and Maddison, Mnih and Teh (2017), arXiv:1611.00712, for relaxed categories; Arjovsky, Chintala and
Bottou (2017), arXiv:1701.07875, for clamped weights; Petzka, Fischer and Lukovnikov (2018), arXiv:1709.08894, for the
one-sided penalty; Goodfellow (2015), arXiv:1510.01799, for norms of per-example gradients.

Departures:
- The residual connection starts at h, not at the inputs: a skip from the inputs would go round W_j.
- U_j and the head are held to norm 1 (`bounded`). Otherwise they can take over what the penalty takes from W_j, whose
  norms then have no unit and drift: after 2000 steps on nonlinear simulated graphs the parents above a fixed threshold
  had a median F1 of 0.74 without, 0.94 with it; on linear ones 0.87 and 0.89.
- The paper does not say how the critic is kept Lipschitz. Here: clamped weights, or a penalty on points made of fakes
  and noise alone, which costs no privacy.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SLOPE = 0.2
"""Of the LeakyReLU below zero, in the generator and the critic, unless told otherwise."""
TEMPERATURE = 0.5
"""Of relaxed categories: low enough to be nearly one state, high enough for gradients that are not all variance."""
CHUNK = 8192
"""Rows generated at a time: a chunk of 20 columns stays in the cache."""

Params = dict[str, Any]
Critic = tuple[Params, ...]
Factors = list[tuple[jax.Array, jax.Array]]


# The layout ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Block:
    """The features of one column: perhaps a number, then perhaps a one-hot block of states.

    Attributes:
        name: The column's.
        number: Whether the first feature is a number, a standard normal score.
        states: How many states the one-hot block has. A category that may be missing has one more than its values,
            the last. A number that may be missing has two, present and missing, and its score is 0 where it is missing.
    """

    name: str
    number: bool = True
    states: int = 0

    def __post_init__(self):
        if self.states < (2 if self.number else 1) and (self.states or not self.number):
            raise ValueError(f"Block {self.name!r}, states: expected at least {2 if self.number else 1} states.")

    @property
    def width(self) -> int:
        return int(self.number) + self.states


def numeric(name: str, *, nullable: bool = False) -> Block:
    """A number: its score, and where it may be missing two states."""
    return Block(name, True, 2 if nullable else 0)


def categorical(name: str, values: int, *, nullable: bool = False) -> Block:
    """A category: a state for each value, and one more where it may be missing."""
    return Block(name, False, values + int(nullable))


@dataclasses.dataclass(frozen=True)
class Layout:
    """All columns in generation order, each with its features side by side; public and hashable.

    Attributes:
        blocks: One a column.
    """

    blocks: tuple[Block, ...]

    def __post_init__(self):
        if not self.blocks:
            raise ValueError("Layout.blocks: expected at least one column.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(block.name for block in self.blocks)

    @property
    def columns(self) -> int:
        return len(self.blocks)

    @functools.cached_property
    def features(self) -> int:
        return sum(block.width for block in self.blocks)

    @functools.cached_property
    def width(self) -> int:
        """The widest block; narrower ones are padded to it while generating."""
        return max(block.width for block in self.blocks)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where each column's features begin."""
        return np.cumsum([0, *(block.width for block in self.blocks)])[:-1].astype(np.int32)

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """The column of every feature."""
        return np.repeat(np.arange(self.columns), [block.width for block in self.blocks])

    @functools.cached_property
    def earlier(self) -> np.ndarray:
        """Which features a column may look at: (columns, features), true for those of the columns before it."""
        return self.owners[None, :] < np.arange(self.columns)[:, None]

    @functools.cached_property
    def has_number(self) -> np.ndarray:
        return np.array([block.number for block in self.blocks])

    @functools.cached_property
    def has_states(self) -> np.ndarray:
        return np.array([block.states > 0 for block in self.blocks])

    @functools.cached_property
    def is_state(self) -> np.ndarray:
        """Which places of the padded block are states: (columns, width)."""
        place, first = np.arange(self.width)[None, :], self.has_number.astype(int)[:, None]
        return (place >= first) & (place < first + np.array([[block.states] for block in self.blocks]))


# The generator ------------------------------------------------------------------------------------------------------


def initial(
    layout: Layout, draw: np.random.Generator, *, hidden: int = 10, noise: int = 1, spread: float = 0.3
) -> Params:
    """Random weights of the generator, made without compiling anything.

    Args:
        layout: The columns.
        draw: Where chance comes from.
        hidden: Width of h; 10 is the paper's.
        noise: Dimensions of z_j. One makes any additive noise; more make noise whose shape depends on the parents.
        spread: Expected norm of a feature's row of W_j. The rows of z_j have 1: at the start a column is mostly noise.
    """
    d, width = layout.columns, layout.width
    scale = np.concatenate([np.full(layout.features, spread), np.ones(noise)]) / math.sqrt(hidden)
    rows = draw.standard_normal((d, layout.features + noise, hidden)) * scale[:, None]
    head = draw.standard_normal((d, hidden, width))
    head[:, :, 0] = rows[:, -1]  # so that a number starts as its noise, with deviation about 1
    mix = draw.standard_normal((d, hidden, hidden)) / hidden
    params = {
        "rows": np.where(_seen(layout, noise), rows, 0.0),  # W_j
        "bias": np.zeros((d, hidden)),  # b_j
        "mix": mix / np.maximum(np.linalg.norm(mix, axis=(1, 2), keepdims=True), 1.0),  # U_j, as in `bounded`
        "head": head / np.linalg.norm(head, axis=1, keepdims=True),
        "shift": np.zeros((d, width)),
    }
    return {name: value.astype(np.float32) for name, value in params.items()}


def _seen(layout: Layout, noise: int) -> np.ndarray:
    """What a column may look at: (columns, features and noise, 1)."""
    return np.concatenate([layout.earlier, np.ones((layout.columns, noise), dtype=bool)], axis=1)[:, :, None]


def masked(rows: jax.Array, layout: Layout) -> jax.Array:
    """W with exact zeros for a column's own features and those of later ones; noise is always seen."""
    return jnp.where(_seen(layout, rows.shape[1] - layout.features), rows, 0.0)


def bounded(params: Params) -> Params:
    """The nearest weights with ‖U_j‖ <= 1 (Frobenius) and heads of norm 1, one norm for every feature they make.

    Then a score moves by at most 2·‖W_j^k‖ when column k moves by one, whatever is learned: a norm of W_j^k is the
    influence of k on j, in deviations.
    """
    size = jnp.linalg.norm(params["mix"], axis=(1, 2), keepdims=True)
    head = params["head"] / jnp.maximum(jnp.linalg.norm(params["head"], axis=1, keepdims=True), 1e-12)
    return {**params, "mix": params["mix"] / jnp.maximum(size, 1.0), "head": head}


def draw_noise(layout: Layout, key: jax.Array, n: int, *, noise: int = 1) -> Params:
    """What `n` rows are made of: z standard normal, and Gumbel noise where there are states."""
    for_z, for_states = jax.random.split(key)
    drawn = {"z": jax.random.normal(for_z, (layout.columns, noise, n))}
    if layout.has_states.any():
        drawn["gumbel"] = jax.random.gumbel(for_states, (layout.columns, layout.width, n))
    return drawn


def generate(
    params: Params,
    noise: Params,
    layout: Layout,
    *,
    temperature: float = TEMPERATURE,
    hard: bool = False,
    slope: float = SLOPE,
) -> jax.Array:
    """Rows of features, one for each of the noise: (n, features).

    The columns are steps of one scan over padded weights, so the program is as long for many columns as for few.

    Args:
        params: Of `initial`.
        noise: Of `draw_noise`.
        layout: The columns.
        temperature: Of the relaxed states.
        hard: Exactly one state each. The gradient is still that of the relaxed ones (straight through).
        slope: Of the LeakyReLU.
    """
    n = noise["z"].shape[-1]
    columns = {
        "params": {**params, "rows": masked(params["rows"], layout)},
        "noise": noise,
        "start": jnp.asarray(layout.starts),
        "has_number": jnp.asarray(layout.has_number),
        "has_states": jnp.asarray(layout.has_states),
        "is_state": jnp.asarray(layout.is_state),
    }

    def step(x, column):
        block = _column(column["params"], x[: layout.features], column["noise"]["z"], slope)
        if layout.has_states.any():
            block = _states(block, column, temperature, hard)
        # A narrow block's padding falls on later columns, which are written later.
        return lax.dynamic_update_slice(x, block, (column["start"], 0)), None

    # Features come first, so that a column is one stretch of memory; a last block may be padded past the end.
    x, _ = lax.scan(step, jnp.zeros((layout.features + layout.width, n), params["rows"].dtype), columns)
    return x[: layout.features].T


def _column(weights: Params, x: jax.Array, z: jax.Array, slope: float = SLOPE) -> jax.Array:
    """One sub-generator: (features, n) and (noise, n) to (width, n)."""
    of_x, of_z = jnp.split(weights["rows"], [x.shape[0]])
    h = of_x.T @ x + of_z.T @ z + weights["bias"][:, None]
    h = h + weights["mix"].T @ leaky(h, slope)
    return weights["head"].T @ h + weights["shift"][:, None]


def _states(block: jax.Array, column: dict, temperature: float, hard: bool) -> jax.Array:
    """A block whose states are a relaxed draw of one of them, and whose number is 0 as far as it is missing."""
    is_state = column["is_state"][:, None]
    logits = jnp.where(is_state, block + column["noise"]["gumbel"], -1e30)
    soft = jax.nn.softmax(logits / temperature, axis=0)
    if hard:
        exact = jax.nn.one_hot(jnp.argmax(logits, axis=0), block.shape[0], axis=0, dtype=block.dtype)
        soft = exact + (soft - lax.stop_gradient(soft))
    state = jnp.where(is_state & column["has_states"], soft, 0.0)
    present = jnp.where(column["has_states"] & column["has_number"], state[min(1, block.shape[0] - 1)], 1.0)
    is_number = column["has_number"] & (jnp.arange(block.shape[0]) == 0)[:, None]
    return jnp.where(is_number, block * present, state)


def leaky(x: jax.Array, slope: float = SLOPE) -> jax.Array:
    """LeakyReLU."""
    return jnp.maximum(x, slope * x)


def sample(params: Mapping[str, Any], layout: Layout, key: jax.Array, n: int, *, slope: float = SLOPE) -> np.ndarray:
    """`n` rows for good, chunk by chunk: (n, features), every state exactly 0 or 1."""
    rows = np.empty((n, layout.features), dtype=np.float32)
    params = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    for i, start in enumerate(range(0, n, CHUNK)):
        chunk = _chunk(params, jax.random.fold_in(key, i), layout, slope)
        rows[start : start + CHUNK] = chunk[: n - start]
    return rows


@functools.partial(jax.jit, static_argnames=("layout", "slope"))
def _chunk(params: Params, key: jax.Array, layout: Layout, slope: float) -> jax.Array:
    noise = draw_noise(layout, key, CHUNK, noise=params["rows"].shape[1] - layout.features)
    return generate(params, noise, layout, hard=True, slope=slope)


# The critic ---------------------------------------------------------------------------------------------------------


def default_widths(features: int) -> tuple[int, int]:
    """The paper's hidden layers: as wide as a row, then half of it."""
    return features, max(features // 2, 1)


def initial_critic(draw: np.random.Generator, features: int, widths: Sequence[int] | None = None) -> Critic:
    """Random weights of a critic with the given hidden layers (`default_widths` unless told): He's, for LeakyReLU."""
    sizes = (features, *(default_widths(features) if widths is None else widths), 1)
    return tuple(
        {
            "weight": (draw.standard_normal((a, b)) * math.sqrt(2 / (1 + SLOPE**2) / a)).astype(np.float32),
            "bias": np.zeros(b, np.float32),
        }
        for a, b in itertools.pairwise(sizes)
    )


def critic(params: Critic, x: jax.Array, *, slope: float = SLOPE) -> jax.Array:
    """The critic's value of every row: (n,)."""
    for layer in params[:-1]:
        x = leaky(x @ layer["weight"] + layer["bias"], slope)
    return (x @ params[-1]["weight"] + params[-1]["bias"])[:, 0]


def critic_factors(params: Critic, x: jax.Array, *, slope: float = SLOPE) -> Factors:
    """For every layer l, (a_l, δ_l): the inputs (n, in), and ∂ critic / ∂ pre-activation (n, out), of every row.

    The gradient of one row is a_l δ_lᵀ for the weights and δ_l for the bias, so its squared norm over all layers is
    Σ_l (‖a_l‖² + 1)·‖δ_l‖² and no gradient of a single row is ever formed.
    """
    inputs, slopes = [x], []
    for layer in params[:-1]:
        before = inputs[-1] @ layer["weight"] + layer["bias"]
        inputs.append(leaky(before, slope))
        slopes.append(jnp.where(before > 0, 1.0, slope))
    deltas = [jnp.ones((x.shape[0], 1), x.dtype)]
    for layer, steep in zip(params[:0:-1], slopes[::-1], strict=True):
        deltas.append((deltas[-1] @ layer["weight"].T) * steep)
    return list(zip(inputs, deltas[::-1], strict=True))


def squared_norms(factors: Factors) -> jax.Array:
    """The squared norm of every row's gradient: (n,)."""
    parts = [(jnp.sum(a**2, axis=1) + 1.0) * jnp.sum(delta**2, axis=1) for a, delta in factors]
    return jnp.sum(jnp.stack(parts), axis=0)


def weighted_gradient(factors: Factors, weights: jax.Array) -> Critic:
    """Σ_i w_i · (gradient of row i): clipping is a choice of w."""
    weighted = [(a, delta * weights[:, None]) for a, delta in factors]
    return tuple({"weight": a.T @ delta, "bias": delta.sum(axis=0)} for a, delta in weighted)


def input_gradient(params: Critic, x: jax.Array, *, slope: float = SLOPE) -> jax.Array:
    """∂ critic / ∂ x of every row: (n, features)."""
    _, delta = critic_factors(params, x, slope=slope)[0]
    return delta @ params[0]["weight"].T


# Lipschitz ----------------------------------------------------------------------------------------------------------


def clamped(params: Critic, limit: float | jax.Array) -> Critic:
    """Every weight within ±limit. Biases do not change how steep a critic is and stay free."""
    return tuple({**layer, "weight": jnp.clip(layer["weight"], -limit, limit)} for layer in params)


def lipschitz_bound(params: Critic, limit: float) -> float:
    """The Lipschitz constant that clamping implies: Π_l limit·√(in_l · out_l), the largest Frobenius norms.

    LeakyReLU adds nothing, since its slope is at most 1.
    """
    return math.prod(limit * math.sqrt(math.prod(layer["weight"].shape)) for layer in params)


def steepness_penalty(params: Critic, points: jax.Array, *, slope: float = SLOPE) -> jax.Array:
    """The mean of max(0, ‖∇_x critic‖ - 1)²: nothing is asked of a critic that is not steep."""
    norm = jnp.sqrt(jnp.sum(input_gradient(params, points, slope=slope) ** 2, axis=1) + 1e-12)
    return jnp.mean(jnp.maximum(norm - 1.0, 0.0) ** 2)


def penalty_points(key: jax.Array, fakes: jax.Array) -> jax.Array:
    """Points on random segments from fakes to N(0, I): no row is looked at, and scores live about there."""
    for_place, for_end = jax.random.split(key)
    place = jax.random.uniform(for_place, (fakes.shape[0], 1), fakes.dtype)
    return place * fakes + (1 - place) * jax.random.normal(for_end, fakes.shape, fakes.dtype)
