"""URLs of databases: which database, which table or query, and what may be said about it.

The one rule: a password is never shown. What messages call a source is made of the parts of its URL that are no secret:
neither the password nor a parameter nor the text of a query is among them.

`sqlite:///x.db?table=visits` names a file relative to here, `sqlite:////data/x.db?table=visits` one by its whole path.
`?query=SELECT ...` stands in place of a table and is the last parameter.
"""

import dataclasses
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from understudy.core.text import did_you_mean
from understudy.tables.structure import TableError

SCHEMES = {"sqlite": "sqlite", "duckdb": "duckdb", "postgresql": "postgresql", "postgres": "postgresql"}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_EXAMPLE = "sqlite:///x.db?table=visits"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DatabaseURL:
    """A table or a query of a database. It may hold a password, so it does not show itself.

    Attributes:
        scheme: "sqlite", "duckdb" or "postgresql".
        location: The path of the file, or the URL to connect to.
        table: The name of the table; empty if there is a query.
        query: The query; empty if there is a table.
        name: What messages call it.
    """

    scheme: str
    location: str
    table: str
    query: str
    name: str

    @property
    def statement(self) -> str:
        """The query in SQL; a point in the name of a table stands between schema and table, except in SQLite."""
        if self.query:
            return self.query
        parts = [self.table] if self.scheme == "sqlite" else self.table.split(".")
        return "SELECT * FROM " + ".".join('"' + part.replace('"', '""') + '"' for part in parts)

    @property
    def title(self) -> str:
        """A short name for the table: its own, or that of the database."""
        return self.table or Path(self.location.partition("?")[0]).name.split(".")[0] or "table"


def is_url(source: object) -> bool:
    """Whether a source is a URL and not the path of a file."""
    return isinstance(source, str) and _URL.match(source) is not None


def parse(url: str) -> DatabaseURL:
    """The parts of a URL.

    Raises:
        TableError: It is not the URL of a database, or does not say which table.
    """
    written, _, rest = url.partition("://")
    scheme = SCHEMES.get(written.lower().partition("+")[0])  # postgresql+psycopg, as SQLAlchemy writes it
    if scheme is None:
        hint = did_you_mean(written.lower(), SCHEMES)
        raise TableError(f"expected a file or a URL of sqlite, duckdb or postgresql, got {written[:20]}://....{hint}")
    location, _, parameters = rest.partition("?")
    table, query, others = _parameters(parameters)
    name = f"{scheme}://{_without_secrets(scheme, location)}"
    if others and scheme != "postgresql":
        key = others[0].partition("=")[0]
        raise TableError(f"{name}: expected table or query as the parameter of the URL, got {key[:20]!r}.")
    if bool(table) == bool(query):
        raise TableError(f"{name}: expected one of ?table=NAME and ?query=SELECT ..., such as {_EXAMPLE}.")
    if scheme == "postgresql":
        location = f"postgresql://{location}" + (f"?{'&'.join(others)}" if others else "")
    else:
        location = unquote(location.removeprefix("/"))
        if not location:
            raise TableError(f"{name}: expected the path of a file, such as {_EXAMPLE}.")
    name += f", table {table!r}" if table else ", a query"
    return DatabaseURL(scheme=scheme, location=location, table=table, query=query, name=name)


def _parameters(text: str) -> tuple[str, str, list[str]]:
    """Table, query and the other parameters, as they are written."""
    table, others = "", []
    while text:
        if text.startswith("query="):
            query = text.removeprefix("query=")
            # Whoever writes spaces has not encoded anything: '%ab%' then is part of a LIKE.
            return table, (query if re.search(r"\s", query) else unquote(query)).strip().rstrip(";").strip(), others
        part, _, text = text.partition("&")
        if part.startswith("table="):
            table = unquote(part.removeprefix("table="))
        elif part:
            others.append(part)
    return table, "", others


def _without_secrets(scheme: str, location: str) -> str:
    """The place of a database without the password of a user."""
    if scheme != "postgresql":
        return location
    try:
        parts = urlsplit(f"postgresql://{location}")
        host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "..."
    user = f"{parts.username}@" if parts.username else ""
    return f"{user}{host}{parts.path}"
