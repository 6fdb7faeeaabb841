"""The command line: every command does what its help says, and help is there at once.

Commands run in this process, and fit with `independent`, which takes a moment; only the tests of the process itself
start one.
"""

import json
import os
import shlex
import subprocess
import sys

import click
import polars as pl
import pytest

import understudy as us
from commands import done, refused
from understudy import datasets
from understudy.cli import cli
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers import DEFAULT

QUICK = ["--epsilon", 2, "--method", "independent"]
HEAVY = ["dp_accounting", "jax", "mbi", "narwhals", "numpy", "opendp", "pandas", "polars", "rich", "scipy"]


def spawn(*arguments, folder, code="from understudy.cli import main; main()", **environment):
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a table, its schema, and a model fitted by the command."""
    folder = tmp_path_factory.mktemp("people")
    datasets.example(500).write_csv(folder / "people.csv")
    datasets.example_schema().write(folder / "people.toml")
    options = [*QUICK, "--ledger", folder / "budget.jsonl", "-o", folder / "m.understudy"]
    (folder / "printed.txt").write_text(done("fit", folder / "people.csv", folder / "people.toml", *options))
    return folder


# Help -------------------------------------------------------------------------------------------------------------


def every_command(command: click.Command = cli, path=()):
    yield path
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from every_command(inner, (*path, name))


def examples(path):
    """The command lines in the help of a command, without what is the shell's."""
    _, _, shown = done(*path, "--help").partition("Example:")
    lines = [shlex.split(line) for line in shown.splitlines() if line.startswith("    understudy ")]
    return [words[1 : words.index(">") if ">" in words else None] for words in lines]


def parse(words):
    """The command that the words lead to. Lets click read all of them as it would on the way there, and runs none."""
    command, context, path = cli, cli.make_context("understudy", list(words)), ()
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, list(words))
        assert command is not None and name is not None
        context, path = command.make_context(name, list(words), parent=context), (*path, name)
    return path


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_every_help_has_an_example_and_every_example_parses(path):
    found = [parse(words) for words in examples(path)]
    assert any(leads_to[: len(path)] == path for leads_to in found)


@pytest.mark.parametrize("words", ["plan a.toml --epsilon 1 --epsilom 2", "plan", "schema drft", "sample m -n x -o a"])
def test_an_example_that_is_wrong_would_not_parse(words):
    with pytest.raises(click.UsageError):
        parse(words.split())


def test_the_commands_are_those_of_the_design():
    names = {" ".join(path) for path in every_command()}
    assert names >= {"demo", "schema draft", "plan", "fit", "sample", "ledger show", "ledger cap", "receipt"}
    assert names >= {"evaluate", "report", "bench", "bench table", "bench figure"}
    assert names >= {"doctor", "completion", "version", "schema check"}


def test_help_names_every_method():
    shown = " ".join(done("fit", "--help").split())
    assert all(name in shown for name in us.METHODS)
    assert f"[default: {DEFAULT}]" in shown and DEFAULT in us.METHODS


def test_the_version_is_the_packages():
    assert done("--version").split()[-1] == done("version").split()[-1] == us.__version__


def test_wrong_usage_exits_with_2(tmp_path):
    assert "Missing option" in refused("fit", "a.csv", "a.toml", code=2)
    assert "No such command" in refused("fti", code=2)
    assert "expected key=value" in refused("plan", "a.toml", "--epsilon", 1, "--set", "degree", code=2)
    assert "twice" in refused("plan", "a.toml", "--epsilon", 1, "--set", "a=1", "--set", "a=2", code=2)
    assert "not a valid float" in refused("plan", "a.toml", "--epsilon", "much", code=2)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import understudy", []),
        ("from understudy.cli import main\ntry: main()\nexcept SystemExit: pass", ["fit", "--help"]),
    ],
)
def test_nothing_heavy_is_imported_for_help(tmp_path, code, words):
    code += f"\nimport sys; print('loaded:', [name for name in {HEAVY} if name in sys.modules])"
    result = spawn(*words, folder=tmp_path, code=code)
    assert (result.returncode, result.stderr) == (0, "")
    assert "loaded: []" in result.stdout


# The commands -----------------------------------------------------------------------------------------------------


def test_draft_writes_a_schema_that_fits_the_table(fitted, tmp_path):
    printed = done("schema", "draft", fitted / "people.csv", "-o", tmp_path / "s.toml")
    schema = us.Schema.read(tmp_path / "s.toml")
    assert schema.name == "people"
    assert {column.name: column.kind for column in schema} == {c.name: c.kind for c in datasets.example_schema()}
    assert "7 columns" in printed and "understudy plan" in printed


