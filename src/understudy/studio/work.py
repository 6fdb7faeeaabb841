"""What takes long, in a process of its own: a fit, a judgement, a drawing of rows.

`python -m understudy.studio.work FOLDER` does what FOLDER/request.json asks for. It writes FOLDER/progress.json while
it works and FOLDER/outcome.json when it ends, whatever way it ends.

The one rule: it calls what the commands call. A fit is charged to the project's ledger before a row is read, and if it
is stopped after that, the outcome says that it stays charged.
"""

import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.refusal import refusal
from understudy.studio.projects import read_json, write_json

if TYPE_CHECKING:
    from understudy.databases.model import DatabaseModel
    from understudy.model import Model
    from understudy.synthesizers.progress import Expectation

PAUSE = 0.25
"""Seconds between two notes of progress at least."""
FITTED, AFTERWARDS = 0.9, 2.0
"""The part of the bar that the fit has, and the seconds that rows and report are expected to take after it."""
SEED = 0
"""Of the rows that a project shows: those of its report, so that both show the same."""


class Notes:
    """Writes down how far the work has come."""

    def __init__(self, folder: Path):
        self.path, self.latest = folder / "progress.json", 0.0

    def __call__(self, what: str, expected: "Expectation | None" = None, *, share: float | None = None) -> None:
        """Notes what is being done; too soon after the last note of a step, nothing."""
        now = time.monotonic()
        if expected is not None and now - self.latest < PAUSE:
            return
        self.latest = now
        far: dict[str, float] = {} if share is None else {"share": share}
        if expected is not None:
            far = {"share": FITTED * expected.share, "left": expected.left + AFTERWARDS}
        write_json(self.path, {"what": what, **far, "time": time.time()})


def fit(folder: Path, asked: dict[str, Any], note: Notes) -> None:
    """Fits a model, draws rows from it and writes its report."""
    from understudy.pipeline import fit as fit_model
    from understudy.report.page import report
    from understudy.synthesizers.progress import watched

    note("reading the table")
    with watched(note):
        model = fit_model(
            asked["table"],
            folder / "schema.toml",
            asked["method"],
            epsilon=asked["epsilon"],
            delta=asked["delta"],
            ledger=asked["ledger"],
            strict=asked["strict"],
        )
    try:
        note("writing the model", share=0.91)
        model.save(folder / "model.understudy")
        note("drawing rows", share=0.93)
        shown = asked.get("rows") or rows_shown(model)
        draw_rows(folder, model, shown, SEED)
        note("writing the report", share=0.96)
        of_page = None if _is_of_persons(model) else shown  # that page counts persons, and these are rows
        report(folder / "model.understudy", folder / "report.html", ledger=asked["ledger"], rows=of_page, seed=SEED)
    except KeyboardInterrupt as stop:
        stop.add_note("The fit was done and stays charged.")
        raise


def rows_shown(model: "Model | DatabaseModel") -> int:
    """How many rows are drawn after a fit, or units of a database: about as many as were fitted."""
    from understudy.databases.model import DatabaseModel
    from understudy.report.database import units_shown
    from understudy.report.page import MOST_ROWS
    from understudy.tables.unit_tables import ROWS

    if isinstance(model, DatabaseModel) and model.single is None:
        return units_shown(model)
    fitted = model.tables[ROWS].encoder if isinstance(model, DatabaseModel) else model.encoder
    return min(max(round(fitted.rows), 1), MOST_ROWS)


def _is_of_persons(model: "Model | DatabaseModel") -> bool:
    """Whether it is the model of one table whose persons have columns of their own."""
    return getattr(model, "single", None) is not None


def draw_rows(folder: Path, model: "Model | DatabaseModel", rows: int, seed: int, name: str = "rows") -> None:
    """Draws rows into a CSV and a Parquet file, each with a record of where they come from, as `sample` does.

    Of a database, the tables of so many units are drawn into a folder, and packed with their record.
    """
    import dataclasses

    from understudy.core.files import sha256
    from understudy.databases.model import DatabaseModel
    from understudy.databases.writing import pack, write_tables
    from understudy.report.provenance import write_record
    from understudy.tables.writing import write

    drawn = dataclasses.replace(model, kind="polars").sample(rows, seed)
    of_file = sha256((folder / "model.understudy").read_bytes())
    if isinstance(model, DatabaseModel) and model.single is None:
        for ending in (".csv", ".parquet"):
            place = folder / f"{name}{ending.replace('.', '-')}"
            write_tables(place, drawn, model, model_sha256=of_file, units=rows, seed=seed, ending=ending)
            pack(place, folder / f"{name}{ending.replace('.', '-')}.zip")
        return
    schema = model.single if isinstance(model, DatabaseModel) else model.schema
    for ending in (".csv", ".parquet"):
        path = folder / f"{name}{ending}"
        write(drawn, str(path), schema)
        write_record(path, model, model_sha256=of_file, rows=rows, seed=seed)


def draw(folder: Path, asked: dict[str, Any], note: Notes) -> None:
    """Draws as many rows as were asked for, into files to share."""
    from understudy.databases.model import load

    note(f"drawing {asked['rows']} {asked.get('of', 'rows')}")
    parent = folder.parent
    draw_rows(parent, load(parent / "model.understudy"), asked["rows"], asked["seed"], "synthetic")


def judge(folder: Path, asked: dict[str, Any], note: Notes) -> None:
    """Compares the rows of a fit with real rows, which no budget covers."""
    from understudy.report.page import report

    note("comparing with real rows")
    report(
        folder.parent / "model.understudy",
        folder / "judged.html",
        asked["real"],
        ledger=asked["ledger"],
        learners=asked["learners"],
        seed=SEED,
    )


TASKS = {"fit": fit, "draw": draw, "judge": judge}


def perform(folder: Path) -> dict[str, Any]:
    """Does what a folder asks for, and says how it ended."""
    asked = read_json(folder / "request.json")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "overflow encountered" would reveal that somebody's value is huge
            TASKS[asked["task"]](folder, asked, Notes(folder))
    except KeyboardInterrupt as stop:
        spent = getattr(stop, "__notes__", ["Nothing was charged."])
        return {"state": "stopped", "said": " ".join(["stopped. No file is half-written.", *spent])}
    except BaseException as error:  # a panic of polars is no Exception
        return {"state": "refused", "said": refusal(error)}
    return {"state": "done", "said": ""}


def main(folder: Path) -> None:
    """Performs, and writes the outcome."""
    begun = time.time()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcome = perform(folder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second request to stop must not lose the outcome of the first
    write_json(folder / "outcome.json", outcome | {"seconds": time.time() - begun, "process": os.getpid()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
