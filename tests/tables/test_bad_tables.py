"""Bad tables: a wrong structure is refused in one line and costs nothing, and values never fail."""

import gzip

import polars as pl
import pytest

import understudy as us
from bad_input import GOOD, HEADER, LAST, SCHEMA, SECRET, SECRET_NUMBER, assert_discreet, assert_fits, assert_refused

# Structure --------------------------------------------------------------------------------------------------------

STRUCTURES = {
    "missing column": (GOOD.replace("income", "incom", 1), ["has no column 'income'", "Did you mean 'incom'?"]),
    "extra column": (GOOD.replace("\n", ",\n").replace("income,", "income,shoe", 1), ["'shoe'", "does not name"]),
    "no header": (GOOD.removeprefix(HEADER), ["none of the columns", "first line"]),
    "no header, and the secret in front": (LAST + "\n" + GOOD.removeprefix(HEADER), ["none of the columns"]),
    "wrong type": (HEADER + f"ann,forty {SECRET},1\nbob,fifty,2\n", ["column 'age'", "whole numbers"]),
    "empty": ("", ["is empty"]),
    "header only": (HEADER, ["has no rows"]),
    "duplicate names": (GOOD.replace("income", "age", 1), ["has no column 'income'"]),
    "duplicate names beside all": ("name,age,income,age\n" + f"{LAST},{SECRET}\n" * 9, ["has a column 'age_2'"]),
    "semicolons": (GOOD.replace(",", ";"), ["reads as one column", "`delimiter`", "[file]"]),
    "semicolons below the names": (HEADER + GOOD.replace(",", ";"), ["reads as one column", "`delimiter`"]),
    "decimal commas": (HEADER + f'{SECRET},40,"1,5"\nann,30,"2,5"\n', ["column 'income'", "no cell can be read"]),
    "blank first line": ("\n" + GOOD, ["first line"]),
    "quote never closed in the header": (f'"{GOOD}', ["cannot be read as CSV"]),
    "two rows that begin with a stray quote": (
        GOOD + f'"{SECRET},1,1\nann,2,2\n"{SECRET},3,3\n',
        ["a quote stands inside"],
    ),
    "quote inside a field": (GOOD + f'{SECRET} 5" disk,1,1\n', ["a quote stands inside", "double those inside it"]),
    "quote never closed": (GOOD + f'"{SECRET},1,1\n' + GOOD, ["cannot be read as CSV"]),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_wrong_structure_is_refused(place, name):
    text, words = STRUCTURES[name]
    place.data.write_text(text)
    with place.untouched():
        assert_refused(place.fit(), "people.csv", *words)


@pytest.mark.parametrize("name", STRUCTURES)
def test_wrong_structure_costs_nothing(place, name):
    place.data.write_text(STRUCTURES[name][0])
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl"))


@pytest.mark.parametrize("where", [HEADER.encode(), b""], ids=["cell", "header"])
def test_bytes_that_are_not_utf8_are_refused(place, where):
    place.data.write_bytes(where + b"\xff\xfe\xe9" + SECRET.encode() + b",1,1\n" + GOOD.encode())
    with place.untouched():
        assert_refused(place.fit(), "people.csv")


def test_a_file_of_text_called_parquet_is_refused(place):
    data = place.folder / "people.parquet"
    data.write_text(GOOD)
    with place.untouched():
        assert_refused(place.fit(data=data), "cannot be read as Parquet")


def test_a_truncated_parquet_file_is_refused(place):
    data = place.folder / "people.parquet"
    pl.read_csv(place.data, infer_schema_length=None).write_parquet(data)
    data.write_bytes(data.read_bytes()[:-100])
    with place.untouched():
        assert_refused(place.fit(data=data), "cannot be read as Parquet")


def test_a_parquet_column_of_the_wrong_type_is_refused(place):
    data = place.folder / "people.parquet"
    pl.read_csv(place.data, infer_schema_length=None).with_columns(age=pl.lit([[SECRET]])).write_parquet(data)
    with place.untouched():
        assert_refused(place.fit(data=data), "column 'age'", "List")


def test_a_truncated_gzip_file_is_refused(place):
    data = place.folder / "people.csv.gz"
    data.write_bytes(gzip.compress(GOOD.encode())[:-200])
    with place.untouched():
        assert_refused(place.fit(data=data), "people.csv.gz")


@pytest.mark.parametrize("name", ["people.xlsx", "people", "gone.csv", "."])
def test_a_table_that_cannot_be_read_is_refused(place, name):
    with place.untouched():
        assert_refused(place.fit(data=place.folder / name))


@pytest.mark.parametrize(
    "text",
    ["", "name = ", "rows = 0", "\x00", '[columns.age]\nkind = "whole"', "[columns.age]\nlow = 1", "a = [" * 5000],
)
def test_a_wrong_schema_is_refused(place, text):
    place.schema.write_text(text)
    with place.untouched():
        assert_refused(place.fit(), "people.toml")
        assert_refused(place.run("plan", place.schema, "--epsilon", 1), "people.toml")


# Values: failing is a release, so they never fail -----------------------------------------------------------------


def test_a_column_that_is_all_missing_fits(place):
    place.data.write_text(HEADER + "".join(f"ann,,{place}\n" for place in range(200)))
    rows = assert_fits(place, "--epsilon", 50)
    assert rows["age"].null_count() > 1900


def test_a_column_that_is_all_missing_and_may_not_be_is_refused(place):
    place.data.write_text(HEADER + "ann,40,\n" * 200)
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl"), "column 'income'", "every cell is missing")
    place.data.write_text(HEADER + "ann,40,\n" * 200 + f"ann,40,{SECRET_NUMBER}\n")
    assert_fits(place)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e308", "-1e308", "1e400", "5e-324", "9" * 400, SECRET])
@pytest.mark.parametrize("method", ["copula", "independent"])
def test_a_value_never_fails(place, value, method):
    place.data.write_text(GOOD + f"{SECRET},{value},{value}\n" * 3)
    assert_fits(place, "--method", method)


@pytest.mark.parametrize("value", ["inf", "1e308", "-1e308"])
def test_a_value_never_fails_without_bounds(place, value):
    place.schema.write_text("\n".join(line for line in SCHEMA.splitlines() if not line.startswith(("low", "high"))))
    place.data.write_text(GOOD + f"{SECRET},{value},{value}\n" * 100)
    code, out, err = place.fit()
    assert (code, err) == (0, "")
    assert_discreet(out, err)
    assert us.load(place.model).sample(2000)["income"].is_finite().all()


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e308", "5e-324", ""])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("method", ["copula", pytest.param("prada", marks=pytest.mark.slow)])
def test_a_value_makes_no_library_warn(place, value, bounded, method):
    """A warning tells of a value as an error does; the tests run with warnings as errors."""
    columns = us.Schema.read(place.schema).columns
    schema = us.Schema(columns=columns if bounded else [us.Column(name=c.name, kind=c.kind) for c in columns])  # type: ignore
    place.data.write_text(GOOD + f"{SECRET},{value},{value}\n" * 100)
    us.fit(place.data, schema, method, epsilon=1.0).sample(100)


def test_a_cell_of_ten_megabytes_fits_and_is_not_kept(place):
    place.data.write_text(GOOD + SECRET * (10_000_000 // len(SECRET)) + ",40,100\n")
    assert_fits(place)
    assert place.model.stat().st_size < 100_000


def test_a_number_of_ten_megabytes_fits(place):
    place.data.write_text(GOOD + "ann,40," + "7" * 10_000_000 + "\n")
    assert_fits(place)


def test_one_row_fits(place):
    place.data.write_text(HEADER + LAST + "\n")
    assert_fits(place)


def test_lines_too_long_and_too_short_fit(place):
    place.data.write_text(GOOD + f"{SECRET}\n{LAST},{SECRET},{SECRET}\n\n")
    assert_fits(place)
