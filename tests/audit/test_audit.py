"""The audit as a whole: the object, the command, and what they say of a claim."""

import dataclasses
import json

import pytest
from click.testing import CliRunner

import understudy as us
from mutants import SCHEMA
from understudy.audit.finding import Finding
from understudy.audit.replay_tables import replay_tables
from understudy.cli import cli


@pytest.fixture(scope="module")
def audit():
    return us.audit(us.Schema.parse(SCHEMA, "mutants"), "independent", epsilon=1.0, delta=1e-5)


def test_a_claim_that_stands_passes(audit):
    assert audit.passed and audit.findings == ()
    assert audit.claimed_epsilon == 1.0 and audit.epsilon_lower == 0.0
    assert audit.replay.accounted_epsilon <= 1.0


def test_its_table_and_its_json_say_the_same(audit):
    said = json.loads(audit.to_json())
    assert said["passed"] is True and said["claimed_epsilon"] == 1.0 and said["end_to_end"] is None
    shown = str(audit)
    assert "passed" in shown and all(each["mechanism"] in shown for each in said["replay"]["mechanisms"])


def test_a_finding_breaks_the_claim(audit):
    broken = dataclasses.replace(audit.replay, findings=(Finding("sensitivity", "counts", "too much."),))
    failed = dataclasses.replace(audit, replay=broken)
    assert not failed.passed and "FAILED" in str(failed) and "too much." in str(failed)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"fits": -1}, "fits"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"method": "copla"}, "copula"),
        ({"simulated": "example"}, "either a schema or"),
    ],
)
def test_what_cannot_be_audited_is_refused(given, word):
    asked = {"method": "copula", "epsilon": 1.0} | given
    with pytest.raises(ValueError, match=word):
        us.audit(us.Schema.parse(SCHEMA, "mutants"), **asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("example", marks=pytest.mark.slow), "scale-free-linear"])
def test_a_claim_stands_on_a_simulated_table(name):
    found = us.audit(simulated=name, method="independent", epsilon=1.0, delta=1e-5)
    assert found.passed, found.findings
    assert json.loads(found.to_json())["simulated"] == name and f"simulated rows of {name}" in str(found)
    assert found.replay.worst == pytest.approx(1.0)


def test_a_simulated_table_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'scale-free-linear'"):
        us.audit(simulated="scale-free-linea", epsilon=1.0)


@pytest.mark.slow
def test_whole_fits_of_a_simulated_table_are_attacked():
    found = us.audit(simulated="example", method="independent", epsilon=1.0, delta=1e-5, fits=120, seed=0)
    assert found.passed and 0.2 < found.epsilon_lower <= 1.0
    assert found.end_to_end is not None and "rows of example" in found.end_to_end.worlds


def run(*words):
    return CliRunner().invoke(cli, list(map(str, words)), prog_name="understudy")


def test_the_command_refuses_what_does_not_belong_together(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SCHEMA)
    assert run("audit", path).exit_code == 2
    assert run("audit", "--epsilon", 1).exit_code == 2
    assert run("audit", path, "--simulated", "example", "--epsilon", 1).exit_code == 2
    assert run("audit", "--simulated", "example", "--release", "a.csv").exit_code == 2
    assert run("audit", "--simulated", "nobody", "--epsilon", 1).exit_code == 1
    assert run("audit", path, "--release", "a.csv").exit_code == 2
    assert run("audit", path, "--epsilon", 1, "--fits", -3).exit_code == 1


@pytest.mark.slow
def test_the_command_prints_the_audit(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SCHEMA)
    done = run("audit", path, "--method", "copula", "--epsilon", 1, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["passed"] is True


# In a report --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    schema = us.Schema.parse(SCHEMA, "mutants")
    return us.fit(replay_tables(schema)[0].table, schema, "independent", epsilon=1.0, delta=1e-5, progress=False)


def test_a_report_shows_the_audit_of_its_method(audit, model, tmp_path):
    (tmp_path / "audit.json").write_text(audit.to_json())
    page = us.report(model, tmp_path / "page.html", audit=tmp_path / "audit.json").read_text()
    shown = json.loads((tmp_path / "page.json").read_text())["audit"]
    assert shown["passed"] and shown["differences"] == [] and "nothing was found" in page
    assert "This audit is not of this model" not in page
    us.report(model, tmp_path / "none.html")
    assert json.loads((tmp_path / "none.json").read_text())["audit"] is None


def test_an_audit_of_another_claim_is_not_shown_as_the_model_s(audit, model, tmp_path):
    other = json.loads(audit.to_json()) | {"claimed_epsilon": 0.5}
    page = us.report(model, tmp_path / "page.html", audit=other).read_text()
    assert "This audit is not of this model" in page and "0.5 was audited, 1.0 is the model" in page


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"end_to_end": 3, "method": "mst"}', None])
def test_what_is_no_audit_is_refused(content, model, tmp_path):
    if content is not None:
        (tmp_path / "audit.json").write_text(content)
    with pytest.raises(ValueError, match=r"audit|cannot be read"):
        us.report(model, tmp_path / "page.html", audit=tmp_path / "audit.json")
    assert not (tmp_path / "page.html").exists()
