"""Databases: a table or a query by its URL, read cell by cell, and no password anywhere."""

import datetime
import glob
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

import understudy as us
from bad_input import SECRET, assert_refused
from understudy.tables.column import Column
from understudy.tables.database_url import parse
from understudy.tables.schema import Schema
from understudy.tables.sources import public_name, title
from understudy.tables.structure import TableError
from understudy.tables.table import read

VISITS = Schema(
    name="visits",
    columns=(
        Column(name="age", kind="integer", nullable=True),
        Column(name="cost", kind="continuous", nullable=True),
        Column(name="ward", kind="categorical", nullable=True),
        Column(name="seen", kind="datetime", nullable=True),
        Column(name="new", kind="boolean", nullable=True),
    ),
)
ROWS = [
    (40, 12.5, "surgery", "2020-01-01", True),
    (None, None, None, None, None),
    (7, 0.1, "Zürich, 'B'", "2020-01-01 10:00:00", False),
]
START = 1_577_836_800e6
PASSWORD = "Sesame-Xyzzy"


def drafted(source):
    """The kinds of a draft; a date counts as an instant."""
    return {column.name: column.kind.replace("datetime", "date") for column in Schema.draft(source)}


def found(source, schema=VISITS):
    """What was read, by column; None is a missing cell."""
    table = read(source, schema)
    columns = {}
    for name, array in table.columns.items():
        labels = table.labels.get(name)
        values = array.tolist()
        columns[name] = [labels[code] if code >= 0 else None for code in values] if labels is not None else values
        columns[name] = [None if value != value else value for value in columns[name]]
    return columns


EXPECTED = {
    "age": [40, None, 7],
    "cost": [12.5, None, 0.1],
    "ward": ["surgery", None, "Zürich, 'B'"],
    "seen": [START, None, START + 36_000e6],
    "new": [1, None, 0],
}


@pytest.fixture
def sqlite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("x.db") as connection:
        connection.execute("CREATE TABLE visits (age, cost, ward, seen, new)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", ROWS)
        connection.execute('CREATE TABLE "odd name%20" AS SELECT * FROM visits')
    connection.close()
    return tmp_path / "x.db"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///x.db?table=visits",
        "sqlite:///{absolute}?table=visits",
        "SQLite:///x.db?table=odd%20name%2520",
        "sqlite:///x.db?query=SELECT * FROM visits",
        "sqlite:///x.db?query=SELECT%20*%20FROM%20visits;",
        "sqlite:///x.db?query=SELECT * FROM visits WHERE ward LIKE '%ur%' OR ward LIKE '%ri%' OR ward IS NULL",
    ],
)
def test_a_table_or_a_query_of_sqlite_is_read(sqlite, url):
    assert found(url.format(absolute=sqlite)) == EXPECTED


def test_a_cell_of_sqlite_is_read_by_itself(sqlite):
    with sqlite3.connect(sqlite) as connection:
        connection.execute("INSERT INTO visits VALUES ('x', 'inf', x'ff00', '12000-01-01', 'maybe')")
        connection.execute("INSERT INTO visits VALUES (9, 1e300, CAST(x'fffe' AS TEXT), '2020-13-01', 1)")
        connection.execute("INSERT INTO visits VALUES (9223372036854775807, '1e999', 'é', 5, 'no')")
    connection.close()
    columns = found("sqlite:///x.db?table=visits")
    assert {name: cells[:3] for name, cells in columns.items()} == EXPECTED
    assert columns["ward"][3:] == [None, None, "é"] and columns["seen"][3:] == [None, None, None]
    assert columns["new"][3:] == [None, 1, 0] and columns["age"][3:5] == [None, 9]


def test_names_that_come_twice_are_numbered(sqlite):
    schema = Schema(columns=(Column(name="age", kind="integer"), Column(name="age_2", kind="integer")))
    url = "sqlite:///x.db?query=SELECT age, age + 1 AS age FROM visits WHERE age > 0"
    assert found(url, schema) == {"age": [40, 7], "age_2": [41, 8]}


