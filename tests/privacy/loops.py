"""A small loop, its table and its jobs, for the tests of training."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from understudy.core.randomness import Key
from understudy.privacy import batches, compiled_training
from understudy.privacy.clipping import Layer
from understudy.privacy.factors import traced_factors
from understudy.privacy.gradients import Job, Part, train
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import PrivateRows

COLUMNS = ["a", "b", "y"]
CAPACITY = 64


@dataclasses.dataclass(frozen=True)
class Regression:
    """Least squares of the last column on the others: one dense layer with a bias. Keeps the sums it was given."""

    steps_per_round: int = 1
    rate: float = 0.0

    def prepare(self, state, key):
        return jnp.zeros(self.steps_per_round)

    def factors(self, state, rows):
        a = jnp.concatenate([rows[:-1], jnp.ones((1, rows.shape[1]), jnp.float32)])
        return [Layer(a, state["w"].T @ a - rows[-1:])]

    def update(self, state, gradient, prepared):
        kept = jnp.roll(state["kept"], 1, axis=0).at[0].set(gradient[0])
        return {"w": state["w"] - self.rate * gradient[0], "kept": kept}

    def finish(self, state, key):
        return state


def table(n=50, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, 3))
    return {"a": x[:, 0], "b": x[:, 1], "y": x @ [1.0, -2.0, 0.5] + 3}


def start(steps=1, value=0.0):
    """A state that keeps the sums of its last steps; of few lengths, so that few programs are compiled."""
    steps = next(length for length in (8, 40, 400) if steps <= length)
    return {"w": np.full((3, 1), value, np.float32), "kept": np.zeros((steps, 3, 1), np.float32)}


def ledger(steps=1, rate=1.0, noise=None, epsilon=1.0):
    planned = PlannedMechanism(
        name="steps", mechanism="sampled gaussian", share=1.0, times=steps, sampling_rate=rate, noise_multiplier=noise
    )
    return Ledger(Budget(epsilon=epsilon, delta=1e-5), [planned])


def part(loop=None, *, steps=1, clip: float | np.ndarray = 1.0, columns=COLUMNS, state=None):
    return Part(loop=loop or Regression(), state=state or start(steps), columns=columns, clip_norm=clip)


def job(
    columns,
    *,
    steps=1,
    rate=1.0,
    noise=None,
    clip=1.0,
    seed=0,
    epsilon=1.0,
    rows=None,
    capacity=CAPACITY,
    loop=None,
    parts=None,
):
    """A job of one regression, unless its parts are given."""
    return Job(
        rows=rows or PrivateRows(columns, {}, 1),
        ledger=ledger(steps, rate, noise, epsilon),
        key=Key.new(seed),
        parts=parts or [part(loop, steps=steps, clip=clip)],
        capacity=capacity,
    )


def run_parts(jobs, **options):
    """The last states of all parts of each job."""
    return train(jobs, planned="steps", what="a regression", **options)


def run(jobs, **options):
    """The last state of each job, which has one part."""
    return [state for [state] in run_parts(jobs, **options)]


def exact_run(columns, *, clip, loop=None, state=None):
    """One step of the mechanism's own loop on everybody and without noise, which no ledger would allow; of one part."""
    loop, state = loop or Regression(), state or start()
    rows = batches.pad_rows(PrivateRows(columns, {}, 1), COLUMNS, CAPACITY)
    network = traced_factors(loop, state, len(COLUMNS), CAPACITY)
    noise = LatticeNoise(step=2.0**-16, base=10.0, factor=1, tables=1)
    draws = batches.draw_rounds(
        Key.new(0), np.arange(1), 1.0, noise, rows.exact_count, steps=1, most=len(rows.units), size=network.size
    )
    draws = draws._replace(noise=np.zeros_like(draws.noise))
    exact = (rows.exact, rows.units)
    return compiled_training.run_rounds(
        loop, network, state, exact, jnp.asarray(clip, jnp.float32), jnp.ones(1, bool), draws
    )
