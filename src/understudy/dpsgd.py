"""The hatch for gradients: stochastic gradient descent under differential privacy.

The one rule: rows meet a network in here and nowhere else, and what leaves is a clipped sum with noise on it. The hatch
runs the whole loop itself. The sampling rate, the number of steps and the noise are read off the ledger's own item, and
paid before the first row is; so sampler, clipping and account cannot disagree, and nobody can take one step too many.

A step draws every unit with probability q, independently (Poisson sampling), and releases

    Σ_u clip(g_u) + N(0, σ²),   g_u = Σ over the rows of unit u of their gradients,

where σ is the ledger's noise multiplier times the clipping norm C. A fresh batch is drawn for every release.

The gradient of one row with respect to a dense layer is an outer product a ⊗ δ of the layer's input and of the
derivative with respect to its output. A network hands over these two factors for each layer and row, never gradients;
norms, clipping and the sum are made of the same factors here. So the bound on what one unit can change holds whatever a
network hands over, right or wrong.

What is promised of floating point: batches and noise are drawn in float64 from JAX's counter-based generator, whose
normals end beyond 8 deviations; sums are float32, and clipping leaves a margin for their rounding. Unlike counts, which
get exact discrete noise, noise on gradients is not safe from someone who studies the last bits of many releases
(Mironov 2012); only parameters that went through many more operations are ever shown. docs/privacy.md says more.

Sources: Abadi et al. (2016), arXiv:1607.00133, for the method; Goodfellow (2015), arXiv:1510.01799, for norms from
factors; Mironov (2012), "On significance of the least significant bits for differential privacy".
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from understudy.budget import Ledger
from understudy.mechanisms import PrivateRows
from understudy.randomness import Key

Array = jax.Array
Factors = Sequence[tuple[Array, Array]]
"""For each dense layer its inputs (rows, in) and the derivatives by its outputs (rows, out)."""

MARGIN = 1e-5  # of the clipping norm, for rounding in float32: sums of some hundred terms err by less
OVERFLOW = 1e-20  # the chance that a batch does not fit into its place; then its last units are left out
PIECES = 50  # how often in a training the progress is told


class Loop(Protocol):
    """What is trained: frozen and hashable, so that equal loops are compiled once.

    `factors` sees rows, and only its answer is used; what the others see is public.

    Attributes:
        steps_per_round: Steps between two calls of `finish`; it divides the number of steps.
    """

    @property
    def steps_per_round(self) -> int: ...

    def prepare(self, state: Any, key: Array) -> Any:
        """What the steps of a round need beforehand: arrays with one entry for each step."""
        ...

    def factors(self, state: Any, rows: Array) -> Factors:
        """The factors of every row's gradient."""
        ...

    def update(self, state: Any, gradient: Sequence[Array], prepared: Any) -> Any:
        """The state after a step, given the noisy sum of gradients of each layer, (in, out)."""
        ...

    def finish(self, state: Any, key: Array) -> Any:
        """The state at the end of a round."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One training: whose rows, who pays, and where it starts.

    Attributes:
        state: What the loop starts from.
        clip_norm: C, the most that one unit contributes to a sum, in L2 norm.
    """

    rows: PrivateRows
    ledger: Ledger
    key: Key
    state: Any
    clip_norm: float


