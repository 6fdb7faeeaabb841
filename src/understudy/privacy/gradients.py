"""Stochastic gradient descent under differential privacy: the mechanism for gradients.

The one rule: rows meet a network in here and nowhere else, and what leaves is a clipped sum with noise on it. The
mechanism runs the whole loop itself. The sampling rate, the number of steps and the noise are those of the ledger's
planned mechanism, charged before the first row is read; so sampler, clipping and account cannot disagree, and nobody
can take one step too many.

A step draws every unit with probability q, independently (Poisson sampling), and releases

    Σ_u clip(g_u) + N(0, σ²),   g_u = Σ over the rows of unit u of their gradients,

where σ is the ledger's noise multiplier times the clipping norm C. A fresh batch is drawn for every release.

A network hands over the factors of each layer and row, never gradients (clipping.py). Its Python function never sees a
row: it is traced on shapes, before anything is charged, to a program of array operations without side effects
(row_programs.py), in which no row influences what is made of another (row_independence.py). So the bound on what one
unit can change holds whatever a network hands over, right or wrong.

What is promised of floating point: batches and noise are drawn in float64 (batches.py); sums are float32, and clipping
leaves a margin that covers their rounding. Unlike counts, which get exact discrete noise, noise on gradients does not
protect against someone who studies the last bits of many releases (Mironov 2012); only parameters that went through
many more operations are ever shown. docs/privacy.md says more.

Sources: Abadi et al. (2016), arXiv:1607.00133, for the method; Mironov (2012), "On significance of the least
significant bits for differential privacy".
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from understudy.core.compilation import keep_compiled, kept_on_disk
from understudy.core.randomness import Key
from understudy.core.settings import Number, require
from understudy.privacy.batches import Draws, PaddedRows, draw_rounds, largest_batch, pad_rows
from understudy.privacy.clipping import LEAST_USABLE, Layer, Mask, clipped_sums, usable_part
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.row_programs import RowProgram, apply_row_wise, row_program, shapes_of
from understudy.privacy.rows import PrivateRows

Array = jax.Array
State = TypeVar("State")
Prepared = TypeVar("Prepared")
Tree = TypeVar("Tree")

# Beyond these clipping norms float32 would lose the noise, or the sums.
CLIP_NORM = Number(least=1e-6, most=1e6)
# The compiled loop runs this many rounds in one call; between two calls progress is reported.
ROUNDS = 16
# At most this many random numbers are drawn for one call, to bound memory.
MOST_DRAWN = 2**25


class Loop(Protocol[State, Prepared]):
    """What is trained: frozen and hashable, so that equal loops are compiled once.

    `factors` is traced on shapes and never called with a row; what the others are given is public.

    Attributes:
        steps_per_round: Steps between two calls of `finish`; it divides the number of steps.
    """

    @property
    def steps_per_round(self) -> int: ...

    def prepare(self, state: State, key: Array) -> Prepared:
        """What the steps of a round need beforehand: arrays with one entry for each step."""
        ...

    def factors(self, state: State, rows: Array) -> Sequence[Layer]:
        """The factors of every row's gradient; rows are the last axis, (columns, rows). Array operations alone."""
        ...

    def update(self, state: State, gradient: Sequence[Array], prepared: Prepared) -> State:
        """The state after a step, given the noisy sum of gradients of each layer, (in, out) or (..., in, out)."""
        ...

    def finish(self, state: State, key: Array) -> State:
        """The state at the end of a round."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Job(Generic[State]):
    """One training: whose rows, which ledger, and where it starts.

    Attributes:
        state: What the loop starts from.
        clip_norm: C, the most that one unit contributes to a sum, in L2 norm.
        capacity: Rows that arrays are made for; public, and best above the number of rows.
        rate: The sampling rate to draw with, if it is below the one that is charged. That is at least as private:
            (1 - r) N(0, σ²) + r N(1, σ²) is a mixture of N(0, σ²) and of the same with q >= r in the place of r, and
            mixing both of two distributions with a third brings them no farther apart.
    """

    rows: PrivateRows
    ledger: Ledger
    key: Key
    state: State
    clip_norm: float
    capacity: int
    rate: float = 1.0


def train(
    loop: Loop[State, Any],
    jobs: Sequence[Job[State]],
    columns: Sequence[str],
    *,
    planned: str,
    what: str,
    progress: Callable[[int, int], None] | None = None,
) -> list[State]:
    """Runs a loop on the rows of each job, all at once, and returns their last states.

    Args:
        columns: The columns of the rows that the network sees, as numbers, in this order.
        planned: The "sampled gaussian" of every job's plan. Its `times` is the number of steps.
        what: What is trained, for the receipts.
        progress: Told the steps done and the steps in all; both are public.

    Privacy:
        A unit that is drawn adds to the sum of a step a vector of norm at most C, in all layers and over all its rows
        together; one that is not adds nothing. So adding or removing one unit changes the sum by at most C: L2
        sensitivity C, under Poisson sampling with the planned rate. With several rows to a unit the norm of g_u is
        bounded by the sum of its rows' norms, and it is that sum which is clipped. All steps are charged at once,
        before a row is read.

    Raises:
        BudgetExceeded: A ledger does not cover it. Nothing has been read.
        SideEffects: The network does something other than array operations. Nothing has been charged or read.
    """
    keep_compiled()
    entries = [_checked(job, planned, loop.steps_per_round) for job in jobs]
    rates = [min(entry.sampling_rate or 1.0, job.rate) for job, entry in zip(jobs, entries, strict=True)]
    capacity = max(job.capacity for job in jobs)
    usable = _usable_part(capacity, max(rates))
    places = max(largest_batch(capacity, rate) for rate in rates)
    network = traced_factors(loop, jobs[0].state, len(columns), places * jobs[0].rows.max_rows_per_unit)
    sigmas = [
        job.ledger.charge(
            planned, what=what, sensitivity=job.clip_norm, times=entry.times, mechanism="sampled gaussian"
        )
        for job, entry in zip(jobs, entries, strict=True)
    ]
    trainings = [
        _Training(
            rows=pad_rows(job.rows, columns, capacity),
            state=job.state,
            clip_norm=np.float32(job.clip_norm * usable),
            rate=np.float64(rate),
            sigma=np.float64(sigma),
            rounds=entry.times // loop.steps_per_round,
            key=_key(job, planned),
        )
        for job, entry, rate, sigma in zip(jobs, entries, rates, sigmas, strict=True)
    ]
    with kept_on_disk(all(training.rows.fits for training in trainings)):
        return _train_together(loop, network, trainings, progress)


def _checked(job: Job[Any], planned: str, steps_per_round: int) -> PlannedMechanism:
    """The planned steps of a job, if they make sense."""
    require("clip_norm", job.clip_norm, CLIP_NORM)
    entry = job.ledger.planned(planned)
    if entry.mechanism != "sampled gaussian" or entry.sampling_rate is None:
        raise ValueError(f'"{planned}": expected a sampled gaussian in the plan, got {entry.mechanism}.')
    if entry.times % steps_per_round:
        raise ValueError(f"{entry.times} steps are not a whole number of rounds of {steps_per_round}.")
    if entry.times * entry.sampling_rate < 1:
        job.ledger.warn(
            f"{entry.times} steps draw a row {entry.times * entry.sampling_rate:.2g} times on average. That "
            "hides who was drawn, and hardly what a drawn row adds: delta carries the promise. Is the number of rows "
            "in the schema right?"
        )
    return entry


def _usable_part(capacity: int, rate: float) -> float:
    """The part of the clipping norm that a unit may fill.

    It follows from the capacity, which is public, doubled for tables that exceed it, and never from the number of
    rows: that would let one unit rescale what all others add.
    """
    usable = usable_part(largest_batch(2 * capacity, rate))
    if usable < LEAST_USABLE:
        raise ValueError(
            f"batches of about {rate * capacity:.3g} units: expected at most 1 000 000, which float32 can add up. "
            "Take a smaller batch size."
        )
    return usable


def _key(job: Job[Any], planned: str) -> Array:
    """The source of randomness: drawn anew unless a seed was given, so that no two trainings share their noise."""
    return (Key.new() if job.key.secret else job.key.child("steps").child(planned)).jax()


# The network --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FactorProgram:
    """The `factors` of a loop as a program that is safe to run on rows; compared by identity.

    Attributes:
        seen: The mask of each layer; fixed when the program was traced, so no row had an influence on it.
        size: How many numbers a sum of gradients has.
    """

    program: RowProgram
    seen: tuple[Mask | None, ...]
    size: int

    def __call__(self, state: Any, rows: Array) -> list[Layer]:
        return _layers(apply_row_wise(self.program, state, rows), self.seen)


def traced_factors(loop: Loop[State, Any], state: State, columns: int, rows: int) -> FactorProgram:
    """The factors of a loop as a program for so many rows, the same one for equal loops and shapes.

    Raises:
        SideEffects: The network does something other than array operations.
    """
    leaves, tree = jax.tree.flatten(shapes_of(state))
    return _traced_factors(loop, tree, tuple(leaves), columns, rows)


@functools.lru_cache(maxsize=256)
def _traced_factors(
    loop: Loop[Any, Any], tree: Any, leaves: tuple[jax.ShapeDtypeStruct, ...], columns: int, rows: int
) -> FactorProgram:
    state, seen = jax.tree.unflatten(tree, leaves), list[Mask | None]()

    def pairs(state: Any, rows: Array) -> list[Array]:
        layers = loop.factors(state, rows)
        seen[:] = [layer.seen.copy() if isinstance(layer.seen, np.ndarray) else layer.seen for layer in layers]
        return [factor for layer in layers for factor in (layer.inputs, layer.deltas)]

    program = row_program(pairs, state, columns=columns, rows=rows)
    inside = jax.ShapeDtypeStruct((program.rows_at_once, 1), jnp.bool_)

    def summed(made: list[Array], inside: Array) -> list[Array]:
        return clipped_sums(_layers(made, seen), inside, 1.0)

    sums = jax.eval_shape(summed, program.traced.out_avals, inside)
    return FactorProgram(program, tuple(seen), sum(layer.size for layer in sums))


def _layers(made: Sequence[Array], seen: Sequence[Mask | None]) -> list[Layer]:
    return [Layer(a, delta, mask) for a, delta, mask in zip(made[::2], made[1::2], seen, strict=True)]


# The loop -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Training(Generic[State]):
    """A job that was charged, with what the compiled loop needs of it."""

    rows: PaddedRows
    state: State
    clip_norm: np.float32
    rate: np.float64
    sigma: np.float64
    rounds: int
    key: Array


def _train_together(
    loop: Loop[State, Any],
    network: FactorProgram,
    trainings: Sequence[_Training[State]],
    progress: Callable[[int, int], None] | None,
) -> list[State]:
    """The last state of each training; each makes its own number of rounds."""
    many, steps = len(trainings) > 1, loop.steps_per_round
    stack = _stacked if many else _only
    most = max(largest_batch(len(each.rows.units), float(each.rate)) for each in trainings)  # not public
    state = jax.device_put(stack([each.state for each in trainings]))
    rows = jax.device_put(stack([(each.rows.exact, each.rows.units) for each in trainings]))
    clip_norms = stack([each.clip_norm for each in trainings])
    rate, sigma = stack([each.rate for each in trainings]), stack([each.sigma for each in trainings])
    units = stack([np.int64(each.rows.exact_count) for each in trainings])
    key = _stacked_keys([each.key for each in trainings]) if many else trainings[0].key
    at_once = _rounds_at_once(steps * (network.size + most * rows[1].shape[-1]) * len(trainings))
    last = max(each.rounds for each in trainings)
    for first in range(0, last, at_once):
        numbers = np.arange(first, first + at_once)
        drawn = draw_rounds(key, numbers, rate, sigma, units, steps=steps, most=most, size=network.size)
        active = stack([numbers < each.rounds for each in trainings])
        state = (_run_many if many else run_rounds)(loop, network, state, rows, clip_norms, active, drawn)
        jax.block_until_ready(state)
        if progress is not None:
            progress(min(first + at_once, last) * steps, last * steps)
    state = jax.device_get(state)
    return [jax.tree.map(operator.itemgetter(i), state) for i in range(len(trainings))] if many else [state]


def _rounds_at_once(numbers: int) -> int:
    """How many rounds' draws are made at a time: few compiled programs, and not too much memory."""
    rounds = ROUNDS
    while rounds > 1 and rounds * numbers > MOST_DRAWN:
        rounds //= 2
    return rounds


