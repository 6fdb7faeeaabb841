"""Costs on disk: a plan that was priced before is priced again in milliseconds, without loading an accountant.

The one rule: a file is keyed by a plan and holds what that plan costs, so it tells nothing that the plan does not. A
plan follows from public facts alone; whatever was decided by what a fit released is not kept.

A file that is damaged, of another version or not this user's own counts as missing, and a folder that cannot be
written to is no error: the costs are computed. The checksum finds damage, not malice. Whoever may write into the cache
folder as this user could also change this code, or the compiled programs beside it, and is trusted as much
(docs/privacy.md). What is read is checked all the same: by `cross_check`, and where nothing is sampled against the
closed form, below which no cost is ever taken.
"""

# SciPy has no type stubs.
# pyright: reportMissingTypeStubs=false

import contextlib
import functools
import hashlib
import json
import math
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from understudy.core.files import cache_folder, replacing
from understudy.privacy.accounting import Asked, Composition, Costs, remembered
from understudy.privacy.plan import Budget, PlannedMechanism

# These files say what a plan costs. If one of them changes, nothing that was kept is used again.
_CODE = ("accountants.py", "accounting.py", "calibration.py", "cost_cache.py", "gaussian.py", "plan.py")


@contextlib.contextmanager
def kept(plan: Sequence[PlannedMechanism], budget: Budget) -> Generator[None, None, None]:
    """Costs that are asked for in this block come from the file of this plan, and go there if they are new.

    Whatever is asked for must follow from the plan and the budget alone.
    """
    try:
        key = key_of(plan, budget)
        path = cache_folder() / "costs" / f"{key}.json"
        known = _read(path, key)
    except (OSError, RuntimeError):  # no source to take a fingerprint of, or no home folder
        yield
        return
    with remembered(known) as asked:
        yield
    if asked.keys() - known.keys():
        with contextlib.suppress(OSError):
            _write(path, key, {**known, **asked})


def key_of(plan: Sequence[PlannedMechanism], budget: Budget) -> str:
    """A digest of the plan's numbers, of the budget, and of the code that turns them into costs."""
    numbers = [
        [p.mechanism, float(p.share), int(p.times), p.threshold_delta, p.sampling_rate, p.noise_multiplier]
        for p in plan
    ]
    return _digest([numbers, budget.epsilon, budget.delta, _code()])


@functools.cache
def _code() -> str:
    """A digest of the versions and of the files that costs depend on."""
    from importlib.metadata import version

    import numpy as np
    import scipy

    folder = Path(__file__).parent
    sources = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in _CODE]
    return _digest([version("dp-accounting"), np.__version__, scipy.__version__, *sources])


def _read(path: Path, key: str) -> Costs:
    """The costs in a file, or none if it is not whole."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o022:  # others could have written it
                return {}
            found: Any = json.load(file)
        if found["checksum"] != _digest([key, found["costs"]]):
            return {}
        return {_asked(line): _cost(line[-1]) for line in found["costs"]}
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        return {}


def _write(path: Path, key: str, costs: Costs) -> None:
    lines = [[asked.accountant, *asked.composition, asked.delta, cost] for asked, cost in costs.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.chmod(0o600)
        temporary.write_text(json.dumps({"costs": lines, "checksum": _digest([key, lines])}))


def _asked(line: list[Any]) -> Asked:
    accountant, mu_squared, sampled, threshold_delta, delta, _ = line
    steps = tuple((float(rate), float(noise), int(times)) for rate, noise, times in sampled)
    return Asked(str(accountant), Composition(float(mu_squared), steps, float(threshold_delta)), float(delta))


def _cost(epsilon: object) -> float:
    if not isinstance(epsilon, float) or math.isnan(epsilon) or epsilon < 0:
        raise ValueError("expected a cost >= 0.")
    return epsilon


def _digest(facts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
