"""The hatch for gradients: stochastic gradient descent under differential privacy.

The one rule: rows meet a network in here and nowhere else, and what leaves is a clipped sum with noise on it. The hatch
runs the whole loop itself. The sampling rate, the number of steps and the noise are read off the ledger's
planned mechanism, and paid before the first row is; so sampler, clipping and account cannot disagree, and nobody can take one step too many.

A step draws every unit with probability q, independently (Poisson sampling), and releases

    Σ_u clip(g_u) + N(0, σ²),   g_u = Σ over the rows of unit u of their gradients,

where σ is the ledger's noise multiplier times the clipping norm C. A fresh batch is drawn for every release.

The gradient of one row with respect to a dense layer is an outer product a ⊗ δ of the layer's input and of the
derivative with respect to its output. A network hands over these two factors for each layer and row, never gradients;
norms, clipping and the sum are made of the same factors here, and no row has a say in what a network makes of another
(`apart`). So the bound on what one unit can change holds whatever a network hands over, right or wrong.

Compiled programs are kept on disk, and a program tells the sizes of its arrays. So no array here is as long as the
table: all have the length of a public capacity. A table that does not fit is trained on all the same, and nothing is
kept.

What is promised of floating point: batches and noise are drawn in float64 from JAX's counter-based generator, whose
normals end beyond 8 deviations; sums are float32, and clipping leaves a margin that covers their rounding. Unlike
counts, which get exact discrete noise, noise on gradients is not safe from someone who studies the last bits of many
releases (Mironov 2012); only parameters that went through many more operations are ever shown. docs/privacy.md says
more.

Sources: Abadi et al. (2016), arXiv:1607.00133, for the method; Goodfellow (2015), arXiv:1510.01799, for norms from
factors; Mironov (2012), "On significance of the least significant bits for differential privacy".
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from understudy.core.files import cache_folder
from understudy.core.randomness import Key
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.row_independence import apart
from understudy.privacy.rows import PrivateRows

Array = jax.Array
MARGIN = 1e-5  # of the clipping norm, for rounding in float32; and for each unit of a batch
MARGIN_PER_UNIT = 2.0**-22  # as much more: a sum of m terms of norm C has errors of about m C 2^-24
LEAST_MARGIN = 0.5
NOTHING = 1e-18  # a factor below it counts as zero: its square would be, and the product would not
CLIP_NORMS = (1e-6, 1e6)  # beyond them float32 loses the noise, or the sums
OVERFLOW = 1e-20  # the chance that a batch does not fit into its place; then its last units are left out
ROUNDS = 16  # in one call of the compiled loop; between two calls the progress is told
MOST_DRAWN = 2**25  # numbers drawn for one call
FEW_OCTAVES = 12  # up to so many, room for more rows costs next to nothing


class Layer(NamedTuple):
    """A dense layer's part in the gradient of every row, a ⊗ δ; rows are the last axis of both.

    Attributes:
        inputs: a, (in, rows); of many layers side by side (..., in, rows).
        deltas: δ, the derivatives by the outputs, (out, rows) or (..., out, rows).
        seen: Of layers side by side that share their inputs, (in, rows), which of them each one sees: (..., in).
    """

    inputs: Array
    deltas: Array
    seen: np.ndarray | None = None


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

    def factors(self, state: Any, rows: Array) -> Sequence[Layer]:
        """The factors of every row's gradient; rows are the last axis, (columns, rows)."""
        ...

    def update(self, state: Any, gradient: Sequence[Array], prepared: Any) -> Any:
        """The state after a step, given the noisy sum of gradients of each layer, (in, out) or (..., in, out)."""
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
        capacity: Rows that arrays are made for; public, and best above the number of rows.
        rate: The sampling rate to draw with, where it is below the one that is paid for. That is at least as private:
            (1 - r) N(0, σ²) + r N(1, σ²) is a mixture of N(0, σ²) and of the same with q >= r in the place of r, and
            mixing both of two distributions with a third brings them no farther apart.
    """

    rows: PrivateRows
    ledger: Ledger
    key: Key
    state: Any
    clip_norm: float
    capacity: int
    rate: float = 1.0


def capacity_for(rows: float) -> int:
    """Room for a number of rows that is public or was bought, and for as many more as it may be wrong by.

    In steps of an eighth of an octave, and of octaves where there are few, so that tables of about the same size share
    their compiled programs.
    """
    octaves = math.log2(1.1 * max(rows, 1.0) + 500)
    return math.ceil(2 ** (math.ceil(8 * octaves) / 8 if octaves > FEW_OCTAVES else math.ceil(octaves)))


@functools.cache
def keep_compiled() -> None:
    """Keeps compiled programs in the cache folder, unless JAX was told where: the next process starts faster."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


