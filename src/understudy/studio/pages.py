"""How a page answers: a template, a form that was checked, or one sentence that says what is wrong.

The one rule: no error shows a private value, in the browser or in the terminal (`core.refusal`).
"""

import asyncio
import dataclasses
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from understudy.core.refusal import is_debugging, refusal
from understudy.core.version import __version__
from understudy.studio.folders import Folders
from understudy.studio.projects import Fit, Project, ProjectError, Projects
from understudy.studio.security import Session

MOST_FIELDS = 40_000
"""Fields of a form: some fifteen for every column of a wide table."""
MOST_FILES = 100
"""Files of a form: the tables of a folder."""
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Studio:
    """What every page knows.

    Attributes:
        folders: What may be seen.
        projects: The projects in it.
        session: The secrets of this process.
        templates: The pages.
    """

    folders: Folders
    projects: Projects
    session: Session
    templates: jinja2.Environment


def studio_of(request: Request) -> Studio:
    return request.app.state.studio


def project_of(request: Request) -> Project:
    """The project that an address names."""
    return studio_of(request).projects[request.path_params["project"]]


def fit_of(request: Request) -> tuple[Project, Fit]:
    """The project and the fit that an address names."""
    project = project_of(request)
    return project, project.fit(request.path_params["fit"])


@functools.cache
def templates() -> jinja2.Environment:
    """The pages; what they show is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("understudy.studio", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"seconds": seconds, "plain": plain, "percent": lambda share: f"{100 * share:.1f} %"}
    environment.filters["begin"] = lambda text: text[:1].upper() + text[1:]
    return environment


def show(request: Request, template: str, *, code: int = 200, **content: Any) -> HTMLResponse:
    """A page."""
    studio = studio_of(request)
    known = {
        "csrf": studio.session.csrf,
        "version": __version__,
        "path": request.url.path,
        "project": None,
        "fit": None,
        "step": "",
        "root": str(studio.folders.root),
    }
    known |= content
    known["steps"] = steps_of(known["project"], known["fit"]) if known["project"] else []
    return HTMLResponse(studio.templates.get_template(template).render(**known), code)


def steps_of(project: Project, fit: Fit | None) -> list[tuple[str, str, str | None]]:
    """The way of a project: the key, the name and the address of every step; None if it is not yet to be had."""
    shown = fit if fit is not None and fit.is_done else next((each for each in project.fits() if each.is_done), None)
    home = f"/p/{project.name}"
    here = None if shown is None else f"{home}/fits/{shown.name}"
    ready = project.schema.is_file()
    steps = [("open", "Open", "/open"), ("describe", "Describe", f"{home}/describe" if ready else None)]
    steps += [(key, key.capitalize(), f"{home}/{key}" if ready else None) for key in ("plan", "fit")]
    return [*steps, *((key, key.capitalize(), here and f"{here}/{key}") for key in ("look", "judge", "share"))]


def go(address: str) -> RedirectResponse:
    """Leads on after a change."""
    return RedirectResponse(address, 303)


def reading(handler: Callable[[Request], Response]) -> Endpoint:
    """A page that changes nothing."""

    @functools.wraps(handler)
    async def page(request: Request) -> Response:
        return await _guarded(request, handler, request)

    return page


def changing(handler: Callable[[Request, FormData], Response]) -> Endpoint:
    """A page that changes something: the form must carry the token of our own pages."""

    @functools.wraps(handler)
    async def page(request: Request) -> Response:
        async with request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS) as form:
            if not studio_of(request).session.allows_change(form.get("csrf")):
                return _refused(request, "this form is not from the studio that runs now. Load the page again.", 403)
            return await _guarded(request, handler, request, form)

    return page


async def _guarded(request: Request, handler: Callable[..., Response], *arguments: Any) -> Response:
    try:
        return await run_in_threadpool(handler, *arguments)
    except (HTTPException, KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except ProjectError as error:
        return _refused(request, str(error), 404)
    except BaseException as error:  # a panic of polars is no Exception
        said = refusal(error, debugging=is_debugging())
        if said is None:
            raise
        return _refused(request, said, 500 if said.startswith("unexpected ") else 422)


def _refused(request: Request, said: str, status: int) -> Response:
    part = request.headers.get("hx-request") == "true"
    return show(request, "parts/refused.html" if part else "refused.html", code=status, said=sentence(said))


async def not_found(request: Request, error: Exception) -> Response:
    """What the router says of an address that is none, and of a body that is too long."""
    status = getattr(error, "status_code", 404)
    said = "there is no such page." if status == 404 else str(getattr(error, "detail", "this cannot be done."))
    return _refused(request, said, status)


def sentence(text: str) -> str:
    """A message with a capital letter, unless it begins with a name."""
    line = " ".join(text.split())
    return line[:1].upper() + line[1:] if re.match(r"[a-z]+[ ,:]", line) else line


# Small pieces -------------------------------------------------------------------------------------------------------


def seconds(number: float | None) -> str:
    """A time as people say it."""
    if number is None:
        return "an unknown time"
    if number < 90:
        return f"{max(number, 1):.0f} s"
    return f"{number / 60:.0f} min" if number < 5400 else f"{number / 3600:.1f} h"


def plain(number: float) -> str:
    """A number with as many digits as it needs."""
    return f"{number:,.0f}" if abs(number) >= 1000 and number == round(number) else f"{number:g}"


_STYLE = re.compile(r' style="max-width:(\d+)px;--least:\d+px"')


def without_style(drawn: Mapping[str, Any] | Markup) -> Markup:
    """A picture of the report without its inline style, which the studio's policy forbids."""
    return Markup(_STYLE.sub(r' width="\1"', str(drawn)))
