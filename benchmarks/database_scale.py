"""How long a fit of a large database takes, and how much memory: users and purchases made here, a process for each fit.

    python benchmarks/database_scale.py --users 2000000 --methods independent prada [--memory 2] [--engine ray]

Makes users with a region and a date, and their purchases, five each on average and at most thirty, with a date, a
number of things, an amount and a shop; nothing about anybody. Both tables are folders of Parquet files, and purchases
are in no order. Fits each method to the folder, and appends one line of JSON a fit to
benchmarks/results/database-scale/fits.jsonl: seconds, seconds of processor time, the load of the machine, the largest
memory of the process in MiB. The number of rows is in the schema, as of tables whose size is public.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us

RESULTS = Path(__file__).parent / "results" / "database-scale" / "fits.jsonl"
MOST, AVERAGE = 30, 5
ROWS_A_FILE, ROWS_A_GROUP = 2_000_000, 250_000
SCHEMA = """
name = "shops"
unit = "users"

[tables.users]
key = "user"
rows = {users}
columns.region = {{ kind = "categorical", values = ["north", "east", "south", "west"] }}
columns.since = {{ kind = "date", low = 2010-01-01, high = 2019-12-31 }}

[tables.purchases]
parent = "users"
foreign_key = "user"
max_per_parent = 30
order = "date"
rows = {purchases}
columns.date = {{ kind = "date", low = 2020-01-01, high = 2029-12-31 }}
columns.things = {{ kind = "integer", low = 1, high = 99 }}
columns.amount = {{ kind = "continuous", low = 0, high = 10000, decimals = 2 }}
columns.shop = {{ kind = "categorical" }}
"""


def make(folder: Path, users: int) -> int:
    """Writes the tables, and says how many purchases there are; what is there is left as it is."""
    (folder / "users").mkdir(parents=True, exist_ok=True)
    (folder / "purchases").mkdir(exist_ok=True)
    rows = 0
    for number, first in enumerate(range(0, users, ROWS_A_FILE // AVERAGE)):
        draw, many = np.random.default_rng(number), min(ROWS_A_FILE // AVERAGE, users - first)
        names = np.arange(first, first + many) * 7 % 10**9
        bought = np.minimum(draw.geometric(1 / AVERAGE, many), MOST)
        region = draw.integers(0, 4, many)
        since = np.datetime64("2010-01-01") + draw.integers(0, 3650, many)
        who = np.repeat(np.arange(many), bought)
        start, gap = draw.integers(0, 900, many), draw.integers(0, 90, len(who))
        before = np.cumsum(gap) - np.repeat(
            np.cumsum(gap)[np.cumsum(bought) - 1] - np.add.reduceat(gap, np.cumsum(bought) - bought), bought
        )
        things = np.minimum(1 + draw.poisson(1 + region[who]), 99)
        purchases = pl.DataFrame(
            {
                "user": names[who],
                "date": np.datetime64("2020-01-01") + np.minimum(start[who] + before, 3600),
                "things": things,
                "amount": np.round(things * draw.gamma(3.0, 5.0, len(who)), 2),
                "shop": pl.Series((region[who] + draw.integers(0, 3, len(who))) % 6).cast(pl.String),
            }
        ).sample(fraction=1.0, shuffle=True, seed=number)
        rows += purchases.height
        people = pl.DataFrame(
            {"user": names, "region": np.array(["north", "east", "south", "west"])[region], "since": since}
        )
        for table, frame in (("users", people), ("purchases", purchases)):
            path = folder / table / f"{number:05}.parquet"
            if not path.exists():
                frame.write_parquet(path, row_group_size=ROWS_A_GROUP, compression="lz4")
    return rows


def fit_once(
    folder: Path, users: int, purchases: int, method: str, engine: str, memory: float, frames: bool
) -> dict[str, object]:
    """Fits in this process and says what it took."""
    schema = us.DatabaseSchema.parse(SCHEMA.format(users=users, purchases=purchases))
    start = time.perf_counter()
    sources = {name: pl.read_parquet(folder / name) if frames else folder / name for name in schema.tables}
    us.fit(sources, schema, method, epsilon=1.0, seed=0, engine=engine, memory=memory, progress=False)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "users": users,
        "purchases": purchases,
        "method": method,
        "engine": engine,
        "memory_gib": memory,
        "given": "frames" if frames else "files",
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "load": round(os.getloadavg()[0], 1),
        "memory_mib": round(used.ru_maxrss / 1024),
        "version": us.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[200_000])
    parser.add_argument("--methods", nargs="+", default=["independent"])
    parser.add_argument("--engine", default="local")
    parser.add_argument("--memory", type=float, default=2.0)
    parser.add_argument("--frames", action="store_true", help="Read the tables first, so that they are joined at once.")
    parser.add_argument("--folder", type=Path, default=None, help="Where tables are made; a temporary folder if none.")
    parser.add_argument("--keep", action="store_true", help="Leave the tables there.")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once is not None:
        asked = given.folder, given.users[0], given.once, given.methods[0], given.engine, given.memory, given.frames
        print(json.dumps(fit_once(*asked)))
        return
    root = given.folder or Path(tempfile.mkdtemp(prefix="understudy-scale-"))
    given.results.parent.mkdir(parents=True, exist_ok=True)
    for users in given.users:
        folder = root / str(users)
        rows = make(folder, users)
        for method in given.methods:
            asked = ["--users", str(users), "--once", str(rows), "--methods", method, "--folder", str(folder)]
            asked += ["--engine", given.engine, "--memory", str(given.memory), *(["--frames"] * given.frames)]
            done = subprocess.run([sys.executable, __file__, *asked], check=True, capture_output=True, text=True)
            line = done.stdout.strip().splitlines()[-1]
            print(line, flush=True)
            with given.results.open("a") as file:
                file.write(line + "\n")
        if not given.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
