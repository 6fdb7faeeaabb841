"""Projects: each is a folder with a schema, a ledger and fits, and nothing is kept elsewhere.

The one rule: a project is its files. The studio remembers nothing that they do not say, so that the same folder works
with the command line, on another machine, and after the studio has ended.

    PROJECT/studio.json     where the table or folder lies, what the draft said of it, what was chosen last; no cell
    PROJECT/tables/         files that were dropped on the page, if any
    PROJECT/schema.toml     public facts
    PROJECT/ledger.jsonl    what was spent
    PROJECT/fits/FIT/       request.json, progress.json, outcome.json, schema.toml, model.understudy, rows, report
"""

import dataclasses
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import replacing
from understudy.studio.folders import Folders

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,59}")
"""Names of projects and fits: safe in an address and in every file system."""
CHOICES: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "method": "prada", "strict": False}


class ProjectError(ValueError):
    """There is no such project, fit or file."""


class FormError(ValueError):
    """What a form asks for cannot be done."""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one if there is none, or not a whole one."""
    try:
        content = json.loads(path.read_bytes().decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def slug(text: str) -> str:
    """A name that is safe in an address: small letters, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "table"


@dataclasses.dataclass(frozen=True)
class Fit:
    """One fit of a project, running or done.

    Attributes:
        name: Of its folder.
        folder: Where all of it lies.
    """

    name: str
    folder: Path

    @property
    def request(self) -> dict[str, Any]:
        """What was asked for: method, epsilon, delta, when."""
        return read_json(self.folder / "request.json")

    @property
    def model(self) -> Path:
        return self.folder / "model.understudy"

    @property
    def page(self) -> Path:
        return self.folder / "report.html"

    @property
    def is_done(self) -> bool:
        return self.model.is_file() and self.page.is_file()

    def numbers(self) -> dict[str, Any]:
        """The numbers of the report."""
        return read_json(self.folder / "report.json")

    @property
    def is_database(self) -> bool:
        """Whether several tables were fitted, or the persons of one have columns of their own."""
        return "keys" in self.numbers()

    @property
    def tables(self) -> dict[str, Path]:
        """The files of its synthetic rows by the names of their tables; of a single table, under no name."""
        several = sorted((self.folder / "rows-parquet").glob("*.parquet"))
        return {each.stem: each for each in several} or {"": self.folder / "rows.parquet"}

    @property
    def title(self) -> str:
        asked = self.request
        return f"{asked.get('method', '?')}, ε = {asked.get('epsilon', 0):g}"


@dataclasses.dataclass(frozen=True)
class Project:
    """One table, or several that hang together, on the way: see the head of this module.

    Attributes:
        name: Of its folder.
        folder: Where all of it lies.
    """

    name: str
    folder: Path

    @property
    def state(self) -> dict[str, Any]:
        return read_json(self.folder / "studio.json")

    def remember(self, **changed: Any) -> None:
        """Writes what was chosen."""
        write_json(self.folder / "studio.json", self.state | changed)

    @property
    def table(self) -> str:
        """The path of the table, as the person gave it."""
        return str(self.state.get("table", ""))

    @property
    def schema(self) -> Path:
        return self.folder / "schema.toml"

    @property
    def is_database(self) -> bool:
        """Whether it has several tables, as its schema says."""
        return "tables" in self.document

    @property
    def document(self) -> dict[str, Any]:
        """The schema as TOML holds it; empty if there is none yet, or none that can be read."""
        try:
            return tomllib.loads(self.schema.read_text("utf-8"))
        except (OSError, ValueError):
            return {}

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def choices(self) -> dict[str, Any]:
        """The budget and the method that were chosen last."""
        return CHOICES | self.state.get("choices", {})

    def fits(self) -> list[Fit]:
        """Every fit, the latest first."""
        places = (self.folder / "fits").glob("*/request.json")
        return sorted((Fit(each.parent.name, each.parent) for each in places), key=lambda fit: fit.name, reverse=True)

    def fit(self, name: str) -> Fit:
        """A fit by its name.

        Raises:
            ProjectError: There is none.
        """
        folder = self.folder / "fits" / name
        if not NAME.fullmatch(name) or folder.is_symlink() or not (folder / "request.json").is_file():
            raise ProjectError(f"{self.name} has no fit {name!r}.")
        return Fit(name, folder)


@dataclasses.dataclass(frozen=True)
class Projects:
    """All projects of a studio.

    Attributes:
        folders: What the studio may see; projects lie in its folder `studio`.
    """

    folders: Folders

    @property
    def home(self) -> Path:
        return self.folders.root / "studio"

    def all(self) -> list[Project]:
        """Every project, by name."""
        found = sorted(self.home.glob("*/studio.json"))
        return [Project(each.parent.name, each.parent) for each in found if self._is_ours(each.parent)]

    def __getitem__(self, name: str) -> Project:
        folder = self.home / name
        if not self._is_ours(folder) or not (folder / "studio.json").is_file():
            raise ProjectError(f"there is no project {name!r}.")
        return Project(name, folder)

    def new(self, title: str) -> Project:
        """A new project, in a folder of its own."""
        self.home.mkdir(exist_ok=True)
        self.folders.within(self.home)
        base = slug(title)
        for number in range(1, 1000):
            name = base if number == 1 else f"{base}-{number}"
            try:
                (self.home / name).mkdir()
            except FileExistsError:
                continue
            return Project(name, self.home / name)
        raise FormError(f"there are too many projects called {base!r}.")

    def _is_ours(self, folder: Path) -> bool:
        """Whether a folder is a project's own and no link to another place."""
        return bool(NAME.fullmatch(folder.name)) and not folder.is_symlink() and not self.home.is_symlink()
