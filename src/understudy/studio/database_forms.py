"""Between a form and the schema of several tables: as `forms`, with a part for each table.

The one rule: as there, the form checks nothing, and what it does not show stays as the file has it. The fields of table
i begin with `ti-`, and those of its column j with `ti-cj-`.
"""

from collections.abc import Collection, Mapping
from typing import Any

import tomli_w

from understudy.studio.forms import (
    Document,
    Form,
    card,
    card_as_typed,
    columns_of,
    lines_of,
    names_in,
    number_of,
    rule_of,
    shown_rule,
    stated,
    text_of,
)
from understudy.tables.database_schema import DatabaseSchema

KEPT = ("references", "transitions", "file")
"""What a table has that its form does not show."""


def document_of(form: Form, base: Mapping[str, Any]) -> Document:
    """The document that a form spells.

    Args:
        form: Its fields by name.
        base: The document that the form was filled with.
    """
    before = base.get("tables", {})
    tables = {
        name: _table(form, f"t{place}-", before.get(name, {}))
        for place, name in enumerate(names_in(form, "t"))
        if form.get(f"t{place}-role") != "out"
    }
    document = stated("name", text_of(form, "name")) | stated("unit", text_of(form, "unit"))
    return document | stated("constraints", lines_of(form, "constraints")) | {"tables": tables}


def schema_of(form: Form, base: Mapping[str, Any], *, folder: str = "") -> DatabaseSchema:
    """The schema that a form spells.

    Raises:
        SchemaError: As `understudy schema check` says it.
    """
    return DatabaseSchema.parse(tomli_w.dumps(document_of(form, base)), "schema.toml", folder=folder)


def _table(form: Form, prefix: str, base: Mapping[str, Any]) -> Document:
    names = names_in(form, f"{prefix}c")
    roles = {name: form.get(f"{prefix}c{place}-role", "column") for place, name in enumerate(names)}
    columns = columns_of(form, f"{prefix}c", roles, base.get("columns", {}))
    key = _in_order([name for name in names if roles[name] in ("key", "both")], base.get("key"))
    table: Document = stated("key", key)
    table |= stated("key_pattern", text_of(form, f"{prefix}key_pattern")) if key else {}
    if form.get(f"{prefix}role") == "public":
        table["public"] = True
    else:
        table |= _link(form, prefix, [name for name in names if roles[name] in ("parent", "both")], base)
    table |= stated("rows", number_of(text_of(form, f"{prefix}rows")))
    table |= stated("ignore", [name for name in names if roles[name] == "ignore"])
    table |= stated("missing", lines_of(form, f"{prefix}missing"))
    table |= stated("constraints", [rule_of(line) for line in lines_of(form, f"{prefix}constraints")])
    kept = {key: base[key] for key in KEPT if key in base}
    if "references" in kept:
        kept["references"] = _references(kept["references"], columns)
    if "transitions" in kept:
        among = columns if "order" in table else ()
        kept["transitions"] = {name: allowed for name, allowed in kept["transitions"].items() if name in among}
    return table | {key: value for key, value in kept.items() if value} | stated("columns", columns)


def _references(given: Any, columns: Collection[str]) -> Any:
    """Those references whose columns are all there, in the spelling of the file."""
    if isinstance(given, Mapping):
        return {name: to for name, to in given.items() if name in columns}
    return [each for each in given if set(_listed(each.get("columns"))) <= set(columns)]


def _link(form: Form, prefix: str, foreign: list[str], base: Mapping[str, Any]) -> Document:
    """What the rows hang on; a table without a parent has neither a number of rows nor an order."""
    link = stated("foreign_key", _in_order(foreign, base.get("foreign_key")))
    if parent := text_of(form, f"{prefix}parent"):
        link |= {"parent": parent} | stated("order", text_of(form, f"{prefix}order"))
        link |= stated("max_per_parent", number_of(text_of(form, f"{prefix}max_per_parent")))
    return link


def _in_order(names: list[str], before: Any) -> list[str]:
    """Names in the order in which the file has them, if it has the same ones: that of a key matters."""
    listed = _listed(before)
    return listed if sorted(listed) == sorted(names) else names


def _listed(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or [])


# The other way ------------------------------------------------------------------------------------------------------


def filled(document: Mapping[str, Any], draft: Mapping[str, Any]) -> dict[str, Any]:
    """What a form shows of a schema: the fields of the database, of each table, and of each column.

    Args:
        document: The schema as TOML holds it.
        draft: What the draft says of every table, for those that the schema leaves out.
    """
    tables = document["tables"]
    names = [*tables, *(name for name in draft if name not in tables)]
    return {
        "name": document.get("name", ""),
        "unit": document.get("unit", ""),
        "constraints": "\n".join(document.get("constraints", [])),
        "tables": [_part(name, place, tables.get(name), draft.get(name, {})) for place, name in enumerate(names)],
    }


def _part(name: str, place: int, found: Mapping[str, Any] | None, draft: Mapping[str, Any]) -> dict[str, Any]:
    """What the part of a table shows."""
    role = "out" if found is None else "public" if found.get("public") else "private"
    found = found or {}
    columns, drafted = found.get("columns", {}), draft.get("columns", {})
    key, foreign = _listed(found.get("key")), _listed(found.get("foreign_key"))
    known = dict.fromkeys([*key, *foreign, *drafted, *columns, *found.get("ignore", [])])
    roles = dict.fromkeys(known, "ignore") | dict.fromkeys(columns, "column")
    roles |= dict.fromkeys(key, "key") | {each: "both" if each in key else "parent" for each in foreign}
    unknown = {each: {"kind": drafted.get(each, {}).get("kind", "categorical")} for each in known}
    return {
        "name": name,
        "place": place,
        "role": role,
        **{each: found.get(each, "") for each in ("parent", "max_per_parent", "order", "key_pattern", "rows")},
        "missing": "\n".join(found.get("missing", [])),
        "constraints": "\n".join(map(shown_rule, found.get("constraints", []))),
        "columns": [card(each, roles[each], i, columns.get(each, unknown[each])) for i, each in enumerate(known)],
    }


def as_typed(form: Form) -> dict[str, Any]:
    """The form as it was sent, to be corrected."""
    texts = ("name", "role", "parent", "max_per_parent", "order", "key_pattern", "rows", "missing", "constraints")
    tables = []
    for place, _ in enumerate(names_in(form, "t")):
        prefix = f"t{place}-c"
        cards = [card_as_typed(form, prefix, i, name) for i, name in enumerate(names_in(form, prefix))]
        tables.append({key: str(form.get(f"t{place}-{key}", "")) for key in texts} | {"place": place, "columns": cards})
    return {key: str(form.get(key, "")) for key in ("name", "unit", "constraints")} | {"tables": tables}
