"""Between a form and a schema: what a person fills in, as the TOML document that the commands read.

The one rule: the form checks nothing. What was typed goes into the document as it is, and `Schema.parse` refuses it
with the message that `understudy schema check` prints. What the form does not show stays as the file has it.
"""

import datetime
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import tomli_w

from understudy.studio.fields import DIALECT, FIELDS
from understudy.tables.column import Column
from understudy.tables.schema import Schema

BY_REJECTION = " (by rejection)"
"""How a rule that is kept by drawing again is marked in the form."""
Form = Mapping[str, Any]
Document = dict[str, Any]


def names_in(form: Form) -> list[str]:
    """The columns of the form, in its order."""
    found = []
    while (name := form.get(f"c{len(found)}-name")) is not None:
        found.append(str(name))
    return found


def document_of(form: Form, base: Mapping[str, Any]) -> Document:
    """The document that a form spells.

    Args:
        form: Its fields by name; those of column i begin with `ci-`.
        base: The document that the form was filled with.
    """
    names = names_in(form)
    roles = {name: form.get(f"c{place}-role", "column") for place, name in enumerate(names)}
    columns = {
        name: _column(form, f"c{place}-", base.get("columns", {}).get(name, {}))
        for place, name in enumerate(names)
        if roles[name] == "column"
    }
    document: Document = _stated("name", _text(form, "name"))
    units = [name for name in names if roles[name] == "unit"]
    if units:
        document |= {"unit": units[0], "max_rows_per_unit": _number(_text(form, "max_rows_per_unit"))}
    document |= _stated("rows", _number(_text(form, "rows")))
    document |= _stated("target", _text(form, "target"))
    document |= {"order": base["order"]} if sorted(base.get("order", [])) == sorted(columns) and columns else {}
    ignored = [name for name in names if roles[name] == "ignore"] + units[1:]  # the schema has one unit
    document |= {"ignore": ignored} if ignored else {}
    document |= _stated("missing", _lines(form, "missing"))
    document |= _stated("constraints", [_rule(line) for line in _lines(form, "constraints")])
    dialect = dict(base.get("file", {}))
    for key in DIALECT:
        if f"file-{key}" in form:
            typed = str(form[f"file-{key}"]).replace("\\t", "\t")
            dialect = {each: value for each, value in dialect.items() if each != key} | _stated(key, typed)
    document |= {"file": dialect} if dialect else {}
    return document | {"columns": columns}


def schema_of(form: Form, base: Mapping[str, Any], *, folder: str = "") -> Schema:
    """The schema that a form spells.

    Raises:
        SchemaError: As `understudy schema check` says it.
    """
    return Schema.parse(tomli_w.dumps(document_of(form, base)), "schema.toml", folder=folder)


def _column(form: Form, prefix: str, base: Mapping[str, Any]) -> Document:
    kind = _text(form, f"{prefix}kind")
    column: Document = {"kind": kind}
    column |= {"nullable": True} if form.get(f"{prefix}nullable") else {}
    for field in FIELDS:
        if kind in field.kinds:
            column |= _stated(field.key, _READERS[field.key](form, f"{prefix}{field.key}"))
    if kind == "categorical" and isinstance(base.get("levels"), dict) and "values" not in column:
        column["levels"] = base["levels"]  # a table of parents, which the form does not show
    return column


def _stated(key: str, value: Any) -> Document:
    return {} if value in (None, "", []) else {key: value}


def _text(form: Form, key: str) -> str:
    return str(form.get(key, "")).strip()


def _lines(form: Form, key: str) -> list[str]:
    return [line.strip() for line in str(form.get(key, "")).splitlines() if line.strip()]


def _rule(line: str) -> str | Document:
    rule = line.removesuffix(BY_REJECTION.strip()).strip()
    return {"rule": rule, "by": "rejection"} if rule != line else rule


def _number(text: str) -> Any:
    """A whole number or another one; anything else stays text, and the schema says what is wrong with it."""
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text


def _bound(text: str) -> Any:
    """A number, a date or an instant."""
    for reader in (datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        if re.match(r"\d{4}-\d\d-\d\d", text):
            try:
                return reader(text)
            except ValueError:
                continue
    return _number(text)


def _levels(text: str) -> Any:
    numbers = [_number(part) for part in re.split(r"[\s,]+", text) if part]
    return numbers if numbers and all(isinstance(each, int) for each in numbers) else text


_READERS: dict[str, Callable[[Form, str], Any]] = {
    "low": lambda form, key: _bound(_text(form, key)),
    "high": lambda form, key: _bound(_text(form, key)),
    "decimals": lambda form, key: _number(_text(form, key)),
    "atoms": lambda form, key: [_number(part) for part in re.split(r"[\s;]+", _text(form, key)) if part],
    "format": _text,
    "values": _lines,
    "other": _text,
    "levels": lambda form, key: _levels(_text(form, key)),
}


# The other way ------------------------------------------------------------------------------------------------------


def filled(text: str, names: list[str], kinds: Mapping[str, str]) -> dict[str, Any]:
    """What a form shows of a schema's text: the fields of the table, and those of each column.

    Args:
        text: The schema's TOML.
        names: Every column of the file, in its order.
        kinds: What the draft takes them for, for those that the schema leaves out.
    """
    document = tomllib.loads(text)
    columns = document["columns"]
    known = [*names, *(name for name in (*columns, *document.get("ignore", ())) if name not in names)]
    if document.get("unit") and document["unit"] not in known:
        known.append(document["unit"])
    cards = [
        _card(name, document, kinds.get(name, "categorical")) | {"place": place} for place, name in enumerate(known)
    ]
    return {
        "name": document.get("name", ""),
        "rows": document.get("rows", ""),
        "target": document.get("target", ""),
        "max_rows_per_unit": document.get("max_rows_per_unit", ""),
        "missing": "\n".join(document.get("missing", [])),
        "constraints": "\n".join(map(_shown_rule, document.get("constraints", []))),
        "file": document.get("file", {}),
        "columns": cards,
    }


def _card(name: str, document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    stated = document["columns"].get(name)
    role = "column" if stated is not None else "unit" if document.get("unit") == name else "ignore"
    stated = stated or {"kind": kind}
    shown = {field.key: _shown(stated.get(field.key), field.lines) for field in FIELDS}
    return {"name": name, "role": role, "kind": stated["kind"], "nullable": bool(stated.get("nullable")), **shown}


def _shown(value: Any, lines: bool) -> str:
    if value is None or isinstance(value, dict):
        return ""
    if isinstance(value, list):
        return ("\n" if lines else " ").join(map(str, value))
    return str(value)


def _shown_rule(rule: Any) -> str:
    if not isinstance(rule, dict):
        return str(rule)
    return f"{rule['rule']}{BY_REJECTION}" if rule.get("by") == "rejection" else str(rule["rule"])


def measured_with(column: Column) -> dict[str, list[str]]:
    """What is public about a column and what a fit measures of it, in the report's words."""
    from understudy.report.privacy import column_facts

    facts = column_facts(column)
    return {"public": facts["public"], "measured": facts["measured"]}
