"""Small densities, their rows and trainings, and sums by brute force: for the tests of trainings of densities."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.core.randomness import Key
from understudy.privacy.densities import DensityLoop, Floats, Shape, Weights, derivatives, fixed_of, slopes_of
from understudy.privacy.gradients import Job, Part, train
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import PrivateRows, lock

KINDS: dict[str, dict[str, Any]] = {
    "numbers": {"number": True, "states": 0, "rank": 0},
    "numbers with states": {"number": True, "states": 4, "rank": 0},
    "few states": {"number": False, "states": 3, "rank": 0},
    "many states": {"number": False, "states": 20, "rank": 4},
}
COLUMNS = ["x0", "x1", "x2", "x3", "one", "own 0", "own 1", "state 0", "state 1"]
CAPACITY = 256


def shape_of(kind: str) -> Shape:
    return Shape(columns=2, inputs=3, features=4, hidden=5, components=2, **KINDS[kind])


def weights_of(shape: Shape, seed: int = 0) -> Weights:
    draw = np.random.default_rng(seed)

    def some(*sizes: int) -> np.ndarray:
        return draw.standard_normal(sizes).astype(np.float32)

    sources = np.array([[0, 2, -1], [3, -1, -1]], np.int32)
    first = some(2, 4, 5 + shape.linear)
    first[:, :-1][sources < 0] = 0.0
    return Weights(
        first=first,
        second=some(2, 6, shape.outputs),
        places=some(2, shape.states * bool(shape.rank), shape.rank),
        bias=some(2, shape.states * bool(shape.rank)),
        unit=np.array([0.7, 1.3], np.float32),
        sources=sources,
        is_state=np.ones((2, shape.states), bool),
    )


def rows_of(shape: Shape, n: int, seed: int = 1) -> np.ndarray:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, 9)).astype(np.float32)
    x[:, 4] = 1.0
    x[:, 7:] = draw.integers(0, max(shape.states, 1), (n, 2))
    return x


def one_by_one(shape: Shape, weights: Weights, x: np.ndarray) -> np.ndarray:
    """The slopes of every row by itself, by both layers: (rows, columns, numbers)."""
    fixed, found = fixed_of(weights, shape), []
    for row in x:
        with np.errstate(all="ignore"):
            first, second = slopes_of(derivatives(weights, fixed, row[None, :], shape), fixed)
        found.append(np.concatenate([first.reshape(2, -1), second.reshape(2, -1)], axis=1))
    return np.array(found, np.float64)


def clipped(each: np.ndarray, units: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Σ_u min(1, C_j / Σ_r |g_r|) Σ_r g_r, by brute force: (columns, numbers)."""
    total = np.zeros(each.shape[1:])
    for unit in np.unique(units):
        own = np.where(np.isfinite(each[units == unit]), each[units == unit], 0.0)
        lengths = np.linalg.norm(own, axis=2).sum(axis=0)
        total += (np.minimum(1.0, norms / np.maximum(lengths, 1e-30)) * own.sum(axis=0).T).T
    return total


def flat(sums: Sequence[Floats]) -> np.ndarray:
    """Both layers side by side: (columns, numbers)."""
    return np.concatenate([np.asarray(each, np.float64).reshape(2, -1) for each in sums], axis=1)


class Kept:
    """A state that keeps the noisy sums and stays as it is."""

    def __init__(self, weights: Weights):
        self.weights, self.seen = weights, list[np.ndarray]()


def weights_in(state: Kept) -> Weights:
    return state.weights


def keep(state: Kept, slopes: Sequence[Floats]) -> Kept:
    state.seen.append(flat(slopes))
    return state


def locked_rows(x: np.ndarray) -> PrivateRows:
    return lock({name: x[:, i].astype(np.float64) for i, name in enumerate(COLUMNS)}, {}, key=Key.new(0))


def ledger_of(steps: int) -> Ledger:
    """Pays for so many steps of "gradients", each on a quarter of the rows."""
    planned = PlannedMechanism(
        name="gradients", mechanism="sampled gaussian", share=1.0, times=steps, sampling_rate=0.25
    )
    return Ledger(Budget(epsilon=1.0, delta=1e-5), [planned])


def loop_of(shape: Shape, **settings: Any) -> DensityLoop:
    return DensityLoop(shape=shape, steps_per_round=2, weights=weights_in, update=keep, **settings)


def part_of(shape: Shape, weights: Weights, clip_norm: Any, **settings: Any) -> Part[Kept]:
    loop = loop_of(shape, **settings)
    return Part(loop=loop, state=Kept(weights), columns=COLUMNS, clip_norm=clip_norm)


def train_parts(rows: PrivateRows, ledger: Ledger, parts: Sequence[Part[Any]]) -> list[np.ndarray]:
    """The noisy sums of every part: (steps, columns, numbers)."""
    job = Job(rows=rows, ledger=ledger, key=Key.new(7), parts=parts, capacity=CAPACITY)
    [states] = train([job], planned="gradients", what="test")
    return [np.array(state.seen) for state in states]
