"""Where a budget went: the share of each planned mechanism in everything that was charged.

Shares are of the sum of squares of mu, which is what Gaussians add up in.
"""

import math
from collections.abc import Iterable
from typing import Any

from understudy.privacy.plan import Charge


def by_planned_mechanism(charges: Iterable[Charge]) -> list[dict[str, Any]]:
    """The charges of each planned mechanism together, with their share of the sum of squares of mu."""
    found: dict[str, list[Charge]] = {}
    for charge in charges:
        found.setdefault(charge.name, []).append(charge)
    weights = {name: math.fsum(map(mu_squared, group)) for name, group in found.items()}
    total = math.fsum(weights.values())
    return [
        {
            "name": name,
            "what": group[0].what,
            "more": len({charge.what for charge in group}) - 1,
            "mechanism": ", ".join(dict.fromkeys(charge.mechanism for charge in group)),
            "times": sum(charge.times for charge in group),
            "share": weights[name] / total,
        }
        for name, group in found.items()
    ]


def mu_squared(charge: Charge) -> float:
    """What a charge weighs in the composition: its times · mu².

    A sampled Gaussian of rate q weighs about q² times (exp(1 / noise_multiplier²) - 1), its Gaussian limit (Bu et al.
    2019, arXiv:1911.11607), and never more than without sampling.
    """
    if charge.sampling_rate is None:
        return charge.times * charge.mu**2
    unsampled = 1 / charge.noise_multiplier**2
    limit = charge.sampling_rate**2 * math.expm1(min(unsampled, 700.0))  # beyond 700, floats overflow
    return charge.times * min(limit, unsampled)
