"""The doctor: is everything here that a fit needs, and does a small one come out right?

The one rule: it looks and tells, and changes nothing. It asks no network, reads no table but one that it makes up, and
leaves no file behind. Whatever fails while it looks is a finding of its own, so the last check is always reached.
"""

import dataclasses
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import understudy
from understudy.core.version import __version__

State = Literal["ok", "note", "problem"]
ROWS = 300
"""Of the made-up table: few, so that the fit takes a moment."""
_LITTLE = 2**30  # bytes of memory or disk below which there is a note
_SLOW = 30.0  # seconds for the self-test; it takes about five
_PURPOSE = {
    "eval": "the learners of `understudy evaluate --learners`, and figures",
    "gpu": "fits on an NVIDIA card",
    "browser": "the tests that look at pages in a browser",
    "dev": "the tests",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        name: What was looked at.
        state: "ok"; "note" where it works and could be better; "problem" where something needed is broken.
        fact: What is so.
        advice: What to do about it; empty where there is nothing to do.
    """

    name: str
    state: State
    fact: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.state:<8} {self.name:<13} {self.fact}." + (f" {self.advice}" if self.advice else "")


def examine() -> Iterator[Finding]:
    """Every check in turn; each finding is there as soon as it is made."""
    for name, check in _CHECKS.items():
        try:
            yield from check()
        except Exception as error:  # whatever it is, the other checks go on; no row of anyone's is at hand
            said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
            yield Finding(name=name, state="problem", fact=said, advice=_REINSTALL)


# What it is built on ------------------------------------------------------------------------------------------------

_REINSTALL = "Install understudy again, in a fresh virtual environment."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Need:
    """A package that understudy is built on.

    Attributes:
        name: As pip knows it.
        least: The lowest version that will do; empty where any will.
        extra: The extra that asks for it; empty where a fit cannot do without.
    """

    name: str
    least: str
    extra: str = ""

    @property
    def installed(self) -> str | None:
        """The version that is here, or None."""
        for name in (self.name, self.name.removesuffix("-cpu")):  # xgboost-cpu is xgboost without the card
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return None

    @property
    def is_met(self) -> bool:
        return self.installed is not None and reaches(self.installed, self.least)


def reaches(version: str, least: str) -> bool:
    """Whether a version is at least another, by the numbers that they begin with."""
    return _numbers(version) >= _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def needs() -> list[Need]:
    """What pyproject.toml asks for: of the checkout this runs from, else as it was when understudy was installed."""
    project = _project()
    if project is None:
        return list(_parsed((text, "") for text in importlib.metadata.requires("understudy") or []))
    extras = ((text, extra) for extra, texts in project["optional-dependencies"].items() for text in texts)
    return list(_parsed([*((text, "") for text in project["dependencies"]), *extras]))


def _project() -> dict[str, Any] | None:
    """The [project] of the checkout, which may be newer than what was installed from it."""
    try:
        with open(Path(understudy.__file__).parents[2] / "pyproject.toml", "rb") as file:
            project = tomllib.load(file).get("project", {})
    except (OSError, tomllib.TOMLDecodeError, IndexError):
        return None
    return project if project.get("name") == "understudy" else None


_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[(?P<variant>[\w-]+)\])?\s*(?:>=\s*(?P<least>[\w.]+))?[^;]*;?(?P<when>.*)"
)


def _parsed(requirements: Iterable[tuple[str, str]]) -> Iterator[Need]:
    """The needs of this platform, from texts like `jax[cuda13]>=0.7; extra == "gpu"`, each with its extra if known."""
    for text, extra in requirements:
        found = _REQUIREMENT.fullmatch(text)
        if found is None:
            continue
        system = re.search(r"""sys_platform\s*([!=])=\s*["'](\w+)["']""", found["when"])
        if system and (sys.platform == system[2]) != (system[1] == "="):
            continue
        asked = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", found["when"])
        # A variant of JAX is a plugin of its own: jax[cuda13] brings jax-cuda13-plugin.
        name = f"{found['name']}-{found['variant']}-plugin" if found["variant"] else found["name"]
        yield Need(name=name, least=found["least"] or "", extra=extra or (asked[1] if asked else ""))


def versions() -> dict[str, Any]:
    """The versions of understudy, of Python and of what is installed of `needs`."""
    found = {need.name: need.installed for need in needs()}
    packages = {name: version for name, version in sorted(found.items()) if version is not None}
    return {"understudy": __version__, "python": platform.python_version(), "packages": packages}


def _python() -> Iterator[Finding]:
    project, version = _project(), platform.python_version()
    asked = project["requires-python"] if project else importlib.metadata.metadata("understudy")["Requires-Python"]
    least = asked.removeprefix(">=")
    where = f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}"
    if reaches(version, least):
        yield Finding(name="python", state="ok", fact=f"{where}; understudy {__version__}")
    else:
        advice = "Make a virtual environment with a newer one."
        yield Finding(name="python", state="problem", fact=f"{where}, and {least} or later is needed", advice=advice)


def _dependencies() -> Iterator[Finding]:
    needed = [need for need in needs() if not need.extra]
    yield from judge_needs(needed)
    met = [f"{need.name} {need.installed}" for need in needed if need.is_met]
    if met:
        yield Finding(name="dependencies", state="ok", fact=", ".join(met))


def judge_needs(needed: Iterable[Need]) -> Iterator[Finding]:
    """A problem for every package that is missing or too old."""
    for need in needed:
        if not need.is_met:
            have = f"{need.installed} is installed" if need.installed else "it is not installed"
            fact = f"{need.name} {need.least} or later is needed, and {have}"
            advice = f"Run: pip install '{need.name}>={need.least}'"
            yield Finding(name="dependencies", state="problem", fact=fact, advice=advice)


def _extras() -> Iterator[Finding]:
    wanted = [need for need in needs() if need.extra]
    for extra in dict.fromkeys(need.extra for need in wanted):
        purpose = f"[{extra}], for {_PURPOSE.get(extra, 'more')}"
        unmet = [f"{need.name} >= {need.least}" for need in wanted if need.extra == extra and not need.is_met]
        if unmet:
            fact, advice = (
                f"{purpose}: without {', '.join(unmet)}",
                f"If you want it: pip install 'understudy[{extra}]'",
            )
            yield Finding(name="extra", state="note", fact=fact, advice=advice)
        else:
            yield Finding(name="extra", state="ok", fact=purpose)


# The machine --------------------------------------------------------------------------------------------------------


def _devices() -> Iterator[Finding]:
    import jax
    import jax.numpy as jnp

    devices = jax.devices()
    fact = f"JAX computes on {len(devices)} x {devices[0].platform} ({devices[0].device_kind})"
    if devices[0].platform == "cpu" and Path("/dev/nvidia0").exists():
        advice = "If you want it to be used: pip install 'understudy[gpu]'"
        yield Finding(name="devices", state="note", fact=f"{fact}; there is an NVIDIA card as well", advice=advice)
    else:
        yield Finding(name="devices", state="ok", fact=fact)
    with jax.enable_x64(True):
        width = jnp.ones(()).dtype.itemsize * 8
    everywhere = "on for everything" if jax.config.jax_enable_x64 else "off elsewhere"  # pyright: ignore[reportAttributeAccessIssue]
    if width == 64:
        yield Finding(name="x64", state="ok", fact=f"noise is drawn in 64 bits; {everywhere}")
    else:
        fact = f"noise needs 64 bits, and JAX gives {width}"
        yield Finding(name="x64", state="problem", fact=fact, advice="Let JAX have x64 on this device, or use a CPU.")


def _cache() -> Iterator[Finding]:
    import jax

    from understudy.core.files import cache_folder

    told = getattr(jax.config, "jax_compilation_cache_dir", None)
    folder = Path(told) if told else cache_folder() / "jax"
    yield judge_cache(folder)


def judge_cache(folder: Path) -> Finding:
    """Whether compiled programs can be kept there. A folder that is not there yet is judged by where it would be."""
    # os.path asks without raising: a folder that may not be looked into counts as none.
    there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
    if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
        kept = f"{_bytes(_size(folder))} in {folder}" if there == folder else f"{folder}, made when first needed"
        return Finding(name="cache", state="ok", fact=f"compiled programs: {kept}")
    fact = f"compiled programs: {folder} cannot be written, so that methods that train start slowly each time"
    return Finding(name="cache", state="note", fact=fact, advice="Set XDG_CACHE_HOME to a folder of yours.")


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # gone in between
                continue
    return total


def _data() -> Iterator[Finding]:
    from understudy.core.files import cache_folder
    from understudy.datasets.public import TABLES

    told = os.environ.get("UNDERSTUDY_DATA")
    yield judge_data(Path(told) if told else None, cache_folder(), list(TABLES))


def judge_data(folder: Path | None, cache: Path, tables: list[str]) -> Finding:
    """Which of the public tables that benchmarks use are here."""
    if folder is not None and not os.path.isdir(folder):
        fact, advice = f"UNDERSTUDY_DATA names {folder}, which is no folder", "Set it to one, or unset it."
        return Finding(name="data", state="note", fact=fact, advice=advice)
    places = [cache] if folder is None else [folder, cache]
    found = [name for name in tables if any(os.path.isfile(place / f"{name}.csv") for place in places)]
    where = f"UNDERSTUDY_DATA = {folder}" if folder else "UNDERSTUDY_DATA is not set, and only benchmarks need it"
    has = f"{len(found)} of {len(tables)} public tables are here"
    return Finding(name="data", state="ok", fact=f"{where}; {has}" + (f" ({', '.join(found)})" if found else ""))


def _entropy() -> Iterator[Finding]:
    from understudy.core.randomness import Key

    if hasattr(os, "getrandom"):
        os.getrandom(32, os.GRND_NONBLOCK)  # raises while the system has gathered too little
    keys = [Key.new(), Key.new()]
    drawn = [key.numpy().bytes(32) for key in keys]
    if all(key.secret for key in keys) and drawn[0] != drawn[1] and os.urandom(32) != os.urandom(32):
        yield Finding(name="entropy", state="ok", fact="noise is keyed by the operating system, which is ready")
    else:
        fact = "the operating system gives the same random bytes twice"
        yield Finding(
            name="entropy", state="problem", fact=fact, advice="Fit nothing here: noise would protect nobody."
        )


def _disk() -> Iterator[Finding]:
    with tempfile.TemporaryFile() as file:
        file.write(b"understudy")
    here, temporary = (shutil.disk_usage(place).free for place in (os.getcwd(), tempfile.gettempdir()))
    yield judge_room("disk", min(here, temporary), f"{_bytes(here)} free here, {_bytes(temporary)} for temporary files")


def _memory() -> Iterator[Finding]:
    free, total = _free_memory()
    if free is None:
        yield Finding(name="memory", state="ok", fact="the system does not say how much is free")
    else:
        of = f" of {_bytes(total)}" if total else ""
        yield judge_room("memory", free, f"{_bytes(free)} free{of}, {os.cpu_count()} cores")


def judge_room(name: str, free: int, fact: str) -> Finding:
    """A note where there is little."""
    if free >= _LITTLE:
        return Finding(name=name, state="ok", fact=fact)
    return Finding(name=name, state="note", fact=fact, advice="A fit of a million rows of 20 columns takes 0.8 GiB.")


def _free_memory() -> tuple[int | None, int | None]:
    """The bytes that may be had and the bytes that there are, within the limit of a container if there is one."""
    free = total = None
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free, total = (1024 * int(lines[key].split()[0]) for key in ("MemAvailable", "MemTotal"))
        limit, used = (Path(f"/sys/fs/cgroup/memory.{kind}").read_text().strip() for kind in ("max", "current"))
        if limit != "max":
            free, total = min(free, max(int(limit) - int(used), 0)), min(total, int(limit))
    except (OSError, ValueError, KeyError):
        pass  # no Linux, or no container: what is known is known
    return free, total


def _bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


# The self-test ------------------------------------------------------------------------------------------------------


def _self_test() -> Iterator[Finding]:
    """A fit as a user would make it, on people who do not exist."""
    from understudy import datasets

    start = time.perf_counter()
    people, schema = datasets.example(ROWS), datasets.example_schema()
    asked = understudy.Budget(epsilon=1.0, delta=1e-6)

    def fit(seed: int | None = None) -> understudy.Model:
        return understudy.fit(people, schema, epsilon=asked.epsilon, delta=asked.delta, seed=seed, progress=False)

    model = fit()
    fact = f"{model.method.name} fitted to {ROWS} made-up rows"
    yield Finding(name="fit", state="ok", fact=fact)
    yield judge_receipt(model.receipt, asked)
    yield judge_sample(model.sample(50), schema, 50)
    yield judge_repetition(*(fit(seed=7).sample(50, 7) for _ in range(2)), other=fit(seed=8).sample(50, 7))
    yield judge_time(time.perf_counter() - start)


def judge_receipt(receipt: "understudy.Receipt", asked: "understudy.Budget") -> Finding:
    """Whether no more was spent than was asked for, by both accountants' order, and for real noise."""
    promised = receipt.budget == asked and receipt.delta <= asked.delta
    if (
        promised
        and receipt.charges
        and receipt.epsilon <= min(asked.epsilon, receipt.rdp_epsilon)
        and receipt.seed is None
    ):
        fact = f"epsilon = {receipt.epsilon:.4g} spent of {asked.epsilon:g}, in {len(receipt.charges)} purchases"
        return Finding(name="receipt", state="ok", fact=fact)
    fact = f"epsilon = {receipt.epsilon:.6g}, delta = {receipt.delta:g} on the receipt of a fit that asked for "
    fact += f"epsilon = {asked.epsilon:g}, delta = {asked.delta:g}"
    return Finding(name="receipt", state="problem", fact=fact, advice=f"Fit nothing here. {_REINSTALL}")


def judge_sample(rows: Any, schema: "understudy.Schema", asked: int) -> Finding:
    """Whether rows drawn have the schema's columns, and are as many as were asked for."""
    if tuple(rows.columns) == schema.names and len(rows) == asked:
        return Finding(name="sample", state="ok", fact=f"{asked} rows with the {len(schema)} columns of the schema")
    fact = f"{len(rows)} rows of {len(rows.columns)} columns were drawn where {asked} of {len(schema)} were asked for"
    return Finding(name="sample", state="problem", fact=fact, advice=_REINSTALL)


def judge_repetition(one: Any, again: Any, *, other: Any) -> Finding:
    """Whether a seed gives the same rows again, and another seed others."""
    if one.equals(again) and not one.equals(other):
        return Finding(name="repetition", state="ok", fact="the same seed gives the same rows, another one others")
    fact = "another seed gives the same rows" if one.equals(again) else "the same seed gives other rows"
    return Finding(name="repetition", state="problem", fact=fact, advice=_REINSTALL)


def judge_time(seconds: float) -> Finding:
    """A note where small fits take long."""
    fact = f"four small fits took {seconds:.1f} s"
    if seconds <= _SLOW:
        return Finding(name="speed", state="ok", fact=fact)
    return Finding(name="speed", state="note", fact=fact, advice="About five are usual. Is the machine busy?")


_CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "python": _python,
    "dependencies": _dependencies,
    "extra": _extras,
    "devices": _devices,
    "cache": _cache,
    "data": _data,
    "entropy": _entropy,
    "disk": _disk,
    "memory": _memory,
    "fit": _self_test,
}
