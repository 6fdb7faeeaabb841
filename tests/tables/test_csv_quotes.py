"""Quotes in CSV: at the border of a field they are read, anywhere else the file is damaged."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from understudy.tables.column import Column
from understudy.tables.quotes import quotes_are_sound
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.table import read

AGES = Schema(columns=(Column(name="a", kind="categorical"), Column(name="b", kind="integer")))


@pytest.mark.parametrize(
    "rows",
    [
        '"x,1\ny,2\n"z,3\n',  # two rows that begin with a stray quote
        'x"y,1\n',
        'x"y"z,1\n',
        '"x"y,1\n',
        '"x" ,1\n',
        'x,"1"2\n',
        'x, "1"\n',
        '"x,1\n',
        'x,1\n"',
        'x,1"\n',
        '"x"\ry,1\n',
        '"""x,1\n',
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_quote_inside_a_field_is_a_damaged_file(tmp_path, name, rows):
    content = ("a,b\nu,1\n" + rows + "v,2\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(TableError, match="cannot be read as CSV: a quote stands inside a field or is") as caught:
        read(tmp_path / name, AGES)
    assert "\n" not in str(caught.value)
    assert not any(mark in str(caught.value) for mark in ("line 2", "row", "x,1"))


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ('"x",1\n', ["x"]),
        ('"x","1"\r\n"y",2\r\n', ["x", "y"]),
        ('"x ""y"" z",1\n', ['x "y" z']),
        ('"""",1\n', ['"']),
        ('"",1\nx,2', ["x"]),
        ('"x\ny",1\n', ["x\ny"]),
        ('"x,y",1\nz,"2"', ["x,y", "z"]),
    ],
)
def test_a_quote_at_the_border_of_a_field_is_read(tmp_path, rows, labels):
    for head in (b"a,b\n", b'\xef\xbb\xbf"a","b"\n'):
        (tmp_path / "x.csv").write_bytes(head + rows.encode())
        assert read(tmp_path / "x.csv", AGES).labels["a"] == labels


def by_automaton(text):
    """The rule of RFC 4180, one character after the other."""
    state = "start"
    for place, mark in enumerate(text):
        ended = mark in ",\n" or (mark == "\r" and text[place + 1 : place + 2] in ("", "\n"))
        if state == "quoted":
            state = "closed" if mark == '"' else "quoted"
        elif mark == '"':
            if state == "plain":
                return False
            state = "quoted"
        elif state == "closed":
            if not ended:
                return False
            state = "closed" if mark == "\r" else "start"
        else:
            state = "start" if mark in ",\n" else "plain"
    return state != "quoted"


@given(st.text(st.sampled_from('"",\n\rx'), max_size=14), st.integers(1, 5))
@examples(200)
def test_quotes_are_judged_as_the_standard_says(text, size):
    content = text.encode()
    blocks = [content[start : start + size] for start in range(0, len(content), size)]
    assert quotes_are_sound(blocks, ",") == by_automaton(text)


def test_a_long_cell_of_many_lines_stays_one_cell(tmp_path):
    """Whatever threads share the file, the lines in quotes are no rows."""
    inside = "u,7\n" * 300_000
    (tmp_path / "x.csv").write_text("a,b\n" + "v,1\n" * 50_000 + f'"{inside}",2\n' + "w,3\n" * 50_000)
    table = read(tmp_path / "x.csv", AGES)
    assert table.exact_rows == 100_001
    assert table.columns["b"][[0, 50_000, 50_001]].tolist() == [1, 2, 3]
