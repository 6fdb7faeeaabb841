"""Time and memory of fits and of sampling, each in a cold process, from a file to a saved model.

Every process has an empty cache of compiled programs. CPU seconds (of all its threads) hardly depend on what else the
machine does; wall seconds do. Beside them stands a baseline measured right after, the wall seconds that a Cholesky
factor of a 3000 x 3000 matrix takes, and the ratio to it. Peers are run on the same files, where they are installed:
name the Python of their environment.

    python benchmarks/speed.py -o benchmarks/results/speed.jsonl
    python benchmarks/speed.py --methods prada --peers -o benchmarks/results/speed.jsonl
    python benchmarks/speed.py --cases adult --methods prada --peers dpmm-aim --dpmm DPMM/bin/python --limit 1200
    python benchmarks/speed.py --growth --methods prada -o benchmarks/results/speed.jsonl

Results are added to the file; a line of the same case, method and settings is replaced.
"""

import argparse
import collections
import compileall
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import speed_peers
import understudy as us
from speed_tables import CASES, GROWTH, Case

BUDGET = ("--epsilon", "1", "--delta", "1e-6")
SAMPLED = 1_000_000
LAUNCHER = """
import json, os, subprocess, sys, threading, time
start = time.perf_counter()
child = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
stop = threading.Timer(float(sys.argv[1]), child.kill)
stop.start()
_, status, usage = os.wait4(child.pid, 0)
stop.cancel()
wall = time.perf_counter() - start
print(json.dumps([os.waitstatus_to_exitcode(status), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""
"""Starts a process from a small one, since Linux counts the memory of whoever starts a process as its own peak."""
KEY = ("case", "what", "method", "settings")


def baseline() -> float:
    matrix = np.random.default_rng(0).standard_normal((3000, 3000))
    matrix = matrix @ matrix.T + 3000 * np.eye(3000)
    start = time.perf_counter()
    np.linalg.cholesky(matrix)
    return time.perf_counter() - start


def cost_of(command: Sequence[str], limit: float) -> dict[str, Any]:
    """Runs a command in a cold process: wall and CPU seconds, peak memory, and the baseline of the same minute.

    After `limit` wall seconds the process is ended, and the line says so.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}  # no compiled program is there yet
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        started = [sys.executable, "-S", "-c", LAUNCHER, str(limit), *command]
        shown = subprocess.run(started, env=environment, capture_output=True, text=True, check=True)
    code, wall, cpu, peak = json.loads(shown.stdout.splitlines()[-1])
    ended = wall >= limit
    if code and not ended:
        raise RuntimeError(f"{shlex.join(command)}: {shown.stderr[-2000:]}")
    unit = baseline()
    result = {
        "wall_s": wall,
        "cpu_s": cpu,
        "peak_mib": peak / 1024,
        "baseline_s": unit,
        "in_baselines": wall / unit,
        "load": os.getloadavg()[0],
    }
    return {**{name: round(value, 3) for name, value in result.items()}, **({"ended_at_s": limit} if ended else {})}


@contextlib.contextmanager
def files(case: Case) -> Iterator[tuple[Path, Path, us.Schema]]:
    """The files of a case: its rows and its schema."""
    with tempfile.TemporaryDirectory() as name:
        frame, schema = case.make()
        rows, facts = Path(name) / f"data{case.suffix}", Path(name) / "schema.toml"
        frame.write_parquet(rows) if case.suffix == ".parquet" else frame.write_csv(rows)
        schema.write(facts)
        del frame
        yield rows, facts, schema


def shape(schema: us.Schema) -> dict[str, Any]:
    """What the time depends on, all of it public: rows, columns, and how many columns have how many listed values.

    `nullable` is the number of columns without listed values that may lack some.
    """
    sizes = collections.Counter(len(column.values or ()) for column in schema.columns)
    found = {str(size): sizes[size] for size in sorted(sizes)}
    nullable = sum(column.nullable and not column.values for column in schema.columns)
    return {"rows": schema.rows or 0, "columns": len(schema), "sizes": found, "nullable": nullable}


def fits(
    name: str, case: Case, methods: Sequence[str], settings: Sequence[str], limit: float
) -> Iterator[dict[str, Any]]:
    """One line for each method; for `prada` on 20 columns, one more for sampling."""
    with files(case) as (rows, facts, schema):
        for method in methods:
            model = rows.with_name(f"{method}.understudy")
            chosen = [part for setting in settings for part in ("--set", setting)]
            command = [sys.executable, "-m", "understudy", "fit", str(rows), str(facts), "--method", method, *BUDGET]
            line = {"case": name, "what": "fit", "method": method, "settings": list(settings), **shape(schema)}
            yield {**line, **cost_of([*command, *chosen, "--quiet", "-o", str(model)], limit)}
            if name == "numbers-20" and method == "prada" and model.exists():
                made = str(rows.with_name("synthetic.parquet"))
                command = [sys.executable, "-m", "understudy", "sample", str(model), "-n", str(SAMPLED), "-o", made]
                yield {**line, "what": "sample", "rows": SAMPLED, **cost_of(command, limit)}


