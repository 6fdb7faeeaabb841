"""Describing a table, or several: one card a column, checked while it is filled in.

The one rule: no cell of a table is read for this page. It shows the draft, the schema and the names of columns.
"""

import re
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from understudy.studio import fields
from understudy.studio.pages import changing, go, project_of, reading, sentence, show
from understudy.studio.projects import Project
from understudy.studio.security import MOST_POSTED


@reading
def describe(request: Request) -> Response:
    """The schema as a form."""
    project = project_of(request)
    return _page(request, project, _filled(project), 200, _stated(project))


@changing
def check(request: Request, form: FormData) -> Response:
    """Says at once whether the form is a schema, in the words of `understudy schema check`."""
    project = project_of(request)
    found = _verdict(project, form)
    swaps = {card: found["facts"].get(name) for name, card in cards_of(form, project.is_database).items()}
    return show(request, "parts/verdict.html", project=project, swaps=swaps, **found)


@changing
def save(request: Request, form: FormData) -> Response:
    """Writes the schema and leads on; a form that is none is shown again with what is wrong."""
    project = project_of(request)
    found = _verdict(project, form)
    if found["schema"] is None:
        return _page(request, project, _as_typed(project, form), 422, found)
    found["schema"].write(project.schema)
    return go(f"/p/{project.name}/{'plan' if form.get('next') == 'plan' else 'describe'}")


Place = tuple[str | None, str]
"""The names of a table, or None if there is only one, and of a column."""


def cards_of(form: FormData, several: bool) -> dict[Place, str]:
    """The id of the card of every column."""
    from understudy.studio.forms import names_in

    if not several:
        return {(None, name): f"c{place}" for place, name in enumerate(names_in(form))}
    return {
        (table, name): f"t{place}-c{column}"
        for place, table in enumerate(names_in(form, "t"))
        for column, name in enumerate(names_in(form, f"t{place}-c"))
    }


def _filled(project: Project) -> dict[str, Any]:
    from understudy.studio import database_forms, forms

    draft = project.state.get("draft", {})
    if project.is_database:
        return database_forms.filled(project.document, draft.get("tables", {}))
    columns = draft.get("columns", {})
    kinds = {name: each["kind"] for name, each in columns.items()}
    return forms.filled(project.schema.read_text("utf-8"), list(columns), kinds)


def _as_typed(project: Project, form: FormData) -> dict[str, Any]:
    """The form as it was sent, to be corrected."""
    from understudy.studio import database_forms, forms

    if project.is_database:
        return database_forms.as_typed(form)
    shown = _filled(project)
    for key in ("name", "rows", "target", "max_rows_per_unit", "missing", "constraints"):
        shown[key] = str(form.get(key, ""))
    shown["file"] = {key: str(form.get(f"file-{key}", "")) for key in fields.DIALECT}
    shown["columns"] = [forms.card_as_typed(form, "c", place, name) for place, name in enumerate(forms.names_in(form))]
    return shown


def _verdict(project: Project, form: FormData) -> dict[str, Any]:
    """What is wrong with a form and which card it is about, or what the schema states."""
    from understudy.studio import database_forms, forms
    from understudy.tables.values import SchemaError

    reader = database_forms if project.is_database else forms
    try:
        schema = reader.schema_of(form, project.document, folder=str(project.folder))
    except SchemaError as error:
        place = _place_of(str(error), form, project.is_database)
        return {"wrong": sentence(str(error)), "place": place, "schema": None, "facts": {}}
    return {"wrong": None, "place": None, "schema": schema, "facts": _facts(schema)}


def _place_of(said: str, form: FormData, several: bool) -> str | None:
    """The id of the card, or of the table, that a message is about."""
    from understudy.studio.forms import names_in

    table, column = (re.search(rf"{what} '(.+?)'", said) for what in ("table", "column"))
    name = table[1] if several and table else None
    if column and (card := cards_of(form, several).get((name, column[1]))):
        return card
    tables = names_in(form, "t")
    return f"t{tables.index(name)}" if name in tables else None


def _stated(project: Project) -> dict[str, Any]:
    """What the schema as it was saved states."""
    from understudy.tables.schema import Schema

    schema = Schema.read(project.schema)
    return {"wrong": None, "place": None, "schema": schema, "facts": _facts(schema)}


def _facts(schema: Any) -> dict[Place, dict[str, list[str]]]:
    """What is public of every column and what is measured; of a public table nothing is."""
    from understudy.studio.forms import measured_with
    from understudy.tables.schema import Schema

    if isinstance(schema, Schema):
        return {(None, column.name): measured_with(column) for column in schema}
    return {(name, column.name): measured_with(column) for name in schema.private for column in schema[name].columns}


def _page(request: Request, project: Project, shown: dict[str, Any], status: int, verdict: dict[str, Any]) -> Response:
    several = project.is_database
    is_text = re.search(r"\.(csv|tsv|txt|tab)(\.\w+)?$", project.table.lower()) is not None
    return show(
        request,
        "describe_tables.html" if several else "describe.html",
        code=status,
        project=project,
        step="describe",
        shown=shown,
        draft=project.state.get("draft", {}),
        fields=fields.FIELDS,
        kinds=fields.KINDS,
        roles=fields.ROLES_IN_A_DATABASE if several else fields.ROLES,
        table_roles=fields.TABLE_ROLES,
        dialect=fields.DIALECT if is_text else {},
        most=MOST_POSTED,
        **verdict,
    )
