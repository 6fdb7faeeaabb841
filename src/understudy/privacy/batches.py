"""Poisson batches: rows in arrays of public lengths, who is drawn into each batch, and the noise on each sum.

The one rule: no array is as long as the table. All have the length of a public capacity, since compiled programs are
kept on disk and a program tells the sizes of its arrays. A table that does not fit is used all the same, and then
nothing is kept.

Batches and noise are drawn in whole numbers from a cipher's stream (`Key.words`), without floating point
(alias_table.py, lattice_noise.py).
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

# Exact rows are read here, as in every mechanism of this folder.
# pyright: reportPrivateUsage=false

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.alias_table import gap_tables
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.rows import PrivateRows
from understudy.privacy.sums import exact_row_count

if TYPE_CHECKING:  # densities are trained without it
    import jax

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
        exact_places: How many places for units there would be for the whole table; as many as `units` has, unless these
            are the rows that a training draws.
        numbers: Of the units that these are, if they are not all; ascending.
    """

    exact: NDArray[np.float32]
    units: NDArray[np.int32]
    exact_count: int
    exact_places: int
    numbers: NDArray[np.int64] | None = None


def pad_rows(rows: PrivateRows, columns: Sequence[str], capacity: int) -> PaddedRows:
    """Some columns of locked rows as numbers in float32; a value that is not finite becomes zero.

    Privacy:
        Releases nothing; what it returns is exact and stays in this folder. Call it after the charge.
    """
    count, drawn = exact_row_count(rows), rows._drawn
    places = max(capacity if drawn is None else min(capacity, drawn.most), count)
    padded = np.zeros((places + 1, len(columns)), np.float32)
    end = 0
    for part in rows._parts:
        exact = as_numbers(part.exact(columns), columns)
        padded[end : end + len(exact)] = exact
        end += len(exact)
    whose = rows._exact_units
    units = _members(whose, count, places, rows.max_rows_per_unit)
    if whose is not None:
        count = int(whose.max(initial=-1)) + 1
    if drawn is None:
        return PaddedRows(exact=padded, units=units, exact_count=count, exact_places=places)
    total = max(capacity, drawn.rows)
    return PaddedRows(exact=padded, units=units, exact_count=drawn.units, exact_places=total, numbers=drawn.numbers)


def as_numbers(exact: Mapping[str, NDArray[Any]], columns: Sequence[str]) -> NDArray[np.float32]:
    """Some columns side by side, (rows, columns), in float32; a value that is not finite becomes zero."""
    stacked = np.stack([exact[name] for name in columns], axis=1)
    return np.clip(np.nan_to_num(stacked, posinf=0.0, neginf=0.0), -1e18, 1e18).astype(np.float32)


def fits(rows: PrivateRows, capacity: int) -> bool:
    """Whether the capacity is enough for the rows; not public."""
    return (exact_row_count(rows) if rows._drawn is None else rows._drawn.rows) <= capacity


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

    units: NDArray[np.int32]  # (rounds, steps, places)
    drawn: NDArray[np.bool_]  # (rounds, steps, places): which places hold a unit
    noise: NDArray[np.int32]  # (rounds, steps, numbers in a sum), in steps of the grid
    grid: NDArray[np.float32]  # (rounds,): the step of the grid
    key: "jax.Array"  # (rounds,): for what the loop itself draws


def draw_rounds(
    key: Key,
    numbers: NDArray[np.int64],
    rate: float,
    noise: LatticeNoise,
    units: int,
    *,
    part: int = 0,
    steps: int,
    most: int,
    size: int,
    among: NDArray[np.int64] | None = None,
) -> Draws:
    """The draws of the rounds of these numbers, made in whole numbers.

    Args:
        among: The numbers of the units that are there, ascending, if not all are: those that these batches draw.
        part: Parts of a training have the same batches, and each has noise of its own.
        steps: Steps of a round.
        most: Places in a batch.
        size: Numbers in a sum of gradients.
    """
    import jax

    made = [
        draw_round(key, number, rate, noise, units, part=part, steps=steps, most=most, size=size, among=among)
        for number in numbers.tolist()
    ]
    found, drawn, drawn_noise = (np.stack(each) for each in zip(*made, strict=True))
    words = [key.child(f"round {number}").child(f"part {part}").child("loop").words(1) for number in numbers.tolist()]
    keys = jax.device_put(np.stack([word.view(np.uint32) for word in words]))
    keys = jax.random.wrap_key_data(keys, impl="threefry2x32")
    return Draws(found, drawn, drawn_noise, np.full(len(numbers), noise.step, np.float32), keys)


def draw_round(
    key: Key,
    number: int,
    rate: float,
    noise: LatticeNoise,
    units: int,
    *,
    part: int,
    steps: int,
    most: int,
    size: int,
    among: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.int32]]:
    """The draws of one round, as of `draw_rounds`: units, which places hold one, and noise."""
    of_round = key.child(f"round {number}")
    batches = poisson_batches(of_round.child("batches"), rate, units, steps, most)
    batches = batches if among is None else found_among(*batches, among)
    found, drawn = shuffled(*batches, of_round.child("places"))
    drawn_noise = noise.draw(steps * size, of_round.child(f"part {part}").child("noise"))
    return found, drawn, drawn_noise.reshape(steps, size)


def found_among(
    places: NDArray[np.int32], drawn: NDArray[np.bool_], among: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Batches of units by their place among some; one that is not among them, by an overflow, is not drawn."""
    at = np.minimum(np.searchsorted(among, places), max(len(among) - 1, 0))
    found = drawn & (among[at] == places) if len(among) else np.zeros_like(drawn)
    return np.where(found, at, 0).astype(np.int32), found


def poisson_batches(
    key: Key, rate: float, units: int, steps: int, most: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Each of so many units with probability `rate`, independently and for each step: places, and which hold one.

    The gaps between the units drawn are geometric, P(gap = k) = q (1 - q)^k, so the time grows with the batch and not
    with the table. They are drawn from tables, exactly but for 2^-142 of each. More places leave the units in the first
    ones as they are, so that parts of a training that have different numbers of places have the same batches.
    """
    words = np.ascontiguousarray(key.words(steps * most).view(np.uint32).reshape(-1, 2).T)
    low, high, length = gap_tables(rate)
    gaps = high.draw(words[1], key, "more of the quotient").astype(np.int64) * length
    gaps += low.draw(words[0], key, "more of the remainder")
    places = np.cumsum(np.minimum(gaps, units).reshape(most, steps).T + 1, axis=1) - 1
    drawn = places < units
    return np.where(drawn, places, 0).astype(np.int32), drawn


def shuffled(
    places: NDArray[np.int32], drawn: NDArray[np.bool_], key: Key
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The units of each batch in a random order over all its places, empty ones included.

    Privacy:
        Releases nothing. Where a unit stands in a batch then says nothing about who else is in it: the same batch with
        one unit more has an empty place filled. So all others are computed in the same places, by the same
        instructions, and what a network makes of them is the same to the last bit.
    """
    words = key.words(places.size).reshape(places.shape)
    order = np.argsort(words, axis=1)
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(drawn, order, axis=1)