def train(
    loop: Loop,
    jobs: Sequence[Job],
    columns: Sequence[str],
    *,
    item: str,
    what: str,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Runs a loop on the rows of each job, all at once, and returns their last states.

    Args:
        columns: The columns of the rows that the network sees, as numbers, in this order.
        item: The "sampled gaussian" of every job's plan. Its `times` is the number of steps.
        what: What is trained, for the receipts.
        progress: Told the steps done and the steps in all; both are public.

    Privacy:
        A unit that is drawn adds to the sum of a step a vector of norm at most C, in all layers and over all its rows
        together; one that is not adds nothing. So adding or removing one unit changes the sum by at most C: L2
        sensitivity C, under Poisson sampling with the item's rate. With several rows to a unit the norm of g_u is
        bounded by the sum of its rows' norms, and it is that sum which is clipped. All steps are paid at once, before
        a row is read.

    Raises:
        BudgetExceeded: A ledger cannot pay. Nothing has been read.
    """
    steps, rates, sigmas = [], [], []
    for job in jobs:
        if not (math.isfinite(job.clip_norm) and job.clip_norm > 0):
            raise ValueError(f"clip_norm: expected a number > 0, got {job.clip_norm!r}.")
        planned = job.ledger.item(item)
        if planned.mechanism != "sampled gaussian" or planned.sampling_rate is None:
            raise ValueError(f'"{item}": expected a sampled gaussian in the plan, got {planned.mechanism}.')
        if planned.times % loop.steps_per_round:
            raise ValueError(f"{planned.times} steps are not a whole number of rounds of {loop.steps_per_round}.")
        steps.append(planned.times)
        rates.append(planned.sampling_rate)
    for job, times in zip(jobs, steps, strict=True):
        sigmas.append(job.ledger.pay(item, what=what, sensitivity=job.clip_norm, times=times))
    with jax.enable_x64(True):
        boxes = [_open(job.rows, columns, rate) for job, rate in zip(jobs, rates, strict=True)]
        inputs = [
            _Inputs(
                key=job.key.child("steps").jax(),
                rate=jnp.float64(rate),
                sigma=jnp.float64(sigma),
                clip_norm=jnp.float32(job.clip_norm),
                rounds=jnp.int64(times // loop.steps_per_round),
            )
            for job, rate, sigma, times in zip(jobs, rates, sigmas, steps, strict=True)
        ]
        states = [jax.tree.map(jnp.asarray, job.state) for job in jobs]
        most = max(box.most for box in boxes)
        if len(jobs) == 1:
            run, stack, unstack = _run, _only, lambda tree: [tree]
        else:
            run, stack, unstack = _run_many, _stacked, functools.partial(_unstacked, len(jobs))
        rows = stack([(box.rows, box.units) for box in boxes])
        given, state = stack(inputs), stack(states)
        total = max(steps) // loop.steps_per_round
        for start, stop in _pieces(total):
            state = run(loop, most, state, rows, given, jnp.int64(start), jnp.int64(stop))
            jax.block_until_ready(state)
            if progress is not None:
                progress(stop * loop.steps_per_round, max(steps))
        return unstack(state)


def _pieces(rounds: int) -> list[tuple[int, int]]:
    ends = np.unique(np.linspace(0, rounds, min(rounds, PIECES) + 1).astype(int)).tolist()
    return list(itertools.pairwise(ends))


def _only(trees: list[Any]) -> Any:
    return trees[0]


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _unstacked(count: int, tree: Any) -> list[Any]:
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(count)]


# The box, opened ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Box:
    """Rows as the loop reads them.

    Attributes:
        rows: (rows, columns), and one more row of zeros.
        units: (units, rows of a unit): places in `rows`, the last one where a unit has no more.
        most: The size of a batch that no batch passes, but for a chance of `OVERFLOW`.
    """

    rows: Array
    units: Array
    most: int


def _open(rows: PrivateRows, columns: Sequence[str], rate: float) -> _Box:
    exact = np.stack([rows._exact[name] for name in columns], axis=1).astype(np.float32)
    exact = np.vstack([np.nan_to_num(exact, posinf=0.0, neginf=0.0), np.zeros((1, exact.shape[1]), np.float32)])
    units = _members(rows._exact_units, len(exact) - 1)
    return _Box(rows=jnp.asarray(exact), units=jnp.asarray(units), most=largest_batch(len(units), rate))


def _members(whose: np.ndarray | None, count: int) -> np.ndarray:
    """The rows of each unit, (units, most rows of a unit), filled up with `count`."""
    if whose is None:
        return np.arange(count, dtype=np.int32)[:, None]
    order = np.argsort(whose, kind="stable")
    sizes = np.bincount(whose) if len(whose) else np.zeros(0, int)
    place = np.arange(len(whose)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    units = np.full((len(sizes), int(sizes.max(initial=1))), count, dtype=np.int32)
    units[whose[order], place] = order
    return units


def largest_batch(units: int, rate: float) -> int:
    """A size that a binomial number of units passes with probability at most `OVERFLOW`, by Bernstein's bound.

    P(X >= m + t) <= exp(-t² / (2 (v + t / 3))) with mean m = nq and variance v = nq(1 - q). It follows the number of
    units, which is private, but shapes only how much room a batch is given, not what comes out.
    """
    mean, variance, exponent = units * rate, units * rate * (1 - rate), -math.log(OVERFLOW)
    room = exponent / 3 + math.sqrt((exponent / 3) ** 2 + 2 * exponent * variance)
    return max(1, min(units, math.ceil(mean + room)))


# The loop -----------------------------------------------------------------------------------------------------------


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["key", "rate", "sigma", "clip_norm", "rounds"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Inputs:
    """What a job is run with: random key, sampling rate, noise, clipping norm, number of rounds."""

    key: Array
    rate: Array
    sigma: Array
    clip_norm: Array
    rounds: Array


def _rounds(loop: Loop, most: int, state: Any, rows: tuple[Array, Array], given: _Inputs, start: Array, stop: Array):
    """The rounds from `start` to `stop`, or to the job's last."""

    def body(number, state):
        return _round(loop, most, state, rows, given, jax.random.fold_in(given.key, number))

    return jax.lax.fori_loop(jnp.minimum(start, given.rounds), jnp.minimum(stop, given.rounds), body, state)


_run = jax.jit(_rounds, static_argnums=(0, 1), donate_argnums=2)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _run_many(loop: Loop, most: int, state: Any, rows: Any, given: _Inputs, start: Array, stop: Array):
    run = functools.partial(_rounds, loop, most)
    return jax.vmap(run, in_axes=(0, 0, 0, None, None))(state, rows, given, start, stop)


def _round(loop: Loop, most: int, state: Any, rows: tuple[Array, Array], given: _Inputs, key: Array):
    exact, units = rows
    for_loop, for_batches, for_noise, for_end = jax.random.split(key, 4)
    steps = loop.steps_per_round
    prepared = loop.prepare(state, for_loop)
    batches, drawn = jax.vmap(lambda key: poisson_batch(key, given.rate, len(units), most))(
        jax.random.split(for_batches, steps)
    )
    members = units[batches]  # (steps, units, rows of a unit)
    inside = drawn[:, :, None] & (members < len(exact) - 1)
    shapes = _layer_shapes(loop, state, exact, most * units.shape[1])
    size = sum(math.prod(shape) for shape in shapes)
    noise = given.sigma * jax.random.normal(for_noise, (steps, size), dtype=jnp.float64)

    def step(state, inputs):
        members, inside, noise, prepared = inputs
        factors = loop.factors(state, exact[members.ravel()])
        exact_sums = clipped_sums(factors, inside, given.clip_norm)
        flat = jnp.concatenate([layer.ravel() for layer in exact_sums]) + noise.astype(jnp.float32)
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1].tolist()
        noisy = [part.reshape(shape) for part, shape in zip(jnp.split(flat, ends), shapes, strict=True)]
        return loop.update(state, noisy, prepared), None

    state, _ = jax.lax.scan(step, state, (members, inside, noise, prepared))
    return loop.finish(state, for_end)


