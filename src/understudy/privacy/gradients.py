"""Stochastic gradient descent under differential privacy: the mechanism for gradients.

The one rule: rows meet a network in here and nowhere else, and what leaves is a clipped sum with noise on it. The
mechanism runs the whole loop itself. The sampling rate, the number of steps and the noise are those of the ledger's
planned mechanism, charged before the first row is read; so sampler, clipping and account cannot disagree, and nobody
can take one step too many.

A step draws every unit with probability q, independently (Poisson sampling), and releases

    round(Σ_u clip(g_u)) + N(0, σ²),   g_u = Σ over the rows of unit u of their gradients,

where σ is the ledger's noise multiplier times the clipping norm C, rounding is to a public grid, and the noise is a
discrete Gaussian on it. A fresh batch is drawn for every release.

A network hands over the factors of each layer and row, never gradients (clipping.py). Its Python function never sees a
row: it is traced on shapes, before anything is charged, to a program of array operations without side effects
(row_programs.py), in which no row influences what is made of another (row_independence.py). So the bound on what one
unit can change holds whatever a network hands over, right or wrong.

Noise is exact: drawn and added in whole numbers, with a proof that this is at least as private as the real-valued noise
that is charged (lattice_noise.py). So are batches (batches.py). Sums are computed in floating point and rounded;
clipping leaves a margin that covers both (clipping.py).

Source: Abadi et al. (2016), arXiv:1607.00133, for the method.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import concurrent.futures
import dataclasses
import functools
import math
import operator
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.core.compilation import keep_compiled, kept_on_disk
from understudy.core.processors import cores
from understudy.core.randomness import Key
from understudy.core.settings import Number, require
from understudy.privacy import recording
from understudy.privacy.batches import Draws, PaddedRows, draw_rounds, fits, largest_batch, pad_rows
from understudy.privacy.clipping import LEAST_USABLE, MOST_ROWS, clipped_sums, usable_part
from understudy.privacy.factors import FactorProgram, Loop, traced_factors
from understudy.privacy.lattice_noise import LatticeNoise, add_noise
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows

Array = jax.Array
State = TypeVar("State")
Tree = TypeVar("Tree")

# Beyond these clipping norms float32 would lose the noise, or the sums.
CLIP_NORM = Number(least=1e-6, most=1e6)
# The compiled loop runs this many rounds in one call; between two calls progress is reported.
ROUNDS = 16
# At most this many random numbers are drawn for one call, to bound memory.
MOST_DRAWN = 2**25
# On an accelerator this many trainings of one program are run side by side.
MOST_TOGETHER = 96


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part(Generic[State]):
    """A network that is trained by itself, on batches that all parts of a job have in common.

    Attributes:
        loop: What is trained.
        state: What the loop starts from.
        columns: The columns of the rows that the network sees, as numbers, in this order.
        clip_norm: The most that one unit contributes to a sum of this part, in L2 norm; or one such norm for each of
            its layers side by side, which are then clipped one by one (`clipping.clipped_sums`).
    """

    loop: "Loop[State, Any]"
    state: State
    columns: Sequence[str]
    clip_norm: float | NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Job(Generic[State]):
    """One training: whose rows, which ledger, and the networks that are trained.

    Attributes:
        parts: Networks that share every batch; what a step releases is the sums of all of them.
        capacity: Rows that arrays are made for; public, and best above the number of rows.
        rate: The sampling rate to draw with, if it is below the one that is charged. That is at least as private:
            (1 - r) N(0, σ²) + r N(1, σ²) is a mixture of N(0, σ²) and of the same with q >= r in the place of r, and
            mixing both of two distributions with a third brings them no farther apart.
    """

    rows: PrivateRows
    ledger: Ledger
    key: Key
    parts: Sequence[Part[State]]
    capacity: int
    rate: float = 1.0

    @property
    def clip_norm(self) -> float:
        """C, the most that one unit contributes to a step, in L2 norm over all parts."""
        return math.sqrt(sum(float(np.sum(np.square(part.clip_norm))) for part in self.parts))


def train(
    jobs: Sequence[Job[State]],
    *,
    planned: str,
    what: str,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[State]]:
    """Trains all parts of each job, and returns their last states.

    Args:
        planned: The "sampled gaussian" of every job's plan. Its `times` is the number of steps.
        what: What is trained, for the receipts.
        progress: Told the steps done and the steps in all; both are public.

    Privacy:
        A unit that is drawn adds to the sum of a part a vector of norm at most the part's C_k, over all its rows
        together; one that is not adds nothing. What a step releases are the sums of all parts side by side, so adding
        or removing one unit changes them by at most C = √Σ C_k², errors of summation and rounding to the grid included:
        L2 sensitivity C, under Poisson sampling with the planned rate. All parts of a job have the same batch in the
        same step, so it is one draw and one release; each coordinate has noise of its own. That parts are trained one
        after the other changes nothing: a part's step depends on its own earlier sums alone. With several rows to a
        unit the norm of g_u is bounded by the sum of its rows' norms, and it is that sum which is clipped. All steps
        are charged at once, before a row is read.

    Raises:
        BudgetExceeded: A ledger does not cover it. Nothing has been read.
        SideEffects: A network does something other than array operations. Nothing has been charged or read.
    """
    keep_compiled()
    jobs = recording.observed(jobs, planned)
    entries = [_checked(job, planned) for job in jobs]
    rates = [min(entry.sampling_rate or 1.0, job.rate) for job, entry in zip(jobs, entries, strict=True)]
    capacity = max(job.capacity for job in jobs)
    rows_of_a_unit = max(job.rows.max_rows_per_unit for job in jobs)
    _refuse_large_batches(capacity, max(rates), rows_of_a_unit)
    places = max(largest_batch(capacity, rate) for rate in rates) * rows_of_a_unit
    networks = [
        [traced_factors(part.loop, part.state, len(part.columns), places) for part in job.parts] for job in jobs
    ]
    noises = [_noise(job, planned, own) for job, own in zip(jobs, networks, strict=True)]
    for job, entry in zip(jobs, entries, strict=True):
        job.ledger.charge(
            planned, what=what, sensitivity=job.clip_norm, times=entry.times, mechanism="sampled gaussian"
        )
    trainings = [
        training
        for job, entry, rate, noise, own in zip(jobs, entries, rates, noises, networks, strict=True)
        for training in _trainings(job, entry, own, key=_key(job, planned), rate=rate, noise=noise)
    ]
    public = all(fits(job.rows, capacity) for job in jobs)
    with kept_on_disk(public):
        states = _train_all(trainings, capacity, progress)
    done = iter(states)
    return recording.trained([[next(done) for _ in job.parts] for job in jobs])


def _checked(job: Job[Any], planned: str) -> PlannedMechanism:
    """The planned steps of a job, if they make sense."""
    require("clip_norm", job.clip_norm, CLIP_NORM)
    for norm in (norm for part in job.parts for norm in np.ravel(part.clip_norm).tolist()):
        require("clip_norm", norm, CLIP_NORM if norm else Number(least=0.0))
    entry = job.ledger.planned(planned)
    if entry.mechanism != "sampled gaussian" or entry.sampling_rate is None:
        raise ValueError(f'"{planned}": expected a sampled gaussian in the plan, got {entry.mechanism}.')
    rounds = {part.loop.steps_per_round for part in job.parts}
    if len(rounds) > 1:
        raise ValueError(f"parts: expected rounds of one length, so that all have the same batches, got {rounds}.")
    if any(entry.times % steps for steps in rounds):
        raise ValueError(f"{entry.times} steps are not a whole number of rounds of {max(rounds)}.")
    if entry.times * entry.sampling_rate < 1:
        job.ledger.warn(
            f"{entry.times} steps draw a row {entry.times * entry.sampling_rate:.2g} times on average. That "
            "hides who was drawn, and hardly what a drawn row adds: delta carries the promise. Is the number of rows "
            "in the schema right?"
        )
    return entry


def _refuse_large_batches(capacity: int, rate: float, rows_of_a_unit: int) -> None:
    """Refuses batches that cannot be added up well; the capacity is public, and doubled for tables that exceed it."""
    if largest_batch(2 * capacity, rate) * rows_of_a_unit > MOST_ROWS:
        raise ValueError(
            f"batches of about {rate * capacity * rows_of_a_unit:.3g} rows: expected at most 1 000 000, which can be "
            "added up with small errors. Take a smaller batch size."
        )


def _noise(job: Job[Any], planned: str, networks: Sequence[FactorProgram]) -> LatticeNoise:
    """The noise on the sums of all parts of a job, in deviation what the ledger will charge for.

    Raises:
        ValueError: There is so much of it that rounding to its grid would take the clipping norm, or clipping norms do
            not fit their network.
    """
    for part, network in zip(job.parts, networks, strict=True):
        network.check_norms(np.shape(part.clip_norm))
    norm, size = job.clip_norm, sum(network.size for network in networks)
    noise = LatticeNoise.of(job.ledger.noise(planned) * norm, clip_norm=norm, size=size)
    if 1 - noise.rounding(size) / norm < LEAST_USABLE:
        raise ValueError(
            "epsilon is too small: its noise overflows 32-bit integers. Raise epsilon, or take fewer steps."
        )
    return noise


def _key(job: Job[Any], planned: str) -> Key:
    """The source of randomness: drawn anew unless a seed was given, so that no two trainings share their noise."""
    return Key.new() if job.key.secret else job.key.child("steps").child(planned)


# The loop -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Training(Generic[State]):
    """A part of a job that was charged, with what the compiled loop needs of it.

    Attributes:
        number: Of the part.
        rounds: Rounds that it makes.
    """

    job: Job[State]
    part: Part[State]
    number: int
    network: FactorProgram
    clip_norm: NDArray[np.float32]
    rate: float
    noise: LatticeNoise
    rounds: int
    key: Key

    @property
    def program(self) -> Hashable:
        """What trainings must have in common to be run by one program, side by side."""
        shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(self.part.state))
        return self.part.loop, shapes, len(self.part.columns), self.job.rows.max_rows_per_unit


def _trainings(
    job: Job[State],
    entry: PlannedMechanism,
    networks: Sequence[FactorProgram],
    *,
    key: Key,
    rate: float,
    noise: LatticeNoise,
) -> list[_Training[State]]:
    """The parts of a job that was charged; of their clipping norms a part is usable."""
    rounding = noise.rounding(sum(network.size for network in networks)) / job.clip_norm
    terms = max(network.terms for network in networks)
    usable = usable_part(terms, job.rows.max_rows_per_unit, rounding=rounding)
    return [
        _Training(
            job=job,
            part=part,
            number=number,
            network=network,
            clip_norm=np.asarray(part.clip_norm * usable, np.float32),
            rate=rate,
            noise=noise,
            rounds=entry.times // part.loop.steps_per_round,
            key=key,
        )
        for number, (part, network) in enumerate(zip(job.parts, networks, strict=True))
    ]


def _train_all(
    trainings: Sequence[_Training[State]], capacity: int, progress: Callable[[int, int], None] | None
) -> list[State]:
    """The last state of each training: many side by side on an accelerator, one on each core of a processor."""
    on_processor = jax.default_backend() == "cpu"
    groups: dict[Hashable, list[int]] = {}
    for i, training in enumerate(trainings):
        groups.setdefault(training.program, []).append(i)
    side_by_side = 1 if on_processor else MOST_TOGETHER
    batches = [g[i : i + side_by_side] for g in groups.values() for i in range(0, len(g), side_by_side)]
    total = sum(max(trainings[i].rounds * trainings[i].part.loop.steps_per_round for i in batch) for batch in batches)
    count = _Count(total, progress)
    done: dict[int, State] = {}

    def run(batch: list[int]) -> None:
        states = _train_together([trainings[i] for i in batch], capacity, count)
        done.update(zip(batch, states, strict=True))

    with concurrent.futures.ThreadPoolExecutor(cores() if on_processor else 1) as pool:
        for finished in [pool.submit(run, batch) for batch in batches]:
            finished.result()
    return [done[i] for i in range(len(trainings))]


class _Count:
    """Steps done by all threads; tells somebody."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None):
        self.total, self.progress, self.done, self.lock = total, progress, 0, threading.Lock()

    def add(self, steps: int) -> None:
        with self.lock:
            self.done = min(self.done + steps, self.total)
            if self.progress is not None:
                self.progress(self.done, self.total)


