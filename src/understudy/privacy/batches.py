"""Poisson batches: rows in arrays of public lengths, who is drawn into each batch, and the noise on each sum.

The one rule: no array is as long as the table. All have the length of a public capacity, since compiled programs are
kept on disk and a program tells the sizes of its arrays. A table that does not fit is used all the same, and then
nothing is kept.

Batches and noise are drawn in float64 from JAX's counter-based generator, whose normals end beyond 8 deviations.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

# Exact rows are read here, as in every mechanism of this folder.
# pyright: reportPrivateUsage=false

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.privacy.rows import PrivateRows

Array = jax.Array
Number = float | np.float64 | NDArray[np.float64] | Array
Whole = int | np.int64 | NDArray[np.int64] | Array

# The probability that a batch does not fit into its places; then its last units are left out.
OVERFLOW = 1e-20
# Below 2 to this many rows, capacities are powers of two: spare places cost next to nothing there.
FEW_OCTAVES = 12


def capacity_for(rows: float) -> int:
    """Places for a number of rows that is public or was measured, and for as many more as it may be wrong by.

    In steps of an eighth of an octave, and of whole octaves for small tables, so that tables of about the same size
    share their compiled programs.
    """
    octaves = math.log2(1.1 * max(rows, 1.0) + 500)
    return math.ceil(2 ** (math.ceil(8 * octaves) / 8 if octaves > FEW_OCTAVES else math.ceil(octaves)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PaddedRows:
    """Exact rows as the training loop reads them, in arrays of public lengths.

    Attributes:
        exact: (capacity + 1, columns); zeros after the rows.
        units: (capacity, rows of a unit): places in `exact`, the last one where there is no row.
        exact_count: How many units there are.
        fits: Whether the capacity was enough; not public.
    """

    exact: NDArray[np.float32]
    units: NDArray[np.int32]
    exact_count: int
    fits: bool


def pad_rows(rows: PrivateRows, columns: Sequence[str], capacity: int) -> PaddedRows:
    """Some columns of locked rows as numbers in float32; a value that is not finite becomes zero.

    Privacy:
        Releases nothing; what it returns is exact and stays in this folder. Call it after the charge.
    """
    exact = np.stack([rows._exact[name] for name in columns], axis=1)
    exact = np.clip(np.nan_to_num(exact, posinf=0.0, neginf=0.0), -1e18, 1e18).astype(np.float32)
    fits = len(exact) <= capacity
    places = capacity if fits else len(exact)
    padded = np.zeros((places + 1, exact.shape[1]), np.float32)
    padded[: len(exact)] = exact
    units = _members(rows._exact_units, len(exact), places, rows.max_rows_per_unit)
    count = len(exact) if rows._exact_units is None else len(np.unique(rows._exact_units))
    return PaddedRows(exact=padded, units=units, exact_count=count, fits=fits)


def _members(whose: NDArray[np.int64] | None, count: int, places: int, most: int) -> NDArray[np.int32]:
    """The rows of each unit, (places, most rows of a unit), filled up with `places`, where there is no row."""
    if whose is None:
        return np.where(np.arange(places) < count, np.arange(places), places).astype(np.int32)[:, None]
    units = np.full((places, most), places, dtype=np.int32)
    order = np.argsort(whose, kind="stable")
    sizes = np.bincount(whose) if count else np.zeros(0, np.int64)
    place = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    units[whose[order], place] = order
    return units


def largest_batch(units: int, rate: float) -> int:
    """A size that a binomial number of units exceeds with probability at most `OVERFLOW`, by Bernstein's bound.

    P(X >= m + t) <= exp(-t² / (2 (v + t / 3))) with mean m = nq and variance v = nq(1 - q).
    """
    mean, variance, exponent = units * rate, units * rate * (1 - rate), -math.log(OVERFLOW)
    above = exponent / 3 + math.sqrt((exponent / 3) ** 2 + 2 * exponent * variance)
    return max(1, min(units, math.ceil(mean + above)))


class Draws(NamedTuple):
    """The random part of some rounds: who is drawn into each batch, and the noise on each sum."""

    units: Array  # (rounds, steps, places)
    drawn: Array  # (rounds, steps, places): which places hold a unit
    noise: Array  # (rounds, steps, numbers in a sum), with the deviation that was charged
    key: Array  # (rounds,): for what the loop itself draws


def draw_rounds(
    key: Array,
    numbers: NDArray[np.int64],
    rate: Number,
    sigma: Number,
    units: Whole,
    *,
    steps: int,
    most: int,
    size: int,
) -> Draws:
    """The draws of the rounds of these numbers, in float64 where it matters; for one training, or for as many as keys.

    A training's draws are the same by itself and among others.

    Args:
        steps: Steps of a round.
        most: Places in a batch.
        size: Numbers in a sum of gradients.
    """
    with jax.enable_x64(True):
        return _compiled_draw(key.ndim > 0)(key, numbers, rate, sigma, units, steps, most, size)


@functools.cache
def _compiled_draw(many: bool) -> Callable[..., Draws]:
    """The program that draws. On a CPU, a low optimisation level compiles it three times as fast; it runs as fast."""
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    draw = jax.vmap(_draw, in_axes=(0, None, 0, 0, 0, None, None, None)) if many else _draw
    return jax.jit(draw, static_argnums=(5, 6, 7), compiler_options=options)


def _draw(
    key: Array, numbers: Array, rate: Array, sigma: Array, units: Array, steps: int, most: int, size: int
) -> Draws:
    def one(number: Array) -> Draws:
        for_loop, for_batches, for_noise = jax.random.split(jax.random.fold_in(key, number), 3)
        batch = functools.partial(poisson_batch, rate=rate, units=units, most=most)
        places, drawn = jax.vmap(batch)(jax.random.split(for_batches, steps))
        noise = sigma * jax.random.normal(for_noise, (steps, size), dtype=jnp.float64)
        return Draws(places, drawn, noise.astype(jnp.float32), for_loop)

    return jax.vmap(one)(numbers)


def poisson_batch(key: Array, rate: Array, units: Array | int, most: int) -> tuple[Array, Array]:
    """Each of so many units with probability `rate`, independently: their places, and which places hold one.

    The gaps between the units drawn are geometric, P(gap = k) = q (1 - q)^k, so the time grows with the batch and not
    with the table.
    """
    uniform = jax.random.uniform(key, (most,), dtype=jnp.float64)
    gaps = jnp.minimum(jnp.floor(jnp.log(uniform) / jnp.log1p(-rate)), units)
    places = jnp.cumsum(gaps + 1) - 1
    drawn = places < units
    return jnp.where(drawn, places, 0).astype(jnp.int32), drawn
