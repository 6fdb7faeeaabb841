"""Exact noise on sums of gradients: a discrete Gaussian, drawn in whole numbers and added in whole numbers.

The one rule: what a step releases is a whole number of steps of a public grid. A sum is rounded to the grid, its noise
is drawn on the grid, and the two are added as 32-bit integers. Floating point before the rounding is paid for by the
clipping norm (clipping.py), and floating point after the addition is post-processing.

The grid's step g is a power of two that follows from public numbers: the clipping norm C, sigma and the number d of
coordinates. Two sums that are C' apart are, once rounded, at most C' + g √d apart, since rounding moves the difference
of a coordinate by at most g. g √d is at most C / 1024, and what it takes is left unused of C (`usable_part`).

Privacy, with ρ_s(x) = exp(-x² / (2 s²)) and everything in steps of the grid:

1. *The lattice costs nothing but r² of the variance.* For every s >= 2.2 and every c the sum of ρ_s(x - c) over all
   whole x is s √(2π) (1 ± η) with η = 2^-136: by Poisson summation it is s √(2π) Σ_j exp(-2π² s² j²) cos(2π j c). Take
   real-valued Gaussian noise of variance σ² on a sum on the grid, and then replace each coordinate y by a draw from the
   discrete Gaussian about y of parameter r = 2.2. That is post-processing. What comes out is x with probability

       ∫ φ_σ(y - sum) ρ_r(x - y) / Σ_z ρ_r(z - y) dy = φ_√(σ² + r²)(x - sum) (1 ± 2η),

   since the denominator is r √(2π) (1 ± η), and a Gaussian folded with a Gaussian is one. So the discrete Gaussian of
   parameter √(σ² + r²), which is what is drawn here, is a post-processing of the Gaussian that was charged, up to a
   factor of 1 ± 3η for each number. That holds for each step whatever came before it and whoever was sampled, so it
   holds for all steps together, and any account of the real-valued mechanism is one of this. No leading order.
2. *Two tables make a wide Gaussian.* For Y and Z discrete Gaussians of parameter b, Y + k Z is the discrete Gaussian of
   parameter σ = b √(1 + k²) up to a factor of 1 ± 3η: completing the square,

       P(Y + k Z = x) ∝ Σ_z ρ_b(z) ρ_b(x - k z) = ρ_σ(x) Σ_z ρ_s(z - k x / (1 + k²)),   s = b / √(1 + k²) >= 2.2.

   With a third table, Y + k (Z + k W), the same holds twice.
3. *A table* errs by less than 2^-142 in total variation (alias_table.py), so a number by less than 2^-140.

Over 2^40 numbers, more than any training draws, factors multiply to 1 ± 2^-90, and total variations add up to 2^-100,
which raises delta by at most (1 + exp(epsilon)) 2^-100: below 1e-12 up to epsilon = 41. `accounting.py` sets aside a
part of delta that is larger.

Sources: Micciancio and Walter (2017), "Gaussian sampling over the integers", for sums of discrete Gaussians; Canonne,
Kamath and Steinke (2020), arXiv:2004.00010, for the discrete Gaussian; Mironov (2012), "On significance of the least
significant bits for differential privacy", for what floating-point noise gives away.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.alias_table import MOST_BITS, gaussian_table, reach

if TYPE_CHECKING:  # densities are trained without it
    import jax
    from jax.typing import ArrayLike

# r and s above: the smallest parameter at which a discrete Gaussian is as smooth as the proofs need.
SMOOTH = 2.2
# The grid has this many steps to C / √d and to sigma.
FINENESS = 2.0**10
# It has at most this many steps to C, so that sums of hundreds of units fit into 32 bits, if sigma allows it.
MOST_STEPS = 2.0**20
# It has at least this many steps to sigma, and at most so many that 20 deviations fit into 31 bits.
FEWEST_STEPS, WIDEST = 8.0, 2.0**26
# Sums are kept within so many steps; with noise they still fit into 32 bits.
LARGEST_SUM = 2.0**29
# A table that has at most this many entries is drawn from alone.
SMALL_TABLE = 2**11


@dataclasses.dataclass(frozen=True, kw_only=True)
class LatticeNoise:
    """The noise on a sum of gradients; public.

    Attributes:
        step: The step g of the grid, a power of two.
        base: The parameter b of the table, in steps.
        factor: k.
        tables: How many draws from the table a number is made of: Y, Y + k Z or Y + k (Z + k W).
    """

    step: float
    base: float
    factor: int
    tables: int

    @classmethod
    def of(cls, sigma: float, *, clip_norm: float, size: int) -> "LatticeNoise":
        """Noise that is at least as private as real-valued noise of deviation sigma on so many rounded numbers."""
        finest = max(sigma / FINENESS, clip_norm / MOST_STEPS)
        exponent = math.floor(math.log2(min(clip_norm / (FINENESS * math.sqrt(size)), finest, sigma / FEWEST_STEPS)))
        step = 2.0 ** max(exponent, math.ceil(math.log2(sigma / WIDEST)))
        wide = math.hypot(sigma / step, SMOOTH) * (1 + 2.0**-40)  # rounded up
        tables, factor = next(
            (tables, factor)
            for tables, entries in ((1, SMALL_TABLE), (2, 2**MOST_BITS), (3, 2**MOST_BITS))
            if 2 * reach(wide / _spread(factor := _largest_factor(wide, tables), tables)) < entries
        )
        return cls(step=step, base=wide / _spread(factor, tables), factor=factor, tables=tables)

    @property
    def sigma(self) -> float:
        """The parameter of the discrete Gaussian that is drawn, in the units of the sum."""
        return self.step * self.base * _spread(self.factor, self.tables)

    def rounding(self, size: int) -> float:
        """The most that rounding to the grid adds to the distance of two sums of so many numbers, in L2 norm."""
        return self.step * math.sqrt(size)

    def draw(self, n: int, key: Key) -> NDArray[np.int32]:
        """So many whole numbers of steps."""
        table, middle = gaussian_table(self.base), reach(self.base)
        words = key.words(math.ceil(n * self.tables / 2)).view(np.uint32)[: n * self.tables].reshape(self.tables, n)
        found = np.zeros(n, np.int32)
        for number in range(self.tables):
            found *= self.factor
            found += table.draw(words[number], key, f"more of {number}")
            found -= middle
        return found


def _spread(factor: int, tables: int) -> float:
    """The deviation of Y, Y + k Z or Y + k (Z + k W) over that of Y."""
    return math.sqrt(sum(factor ** (2 * number) for number in range(tables)))


def _largest_factor(wide: float, tables: int) -> int:
    """The largest k for which Y + k Z, or Y + k (Z + k W), is smooth."""
    factor = int((wide / SMOOTH) ** (1 / max(tables, 1))) + 1
    while factor > 1 and wide / _spread(factor, tables) < SMOOTH * _spread(factor, 2):
        factor -= 1
    return factor


def add_noise(exact: "jax.Array", noise: "ArrayLike", step: "ArrayLike") -> "jax.Array":
    """A sum rounded to the grid, plus noise in steps of it: the sum of whole numbers, as float32. In a program.

    Privacy:
        Two sums are at most √d steps farther apart once they are rounded. Keeping them within LARGEST_SUM brings no two
        of them farther apart. What comes after the addition is post-processing.
    """
    import jax
    import jax.numpy as jnp

    step = jnp.asarray(step, jnp.float32)
    with jax.enable_x64(exact.dtype == jnp.float64):
        whole = jnp.clip(jnp.rint(exact / step.astype(exact.dtype)), -LARGEST_SUM, LARGEST_SUM).astype(jnp.int32)
    return (whole + jnp.reshape(jnp.asarray(noise, jnp.int32), whole.shape)).astype(jnp.float32) * step


def rounded_sum(exact: NDArray[np.floating[Any]], noise: NDArray[np.int32], step: float) -> NDArray[np.float32]:
    """What `add_noise` is in a program, to the bit. Privacy: as there."""
    whole = np.clip(np.rint(exact / exact.dtype.type(step)), -LARGEST_SUM, LARGEST_SUM).astype(np.int32)
    whole += noise.reshape(whole.shape)
    return whole.astype(np.float32) * np.float32(step)
