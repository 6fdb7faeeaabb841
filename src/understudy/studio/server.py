"""Runs the studio: on 127.0.0.1 alone, until Ctrl-C.

The one rule: the first page does not wait for what only later pages need. Large libraries are imported in the
background once the studio answers.
"""

import contextlib
import importlib
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Callable

import uvicorn
from starlette.applications import Starlette

from understudy.studio.app import make
from understudy.studio.folders import Folders
from understudy.studio.processes import status
from understudy.studio.security import Session

ADDRESS = "127.0.0.1"
LATER = ("understudy.tables.drafting.draft", "understudy.pipeline", "understudy.report.page")
"""What later pages need."""


class StudioError(ValueError):
    """The studio cannot be started."""


def bound(port: int) -> socket.socket:
    """A socket of this machine alone; with port 0, on a free port.

    Raises:
        StudioError: The port is taken, or there is none of this number.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((ADDRESS, port))
    except (OSError, OverflowError):
        made.close()
        raise StudioError(
            f"port {port} cannot be used. Is a studio running there? Choose another with --port."
        ) from None
    return made


def run(folder: str, port: int, *, ready: Callable[[str], None]) -> list[str]:
    """Serves the studio until it is interrupted; returns the folders of fits that go on.

    Args:
        folder: What it may see.
        port: Where it answers; 0 for any free port.
        ready: Is told the first address when the studio answers.
    """
    folders = Folders.of(folder)
    if not folders.root.is_dir():
        raise StudioError(f"--folder {folder}: there is no such folder.")
    tempfile.tempdir = str(folders.root)  # a dropped file that is being received stays within the folder, too
    with contextlib.closing(bound(port)) as listening:
        session = Session.new(listening.getsockname()[1])
        app = make(folders, session)
        app.router.lifespan_context = _greeting(lambda: ready(session.address))
        settings = uvicorn.Config(
            app,
            access_log=False,  # addresses hold the token and names of projects
            log_level="error",
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how a studio ends
            uvicorn.Server(settings).run(sockets=[listening])
        every = (fit.folder for project in app.state.studio.projects.all() for fit in project.fits())
        return [str(folder) for folder in every if status(folder).state == "running"]


def _greeting(greet: Callable[[], None]) -> Callable[[Starlette], contextlib.AbstractAsyncContextManager[None]]:
    """Greets when the studio starts to answer, and then imports what later pages need."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        listener = threading.Timer(0.05, greet)
        listener.daemon = True
        listener.start()
        importer = threading.Timer(0.5, _import_later)
        importer.daemon = True
        importer.start()
        yield

    return lifespan


def _import_later() -> None:
    for name in LATER:
        importlib.import_module(name)
