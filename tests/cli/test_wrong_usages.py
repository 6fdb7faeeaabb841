"""Wrong usages: each ends in one line and exit code 1 or 2, changes no file, charges nothing and shows no cell."""

import pytest

import understudy as us
from bad_input import GOOD, SCHEMA, SECRET, SECRET_NUMBER
from commands import run

FIT = "fit people.csv people.toml --epsilon 1 --ledger budget.jsonl --method independent -o o.understudy"
BASE = 'name = "people"\n[columns.a]\nkind = "integer"\n'

TWO = "[columns.a]\nkind = 'integer'\n[columns.b]\nkind = 'integer'\n"

# A command line, and a word of the answer. Where an option of FIT is given again, the last one counts.
LINES = [
    # the program
    ("fti", "No such command 'fti'"),
    ("--epsilon 1", "No such option"),
    ("version now", "unexpected extra argument"),
    ("doctor --jsn", "No such option '--jsn'"),
    ("completion", "Missing argument"),
    ("completion tcsh", "'tcsh' is not one of"),
    # schema draft
    ("schema drft people.csv", "No such command 'drft'"),
    ("schema draft", "Missing argument 'DATA'"),
    ("schema draft people.csv", "Missing option '-o'"),
    ("schema draft gone.csv -o s.toml", "no such file"),
    ("schema draft . -o s.toml", "empty.csv is empty"),
    ("schema draft people.toml -o s.toml", "expected a file that ends in"),
    ("schema draft empty.csv -o s.toml", "empty"),
    ("schema draft header.csv -o s.toml", "no rows"),
    ("schema draft people.csv -o people.toml", "--force"),
    ("schema draft people.csv -o people.csv --force", "another name"),
    ("schema draft people.csv -o gone/s.toml", "there is no folder"),
    ("schema draft people.csv -o . --force", "is a folder"),
    ("schema draft people.csv people.csv -o s.toml", "unexpected extra argument"),
    ("schema draft people.csv -o s.toml --interactiv", "No such option '--interactiv'"),
    ("schema draft people.csv -o s.csv", "expected a name that ends in .toml"),
    ("schema draft people.csv -o s.toml --delimiter ;;", "expected delimiter to be one ASCII character"),
    ("schema draft people.csv -o s.toml --encoding klingon", "expected encoding to be one of utf-8"),
    ("schema draft people.csv -o s.toml --decimal ;", "expected decimal to be"),
    ("schema draft sqlite:///gone.db?table=x -o s.toml", "no such file"),
    ("schema draft sqlite:///people.csv?table=x -o s.toml", "cannot be read as SQLite"),
    ("schema draft sqlite:///people.csv -o s.toml", "expected one of ?table=NAME"),
    ("schema draft mysql://h/d?table=x -o s.toml", "sqlite, duckdb or postgresql"),
    # schema check
    ("schema check", "Missing argument 'SCHEMA'"),
    ("schema check gone.toml", "no such file"),
    ("schema check people.csv", "expected a .toml file"),
    ("schema check budget.jsonl", "not valid TOML"),
    ("schema check m.understudy", "expected UTF-8 text"),
    ("schema check .", "cannot be read"),
    ("schema check people.toml people.toml", "unexpected extra argument"),
    ("schema check people.toml --jsn", "Did you mean '--json'?"),
    ("schema check sqlite:///people.db?table=x", "expected a .toml file, got a URL"),
    # plan
    ("plan", "Missing argument 'SCHEMA'"),
    ("plan people.toml", "Missing option '--epsilon'"),
    ("plan people.toml --epsilon", "requires an argument"),
    ("plan people.toml --epsilon much", "not a valid float"),
    ("plan people.toml --epsilon 0", "epsilon: expected"),
    ("plan people.toml --epsilon -1", "epsilon: expected"),
    ("plan people.toml --epsilon nan", "epsilon: expected"),
    ("plan people.toml --epsilon inf", "epsilon: expected"),
    ("plan people.toml --epsilon 1 --delta 0", "delta: expected"),
    ("plan people.toml --epsilon 1 --delta 1", "delta: expected"),
    ("plan people.toml --epsilon 1 --rows 0", "rows: expected"),
    ("plan people.toml --epsilon 1 --rows many", "not a valid integer"),
    ("plan people.toml --epsilon 1 --method copla", "Did you mean 'copula'?"),
    ("plan people.toml --epsilon 1 --set degree", "expected key=value"),
    ("plan people.toml --epsilon 1 --set =3", "expected key=value"),
    ("plan people.toml --epsilon 1 --set a=1 --set a=2", "given twice"),
    ("plan people.toml --epsilon 1 --method aim --set degre=2", "Did you mean 'degree'?"),
    ("plan people.toml --epsilon 1 --method aim --set degree=0", "degree"),
    ("plan people.csv --epsilon 1", "expected a .toml file"),
    ("plan people.toml --epsilon 1 --delta nan", "delta: expected"),
    ("plan people.toml --epsilon 1 --rows 1.5", "not a valid integer"),
    ("plan people.toml people.csv --epsilon 1", "unexpected extra argument"),
    ("plan people.toml --epsilon 1 --method=", "method: expected one of"),
    ("plan people.toml --epsilon 1 --method aim --set degree=two", "AIM.degree: expected"),
    ("plan people.toml --epsilon 1 --method prada --set steps=-3", "Prada.steps: expected"),
    ("plan people.toml --epsilon 20 --method aim --strict", "Use epsilon of at most 10"),
    # fit
    ("fit", "Missing argument 'DATA'"),
    ("fit people.csv", "Missing argument 'SCHEMA'"),
    ("fit people.csv people.toml -o o.understudy", "Missing option '--epsilon'"),
    ("fit people.csv people.toml --epsilon 1", "Missing option '-o'"),
    ("fit people.toml people.csv --epsilon 1 -o o.understudy", "swapped"),
    ("fit gone.csv people.toml --epsilon 1 -o o.understudy", "no such file"),
    ("fit people.xyz people.toml --epsilon 1 -o o.understudy", "people.xyz"),
    ("fit people.csv gone.toml --epsilon 1 -o o.understudy", "no such file"),
    (f"{FIT} --epsilon 0", "epsilon: expected"),
    (f"{FIT} --epsilon 1e400", "epsilon: expected"),
    (f"{FIT} --epsilon 3", "cap of 2"),
    (f"{FIT} --delta 2", "delta: expected"),
    (f"{FIT} --delta 0.5", "cap of"),
    (f"{FIT} --seed -1", "seed: expected"),
    (f"{FIT} --seed a", "not a valid integer"),
    (f"{FIT} --method best", "method: expected one of"),
    (f"{FIT} --set nothing=1", "has no settings"),
    (f"{FIT} --ledger .", "plain file"),
    (f"{FIT} --ledger people.csv", "not an understudy ledger"),
    (f"{FIT} --ledger gone/b.jsonl", "cannot"),
    (f"{FIT} --ledger torn.jsonl", "line 2"),
    (f"{FIT} -o people.csv", "another name"),
    (f"{FIT} -o people.toml", "another name"),
    (f"{FIT} -o budget.jsonl", "another name"),
    (f"{FIT} -o .", "is a folder"),
    (f"{FIT} -o gone/o.understudy", "there is no folder"),
    (f"{FIT} --quite", "No such option '--quite'"),
    ("fit people.csv unnamed.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "has no name"),
    ("fit people.csv other.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "has no column 'wage'"),
    ("fit people.csv fewer.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "which the schema does not name"),
    ("fit people.csv dates.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "no cell can be read"),
    ("fit header.csv people.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "no rows"),
    ("fit empty.csv people.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "empty"),
    ("fit people.csv people.toml people.csv --epsilon 1 -o o.understudy", "unexpected extra argument"),
    ("fit people.csv people.toml -o o.understudy --epsilon", "requires an argument"),
    ("fit people.csv m.understudy --epsilon 1 -o o.understudy", "expected UTF-8 text"),
    ("fit people.csv people.db --epsilon 1 -o o.understudy", "expected a .toml file"),
    ("fit people.csv . --epsilon 1 -o o.understudy", "is a directory"),
    ("fit m.understudy people.toml --epsilon 1 -o o.understudy", "expected a file that ends in"),
    ("fit people.csv.gz people.toml --epsilon 1 -o o.understudy", "no such file"),
    ("fit sqlite:///gone.db people.toml --epsilon 1 -o o.understudy", "expected one of ?table=NAME"),
    ("fit sqlite:///gone.db?table=x people.toml --epsilon 1 -o o.understudy", "no such file"),
    (f"{FIT} --epsilon 1,5", "not a valid float"),
    (f"{FIT} --delta 1e-400", "delta: expected"),
    (f"{FIT} --method=", "method: expected one of"),
    (f"{FIT} --set x", "expected key=value"),
    (f"{FIT} --seed 3 --strict", "Leave the seed out"),
    (f"{FIT} --delta 0.00001 --epsilon 1.99999 --strict", "Put it under `ignore`"),
    ("fit semicolons.csv people.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "reads as one column"),
    ("fit people.csv strange.toml --epsilon 1 --ledger budget.jsonl -o o.understudy", "no cell is one of them"),
    # sample
    ("sample m.understudy -o o.csv", "Missing option '-n'"),
    ("sample m.understudy -n 5", "Missing option '-o'"),
    ("sample m.understudy -n five -o o.csv", "not a valid integer"),
    ("sample m.understudy -n -5 -o o.csv", "-n: expected"),
    ("sample m.understudy -n 5 --seed -1 -o o.csv", "seed: expected"),
    ("sample gone.understudy -n 5 -o o.csv", "no such file"),
    ("sample people.csv -n 5 -o o.csv", "not a whole understudy model"),
    ("sample m.understudy -n 5 -o o.sqlite", "expected a file that ends in"),
    ("sample m.understudy -n 5 -o m.understudy", "another name"),
    ("sample m.understudy -n 5 -o gone/o.csv", "there is no folder"),
    ("sample m.understudy -n 5 --where age -o o.csv", "where: expected each column once"),
    ("sample m.understudy -n 5 --where agee=3 -o o.csv", "Did you mean 'age'?"),
    ("sample m.understudy -n 5 --where age=3 --where age=4 -o o.csv", "'age' twice"),
    ("sample m.understudy -n 5 --where age=300 -o o.csv", "bounds forbid it"),
    ("sample m.understudy -n 5 --where age=40..30 -o o.csv", "expected low <= high"),
    ("sample m.understudy -n 5 --where age=old -o o.csv", "to be a number"),
    ("sample m.understudy -n 5 --where income= -o o.csv", "nothing is missing"),
    ("sample m.understudy -n 5 --where name=carl -o o.csv", "that the model knows"),
    ("sample -n 5 -o o.csv", "Missing argument 'MODEL'"),
    ("sample m.understudy m.understudy -n 5 -o o.csv", "unexpected extra argument"),
    ("sample m.understudy -n 0.5 -o o.csv", "not a valid integer"),
    ("sample m.understudy -n 5 -o o", "expected a file that ends in"),
    ("sample m.understudy -n 5 --rule age -o o.csv", "expected a rule such as"),
    ("sample m.understudy -n 5 --rule age>=height -o o.csv", "no column 'height'"),
    ("sample m.understudy -n 5 --rule age>=age -o o.csv", "one column twice"),
    ("sample m.understudy -n 5 --where age=.. -o o.csv", "one of them at least"),
    ("sample m.understudy -n 5 --where =5 -o o.csv", "no column ''"),
    # receipt and ledger
    ("receipt", "Missing argument 'MODEL'"),
    ("receipt people.csv", "not a whole understudy model"),
    ("receipt gone", "no such file"),
    ("ledger show gone.jsonl", "No such file"),
    ("ledger show people.csv", "not an understudy ledger"),
    ("ledger show torn.jsonl", "line 2"),
    ("ledger cap budget.jsonl people --epsilon 1", "Missing option '--delta'"),
    ("ledger cap budget.jsonl people --epsilon -1 --delta 1e-6", "epsilon: expected"),
    ("ledger cap people.csv people --epsilon 1 --delta 1e-6", "not an understudy ledger"),
    ("ledger spend budget.jsonl", "No such command 'spend'"),
    ("receipt m.understudy people.csv", "unexpected extra argument"),
    ("ledger show", "Missing argument 'FILE'"),
    ("ledger cap budget.jsonl", "Missing argument 'TABLE'"),
    ("ledger cap budget.jsonl people --epsilon 1 --delta 2", "delta: expected"),
    ("ledger cap budget.jsonl people --epsilon x --delta 1e-6", "not a valid float"),
    # audit
    ("audit", "Missing argument 'SCHEMA'"),
    ("audit people.toml", "Missing option '--epsilon'"),
    ("audit people.csv --epsilon 1", "expected a .toml file"),
    ("audit people.toml --epsilon 0", "epsilon"),
    ("audit people.toml --epsilon 1 --method copla", "Did you mean"),
    ("audit people.toml --epsilon 1 --fits -3", "fits"),
    ("audit people.toml --release people.csv", "belong together"),
    ("audit --simulated exampl --epsilon 1", "Did you mean 'example'"),
    ("audit people.toml --simulated example --epsilon 1", "one of the two"),
    # evaluate, report, compare, bench
    ("evaluate people.csv people.csv", "Missing argument 'SCHEMA'"),
    ("evaluate people.csv people.csv people.toml --metrics wdd", "Did you mean 'wd'?"),
    ("evaluate people.csv people.csv people.toml --metrics r2", "target: expected"),
    ("evaluate people.csv people.csv people.toml --metrics every", "train: expected"),
    ("evaluate people.csv gone.csv people.toml --metrics wd", "no such file"),
    ("evaluate people.csv people.csv people.toml --seed -1", "--seed: expected"),
    ("report m.understudy", "Missing option '-o'"),
    ("report people.csv -o o.html", "not a whole understudy model"),
    ("report m.understudy --synthetic people.csv -n 5 -o o.html", "exclude each other"),
    ("report m.understudy -o m.understudy", "m.understudy"),
    ("compare people.csv people.toml", "Missing option '--epsilon'"),
    ("compare people.csv people.toml --epsilon 0", "epsilon: expected"),
    ("compare people.csv people.toml --epsilon 1 --methods copula,amo", "got 'amo'"),
    ("compare people.csv people.toml --epsilon 1 --metrics wdd", "Did you mean 'wd'?"),
    ("compare people.csv people.toml --epsilon 1 --learners catboost", "target: expected"),
    ("compare people.csv people.toml --epsilon 1 --holdout 1", "0.0<x<1.0"),
    ("compare people.csv people.toml --epsilon 1 --seed -1", "--seed: expected"),
    ("compare people.csv people.toml --epsilon 1 --ledger budget.jsonl", "cap of 2"),
    ("compare gone.csv people.toml --epsilon 1", "no such file"),
    ("compare people.csv unnamed.toml --epsilon 1 --ledger budget.jsonl", "has no name"),
    ("evaluate people.csv header.csv people.toml --metrics wd", "header.csv has no rows"),
    ("evaluate people.csv people.csv people.csv", "expected a .toml file"),
    ("report m.understudy -o o.txt", "ending in .html"),
    ("report m.understudy --ledger people.csv -o o.html", "not an understudy ledger"),
    ("report m.understudy --synthetic header.csv -o o.html", "header.csv has no rows"),
    ("verify people.csv m.understudy", "expected the JSON file of a report"),
    ("verify gone.json m.understudy", "no such file"),
    ("compare people.csv people.toml --epsilon 1 --methods ,", "method: expected one of"),
    ("bench run", "Missing"),
    ("bench gone.toml -o results", "no such file"),
    ("bench table gone", "gone"),
]

# A schema, and a word of the answer.
SCHEMAS = [
    ("", "columns: expected at least one table"),
    ("name = 3\n[columns.a]\nkind = 'integer'\n", "name: expected name to be text"),
    ("name 'x'", "not valid TOML"),
    ("[columns.a]\n", "expected a kind"),
    ("[columns.a]\nkind = 'integr'\n", "Did you mean 'integer'?"),
    ("[columns.a]\nkind = 'integer'\nlow = 9\nhigh = 1\n", "expected low < high"),
    ("[columns.a]\nkind = 'integer'\nlow = 0.5\n", "whole number"),
    ("[columns.a]\nkind = 'integer'\nlow = 'zero'\n", "to be a number"),
    ("[columns.a]\nkind = 'integer'\nvalues = ['1']\n", "only a categorical has it"),
    ("[columns.a]\nkind = 'categorical'\nlow = 1\n", "expected no low"),
    ("[columns.a]\nkind = 'categorical'\nvalues = []\n", "values"),
    ("[columns.a]\nkind = 'categorical'\nvalues = ['x', 'x']\n", "twice"),
    ("[columns.a]\nkind = 'integer'\nlo = 1\n", "unknown key 'lo'. Did you mean 'low'?"),
    ("[columns.a]\nkind = 'integer'\nnullable = 'yes'\n", "nullable to be true or false"),
    ("[columns.a]\nkind = 'continuous'\natoms = [0, 0]\n", "distinct"),
    ("[columns.a]\nkind = 'datetime'\nlow = 'yesterday'\n", "to be a date"),
    ("rows = 0\n" + BASE.split("\n", 1)[1], "rows: expected an integer >= 1"),
    ("targt = 'a'\n" + BASE, "Did you mean 'target'?"),
    ("target = 'b'\n" + BASE, "target: expected the name of a column"),
    ("order = ['b']\n" + BASE, "order: expected every column once"),
    ("unit = 'p'\n" + BASE, "unit and max_rows_per_unit together"),
    ("max_rows_per_unit = 3\n" + BASE, "unit and max_rows_per_unit together"),
    ("unit = 'a'\nmax_rows_per_unit = 3\n" + BASE, "outside columns"),
    ("ignore = ['a']\n" + BASE, "names that are not columns"),
    ("ignore = 'b'\n" + BASE, "expected a list of texts"),
    ("missing = ['']\n" + BASE, "visible text"),
    ("constraints = ['a >= b']\n" + BASE, "has no column 'b'"),
    ("constraints = ['a >=']\n" + BASE, "expected a rule"),
    ("constraints = ['a >= a']\n" + BASE, "one column twice"),
    ("constraints = ['a >= 3']\n" + BASE, "low or high"),
    ("[file]\ncurrency = '5'\n" + BASE.split("\n", 1)[1], "expected currency"),
    ("[[constraints]]\nrule = 'a >= b'\nby = 'luck'\n" + TWO, "expected by to be difference or rejection"),
    ("[[constraints]]\nrule = 'a = b + c'\nby = 'rejection'\n" + TWO, "beside an inequality"),
    ("columns = 3\n", "columns: expected at least one table"),
    ("columns = {a = 3}\n", "expected a table"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, its schema, a model, a ledger with a cap, and some files that do not fit."""
    folder = tmp_path_factory.mktemp("usages")
    files = {
        "people.csv": GOOD,
        "people.toml": SCHEMA,
        "people.xyz": GOOD,
        "empty.csv": "",
        "header.csv": GOOD.splitlines()[0] + "\n",
        "unnamed.toml": SCHEMA.split("\n", 1)[1],
        "other.toml": SCHEMA.replace("[columns.income]", "[columns.wage]"),
        "fewer.toml": SCHEMA.split("[columns.income]")[0],
        "dates.toml": SCHEMA.replace('kind = "categorical"', 'kind = "datetime"'),
        "semicolons.csv": GOOD.replace(",", ";"),
        "strange.toml": SCHEMA.replace('kind = "categorical"', 'kind = "categorical"\nvalues = ["zoe"]'),
        "torn.jsonl": '{"kind": "understudy-ledger", "format": 1}\n{"kind": "fit", "id"\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    us.fit(folder / "people.csv", folder / "people.toml", "independent", epsilon=5.0).save(folder / "m.understudy")
    us.LedgerFile(folder / "budget.jsonl").set_cap("people", 2.0, 1e-5)
    return folder


def refused(words, word):
    result = run(*words)
    assert result.exit_code in (1, 2) and result.stdout == ""
    assert result.stderr.startswith("understudy: ") and result.stderr.count("\n") == 1
    assert word in result.stderr and "Traceback" not in result.stderr and "bug" not in result.stderr
    assert SECRET not in result.stderr and SECRET_NUMBER not in result.stderr


@pytest.mark.parametrize(("line", "word"), LINES, ids=[line or "nothing" for line, _ in LINES])
def test_a_wrong_usage_is_one_line_and_costs_nothing(folder, monkeypatch, line, word):
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(line.split(), word)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(("text", "word"), SCHEMAS, ids=[text.strip()[:40] or "nothing" for text, _ in SCHEMAS])
def test_a_wrong_schema_is_one_line_wherever_it_is_read(folder, tmp_path, text, word):
    (tmp_path / "s.toml").write_text(text)
    data, schema, model = str(folder / "people.csv"), str(tmp_path / "s.toml"), str(tmp_path / "o.understudy")
    for words in (["schema", "check", schema], ["fit", data, schema, "--epsilon", "1", "-o", model]):
        refused(words, word)
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


def test_there_are_more_than_two_hundred():
    assert len(LINES) + len(SCHEMAS) > 200 and len({line for line, _ in LINES}) == len(LINES)
