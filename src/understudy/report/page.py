"""Writes the page about a model, and a JSON file with its numbers.

The one rule: a page is self-contained. It holds its pictures and its style, loads nothing and runs nothing, and beside
it lies a JSON file with every number that it shows. What the model's receipt does not cover is stamped, at the top and
where it stands: numbers of real rows, and synthetic rows that were given and not drawn here.
"""

import dataclasses
import importlib.resources
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2

from understudy.core.files import reason, replacing, sha256
from understudy.core.network_drawing import network
from understudy.databases.model import DatabaseModel, load
from understudy.datasets import EXAMPLE_PARENTS, example_schema
from understudy.evaluation.picture import draw_verdict
from understudy.model import Model
from understudy.privacy.ledger_file import LedgerFile
from understudy.report import database_drawing, drawing
from understudy.report.audit import audit_part
from understudy.report.content import SyntheticRows, gather
from understudy.report.database import gather_database
from understudy.report.findings import tables_of
from understudy.report.provenance import drawn_again
from understudy.tables.schema import Schema

MOST_ROWS = 10_000
"""At most so many rows are drawn by default; fewer if fewer were fitted, as far as the noisy count tells."""
MOST_COLUMNS = 150
"""At most so many columns are drawn on the page; the JSON has them all."""


class ReportError(ValueError):
    """The report cannot be made from these arguments, or cannot be written."""


def report(
    model: Model | DatabaseModel | str | os.PathLike[str],
    path: str | os.PathLike[str],
    real: Any = None,
    *,
    synthetic: Any = None,
    rows: int | None = None,
    train: Any = None,
    ledger: str | os.PathLike[str] | None = None,
    truth: Mapping[str, Iterable[str]] | str | os.PathLike[str] | None = None,
    learners: Iterable[str] | None = None,
    audit: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Path:
    """Writes a page about a model, and a JSON file of the same name beside it; returns the path of the page.

    Args:
        model: A model, or the path of its file. The page about a database has a drawing of its keys, the children per
            parent and some histories; then `real`, `synthetic` and `train` are databases, and `rows` counts units.
        path: Where the page goes; it ends in .html.
        real: Real rows to compare with, preferably some that were kept from the fit. A path or a frame, as for `fit`.
            None: a page about the model alone.
        synthetic: The rows to show, likewise. None: drawn from the model, with `seed`. Rows that are given are not
            known to come from the model, so they are stamped as not covered by its receipt.
        rows: How many rows to draw. None: about as many as were fitted, and at most `MOST_ROWS`.
        train: The table that was fitted, for two baselines beside each value.
        ledger: A ledger file, for what was spent on the table over all fits.
        truth: The true parents by column, or the path of a JSON file with them, if they are known. Those of the
            example table are.
        learners: The learners to train for usefulness; None: CatBoost, if the schema has a target and it is installed.
        audit: The JSON of an audit of the method, or the path of its file (docs/audit.md).
        seed: The seed of drawn rows and of the evaluation's subsamples.

    Privacy:
        Without `real` and `synthetic`, everything follows from the model, and its budget covers it. With `real`, the
        page holds numbers of real rows without noise, which no budget covers. Rows given as `synthetic` may be
        anything, so the receipt does not cover what is shown of them.

    Raises:
        ReportError, AuditError: The arguments contradict each other, or the page cannot be written.
        ModelError, TableError, LedgerError: A file cannot be read, or does not fit.
    """
    page, numbers = places(path)
    _check(synthetic=synthetic, rows=rows, real=real, train=train, seed=seed)
    model_file = model if isinstance(model, str | os.PathLike) else None
    model = load(model) if isinstance(model, str | os.PathLike) else model
    book = None if ledger is None else LedgerFile(ledger)
    beside: dict[str, Any] = {"real": real, "train": train, "ledger": book, "seed": seed, "model_file": model_file}
    if isinstance(model, DatabaseModel):
        _check_database(truth=truth, learners=learners, audit=audit)
        _write_both(page, numbers, gather_database(model, synthetic, units=rows, **beside))
        return page
    shown = _drawn(model, rows, seed) if synthetic is None else _given(synthetic, model)
    content = gather(model, shown, truth=_truth(truth, model.schema), learners=learners, **beside)
    _write_both(page, numbers, content | {"audit": audit_part(audit, model)})
    return page


def _write_both(page: Path, numbers: Path, content: Mapping[str, Any]) -> None:
    rendered = render(json.loads(_as_json(content))).encode("utf-8", "replace")
    _write(numbers, _as_json({**content, "page_sha256": sha256(rendered)}).encode("utf-8", "replace"))
    _write(page, rendered)


def _as_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _drawn(model: Model, rows: int | None, seed: int) -> SyntheticRows:
    rows = rows or min(max(round(model.encoder.rows), 1), MOST_ROWS)
    table = dataclasses.replace(model, kind="polars").sample(rows, seed)
    return SyntheticRows(table=table, source=f"drawn from the model with seed {seed}", covered_by_budget=True)


def _given(synthetic: Any, model: Model) -> SyntheticRows:
    """Rows that somebody gave: covered only if the model draws the very same ones."""
    if not isinstance(synthetic, str | os.PathLike):
        return SyntheticRows(table=synthetic, source="from a table", covered_by_budget=False)
    known, how = drawn_again(synthetic, model)
    name = Path(synthetic).name
    source = f"from {name}, {how}" if known else f"from {name}"
    return SyntheticRows(
        table=synthetic, source=source, covered_by_budget=known, file=synthetic, doubt="" if known else how
    )


def places(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The paths of the page and of its numbers."""
    page = Path(path)
    if page.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"{os.fspath(path)}: expected the name of a page, ending in .html.")
    return page, page.with_suffix(".json")


def render(content: Mapping[str, Any]) -> str:
    """The page, from what `content.gather` gives. It reads no row."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "number": lambda value: "–" if value is None else f"{value:.4g}",
        "percent": drawing.percent,
        "at_most": at_most,
    }
    utility, is_database = content["utility"], content.get("what") == "database"
    tools = {
        "draw": drawing,
        "draw_network": network,
        "draw_verdict": draw_verdict,
        "most_columns": MOST_COLUMNS,
        "findings": tables_of(utility["verdict"], utility["columns"]) if utility and not is_database else [],
        "families": database_drawing,
    }
    return environment.get_template("database.html" if is_database else "page.html").render(**content, **tools)


def _template(name: str) -> str:
    return importlib.resources.files("understudy.report").joinpath(name).read_text("utf-8")


def at_most(share: float) -> str:
    """An upper bound as a percentage, rounded up."""
    return f"{math.ceil(share * 1000 - 1e-9) / 10:.1f}\xa0%"


def _check(*, synthetic: Any, rows: int | None, real: Any, train: Any, seed: int) -> None:
    if synthetic is not None and rows is not None:
        raise ReportError("report: expected synthetic rows or how many to draw, got both. Leave one out.")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ReportError(f"rows: expected a whole number >= 1, got {rows!r}.")
    if train is not None and real is None:
        raise ReportError("train: expected real rows to compare with as well. Give `real`, rows kept from the fit.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ReportError(f"seed: expected a whole number >= 0, got {seed!r}.")


def _check_database(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise ReportError(f"{name}: expected none for a database. A page about one has no such part.")


def _truth(truth: Any, schema: Schema) -> dict[str, list[str]] | None:
    """The true parents, checked against the schema; those of the example table if none are given for it."""
    if truth is None:
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


def _write(path: Path, content: bytes) -> None:
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {reason(error)}.") from None