def test_draft_replaces_an_older_file_only_by_force(fitted, tmp_path):
    (tmp_path / "s.toml").write_text("old")
    assert "--force" in refused("schema", "draft", fitted / "people.csv", "-o", tmp_path / "s.toml")
    assert (tmp_path / "s.toml").read_text() == "old"
    done("schema", "draft", fitted / "people.csv", "-o", tmp_path / "s.toml", "--force")
    assert len(us.Schema.read(tmp_path / "s.toml")) == 7


def test_plan_divides_the_budget(fitted):
    shown = done("plan", fitted / "people.toml", "--epsilon", 1, "--rows", 20_000)
    assert "epsilon = 1" in shown and "20000 rows" in shown and "No data was touched" in shown


def test_plan_as_json_can_be_read(fitted):
    made = json.loads(done("plan", fitted / "people.toml", "--epsilon", 1, "--method", "independent", "--json"))
    assert (made["method"], made["epsilon"], made["delta"]) == ("independent", 1.0, 1e-6)
    assert sum(item["share"] for item in made["items"]) == pytest.approx(1.0)


def test_plan_takes_settings(fitted):
    def share(value):
        options = ["--epsilon", 1, "--set", f"encoding_share={value}", "--json"]
        made = json.loads(done("plan", fitted / "people.toml", *options))
        return next(item["share"] for item in made["items"] if item["name"] == "gradients")

    assert share(0.2) > share(0.45)


def test_plan_refuses_wrong_numbers_of_rows(fitted):
    assert "rows: expected" in refused("plan", fitted / "people.toml", "--epsilon", 1, "--rows", 0)


def test_fit_prints_the_receipt_and_what_to_do_next(fitted):
    printed = (fitted / "printed.txt").read_text()
    assert str(us.load(fitted / "m.understudy").receipt) in printed
    assert "Charged to table 'example'" in printed and "understudy sample" in printed


def test_fit_charges_the_ledger(fitted):
    total = LedgerFile(fitted / "budget.jsonl").total("example")
    assert (total.epsilon, total.delta, total.fits) == (2.0, 1e-6, 1)


def test_fit_as_json_prints_a_receipt_that_can_be_read(fitted, tmp_path):
    options = [*QUICK, "--seed", 1, "--json", "-o", tmp_path / "m.understudy"]
    printed = done("fit", fitted / "people.csv", fitted / "people.toml", *options)
    assert us.Receipt.from_json(printed) == us.load(tmp_path / "m.understudy").receipt


def test_fit_is_quiet_when_asked(fitted, tmp_path):
    options = [*QUICK, "--quiet", "-o", tmp_path / "m.understudy"]
    assert done("fit", fitted / "people.csv", fitted / "people.toml", *options) == ""


def test_fit_takes_method_and_settings(fitted, tmp_path):
    options = ["--epsilon", 2, "--method", "copula", "--set", "encoding_share=0.5", "--set", "clip_range=(1.0, 2.0)"]
    done("fit", fitted / "people.csv", fitted / "people.toml", *options, "-o", tmp_path / "m.understudy")
    assert us.load(tmp_path / "m.understudy").method == us.Copula(encoding_share=0.5, clip_range=(1.0, 2.0))


def test_fit_replaces_an_older_model(fitted, tmp_path):
    (tmp_path / "m.understudy").write_text("old")
    options = [*QUICK, "-o", tmp_path / "m.understudy"]
    done("fit", fitted / "people.csv", fitted / "people.toml", *options)
    assert us.load(tmp_path / "m.understudy").schema == datasets.example_schema()
    assert [path.name for path in tmp_path.iterdir()] == ["m.understudy"]


def test_fit_with_a_seed_can_be_repeated_and_says_so(fitted, tmp_path):
    for name in ("a", "b"):
        options = [*QUICK, "--seed", 7, "-o", tmp_path / name]
        assert "FOR TESTS ONLY" in done("fit", fitted / "people.csv", fitted / "people.toml", *options)
    assert us.load(tmp_path / "a").sample(20, 1).equals(us.load(tmp_path / "b").sample(20, 1))


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"])
def test_sample_writes_every_format(fitted, tmp_path, name):
    assert "30 rows" in done("sample", fitted / "m.understudy", "-n", 30, "-o", tmp_path / name)
    path = tmp_path / name
    rows = (
        pl.read_parquet(path)
        if name.endswith("parquet")
        else pl.read_csv(path, separator="\t" if "tsv" in name else ",")
    )
    assert rows.columns == list(datasets.example_schema().names) and len(rows) == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.json"]