def test_a_database_is_not_written(sqlite):
    before = sqlite.read_bytes()
    for query in ("DELETE FROM visits", "DELETE FROM visits RETURNING *", "DROP TABLE visits"):
        with pytest.raises(TableError, match="the query cannot be run"):
            read(f"sqlite:///x.db?query={query}", VISITS)
    assert sqlite.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///x.db", ["sqlite:///x.db: expected one of ?table=NAME and ?query=SELECT"]),
        ("sqlite:///x.db?table=visits&query=SELECT 1", ["expected one of ?table"]),
        ("sqlite:///x.db?tabel=visits", ["'tabel'"]),
        ("sqlite://?table=visits", ["the path of a file"]),
        ("sqlite:///gone.db?table=visits", ["gone.db", "no such file"]),
        ("sqlite:///.?table=visits", ["it is a folder"]),
        ("sqlite:///x.db?table=visit", ["there is no table 'visit'"]),
        ("sqlite:///people.csv?table=visits", ["people.csv", "cannot be read as SQLite"]),
        ("sqlite:///x.db?query=SELEKT " + SECRET, ["a query: the query cannot be run"]),
        ("sqlite:///x.db?query=SELECT age FROM visits", ["has no column 'name'"]),
        ("sqlite:///x.db?query=SELECT 1 AS name, 2 AS age, 3 AS income, 4 AS more", ["'more'"]),
        ("sqlite:///x.db?query=SELECT 1 AS name, 2 AS age, 3 AS income WHERE 0", ["has no rows"]),
        (f"sqlite:///x.db?query=SELECT 1 AS name, '{SECRET}' AS age, 3 AS income", ["column 'age'", "no cell can"]),
        ("mysql://localhost/x?table=y", ["sqlite, duckdb or postgresql", "mysql://"]),
        ("https://example.org/x.csv", ["https://"]),
        ("postgre://x?table=y", ["Did you mean 'postgres"]),
        ("postgresql://me:Sesame@localhost:port/x?table=y", ["no connection"]),
        ("postgresql://me:Sesame@localhost:1/x?table=y&connect_timeout=1", ["me@localhost:1/x", "no connection"]),
        ("postgresql://me:Sesame@localhost:1/x?password=Sesame", ["expected one of ?table"]),
    ],
)
def test_a_wrong_url_is_refused_in_one_line_and_costs_nothing(place, monkeypatch, url, words):
    monkeypatch.chdir(place.folder)
    if url.startswith("postgresql://me:Sesame@localhost:") and "table=y" in url:
        pytest.importorskip("psycopg", reason="needs the extra 'files'")
    with sqlite3.connect("x.db") as connection:
        connection.execute("CREATE TABLE visits AS SELECT 40 AS age")
    connection.close()
    with place.untouched():
        result = place.fit("--ledger", place.folder / "budget.jsonl", data=url)
        assert_refused(result, *words)
        assert "Sesame" not in result[2]


def test_a_fit_and_a_draft_take_a_url(place, monkeypatch):
    monkeypatch.chdir(place.folder)
    with sqlite3.connect("x.db") as connection:
        connection.execute("CREATE TABLE visits (name, age, income)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", [("ann", 40 + n % 9, n) for n in range(200)])
    connection.close()
    assert place.fit(data="sqlite:///x.db?table=visits")[0] == 0
    assert len(us.load(place.model).sample(5)) == 5
    code, _, _ = place.run("schema", "draft", "sqlite:///x.db?table=visits", "-o", place.folder / "draft.toml")
    assert code == 0 and us.Schema.read(place.folder / "draft.toml").names == ("name", "age", "income")


@pytest.mark.parametrize(
    ("url", "name", "short"),
    [
        ("sqlite:///a/b.db?table=visits", "sqlite:///a/b.db, table 'visits'", "visits"),
        (f"sqlite:///b.db?query=SELECT '{SECRET}'", "sqlite:///b.db, a query", "b"),
        (f"postgres://me:{PASSWORD}@h:5/db?table=s.t", "postgresql://me@h:5/db, table 's.t'", "s.t"),
        (f"postgresql+psycopg://me:{PASSWORD}@h/db?table=t", "postgresql://me@h/db, table 't'", "t"),
        (f"postgresql://me@h/db?password={PASSWORD}&table=t", "postgresql://me@h/db, table 't'", "t"),
        (f"postgresql://me:{PASSWORD}@h/db?query=SELECT 1", "postgresql://me@h/db, a query", "db"),
        (f"postgresql://me:{PASSWORD}@[h/db?table=t", "postgresql://..., table 't'", "t"),
    ],
)
def test_what_a_url_is_called_holds_no_secret(url, name, short):
    assert (public_name(url), title(url)) == (name, short)
    assert PASSWORD not in repr(parse(url)) and SECRET not in repr(parse(url))


