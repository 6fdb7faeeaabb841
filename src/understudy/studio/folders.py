"""The folders that the studio may see, and nothing else of the machine.

The one rule: a path is followed to its end, through every `..` and every link, before it is judged. Hidden files and
folders are refused too, because keys and passwords lie there.
"""

import dataclasses
import os
from pathlib import Path

MOST_LISTED = 300
"""At most so many entries of a folder are listed."""


class OutsideError(ValueError):
    """The path is not within the folders that were chosen when the studio was started."""


@dataclasses.dataclass(frozen=True)
class Folders:
    """The chosen folder: tables are opened from it, and projects are kept below it.

    Attributes:
        root: The folder, followed to its end.
    """

    root: Path

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> "Folders":
        return cls(Path(os.path.realpath(folder)))

    def within(self, given: str | os.PathLike[str]) -> Path:
        """The end of a path, absolute or relative to the folder.

        Raises:
            OutsideError: It is outside, hidden, a URL, or no path at all.
        """
        text = os.fspath(given)
        if "://" in text:
            raise OutsideError("expected the path of a file, got a URL. Use the command line for databases.")
        try:
            path = Path(os.path.realpath(self.root / Path(text).expanduser()))
        except (ValueError, RuntimeError, OSError):
            raise OutsideError("expected the path of a file.") from None
        if not path.is_relative_to(self.root):
            raise OutsideError(
                f"{text} is not within {self.root}. Move it there, or start the studio with --folder for its folder."
            )
        if any(part.startswith(".") for part in path.relative_to(self.root).parts):
            raise OutsideError(f"{text} is hidden: the studio opens nothing whose name begins with a dot.")
        return path

    def table(self, given: str) -> Path:
        """A file that can hold a table.

        Raises:
            OutsideError, TableError: It is outside, is no file, or does not end like a table.
        """
        from understudy.tables.sources import extension  # not at the top: the first page does without
        from understudy.tables.structure import TableError

        path = self.within(given.strip())
        if not path.is_file():
            raise TableError(f"{given}: there is no such file.")
        extension(path)
        return path

    def source(self, given: str) -> Path:
        """What can be opened: a file that can hold a table, a folder of such files, or a database in a file.

        Every file of a folder that would be read is judged like one that was given by itself.

        Raises:
            OutsideError, TableError: It is outside, or there is no table.
        """
        from understudy.tables.structure import TableError

        path = self.within(given.strip())
        if is_database_file(path) and path.is_file():
            return path
        if not path.is_dir():
            return self.table(given)
        found = [self.within(each) for each in path.iterdir() if _is_table(each)]
        if len(found) < 2:
            raise TableError(f"{given}: expected a folder with several tables. Open a single one by its own path.")
        return path

    def listed(self, given: str = "") -> tuple[list[str], list[str]]:
        """The folders and the tables in a folder, as paths from the root, sorted; hidden ones are left out."""
        folder = self.within(given)
        if not folder.is_dir():
            raise OutsideError(f"{given}: there is no such folder.")
        folders, tables = [], []
        for entry in sorted(folder.iterdir(), key=lambda each: each.name.lower()):
            try:
                path = self.within(entry)
            except OutsideError:
                continue
            if path.is_dir():
                folders.append(self.shown(path))
            elif _is_table(path) or is_database_file(path):
                tables.append(self.shown(path))
        return folders[:MOST_LISTED], tables[:MOST_LISTED]

    def shown(self, path: Path) -> str:
        """A path as people see it: from the root."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def is_database_file(path: Path) -> bool:
    """Whether the name of a file ends like that of a database."""
    from understudy.tables.families import DATABASES

    return path.suffix.lower() in DATABASES


def _is_table(path: Path) -> bool:
    from understudy.tables.sources import extension
    from understudy.tables.structure import TableError

    try:
        extension(path)
    except TableError:
        return False
    return path.is_file()
