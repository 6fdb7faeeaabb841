"""SDV's calls: the table that comes back has the columns and the types of the one that was fitted."""

import ast
import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.adapters import sdv
from understudy.adapters.sdv import Synthesizer, for_sdgym

METADATA = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "guest",
    "columns": {
        "guest": {"sdtype": "id"},
        "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
        "rate": {"sdtype": "numerical"},
        "email": {"sdtype": "email", "pii": True},
        "stars": {"sdtype": "categorical"},
        "room": {"sdtype": "categorical"},
        "member": {"sdtype": "boolean"},
        "arrival": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
    },
}


def guests(n: int = 600) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    nights = draw.integers(1, 15, n)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(day)) for day in draw.integers(0, 900, n)]
    return pd.DataFrame(
        {
            "guest": [f"G{place:04}" for place in range(n)],
            "nights": nights,
            "rate": np.where(draw.random(n) < 0.1, np.nan, 80 + 9.5 * nights),
            "email": [f"guest{place}@example.org" for place in range(n)],
            "stars": draw.choice([3, 4, 5], n),
            "room": draw.choice(["single", "double", "suite"], n),
            "member": draw.random(n) < 0.4,
            "arrival": [day.strftime("%d %b %Y") for day in days],
        }
    )


class SDVMetadata:
    """As SDV's classes are seen from outside."""

    def to_dict(self) -> dict:
        return {"tables": {"hotel": METADATA}, "relationships": []}


@pytest.fixture(scope="module")
def fitted() -> Synthesizer:
    made = Synthesizer(SDVMetadata(), epsilon=50.0, method="independent")
    made.fit(guests())
    return made


def test_rows_have_the_columns_and_the_types_that_were_fitted(fitted):
    rows, real = fitted.sample(num_rows=200), guests()
    assert list(rows.columns) == list(METADATA["columns"])
    assert len(rows) == 200
    assert rows["guest"].is_unique and rows["email"].isna().all()
    assert set(rows["stars"].dropna()) <= {3, 4, 5} and set(rows["room"].dropna()) <= {
        "single",
        "double",
        "suite",
        "other",
    }
    assert pd.to_datetime(rows["arrival"].dropna(), format="%d %b %Y").dt.year.between(2019, 2023).all()
    assert 0.02 < rows["rate"].isna().mean() < 0.25
    assert abs(rows["nights"].astype(float).mean() - real["nights"].mean()) < 1.5


# As `Metadata.detect_from_dataframes` of SDV 2.0.0 gives it, ranges and all.
DETECTED = {
    "METADATA_SPEC_VERSION": "V2",
    "relationships": [],
    "tables": {
        "guests": {
            "primary_key": "guest",
            "columns": {
                "guest": {"sdtype": "id"},
                "email": {"pii": True, "sdtype": "email", "range_is_nullable": False},
                "member": {"sdtype": "categorical", "range_is_nullable": False, "range_values": [False, True]},
                "stars": {"sdtype": "ordinal", "range_is_nullable": False, "range_values": [4, 3, 5]},
                "nights": {"sdtype": "numerical", "range_min": 1, "range_max": 14, "decimal_places": 0},
                "rate": {"sdtype": "numerical", "range_min": 89.5, "range_max": 213.0, "decimal_places": 1},
            },
        }
    },
}


def test_what_sdv_finds_in_the_cells_says_the_kinds_and_nothing_else():
    made = Synthesizer(DETECTED, epsilon=50.0, method="independent")
    kinds = {"member": "boolean", "stars": "categorical", "nights": "integer", "rate": "continuous"}
    assert {column.name: column.kind for column in made.schema} == kinds
    facts = [(column.low, column.high, column.values, column.decimals) for column in made.schema]
    assert facts == [(None, None, None, None)] * 4 and all(column.nullable for column in made.schema)
    made.fit(guests()[["guest", "email", "member", "stars", "nights", "rate"]])
    drawn = made.sample(200)
    assert list(drawn.columns) == list(DETECTED["tables"]["guests"]["columns"])
    assert set(drawn["stars"].dropna()) == {3, 4, 5} and set(drawn["member"].dropna()) == {True, False}


