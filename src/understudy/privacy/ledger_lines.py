"""The lines of a ledger file: what each kind of record says, and whether a line is whole."""

import json
from typing import Any, cast

from understudy.core.files import sha256
from understudy.privacy.plan import Budget

HEADER: dict[str, Any] = {"kind": "understudy-ledger", "format": 1}
# Each kind of record has these fields of text, besides epsilon and delta, or of a mark how many releases there are.
MARK = "releases"
_TEXT_FIELDS = {"cap": ("table", "time"), "fit": ("id", "table", "method", "time", "version"), MARK: ("id", "table")}
_AMOUNTS, DIGEST = ("epsilon", "delta"), "digest"

Record = dict[str, Any]
"""One line of the file: a cap, a fit, or a mark of releases."""


def digest(record: Record) -> str:
    """Of everything that a line says."""
    return sha256(json.dumps(record, sort_keys=True))[:16]


def without_digest(record: Record) -> Record:
    return {field: value for field, value in record.items() if field != DIGEST}


def fault(record: Record) -> str | None:
    """What is wrong with a record, or None. An amount that is not > 0 would hand budget back."""
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _TEXT_FIELDS:
        return f"unknown kind of record {kind!r}" if isinstance(kind, str) else "a record of no kind"
    for field in _TEXT_FIELDS[kind]:
        if not isinstance(record.get(field), str):
            return f"{kind}: expected text in {field!r}"
    if record.keys() - {"kind", *_TEXT_FIELDS[kind], *((MARK,) if kind == MARK else _AMOUNTS), DIGEST}:
        return f"{kind}: unknown field"
    if kind == MARK:
        return _fault_of_number(record)
    try:
        Budget(epsilon=cast(float, record.get("epsilon")), delta=cast(float, record.get("delta")))
    except ValueError as error:
        return f"{kind}: {str(error).rstrip('.')}"
    return _fault_of_digest(record)


def _fault_of_number(record: Record) -> str | None:
    number = record.get(MARK)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        return f"{MARK}: expected a whole number"
    return _fault_of_digest(record)


def _fault_of_digest(record: Record) -> str | None:
    if DIGEST in record and record[DIGEST] != digest(without_digest(record)):
        return "it was changed after it was written"
    return None
