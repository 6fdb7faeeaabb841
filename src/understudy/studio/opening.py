"""Projects, and opening a table: by its path, from a list, or by dropping it on the page."""

import shutil
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from understudy.studio import drafts, processes
from understudy.studio.folders import is_database_file
from understudy.studio.pages import changing, go, project_of, reading, show, studio_of
from understudy.studio.projects import FormError, Project
from understudy.studio.security import MOST_UPLOADED

EXAMPLE_ROWS = 5000
"""Simulated people in the example table."""


@reading
def projects(request: Request) -> Response:
    """All projects side by side, with what was spent and what runs."""
    found = [overview(project) for project in studio_of(request).projects.all()]
    return show(request, "projects.html", projects=found, step="projects")


def overview(project: Project) -> dict[str, Any]:
    """What the list says of a project: its fits, and its ledger."""
    fits = [{"fit": fit, "asked": fit.request, "status": processes.status(fit.folder)} for fit in project.fits()]
    return {"project": project, "table": project.table, "fits": fits, "account": account_of(project)}


def account_of(project: Project) -> dict[str, Any] | None:
    """What the ledger says of the project's tables together; None if there is no ledger yet."""
    if not project.ledger.is_file():
        return None
    from understudy.privacy.ledger_file import LedgerFile

    accounts = LedgerFile(project.ledger).accounts()
    return {"tables": accounts}


def others_of(request: Request, project: Project) -> list[tuple[str, float]]:
    """Other projects of the same table, or of the same name for it, and the ε that each has spent.

    Their ledgers do not know of each other, and what is spent on one table adds up.
    """
    mine = {project.table, project.document.get("name")}
    found = []
    for other in studio_of(request).projects.all():
        theirs = {other.table, other.document.get("name")}
        account = account_of(other) if other.name != project.name and mine & theirs else None
        if account is not None:
            found.append((other.name, sum(each.total.epsilon for each in account["tables"].values())))
    return found


@reading
def project(request: Request) -> Response:
    """One project: where its table lies, its steps, its fits and its ledger."""
    found = project_of(request)
    return show(request, "project.html", project=found, step="project", overview=overview(found))


@reading
def open_table(request: Request) -> Response:
    """The page for opening: a path, the tables of the folder alone or together, or a file to drop."""
    folders, where = studio_of(request).folders, request.query_params.get("in", "")
    inside, tables = folders.listed(where)
    together = sum(not is_database_file(Path(each)) for each in tables)
    inside = [each for each in inside if each != folders.shown(studio_of(request).projects.home)]
    parent = folders.shown(folders.within(where).parent) if where else None
    most = MOST_UPLOADED >> 20
    content = {"inside": inside, "tables": tables, "together": together, "where": where, "parent": parent}
    return show(request, "open.html", step="open", most=most, typed="", **content)


@changing
def open_path(request: Request, form: FormData) -> Response:
    """Opens a table, or a folder of tables, where it lies; nothing is copied."""
    studio = studio_of(request)
    table = studio.folders.source(str(form.get("path", "")))
    made = studio.projects.new(table.name.split(".")[0])
    return _drafted(made, table)


@changing
def open_example(request: Request, form: FormData) -> Response:
    """Simulated people, to try everything with: nobody is in that table."""
    from understudy.datasets import example, example_schema

    made = studio_of(request).projects.new("example")
    table = made.folder / "people.csv"
    example(EXAMPLE_ROWS).write_csv(table)
    answer = _drafted(made, table)
    example_schema().write(made.schema)
    return answer


@changing
def upload(request: Request, form: FormData) -> Response:
    """Keeps dropped files in the folder of a new project, and nowhere else; several are one database."""
    from understudy.tables.sources import extension

    given = [each for each in form.getlist("file") if isinstance(each, UploadFile) and each.filename]
    names = [Path(str(each.filename).replace("\\", "/")).name.lstrip(".") for each in given]
    if not given:
        raise FormError("choose a file first.")
    if len(set(names)) < len(names):
        raise FormError("two of these files have the same name. Rename one.")
    for name in names:
        extension(name)
    made = studio_of(request).projects.new("tables" if len(given) > 1 else names[0].split(".")[0])
    folder = made.folder / "tables"
    folder.mkdir()
    for name, each in zip(names, given, strict=True):
        with (folder / name).open("xb") as file:
            shutil.copyfileobj(each.file, file)
    return _drafted(made, folder if len(given) > 1 else folder / names[0])


def _drafted(made: Project, table: Path) -> Response:
    """Leads on to the description; a table that cannot be read leaves no project behind."""
    try:
        drafts.start(made, table, str(table))
    except BaseException:
        shutil.rmtree(made.folder)
        raise
    return go(f"/p/{made.name}/describe")


@changing
def forget(request: Request, form: FormData) -> Response:
    """Removes a fit that was stopped or refused from the list; the ledger keeps what it cost."""
    found = project_of(request)
    fit = found.fit(str(form.get("fit", "")))
    if fit.is_done:
        raise FormError("this fit is done. Remove its folder by hand if you do not need it.")
    processes.discard(fit.folder)
    return go(f"/p/{found.name}")