def _train_together(trainings: Sequence[_Training[State]], capacity: int, count: _Count) -> list[State]:
    """The last state of each training of one program; each makes its own number of rounds."""
    many, loop, network = len(trainings) > 1, trainings[0].part.loop, trainings[0].network
    steps, stack = loop.steps_per_round, _stacked if many else _only
    padded = [pad_rows(each.job.rows, each.part.columns, capacity) for each in trainings]
    most = max(largest_batch(len(p.units), each.rate) for p, each in zip(padded, trainings, strict=True))  # not public
    state = jax.device_put(stack([each.part.state for each in trainings]))
    rows = jax.device_put(stack([(p.exact, p.units) for p in padded]))
    clip_norms = stack([each.clip_norm for each in trainings])
    last = max(each.rounds for each in trainings)
    at_once = _rounds_at_once(last, steps * (network.size + most * rows[1].shape[-1]) * len(trainings))

    def draws(each: _Training[State], rows: PaddedRows, numbers: NDArray[np.int64]) -> Draws:
        of_part = {"part": each.number, "steps": steps, "most": most, "size": network.size}
        return draw_rounds(each.key, numbers, each.rate, each.noise, rows.exact_count, **of_part)

    with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
        for first in range(0, last, at_once):
            numbers = np.arange(first, first + at_once)
            drawn = list(pool.map(draws, trainings, padded, [numbers] * len(trainings)))
            active = stack([numbers < each.rounds for each in trainings])
            state = (_run_many if many else run_rounds)(loop, network, state, rows, clip_norms, active, stack(drawn))
            jax.block_until_ready(state)
            count.add(at_once * steps)
    state = jax.device_get(state)
    return [jax.tree.map(operator.itemgetter(i), state) for i in range(len(trainings))] if many else [state]


def _rounds_at_once(rounds: int, numbers: int) -> int:
    """How many rounds' draws are made at a time: in even parts, and not too much memory."""
    most = max(1, min(ROUNDS, MOST_DRAWN // max(numbers, 1)))
    return math.ceil(rounds / math.ceil(rounds / most))


def _only(trees: Sequence[Tree]) -> Tree:
    return trees[0]


def _stacked(trees: Sequence[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


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

    def step(state: State, inputs: tuple[Array, Any, Any, Any]) -> tuple[State, None]:
        members, inside, noise, prepared = inputs
        exact_sums = clipped_sums(network(state, exact[members.ravel()].T), inside, clip_norm)
        ends = np.cumsum([layer.size for layer in exact_sums])[:-1].tolist()
        parts = zip(exact_sums, jnp.split(noise, ends), strict=True)
        noisy = [add_noise(layer, part, draws.grid) for layer, part in parts]
        return loop.update(state, noisy, prepared), None

    prepared = loop.prepare(state, for_steps)
    state, _ = jax.lax.scan(step, state, (members, inside, draws.noise, prepared))
    return loop.finish(state, for_end)