def peers(
    name: str, case: Case, asked: Sequence[str], pythons: dict[str, str], limit: float
) -> Iterator[dict[str, Any]]:
    """One line for each peer that is installed; for the others, a sentence on the screen."""
    wanted = {peer: speed_peers.PEERS[peer] for peer in asked if case.suffix == ".csv"}
    there = {
        whose: speed_peers.importable(pythons[whose], speed_peers.PACKAGES[whose]) for whose in set(wanted.values())
    }
    for whose in sorted(whose for whose, found in there.items() if not found):
        print(f"{name}: {whose} is not installed for {pythons[whose]}", flush=True)
    if not any(there.values()):
        return
    with files(case) as (rows, _, schema):
        facts = rows.with_name("facts.json")
        facts.write_text(json.dumps(speed_peers.facts_of(schema)))
        for peer, whose in wanted.items():
            if there[whose]:
                command = [pythons[whose], speed_peers.__file__, peer, str(rows), str(facts)]
                line = {"case": name, "what": "peer", "method": peer, "settings": [], **shape(schema)}
                yield {**line, **cost_of(command, limit)}


def growth(lines: Sequence[dict[str, Any]]) -> str:
    """How many times as much CPU a fit takes of twice the rows, columns and categories."""
    cost = {(line["case"], line["method"]): line["cpu_s"] for line in lines if line["what"] == "fit"}
    larger = [case for case in GROWTH if case != "growth"]
    shown = [f"{'twice the':<14}" + "".join(f"{case.removeprefix('growth-'):>14}" for case in larger)]
    for method in dict.fromkeys(method for case, method in cost if case == "growth"):
        base = cost["growth", method]
        ratios = [cost[case, method] / base if (case, method) in cost else float("nan") for case in larger]
        shown.append(f"{method:<14}" + "".join(f"{ratio:>14.2f}" for ratio in ratios))
    return "\n".join(shown)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """The results, one line each; a star marks what was ended before it was done."""
    titles = ("wall s", "CPU s", "MiB", "/ baseline", "load")
    shown = [f"{'case':<20}{'':<8}{'method':<20}" + "".join(f"{title:>12}" for title in titles)]
    for line in lines:
        values = [line[name] for name in ("wall_s", "cpu_s", "peak_mib", "in_baselines", "load")]
        star = " *" if "ended_at_s" in line else ""
        head = f"{line['case']:<20}{line['what']:<8}{line['method']:<20}"
        shown.append(head + "".join(f"{value:>12.1f}" for value in values) + star)
    return "\n".join(shown)


def ratios(lines: Sequence[dict[str, Any]]) -> str:
    """How many times the seconds of `prada` each peer took in the same run; a star: at least, it was ended."""
    ours = {line["case"]: line for line in lines if line["what"] == "fit" and line["method"] == "prada"}
    shown = []
    for line in lines:
        if line["what"] == "peer" and (own := ours.get(line["case"])):
            times = "".join(f"{line[name] / own[name]:>12.1f}" for name in ("wall_s", "cpu_s"))
            star = " *" if "ended_at_s" in line else ""
            shown.append(f"{line['case']:<28}{line['method']:<20}{times}{star}")
    return "\n".join([f"{'times as long as prada':<48}{'wall s':>12}{'CPU s':>12}", *shown] if shown else shown)


def keep(path: Path, line: dict[str, Any]) -> None:
    """Adds a line to the file, in the place of one of the same case, method and settings."""
    old = [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []
    key = [line[name] for name in KEY]
    kept = [each for each in old if [each[name] for name in KEY] != key]
    path.write_text("".join(json.dumps(each) + "\n" for each in [*kept, line]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="a JSONL file to add to; without it, results are only shown")
    parser.add_argument("--cases", nargs="+", choices=CASES, help="all, unless named")
    parser.add_argument(
        "--methods", nargs="+", default=[], help="those of the case unless named; `none` for peers alone"
    )
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the method")
    parser.add_argument("--peers", nargs="*", choices=speed_peers.PEERS, default=list(speed_peers.PEERS))
    parser.add_argument("--growth", action="store_true", help="twice the rows, columns and categories, as ratios")
    parser.add_argument("--limit", type=float, default=300.0, help="wall seconds after which a process is ended")
    for peer in speed_peers.PACKAGES:
        parser.add_argument(f"--{peer}", default=sys.executable, help="the Python of an environment that has it")
    arguments = parser.parse_args()
    asked, made = GROWTH if arguments.growth else {name: CASES[name] for name in arguments.cases or CASES}, []
    shown = shlex.join(["python", "benchmarks/speed.py", *sys.argv[1:]])
    compileall.compile_dir(us.__path__[0], quiet=1)
    for name, case in asked.items():
        if not case.at_hand:
            print(f"{name}: left out, {case.needs} is not in the folder that UNDERSTUDY_DATA names", flush=True)
            continue
        methods = arguments.methods or (["prada", "aim", "copula"] if arguments.growth else case.methods)
        if not arguments.cases and not arguments.growth:
            methods = [method for method in methods if method in case.methods]
        runs = [] if methods == ["none"] else fits(name, case, methods, arguments.set, arguments.limit)
        pythons = {peer: getattr(arguments, peer) for peer in speed_peers.PACKAGES}
        others = [] if arguments.growth else peers(name, case, arguments.peers, pythons, arguments.limit)
        for each in (*runs, *others) if not arguments.output else _kept(arguments.output, shown, runs, others):
            made.append(each)
            print(json.dumps(each), flush=True)
    print(table(made))
    print(ratios(made))
    if arguments.growth:
        print(growth(made))


def _kept(path: Path, command: str, *sources: Any) -> Iterator[dict[str, Any]]:
    """The lines as they come, each written to the file at once with the command that made it."""
    for source in sources:
        for line in source:
            keep(path, {**line, "command": command})
            yield line


if __name__ == "__main__":
    main()
