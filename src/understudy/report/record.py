"""The record in a report: which fit it is about, whether this ledger knows it, and what is left for a person to check.

The one rule: nothing is added up or covered that is not matched. A fit is matched by its id, a model and a schema by
their SHA-256. Files of real rows are named and never hashed: a hash of private data is itself a release.
"""

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import reason, sha256
from understudy.core.text import count
from understudy.databases.model import DatabaseModel, load
from understudy.model import Model
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers.red_flags import red_flags
from understudy.tables.sources import is_url, public_name


class VerificationError(ValueError):
    """A report is not about this model, or one of the two was changed."""


def file_name(source: Any) -> str | None:
    """The name of a file; "a table in memory" for a frame, None for nothing."""
    if source is None:
        return None
    if not isinstance(source, str | os.PathLike):
        return "a table in memory"
    return public_name(source) if is_url(source) else Path(source).name


def record_part(model: Model | DatabaseModel, *, model_file: Any, files: Mapping[str, Any]) -> dict[str, Any]:
    """Which fit, which model and which schema a report is about, and which files it was made from.

    Args:
        model_file: The path of the model's file, or None if the model was given itself.
        files: The other sources of the report, by what they are.
    """
    content = model.to_bytes() if model_file is None else Path(model_file).read_bytes()
    return {
        "fit": model.receipt.id or None,
        "fitted": model.receipt.time or None,
        "reported": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "model_file": file_name(model_file),
        "model_sha256": sha256(content),
        "schema_sha256": sha256(model.schema.to_toml()),
        "files": {what: name for what, source in files.items() if (name := file_name(source)) is not None},
    }


def flags_of(model: Model) -> list[dict[str, Any]]:
    """The red flags of a fit: those of its receipt or, if that was written before there were any, found anew."""
    receipt, flags = model.receipt, model.receipt.flags
    if not receipt.id:
        rows = model.schema.rows or model.encoder.rows
        flags = red_flags(model.schema, model.method, receipt.budget, rows=rows, seed=receipt.seed)
    return [flag.to_json() for flag in flags]


def ledger_part(ledger: LedgerFile, model: Model | DatabaseModel) -> dict[str, Any]:
    """What a ledger says of this fit and, only if it knows this fit, of all fits of the table together."""
    table, receipt = model.schema.name, model.receipt
    entry, cap = ledger.fit(receipt.id), ledger.cap(table)
    mismatch = _mismatch(entry, model)
    total: dict[str, Any] = dict.fromkeys(("epsilon", "delta", "fits"))
    if mismatch is None:
        total = dataclasses.asdict(ledger.total(table))
    return {
        "file": ledger.path.name,
        "table": table,
        "this_fit": mismatch is None,
        "mismatch": mismatch,
        "entry": entry if mismatch is None else None,
        **total,
        "cap": None if cap is None else dataclasses.asdict(cap),
    }


def _mismatch(entry: Mapping[str, Any] | None, model: Model | DatabaseModel) -> str | None:
    """Why a fit cannot be matched with the ledger's entry; None if it is the same."""
    receipt = model.receipt
    if not receipt.id:
        return "the model carries no id"
    if entry is None:
        return "the ledger has no entry with the id of this fit"
    known = {
        "table": model.schema.name,
        "method": model.method.name,
        "epsilon": receipt.budget.epsilon,
        "delta": receipt.budget.delta,
    }
    wrong = [key for key, value in known.items() if entry[key] != value]
    return f"the ledger's entry has another {wrong[0]}" if wrong else None


