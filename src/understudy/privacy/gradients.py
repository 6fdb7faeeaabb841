"""Stochastic gradient descent under differential privacy: the mechanism for gradients.

The one rule: rows meet a network in here and nowhere else, and what leaves is a clipped sum with noise on it. The
mechanism runs the whole loop itself. The sampling rate, the number of steps and the noise are those of the ledger's
planned mechanism, charged before the first row is read; so sampler, clipping and account cannot disagree, and nobody
can take one step too many.

A step draws every unit with probability q, independently (Poisson sampling), and releases

    round(Σ_u clip(g_u)) + N(0, σ²),   g_u = Σ over the rows of unit u of their gradients,

where σ is the ledger's noise multiplier times the clipping norm C, rounding is to a public grid, and the noise is a
discrete Gaussian on it. A fresh batch is drawn for every release.

The densities of columns are known in this folder: their derivatives are written out in densities.py. Any other network
hands over the factors of each layer and row, never gradients (clipping.py). Its Python function never sees a row: it is
traced on shapes, before anything is charged, to a program of array operations without side effects
(row_programs.py), in which no row influences what is made of another (row_independence.py). So the bound on what one
unit can change holds whatever a network hands over, right or wrong.

Noise is exact: drawn and added in whole numbers, with a proof that this is at least as private as the real-valued noise
that is charged (lattice_noise.py). So are batches (batches.py). Sums are computed in floating point and rounded;
clipping leaves a margin that covers both (clipping.py).

Source: Abadi et al. (2016), arXiv:1607.00133, for the method.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from understudy.core.compilation import keep_compiled, kept_on_disk
from understudy.core.leaves import filled, leaves
from understudy.core.randomness import Key
from understudy.core.settings import Number, require
from understudy.privacy import recording
from understudy.privacy.batches import fits, largest_batch
from understudy.privacy.densities import DensityLoop, plain_weights
from understudy.privacy.density_training import train_densities
from understudy.privacy.gathering import drawn_rows
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.summation import LEAST_USABLE, MOST_ROWS, usable_part
from understudy.privacy.training import Count, Job, Part, Sizes, Training

State = TypeVar("State")

# Beyond these clipping norms float32 would lose the noise, or the sums.
CLIP_NORM = Number(least=1e-6, most=1e6)


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
    jobs = recording.observed(jobs, planned)
    if len({isinstance(part.loop, DensityLoop) for job in jobs for part in job.parts}) > 1:
        raise ValueError("parts: expected densities alone, or none.")
    entries = [_checked(job, planned) for job in jobs]
    rates = [min(entry.sampling_rate or 1.0, job.rate) for job, entry in zip(jobs, entries, strict=True)]
    capacity = max(job.capacity for job in jobs)
    rows_of_a_unit = max(job.rows.max_rows_per_unit for job in jobs)
    _refuse_large_batches(capacity, max(rates), rows_of_a_unit)
    places = max(largest_batch(capacity, rate) for rate in rates) * rows_of_a_unit
    networks = [[_network(part, places) for part in job.parts] for job in jobs]
    noises = [_noise(job, planned, own) for job, own in zip(jobs, networks, strict=True)]
    for job, entry in zip(jobs, entries, strict=True):
        job.ledger.charge(
            planned, what=what, sensitivity=job.clip_norm, times=entry.times, mechanism="sampled gaussian"
        )
    if (kept := _kept(jobs)) is not None:
        return kept
    public = all(fits(job.rows, capacity) for job in jobs)
    keys = [_key(job, planned) for job in jobs]
    jobs = [
        _with_drawn_rows(job, entry, key=key, rate=rate, capacity=capacity)
        for job, entry, key, rate in zip(jobs, entries, keys, rates, strict=True)
    ]
    trainings = [
        training
        for job, entry, key, rate, noise, own in zip(jobs, entries, keys, rates, noises, networks, strict=True)
        for training in _trainings(job, entry, own, key=key, rate=rate, noise=noise)
    ]
    states = _run(trainings, capacity, public, Count(sum(training.steps for training in trainings), progress))
    done = iter(states)
    _keep(jobs, states)
    return recording.trained([[next(done) for _ in job.parts] for job in jobs])


def _kept(jobs: Sequence[Job[State]]) -> list[list[State]] | None:
    """The last states that an earlier process released, if a checkpoint has them: only a fit by itself has one."""
    if (kept := jobs[0].ledger.kept()) is None:
        return None
    numbers = iter(kept)
    return [[filled(part.state, next(numbers)) for part in job.parts] for job in jobs]


def _keep(jobs: Sequence[Job[State]], states: Sequence[State]) -> None:
    numbers = None if jobs[0].ledger.checkpoint is None else [leaves(state) for state in states]
    for job in jobs:
        job.ledger.keep(numbers)


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


def _noise(job: Job[Any], planned: str, networks: Sequence[Sizes]) -> LatticeNoise:
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


def _with_drawn_rows(job: Job[State], entry: PlannedMechanism, *, key: Key, rate: float, capacity: int) -> Job[State]:
    """A job that was charged, with the rows alone that its batches draw, if its table is not in memory."""
    steps = max(part.loop.steps_per_round for part in job.parts)
    columns = tuple(dict.fromkeys(name for part in job.parts for name in part.columns))
    rows = drawn_rows(
        job.rows, columns, key=key, rate=rate, rounds=entry.times // steps, steps=steps, capacity=capacity
    )
    return dataclasses.replace(job, rows=rows)


def _trainings(
    job: Job[State],
    entry: PlannedMechanism,
    networks: Sequence[Sizes],
    *,
    key: Key,
    rate: float,
    noise: LatticeNoise,
) -> list[Training[State]]:
    """The parts of a job that was charged; of their clipping norms a part is usable."""
    rounding = noise.rounding(sum(network.size for network in networks)) / job.clip_norm
    terms = max(network.terms for network in networks)
    usable = usable_part(terms, job.rows.max_rows_per_unit, rounding=rounding)
    return [
        Training(
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


def _network(part: Part[Any], places: int) -> Sizes:
    """The network of a part, for batches of so many places.

    Raises:
        SideEffects: It does something other than array operations.
        TypeError: The weights of a density are something other than plain arrays.
    """
    if isinstance(part.loop, DensityLoop):
        plain_weights(part.loop.weights(part.state), part.loop.shape)
        return part.loop.shape
    from understudy.privacy.factors import traced_factors  # loads JAX

    keep_compiled()
    return traced_factors(part.loop, part.state, len(part.columns), places)


def _run(trainings: Sequence[Training[State]], capacity: int, public: bool, count: Count) -> list[State]:
    """The last states: of densities by NumPy, of other networks by compiled programs."""
    if isinstance(trainings[0].part.loop, DensityLoop):
        return train_densities(trainings, capacity, count)
    from understudy.privacy.compiled_training import train_compiled  # loads JAX

    with kept_on_disk(public):
        return train_compiled(trainings, capacity, count)
