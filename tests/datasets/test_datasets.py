"""Public tables: found in the right place, refused when they are not themselves, and as the paper has them."""

import contextlib
import datetime
import hashlib
import http.server
import importlib
import json
import os
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from understudy.datasets import public as datasets
from understudy.datasets.pinned import PinnedFile
from understudy.datasets.public import TABLES, DatasetError, PublicTable
from understudy.tables.table import read

TINY = pl.DataFrame({"size": [1.5, -2.0, 1e-7], "count": [3, 4, 5], "colour": ["red", None, "dark blue"]})
ARFF = """% a made-up table
@RELATION tiny

@ATTRIBUTE 'colour' {red, 'dark blue'}
@attribute\tsize REAL
@attribute "count" integer
@DATA
red,1.5,3
?, -2.0 ,4.0

% a remark
'dark blue',1e-07,5
"""


@pytest.fixture(autouse=True)
def empty_places(tmp_path, monkeypatch):
    """No folder, an empty cache, and nothing at the other end of the network."""
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("understudy.datasets.openml.API", "http://127.0.0.1:1/")


@pytest.fixture
def tiny(monkeypatch):
    table = PublicTable(
        openml=7,
        sha256=datasets.checksum(TINY),
        columns=("size", "count", "colour"),
        texts=("colour",),
        integers=("count",),
    )
    monkeypatch.setitem(TABLES, "tiny", table)


@pytest.fixture
def openml(monkeypatch):
    """A stand-in for OpenML on this machine: `serve(answers)` publishes {path: text}; it notes what was asked."""
    asked = []
    with contextlib.ExitStack() as stack:

        def serve(answers: dict[str, str]) -> list[str]:
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    asked.append(self.path)
                    body = answers.get(self.path)
                    self.send_response(404 if body is None else 200)
                    self.end_headers()
                    self.wfile.write((body or "").encode())

                def log_message(self, format, *args):
                    pass

            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            stack.callback(server.shutdown)
            base = f"127.0.0.1:{server.server_port}"
            monkeypatch.setattr("understudy.datasets.openml.API", f"http://{base}/data/")
            for path in [path for path in answers if path.endswith(".arff")]:
                # Described as https, to see that the scheme is that of the description.
                described = {"data_set_description": {"url": f"https://{base}{path}"}}
                answers[f"/data/{Path(path).stem}"] = json.dumps(described)
            return asked

        yield serve


def tiny_csv(folder: Path, frame: pl.DataFrame = TINY) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_csv(folder / "tiny.csv", null_value="?")
    return folder


# Where a table comes from -------------------------------------------------------------------------------------------


def test_the_folder_that_the_variable_names_comes_first(tiny, tmp_path, monkeypatch, openml):
    asked = openml({"/7.arff": ARFF})
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tiny_csv(tmp_path / "here")))
    tiny_csv(datasets.cache_folder(), TINY[:1])
    assert datasets.load("tiny").equals(TINY)
    assert asked == []


def test_the_cache_comes_second(tiny, tmp_path, monkeypatch, openml):
    asked = openml({"/7.arff": ARFF})
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    tiny_csv(datasets.cache_folder())
    assert datasets.load("tiny").equals(TINY)
    assert asked == []


def test_openml_comes_third_and_is_asked_once(tiny, openml):
    asked = openml({"/7.arff": ARFF})
    assert datasets.load("tiny").equals(TINY)
    assert datasets.load("tiny").equals(TINY)
    assert asked == ["/data/7", "/7.arff"]
    assert [path.name for path in datasets.cache_folder().iterdir()] == ["tiny.csv"]


def test_the_cache_is_in_the_home_folder_unless_told(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert datasets.cache_folder() == Path("/home/somebody/.cache/understudy")


def test_a_cache_that_cannot_be_written_does_not_lose_the_table(tiny, openml, tmp_path):
    openml({"/7.arff": ARFF})
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert datasets.load("tiny").equals(TINY)


def test_without_network_the_message_names_the_variable_the_file_and_the_cache(tiny):
    with pytest.raises(DatasetError) as caught:
        datasets.load("tiny")
    message = str(caught.value)
    for part in ("UNDERSTUDY_DATA", "not set", "tiny.csv", str(datasets.cache_folder()), "connection refused"):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "answers", [{}, {"/data/7": "[]"}, {"/data/7": "<html>"}, {"/data/7": '{"data_set_description": {}}'}]
)
def test_an_answer_that_is_none_says_where_else_to_put_the_file(tiny, openml, answers):
    openml(answers)
    with pytest.raises(DatasetError, match=r"OpenML cannot be asked: .*\. Put the file in one of the two\."):
        datasets.load("tiny")


