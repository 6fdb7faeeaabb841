"""Judging a fit against real rows, outside any budget.

The one rule: everything on this page is stamped as not covered, in the words of `understudy evaluate`.
"""

import shutil
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from understudy.studio import processes
from understudy.studio.looking import done, framed
from understudy.studio.pages import changing, go, reading, show, studio_of, without_style
from understudy.studio.projects import Fit, ProjectError, read_json


@reading
def judge(request: Request) -> Response:
    """What was found, or what to compare with."""
    from understudy.evaluation.evaluate import NOT_COVERED
    from understudy.evaluation.picture import draw_verdict
    from understudy.report.findings import tables_of

    project, fit = done(request)
    status, numbers = processes.status(_folder(fit)), judged(fit)
    utility = numbers.get("utility") if status.state == "done" else None
    found: dict[str, Any] = {"verdict": None, "findings": [], "drawn": None}
    if utility:
        verdict = utility["verdict"]
        found = {
            "verdict": verdict,
            "drawn": without_style(draw_verdict(verdict)),
            "findings": tables_of(verdict, utility["columns"]) if "columns" in utility else [],
        }
    part = request.headers.get("hx-request") == "true"
    content = {"status": status, "note": NOT_COVERED, "table": project.table, **found}
    name = "parts/judged.html" if part else "judge.html"
    return show(request, name, project=project, fit=fit, step="judge", **content)


@reading
def page(request: Request) -> Response:
    """The report with real rows, framed; its own stamp is at its top."""
    place = _folder(done(request)[1]) / "judged.html"
    if not place.is_file():
        raise ProjectError("nothing was judged yet.")
    return framed(place)


@changing
def start(request: Request, form: FormData) -> Response:
    """Compares with a file of the folder or with one that was dropped, in a process of its own."""
    project, fit = done(request)
    folder = _folder(fit)
    folder.mkdir(exist_ok=True)
    given = form.get("file")
    if isinstance(given, UploadFile) and given.filename:
        real = _kept(given, folder)
    else:
        real = studio_of(request).folders.source(str(form.get("path") or project.table))
    learners = None if form.get("learners") else []
    ledger = str(project.ledger) if project.ledger.is_file() else None
    processes.start(folder, {"task": "judge", "real": str(real), "learners": learners, "ledger": ledger})
    return go(f"/p/{project.name}/fits/{fit.name}/judge")


@changing
def stop(request: Request, form: FormData) -> Response:
    """Stops the comparison, which costs nothing."""
    project, fit = done(request)
    processes.stop(_folder(fit))
    return go(f"/p/{project.name}/fits/{fit.name}/judge")


def judged(fit: Fit) -> dict[str, Any]:
    """The numbers of the comparison with real rows, if there is one."""
    return read_json(_folder(fit) / "judged.json")


def _folder(fit: Fit) -> Path:
    return fit.folder / "judge"


def _kept(given: UploadFile, folder: Path) -> Path:
    """A dropped file in the folder of the fit, and nowhere else."""
    from understudy.tables.sources import extension

    place = folder / f"real{extension(str(given.filename))}"
    with place.open("wb") as file:
        shutil.copyfileobj(given.file, file)
    return place
