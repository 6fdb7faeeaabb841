"""The demonstration: simulate people, fit a model to them, sample from it, compare, and report.

The one rule: it does what a user would do, through the front door, so that it shows what a user would get. Only the
comparison would be out of bounds for a real table: it reads the people themselves, and says so.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import understudy as us
from understudy import datasets
from understudy.tables.writing import write

FILES = ("people.csv", "people.toml", "people.understudy", "synthetic.csv", "report.html", "report.json")
_PAIRS = (
    ("age", "salary"),
    ("education_years", "salary"),
    ("salary", "working_hours"),
    ("salary", "credit_score"),
)
_STAMP = "This reads the simulated people themselves, so it is not covered by the budget."


def run(
    folder: Path, *, rows: int = 10_000, epsilon: float = 1.0, delta: float = 1e-6, to_stderr: bool = False
) -> us.Model:
    """Runs the demonstration, prints it, and writes its files to the folder. Returns the model.

    Raises:
        FileExistsError: The folder holds files of these names that another program wrote.
    """
    console = Console(highlight=False, stderr=to_stderr)
    people = datasets.example(rows)
    data, facts, model_file, copy, page, _ = (folder / name for name in FILES)
    _prepare(folder, people)

    _step(console, 1, f"Simulate {rows} people, and write a schema: what is publicly known about them.")
    write(people, data)
    datasets.example_schema().write(facts)
    schema = us.Schema.read(facts)
    _print(console, str(schema))

    _step(
        console,
        2,
        f"Fit a model to them under epsilon = {epsilon:g}, delta = {delta:g}. Its receipt:",
    )
    model = us.fit(data, schema, epsilon=epsilon, delta=delta)
    model.save(model_file)
    _print(console, str(model.receipt))

    _step(console, 3, f"Draw {rows} people who do not exist. Sampling costs no budget, however often.")
    synthetic = model.sample(rows)
    write(synthetic, copy)
    _print(console, str(synthetic.head(5)))

    _step(console, 4, f"Compare. {_STAMP}")
    for made in (_numbers(people, synthetic), _shares(people, synthetic), _correlations(people, synthetic)):
        console.print(made)

    _step(console, 5, f"Put all of it on one page, {page}. {_STAMP}")
    us.report(model, page, people, rows=rows, learners=())

    _step(console, 6, f"The files in {folder}, and what to try next:")
    _print(console, "\n".join(f"  {folder / name}" for name in FILES))
    _print(console, "\n".join(["", *(f"  {command}" for command in _next_commands(folder))]))
    return model


def _prepare(folder: Path, people: pl.DataFrame) -> None:
    """Makes the folder; refuses to overwrite files that no earlier run can have written."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(errno.EEXIST, "it exists and is not a folder; give another one with -o", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    found = [folder / name for name in FILES if (folder / name).exists()]
    if found and not _is_from_demo(folder / FILES[0], people.write_csv().encode()):
        why = "it exists and was not written by this demo; give another folder with -o"
        raise FileExistsError(errno.EEXIST, why, str(found[0]))


def _is_from_demo(path: Path, content: bytes) -> bool:
    return path.is_file() and os.path.getsize(path) == len(content) and path.read_bytes() == content


def _next_commands(folder: Path) -> Iterator[str]:
    data, facts, model, copy, *_ = (folder / name for name in FILES)
    yield f"understudy receipt {model}"
    yield f"understudy report {model} -o {folder / 'to-share.html'}"
    yield f"understudy sample {model} -n 1000 -o {copy.with_suffix('.parquet')}"
    yield f"understudy plan {facts} --epsilon 0.5"
    ledger, half = folder / "budget.jsonl", folder / "half.understudy"
    yield f"understudy fit {data} {facts} --epsilon 0.5 --ledger {ledger} -o {half}"
    yield f"understudy ledger show {ledger}"


# What is printed ---------------------------------------------------------------------------------------------------


def _step(console: Console, number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/bold]", soft_wrap=True)


def _print(console: Console, text: str) -> None:
    """Prints text as it stands, neither wrapped nor read as markup."""
    console.print(text, markup=False, soft_wrap=True)


def _numbers(people: pl.DataFrame, synthetic: pl.DataFrame) -> Table:
    """Mean, quantiles and share of missing values of every column of numbers, real above synthetic."""
    statistics: dict[str, Callable[[pl.Series], str]] = {
        "mean": lambda column: _short(column.mean()),
        "5 %": lambda column: _short(column.quantile(0.05, "linear")),
        "50 %": lambda column: _short(column.quantile(0.50, "linear")),
        "95 %": lambda column: _short(column.quantile(0.95, "linear")),
        "missing": lambda column: _percent(column.null_count() / max(len(column), 1)),
    }
    made = _table("Numbers", "column", "", *statistics)
    for name in (name for name in people.columns if people[name].dtype.is_numeric()):
        made.add_row(name, "real", *(each(people[name]) for each in statistics.values()))
        made.add_row("", "synthetic", *(each(synthetic[name]) for each in statistics.values()))
    return made


def _shares(people: pl.DataFrame, synthetic: pl.DataFrame) -> Table:
    """The share of every category."""
    made = _table("Categories", "column", "category", "real", "synthetic")
    for name in (name for name in people.columns if people[name].dtype == pl.String):
        for category in pl.concat([people[name], synthetic[name]]).drop_nulls().unique().sort():
            shares = ((frame[name] == category).sum() / max(len(frame), 1) for frame in (people, synthetic))
            made.add_row(name, category, *(_percent(share) for share in shares))
    return made


def _correlations(people: pl.DataFrame, synthetic: pl.DataFrame) -> Table:
    """Correlations of a few pairs that truly depend on each other."""
    made = _table("Correlations", "column", "with", "real", "synthetic")
    for one, other in _PAIRS:
        values = (frame.select(pl.corr(one, other)).item() for frame in (people, synthetic))
        made.add_row(one, other, *(f"{value:.2f}" for value in values))
    return made


def _table(title: str, *heads: str) -> Table:
    made = Table(title=f"{title} (not covered by the budget)", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(heads):
        made.add_column(head, justify="left" if place < 2 else "right", no_wrap=True)
    return made


def _short(value: object) -> str:
    if not isinstance(value, float):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
