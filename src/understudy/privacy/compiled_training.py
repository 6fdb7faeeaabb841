"""Trainings of networks, as compiled programs: many side by side on an accelerator, one on each core of a processor.

The one rule: what is run was traced on shapes, before anything was charged (factors.py). gradients.py has the promise.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import concurrent.futures
import functools
import math
import operator
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import cores
from understudy.privacy.batches import Draws, PaddedRows, draw_rounds, largest_batch, pad_rows
from understudy.privacy.clipping import clipped_sums
from understudy.privacy.factors import FactorProgram, Loop
from understudy.privacy.lattice_noise import add_noise
from understudy.privacy.training import Count, Training

Array = jax.Array
State = TypeVar("State")
Tree = TypeVar("Tree")

# The compiled loop runs this many rounds in one call; between two calls progress is reported.
ROUNDS = 16
# At most this many random numbers are drawn for one call, to bound memory.
MOST_DRAWN = 2**25
# On an accelerator this many trainings of one program are run side by side.
MOST_TOGETHER = 96


def train_compiled(trainings: Sequence[Training[State]], capacity: int, count: Count) -> list[State]:
    """The last state of each training: many side by side on an accelerator, one on each core of a processor."""
    on_processor = jax.default_backend() == "cpu"
    groups: dict[Hashable, list[int]] = {}
    for i, training in enumerate(trainings):
        groups.setdefault(_program(training), []).append(i)
    side_by_side = 1 if on_processor else MOST_TOGETHER
    batches = [g[i : i + side_by_side] for g in groups.values() for i in range(0, len(g), side_by_side)]
    done: dict[int, State] = {}

    def run(batch: list[int]) -> None:
        states = _train_together([trainings[i] for i in batch], capacity, count)
        done.update(zip(batch, states, strict=True))

    with concurrent.futures.ThreadPoolExecutor(cores() if on_processor else 1) as pool:
        for finished in [pool.submit(run, batch) for batch in batches]:
            finished.result()
    return [done[i] for i in range(len(trainings))]


def _program(training: Training[Any]) -> Hashable:
    """What trainings must have in common to be run by one program, side by side."""
    shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(training.part.state))
    return training.part.loop, shapes, len(training.part.columns), training.job.rows.max_rows_per_unit


def _train_together(trainings: Sequence[Training[State]], capacity: int, count: Count) -> list[State]:
    """The last state of each training of one program; each makes its own number of rounds."""
    many, loop = len(trainings) > 1, cast("Loop[State, Any]", trainings[0].part.loop)
    network = cast(FactorProgram, trainings[0].network)
    steps, stack = loop.steps_per_round, _stacked if many else _only
    padded = [pad_rows(each.job.rows, each.part.columns, capacity) for each in trainings]
    most = max(
        largest_batch(p.exact_places, each.rate) for p, each in zip(padded, trainings, strict=True)
    )  # not public
    state = jax.device_put(stack([each.part.state for each in trainings]))
    rows = jax.device_put(stack([(p.exact, p.units) for p in padded]))
    clip_norms = stack([each.clip_norm for each in trainings])
    last = max(each.rounds for each in trainings)
    at_once = _rounds_at_once(last, steps * (network.size + most * rows[1].shape[-1]) * len(trainings))

    def draws(each: Training[State], rows: PaddedRows, numbers: NDArray[np.int64]) -> Draws:
        of_part = {"part": each.number, "steps": steps, "most": most, "size": network.size}
        exact = rows.exact_count
        return draw_rounds(each.key, numbers, each.rate, each.noise, exact, among=rows.numbers, **of_part)

    with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
        for first in range(0, last, at_once):
            numbers = np.arange(first, first + at_once)
            drawn = list(pool.map(draws, trainings, padded, [numbers] * len(trainings)))
            active = stack([numbers < each.rounds for each in trainings])
            state = (_run_many if many else run_rounds)(loop, network, state, rows, clip_norms, active, stack(drawn))
            jax.block_until_ready(state)
            count.add(at_once * steps * len(trainings))
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
