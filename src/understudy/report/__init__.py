"""The gallery: one page that says what was promised for a model and, beside real rows, what it is worth.

The one rule: a page is whole by itself. It holds its pictures and its style, loads nothing and runs nothing, and beside
it lies a JSON file with every number that it shows. What comes from real rows is stamped, at the top and where it
stands.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import reason, replacing

MOST_ROWS = 10_000
"""How many rows are drawn at most where nobody says how many: as many as were fitted, as far as that is known."""
MOST_COLUMNS = 150
"""How many columns are drawn on the page; the JSON has them all."""


class ReportError(ValueError):
    """A report cannot be made of this, or written there."""


def report(
    model: Any,
    path: str | os.PathLike[str],
    real: Any = None,
    *,
    synthetic: Any = None,
    rows: int | None = None,
    train: Any = None,
    ledger: str | os.PathLike[str] | None = None,
    truth: Mapping[str, Iterable[str]] | str | os.PathLike[str] | None = None,
    learners: Iterable[str] | None = None,
    seed: int = 0,
) -> Path:
    """Writes a page about a model, and a JSON file of the same name beside it.

    Args:
        model: A model, or the path of its file.
        path: Where the page goes; it ends in .html.
        real: Real rows to hold the synthetic ones against, best some that were kept from the fit. A path or a frame,
            as for `fit`. None: a page about the model alone.
        synthetic: The rows to show; likewise. None: drawn from the model, with `seed`.
        rows: How many to draw. None: about as many as were fitted, and at most `MOST_ROWS`.
        train: The table that was fitted, for a floor and a reference beside each value.
        ledger: A ledger file, for what was spent on the table in all.
        truth: The true parents by column, or the path of a JSON file with them, where they are known. Those of the
            example table are.
        learners: Who is to be trained for usefulness; None: CatBoost, if the schema has a target and it is installed.
        seed: Where synthetic rows and the evaluation's subsamples come from.

    Returns:
        The path of the page.

    Privacy:
        Without `real`, everything follows from the model, the schema and the receipt, and is covered by the model's
        budget. With it, the page holds numbers of real rows without noise, and no budget covers them.

    Raises:
        ReportError: The arguments contradict each other, or the page cannot be written.
        ModelError, TableError, LedgerError: A file cannot be read, or does not fit.
    """
    from understudy.model import load
    from understudy.privacy.ledger_file import LedgerFile
    from understudy.report.content import gather

    page, numbers = places(path)
    _check(synthetic=synthetic, rows=rows, real=real, train=train, seed=seed)
    model = load(model) if isinstance(model, str | os.PathLike) else model
    true_parents = _truth(truth, model.schema)
    if synthetic is None:
        rows = rows or min(max(round(model.encoder.rows), 1), MOST_ROWS)
        synthetic = dataclasses.replace(model, kind="polars").sample(rows, seed)
        drawn = f"drawn from the model with seed {seed}"
    else:
        drawn = f"from {Path(synthetic).name if isinstance(synthetic, str | os.PathLike) else 'a table'}"
    content = gather(
        model,
        synthetic,
        drawn=drawn,
        real=real,
        train=train,
        ledger=None if ledger is None else LedgerFile(ledger),
        truth=true_parents,
        learners=learners,
        seed=seed,
    )
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    rendered = render(json.loads(text))
    _write(numbers, text)
    _write(page, rendered)
    return page


def places(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Where the page and its numbers go."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"{os.fspath(path)}: expected the name of a page, ending in .html.")
    return page, page.with_suffix(".json")


def render(content: Mapping[str, Any]) -> str:
    """The page, from what `content.gather` says. Public mathematics: it only spells."""
    import importlib.resources

    import jinja2

    from understudy.report import drawing

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "number": lambda value: "–" if value is None else f"{value:.4g}",
        "percent": drawing.percent,
        "at_most": at_most,
    }
    text = importlib.resources.files("understudy.report").joinpath("page.html").read_text("utf-8")
    return environment.from_string(text).render(**content, draw=drawing, most_columns=MOST_COLUMNS)


def at_most(share: float) -> str:
    """An upper bound as a percentage, rounded up."""
    import math

    return f"{math.ceil(share * 1000 - 1e-9) / 10:.1f}\xa0%"


def _check(*, synthetic: Any, rows: int | None, real: Any, train: Any, seed: int) -> None:
    if synthetic is not None and rows is not None:
        raise ReportError("report: expected synthetic rows or how many to draw, got both. Leave one out.")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ReportError(f"rows: expected a whole number >= 1, got {rows!r}.")
    if train is not None and real is None:
        raise ReportError("train: expected real rows to judge by as well. Give `real`, best rows kept from the fit.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ReportError(f"seed: expected a whole number >= 0, got {seed!r}.")


def _truth(truth: Any, schema: Any) -> dict[str, list[str]] | None:
    """The true parents, checked against the schema; those of the example where nothing else is said of it."""
    if truth is None:
        from understudy.datasets import EXAMPLE_PARENTS, example_schema

        return EXAMPLE_PARENTS if (schema.name, schema.names) == ("example", example_schema().names) else None
    place = "truth"
    if isinstance(truth, str | os.PathLike):
        place = os.fspath(truth)
        try:
            truth = json.loads(Path(truth).read_bytes().decode())
        except OSError as error:
            raise ReportError(f"{place} cannot be read: {reason(error)}.") from None
        except (ValueError, RecursionError):
            raise ReportError(f"{place}: expected JSON, an object of lists of column names.") from None
    if not isinstance(truth, Mapping) or any(
        isinstance(of, str) or not isinstance(of, Iterable) for of in truth.values()
    ):
        raise ReportError(f"{place}: expected the parents of each column, as in {{'salary': ['age']}}.")
    graph = {name: list(of) for name, of in truth.items()}
    for name in (*graph, *(parent for of in graph.values() for parent in of)):
        if name not in schema.names:
            raise ReportError(f"{place}: expected names of columns, got {name!r}.")
    for name, of in graph.items():
        if name in of:
            raise ReportError(f"{place}: expected no column to be its own parent, got {name!r}.")
    return graph


def _write(path: Path, text: str) -> None:
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {reason(error)}.") from None