def test_an_unknown_table_is_named_with_those_there_are():
    with pytest.raises(
        DatasetError,
        match=r"california, house_16h, .*, acs_income, got 'adlt'\. Did you mean 'adult'",
    ):
        datasets.load("adlt")
    with pytest.raises(DatasetError, match="got 'iris'"):
        datasets.schema("iris")


# Pinned files -------------------------------------------------------------------------------------------------------

WEATHER = "place,when,heat\nNA,2013-01-01T06:00:00Z,1\nJFK,2013-01-01T07:00:00Z,NA\n"
PARSED = pl.DataFrame(
    {
        "place": [None, "JFK"],
        "when": [datetime.datetime(2013, 1, 1, 6), datetime.datetime(2013, 1, 1, 7)],
        "heat": pl.Series([1, None], dtype=pl.Int64),
    }
)


@pytest.fixture
def pinned(monkeypatch):
    """A table whose file is pinned, and a repository without it."""
    file = PinnedFile(
        repository="a/b",
        commit="0" * 40,
        path="raw/weather.csv",
        sha256=hashlib.sha256(WEATHER.encode()).hexdigest(),
        missing="NA",
    )
    columns = ("place", "when", "heat")
    table = PublicTable(pinned=file, columns=columns, texts=("place",), integers=("heat",), instants=("when",))
    monkeypatch.setitem(TABLES, "tiny", table)
    monkeypatch.setattr("understudy.datasets.pinned.HOST", "http://127.0.0.1:1/")
    return file


def test_a_pinned_file_is_fetched_once_and_kept_as_it_is(pinned, openml, monkeypatch):
    asked = openml({f"/a/b/{pinned.commit}/raw/weather.csv": WEATHER})
    base = importlib.import_module("understudy.datasets.openml").API.removesuffix("data/")
    monkeypatch.setattr("understudy.datasets.pinned.HOST", base)
    assert datasets.load("tiny").equals(PARSED) and datasets.load("tiny").equals(PARSED)
    assert asked == [f"/a/b/{pinned.commit}/raw/weather.csv"]
    assert (datasets.cache_folder() / "tiny.csv").read_text() == WEATHER


def test_a_pinned_file_in_the_folder_comes_first_and_must_be_itself(pinned, tmp_path, monkeypatch):
    (tmp_path / "tiny.csv").write_text(WEATHER)
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    assert datasets.load("tiny").equals(PARSED)
    (tmp_path / "tiny.csv").write_text(WEATHER.replace(",1", ",2"))
    with pytest.raises(DatasetError, match=r"tiny\.csv: expected the content of tiny, which has another checksum"):
        datasets.load("tiny")


def test_a_pinned_file_without_network_says_where_else_to_put_it(pinned):
    with pytest.raises(
        DatasetError, match=r"tiny\.csv .* raw/weather\.csv of a/b at 0000000 cannot be fetched"
    ) as caught:
        datasets.load("tiny")
    assert "\n" not in str(caught.value)


def test_a_pinned_parquet_file_has_its_types(monkeypatch, tmp_path):
    frame = pl.DataFrame({"n": [1.0, None], "c": pl.Series(["a", "b"], dtype=pl.Categorical)})
    frame.write_parquet(tmp_path / "tiny.parquet")
    sha256 = hashlib.sha256((tmp_path / "tiny.parquet").read_bytes()).hexdigest()
    file = PinnedFile(repository="a/b", commit="0" * 40, path="tiny.parquet", sha256=sha256)
    monkeypatch.setitem(TABLES, "tiny", PublicTable(pinned=file, columns=("n", "c"), texts=("c",), integers=("n",)))
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    assert datasets.load("tiny").equals(pl.DataFrame({"n": [1, None], "c": ["a", "b"]}))


# A table is itself or is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [TINY[:2], TINY[[1, 0, 2]], TINY.with_columns(size=pl.Series([1.5, -2.0, 2e-7])), TINY.with_columns(colour=None)],
    ids=["a row less", "another order", "another value", "no colours"],
)
def test_a_file_with_other_content_is_refused(tiny, tmp_path, monkeypatch, changed):
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tiny_csv(tmp_path, changed)))
    with pytest.raises(DatasetError, match=r"tiny\.csv: expected the content of tiny, which has another checksum"):
        datasets.load("tiny")


