"""Exact draws of whole numbers from a table, by the alias method, and the tables of two distributions.

The one rule: no floating point. Probabilities are whole multiples of 2^-192, computed in Python's integers, and a draw
follows them exactly: a word of 32 bits names a column of the table and the first 16 bits of a fraction, and the one
draw in 65 536 for which these bits do not decide gets all the others.

A column j holds two outcomes: j itself with weight T_j, and its alias with the rest of 2^192 / columns. Since all
columns weigh the same, a column is a few bits of the word, and the fraction is compared with T_j.

How far a table is from what it stands for, in total variation, at most:
    rounding    2^-192 for each of its entries, of which there are at most 2^16
    its ends    the mass that is left out: below 2^-143 for a Gaussian, which ends at 14 deviations; none for gaps,
                whose last entry stands for all larger ones
So a table errs by less than 2^-142.

Source: Walker (1977), "An efficient method for generating discrete random variables with general distributions".
"""

import dataclasses
import fractions
import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key

Whole = NDArray[np.int32]
Words = NDArray[np.uint32]

# Weights of a table add up to 2 to this power.
PRECISION = 192
# Weights are computed with this many binary digits after the point before they are rounded to whole numbers.
DIGITS = 288
# The bits of a word that are compared first, after those that name a column.
LEADING = 16
# A table has at most 2 to this many columns, so that its bits and the leading ones fit into 32.
MOST_BITS = 32 - LEADING
# A Gaussian table ends at this many deviations, beyond which the discrete Gaussian has less than 2^-143.
ENDS = 14.0
# Words are looked up this many at a time, which the fastest caches hold.
AT_ONCE = 2**14


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AliasTable:
    """A distribution of whole numbers 0, 1, ..., each with a weight of so many times 2^-192.

    Attributes:
        bits: Its columns are 2 to this power.
        packed: For each column the leading bits of T_j, and below them the alias.
        thresholds: T_j, all its bits.
    """

    bits: int
    packed: NDArray[np.uint32]
    thresholds: tuple[int, ...]

    @classmethod
    def of(cls, weights: Sequence[int]) -> "AliasTable":
        """A table of these weights, which add up to 2^192."""
        if sum(weights) != 1 << PRECISION or min(weights) < 0:
            raise ValueError("weights: expected whole numbers >= 0 that add up to 2^192.")
        bits = max(1, (len(weights) - 1).bit_length())
        if bits > MOST_BITS:
            raise ValueError(f"weights: expected at most {2**MOST_BITS}, got {len(weights)}.")
        column = 1 << (PRECISION - bits)
        left = [*weights, *[0] * (2**bits - len(weights))]
        thresholds, alias = [0] * len(left), list(range(len(left)))  # a full column is its own alias
        low, high = ([j for j, weight in enumerate(left) if (weight < column) == less] for less in (True, False))
        while low and high:
            j, k = low.pop(), high[-1]
            thresholds[j], alias[j] = left[j], k
            left[k] -= column - left[j]
            if left[k] < column:
                low.append(high.pop())
        packed = [(t >> (PRECISION - bits - LEADING)) << LEADING | a for t, a in zip(thresholds, alias, strict=True)]
        return cls(bits, np.array(packed, np.uint32), tuple(thresholds))

    def draw(self, words: Words, key: Key, label: str = "more") -> Whole:
        """One number for each random word; where it does not decide, the bits that follow are those of `key`'s child.

        Fewer words give the first of the numbers that more of them give.
        """
        found, unsure = np.empty(len(words), np.int32), list[NDArray[np.intp]]()
        for start in range(0, len(words), AT_ONCE):
            part = words[start : start + AT_ONCE]
            column = part >> np.uint32(32 - self.bits)
            leading = (part >> np.uint32(MOST_BITS - self.bits)) & np.uint32(2**LEADING - 1)
            entry = self.packed.take(column)
            first = entry >> np.uint32(LEADING)
            entry &= np.uint32(2**LEADING - 1)
            np.copyto(entry, column, where=leading < first)
            found[start : start + AT_ONCE] = entry
            unsure.append(start + np.flatnonzero(leading == first))
        places = np.concatenate(unsure) if unsure else np.zeros(0, np.intp)
        if len(places):
            found[places] = self._decided(words[places] >> np.uint32(32 - self.bits), key.child(label))
        return found

    def _decided(self, columns: Words, more: Key) -> list[int]:
        """The outcomes of draws whose leading bits are those of their threshold."""
        rest = PRECISION - self.bits - LEADING
        words = more.words(PRECISION // 64 * len(columns)).reshape(len(columns), -1)
        fractions_ = [int.from_bytes(row.tobytes(), "little") >> (PRECISION - rest) for row in words]
        return [
            j if fraction < self.thresholds[j] & ((1 << rest) - 1) else int(self.packed[j]) & (2**LEADING - 1)
            for j, fraction in zip(columns.tolist(), fractions_, strict=True)
        ]


def _table(masses: Sequence[int], *, spare: int) -> AliasTable:
    """The table of these masses, rounded down to multiples of 2^-192 of their sum; `spare` gets what is left over."""
    total = sum(masses)
    weights = [(mass << PRECISION) // total for mass in masses]
    weights[spare] += (1 << PRECISION) - sum(weights)
    return AliasTable.of(weights)


# The discrete Gaussian ------------------------------------------------------------------------------------------------


def reach(sigma: float) -> int:
    """The largest number in the table of a discrete Gaussian of this deviation."""
    return int(ENDS * sigma) + 1


@functools.lru_cache(maxsize=64)  # as many as fits that are trained together may have
def gaussian_table(sigma: float) -> AliasTable:
    """The discrete Gaussian of parameter sigma, P(x) ∝ exp(-x² / (2 sigma²)); entry i stands for i - reach(sigma)."""
    half = gaussian_masses(sigma)
    return _table([*half[:0:-1], *half], spare=len(half) - 1)


def gaussian_masses(sigma: float) -> list[int]:
    """2^288 exp(-x² / (2 sigma²)) for x = 0, ..., reach(sigma), each off by less than 2^50.

    By ρ(x + 1) = ρ(x) r^(2x + 1) with r = exp(-1 / (2 sigma²)): two products a number, each rounded down.
    """
    ratio = _exp_of_minus(1 / (2 * fractions.Fraction(sigma) ** 2))
    step, square = ratio, ratio * ratio >> DIGITS
    masses = [1 << DIGITS]
    for _ in range(reach(sigma)):
        masses.append(masses[-1] * step >> DIGITS)
        step = step * square >> DIGITS
    return masses


def _exp_of_minus(x: fractions.Fraction) -> int:
    """2^288 exp(-x), for x >= 0, off by at most 1: the series at x / 2^k < 1, squared k times."""
    halvings, digits = (x.numerator // x.denominator).bit_length(), DIGITS + 64
    small = (x.numerator << digits) // (x.denominator << halvings)
    total, term, n = 0, 1 << digits, 0
    while term:
        total += -term if n % 2 else term
        n += 1
        term = (term * small >> digits) // n
    for _ in range(halvings):
        total = total * total >> digits
    return total >> 64


# Geometric gaps -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def gap_tables(rate: float) -> tuple[AliasTable, AliasTable, int]:
    """Two tables and a length B: a geometric number, P(g) = q (1 - q)^g, is low + B · high with one draw from each.

    Division with remainder splits a geometric number into independent parts: the remainder has P(i) ∝ (1 - q)^i
    for i < B, and the quotient is geometric with (1 - q)^B in the place of 1 - q. The last entry of the quotient
    stands for all that are at least as large; it is beyond 2^32, or has less than 2^-192.
    """
    stay = (1 << DIGITS) - math.ceil(fractions.Fraction(rate) * (1 << DIGITS))
    most = 2 ** min(
        MOST_BITS, max(4, math.ceil((math.log2(PRECISION) - math.log2(rate)) / 2))
    )  # about as many entries in both
    low = _powers(stay, most)
    jump = low[-1] * stay >> DIGITS
    high = _powers(jump, 2**MOST_BITS)
    inside = [mass * ((1 << DIGITS) - jump) >> DIGITS for mass in high[:-1]]
    return _table(low, spare=0), _table([*inside, high[-1]], spare=len(high) - 1), len(low)


def _powers(ratio: int, most: int) -> list[int]:
    """1, r, r², ... with 288 binary digits: so many at most, and none below 2^-200."""
    powers = [1 << DIGITS]
    while len(powers) < most and (after := powers[-1] * ratio >> DIGITS) >> (DIGITS - PRECISION - 8):
        powers.append(after)
    return powers