def checklist(privacy: Mapping[str, Any], record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What whoever signs should have checked, each with the fact that this report knows, or None."""
    ledger, unit = privacy["ledger"], privacy["unit"]
    whom = "one row" if unit == "row" else f"all rows of one {unit}, at most {privacy['max_rows_per_unit']}"
    spent = "no ledger was given"
    if ledger is not None:
        spent = f"this fit is not matched: {ledger['mismatch']}"
        if ledger["this_fit"]:
            spent = f"epsilon = {ledger['epsilon']:g}, delta = {ledger['delta']:g} in {count(ledger['fits'], 'fit')}"
    grave = [flag["name"] for flag in privacy["flags"] if flag["severity"] != "notice"]
    rows = privacy["rows"]["public"] or round(privacy["rows"]["measured"])
    budget = f"epsilon = {privacy['epsilon']:g}, delta = {privacy['delta']:g}"
    facts = [
        ("Epsilon and delta are what was agreed.", budget),
        ("Delta is well below one over the number of people.", f"1 / rows is about {1 / max(rows, 1):.2g}"),
        ("What is protected is a whole person.", f"protected: {whom}"),
        ("The guarantee holds, and every red flag was answered.", ", ".join(grave) or "no red flag"),
        ("The total over all fits of these people stays within what was agreed.", spent),
        ("The schema could have been written by somebody who never saw the table.", None),
        ("The table was not prepared with its own help: no outliers dropped, nothing scaled by the data.", None),
        ("Nothing else about these people goes out beside the model, or it was counted.", None),
        (
            "The model is the one described here, by understudy verify.",
            f"fit {record['fit'] or 'without an id'}",
        ),
    ]
    return [{"check": check, "fact": fact} for check, fact in facts]


_COMPARED = {
    "record": ("model_sha256", "schema_sha256", "fit"),
    "privacy": ("epsilon", "delta", "void", "flags"),
}
"""What `verify` compares, by the part of the report that it is in."""

# Verification -------------------------------------------------------------------------------------------------------


def verify(report: str | os.PathLike[str], model: str | os.PathLike[str]) -> str:
    """Checks that a report's JSON file is about this very model file, and says so in one line.

    The hash of the model, the hash of its schema, the id of the fit, what was promised, and the page beside the JSON
    file, if there is one, must all be those of the report.

    Raises:
        VerificationError: Something differs; the message says what.
        ModelError: The model cannot be read.
    """
    content, loaded = _read_report(report), load(model)
    record, privacy, receipt = content["record"], content["privacy"], loaded.receipt
    found = {
        "the SHA-256 of the model": (record["model_sha256"], sha256(Path(model).read_bytes())),
        "the SHA-256 of the schema": (record["schema_sha256"], sha256(loaded.schema.to_toml())),
        "the id of the fit": (record["fit"], receipt.id or None),
        "epsilon": (privacy["epsilon"], receipt.budget.epsilon),
        "delta": (privacy["delta"], receipt.budget.delta),
        "what voids the guarantee": (privacy["void"], list(receipt.void)),
        "the list of red flags": (privacy["flags"], flags_of(loaded)),
    }
    page = Path(report).with_suffix(".html")
    if page.is_file() and content.get("page_sha256") is not None:
        found[f"the SHA-256 of the page {page.name}"] = (content["page_sha256"], sha256(page.read_bytes()))
    name = os.fspath(report)
    for what, (stated, actual) in found.items():
        if stated != actual:
            raise VerificationError(f"{name} does not match {os.fspath(model)}: {what} differs. Do not rely on either.")
    fit = f"fit {record['fit']}" if record["fit"] else "a fit without an id"
    return f"{name} is about {os.fspath(model)}: {fit}, SHA-256 {record['model_sha256'][:16]}…; all hashes match."


def _read_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    name = os.fspath(path)
    try:
        content = json.loads(Path(path).read_bytes().decode())
        if content["kind"] != "understudy-report" or not all(
            key in content[part] for part, keys in _COMPARED.items() for key in keys
        ):
            raise ValueError
    except OSError as error:
        raise VerificationError(f"{name} cannot be read: {reason(error)}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise VerificationError(
            f"{name}: expected the JSON file of a report, as `understudy report` writes it."
        ) from None
    return content
