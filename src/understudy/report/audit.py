"""The audit in a report: what was found against the method, and whether it was this method with this claim.

The one rule: an audit stands for nothing that it did not look at. If it was of another method, another claim or another
version than the model's, the section says so first.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import reason
from understudy.model import Model


class AuditError(ValueError):
    """The audit cannot be read."""


def audit_part(audit: Mapping[str, Any] | str | os.PathLike[str] | None, model: Model) -> dict[str, Any] | None:
    """What a report shows of an audit, in types that JSON has; None if none was given.

    Args:
        audit: The JSON of an audit (`Audit.to_json`, `understudy audit --json`) as an object, or the path of its file.

    Raises:
        AuditError: It is not one.
    """
    if audit is None:
        return None
    given = _read(audit) if isinstance(audit, str | os.PathLike) else audit
    try:
        attacked = given["end_to_end"]
        return {
            "method": given["method"],
            "schema": given["schema"],
            "claimed_epsilon": given["claimed_epsilon"],
            "delta": given["delta"],
            "version": given["version"],
            "epsilon_lower": given["epsilon_lower"],
            "passed": given["passed"],
            "fits": attacked["fits"] if attacked else 0,
            "confidence": attacked["confidence"] if attacked else None,
            "mechanisms": [
                {key: each[key] for key in ("mechanism", "releases", "worst")} for each in given["replay"]["mechanisms"]
            ],
            "tests": len(given["noise"]["tests"]),
            "findings": [{key: each[key] for key in ("check", "where", "what")} for each in given["findings"]],
            "differences": _differences(given, model),
        }
    except (KeyError, TypeError):
        raise AuditError("audit: expected what `understudy audit --json` prints.") from None


def _differences(given: Mapping[str, Any], model: Model) -> list[str]:
    """In what the audited claim is not the model's."""
    budget = model.receipt.budget
    pairs = {
        "method": (given["method"], model.method.name),
        "ε": (given["claimed_epsilon"], budget.epsilon),
        "δ": (given["delta"], budget.delta),
        "schema": (given["schema"], model.schema.name),
        "version": (given["version"], model.receipt.version),
    }
    unlike = {what: pair for what, pair in pairs.items() if pair[0] != pair[1]}
    return [f"{what}: {audited} was audited, {own} is the model's" for what, (audited, own) in unlike.items()]


def _read(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    try:
        found = json.loads(Path(path).read_bytes().decode())
    except OSError as error:
        raise AuditError(f"{os.fspath(path)} cannot be read: {reason(error)}.") from None
    except (ValueError, RecursionError):
        raise AuditError(f"{os.fspath(path)}: expected JSON, as `understudy audit --json` prints it.") from None
    return found
