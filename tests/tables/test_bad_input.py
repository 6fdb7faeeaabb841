"""Anything at all: every input ends in one line or in a model, and shows nobody's value either way."""

import json
import math

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import understudy as us
from bad_input import HEADER, SECRET, assert_discreet, assert_refused
from conftest import examples
from understudy.cli import main

FUZZ = examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
PIECES = st.sampled_from(
    [HEADER, "name", "age", ",", "\n", "\r\n", "\r", '"', '""', "40", "-1", "1e308", "nan", "\x00", "é", "\ufeff", " "]
)


def check_any(place, content):
    place.data.write_bytes(content)
    place.model.unlink(missing_ok=True)
    code, out, err = place.fit("--quiet", "--method", "independent")
    assert_discreet(out, err)
    assert (code, err.count("\n"), place.model.exists()) in [(0, 0, True), (1, 1, False)]
    assert "unexpected" not in err
    assert sorted(path.name for path in place.folder.iterdir() if path != place.model) == ["people.csv", "people.toml"]


@FUZZ
@given(content=st.binary(max_size=200))
def test_any_bytes_end_in_a_line_or_a_model(place, content):
    check_any(place, content)


@FUZZ
@given(content=st.binary(max_size=100))
def test_any_bytes_behind_a_header_end_in_a_line_or_a_model(place, content):
    check_any(place, HEADER.encode() + content)


@FUZZ
@given(pieces=st.lists(PIECES, max_size=30))
def test_any_near_csv_ends_in_a_line_or_a_model(place, pieces):
    check_any(place, "".join(pieces).encode())


@FUZZ
@given(text=st.text(max_size=60), kind=st.sampled_from(["integer", "continuous", "boolean", "datetime", "categorical"]))
def test_any_cell_ends_in_a_line_or_a_model(place, text, kind):
    bounds = "low = 0\nhigh = 9\n" if kind in ("integer", "continuous") else ""
    place.schema.write_text(f'[columns.a]\nkind = "{kind}"\n{bounds}')
    place.data.write_bytes(f"a\n1\n{text}\n".encode())
    code, out, err = place.fit("--quiet", "--method", "independent")
    assert_discreet(out, err)
    assert (code, err.count("\n")) in [(0, 0), (1, 1)]
    assert "unexpected" not in err


def test_an_unexpected_error_shows_its_type_alone(place, monkeypatch):
    def fail(*arguments, **options):
        raise ValueError(f"could not convert {SECRET}")

    monkeypatch.setattr(us, "fit", fail, raising=False)
    with place.untouched():
        assert_refused(place.fit(), "unexpected ValueError", "UNDERSTUDY_DEBUG")
    monkeypatch.setenv("UNDERSTUDY_DEBUG", "1")
    with pytest.raises(ValueError, match=SECRET):
        main(["fit", str(place.data), str(place.schema), "--epsilon", "1", "-o", str(place.model)])


def test_the_receipt_of_a_fit_holds_no_cell(place):
    code, out, _ = place.fit("--json")
    assert code == 0 and SECRET not in out
    assert math.isclose(json.loads(out)["budget"]["epsilon"], 1.0)