def _layer_shapes(loop: Loop, state: Any, exact: Array, size: int) -> list[tuple[int, int]]:
    batch = jax.ShapeDtypeStruct((size, exact.shape[1]), exact.dtype)
    return [(a.shape[1], delta.shape[1]) for a, delta in jax.eval_shape(loop.factors, state, batch)]


def poisson_batch(key: Array, rate: Array, units: int, most: int) -> tuple[Array, Array]:
    """Each of so many units with probability `rate`, independently: their places, and which places hold one.

    The gaps between the units drawn are geometric, P(gap = k) = q (1 - q)^k, so that it takes as long as the batch is
    large and not as the table is.
    """
    uniform = jax.random.uniform(key, (most,), dtype=jnp.float64)
    gaps = jnp.minimum(jnp.floor(jnp.log(uniform) / jnp.log1p(-rate)), units)
    places = jnp.cumsum(gaps + 1) - 1
    drawn = places < units
    return jnp.where(drawn, places, 0).astype(jnp.int32), drawn


def clipped_sums(factors: Factors, inside: Array, clip_norm: Array) -> list[Array]:
    """Σ_u c_u Σ_r a_r ⊗ δ_r for every layer, with c_u = min(1, C / Σ_r |g_r|) and |g_r|² = Σ_l |a_rl|² |δ_rl|².

    A row whose gradient is not finite counts as zero: an error would be a release.

    Args:
        inside: (units, rows of a unit): which places hold a row.
    """
    squares = sum(jnp.sum(a**2, axis=1) * jnp.sum(delta**2, axis=1) for a, delta in factors)
    finite = jnp.isfinite(squares) & inside.ravel()
    norms = jnp.sqrt(jnp.where(finite, squares, 0.0)).reshape(inside.shape)
    of_unit = jnp.sum(norms, axis=1, keepdims=True)
    scale = jnp.minimum(1.0, clip_norm * (1 - MARGIN) / jnp.maximum(of_unit, 1e-30))
    weights = (jnp.broadcast_to(scale, inside.shape).ravel() * finite)[:, None].astype(jnp.float32)
    sums = []
    for a, delta in factors:
        a, delta = (jnp.where(finite[:, None], factor, 0.0) for factor in (a, delta))
        sums.append(jnp.matmul((a * weights).T, delta, precision=jax.lax.Precision.HIGHEST))
    return sums