# DuckDB -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def duckdb_file(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb", reason="needs the extra 'files'")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("x.duckdb") as connection:
        connection.execute("CREATE TABLE visits (age INTEGER, cost DOUBLE, ward VARCHAR, seen TIMESTAMP, new BOOLEAN)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", ROWS)
        connection.execute("CREATE TABLE odd (age UTINYINT, cost DECIMAL(9, 2), ward VARCHAR[], seen DATE, new BLOB)")
        connection.execute("INSERT INTO odd VALUES (3, 1.50, ['a'], 'infinity', 'a'), (4, 2, NULL, '2020-01-01', NULL)")
        connection.execute("INSERT INTO odd VALUES (NULL, NULL, NULL, '12000-01-01', NULL)")
    return connection


def test_a_table_or_a_query_of_duckdb_is_read(duckdb_file):
    assert found("duckdb:///x.duckdb?table=visits") == EXPECTED
    assert found("duckdb:///x.duckdb?query=SELECT * FROM main.visits -- all of them") == EXPECTED
    zoned = "duckdb:///x.duckdb?query=SELECT * REPLACE (TIMESTAMPTZ '2020-01-01 02:00:00+02' AS seen) FROM visits"
    assert found(zoned)["seen"] == [START] * 3


def test_a_type_of_duckdb_without_a_kind_is_unreadable(duckdb_file):
    columns = found("duckdb:///x.duckdb?query=SELECT * REPLACE ('a' AS ward, true AS new) FROM odd")
    assert (columns["age"], columns["cost"], columns["seen"]) == ([3, 4, None], [1.5, 2, None], [None, START, None])
    with pytest.raises(TableError, match=r"column 'ward': expected text, .* and no cell can be read"):
        read("duckdb:///x.duckdb?table=odd", VISITS)


def test_a_wrong_query_of_duckdb_is_refused(duckdb_file, tmp_path):
    failing = f"SELECT '{SECRET}'::INTEGER AS age, cost, ward, seen, new FROM visits"
    for query in (failing, "DROP TABLE visits", "nonsense"):
        with pytest.raises(TableError, match="a query: the query cannot be run") as caught:
            read(f"duckdb:///x.duckdb?query={query}", VISITS)
        assert SECRET not in str(caught.value)
    (tmp_path / "y.duckdb").write_text("no database")
    with pytest.raises(TableError, match="cannot be read as DuckDB"):
        read("duckdb:///y.duckdb?table=visits", VISITS)


