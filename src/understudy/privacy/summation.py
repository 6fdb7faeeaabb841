"""How clipped sums are added up in floating point, and the part of the clipping norm that this takes.

The one rule: two batches that differ by one unit have sums, *as computed*, that differ by at most the clipping norm,
whatever the order in which a machine adds.
"""

import math

# The errors of two sums, as computed, are at most this part of the clipping norm.
SUMMATION = 2.0**-6
# Half the distance from 1 to the next number in float32.
UNIT = 2.0**-24
# In float64 so many rows are added up with errors below SUMMATION, too; batches of more are refused.
MOST_ROWS = 2**22
# A plan is refused if less than this part of the clipping norm could be used.
LEAST_USABLE = 0.5
# A factor below this counts as zero: its square would underflow to zero while its product with another might not.
SMALLEST_FACTOR = 1e-18


def usable_part(terms: int, rows_of_a_unit: int, *, rounding: float) -> float:
    """The part of the clipping norm C that a unit may fill, so that rounded sums differ by at most C.

    Args:
        terms: Of a row's squared norm, the most that are added up one after the other.
        rounding: The part of C that rounding sums to a grid takes (`LatticeNoise.rounding`).

    Privacy:
        Let u = 2^-24, C' the norm that a unit may fill, and x_r the gradient of row r with its weight, as computed. All
        squares are positive, so that the squared norm of a row is off by a factor within (1 + u)^±(terms + 8), and with
        the root, the sum over a unit's rows, the division and the weighting, Σ |x_r| <= C' (1 + η) for a unit, with
        η = (terms + rows of a unit + 16) u. (Products of squares that underflow belong to gradients below 1e-18.)
        Each addition is off by at most u times its result. Added up in any order, n products of size at most c have
        partial sums that add up to at most c (2 + 3 + ... + n), and are off by at most (n + 3) n c u / 2 in all. With K
        blocks of b rows a sum over a batch of m units of one row each is off by at most m (b + K + 5) u C' / 2, in L2
        norm over all coordinates: there the sizes of rows add up as their norms do. If units have more rows, a row may
        hold all of its unit, and no number goes through more than b + K additions: m (b + K + 5) u C'. There are two
        sums, and `summation_blocks` keeps both errors together at SUMMATION C'. So two sums differ by at most
        C' (1 + η + SUMMATION), and by the rounding more once they are rounded, which is C in all.
    """
    return (1 - rounding) / (1 + SUMMATION + (terms + rows_of_a_unit + 16) * UNIT)


def summation_blocks(units: int, rows_of_a_unit: int) -> int:
    """How many blocks the rows of a batch are added up in, so that SUMMATION holds; 0 means in float64."""
    rows, worst = units * rows_of_a_unit, units * UNIT * (1 if rows_of_a_unit == 1 else 2)
    for blocks in range(1, math.isqrt(rows) + 2):
        if worst * (math.ceil(rows / blocks) + blocks + 5) <= SUMMATION:
            return blocks
    return 0
