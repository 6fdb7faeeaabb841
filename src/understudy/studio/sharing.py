"""Sharing a fit: its files, and the commands that would have made them; and two fits side by side.

The one rule: nothing that no budget covers is offered here.
"""

import os
import secrets
import shlex
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from understudy.studio import processes
from understudy.studio.judging import judged
from understudy.studio.looking import columns_of, done
from understudy.studio.pages import changing, go, reading, show, studio_of, without_style
from understudy.studio.projects import Fit, FormError, Project, ProjectError, read_json
from understudy.studio.work import SEED

MOST_ROWS = 1_000_000
"""Rows that are drawn at a time; `understudy sample` draws any number."""
FILES = {
    "rows.csv": ("Synthetic rows, CSV", "for spreadsheets and everything else"),
    "rows.parquet": ("Synthetic rows, Parquet", "smaller, and with types"),
    "rows-csv.zip": ("Synthetic tables, CSV", "one file each, packed, and where they come from"),
    "rows-parquet.zip": ("Synthetic tables, Parquet", "smaller, and with types"),
    "synthetic.csv": ("More rows, CSV", "as many as you asked for"),
    "synthetic.parquet": ("More rows, Parquet", "likewise"),
    "synthetic-csv.zip": ("More units, CSV", "as many as you asked for, packed"),
    "synthetic-parquet.zip": ("More units, Parquet", "likewise"),
    "model.understudy": ("The model", "draws any number of rows, at no further cost"),
    "report.html": ("The report", "one page to read, print and sign"),
    "report.json": ("The report's numbers", "for programs; “understudy verify” checks them against the model"),
    "schema.toml": ("The schema", "the public facts that the fit was told"),
}
"""What can be downloaded, each with a sentence."""


@reading
def share(request: Request) -> Response:
    """The files, and how the command line would have made them."""
    project, fit = done(request)
    files = [
        {"name": name, "title": title, "about": about, "bytes": (fit.folder / name).stat().st_size}
        for name, (title, about) in FILES.items()
        if (fit.folder / name).is_file()
    ]
    content = {
        "files": files,
        "commands": commands(project, fit),
        "drawing": processes.status(_folder(fit)),
        "most": MOST_ROWS,
    }
    part = request.headers.get("hx-request") == "true"
    name = "parts/drawing.html" if part else "share.html"
    return show(request, name, project=project, fit=fit, step="share", **content)


@reading
def download(request: Request) -> Response:
    """One of the files, by its name in `FILES`."""
    project, fit = done(request)
    name = request.path_params["file"]
    place = fit.folder / name
    if name not in FILES or place.is_symlink() or not place.is_file():
        raise ProjectError("there is no such file.")
    return FileResponse(place, filename=f"{project.name}-{name}", content_disposition_type="attachment")


@changing
def draw(request: Request, form: FormData) -> Response:
    """Draws another number of rows, which costs nothing."""
    project, fit = done(request)
    typed = str(form.get("rows", "")).strip()
    if not typed.isascii() or not typed.isdigit() or not 1 <= int(typed) <= MOST_ROWS:
        raise FormError(f"expected a whole number of rows from 1 to {MOST_ROWS:,}.")
    asked = {"task": "draw", "rows": int(typed), "seed": secrets.randbits(63)}
    processes.start(_folder(fit), asked | ({"of": "units"} if project.is_database else {}))
    return go(f"/p/{project.name}/fits/{fit.name}/share")


def _folder(fit: Fit) -> Path:
    return fit.folder / "draw"


def commands(project: Project, fit: Fit) -> list[str]:
    """The command lines that would have done the same, from the folder of the fit."""
    asked, several = fit.request, project.is_database
    drawn, more = (
        read_json(fit.folder / (f"{name}-csv/sample.json" if several else f"{name}.csv.json"))
        for name in ("rows", "synthetic")
    )
    table, ledger = (os.path.relpath(path, fit.folder) for path in (asked["table"], asked["ledger"]))
    budget = f"--epsilon {asked['epsilon']:g} --delta {asked['delta']:g} --method {asked['method']}"
    strict = " --strict" if asked.get("strict") else ""
    place, number = ("{}-csv", "units") if several else ("{}.csv", "rows")
    shown = "" if fit.is_database and not several else f" -n {drawn.get(number, 0)}"
    found = [
        f"cd {shlex.quote(str(fit.folder))}",
        f"understudy schema draft {shlex.quote(table)} -o draft.toml   # then completed as schema.toml",
        "understudy schema check schema.toml",
        f"understudy plan schema.toml {budget}",
        f"understudy fit {shlex.quote(table)} schema.toml {budget}{strict} --ledger {shlex.quote(ledger)} "
        "-o model.understudy",
        f"understudy sample model.understudy -n {drawn.get(number, 0)} --seed {drawn.get('seed', SEED)} "
        f"-o {place.format('rows')}",
        f"understudy report model.understudy --ledger {shlex.quote(ledger)}{shown} -o report.html",
        "understudy verify report.json model.understudy",
    ]
    if more:
        found.append(
            f"understudy sample model.understudy -n {more[number]} --seed {more['seed']} -o {place.format('synthetic')}"
        )
    return found


# Two fits side by side ----------------------------------------------------------------------------------------------


@reading
def compare(request: Request) -> Response:
    """Two fits of any projects: what they promise, what they show and, if both were judged, how they did."""
    every = [
        (f"{project.name}/{fit.name}", project, fit)
        for project in studio_of(request).projects.all()
        for fit in project.fits()
        if fit.is_done
    ]
    keys = [key for key, _, _ in every]
    chosen = [request.query_params.get(side, "") for side in ("a", "b")]
    sides = [_side(*every[keys.index(key)][1:], place) for place, key in enumerate(chosen) if key in keys]
    shared = [name for name in sides[0]["pictures"] if name in sides[1]["pictures"]] if len(sides) == 2 else []
    options = [(key, f"{project.name}: {fit.title}, {fit.request.get('date', '')}") for key, project, fit in every]
    return show(
        request,
        "compare.html",
        step="compare",
        options=options,
        chosen=chosen,
        sides=sides if len(sides) == 2 else [],
        shared=shared,
    )


def _side(project: Project, fit: Fit, place: int) -> dict[str, Any]:
    """What is shown of one of the two."""
    from understudy.report import drawing

    numbers, utility = fit.numbers(), judged(fit).get("utility")
    columns, parents = columns_of(numbers), numbers.get("network", {}).get("parents")
    return {
        "project": project,
        "fit": fit,
        "privacy": numbers["privacy"],
        "rows": numbers["synthetic"]["rows"],
        "arrows": sum(map(len, parents.values())) if parents else 0,
        "seconds": processes.status(fit.folder).gone,
        "verdict": utility["verdict"] if utility else None,
        "pictures": {
            each["name"]: without_style(drawing.column(each, f"side-{place}-{number}"))
            for number, each in enumerate(columns)
        },
    }
