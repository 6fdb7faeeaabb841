"""A visitor of the studio without a browser: asks the application itself, with the headers that a browser sends."""

import asyncio
import html
import re
from pathlib import Path
from typing import Any

import httpx

from understudy.studio.app import make
from understudy.studio.folders import Folders
from understudy.studio.projects import Project, write_json
from understudy.studio.security import Session
from understudy.studio.work import perform

PORT = 8000
HOME = f"http://127.0.0.1:{PORT}"
CANARY = "Zyzzyva of row seven"
"""A cell that no answer may ever show."""


def write_people(path: Path, rows: int = 240) -> Path:
    """A clean table: a whole number, a category with a canary among it, a number."""
    cells = [f"{20 + i % 60},{CANARY if i == 7 else 'mf'[i % 2]},{1000 + 7.5 * i:.1f}" for i in range(rows)]
    path.write_text("\n".join(["age,sex,income", *cells]) + "\n")
    return path


def write_clinic(folder: Path, patients: int = 120) -> Path:
    """Two tables, patients and their visits, with a canary among the wards."""
    folder.mkdir(parents=True)
    people = [f"P{i:04d},{'fm'[i % 2]},{18 + i * 7 % 70}" for i in range(patients)]
    (folder / "patients.csv").write_text("\n".join(["patient_id,sex,age", *people]) + "\n")
    wards = [CANARY if i == 7 else "ABC"[i % 3] for i in range(patients)]
    visits = [f"V{i}-{j},P{i:04d},{2015 + (i + j) % 8},{ward}" for i, ward in enumerate(wards) for j in range(i % 4)]
    (folder / "visits.csv").write_text("\n".join(["visit_id,patient_id,year,ward", *visits]) + "\n")
    return folder


class Visitor:
    """Somebody who talks to a studio that sees a folder.

    Args:
        folder: What the studio sees.
        known: Whether the visitor has come by the first address and so has the cookie.
    """

    def __init__(self, folder: Path, *, known: bool = True):
        self.session = Session.new(PORT)
        self.app = make(Folders.of(folder), self.session)
        self.studio = self.app.state.studio
        self.cookies = {self.session.cookie_name: self.session.cookie} if known else {}

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; headers that are given replace those of a browser, and None leaves one out."""
        headers = {"origin": HOME} if method == "POST" else {}
        headers |= options.pop("headers", {})
        kept = [(name, value) for name, value in headers.items() if value is not None]

        async def asking() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=HOME, cookies=self.cookies) as client:
                return await client.request(method, path, headers=kept, **options)

        return asyncio.run(asking())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def post(self, address: str, /, **fields: Any) -> httpx.Response:
        """A form of our own pages, with its token."""
        files = fields.pop("files", None)
        return self.ask("POST", address, data={"csrf": self.session.csrf, **fields}, files=files)

    def opened(self, name: str) -> Project:
        """The project that opening a table makes."""
        answer = self.post("/open", path=name)
        assert answer.status_code == 303, words(answer)
        return self.studio.projects[answer.headers["location"].split("/")[2]]


def words(answer: httpx.Response) -> str:
    """What a page says, without its marks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def form_of(page: str) -> dict[str, str]:
    """What a browser would send of the describing page, untouched."""
    found = dict(re.findall(r'<input id="[^"]*" name="([^"]+)"[^>]*? value="([^"]*)"', page))
    found |= dict(re.findall(r'<input type="hidden" name="((?:t\d+-)?(?:c\d+-)?name)" value="([^"]*)"', page))
    found |= dict(re.findall(r'<textarea id="[^"]*" name="([^"]+)"[^>]*>(.*?)</textarea>', page, re.DOTALL))
    for name, options in re.findall(r'<select id="[^"]*" name="([^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        found[name] = re.findall(r'value="([^"]*)" selected', options)[0]
    found |= {name: "yes" for name in re.findall(r'type="checkbox" name="([^"]+)" value="yes" checked', page)}
    return {name: html.unescape(value) for name, value in found.items()}


def fitted(project: Project, name: str = "20300101-000000-independent-1", **asked: Any) -> str:
    """A fit of a project that is done, made in this process; returns its address."""
    folder = project.folder / "fits" / name
    folder.mkdir(parents=True)
    (folder / "schema.toml").write_bytes(project.schema.read_bytes())
    request = {"task": "fit", "table": project.table, "ledger": str(project.ledger), "strict": False, "known": []}
    request |= {"method": "independent", "epsilon": 1.0, "delta": 1e-6, "rows": 120, "date": "2030-01-01 00:00"}
    write_json(folder / "request.json", request | asked)
    outcome = perform(folder)
    write_json(folder / "outcome.json", outcome | {"seconds": 1.0})
    assert outcome["state"] == "done", outcome
    return f"/p/{project.name}/fits/{name}"