def train(
    loop: Loop,
    jobs: Sequence[Job],
    columns: Sequence[str],
    *,
    planned: str,
    what: str,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Runs a loop on the rows of each job, all at once, and returns their last states.

    Args:
        columns: The columns of the rows that the network sees, as numbers, in this order.
        planned: The "sampled gaussian" of every job's plan. Its `times` is the number of steps.
        what: What is trained, for the receipts.
        progress: Told the steps done and the steps in all; both are public.

    Privacy:
        A unit that is drawn adds to the sum of a step a vector of norm at most C, in all layers and over all its rows
        together; one that is not adds nothing. So adding or removing one unit changes the sum by at most C: L2
        sensitivity C, under Poisson sampling with the planned's rate. With several rows to a unit the norm of g_u is
        bounded by the sum of its rows' norms, and it is that sum which is clipped. All steps are paid at once, before
        a row is read.

    Raises:
        BudgetExceeded: A ledger cannot pay. Nothing has been read.
    """
    keep_compiled()
    steps_per_round = loop.steps_per_round
    entries = [_checked(job, planned, steps_per_round) for job in jobs]
    capacity = max(job.capacity for job in jobs)
    rates = [min(entry.sampling_rate or 1.0, job.rate) for job, entry in zip(jobs, entries, strict=True)]
    margin = _margin(capacity, max(rates))
    size = _noise_size(loop, jobs[0].state, len(columns))
    sigmas = [
        job.ledger.charge(
            planned, what=what, sensitivity=job.clip_norm, times=entry.times, mechanism="sampled gaussian"
        )
        for job, entry in zip(jobs, entries, strict=True)
    ]
    boxes = [_open(job.rows, columns, capacity) for job in jobs]
    most = max(largest_batch(len(box.units), rate) for box, rate in zip(boxes, rates, strict=True))  # not public
    many = len(jobs) > 1
    stack = _stacked if many else _only
    state = jax.device_put(stack([job.state for job in jobs]))
    rows = jax.device_put(stack([(box.rows, box.units) for box in boxes]))
    clips = stack([np.float32(job.clip_norm * margin) for job in jobs])
    rounds = _rounds_at_once(steps_per_round * (size + most * rows[1].shape[-1]) * len(jobs))
    key = _stacked_keys([_key(job, planned) for job in jobs]) if many else _key(jobs[0], planned)
    rate, sigma = stack([np.float64(rate) for rate in rates]), stack([np.float64(sigma) for sigma in sigmas])
    units = stack([np.int64(box.count) for box in boxes])
    ends = [entry.times // steps_per_round for entry in entries]
    with _kept_on_disk(all(box.fits for box in boxes)):
        for first in range(0, max(ends), rounds):
            numbers = np.arange(first, first + rounds)
            drawn = draw_rounds(key, numbers, rate, sigma, units, steps=steps_per_round, most=most, size=size)
            active = stack([numbers < end for end in ends])
            state = (_run_many if many else _run)(loop, state, rows, clips, active, drawn)
            jax.block_until_ready(state)
            if progress is not None:
                progress(min(first + rounds, max(ends)) * steps_per_round, max(ends) * steps_per_round)
    state = jax.device_get(state)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], state) for i in range(len(jobs))] if many else [state]


def _checked(job: Job, planned: str, steps_per_round: int) -> PlannedMechanism:
    """The planned steps of a job, if they make sense."""
    if not (CLIP_NORMS[0] <= job.clip_norm <= CLIP_NORMS[1]):
        raise ValueError(f"clip_norm: expected a number from 1e-6 to 1e6, got {job.clip_norm!r}.")
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


def _margin(capacity: int, rate: float) -> float:
    """The part of the clipping norm that a unit may fill, so that sums in float32 stay within all of it.

    It follows from the capacity, which is public, with room for twice as many rows, and never from their number: that
    would let one unit rescale what all others add.
    """
    margin = 1 - MARGIN - MARGIN_PER_UNIT * largest_batch(2 * capacity, rate)
    if margin < LEAST_MARGIN:
        raise ValueError(
            f"batches of about {rate * capacity:.3g} units: expected at most 1 000 000, which float32 can add up. "
            "Take a smaller batch size."
        )
    return margin


def _key(job: Job, planned: str) -> Array:
    """Where chance comes from: drawn anew unless a seed was given, so that no two trainings share their noise."""
    return (Key.new() if job.key.secret else job.key.child("steps").child(planned)).jax()


@contextlib.contextmanager
def _kept_on_disk(public: bool) -> Iterator[None]:
    """Keeps what is compiled in the cache folder, unless it was made for sizes that are not public."""
    if public:
        yield
        return
    shortest = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, shortest)
    jax.config.update(shortest, 1e9)  # nothing takes that long to compile, so nothing is written
    try:
        yield
    finally:
        jax.config.update(shortest, before)


def _rounds_at_once(numbers: int) -> int:
    """How many rounds' draws are made at a time: few compiled programs, and not too much memory."""
    rounds = ROUNDS
    while rounds > 1 and rounds * numbers > MOST_DRAWN:
        rounds //= 2
    return rounds


def _only(trees: list[Any]) -> Any:
    return trees[0]


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _stacked_keys(keys: list[Array]) -> Array:
    return jax.random.wrap_key_data(jax.device_put(np.stack([jax.random.key_data(key) for key in keys])))


# The box, opened ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Box:
    """Rows as the loop reads them, in arrays of public lengths.

    Attributes:
        rows: (capacity + 1, columns); zeros after the rows.
        units: (capacity, rows of a unit): places in `rows`, the last one where there is no row.
        count: How many units there are.
        fits: Whether the capacity was enough.
    """

    rows: np.ndarray
    units: np.ndarray
    count: int
    fits: bool


def _open(rows: PrivateRows, columns: Sequence[str], capacity: int) -> _Box:
    exact = np.stack([rows._exact[name] for name in columns], axis=1)
    exact = np.clip(np.nan_to_num(exact, posinf=0.0, neginf=0.0), -1e18, 1e18).astype(np.float32)
    fits = len(exact) <= capacity
    places = capacity if fits else len(exact)
    padded = np.zeros((places + 1, exact.shape[1]), np.float32)
    padded[: len(exact)] = exact
    units = _members(rows._exact_units, len(exact), places, rows.max_rows_per_unit)
    count = len(exact) if rows._exact_units is None else len(np.unique(rows._exact_units))
    return _Box(rows=padded, units=units, count=count, fits=fits)


def _members(whose: np.ndarray | None, count: int, places: int, most: int) -> np.ndarray:
    """The rows of each unit, (places, most rows of a unit), filled up with `places`, where there is no row."""
    if whose is None:
        return np.where(np.arange(places) < count, np.arange(places), places).astype(np.int32)[:, None]
    units = np.full((places, most), places, dtype=np.int32)
    order = np.argsort(whose, kind="stable")
    sizes = np.bincount(whose) if count else np.zeros(0, int)
    place = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    units[whose[order], place] = order
    return units


def largest_batch(units: int, rate: float) -> int:
    """A size that a binomial number of units passes with probability at most `OVERFLOW`, by Bernstein's bound.

    P(X >= m + t) <= exp(-t² / (2 (v + t / 3))) with mean m = nq and variance v = nq(1 - q).
    """
    mean, variance, exponent = units * rate, units * rate * (1 - rate), -math.log(OVERFLOW)
    room = exponent / 3 + math.sqrt((exponent / 3) ** 2 + 2 * exponent * variance)
    return max(1, min(units, math.ceil(mean + room)))


# The loop -----------------------------------------------------------------------------------------------------------


class Draws(NamedTuple):
    """What chance decides of some rounds: who is drawn into each batch, and the noise on each sum."""

    units: Array  # (rounds, steps, places)
    drawn: Array  # (rounds, steps, places): which places hold a unit
    noise: Array  # (rounds, steps, numbers in a sum), with the deviation that was paid for
    key: Array  # (rounds,): for what the loop itself draws


def draw_rounds(
    key: Array, numbers: np.ndarray, rate: Any, sigma: Any, units: Any, *, steps: int, most: int, size: int
) -> Draws:
    """The draws of the rounds of these numbers, in float64 where it matters; for one training, or for as many as keys.

    A training's draws are the same by itself and among others.
    """
    with jax.enable_x64(True):
        return _compiled_draw(key.ndim > 0)(key, numbers, rate, sigma, units, steps, most, size)


@functools.cache
def _compiled_draw(many: bool) -> Callable[..., Draws]:
    """The program that draws. On a CPU it is compiled in a third of the time if LLVM does not try hard, and as fast."""
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    draw = jax.vmap(_draw, in_axes=(0, None, 0, 0, 0, None, None, None)) if many else _draw
    return jax.jit(draw, static_argnums=(5, 6, 7), compiler_options=options)


def _draw(
    key: Array, numbers: Array, rate: Array, sigma: Array, units: Array, steps: int, most: int, size: int
) -> Draws:
    def one(number):
        for_loop, for_batches, for_noise = jax.random.split(jax.random.fold_in(key, number), 3)
        batch = functools.partial(poisson_batch, rate=rate, units=units, most=most)
        places, drawn = jax.vmap(batch)(jax.random.split(for_batches, steps))
        noise = sigma * jax.random.normal(for_noise, (steps, size), dtype=jnp.float64)
        return Draws(places, drawn, noise.astype(jnp.float32), for_loop)

    return jax.vmap(one)(numbers)


def _rounds(loop: Loop, state: Any, rows: tuple[Array, Array], clip_norm: Array, active: Array, draws: Draws) -> Any:
    """Some rounds; those that are not active leave the state as it is."""

    def body(state, inputs):
        active, draws = inputs
        return jax.lax.cond(active, lambda: _round(loop, state, rows, clip_norm, draws), lambda: state), None

    return jax.lax.scan(body, state, (active, draws))[0]


_run = jax.jit(_rounds, static_argnums=0, donate_argnums=1)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _run_many(loop: Loop, state: Any, rows: Any, clip_norm: Array, active: Array, draws: Draws) -> Any:
    return jax.vmap(functools.partial(_rounds, loop))(state, rows, clip_norm, active, draws)


def _round(loop: Loop, state: Any, rows: tuple[Array, Array], clip_norm: Array, draws: Draws) -> Any:
    exact, units = rows
    for_steps, for_end = jax.random.split(draws.key)
    members = units[draws.units]  # (steps, units, rows of a unit)
    inside = draws.drawn[:, :, None] & (members < len(exact) - 1)

    def step(state, inputs):
        members, inside, noise, prepared = inputs
        exact_sums = clipped_sums(_factors(loop, state, exact[members.ravel()].T), inside, clip_norm)
        ends = np.cumsum([layer.size for layer in exact_sums])[:-1].tolist()
        parts = zip(exact_sums, jnp.split(noise, ends), strict=True)
        noisy = [layer + part.reshape(layer.shape) for layer, part in parts]
        return loop.update(state, noisy, prepared), None

    prepared = loop.prepare(state, for_steps)
    state, _ = jax.lax.scan(step, state, (members, inside, draws.noise, prepared))
    return loop.finish(state, for_end)


def _factors(loop: Loop, state: Any, rows: Array) -> list[Layer]:
    """The factors of every row, each made of that row alone: nothing passes from one to another, or out of here."""
    seen: list[np.ndarray | None] = []

    def pairs(state, rows):
        layers = loop.factors(state, rows)
        seen[:] = [layer.seen for layer in layers]
        return [factor for layer in layers for factor in (layer.inputs, layer.deltas)]

    made = apart(pairs, state, rows)
    return [Layer(a, delta, mask) for a, delta, mask in zip(made[::2], made[1::2], seen, strict=True)]


def _noise_size(loop: Loop, state: Any, width: int) -> int:
    """How many numbers a sum of gradients has."""
    rows, inside = jax.ShapeDtypeStruct((width, 2), jnp.float32), jnp.ones((2, 1), bool)
    sums = jax.eval_shape(lambda state, rows: clipped_sums(_factors(loop, state, rows), inside, 1.0), state, rows)
    return sum(layer.size for layer in sums)


def poisson_batch(key: Array, rate: Array, units: Array | int, most: int) -> tuple[Array, Array]:
    """Each of so many units with probability `rate`, independently: their places, and which places hold one.

    The gaps between the units drawn are geometric, P(gap = k) = q (1 - q)^k, so that it takes as long as the batch is
    large and not as the table is.
    """
    uniform = jax.random.uniform(key, (most,), dtype=jnp.float64)
    gaps = jnp.minimum(jnp.floor(jnp.log(uniform) / jnp.log1p(-rate)), units)
    places = jnp.cumsum(gaps + 1) - 1
    drawn = places < units
    return jnp.where(drawn, places, 0).astype(jnp.int32), drawn


def clipped_sums(layers: Sequence[Layer], inside: Array, clip_norm: Array | float) -> list[Array]:
    """Σ_u c_u Σ_r a_r ⊗ δ_r for every layer, with c_u = min(1, C / Σ_r |g_r|) and |g_r|² = Σ_l |a_rl|² |δ_rl|².

    A row whose gradient is not finite counts as zero: an error would be a release. For layers side by side, a ⊗ δ is
    one outer product for each, and |a|² |δ|² the sum over them of theirs.

    Args:
        inside: (units, rows of a unit): which places hold a row.

    Returns:
        For each layer (..., in, out).
    """
    layers = [_checked_layer(layer) for layer in layers]
    squares = sum(_squares(layer) for layer in layers)
    finite = jnp.isfinite(squares) & inside.ravel()
    norms = jnp.sqrt(jnp.where(finite, squares, 0.0)).reshape(inside.shape)
    of_unit = jnp.sum(norms, axis=1, keepdims=True)
    scale = jnp.minimum(1.0, clip_norm / jnp.maximum(of_unit, 1e-30))
    weights = (jnp.broadcast_to(scale, inside.shape).ravel() * finite).astype(jnp.float32)
    sums = []
    for layer in layers:
        a, delta = (jnp.where(finite, factor, 0.0) for factor in layer[:2])
        a, delta = (a * weights, delta) if a.size < delta.size else (a, delta * weights)
        sums.append(_outer_sum(a, delta, layer.seen))
    return sums


def _checked_layer(layer: Layer) -> Layer:
    """A layer whose factors fit together, in float32, with entries that are zero or have squares that do not vanish."""
    a, delta, seen = layer
    axes = a.shape[:-2] if seen is None else np.shape(seen)[:-1]
    if axes != delta.shape[:-2] or a.shape[-1] != delta.shape[-1]:
        raise ValueError(f"factors: expected equal axes but for in and out, got {a.shape} and {delta.shape}.")
    if seen is not None and (type(seen) is not np.ndarray or seen.dtype != bool or seen.shape[-1:] != a.shape[:-1]):
        raise ValueError("factors, seen: expected a NumPy array of truth values, one for each input.")
    return Layer(_counted(a), _counted(delta), seen)


def _squares(layer: Layer) -> Array:
    """|a|² |δ|² of every row, summed over layers that are side by side."""
    a, delta, seen = layer
    if seen is None:
        of_inputs = jnp.sum(a**2, axis=-2)
    else:
        of_inputs = jnp.matmul(seen.astype(np.float32), a**2, precision=jax.lax.Precision.HIGHEST)
    products = of_inputs * jnp.sum(delta**2, axis=-2)
    return jnp.sum(products, axis=tuple(range(products.ndim - 1)))


def _outer_sum(a: Array, delta: Array, seen: np.ndarray | None) -> Array:
    """Σ_r a_r ⊗ δ_r, (..., in, out)."""
    if seen is None:
        return jnp.matmul(a, jnp.swapaxes(delta, -1, -2), precision=jax.lax.Precision.HIGHEST)
    every = jnp.einsum("...or,ir->...io", delta, a, precision=jax.lax.Precision.HIGHEST)
    return jnp.where(seen[..., None], every, 0.0)


def _counted(factor: Array) -> Array:
    """A factor in float32 whose entries are zero or large enough for their squares not to vanish."""
    factor = jnp.asarray(factor, jnp.float32)
    return jnp.where(jnp.abs(factor) < NOTHING, 0.0, factor)
