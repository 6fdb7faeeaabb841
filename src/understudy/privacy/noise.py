"""Exact discrete Gaussian noise, and Gumbel noise for selections.

The one rule: with a secret key, noise comes from OpenDP, which draws from the operating system. With a seeded key it
comes from NumPy: repeatable, and worthless as protection.

Sources: Canonne, Kamath, Steinke (2020), arXiv:2004.00010, for the discrete Gaussian; McSherry and Talwar (2007) for
the exponential mechanism.
"""

# OpenDP leaves the types of its arguments open.
# pyright: reportUnknownVariableType=false

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.plan import lattice

Floats = NDArray[np.float64]

# Noise may have at most this deviation, in lattice steps: 2^12 deviations then fit into 64 bits, and float64 holds
# whole numbers exactly up to 2^53.
WIDEST = 2.0**50


def discrete_gaussian(sigma: float, size: int, key: Key) -> Floats:
    """Independent discrete Gaussian draws on a lattice fine enough for the account (`plan.lattice`).

    Raises:
        ValueError: The noise overflows 64-bit integers, and noise cut off at their ends would protect nobody.
    """
    steps = lattice(sigma)
    if not sigma * steps <= WIDEST:
        raise ValueError(
            "epsilon is too small: its noise overflows 64-bit integers. Raise epsilon, or lower max_rows_per_unit."
        )
    if not key.secret:
        seeded = np.rint(key.numpy().normal(0.0, sigma * steps, size)) / steps
        return recording.drew(seeded, scale=sigma, key=key)
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    drawn = np.array(make_gaussian(*space, scale=sigma * steps)([0] * size), dtype=np.float64) / steps
    return recording.drew(drawn, scale=sigma, key=key)


def largest_with_gumbel(scores: Floats, scale: float, key: Key) -> int:
    """The index of the largest score after Gumbel noise: a draw from the exponential mechanism."""
    if not key.secret:
        seeded = int(np.argmax(scores + key.numpy().gumbel(0.0, scale, len(scores))))
        return recording.drew(seeded, scale=scale, key=key)
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T=float, nan=False)), linf_distance(T=float)
    drawn = make_noisy_max(*space, zero_concentrated_divergence(), scale=scale)(scores.tolist())
    return recording.drew(drawn, scale=scale, key=key)
