"""Red flags follow from public facts, say what to do, and refuse a strict fit before anything is charged."""

import pytest

import understudy as us
from commands import run
from understudy import datasets
from understudy.synthesizers import METHODS, resolve
from understudy.synthesizers.red_flags import RedFlagError, red_flags
from understudy.tables.column import Column
from understudy.tables.schema import Schema


def flagged(
    *columns: Column, epsilon=1.0, delta=1e-6, method="copula", rows=None, seed=None, **facts
) -> dict[str, str]:
    """The flags of a table with a harmless column and these, by name."""
    schema = Schema(columns=(Column(name="age", kind="integer", low=0, high=120), *columns), **facts)
    chosen, budget = resolve(method), us.Budget(epsilon=epsilon, delta=delta)
    found = red_flags(schema, chosen, budget, rows=rows, seed=seed)
    return {flag.name: str(flag) for flag in found}


def text(name: str, **facts) -> Column:
    return Column(name=name, kind="categorical", **facts)


def test_an_ordinary_fit_has_no_flag():
    assert flagged(text("region"), epsilon=10.0, rows=100_000, ignore=("note",)) == {}


@pytest.mark.parametrize("epsilon", [10.5, 25.0, 1000.0, 1e7])
def test_a_large_epsilon_is_flagged_with_what_it_allows(epsilon):
    assert "factor of" in flagged(epsilon=epsilon)["epsilon"]


@pytest.mark.parametrize(("rows", "delta", "expected"), [(1000, 1.1e-3, True), (1000, 1e-3, False), (None, 0.1, False)])
def test_delta_is_held_against_the_number_of_rows(rows, delta, expected):
    assert ("delta" in flagged(rows=rows, delta=delta)) is expected
    assert ("delta" in flagged(delta=delta, **({} if rows is None else {"rows": rows}))) is expected


@pytest.mark.parametrize(
    "name", ["id", "patient", "patient_id", "PatientID", "customer-no", "user id", "PERSON_KEY", "clientNumber", "mrn"]
)
def test_a_column_that_tells_people_apart_asks_for_a_unit(name):
    assert repr(name) in flagged(text(name))["unit"]
    assert repr(name) in flagged(ignore=(name,))["unit"]
    assert "unit" not in flagged(unit=name, max_rows_per_unit=1)


@pytest.mark.parametrize(
    "name", ["idea", "identity_check", "patients_seen", "user_rating_mean", "paid", "number", "acid"]
)
def test_other_names_ask_for_none(name):
    assert flagged(Column(name=name, kind="continuous")) == {}


def test_a_listed_category_and_a_truth_value_identify_nobody():
    assert flagged(text("customer", values=("new", "old")), Column(name="phone", kind="boolean")) == {}


@pytest.mark.parametrize(
    "name", ["email", "e_mail address", "Phone", "last_name", "name", "visit_id", "home street", "IBAN"]
)
def test_an_identifier_among_the_columns_is_flagged(name):
    assert repr(name) in flagged(text(name), unit="person", max_rows_per_unit=3)["identifier"]


@pytest.mark.parametrize("name", ["notes", "doctors_comment", "FreeText", "description"])
def test_free_text_is_flagged_and_ignoring_it_helps(name):
    assert "`ignore`" in flagged(text(name))["free text"]
    assert flagged(ignore=(name,)) == {}


def test_several_identifiers_are_one_flag():
    said = flagged(*(text(name) for name in ("email", "phone", "surname", "iban")))["identifier"]
    assert "'email', 'phone', 'surname' and 1 more look like" in said


def test_a_seed_and_standardised_columns_void_the_guarantee():
    assert "seed" in flagged(seed=0)
    paper = us.PradaGAN(standardised=True, encoding_share=0.0)
    schema, budget = datasets.example_schema(), us.Budget(epsilon=1, delta=1e-6)
    assert [flag.severity for flag in red_flags(schema, paper, budget)] == ["void"]


@pytest.mark.parametrize("method", METHODS)
def test_no_method_has_a_flag_by_itself(method):
    assert flagged(text("region"), method=method) == {}


# Where they are shown ---------------------------------------------------------------------------------------------


def test_plan_receipt_and_python_show_the_same_flags(tmp_path):
    schema = datasets.example_schema()
    planned = us.plan(schema, "copula", epsilon=12.0, rows=600)
    model = us.fit(datasets.example(600), schema, "copula", epsilon=12.0, progress=False)
    assert [flag.name for flag in planned.flags] == ["epsilon"] and planned.flags == model.receipt.flags
    assert str(planned.flags[0]) in str(planned) and "RED FLAG, epsilon" in str(model.receipt)


def test_the_noisy_number_of_rows_is_held_against_delta():
    model = us.fit(datasets.example(2000), datasets.example_schema(), "copula", epsilon=1, delta=0.01, progress=False)
    assert [flag.name for flag in model.receipt.flags] == ["delta"]


def test_a_strict_fit_with_a_flag_reads_nothing_and_charges_nothing(tmp_path):
    ledger = tmp_path / "budget.jsonl"
    with pytest.raises(RedFlagError, match=r"epsilon = 50 .* Nothing was read or charged\."):
        us.fit("no such file.csv", datasets.example_schema(), "copula", epsilon=50, strict=True, ledger=ledger)
    assert not ledger.exists()
    us.fit(datasets.example(300), datasets.example_schema(), "copula", epsilon=1, strict=True, progress=False)


def test_strict_commands_refuse_in_one_line(tmp_path):
    datasets.example(50).write_csv(tmp_path / "p.csv")
    datasets.example_schema().write(tmp_path / "p.toml")
    options = ["--epsilon", 11, "--seed", 1, "--method", "copula", "--strict", "--ledger", tmp_path / "b.jsonl"]
    fit = run("fit", tmp_path / "p.csv", tmp_path / "p.toml", *options, "-o", tmp_path / "m.understudy")
    assert (fit.exit_code, fit.stderr.count("\n")) == (1, 1) and "seed" in fit.stderr and "epsilon" in fit.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "p.toml"]
    assert run("plan", tmp_path / "p.toml", "--epsilon", 11, "--method", "copula", "--strict").exit_code == 1
    assert run("plan", tmp_path / "p.toml", "--epsilon", 1, "--method", "copula", "--strict").exit_code == 0
    assert run("plan", tmp_path / "p.toml", "--epsilon", 1, "--strict").exit_code == 0  # the default method
