"""Dialects: what `Dialect.detect` finds in a file, and that reading obeys the schema's [file] and nothing else."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import examples
from small_tables import NAN, SECRET, assert_columns, saved
from understudy.tables.column import Column
from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.quotes import without_comments
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError, distinct_names
from understudy.tables.table import read
from understudy.tables.values import SchemaError

COLUMNS = (Column(name="ort", kind="categorical"), Column(name="kosten", kind="continuous", nullable=True))
EXPORT = Schema(columns=COLUMNS, file=Dialect(delimiter=";", encoding="latin-1", decimal=",", thousands="."))
TEXT = "ort;kosten\nMünchen;1.234,50\nKöln;12,00\nKöln;-0,5\nUlm;\n"
COSTS = [1234.5, 12, -0.5, NAN]

# Detection ----------------------------------------------------------------------------------------------------------

PLAIN = "a,b\nx,1\ny,2\n"
AMOUNTS = {"decimal": ",", "thousands": "."}
DETECTED = {
    "standard": (PLAIN, {}),
    "semicolons": (PLAIN.replace(",", ";"), {"delimiter": ";"}),
    "tabs": (PLAIN.replace(",", "\t"), {"delimiter": "\t"}),
    "bars": (PLAIN.replace(",", "|"), {"delimiter": "|"}),
    "commas in text": ("a;b\nx, y;1\nz;2\nu, v, w;3\n", {"delimiter": ";"}),
    "semicolons in text": ('a,b\n"x; y",1\n"z; u",2\n', {}),
    "one column": ("a\n1\n2\n", {}),
    "lines in a cell": ('a,b\n"x\ny",1\n"z",2\n', {}),
    "a mark of UTF-8": (PLAIN.encode("utf-8-sig"), {}),
    "UTF-8": (PLAIN.replace("x", "é"), {}),
    "UTF-16": (PLAIN.encode("utf-16"), {"encoding": "utf-16"}),
    "UTF-16 without a mark": (PLAIN.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "UTF-16 the other way": (PLAIN.encode("utf-16-be"), {"encoding": "utf-16-be"}),
    "Latin-1": (PLAIN.replace("x", "é").encode("latin-1"), {"encoding": "latin-1"}),
    "Windows-1252": (PLAIN.replace("x", "€").encode("cp1252"), {"encoding": "windows-1252"}),
    "euros behind": ("a;b\nx;1.234,50 €\ny;-2,25 €\n", AMOUNTS | {"delimiter": ";", "currency": "€"}),
    "euros before": ("a;b\nx;€ 1.234,50\ny;€ -2,25\n", AMOUNTS | {"delimiter": ";", "currency": "€"}),
    "dollars": ('a,b\nx,"$1,234.50"\ny,-$2.25\nz,\n', {"thousands": ",", "currency": "$"}),
    "a code of currency": (
        "a\tb\nx\tCHF 1'234.50\ny\tCHF 2.25\n",
        {"delimiter": "\t", "thousands": "'", "currency": "CHF"},
    ),
    "letters that are no currency": ("a,b\nx,A 12\ny,B 13\n", {}),
    "one amount among texts": ("a,b\nx,12 \ny,$ 13\nz,14\n", {}),
    "Latin-1 far down": ((PLAIN + (999 * "x" + ",1\n") * 1_100 + "é,1\n").encode("latin-1"), {"encoding": "latin-1"}),
    "a damaged letter": (PLAIN.encode() + ("é" * 50 + ",1\n").encode() + b"\xff,1\n", {}),
    "decimal commas": ("a;b\nx;1,5\ny;2,25\n", {"delimiter": ";", "decimal": ","}),
    "three decimals": ("a;b\nx;1,500\ny;2,250\n", {"delimiter": ";", "decimal": ","}),
    "quoted decimal commas": ('a,b\nx,"1,5"\ny,"2,25"\n', {"decimal": ","}),
    "points and commas": ("a;b\nx;1.234,5\ny;2,25\n", {"delimiter": ";", "decimal": ",", "thousands": "."}),
    "commas and points": ('a,b\nx,"1,234.5"\ny,2.25\n', {"thousands": ","}),
    "apostrophes": ("a;b\nx;1'234.5\ny;2.25\n", {"delimiter": ";", "thousands": "'"}),
    "narrow spaces": ("a;b\nx;1\u202f234,5\ny;2,25\n", {"delimiter": ";", "decimal": ",", "thousands": "\u202f"}),
    "dates with points": ("a;b\nx;16.02.1948\ny;01.03.1950\n", {"delimiter": ";"}),
    "codes with points": ("a;b\nx;J12.0\ny;I10.9\n", {"delimiter": ";"}),
    "single quotes": ("'a','b'\n'x, y',1\n'z',2\n", {"quote": "'"}),
    "inches": ('a\tb\n5" disk\t1\n8" disk\t2\n', {"delimiter": "\t", "quote": ""}),
    "comments": ("# made\n# today\na,b\nx,1\n", {"comment": "#"}),
    "a name with a mark": ("#a,b\nx,1\n", {}),
    "Excel's mark": ("sep=;\na;b\nx;1\n", {"delimiter": ";", "comment": "sep="}),
    "no header": ("x,1\ny,2\nx,3\n", {"header": False}),
    "no header, numbers": ("1,2\n3,4\n", {"header": False}),
    "no header, decimal commas": ("1,5;2\n3,5;4\n", {"delimiter": ";", "decimal": ",", "header": False}),
    "years as names": ("country,1990,2000\nx,1,2\ny,3,4\n", {}),
    "no text": (bytes(range(256)) * 9, {}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize("case", DETECTED)
def test_the_dialect_of_a_file_is_found(tmp_path, case):
    content, stated = DETECTED[case]
    path = saved(tmp_path, content, "x.csv")
    assert Dialect.detect(path).stated() == stated
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "x.csv.zst").write_bytes(zstandard.compress(path.read_bytes()))
    assert Dialect.detect(tmp_path / "x.csv.gz") == Dialect.detect(str(tmp_path / "x.csv.zst")) == Dialect(**stated)


def test_tabs_of_a_tsv_file_need_not_be_stated(tmp_path):
    assert Dialect.detect(saved(tmp_path, PLAIN.replace(",", "\t"), "x.tsv")) == STANDARD
    assert Dialect.detect(saved(tmp_path, PLAIN.replace(",", ";"), "y.tsv")).delimiter == ";"
    assert Dialect.detect(saved(tmp_path, PLAIN.replace(",", "\t"), "x.table.csv")).delimiter == "\t"
    schema = Schema(columns=(Column(name="a", kind="categorical"), Column(name="b", kind="integer")))
    for name, mark in {"x.table.csv": ",", "x.tsv.csv": ",", "x.TSV": "\t", "x.csv.tab.gz": "\t"}.items():
        content = PLAIN.replace(",", mark).encode()
        path = saved(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
        assert_columns(read(path, schema), {"a": [0, 1], "b": [1, 2]})


@pytest.mark.parametrize("name", ["gone.csv", ".", "cut.csv.gz", "a\0b.csv"])
def test_what_cannot_be_read_has_the_standard_dialect(tmp_path, name):
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(PLAIN.encode())[:-5])
    assert Dialect.detect(tmp_path / name) == STANDARD


@given(st.binary(max_size=300) | st.text(st.sampled_from("a1,.;\t|\"'# \n\r\0é€-"), max_size=80).map(str.encode))
@examples(30)
def test_no_byte_makes_detection_fail(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    assert isinstance(Dialect.detect(path), Dialect)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_what_was_detected_reads_the_file(tmp_path, delimiter, encoding):
    path = saved(tmp_path, TEXT.replace(";", delimiter).encode(encoding), "x.csv")
    table = read(path, Schema(columns=COLUMNS, file=Dialect.detect(path)))
    assert_columns(table, {"ort": [1, 0, 0, 2], "kosten": COSTS})
    assert table.labels == {"ort": ["Köln", "München", "Ulm"]}


# In a schema --------------------------------------------------------------------------------------------------------


def test_a_dialect_is_written_and_read_with_its_schema():
    text = EXPORT.to_toml()
    assert '[file]\ndelimiter = ";"\nencoding = "latin-1"\ndecimal = ","\nthousands = "."\n' in text
    assert Schema.parse(text) == EXPORT
    assert "[file]" not in Schema(columns=COLUMNS).to_toml()
    assert str(EXPORT).endswith("as a text file: delimiter ';', encoding 'latin-1', decimal ',', thousands '.'")
    assert "text file" not in str(Schema(columns=COLUMNS)) and str(STANDARD) == "in the standard form"
    assert Schema(columns=COLUMNS, file={"header": False}).file == Dialect(header=False)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("given", "canonical"),
    [("ISO-8859-1", "latin-1"), ("cp1252", "windows-1252"), ("UTF8", "utf-8"), ("utf_16", "utf-16")],
)
def test_an_encoding_goes_by_many_names(given, canonical):
    assert Dialect(encoding=given).encoding == canonical


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delimiter": ""}, "expected delimiter to be one ASCII character, got ''"),
        ({"delimiter": "ab"}, "expected delimiter to be one ASCII character"),
        ({"delimiter": "§"}, "expected delimiter to be one ASCII character"),
        ({"delimiter": "\n"}, "expected delimiter to be one ASCII character"),
        ({"delimiter": 3}, "expected delimiter to be text, got 3"),
        ({"quote": ","}, "expected quote to be one ASCII mark that is not the delimiter"),
        ({"quote": "q"}, "expected quote to be one ASCII mark"),
        ({"decimal": ";"}, r'expected decimal to be "\." or ","'),
        ({"thousands": "."}, "expected thousands to be .* not the decimal mark"),
        ({"thousands": "x"}, "expected thousands to be"),
        ({"currency": "EUR 1"}, "expected currency to be up to 8 visible characters"),
        ({"currency": "%"}, "expected currency to be up to 8 visible characters"),
        ({"currency": " "}, "expected currency to be up to 8 visible characters"),
        ({"currency": ","}, "expected currency to be up to 8 visible characters"),
        ({"currency": 5}, "expected currency to be text"),
        ({"comment": " #"}, "expected comment to be up to 8 visible characters"),
        ({"comment": ",#"}, "expected comment to be up to 8 visible characters"),
        ({"header": "yes"}, "expected header to be true or false"),
        ({"encoding": "utf-7"}, "expected encoding to be one of utf-8, .* Did you mean 'utf-8'"),
        ({"delimeter": ";"}, "unknown key 'delimeter'. Did you mean 'delimiter'"),
    ],
)
def test_a_wrong_dialect_is_refused(fields, message):
    with pytest.raises(SchemaError, match=f"^file: {message}"):
        Schema(columns=COLUMNS, file=fields)
    with pytest.raises(SchemaError, match=r"^file: expected a table \[file\]"):
        Schema(columns=COLUMNS, file=3)  # pyright: ignore[reportArgumentType]


# Reading ------------------------------------------------------------------------------------------------------------


def test_a_file_is_read_in_the_dialect_of_the_schema(tmp_path):
    table = read(saved(tmp_path, TEXT.encode("latin-1"), "x.csv"), EXPORT)
    assert_columns(table, {"ort": [1, 0, 0, 2], "kosten": COSTS})
    with pytest.raises(TableError, match="reads as one column"):
        read(tmp_path / "x.csv", Schema(columns=COLUMNS))


def test_a_file_in_the_standard_form_is_read_whatever_the_dialect(tmp_path):
    """Such is what `sample` writes, so that a synthetic file can be evaluated beside the real one."""
    standard = "ort,kosten\nMünchen,1234.50\nKöln,12.00\nKöln,-0.5\nUlm,\n"
    for dialect in (EXPORT.file, Dialect(delimiter=";", encoding="utf-16", quote=""), Dialect(comment="#")):
        schema = dataclasses.replace(EXPORT, file=dialect)
        assert_columns(read(saved(tmp_path, standard, "x.csv"), schema), {"ort": [1, 0, 0, 2], "kosten": COSTS})
        tabbed = saved(tmp_path, standard.replace(",", "\t"), "x.tsv")
        assert_columns(read(tabbed, schema), {"ort": [1, 0, 0, 2], "kosten": COSTS})


@pytest.mark.parametrize("dialect", [Dialect(header=False, delimiter="|"), Dialect(header=False, decimal=",")])
def test_what_sample_writes_is_recognised_without_a_header_where_no_budget_is_at_stake(tmp_path, dialect):
    columns = (Column(name="column_2", kind="integer"), Column(name="column_4", kind="integer"))
    schema = Schema(columns=columns, ignore=("column_1", "column_3"), file=dialect)
    path = saved(tmp_path, "column_2,column_4\n1,2\n3,4\n", "x.csv")
    assert_columns(read(path, schema, covered=False), {"column_2": [1, 3], "column_4": [2, 4]})
    with pytest.raises(TableError, match=r"reads as one column|every cell is missing"):
        read(path, schema)


def test_points_are_recognised_where_no_budget_is_at_stake(tmp_path):
    schema = Schema(columns=COLUMNS, file=Dialect(decimal=","))
    real = saved(tmp_path, 'ort,kosten\nUlm,"1,5"\nUlm,"0,25"\n', "x.csv")
    made = saved(tmp_path, "ort,kosten\nUlm,1.5\nUlm,0.25\n", "y.csv")
    for path in (real, made):
        assert_columns(read(path, schema, covered=False), {"ort": [0, 0], "kosten": [1.5, 0.25]})
    with pytest.raises(TableError, match="no cell can be read"):
        read(made, schema)


def test_letters_of_utf_8_are_recognised_where_no_budget_is_at_stake(tmp_path):
    schema = Schema(columns=COLUMNS, file=Dialect(encoding="latin-1"))
    path = saved(tmp_path, "ort,kosten\nKöln,1\n", "x.csv")
    assert read(path, schema, covered=False).labels == {"ort": ["Köln"]}
    assert read(path, schema).labels == {"ort": ["KÃ¶ln"]}
    latin = saved(tmp_path, "ort,kosten\nKöln,1\n".encode("latin-1"), "y.csv")
    assert read(latin, schema, covered=False).labels == read(latin, schema).labels == {"ort": ["Köln"]}


@pytest.mark.parametrize(
    ("dialect", "cells", "numbers"),
    [
        ({"decimal": ","}, ["1,5", "1.5", "2", "-,5", "1,", "1e3", "true", "inf", "x", "1,2,3"],
         [1.5, NAN, 2, -0.5, 1, 1000, 1, np.inf, NAN, NAN]),
        ({"decimal": ",", "thousands": "."}, ["1.234,5", "1.5", "1.234.567", "12.34", "1234,5", "+1.000", "0.123"],
         [1234.5, NAN, 1234567, NAN, 1234.5, 1000, 123]),
        ({"thousands": "'"}, ["1'234.5", "1’234", "1'23", "12'345'678", "1,5"], [1234.5, 1234, NAN, 12345678, NAN]),
        ({"thousands": " "}, ["1 234.5", "1\u00a0234", "1\u202f234", "1 2"], [1234.5, 1234, 1234, NAN]),
        ({"currency": "$"}, ["$5", "-$5", "$ -5", "5 $", "+5", "$", "$5$", "5$5", "-$ 5 %"],
         [5, -5, -5, 5, 5, NAN, NAN, NAN, -5]),
        ({"currency": "EUR", "decimal": ",", "thousands": "."}, ["EUR 1.234,5", "1,5\u00a0EUR", "1.234 €", "EURO 5"],
         [1234.5, 1.5, NAN, NAN]),
        ({"thousands": ","}, ["1,00,000", "1,000", "10,00", "5 %"], [100_000, 1000, NAN, 5]),
    ],
)  # fmt: skip
def test_marks_in_numbers_are_read_cell_by_cell(tmp_path, dialect, cells, numbers):
    schema = Schema(
        columns=(Column(name="x", kind="continuous"), Column(name="y", kind="categorical")),
        file=Dialect(delimiter=";", **dialect),
    )
    path = saved(tmp_path, "x;y\n" + "".join(f"{cell};{cell}\n" for cell in cells), "x.csv")
    table = read(path, schema)
    assert_columns(table, {"x": numbers, "y": table.columns["y"]})
    assert set(table.labels["y"]) == {cell.strip() for cell in cells}  # marks in text stay
    for place, cell in enumerate(cells):
        alone = read(saved(tmp_path, f"x;y\n7;a\n{cell};b\n", "y.csv"), schema)
        np.testing.assert_array_equal(alone.columns["x"], [7, numbers[place]])


def test_undefined_bytes_of_windows_are_letters(tmp_path):
    schema = Schema(columns=(Column(name="x", kind="categorical"),), file=Dialect(encoding="windows-1252"))
    table = read(saved(tmp_path, b"x\n5 \x80\n\x81\x8d\n", "x.csv"), schema)
    assert table.labels["x"] == ["5 €", "\x81\x8d"]


def test_half_a_letter_of_utf_16_is_a_letter_of_its_cell(tmp_path):
    schema = Schema(columns=(Column(name="x", kind="categorical"),), file=Dialect(encoding="utf-16"))
    text = "x\na\ud83d\nb\n\ude00\n\ud83d\ude00\n".encode("utf-16-le", "surrogatepass")
    table = read(saved(tmp_path, b"\xff\xfe" + text, "x.csv"), schema)
    assert table.labels["x"] == ["a\ufffd", "b", "\ufffd", "😀"]
    with pytest.raises(TableError, match="expected UTF-16 text"):
        read(saved(tmp_path, b"\xff\xfe" + text[:-1], "x.csv"), schema)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_byte_order_mark_comes_before_the_schema(tmp_path, mark):
    text = "ort;kosten\nKöln;1\n"
    content = mark + text.encode("utf-8" if len(mark) == 3 else "utf-16-le")
    assert read(saved(tmp_path, content, "x.csv"), EXPORT).labels == {"ort": ["Köln"]}


def test_columns_without_names_are_numbered(tmp_path):
    columns = (Column(name="column_2", kind="integer"), Column(name="column_1", kind="categorical"))
    schema = Schema(columns=columns, ignore=("column_3",), file=Dialect(header=False))
    path = saved(tmp_path, "a,1,x\nb\nc,3,y,more\n", "x.csv")
    assert_columns(read(path, schema), {"column_2": [1, NAN, 3], "column_1": [0, 1, 2]})
    named = saved(tmp_path, "column_1,column_2,column_3\na,1,x\nb,2,x\n", "y.csv")
    assert_columns(read(named, schema), {"column_2": [1, 2], "column_1": [0, 1]})
    with pytest.raises(TableError, match="reads as one column"):
        read(saved(tmp_path, f"a;1;{SECRET}\n", "z.csv"), schema)
    for name in ("age", "column_0", "column_01", "column_1000000"):
        with pytest.raises(TableError, match=f"has no header.*the schema names '{name}'"):
            read(path, Schema(columns=(Column(name=name, kind="integer"),), file=Dialect(header=False)))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b", "a"], ["a", "b", "a_2"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
        (["", "a", " "], ["column_1", "a", "column_3"]),
        (["column_2", ""], ["column_2", "column_2_2"]),
    ],
)
def test_names_are_told_apart_by_the_header_alone(names, expected):
    assert distinct_names(names) == expected


def test_a_name_that_comes_twice_is_numbered(tmp_path):
    columns = (Column(name="a", kind="integer"), Column(name="a_2", kind="integer"))
    path = saved(tmp_path, "a,b,a\n1,2,3\n4,5,6\n", "x.csv")
    assert_columns(read(path, Schema(columns=columns, ignore=("b",))), {"a": [1, 4], "a_2": [3, 6]})


def test_comments_are_no_rows(tmp_path):
    schema = Schema(columns=COLUMNS, file=Dialect(delimiter=";", comment="#"))
    text = '# made "today\nort;kosten\nUlm;1\n#Ulm;2\n"a\n#b";3\n#"\n'
    table = read(saved(tmp_path, text, "x.csv"), schema)
    assert_columns(table, {"ort": [0, 1], "kosten": [1, 3]})
    assert table.labels["ort"] == ["Ulm", "a\n#b"]


@given(st.text(st.sampled_from('##"\nx'), max_size=30))
@examples(30)
def test_comments_are_found_as_line_by_line(text):
    kept, is_open = [], False
    for line in text.split("\n"):
        if is_open or not line.startswith("#"):
            kept.append(line)
            is_open ^= line.count('"') % 2 == 1
    expected = "\n".join(kept)
    found = without_comments(text.encode(), b"#", b'"').decode()
    assert found.rstrip("\n") == expected.rstrip("\n")


def test_without_a_quote_every_mark_is_text(tmp_path):
    schema = Schema(columns=COLUMNS, file=Dialect(delimiter="\t", quote=""))
    table = read(saved(tmp_path, 'ort\tkosten\n"5" disk\t1\n"\t2\n', "x.csv"), schema)
    assert table.labels["ort"] == ['"', '"5" disk'] and table.columns["kosten"].tolist() == [1, 2]


def test_another_quote_keeps_delimiters(tmp_path):
    schema = Schema(columns=COLUMNS, file=Dialect(quote="'"))
    table = read(saved(tmp_path, "'ort','kosten'\n'a, ''b''',1\n'\"',2\n", "x.csv"), schema)
    assert table.labels["ort"] == ['"', "a, 'b'"]


# Every cell by itself -------------------------------------------------------------------------------------------------

CELLS = st.text(st.sampled_from("0159.,'’ -+e%€x;|\"#\n\u00a0\u202f"), max_size=7)
DIALECTS = st.builds(
    Dialect,
    delimiter=st.sampled_from([";", "|", "\t"]),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
    decimal=st.sampled_from([".", ","]),
    thousands=st.sampled_from(["", "'", " ", "_"]),
    currency=st.sampled_from(["", "€"]),
    header=st.booleans(),
)
NAMES = ("column_1", "column_2", "column_3")


def spelt(rows, dialect):
    """Rows as a program that knows the format writes them."""
    lines = [dialect.delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    header = [dialect.delimiter.join(NAMES)] if dialect.header else []
    return ("\n".join([*header, *lines]) + "\n").encode(dialect.encoding)


def cells_of(table):
    labels = table.labels["column_3"]
    texts = [labels[code] if code >= 0 else None for code in table.columns["column_3"]]
    return list(zip(table.columns["column_1"].tolist(), table.columns["column_2"].tolist(), texts, strict=True))


@pytest.mark.slow
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8), DIALECTS)
@settings(deadline=None, derandomize=True, max_examples=20)
def test_a_cell_is_read_by_itself_in_every_dialect(tmp_path_factory, rows, dialect):
    columns = (
        Column(name="column_1", kind="continuous", nullable=True),
        Column(name="column_2", kind="integer", nullable=True),
        Column(name="column_3", kind="categorical", nullable=True),
    )
    schema, path = Schema(columns=columns, file=dialect), tmp_path_factory.getbasetemp() / "cells.csv"
    anchor = ("1", "1", "a")  # which every column can read
    path.write_bytes(spelt([anchor, *rows], dialect))
    together = cells_of(read(path, schema))
    assert together[0] == (1, 1, "a") and len(together) == len(rows) + 1
    for row, found in zip(rows, together[1:], strict=True):
        path.write_bytes(spelt([anchor, row], dialect))
        np.testing.assert_equal(cells_of(read(path, schema))[1], found)


# From a dialect to a report -------------------------------------------------------------------------------------------


def test_every_command_obeys_the_dialect(place):
    rows = "".join(f"{'Zoë' if n % 2 else 'Jürgen'};{20 + n % 60};1.{n:03},50\n" for n in range(200))
    place.data.write_bytes(("name;age;income\n" + rows).encode("latin-1"))
    stated = '[file]\ndelimiter = ";"\nencoding = "latin-1"\ndecimal = ","\nthousands = "."\n'
    place.schema.write_text(place.schema.read_text() + stated)
    synthetic, page = place.folder / "synthetic.csv", place.folder / "report.html"
    assert place.fit("--ledger", place.folder / "budget.jsonl", "--method", "independent", epsilon=50)[0] == 0
    assert place.run("sample", place.model, "-n", 200, "--seed", 1, "-o", synthetic)[0] == 0
    assert "Jürgen" in synthetic.read_text() and synthetic.read_text().startswith("name,age,income\n")
    code, out, _ = place.run("evaluate", place.data, synthetic, place.schema, "--metrics", "tvd1", "--json")
    assert code == 0 and json.loads(out)["rows"][0]["value"] < 0.5
    shown = place.run("report", place.model, "--real", place.data, "--learners", "none", "-o", page)
    assert shown[0] == 0, shown[2]
    assert page.exists()