def _only(trees: Sequence[Tree]) -> Tree:
    return trees[0]


def _stacked(trees: Sequence[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _stacked_keys(keys: Sequence[Array]) -> Array:
    return jax.random.wrap_key_data(jax.device_put(np.stack([jax.random.key_data(key) for key in keys])))


def _rounds(
    loop: Loop[State, Any],
    network: FactorProgram,
    state: State,
    rows: tuple[Array, Array],
    clip_norm: Array,
    active: Array,
    draws: Draws,
) -> State:
    """Some rounds; those that are not active leave the state as it is."""

    def body(state: State, inputs: tuple[Array, Draws]) -> tuple[State, None]:
        active, draws = inputs
        return jax.lax.cond(active, lambda: _round(loop, network, state, rows, clip_norm, draws), lambda: state), None

    return jax.lax.scan(body, state, (active, draws))[0]


run_rounds = jax.jit(_rounds, static_argnums=(0, 1), donate_argnums=2)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _run_many(
    loop: Loop[State, Any],
    network: FactorProgram,
    state: State,
    rows: tuple[Array, Array],
    clip_norm: Array,
    active: Array,
    draws: Draws,
) -> State:
    return jax.vmap(functools.partial(_rounds, loop, network))(state, rows, clip_norm, active, draws)


def _round(
    loop: Loop[State, Any],
    network: FactorProgram,
    state: State,
    rows: tuple[Array, Array],
    clip_norm: Array,
    draws: Draws,
) -> State:
    exact, units = rows
    for_steps, for_end = jax.random.split(draws.key)
    members = units[draws.units]  # (steps, units, rows of a unit)
    inside = draws.drawn[:, :, None] & (members < len(exact) - 1)

    def step(state: State, inputs: tuple[Array, Array, Array, Any]) -> tuple[State, None]:
        members, inside, noise, prepared = inputs
        exact_sums = clipped_sums(network(state, exact[members.ravel()].T), inside, clip_norm)
        ends = np.cumsum([layer.size for layer in exact_sums])[:-1].tolist()
        parts = zip(exact_sums, jnp.split(noise, ends), strict=True)
        noisy = [layer + part.reshape(layer.shape) for layer, part in parts]
        return loop.update(state, noisy, prepared), None

    prepared = loop.prepare(state, for_steps)
    state, _ = jax.lax.scan(step, state, (members, inside, draws.noise, prepared))
    return loop.finish(state, for_end)
