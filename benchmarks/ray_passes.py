"""How much faster two workers of a Ray cluster are than one, on the passes of a fit alone.

    python benchmarks/ray_passes.py --rows 10000000 --workers 1 2 [--folder DIR]

Makes the rows of benchmarks/scale.py, fits `copula` with engine "ray" on a local cluster of so many workers, and adds
up the seconds of its passes, without starts, survey and encoder. Another fit before it makes the workers load what they
need. Appends one line of JSON a cluster to benchmarks/results/scale/ray.jsonl. On a machine whose cores others use, the
ratio of wall times says how busy they were: `load`, and `idle_cores`, that nobody used in the second before, tell. So
the processor time that workers and driver took in the passes is kept beside it: with W of the workers, which is shared,
and D of the driver, which is not, two workers on quiet cores are at least W / (W / 2 + D) times as fast as one.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import understudy as us
from scale import make, schema
from understudy.core import ray_tasks
from understudy.privacy.ray_engine import RayEngine

RESULTS = Path(__file__).parent / "results" / "scale" / "ray.jsonl"
WARM = 1_000_000


def timed(seconds: dict[str, float]) -> None:
    """Has the seconds of every pass added up by its kind, and those of processors by who took them."""
    each = RayEngine.each

    def counted(self: RayEngine, parts: Any, task: Any) -> Any:
        start, driver, workers = time.perf_counter(), time.process_time(), cpu_of_workers()
        yield from each(self, parts, task)
        kind = type(getattr(task, "summation", task)).__name__
        taken = {kind: time.perf_counter() - start, "driver": time.process_time() - driver}
        for name, more in (taken | {"workers": cpu_of_workers() - workers}).items():
            seconds[name] = seconds.get(name, 0.0) + more

    RayEngine.each = counted


def cpu_of_workers() -> float:
    """Seconds of processor time that the workers of the cluster have taken so far."""
    psutil: Any = importlib.import_module("psutil")
    found = [each for each in psutil.Process().children(recursive=True) if each.name().startswith("ray::")]
    return sum(sum(each.cpu_times()[:2]) for each in found)


def idle_cores() -> float:
    """How many cores nobody used for a second."""

    def ticks() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]

    before = ticks()
    time.sleep(1.0)
    spent = [after - earlier for after, earlier in zip(ticks(), before, strict=True)]
    return (os.cpu_count() or 1) * (spent[3] + spent[4]) / max(sum(spent), 1)


def once(root: Path, rows: int, workers: int) -> dict[str, Any]:
    """Fits on a cluster of so many workers and says what its passes took."""
    ray = ray_tasks.imported()
    idle = idle_cores()
    ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
    seconds: dict[str, float] = {}
    for many in (WARM, rows):
        timed(seconds) if many == rows else None
        us.fit(root / str(many), schema(many), "copula", epsilon=1.0, seed=0, engine="ray", progress=False)
    ray.shutdown()
    cpu = {f"{who}_cpu_s": round(seconds.pop(who), 2) for who in ("workers", "driver")}
    found = {"rows": rows, "workers": workers, "seconds": {kind: round(each, 2) for kind, each in seconds.items()}}
    sums = {"pass_seconds": round(sum(seconds.values()), 2), **cpu, "load": round(os.getloadavg()[0], 1)}
    return {**found, **sums, "idle_cores": round(idle, 2), "cores": os.cpu_count(), "version": us.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--folder", type=Path, default=None, help="Where rows are made; a temporary folder if none.")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(once(given.folder, given.rows, given.workers[0])))
        return
    root = given.folder or Path(tempfile.mkdtemp(prefix="understudy-ray-"))
    for rows in (WARM, given.rows):
        make(root / str(rows), rows)
    for workers in given.workers:
        asked = ["--rows", str(given.rows), "--workers", str(workers), "--folder", str(root)]
        words = [sys.executable, __file__, "--once", *asked]
        line = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
        print(line, flush=True)
        with RESULTS.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