def test_a_download_with_other_content_is_refused_and_not_kept(tiny, openml):
    openml({"/7.arff": ARFF.replace("1.5", "1.6")})
    with pytest.raises(DatasetError, match="OpenML's data set 7: expected the content of tiny"):
        datasets.load("tiny")
    assert not datasets.cache_folder().exists()


@pytest.mark.parametrize(
    "text", ["", "@data\n", ARFF.replace(",5", ""), ARFF.replace("size", "width"), ARFF.replace("@DATA", "")]
)
def test_a_download_that_is_not_the_table_s_arff_is_refused(tiny, openml, text):
    openml({"/7.arff": text})
    with pytest.raises(DatasetError, match="OpenML's data set 7: expected"):
        datasets.load("tiny")


def test_a_file_without_a_column_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tiny_csv(tmp_path, TINY.drop("count"))))
    with pytest.raises(DatasetError, match="there is no 'count'"):
        datasets.load("tiny")


def test_an_empty_file_is_refused(tiny, tmp_path, monkeypatch):
    (tmp_path / "tiny.csv").touch()
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"tiny\.csv cannot be read as CSV"):
        datasets.load("tiny")


def test_the_checksum_is_of_the_values_as_text():
    # printf 'size,count,colour\n1.5,3,red\n-2.0,4,\n1e-07,5,dark blue' | sha256sum
    assert datasets.checksum(TINY) == "9ee44f38a1c99b7647a5e3f372f75d53e2160ad44c30ea9b9565120f7f78af7b"


# Splits and schemas -------------------------------------------------------------------------------------------------


def test_a_split_has_every_row_once_and_is_that_of_its_number():
    frame = pl.DataFrame({"row": np.arange(11)})
    train, test = datasets.split(frame, 10)
    assert (len(train), len(test)) == (7, 4)
    assert sorted([*train["row"], *test["row"]]) == list(range(11))
    assert [*train["row"], *test["row"]] == list(np.random.default_rng(10).permutation(11))


TARGETS = {"weather": "temp", "acs_income": "Income"}
"""The targets that are not the last column."""


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_has_the_columns_of_its_table(name):
    table, schema = TABLES[name], datasets.schema(name)
    assert schema.names == tuple(column for column in table.columns if column not in table.dropped)
    assert schema.name == name and schema.target == TARGETS.get(name, schema.names[-1])
    assert all((column.kind == "categorical") == (column.name in table.texts) for column in schema)
    assert all(None not in (column.low, column.high) for column in schema if column.is_numeric)


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_without_bounds_has_none(name):
    schema = datasets.schema(name, bounds=False)
    assert all((column.low, column.high) == (None, None) for column in schema)
    assert schema.names == datasets.schema(name).names


# The tables themselves ----------------------------------------------------------------------------------------------

FOLDER = os.environ.get("UNDERSTUDY_DATA")
SHAPES = {
    **{"california": (20640, 8), "house_16h": (22784, 17), "cpu_act": (8192, 20), "adult": (48842, 15)},
    **{"bank": (45211, 17), "weather": (26115, 15), "acs_income": (295243, 32)},
}


@pytest.fixture
def here(request, monkeypatch):
    """The folder with the table that the test is about."""
    name = getattr(request, "param", "adult")
    if not FOLDER or not (Path(FOLDER) / f"{name}{TABLES[name].ending}").is_file():
        pytest.skip(f"UNDERSTUDY_DATA names no folder with {name}{TABLES[name].ending}")
    monkeypatch.setenv("UNDERSTUDY_DATA", FOLDER)
    return name


def for_tables(*names: str):
    return pytest.mark.parametrize("here", names, indirect=True)


@pytest.mark.dataset
@for_tables(*SHAPES)
def test_a_table_has_the_paper_s_shape_and_fits_its_schema(here):
    frame, schema = datasets.load(here), datasets.schema(here)
    assert frame.shape == SHAPES[here]
    assert tuple(frame.columns) == schema.names
    for column in schema:
        values = frame[column.name]
        assert column.nullable == (values.null_count() > 0)
        if column.is_numeric:
            assert values.drop_nulls().is_between(column.low, column.high).all()
        else:
            assert set(values.drop_nulls().unique()) <= set(column.values or ())


