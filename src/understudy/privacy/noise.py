"""Exact discrete Gaussian noise, and Gumbel noise for selections.

Noise is OpenDP's, which draws from the operating system. With a seeded key it is NumPy's: repeatable, and worthless as
protection.

Sources: Canonne, Kamath, Steinke (2020), arXiv:2004.00010, for the discrete Gaussian; McSherry and Talwar (2007) for
the exponential mechanism.
"""

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.accounting import lattice

Floats = NDArray[np.float64]

WIDEST = 2.0**50  # deviation of noise in steps: twelve more fit into 64 bits, and float64 has all of them to 53


def discrete_gaussian(sigma: float, size: int, key: Key) -> Floats:
    """Independent discrete Gaussian draws on a lattice fine enough for the account (`accounting.lattice`).

    Raises:
        ValueError: The noise would be too wide for 64-bit whole numbers, where it ends in a wall that hides nothing.
    """
    steps = lattice(sigma)
    if not sigma * steps <= WIDEST:
        raise ValueError(
            "epsilon: expected enough for noise that 64-bit numbers can hold; nothing could be told from more of it. "
            "Raise epsilon, or lower max_rows_per_unit."
        )
    if not key.secret:
        return np.rint(key.numpy().normal(0.0, sigma * steps, size)) / steps
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return np.array(make_gaussian(*space, scale=sigma * steps)([0] * size), dtype=np.float64) / steps


def largest_with_gumbel(scores: Floats, scale: float, key: Key) -> int:
    """The index of the largest score after Gumbel noise: a draw from the exponential mechanism."""
    if not key.secret:
        return int(np.argmax(scores + key.numpy().gumbel(0.0, scale, len(scores))))
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T=float, nan=False)), linf_distance(T=float)
    return make_noisy_max(*space, zero_concentrated_divergence(), scale=scale)(scores.tolist())
