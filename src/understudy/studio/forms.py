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
TICKS = ("nullable", "per_unit")
"""What is ticked on a card."""
Form = Mapping[str, Any]
Document = dict[str, Any]


def names_in(form: Form, prefix: str = "c") -> list[str]:
    """The columns of the form, or whatever else has names under a prefix, in its order."""
    found = []
    while (name := form.get(f"{prefix}{len(found)}-name")) is not None:
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
    units = [name for name in names if roles[name] == "unit"]
    columns = columns_of(form, "c", roles, base.get("columns", {}))
    if units:
        for place, name in enumerate(names):
            columns.get(name, {}).update({"per_unit": True} if form.get(f"c{place}-per_unit") else {})
    document: Document = stated("name", text_of(form, "name"))
    if units:
        document |= {"unit": units[0], "max_rows_per_unit": number_of(text_of(form, "max_rows_per_unit"))}
    document |= stated("rows", number_of(text_of(form, "rows")))
    document |= stated("target", text_of(form, "target"))
    document |= {"order": base["order"]} if sorted(base.get("order", [])) == sorted(columns) and columns else {}
    ignored = [name for name in names if roles[name] == "ignore"] + units[1:]  # the schema has one unit
    document |= {"ignore": ignored} if ignored else {}
    document |= stated("missing", lines_of(form, "missing"))
    document |= stated("constraints", [rule_of(line) for line in lines_of(form, "constraints")])
    dialect = dict(base.get("file", {}))
    for key in DIALECT:
        if f"file-{key}" in form:
            typed = str(form[f"file-{key}"]).replace("\\t", "\t")
            dialect = {each: value for each, value in dialect.items() if each != key} | stated(key, typed)
    document |= {"file": dialect} if dialect else {}
    return document | {"columns": columns}


def columns_of(form: Form, prefix: str, roles: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Document]:
    """The columns that a form spells, of those whose role is to be one."""
    return {
        name: _column(form, f"{prefix}{place}-", base.get(name, {}))
        for place, name in enumerate(names_in(form, prefix))
        if roles[name] == "column"
    }


def schema_of(form: Form, base: Mapping[str, Any], *, folder: str = "") -> Schema:
    """The schema that a form spells.

    Raises:
        SchemaError: As `understudy schema check` says it.
    """
    return Schema.parse(tomli_w.dumps(document_of(form, base)), "schema.toml", folder=folder)


def _column(form: Form, prefix: str, base: Mapping[str, Any]) -> Document:
    kind = text_of(form, f"{prefix}kind")
    column: Document = {"kind": kind}
    column |= {"nullable": True} if form.get(f"{prefix}nullable") else {}
    for field in FIELDS:
        if kind in field.kinds:
            column |= stated(field.key, _READERS[field.key](form, f"{prefix}{field.key}"))
    if kind == "categorical" and isinstance(base.get("levels"), dict) and "values" not in column:
        column["levels"] = base["levels"]  # a table of parents, which the form does not show
    return column


def stated(key: str, value: Any) -> Document:
    return {} if value in (None, "", []) else {key: value}


def text_of(form: Form, key: str) -> str:
    return str(form.get(key, "")).strip()


def lines_of(form: Form, key: str) -> list[str]:
    return [line.strip() for line in str(form.get(key, "")).splitlines() if line.strip()]


def rule_of(line: str) -> str | Document:
    rule = line.removesuffix(BY_REJECTION.strip()).strip()
    return {"rule": rule, "by": "rejection"} if rule != line else rule


def number_of(text: str) -> Any:
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
    return number_of(text)


def _levels(text: str) -> Any:
    numbers = [number_of(part) for part in re.split(r"[\s,]+", text) if part]
    return numbers if numbers and all(isinstance(each, int) for each in numbers) else text


_READERS: dict[str, Callable[[Form, str], Any]] = {
    "low": lambda form, key: _bound(text_of(form, key)),
    "high": lambda form, key: _bound(text_of(form, key)),
    "decimals": lambda form, key: number_of(text_of(form, key)),
    "atoms": lambda form, key: [number_of(part) for part in re.split(r"[\s;]+", text_of(form, key)) if part],
    "format": text_of,
    "values": lines_of,
    "other": text_of,
    "levels": lambda form, key: _levels(text_of(form, key)),
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
    unknown = {name: {"kind": kinds.get(name, "categorical")} for name in known}
    cards = [
        card(name, _role(name, document), place, columns.get(name, unknown[name])) for place, name in enumerate(known)
    ]
    return {
        "name": document.get("name", ""),
        "rows": document.get("rows", ""),
        "target": document.get("target", ""),
        "max_rows_per_unit": document.get("max_rows_per_unit", ""),
        "missing": "\n".join(document.get("missing", [])),
        "constraints": "\n".join(map(shown_rule, document.get("constraints", []))),
        "file": document.get("file", {}),
        "columns": cards,
    }


def _role(name: str, document: Mapping[str, Any]) -> str:
    return "column" if name in document["columns"] else "unit" if document.get("unit") == name else "ignore"


def card(name: str, role: str, place: int, found: Mapping[str, Any]) -> dict[str, Any]:
    """What the card of a column shows of its part of a document."""
    shown = {field.key: _shown(found.get(field.key), field.lines) for field in FIELDS}
    ticks = {key: bool(found.get(key)) for key in TICKS}
    return {"name": name, "role": role, "place": place, "kind": found["kind"], **ticks, **shown}


def card_as_typed(form: Form, prefix: str, place: int, name: str) -> dict[str, Any]:
    """The same of a form that was sent, to be corrected."""
    here = f"{prefix}{place}-"
    keys = ("role", "kind", *(field.key for field in FIELDS))
    typed = {key: str(form.get(f"{here}{key}", "")) for key in keys}
    return {"name": name, "place": place, **{key: bool(form.get(f"{here}{key}")) for key in TICKS}, **typed}


def _shown(value: Any, lines: bool) -> str:
    if value is None or isinstance(value, dict):
        return ""
    if isinstance(value, list):
        return ("\n" if lines else " ").join(map(str, value))
    return str(value)


def shown_rule(rule: Any) -> str:
    if not isinstance(rule, dict):
        return str(rule)
    return f"{rule['rule']}{BY_REJECTION}" if rule.get("by") == "rejection" else str(rule["rule"])


def measured_with(column: Column) -> dict[str, list[str]]:
    """What is public about a column and what a fit measures of it, in the report's words."""
    from understudy.report.privacy import column_facts

    facts = column_facts(column)
    return {"public": facts["public"], "measured": facts["measured"]}
