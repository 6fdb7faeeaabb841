"""The record: a fit is known by its id, a file by its hash, and nothing is covered or added up that is not matched."""

import dataclasses
import hashlib
import json
import shutil

import polars as pl
import pytest

import understudy as us
from commands import done, run
from understudy import datasets
from understudy.privacy.ledger_file import LedgerFile
from understudy.report.provenance import drawn_again, record_path
from understudy.report.record import VerificationError, verify
from understudy.tables.rules import Inequality


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, a model that a ledger knows, drawn rows and a report."""
    folder = tmp_path_factory.mktemp("record")
    datasets.example(400).write_csv(folder / "people.csv")
    datasets.example_schema().write(folder / "people.toml")
    options = ["--epsilon", 2, "--method", "copula", "--ledger", folder / "budget.jsonl", "-o", folder / "m.understudy"]
    done("fit", folder / "people.csv", folder / "people.toml", *options)
    done("sample", folder / "m.understudy", "-n", 200, "-o", folder / "rows.csv")
    report(folder, "report.html", "--ledger", folder / "budget.jsonl")
    return folder


def report(folder, name, *options):
    done("report", folder / "m.understudy", "-n", 50, *options, "-o", folder / name)
    return json.loads((folder / name).with_suffix(".json").read_text())


# The fit ----------------------------------------------------------------------------------------------------------


def test_model_ledger_and_report_carry_the_same_id(folder):
    receipt = us.load(folder / "m.understudy").receipt
    [entry] = LedgerFile(folder / "budget.jsonl").records()
    content = json.loads((folder / "report.json").read_text())
    assert len(receipt.id) == 36 and receipt.id == entry["id"] == content["record"]["fit"]
    assert receipt.time[:10] == entry["time"][:10] and content["record"]["fitted"] == receipt.time


def test_every_fit_has_its_own_id_and_with_a_seed_the_same_bytes():
    def fit(seed=None, epsilon=1.0):
        return us.fit(datasets.example(300), datasets.example_schema(), "copula", epsilon=epsilon, seed=seed)

    assert fit().receipt.id != fit().receipt.id
    assert fit(seed=1).to_bytes() == fit(seed=1).to_bytes()
    assert len({fit(seed=1).receipt.id, fit(seed=2).receipt.id, fit(seed=1, epsilon=2.0).receipt.id}) == 3
    assert fit(seed=1).receipt.time == ""


def test_hashes_are_those_of_the_files(folder):
    record = json.loads((folder / "report.json").read_text())["record"]
    model = us.load(folder / "m.understudy")
    assert record["model_sha256"] == hashlib.sha256((folder / "m.understudy").read_bytes()).hexdigest() == model.sha256
    assert record["schema_sha256"] == hashlib.sha256(model.schema.to_toml().encode()).hexdigest()
    assert record["schema_sha256"] == model.receipt.schema_sha256


def test_a_page_names_files_and_never_hashes_real_rows(folder):
    content = report(folder, "named.html", "--real", folder / "people.csv", "--learners", "none")
    page = (folder / "named.html").read_text()
    digest = hashlib.sha256((folder / "people.csv").read_bytes()).hexdigest()
    assert (
        content["record"]["files"] == {"real rows": "people.csv"} and content["record"]["model_file"] == "m.understudy"
    )
    assert "people.csv" in page and "m.understudy" in page and digest not in page + json.dumps(content)


# The ledger -------------------------------------------------------------------------------------------------------


def test_a_total_is_given_only_for_a_fit_that_the_ledger_knows(folder, tmp_path):
    known = json.loads((folder / "report.json").read_text())["privacy"]["ledger"]
    assert known["this_fit"] and (known["fits"], known["epsilon"]) == (1, 2.0)
    other = LedgerFile(tmp_path / "other.jsonl")
    other.charge("example", 5.0, 1e-6, "copula")
    content = report(folder, "unknown.html", "--ledger", other.path)
    assert content["privacy"]["ledger"]["this_fit"] is False
    assert content["privacy"]["ledger"]["fits"] is content["privacy"]["ledger"]["epsilon"] is None
    page = (folder / "unknown.html").read_text()
    assert "This fit is not in the ledger" in page and "counts 1 fit" not in page


@pytest.mark.parametrize("change", [{"epsilon": 1.0}, {"table": "others"}, {"method": "aim"}])
def test_an_entry_that_says_something_else_is_not_matched(folder, tmp_path, change):
    lines = [json.loads(line) for line in (folder / "budget.jsonl").read_text().splitlines()]
    entry = {key: value for key, value in (lines[1] | change).items() if key != "digest"}  # lines of before have none
    changed = "".join(json.dumps(line) + "\n" for line in (lines[0], entry))
    (tmp_path / "changed.jsonl").write_text(changed)
    ledger = report(folder, "changed.html", "--ledger", tmp_path / "changed.jsonl")["privacy"]["ledger"]
    assert ledger["this_fit"] is False and f"another {next(iter(change))}" in ledger["mismatch"]


def test_a_model_without_an_id_is_reported_with_its_flags_and_matches_no_ledger(folder, tmp_path):
    model = us.fit(datasets.example(300), datasets.example_schema(), "copula", epsilon=20.0, progress=False)
    older = dataclasses.replace(model, receipt=dataclasses.replace(model.receipt, id="", time="", flags=()))
    older.save(tmp_path / "old.understudy")
    us.report(tmp_path / "old.understudy", tmp_path / "r.html", ledger=folder / "budget.jsonl")
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["privacy"]["ledger"]["mismatch"] == "the model carries no id"
    assert [flag["name"] for flag in content["privacy"]["flags"]] == ["epsilon"]
    assert "a fit without an id" in verify(tmp_path / "r.json", tmp_path / "old.understudy")


# Verification -----------------------------------------------------------------------------------------------------


def test_a_report_is_verified_against_its_model(folder):
    said = done("verify", folder / "report.json", folder / "m.understudy")
    assert said.count("\n") == 1 and "all hashes match" in said
    assert json.loads(done("verify", folder / "report.json", folder / "m.understudy", "--json"))["matches"] is True


def test_another_model_does_not_verify(folder, tmp_path):
    us.fit(datasets.example(300), datasets.example_schema(), "copula", epsilon=2.0).save(tmp_path / "other.understudy")
    result = run("verify", folder / "report.json", tmp_path / "other.understudy")
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (1, 1, "")
    assert "the SHA-256 of the model differs" in result.stderr


@pytest.mark.parametrize(
    ("part", "key", "value", "said"),
    [
        ("privacy", "epsilon", 0.1, "epsilon differs"),
        ("privacy", "flags", [{"name": "x"}], "the list of red flags differs"),
        ("record", "fit", "another", "the id of the fit differs"),
        ("record", "schema_sha256", "0" * 64, "the SHA-256 of the schema differs"),
    ],
)
def test_a_report_that_was_changed_does_not_verify(folder, tmp_path, part, key, value, said):
    content = json.loads((folder / "report.json").read_text())
    content[part][key] = value
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(VerificationError, match=said):
        verify(tmp_path / "r.json", folder / "m.understudy")


def test_a_page_that_was_changed_does_not_verify(folder, tmp_path):
    for name in ("report.json", "report.html"):
        shutil.copy(folder / name, tmp_path)
    assert verify(tmp_path / "report.json", folder / "m.understudy")
    page = tmp_path / "report.html"
    page.write_text(page.read_text().replace("ε = 2", "ε = 1"))
    with pytest.raises(VerificationError, match=r"the page report.html differs"):
        verify(tmp_path / "report.json", folder / "m.understudy")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "null", '{"kind": "understudy-report"}', '{"kind": 1, "record": 2}']
)
def test_what_is_no_report_is_refused_in_one_line(folder, tmp_path, content):
    (tmp_path / "r.json").write_text(content)
    result = run("verify", tmp_path / "r.json", folder / "m.understudy")
    assert result.exit_code == 1 and "expected the JSON file of a report" in result.stderr


# Rows from the model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet"])
def test_rows_that_the_model_draws_are_covered(folder, tmp_path, name):
    done("sample", folder / "m.understudy", "-n", 60, "-o", tmp_path / name)
    known, how = drawn_again(tmp_path / name, us.load(folder / "m.understudy"))
    assert known and "found equal" in how


def test_a_report_of_sampled_rows_is_stamped_as_covered(folder):
    printed = done("report", folder / "m.understudy", "--synthetic", folder / "rows.csv", "-o", folder / "drawn.html")
    shown = json.loads((folder / "drawn.json").read_text())["synthetic"]
    assert shown["covered_by_budget"] is True and "rows.csv" in shown["from"] and "not covered" not in printed


def test_conditions_are_drawn_again(folder, tmp_path):
    conditions = ["--where", "age=30..50", "--seed", 3]
    result = run("sample", folder / "m.understudy", "-n", 40, *conditions, "-o", tmp_path / "a.csv")
    assert result.exit_code == 0 and drawn_again(tmp_path / "a.csv", us.load(folder / "m.understudy"))[0]


def test_rows_without_a_record_or_with_a_false_one_are_not_covered(folder, tmp_path):
    model = us.load(folder / "m.understudy")
    shutil.copy(folder / "people.csv", tmp_path / "rows.csv")
    assert drawn_again(tmp_path / "rows.csv", model) == (False, "without a record of where they were drawn")
    shutil.copy(record_path(folder / "rows.csv"), record_path(tmp_path / "rows.csv"))
    assert drawn_again(tmp_path / "rows.csv", model) == (False, "with a record by which the model draws other rows")


def test_one_changed_cell_is_enough(folder, tmp_path):
    rows = pl.read_csv(folder / "rows.csv", infer_schema=False)
    for frame, expected in ((rows, True), (rows.with_columns(age=pl.lit("41")), False)):
        frame.write_csv(tmp_path / "rows.csv")
        shutil.copy(record_path(folder / "rows.csv"), record_path(tmp_path / "rows.csv"))
        assert drawn_again(tmp_path / "rows.csv", us.load(folder / "m.understudy"))[0] is expected


def test_rows_of_another_model_are_not_covered(folder):
    other = us.fit(datasets.example(300), datasets.example_schema(), "copula", epsilon=2.0)
    assert drawn_again(folder / "rows.csv", other) == (False, "with a record that names another fit")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "understudy-rows", "format": 1, "rows": true}'])
def test_a_broken_record_is_none(folder, tmp_path, content):
    shutil.copy(folder / "rows.csv", tmp_path / "rows.csv")
    record_path(tmp_path / "rows.csv").write_text(content)
    assert drawn_again(tmp_path / "rows.csv", us.load(folder / "m.understudy"))[0] is False
    result = run("sample", folder / "m.understudy", "-n", 5, "-o", tmp_path / "rows.csv")
    assert result.exit_code == 1 and "is no record of drawn rows" in result.stderr


# The page ---------------------------------------------------------------------------------------------------------


def test_flags_constraints_and_ignored_columns_are_shown_openly(tmp_path):
    table = pl.DataFrame({"a": [1, 2, 3] * 60, "b": [4, 5, 6] * 60, "patient_id": range(180), "phone": ["x"] * 180})
    schema = us.Schema(
        name="t",
        columns=(
            us.Column(name="a", kind="integer", low=0, high=9),
            us.Column(name="b", kind="integer", low=0, high=9),
        ),
        ignore=("patient_id", "phone"),
        constraints=(Inequality("b", ">=", "a"),),
    )
    model = us.fit(table, schema, "independent", epsilon=20.0, progress=False)
    page = us.report(model, tmp_path / "r.html").read_text()
    header = page.split("<main>")[0]
    assert header.count('<div class="loud"') == 2 and "Red flag: epsilon." in header and "Red flag: unit." in header
    assert "<code>b &gt;= a</code>" in page and "<code>phone</code>" in page


def test_a_profile_has_points_where_thresholds_use_up_small_deltas(tmp_path):
    schema = us.Schema(name="t", columns=(us.Column(name="city", kind="categorical"),))
    table = pl.DataFrame({"city": ["Ulm", "Bonn"] * 200})
    model = us.fit(table, schema, "independent", epsilon=1.0, delta=1e-3, progress=False)
    us.report(model, tmp_path / "r.html")
    profile = json.loads((tmp_path / "r.json").read_text())["privacy"]["profile"]
    deltas, epsilons = zip(*((point["delta"], point["epsilon"]) for point in profile), strict=True)
    assert len(profile) >= 4 and min(deltas) < 1e-3 < max(deltas) and list(epsilons) == sorted(epsilons)


def test_a_checklist_a_place_to_sign_and_a_profile_are_on_the_page(folder):
    page, content = (folder / "report.html").read_text(), json.loads((folder / "report.json").read_text())
    assert all(item["check"] in page for item in content["checklist"]) and len(content["checklist"]) > 5
    assert page.count("Signature</dt><dd></dd>") == 2
    profile = content["privacy"]["profile"]
    epsilons = [point["epsilon"] for point in profile]
    assert {1e-6, 1e-10} <= {point["delta"] for point in profile} and epsilons == sorted(epsilons)
    assert next(point["epsilon"] for point in profile if point["delta"] == 1e-6) == 2.0
