"""The generator, and how it is fitted to an embedding. Pure functions in JAX; no row comes here.

    y = z V + b + U φ(… φ(z)),   z standard normal

gives every column its score and the logits of its states. It starts as the identity: independent normal scores, and
states at their shares.

Given z the states of different columns are drawn independently, so that the mean of a Fourier feature over them is a
product of sums over probabilities: no relaxation is needed, and the gradient is exact.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.merf.embedding import Block, Embedding, starts
from understudy.synthesizers.merf.recipe import outputs

Params = dict[str, jax.Array]

SHARES = 4.0
"""Weight of squared gaps of shares beside those of scores."""


def _in_squares(function: Any) -> list[float]:
    """Coefficients of a polynomial in u = t² that is near `function` of t for 0 <= t <= 1/2."""
    near = np.polynomial.Chebyshev.interpolate(lambda u: function(np.sqrt(np.maximum(u, 1e-30))), 6, domain=[0, 0.25])
    return near.convert(kind=np.polynomial.Polynomial).coef.tolist()


COSINE = _in_squares(lambda t: np.cos(2 * np.pi * t))
SINE = _in_squares(lambda t: np.sin(2 * np.pi * t) / t)


@jax.custom_jvp
def turn(angles: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines, to 2e-6, in an eighth of the time that XLA takes for them on a CPU."""
    t = angles * (1 / (2 * np.pi))
    t = t - jnp.round(t)
    return _horner(COSINE, t * t), _horner(SINE, t * t) * t


@turn.defjvp
def _turn_jvp(primals: Any, tangents: Any) -> Any:
    cosine, sine = turn(*primals)
    return (cosine, sine), (-sine * tangents[0], cosine * tangents[0])


def _horner(coefficients: Sequence[float], u: jax.Array) -> jax.Array:
    value = jnp.full_like(u, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * u + coefficient
    return value


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


# The mean embedding of fakes -----------------------------------------------------------------------------------------

Shape = tuple[tuple[bool, int], ...]
"""Of a row: whether each column has a number, and how many states. All that a compiled program depends on."""


def facts_of(embedding: Embedding) -> tuple[Shape, dict[str, Any]]:
    """An embedding as arrays: fits of one shape share a compiled program."""
    blocks, place = embedding.blocks, 1
    rows = np.zeros(embedding.touched.shape, int)  # which state factor each touched column has; the first is 1
    for c, block in enumerate(blocks):
        if block.states:
            touches = embedding.touched == c
            rows[touches] = place + np.searchsorted(embedding.touching[c], np.nonzero(touches)[0])
            place += len(embedding.touching[c])
    plain = [c for c, block in enumerate(blocks) if block.number and not block.states]
    fourier, product = embedding.weights
    facts = {
        "w": embedding.frequencies[:, plain],
        "w of states": [embedding.frequencies[mine, c] for c, mine in enumerate(embedding.touching)],
        "phases": [phases[mine] for phases, mine in zip(embedding.phases, embedding.touching, strict=True)],
        "shares": [np.asarray(block.shares) for block in blocks],
        "scores": [np.asarray(block.scores) for block in blocks],
        "weights": np.array([fourier, product, embedding.clip]),
    }
    shape = tuple((block.number, block.states) for block in blocks)
    numbers = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), facts)
    back = np.zeros(place, int)
    back[rows.T.ravel()] = np.arange(rows.size)
    return shape, {
        **numbers,
        "rows": jnp.asarray(rows),
        "back": jnp.asarray(back),
        "pairs": jnp.asarray(np.stack(embedding.pairs)),
    }


def parts(made: jax.Array, shape: Shape) -> list[tuple[jax.Array, jax.Array]]:
    """The score and the states' probabilities of each column."""
    first = np.cumsum([0, *(number + states for number, states in shape)])[:-1].tolist()
    return [
        (made[:, start], jax.nn.softmax(made[:, start + number : start + number + states], axis=1))
        for start, (number, states) in zip(first, shape, strict=True)
    ]


def mean_features(made: jax.Array, shape: Shape, facts: Mapping[str, Any], groups: int = 1) -> jax.Array:
    """The mean over fakes of what `Embedding.rows` gives, in expectation over their states: (groups, features)."""
    columns = parts(made, shape)
    plain = [x for (x, _), (number, states) in zip(columns, shape, strict=True) if number and not states]
    angles = facts["w"] @ jnp.stack(plain) if plain else jnp.zeros((len(facts["w"]), len(made)))
    real, imaginary = turn(angles)  # (frequencies, fakes)
    for re, im in _state_factors(columns, shape, facts):
        real, imaginary = real * re - imaginary * im, real * im + imaginary * re
    scores = [
        (x * p[:, 0] if states else x) if number else p @ mean
        for (x, p), (number, states), mean in zip(columns, shape, facts["scores"], strict=True)
    ]
    fourier, product, clip = facts["weights"]
    g = jnp.stack(scores, axis=1)
    g = g * jnp.sqrt(clip / jnp.maximum((g**2).sum(axis=1, keepdims=True), clip))
    g = g.reshape(groups, -1, len(shape))
    products = jnp.einsum("gni,gnj->gij", g, g) / g.shape[1]
    fouriers = [fourier * part.reshape(len(part), groups, -1).mean(axis=2).T for part in (real, imaginary)]
    return jnp.concatenate([*fouriers, product * products[:, facts["pairs"][0], facts["pairs"][1]]], axis=1)


