"""Checks of the machine: devices, caches, public tables, entropy, disk and memory."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from understudy.cli.doctor.finding import Finding
from understudy.cli.doctor.packages import DISTRIBUTION

_ENOUGH = 2**30
"""With fewer free bytes of memory or disk than this, the doctor leaves a note."""


def check_devices() -> Iterator[Finding]:
    import jax
    import jax.numpy as jnp

    devices = jax.devices()
    fact = f"JAX computes on {len(devices)} x {devices[0].platform} ({devices[0].device_kind})"
    if devices[0].platform == "cpu" and Path("/dev/nvidia0").exists():
        advice = f"If you want to use it: pip install '{DISTRIBUTION}[gpu]'"
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
        yield Finding(name="x64", state="problem", fact=fact, advice="Enable x64 for this device, or use a CPU.")


def check_cache() -> Iterator[Finding]:
    import jax

    from understudy.core.files import cache_folder

    configured = getattr(jax.config, "jax_compilation_cache_dir", None)
    yield cache_finding(Path(configured) if configured else cache_folder() / "jax")


def cache_finding(folder: Path) -> Finding:
    """Whether compiled programs can be stored in a folder, or in the one where it would be made."""
    # os.path asks without raising: a folder that may not be looked into counts as missing.
    there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
    if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
        stored = f"{_bytes(_size(folder))} in {folder}" if there == folder else f"{folder}, made when first needed"
        return Finding(name="cache", state="ok", fact=f"compiled programs: {stored}")
    fact = f"compiled programs: {folder} cannot be written, so every process compiles again"
    return Finding(name="cache", state="note", fact=fact, advice="Set XDG_CACHE_HOME to a folder that you can write.")


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # deleted in between
                continue
    return total


def check_data() -> Iterator[Finding]:
    from understudy.core.files import cache_folder
    from understudy.datasets.public import TABLES

    named = os.environ.get("UNDERSTUDY_DATA")
    yield data_finding(Path(named) if named else None, cache_folder(), list(TABLES))


def data_finding(folder: Path | None, cache: Path, tables: Sequence[str]) -> Finding:
    """Which of the public tables that benchmarks use are here."""
    if folder is not None and not os.path.isdir(folder):
        fact, advice = f"UNDERSTUDY_DATA names {folder}, which is not a folder", "Set it to a folder, or unset it."
        return Finding(name="data", state="note", fact=fact, advice=advice)
    places = [cache] if folder is None else [folder, cache]
    found = [name for name in tables if any(os.path.isfile(place / f"{name}.csv") for place in places)]
    where = f"UNDERSTUDY_DATA = {folder}" if folder else "UNDERSTUDY_DATA is not set, and only benchmarks need it"
    has = f"{len(found)} of {len(tables)} public tables are here"
    return Finding(name="data", state="ok", fact=f"{where}; {has}" + (f" ({', '.join(found)})" if found else ""))


def check_entropy() -> Iterator[Finding]:
    from understudy.core.randomness import Key

    if hasattr(os, "getrandom"):
        os.getrandom(32, os.GRND_NONBLOCK)  # raises if the system has not gathered enough yet
    keys = [Key.new(), Key.new()]
    drawn = [key.numpy().bytes(32) for key in keys]
    if all(key.secret for key in keys) and drawn[0] != drawn[1] and os.urandom(32) != os.urandom(32):
        yield Finding(name="entropy", state="ok", fact="the operating system gives random bytes for the noise")
    else:
        fact = "the operating system gives the same random bytes twice"
        advice = "Fit nothing here: the noise would protect nobody."
        yield Finding(name="entropy", state="problem", fact=fact, advice=advice)


def check_disk() -> Iterator[Finding]:
    with tempfile.TemporaryFile() as file:
        file.write(b"understudy")
    here, temporary = (shutil.disk_usage(place).free for place in (os.getcwd(), tempfile.gettempdir()))
    fact = f"{_bytes(here)} free here, {_bytes(temporary)} for temporary files"
    yield free_finding("disk", min(here, temporary), fact)


def check_memory() -> Iterator[Finding]:
    free, total = _free_memory()
    if free is None:
        yield Finding(name="memory", state="ok", fact="the system does not say how much is free")
    else:
        of = f" of {_bytes(total)}" if total else ""
        yield free_finding("memory", free, f"{_bytes(free)} free{of}, {os.cpu_count()} cores")


def free_finding(name: str, free: int, fact: str) -> Finding:
    """A note if few bytes are free."""
    if free >= _ENOUGH:
        return Finding(name=name, state="ok", fact=fact)
    return Finding(name=name, state="note", fact=fact, advice="A fit of a million rows of 20 columns takes 0.8 GiB.")


def _free_memory() -> tuple[int | None, int | None]:
    """The available bytes and all bytes, within the limit of a container if there is one; None if unknown."""
    free = total = None
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free, total = (1024 * int(lines[key].split()[0]) for key in ("MemAvailable", "MemTotal"))
        limit, used = (Path(f"/sys/fs/cgroup/memory.{kind}").read_text().strip() for kind in ("max", "current"))
        if limit != "max":
            free, total = min(free, max(int(limit) - int(used), 0)), min(total, int(limit))
    except (OSError, ValueError, KeyError):
        pass  # no Linux, or no container: what was found so far counts
    return free, total


def _bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