def test_the_types_of_synthetic_columns_do_not_tell_what_the_table_held():
    """One missing cell makes pandas store floats, and one odd cell texts: synthetic rows must not show that."""
    tables = [guests(100), guests(100), guests(100)]
    tables[1]["stars"] = tables[1]["stars"].astype(float)
    tables[1].loc[0, "stars"] = np.nan
    tables[2]["stars"] = tables[2]["stars"].astype(object)
    tables[2].loc[0, "stars"] = "five"
    made = [Synthesizer(METADATA, epsilon=50.0, method="independent") for _ in tables]
    for synthesizer, table in zip(made, tables, strict=True):
        synthesizer.fit(table)
    assert {str(each.sample(50, seed=0)["stars"].dtype).lower() for each in made} == {"int64"}


def test_a_key_of_several_columns_and_one_of_text_are_made_anew():
    metadata = {**METADATA, "primary_key": ["guest", "nights"]}
    metadata["columns"] = {**METADATA["columns"], "guest": {"sdtype": "id", "regex_format": "G[0-9]{4}"}}
    made = Synthesizer(metadata, epsilon=50.0, method="independent")
    made.fit(guests(200))
    rows = made.sample(3)
    assert list(rows["guest"]) == ["0", "1", "2"] and rows["nights"].between(0, 20).all()


def test_no_identifier_and_no_personal_detail_is_learned(fitted, tmp_path):
    assert fitted.schema.ignore == ("guest", "email") and fitted.schema.name == "hotel"
    fitted.save(tmp_path / "hotel.understudy")
    content = (tmp_path / "hotel.understudy").read_bytes() + (tmp_path / "hotel.understudy.json").read_bytes()
    assert b"@example.org" not in content and b"G0001" not in content


def test_a_saved_synthesizer_samples_the_same_rows_and_the_commands_read_it(fitted, tmp_path):
    fitted.save(tmp_path / "hotel.understudy")
    loaded = Synthesizer.load(tmp_path / "hotel.understudy")
    pd.testing.assert_frame_equal(loaded.sample(50, seed=1), fitted.sample(50, seed=1))
    assert us.load(tmp_path / "hotel.understudy").receipt.epsilon == fitted.receipt.epsilon <= 50
    (tmp_path / "hotel.understudy.json").unlink()
    assert list(Synthesizer.load(tmp_path / "hotel.understudy").sample(5).columns) == list(fitted.schema.names)


def test_a_damaged_file_beside_a_model_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "hotel.understudy")
    for wrong in ("[1", "[]", "{}", '{"metadata": 3}', '{"metadata": {"tables": {}}}'):
        (tmp_path / "hotel.understudy.json").write_text(wrong)
        with pytest.raises(us.ModelError, match=r"is not what Synthesizer\.save writes"):
            Synthesizer.load(tmp_path / "hotel.understudy")


def test_the_functions_of_sdgym_fit_and_sample():
    get_trained_synthesizer, sample_from_synthesizer = for_sdgym(epsilon=5.0, method="independent")
    rows = sample_from_synthesizer(get_trained_synthesizer(guests(200), METADATA), 30)
    assert len(rows) == 30 and list(rows.columns) == list(METADATA["columns"])


def test_every_fit_is_charged_to_the_ledger(tmp_path):
    ledger = tmp_path / "budget.jsonl"
    us.LedgerFile(ledger).set_cap("guests", epsilon=1.5, delta=1e-5)
    made = Synthesizer(METADATA, epsilon=1.0, method="independent", name="guests", ledger=ledger)
    made.fit(guests(100))
    with pytest.raises(us.BudgetExceeded):
        made.fit(guests(100))


def test_what_is_not_fitted_or_no_table_is_refused(tmp_path):
    made = Synthesizer(METADATA, epsilon=1.0)
    with pytest.raises(RuntimeError, match="Call fit"):
        made.sample(3)
    with pytest.raises(us.TableError, match="expected a pandas DataFrame"):
        made.fit([1, 2])
    with pytest.raises(us.SchemaError, match="expected SDV's"):
        Synthesizer(3, epsilon=1.0)
    (tmp_path / "metadata.json").write_text(json.dumps(METADATA))
    assert Synthesizer(tmp_path / "metadata.json", epsilon=1.0).schema == made.schema


def test_no_other_library_is_imported():
    tree = ast.parse(Path(sdv.__file__).read_text())
    at_the_top = {name for node in tree.body for name in imports(node)}
    assert at_the_top & {"sdv", "sdgym", "pandas"} == set() and "json" in at_the_top
    assert {name for node in ast.walk(tree) for name in imports(node)} & {"sdv", "sdgym"} == set()


def imports(node: ast.AST) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return {name.partition(".")[0] for name in names}