# PostgreSQL, with a server of its own -------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server():
    """The URL of a database `clinic` on a real server that asks for a password; the server ends with the tests."""
    psycopg = pytest.importorskip("psycopg", reason="needs the extra 'files'")
    folders = os.pathsep.join([os.environ["PATH"], *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)])
    tools = {name: shutil.which(name, path=folders) or "" for name in ("initdb", "pg_ctl", "postgres")}
    if not all(tools.values()):
        pytest.skip("needs PostgreSQL: initdb, pg_ctl and postgres")
    account = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="understudy-postgresql-"))
    (folder / "password").write_text(PASSWORD)
    if account:
        shutil.chown(folder, account)
        shutil.chown(folder / "password", account)
    port, data = free_port(), folder / "data"

    def run(*command):
        done = subprocess.run(command, cwd=folder, capture_output=True, user=account)
        assert done.returncode == 0, done.stderr.decode()

    try:
        run(tools["initdb"], "-D", data, "-U", "owner", "-A", "scram-sha-256", "--pwfile", folder / "password",
            "-E", "UTF8", "--locale", "C", "--no-sync")  # fmt: skip
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run(tools["pg_ctl"], "-D", data, "-w", "-l", folder / "log", "-o", settings, "start")
        try:
            yield from _filled(psycopg, port)
        finally:
            run(tools["pg_ctl"], "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _filled(psycopg, port):
    address = f"owner:{PASSWORD}@127.0.0.1:{port}"
    with psycopg.connect(f"postgresql://{address}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE clinic")
    with psycopg.connect(f"postgresql://{address}/clinic") as connection:
        connection.execute("CREATE TABLE visits (age int, cost float8, ward text, seen timestamp, new boolean)")
        for row in ROWS:
            connection.execute("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", row)
        connection.execute("CREATE SCHEMA other")
        connection.execute("CREATE TABLE other.visits AS TABLE visits")
        connection.execute("CREATE TABLE odd (age numeric, cost float8, ward text, seen date, new boolean)")
        connection.execute(
            "INSERT INTO odd VALUES (40, 'NaN', 'a', 'infinity', true), (41, '-Infinity', '', '0044-03-15 BC', false)"
        )
        connection.execute(
            "INSERT INTO odd VALUES ('NaN', 1, E'two\\nlines', '12000-01-01', NULL), (9, 2, NULL, '2020-01-01', NULL)"
        )
    yield f"postgresql://{address}/clinic"


def test_a_table_or_a_query_of_postgresql_is_read(server):
    assert found(f"{server}?table=visits") == found(f"{server}?table=other.visits") == EXPECTED
    assert found(f"{server}?connect_timeout=5&query=SELECT * FROM visits -- all of them") == EXPECTED
    zoned = f"{server}?query=SELECT age, cost, ward, '2020-01-01 02:00+02'::timestamptz AS seen, new FROM visits"
    assert found(zoned)["seen"] == [START] * 3
    assert drafted(f"{server}?table=visits") == {
        column.name: column.kind.replace("datetime", "date") for column in VISITS
    }


def test_a_cell_of_postgresql_is_read_by_itself(server):
    columns = found(f"{server}?table=odd")
    assert columns["age"] == [40, 41, None, 9] and columns["cost"] == [None, float("-inf"), 1, 2]
    assert columns["ward"] == ["a", None, "two\nlines", None] and columns["new"] == [1, 0, None, None]
    assert columns["seen"] == [None, None, None, START]
    text = Schema(columns=(Column(name="new", kind="categorical", nullable=True),))
    assert found(f"{server}?query=SELECT new FROM odd", text)["new"] == ["true", "false", None, None]


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("?table=visit", "there is no table 'visit'"),
        (f"?query=SELECT '{SECRET}'::int AS age", "the query cannot be run"),
        ("?query=DELETE FROM visits RETURNING *", "the query cannot be run"),
        ("?query=SELECT 1; DROP TABLE visits", "the query cannot be run"),
        ("x?table=visits", "no connection"),
    ],
)
def test_what_postgresql_refuses_is_refused_without_a_cell_or_a_password(server, rest, words):
    with pytest.raises(TableError, match=words) as caught:
        read(server + rest, VISITS)
    assert SECRET not in str(caught.value) and PASSWORD not in str(caught.value)
    assert caught.value.__suppress_context__
    assert found(f"{server}?table=visits") == EXPECTED


def test_a_wrong_password_is_not_shown(server):
    with pytest.raises(TableError, match=r"owner@127.0.0.1:.*no connection.*PGPASSWORD") as caught:
        read(server.replace(PASSWORD, "Open-Barley") + "?table=visits", VISITS)
    assert "Open-Barley" not in str(caught.value)


def test_a_fit_of_a_server_shows_the_password_nowhere(server, tmp_path, capfd):
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(n % 300) for n in range(200)]
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute("CREATE TABLE many (age int, cost float8, ward text, seen date, new boolean)")
        for n, day in enumerate(days):
            connection.execute("INSERT INTO many VALUES (%s, %s, %s, %s, %s)", (n % 90, n / 7, "a", day, n % 2 == 0))
    ledger = tmp_path / "budget.jsonl"
    model = us.fit(f"{server}?table=many", VISITS, "independent", epsilon=5.0, ledger=ledger)
    model.save(tmp_path / "m.understudy")
    shown = (
        str(model.receipt) + model.receipt.to_json() + repr(model) + ledger.read_text() + "".join(capfd.readouterr())
    )
    assert PASSWORD not in shown and PASSWORD.encode() not in (tmp_path / "m.understudy").read_bytes()
