"""Fitting: says what will be charged, asks, and then shows how far it has come.

The one rule: nothing is charged without a confirmation that names the amount, and whatever ends a fit, the page says
what it cost by what the ledger says.
"""

import shutil
import threading
import time
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from understudy.studio import processes
from understudy.studio.opening import others_of
from understudy.studio.pages import changing, fit_of, go, project_of, reading, sentence, show, studio_of
from understudy.studio.planning import numbers_of
from understudy.studio.projects import Fit, FormError, Project

_ONE_AT_A_TIME = threading.Lock()
STARTING = 4.0
"""Seconds that a new process takes to import what it needs, and to draw rows and a report at the end."""


@reading
def confirm(request: Request) -> Response:
    """What will be charged, and to which ledger."""
    project = project_of(request)
    return show(request, "fit.html", **_page(request, project))


@changing
def start(request: Request, form: FormData) -> Response:
    """Starts the fit that was confirmed, in a process of its own."""
    project, choices = project_of(request), project_of(request).choices
    confirmed = (form.get("confirmed"), str(form.get("epsilon")), str(form.get("delta")), str(form.get("method")))
    wanted = ("yes", repr(choices["epsilon"]), repr(choices["delta"]), choices["method"])
    if confirmed != wanted:
        said = "nothing was charged. Confirm that this budget may be spent; it may have been changed in another window."
        return show(request, "fit.html", code=422, **_page(request, project, sentence(said)))
    with _ONE_AT_A_TIME:  # a second click finds the fit that the first has started, and charges nothing
        return _started(request, project, choices)


def _started(request: Request, project: Project, choices: Mapping[str, Any]) -> Response:
    """Leads to the fit that runs, or to a new one."""
    if (running := running_fit(project)) is not None:
        return go(f"/p/{project.name}/fits/{running.name}")
    table = studio_of(request).folders.source(project.table)
    planned = numbers_of(project, choices)
    if planned["refused"]:
        return go(f"/p/{project.name}/fit")
    fit = _new_fit(project, choices)
    shutil.copyfile(project.schema, fit.folder / "schema.toml")
    asked = {"task": "fit", "table": str(table), "ledger": str(project.ledger), **choices}
    asked["seconds"] = planned["plan"].seconds + STARTING
    processes.start(fit.folder, asked | {"known": sorted(_entries(project)), "date": time.strftime("%Y-%m-%d %H:%M")})
    return go(f"/p/{project.name}/fits/{fit.name}")


@reading
def progress(request: Request) -> Response:
    """How a fit stands; the page asks for this part again while it runs."""
    project, fit = fit_of(request)
    content = progress_of(project, fit)
    part = request.headers.get("hx-request") == "true"
    name = "parts/progress.html" if part else "progress.html"
    return show(request, name, project=project, fit=fit, step="fit", **content)


@changing
def stop(request: Request, form: FormData) -> Response:
    """Stops a fit; what it cost is on the page that follows."""
    project, fit = fit_of(request)
    processes.stop(fit.folder)
    return go(f"/p/{project.name}/fits/{fit.name}")


def progress_of(project: Project, fit: Fit) -> dict[str, Any]:
    """How a fit stands, and what it was charged."""
    status, asked = processes.status(fit.folder), fit.request
    charged = [record for record in _entries(project).values() if record["id"] not in asked.get("known", [])]
    mine = [record for record in charged if record["method"] == asked.get("method")][:1]
    return {"status": status, "asked": asked, "charged": mine[0] if mine else None, "said": sentence(status.said)}


def running_fit(project: Project) -> Fit | None:
    """The fit that is being made; one at a time, so that each knows what it was charged."""
    return next((fit for fit in project.fits() if processes.status(fit.folder).state == "running"), None)


def _entries(project: Project) -> dict[str, dict[str, Any]]:
    """The fits in the project's ledger, by id."""
    from understudy.privacy.ledger_file import LedgerFile

    if not project.ledger.is_file():
        return {}
    return {each["id"]: each for each in LedgerFile(project.ledger).records() if each["kind"] == "fit"}


def _new_fit(project: Project, choices: Mapping[str, Any]) -> Fit:
    """A folder for a new fit, named by the time and by what is asked for."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{choices['method']}-{choices['epsilon']:g}"
    folder = project.folder / "fits" / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FormError("another fit was started in this very second. Try again.") from None
    return Fit(name, folder)


def _page(request: Request, project: Project, wrong: str | None = None) -> dict[str, Any]:
    choices = project.choices
    content = {"project": project, "step": "fit", "choices": choices, "wrong": wrong, "running": running_fit(project)}
    content["others"] = others_of(request, project)
    return content | numbers_of(project, choices)