def test_sample_with_a_seed_can_be_repeated(fitted, tmp_path):
    for name in ("a.csv", "b.csv"):
        done("sample", fitted / "m.understudy", "-n", 10, "--seed", 3, "-o", tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_sample_takes_a_model_that_was_fitted_to_a_pandas_table(tmp_path):
    table = datasets.example(200).to_pandas()
    us.fit(table, datasets.example_schema(), "independent", epsilon=2.0).save(tmp_path / "m.understudy")
    done("sample", tmp_path / "m.understudy", "-n", 10, "-o", tmp_path / "out.parquet")
    assert len(pl.read_parquet(tmp_path / "out.parquet")) == 10


def test_sample_takes_no_rows_and_refuses_fewer(fitted, tmp_path):
    done("sample", fitted / "m.understudy", "-n", 0, "-o", tmp_path / "out.csv")
    assert "-n: expected" in refused("sample", fitted / "m.understudy", "-n", -1, "-o", tmp_path / "out.csv")


def test_sample_refuses_more_rows_than_memory_holds(fitted, tmp_path):
    assert "memory" in refused("sample", fitted / "m.understudy", "-n", 10**15, "-o", tmp_path / "out.csv")


def test_receipt_shows_what_fit_printed(fitted):
    assert done("receipt", fitted / "m.understudy").strip() in (fitted / "printed.txt").read_text()
    assert us.Receipt.from_json(done("receipt", fitted / "m.understudy", "--json")).budget.epsilon == 2.0


def test_ledger_shows_fits_and_caps(fitted):
    shown = done("ledger", "show", fitted / "budget.jsonl")
    assert "example" in shown and "epsilon = 2" in shown and "no cap" in shown


def test_a_cap_refuses_the_fit_that_passes_it(fitted, tmp_path):
    ledger = tmp_path / "budget.jsonl"
    assert "'example'" in done("ledger", "cap", ledger, "example", "--epsilon", 3, "--delta", 1e-5)
    options = [*QUICK, "--ledger", ledger, "-o", tmp_path / "m.understudy"]
    done("fit", fitted / "people.csv", fitted / "people.toml", *options)
    first = (tmp_path / "m.understudy").read_bytes()
    line = refused("fit", fitted / "people.csv", fitted / "people.toml", *options)
    assert "cap of 3" in line and "nothing was read" in line
    assert (tmp_path / "m.understudy").read_bytes() == first
    assert LedgerFile(ledger).total("example").fits == 1


def test_a_cap_refuses_before_the_table_is_opened(fitted, tmp_path):
    """The table does not exist, and still it is the cap that refuses."""
    ledger = LedgerFile(tmp_path / "budget.jsonl")
    ledger.set_cap("example", 1.0, 1e-5)
    with pytest.raises(us.BudgetExceeded, match="cap of 1"):
        us.fit(tmp_path / "gone.csv", datasets.example_schema(), epsilon=2.0, ledger=ledger.path)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-5), (1, 1)])
def test_a_cap_that_is_none_is_refused(tmp_path, epsilon, delta):
    line = refused("ledger", "cap", tmp_path / "b.jsonl", "people", "--epsilon", epsilon, "--delta", delta)
    assert "expected" in line and not (tmp_path / "b.jsonl").exists()


def test_schema_check_says_what_a_schema_states(fitted):
    assert done("schema", "check", fitted / "people.toml").strip() == str(datasets.example_schema())


# The process ------------------------------------------------------------------------------------------------------


def test_the_process_does_what_the_commands_do(fitted, tmp_path):
    data, schema = fitted / "people.csv", fitted / "people.toml"
    result = spawn("fit", data, schema, *QUICK, "-o", "m.understudy", folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Privacy receipt" in result.stdout and (tmp_path / "m.understudy").exists()


def test_the_process_refuses_in_one_line(fitted, tmp_path):
    result = spawn("fit", "gone.csv", fitted / "people.toml", "--epsilon", 1, "-o", "m.understudy", folder=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "understudy: gone.csv cannot be read: no such file or directory.\n"


def test_a_name_with_strange_letters_is_still_one_line(tmp_path):
    result = spawn("receipt", "a\nb\x1b[31m\udcff.understudy", folder=tmp_path)
    assert result.returncode == 1 and result.stderr.count("\n") == 1 and "\x1b" not in result.stderr


def test_a_name_that_no_terminal_can_spell_is_no_traceback(fitted, tmp_path):
    options = ["-n", 3, "-o", "a\udcff.csv"]
    result = spawn("sample", fitted / "m.understudy", *options, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "") and "3 rows written to a?.csv" in result.stdout


def test_a_closed_pipe_is_no_traceback(fitted, tmp_path):
    code = "import os; r, w = os.pipe(); os.dup2(w, 1); os.close(r)\nfrom understudy.cli import main; main()"
    result = spawn("ledger", "show", fitted / "budget.jsonl", folder=tmp_path, code=code)
    assert result.returncode == 1 and "Traceback" not in result.stderr