def _state_factors(columns: Sequence[Any], shape: Shape, facts: Mapping[str, Any]) -> list[tuple[jax.Array, jax.Array]]:
    """E e^{i(w x + θ)} over the states of the columns that have any, gathered by frequency: one a touched column."""
    if not any(states for _, states in shape):
        return []
    fakes = len(columns[0][0])
    reals, imaginaries = [jnp.ones((1, fakes))], [jnp.zeros((1, fakes))]
    for c, ((x, p), (number, states)) in enumerate(zip(columns, shape, strict=True)):
        theta = facts["phases"][c]
        if number and states:
            cosine, sine = turn(facts["w of states"][c][:, None] * x[None] + theta[:, :1])
            reals.append(p[:, 0] * cosine + p[:, 1] * jnp.cos(theta[:, 1:]))
            imaginaries.append(p[:, 0] * sine + p[:, 1] * jnp.sin(theta[:, 1:]))
        elif states:
            reals.append(jnp.cos(theta) @ p.T)
            imaginaries.append(jnp.sin(theta) @ p.T)
    real, imaginary = jnp.concatenate(reals), jnp.concatenate(imaginaries)
    slots = facts["rows"].shape[1]
    taken = [take(x, facts["rows"].T.ravel(), facts["back"]).reshape(slots, -1, fakes) for x in (real, imaginary)]
    return list(zip(*taken, strict=True))


@jax.custom_vjp
def take(x: jax.Array, index: jax.Array, back: jax.Array) -> jax.Array:
    """x[index], where each row of x but the first, a constant, is taken once, at `back`: its gradient is a take too."""
    return x[index]


def _take_forward(x: jax.Array, index: jax.Array, back: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x[index], back


def _take_backward(back: jax.Array, gradient: jax.Array) -> tuple[jax.Array, None, None]:
    return gradient[back], None, None


take.defvjp(_take_forward, _take_backward)


def margin_loss(made: jax.Array, shape: Shape, facts: Mapping[str, Any]) -> jax.Array:
    """How far single columns are from what the encoder knows: W₂² of scores to N(0, 1), squared gaps of shares."""
    n, loss, columns = len(made), jnp.zeros(()), parts(made, shape)
    numbers = [x for (x, _), (number, _) in zip(columns, shape, strict=True) if number]
    if numbers:
        normal = jax.scipy.special.ndtri((jnp.arange(n) + 0.5) / n)
        loss += ((jnp.sort(jnp.stack(numbers), axis=1) - normal) ** 2).mean(axis=1).sum()
    for (_, p), (_, states), shares in zip(columns, shape, facts["shares"], strict=True):
        if states:
            loss += SHARES * ((p.mean(axis=0) - shares) ** 2).sum()
    return loss


# The fit ------------------------------------------------------------------------------------------------------------


def fit(
    params: Mapping[str, NDArray],
    embedding: Embedding,
    target: NDArray,
    *,
    steps: int,
    rate: float,
    fakes: int,
    emphasis: float,
    margins: float,
    key: jax.Array,
) -> dict[str, NDArray]:
    """Adam on the squared distance of mean embeddings, as its fakes' two halves estimate it without bias.

    For independent halves E[(μ₁ - t)·(μ₂ - t)] = |E μ - t|²; one batch alone would add its own variance, which is least
    for fakes that are all alike.
    """
    shape, facts = facts_of(embedding)
    start = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    rates = rate * 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    aim = jnp.asarray(target, jnp.float32)
    weights = jnp.ones(len(aim)).at[: 2 * len(embedding.touched)].set(emphasis)
    fitted = _run(
        start, facts, aim, weights, margins, jnp.asarray(rates, jnp.float32), jax.random.split(key, steps), shape, fakes
    )
    return {name: np.asarray(value) for name, value in fitted.items()}


@functools.partial(jax.jit, static_argnames=("shape", "fakes"))
def _run(
    params: Params,
    facts: Any,
    aim: jax.Array,
    weights: jax.Array,
    margins: Any,
    rates: jax.Array,
    keys: jax.Array,
    shape: Shape,
    fakes: int,
) -> Params:
    import optax

    noise, pairs = params["straight"].shape[0], max(len(shape) * (len(shape) - 1) / 2, 1.0)
    adam = optax.scale_by_adam(b2=0.99)

    def loss(params: Params, key: jax.Array) -> jax.Array:
        made = outputs(params, jax.random.normal(key, (fakes, noise)), jnp)
        one, two = mean_features(made, shape, facts, groups=2) - aim
        return pairs * (one @ (weights * two)) + margins * margin_loss(made, shape, facts)

    def step(carry: Any, now: Any) -> tuple[Any, None]:
        params, memory = carry
        key, rate = now
        change, memory = adam.update(jax.grad(loss)(params, key), memory)
        return (jax.tree.map(lambda p, c: p - rate * c, params, change), memory), None

    return jax.lax.scan(step, (params, adam.init(params)), (keys, rates))[0][0]
