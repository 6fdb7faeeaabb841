"""A folder with a table to run commands on, and what a refusal and a fit look like there."""

import contextlib

import pytest

import understudy as us
from understudy.cli import main

SECRET = "Zyzzyva"  # a cell that must be seen nowhere
SECRET_NUMBER = "48151.623"
SCHEMA = """\
name = "people"
[columns.name]
kind = "categorical"
[columns.age]
kind = "integer"
low = 0
high = 120
nullable = true
[columns.income]
kind = "continuous"
low = 0.0
high = 100000.0
"""
HEADER = "name,age,income\n"
ROWS = [f"{'ann' if place % 2 else 'bob'},{20 + place % 60},{1000 + 10 * place}" for place in range(200)]
LAST = f"{SECRET},40,{SECRET_NUMBER}"
GOOD = HEADER + "\n".join([*ROWS, LAST]) + "\n"


class Place:
    """A folder with a table and a schema in it, and the `understudy` command to run there."""

    def __init__(self, folder, capfd):
        self.folder, self.capfd = folder, capfd
        self.data, self.schema, self.model = folder / "people.csv", folder / "people.toml", folder / "m.understudy"
        self.data.write_text(GOOD)
        self.schema.write_text(SCHEMA)

    def run(self, *arguments):
        self.capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = self.capfd.readouterr()  # of the whole process: a library that prints is caught too
        return ended.value.code, out, err

    def fit(self, *arguments, data=None, output=None, epsilon=1):
        method = () if "--method" in arguments else ("--method", "copula")  # the quickest that looks at everything
        options = ("--epsilon", epsilon, "-o", output or self.model, *method)
        return self.run("fit", data or self.data, self.schema, *options, *arguments)

    def files(self):
        return {path.relative_to(self.folder): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    @contextlib.contextmanager
    def untouched(self):
        before = self.files()
        yield
        assert self.files() == before


def assert_refused(result, *words):
    """One line on stderr with the words, exit 1, and no cell anywhere."""
    code, out, err = result
    assert (code, out) == (1, "")
    assert err.count("\n") == 1 and err.endswith("\n")
    assert_discreet(out, err)
    for word in words:
        assert word in err


def assert_discreet(out, err):
    for text in (out, err):
        assert "Traceback" not in text and "Warning" not in text
        assert SECRET not in text and SECRET_NUMBER not in text


def assert_fits(place, *arguments):
    """The fit is done, and rows drawn from it are finite and within the bounds."""
    code, out, err = place.fit(*arguments)
    assert (code, err) == (0, "")
    assert_discreet(out, err)
    rows = us.load(place.model).sample(2000)
    assert rows["age"].drop_nulls().is_between(0, 120).all()
    assert rows["income"].is_finite().all() and rows["income"].is_between(0, 100_000).all()
    return rows