# Its table of data sets gives the narrowest and the widest range of each; House-16H's own narrowest is P18p2's 0.125.
@pytest.mark.parametrize(
    ("here", "narrow", "wide"),
    [
        ("california", ("MedHouseVal", 1.652), ("Population", 35679.0)),
        ("house_16h", ("P14p9", 0.512), ("P1", 7322562.0)),
        ("cpu_act", ("fork", 20.120), ("rchar", 2526371.0)),
    ],
    indirect=["here"],
)
@pytest.mark.dataset
def test_ranges_are_those_of_the_paper(here, narrow, wide):
    frame = datasets.load(here)
    ranges = {name: round(float(np.ptp(frame[name].to_numpy())), 3) for name in frame.columns}
    assert ranges[narrow[0]] == narrow[1]
    assert ranges[wide[0]] == wide[1] == max(ranges.values())
    assert min(ranges.values()) == (0.125 if here == "house_16h" else narrow[1])


@pytest.mark.dataset
@for_tables("california", "house_16h")
def test_targets_are_logarithms(here):
    target = datasets.schema(here).target
    assert target
    plain = pl.read_csv(Path(str(FOLDER)) / f"{here}.csv")[target].to_numpy()
    np.testing.assert_allclose(np.expm1(datasets.load(here)[target].to_numpy()), plain, rtol=1e-12, atol=1e-9)


@pytest.mark.dataset
@for_tables("adult")
def test_adult_has_uci_s_missing_values_and_parts(here):
    frame = datasets.load(here)
    missing = {name: count for name, count in frame.null_count().row(0, named=True).items() if count}
    assert missing == {"workclass": 2799, "occupation": 2809, "native-country": 857}
    assert len(frame) - len(frame.drop_nulls()) == 3620
    train, test = datasets.adult_parts()
    assert (len(train), len(test)) == (32561, 16281)
    assert pl.concat([train, test]).equals(frame)


@pytest.mark.dataset
@for_tables("adult")
def test_adult_s_own_file_can_be_read_with_its_schema(here):
    table = read(Path(str(FOLDER)) / "adult.csv", datasets.schema(here))
    assert table.exact_rows == 48842
    assert int((table.columns["occupation"] == -1).sum()) == 2809


def arff(frame: pl.DataFrame) -> str:
    """The frame as OpenML would write it."""
    header = "".join(f"@attribute {name} string\n" for name in frame.columns)
    return f"@relation made\n{header}@data\n" + frame.write_csv(include_header=False, null_value="?", quote_char="'")


@pytest.mark.dataset
@for_tables("california")
def test_openml_s_totals_become_california_s_averages(here, openml, monkeypatch):
    averages = datasets._read(here)
    households = (averages["Population"] / averages["AveOccup"]).round()
    totals = pl.DataFrame(
        {
            "median_house_value": (averages["MedHouseVal"] * 100_000).round(),
            "median_income": averages["MedInc"],
            "housing_median_age": averages["HouseAge"],
            "total_rooms": (averages["AveRooms"] * households).round(),
            "total_bedrooms": (averages["AveBedrms"] * households).round(),
            "population": averages["Population"],
            "households": households,
            "latitude": averages["Latitude"],
            "longitude": averages["Longitude"],
        }
    )
    monkeypatch.delenv("UNDERSTUDY_DATA")
    openml({"/537.arff": arff(totals)})
    assert datasets._read(here).equals(averages)


@pytest.mark.dataset
@for_tables("house_16h", "cpu_act")
def test_openml_s_columns_are_the_file_s(here, openml, monkeypatch):
    frame = datasets._read(here)
    monkeypatch.delenv("UNDERSTUDY_DATA")
    openml({f"/{TABLES[here].openml}.arff": arff(frame)})
    assert datasets._read(here).equals(frame)
    assert pl.read_csv(datasets.cache_folder() / f"{here}.csv").equals(frame)


@pytest.mark.dataset
@for_tables("adult")
def test_openml_s_adult_has_the_test_part_first(here, openml, monkeypatch):
    train, test = datasets.adult_parts()
    monkeypatch.delenv("UNDERSTUDY_DATA")
    openml({"/1590.arff": arff(pl.concat([test, train]).rename({"income": "class"}))})
    assert datasets.adult_parts()[0].equals(train)
    assert datasets.load(here).equals(pl.concat([train, test]))  # now from the cache
