"""Reading is total: a cell becomes a value or missing by itself alone, whatever it is and wherever it came from.

Every property is checked on generated cells and counts them; together they read more than 20 000.
"""

import csv
import datetime
import decimal
import functools
import gzip
import io
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odd_cells import MOMENT, ODD, PARIS, TOKYO, Chatty, Colour, Hostile, NotText, objects, schema_of, values
from understudy.tables.cells import as_written
from understudy.tables.column import KINDS
from understudy.tables.structure import TableError
from understudy.tables.table import read

ANCHORS = {"continuous": "1", "integer": "1", "boolean": "true", "datetime": "2020-01-01", "categorical": "a"}
ANCHORS["date"] = "2020-01-01"
"""A cell that each kind can read, so that no column is refused for having none."""
NUMERIC = ("continuous", "integer", "boolean", "categorical")
TEXTUAL = ("boolean", "datetime", "date", "categorical")
TEMPORAL = ("datetime", "date", "categorical")


def without(found, place):
    return {name: cells[:place] + cells[place + 1 :] for name, cells in found.items()}


class Count:
    """Counts the cells that were read, and checks that nothing was printed meanwhile.

    `effort` multiplies the number of examples.
    """

    def __init__(self, capfd, effort):
        self.capfd, self.effort, self.cells = capfd, effort, 0
        capfd.readouterr()

    def examples(self, number):
        return settings(deadline=None, derandomize=True, max_examples=max(number * self.effort // 2, 3))

    def read(self, source, kinds, missing=()):
        found = values(source, kinds, missing)
        self.cells += sum(map(len, found.values()))
        return found

    def finish(self, at_least):
        """`at_least` follows from the number of examples and the least length of their lists."""
        assert self.capfd.readouterr() == ("", "")
        assert self.cells >= at_least * self.effort // 2


@pytest.fixture(params=[1, pytest.param(4, marks=pytest.mark.slow)], ids=["few", "many"])
def count(capfd, request):
    return Count(capfd, request.param)


# Objects in pandas ------------------------------------------------------------------------------------------------


def frame_of(cells):
    return pd.DataFrame({kind: objects([ANCHORS[kind], *cells]) for kind in KINDS})


def test_an_object_is_read_by_itself_alone(count):
    @functools.cache
    def alone(place):
        return without(count.read(frame_of([ODD[place]]), KINDS), 0)

    @given(st.lists(st.sampled_from(range(len(ODD))), min_size=15, max_size=40), st.sampled_from([(), ("?", "7")]))
    @count.examples(8)
    def check(places, missing):
        found = count.read(frame_of([ODD[place] for place in places]), KINDS, missing)
        fewer = count.read(frame_of([ODD[place] for place in places[1:]]), KINDS, missing)
        assert without(found, 1) == fewer
        if not missing:
            assert without(found, 0) == {kind: [alone(place)[kind][0] for place in places] for kind in KINDS}

    check()
    count.finish(at_least=800)


@pytest.mark.parametrize(
    ("cells", "more"),
    [
        (st.integers(-(2**53), 2**53), [None, "x", 0.5, True, 2**70, Hostile()]),
        (st.floats(), [None, "x", 1, True, decimal.Decimal("sNaN")]),
        (st.booleans(), [None, "x", 1, 0.5]),
        (st.sampled_from(["a", "1", "2020-01-01", "é", " x "]), [None, 1, 0.5, True, b"a", "\ud800", Colour.RED]),
        (st.sampled_from(list(Colour)), [None, 1, "a", Chatty()]),
        (st.datetimes(), [None, "x", 1, MOMENT.replace(tzinfo=PARIS), datetime.date(2020, 1, 1)]),
        (st.datetimes(timezones=st.just(PARIS)), [None, "x", MOMENT, MOMENT.replace(tzinfo=TOKYO), 1]),
        (st.dates(), [None, "x", 1, MOMENT]),
        (st.timedeltas(), [None, "x", 1]),
        (st.decimals(allow_nan=True, places=2), [None, "x", 1, 0.5]),
    ],
)
def test_a_type_that_pandas_infers_decides_nothing(count, cells, more):
    """One odd row turns the column into another type; the other rows are read as before."""

    @given(st.lists(cells, min_size=4, max_size=8), st.sampled_from(range(len(more))))
    @count.examples(4)
    def check(cells, place):
        expected = without(count.read(frame_of(cells), KINDS), 0)
        for column in ([*cells], [*cells, more[place]]):
            inferred = pd.Series(column) if len(column) == len(cells) else _inferred(column)
            assert_reads(count, inferred, expected)

    check()
    count.finish(at_least=100)


def assert_reads(count, column, expected):
    """What is expected of the first rows of a column, by kind, or a refusal if no cell of it can be read."""
    readable = [kind for kind in KINDS if any(cell is not None for cell in expected[kind])]
    found = count.read(pd.DataFrame(dict.fromkeys(readable, column)), readable) if readable else {}
    for kind in set(KINDS) - set(readable):
        try:
            found |= count.read(pd.DataFrame({kind: column}), [kind])
        except TableError as error:
            assert "no cell can be read" in str(error)
            found[kind] = expected[kind]
    for kind in KINDS:
        assert found[kind][: len(expected[kind])] == expected[kind]


def _inferred(column):
    try:
        return pd.Series(column)
    except Exception:  # pandas itself cannot hold it
        return objects(column)


# Types that a frame declares ---------------------------------------------------------------------------------------

EDGES = {bits: [0, 1, -1, 2 ** (bits - 1) - 1, 1 - 2 ** (bits - 1)] for bits in (32, 64)}
DAYS = st.sampled_from([*EDGES[32], -719162, -719163, 2932896, 2932897]) | st.integers(-(2**31), 2**31 - 1)
TICKS = st.sampled_from([*EDGES[64], -(2**63), 10**15, 253402300799999999, 253402300800000000]) | st.integers(
    -(2**63), 2**63 - 1
)
TEXTS = st.sampled_from(sorted({cell for cell in ODD if type(cell) is str and cell.isprintable()}, key=str)) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=8
)
DECIMALS = st.decimals(-(10**30), 10**30, allow_nan=False, allow_infinity=False, places=4)


def physical(dtype, storage):
    return lambda cells: pl.Series(cells, dtype=storage).cast(dtype)


def declared(dtype):
    return lambda cells: pl.Series(cells, dtype=getattr(pl, dtype) if isinstance(dtype, str) else dtype)


def bounds_of(bits, signed):
    return st.integers(-(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed) - 1)


ENUM = pl.Enum(sorted({*ANCHORS.values(), "?", "7", " é "}))
POLARS = {
    **{f"Int{bits}": (declared(f"Int{bits}"), bounds_of(bits, 1), 1, NUMERIC) for bits in (8, 16, 32, 64, 128)},
    **{f"UInt{bits}": (declared(f"UInt{bits}"), bounds_of(bits, 0), 1, NUMERIC) for bits in (8, 16, 32, 64)},
    "Float32": (declared(pl.Float32), st.floats(width=32), 1.0, NUMERIC),
    "Float64": (declared(pl.Float64), st.floats(), 1.0, NUMERIC),
    "Boolean": (declared(pl.Boolean), st.booleans(), True, NUMERIC),
    "Decimal": (declared(pl.Decimal(38, 4)), DECIMALS, decimal.Decimal(1), NUMERIC),
    "Date": (physical(pl.Date, pl.Int32), DAYS, 0, TEMPORAL),
    **{
        f"Datetime {unit} {zone}": (physical(pl.Datetime(unit, zone), pl.Int64), TICKS, 0, TEMPORAL)
        for unit in ("ms", "us", "ns")
        for zone in (None, "Asia/Tokyo")
    },
    "Time": (physical(pl.Time, pl.Int64), st.integers(0, 86_400 * 10**9 - 1), 0, ("categorical",)),
    "String": (declared(pl.String), TEXTS, None, TEXTUAL),
    "Categorical": (declared(pl.Categorical), TEXTS, None, TEXTUAL),
    "Enum": (declared(ENUM), st.sampled_from(["7", "?", " é ", "a"]), None, TEXTUAL),
    "Null": (declared(pl.Null), st.none(), None, KINDS),
}  # fmt: skip


def typed(name, cells):
    make, _, anchor, kinds = POLARS[name]
    anchors = ANCHORS if name in ("String", "Categorical", "Enum") else dict.fromkeys(kinds, anchor)
    return pl.DataFrame({kind: make([anchors[kind], *cells]) for kind in kinds})


@pytest.mark.parametrize("name", POLARS)
def test_a_cell_of_a_declared_type_is_read_by_itself_alone(count, tmp_path, name):
    """With and without one row, from polars, Parquet and pyarrow."""
    cells, kinds = POLARS[name][1], POLARS[name][3]
    file = tmp_path / "x.parquet"

    @given(st.lists(st.none() | cells, min_size=6, max_size=12), st.sampled_from([(), ("7", "1970-01-02")]))
    @count.examples(5)
    def check(cells, missing):
        frame = typed(name, cells)
        found = count.read(frame, kinds, missing)
        assert count.read(typed(name, cells[1:]), kinds, missing) == without(found, 1)
        frame.write_parquet(file)
        assert count.read(file, kinds, missing) == found
        if name != "Int128":  # which pyarrow does not have
            assert count.read(frame.to_arrow(), kinds, missing) == found

    check()
    count.finish(at_least=55)


REFUSED = {
    "List": pl.Series([[1], None]),
    "Array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
    "Struct": pl.Series([{"a": 1}, None]),
    "Binary": pl.Series([b"a", b"\xff"]),
    "Duration": pl.Series([datetime.timedelta(1), None]),
    "Object": pl.Series([Chatty(), NotText()], dtype=pl.Object),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_no_kind_accepts_is_refused_for_its_type(capfd, name, kind):
    for series in (REFUSED[name], REFUSED[name][:1]):
        with pytest.raises(TableError, match=f"column {kind!r}: expected .*, got the type {name}"):
            read(pl.DataFrame({kind: series}), schema_of([kind]))
    assert capfd.readouterr() == ("", "")


ARROWS = {
    **{f"timestamp {unit}": (pa.timestamp(unit), TICKS, TEMPORAL) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp {unit} zoned": (pa.timestamp(unit, "UTC"), TICKS, TEMPORAL) for unit in ("s", "ms", "us", "ns")},
    "date32": (pa.date32(), DAYS, TEMPORAL),
    "date64": (pa.date64(), TICKS, TEMPORAL),
    "time64": (pa.time64("ns"), TICKS, ("categorical",)),
    "dictionary": (pa.dictionary(pa.int8(), pa.int64()), st.integers(0, 9), NUMERIC),
}  # fmt: skip


def arrow(kind, cells):
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode()
    storage = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array([0, *cells], storage).view(kind)


@pytest.mark.parametrize("name", ARROWS)
def test_a_cell_of_pyarrow_is_read_by_itself_alone(count, name):
    kind, cells, kinds = ARROWS[name]

    @given(st.lists(st.none() | cells, min_size=6, max_size=12))
    @count.examples(4)
    def check(cells):
        cells = [1, *cells] if pa.types.is_dictionary(kind) else cells
        found = count.read(pa.table({each: arrow(kind, cells) for each in kinds}), kinds)
        fewer = count.read(pa.table({each: arrow(kind, cells[:-1]) for each in kinds}), kinds)
        assert fewer == {name: column[:-1] for name, column in found.items()}

    check()
    count.finish(at_least=40)


@pytest.mark.parametrize("kind", [pa.decimal256(60, 2), pa.list_(pa.int64()), pa.duration("s"), pa.binary()])
def test_a_type_of_pyarrow_that_no_kind_accepts_is_refused(capfd, kind):
    for each in KINDS:
        with pytest.raises(TableError, match="got the type"):
            read(pa.table({each: pa.nulls(2, kind)}), schema_of([each]))
    assert capfd.readouterr() == ("", "")


def test_short_decimals_of_pyarrow_are_numbers():
    column = pa.array([decimal.Decimal("1.50"), None]).cast(pa.decimal64(10, 2))
    assert values(pa.table(dict.fromkeys(NUMERIC[:2], column)), NUMERIC[:2]) == {
        "continuous": [1.5, None],
        "integer": [2, None],
    }


def test_text_of_pyarrow_that_is_not_utf8_is_missing(capfd):
    for kind in (pa.string(), pa.large_string()):
        size = pa.binary() if kind == pa.string() else pa.large_binary()
        column = pa.Array.from_buffers(kind, 4, pa.array([b"a", b"\xff\xfe", None, "é".encode()], size).buffers())
        assert values(pa.table({"categorical": column}), ["categorical"]) == {"categorical": ["a", None, None, "é"]}
    assert capfd.readouterr() == ("", "")


# Numbers that 16 bits hold, so that every type of floats has them.
HALVES = st.integers(-2048, 2048).map(lambda n: n / 16) | st.sampled_from(
    [0.0, -0.0, math.inf, -math.inf, math.nan, 65504.0, 2.0**-14, -(2.0**-24)]
)

PANDAS = {
    **{kind: st.integers(0, 127) for kind in ("int8", "uint8", "Int64", "UInt8", "Sparse[int64]", "int64[pyarrow]")},
    **{kind: HALVES for kind in ("float16", "float32", ">f8", "Float32", "longdouble", "Sparse[float64]")},
    **{kind: st.booleans() for kind in ("bool", "boolean")},
    **{kind: TEXTS for kind in ("str", "string[python]", "string[pyarrow]", "category", "object")},
    **{f"datetime64[{unit}]": TICKS for unit in ("s", "ms", "us", "ns")},
    **{f"datetime64[{unit}, Europe/Paris]": TICKS for unit in ("s", "ms", "us", "ns")},
    "complex128": st.complex_numbers(),
    "timedelta64[ns]": TICKS,
    "period[D]": st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)),
    "interval": st.integers(0, 9),
    "category of dates": st.dates() | st.none(),
    "category of numbers": st.integers() | st.floats() | st.none(),
}


def pandas_column(dtype, cells):
    if dtype.startswith(("datetime", "timedelta")):
        unit = dtype[dtype.index("[") + 1 : -1].split(",")[0]
        column = pd.Series(np.array(cells, dtype=np.int64).view(f"{dtype.partition('[')[0]}[{unit}]"))
        return column.dt.tz_localize("UTC") if "," in dtype else column
    if dtype == "interval":
        return pd.Series([pd.Interval(cell, cell + 1) for cell in cells])
    if dtype.startswith("category"):
        return pd.Series(pd.Categorical(objects(cells)))
    return pd.Series(cells, dtype=np.dtype(dtype) if dtype in (">f8", "longdouble") else dtype)


@pytest.mark.parametrize("dtype", PANDAS)
def test_a_cell_of_any_pandas_type_is_read_as_an_object_is(count, dtype):
    """A type of pandas is a faster way to the values that its cells have as objects."""

    @given(st.lists(PANDAS[dtype], min_size=8, max_size=12))
    @count.examples(3)
    def check(cells):
        column = pandas_column(dtype, cells)
        expected = without(count.read(frame_of(list(column.astype(object))), KINDS), 0)
        assert_reads(count, column, expected)
        assert_reads(count, column[1:], without(expected, 0))

    check()
    count.finish(at_least=110)


# The same cells from everywhere ------------------------------------------------------------------------------------


def written_csv(folder, columns, name="x.csv"):
    """A CSV file with every field in quotes."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    content = text.getvalue().encode()
    (folder / name).write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)
    return folder / name


def test_text_means_the_same_everywhere(count, tmp_path):
    """CSV, plain and packed, Parquet, polars, pandas and pyarrow; a column that is declared as text holds no number."""

    @given(st.lists(TEXTS, min_size=8, max_size=20), st.sampled_from([(), ("?", "7", "true", "2020-01-01")]))
    @count.examples(8)
    def check(cells, missing):
        columns = {kind: ["1970-01-01", *cells] if "date" in kind else ["1", *cells] for kind in KINDS}
        found = count.read(written_csv(tmp_path, columns), KINDS, missing)
        assert count.read(written_csv(tmp_path, columns, "x.csv.gz"), KINDS, missing) == found
        assert count.read(pd.DataFrame(columns, dtype=object), KINDS, missing) == found
        assert count.read(pd.DataFrame(columns), KINDS, missing) == found
        declared = pl.DataFrame({kind: columns[kind] for kind in TEXTUAL})
        declared.write_parquet(tmp_path / "x.parquet")
        for source in (declared, declared.to_arrow(), tmp_path / "x.parquet"):
            assert count.read(source, TEXTUAL, missing) == {kind: found[kind] for kind in TEXTUAL}
        fewer = {kind: column[:-1] for kind, column in columns.items()}
        assert count.read(written_csv(tmp_path, fewer), KINDS, missing) == {k: v[:-1] for k, v in found.items()}

    check()
    count.finish(at_least=1000)


def test_numbers_and_instants_mean_the_same_everywhere(count, tmp_path):
    """As declared types, as objects of Python, and as the text that a person would write."""
    zoned = st.datetimes(timezones=st.just(datetime.UTC))
    whole, fractions = st.integers(-(2**53), 2**53), st.floats(allow_nan=False)
    columns = [(NUMERIC, each) for each in (whole, fractions, st.booleans())]
    columns += [(TEMPORAL, each) for each in (st.datetimes(), zoned)]

    @given(st.sampled_from(columns), st.data())
    @count.examples(15)
    def check(column, data):
        kinds, each = column
        cells = data.draw(st.lists(each, min_size=6, max_size=12))
        cells = [type(cells[0])(1), *cells] if kinds == NUMERIC else cells
        frame = pl.DataFrame({kind: pl.Series(cells) for kind in kinds})
        found = count.read(frame, kinds)
        frame.write_parquet(tmp_path / "x.parquet")
        texts = [as_written(cell) for cell in cells]
        for source in (
            frame.to_arrow(),
            tmp_path / "x.parquet",
            written_csv(tmp_path, dict.fromkeys(kinds, texts)),
            pd.DataFrame(dict.fromkeys(kinds, pd.Series(cells))),
            pd.DataFrame(dict.fromkeys(kinds, objects(cells))),
        ):
            assert count.read(source, kinds) == found

    check()
    count.finish(at_least=1000)
