"""All checks of the doctor, in order.

The one rule: a check that fails is a finding of its own, so that the last check is always reached.
"""

from collections.abc import Callable, Iterator

from understudy.cli.doctor import machine, packages
from understudy.cli.doctor.finding import REINSTALL, Finding


def check_fit() -> Iterator[Finding]:
    from understudy.cli.doctor import self_test  # needs what the checks before it look for

    yield from self_test.check_fit()


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "python": packages.check_python,
    "dependencies": packages.check_dependencies,
    "extra": packages.check_extras,
    "devices": machine.check_devices,
    "cache": machine.check_cache,
    "data": machine.check_data,
    "entropy": machine.check_entropy,
    "disk": machine.check_disk,
    "memory": machine.check_memory,
    "fit": check_fit,
}


def examine() -> Iterator[Finding]:
    """Makes every check in turn, and yields each finding as soon as it is there."""
    for name, check in CHECKS.items():
        try:
            yield from check()
        except Exception as error:  # whatever it is, the other checks go on; no private row is read in here
            message = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
            yield Finding(name=name, state="problem", fact=message, advice=REINSTALL)
