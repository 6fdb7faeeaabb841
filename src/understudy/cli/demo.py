"""The demonstration: simulate people, fit a model to them, sample from it, compare, and report.

The one rule: it does what a user would do, through the front door, so that it shows what a user would get. Only the
comparison would be out of bounds for a real table: it reads the people themselves, and says so.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from rich.console import Console

import understudy as us
from understudy import datasets
from understudy.cli.demo_tables import correlations, distributions, first_rows, network, receipt_panel
from understudy.tables.writing import write

FILES = ("people.csv", "people.toml", "people.understudy", "synthetic.csv", "report.html", "report.json")
PAIRS = (
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
        console, 2, f"Fit a model to them. All that is learned is charged to epsilon = {epsilon:g}, delta = {delta:g}."
    )
    model = us.fit(data, schema, epsilon=epsilon, delta=delta)
    model.save(model_file)
    console.print(receipt_panel(model.receipt, console.width))

    _step(console, 3, f"Draw {rows} people who do not exist. Sampling costs no budget, however often.")
    synthetic = model.sample(rows)
    write(synthetic, copy)
    console.print(first_rows(synthetic))

    _step(console, 4, f"Compare. {_STAMP}")
    console.print(distributions(people, synthetic))
    console.print(correlations(people, synthetic, PAIRS))

    _step(
        console, 5, "See which columns it found to depend on which. These people were simulated, so the truth is known."
    )
    console.print(network(model.parents, datasets.EXAMPLE_PARENTS))

    _step(console, 6, f"Put all of it on one page, {page}. {_STAMP}")
    us.report(model, page, people, rows=rows, learners=())

    _step(console, 7, f"Open {page} in a browser. The other files in {folder}, and what to try next:")
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
    console.print(f"\n[bold cyan]{number}[/bold cyan]  [bold]{text}[/bold]\n", soft_wrap=True)


def _print(console: Console, text: str) -> None:
    """Prints text as it stands, neither wrapped nor read as markup."""
    console.print(text, markup=False, soft_wrap=True)
