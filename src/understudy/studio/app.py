"""The addresses of the studio, and what answers them.

The one rule: every request passes the gate (`security`) before it gets here, and every address that changes something
is a POST through `changing`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from understudy.studio import describing, fitting, judging, looking, opening, planning, sharing
from understudy.studio.folders import Folders
from understudy.studio.pages import Studio, not_found, templates
from understudy.studio.projects import Projects
from understudy.studio.security import Gate, Session

STATIC = Path(__file__).with_name("static")
FIT = "/p/{project}/fits/{fit}"
Handler = Callable[[Request], Awaitable[Response]]


def _get(path: str, handler: Handler) -> Route:
    return Route(path, handler, methods=["GET"])


def _post(path: str, handler: Handler) -> Route:
    return Route(path, handler, methods=["POST"])


ROUTES = [
    _get("/", opening.projects),
    _get("/open", opening.open_table),
    _post("/open", opening.open_path),
    _post("/open/example", opening.open_example),
    _post("/open/upload", opening.upload),
    _get("/compare", sharing.compare),
    _get("/p/{project}", opening.project),
    _post("/p/{project}/forget", opening.forget),
    _get("/p/{project}/describe", describing.describe),
    _post("/p/{project}/describe", describing.save),
    _post("/p/{project}/describe/check", describing.check),
    _get("/p/{project}/plan", planning.plan),
    _post("/p/{project}/plan", planning.keep),
    _post("/p/{project}/plan/preview", planning.preview),
    _post("/p/{project}/plan/cap", planning.cap),
    _get("/p/{project}/plan/curve", planning.curve),
    _get("/p/{project}/fit", fitting.confirm),
    _post("/p/{project}/fit", fitting.start),
    _get(FIT, fitting.progress),
    _post(f"{FIT}/stop", fitting.stop),
    _get(f"{FIT}/look", looking.look),
    _get(f"{FIT}/look/report", looking.report),
    _get(f"{FIT}/look/rows", looking.rows),
    _get(f"{FIT}/look/pictures", looking.pictures),
    _get(f"{FIT}/look/network", looking.network),
    _get(f"{FIT}/judge", judging.judge),
    _get(f"{FIT}/judge/page", judging.page),
    _post(f"{FIT}/judge/upload", judging.start),
    _post(f"{FIT}/judge/stop", judging.stop),
    _get(f"{FIT}/share", sharing.share),
    _post(f"{FIT}/share", sharing.draw),
    _get(f"{FIT}/share/{{file}}", sharing.download),
    Mount("/static", StaticFiles(directory=STATIC)),
]
"""Every address."""


def make(folders: Folders, session: Session) -> Starlette:
    """The application that sees these folders and obeys this session."""
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(Gate, session=session)],
        exception_handlers={HTTPException: not_found},
    )
    app.state.studio = Studio(folders=folders, projects=Projects(folders), session=session, templates=templates())
    return app
