"""Describing a table: one card a column, checked while it is filled in.

The one rule: no cell of the table is read for this page. It shows the draft, the schema and the names of columns.
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
    return _page(request, project, _filled(project))


@changing
def check(request: Request, form: FormData) -> Response:
    """Says at once whether the form is a schema, in the words of `understudy schema check`."""
    from understudy.studio.forms import names_in

    return show(request, "parts/verdict.html", names=names_in(form), **_verdict(project_of(request), form))


@changing
def save(request: Request, form: FormData) -> Response:
    """Writes the schema and leads on; a form that is none is shown again with what is wrong."""
    from understudy.studio.forms import schema_of
    from understudy.tables.values import SchemaError

    project = project_of(request)
    try:
        schema = schema_of(form, _base(project), folder=str(project.folder))
    except SchemaError:
        return _page(request, project, _as_typed(project, form), status=422, **_verdict(project, form))
    schema.write(project.schema)
    return go(f"/p/{project.name}/{'plan' if form.get('next') == 'plan' else 'describe'}")


def _base(project: Project) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(project.schema.read_text("utf-8"))


def _filled(project: Project) -> dict[str, Any]:
    from understudy.studio.forms import filled

    draft = project.state.get("draft", {}).get("columns", {})
    kinds = {name: each["kind"] for name, each in draft.items()}
    return filled(project.schema.read_text("utf-8"), list(draft), kinds)


def _as_typed(project: Project, form: FormData) -> dict[str, Any]:
    """The form as it was sent, to be corrected."""
    from understudy.studio.forms import names_in

    shown = _filled(project)
    for key in ("name", "rows", "target", "max_rows_per_unit", "missing", "constraints"):
        shown[key] = str(form.get(key, ""))
    shown["file"] = {key: str(form.get(f"file-{key}", "")) for key in fields.DIALECT}
    keys = ("role", "kind", *(field.key for field in fields.FIELDS))
    shown["columns"] = [
        {"name": name, "place": place, "nullable": bool(form.get(f"c{place}-nullable"))}
        | {key: str(form.get(f"c{place}-{key}", "")) for key in keys}
        for place, name in enumerate(names_in(form))
    ]
    return shown


def _verdict(project: Project, form: FormData) -> dict[str, Any]:
    """What is wrong with a form and which card it is about, or what the schema states."""
    from understudy.studio.forms import measured_with, names_in, schema_of
    from understudy.tables.values import SchemaError

    try:
        schema = schema_of(form, _base(project), folder=str(project.folder))
    except SchemaError as error:
        named = re.search(r"column '(.+?)'", str(error))
        names = names_in(form)
        place = names.index(named[1]) if named and named[1] in names else None
        return {"wrong": sentence(str(error)), "place": place, "schema": None, "facts": {}}
    facts = {column.name: measured_with(column) for column in schema}
    return {"wrong": None, "place": None, "schema": schema, "facts": facts}


def _page(request: Request, project: Project, shown: dict[str, Any], status: int = 200, **verdict: Any) -> Response:
    from understudy.studio.forms import measured_with
    from understudy.tables.schema import Schema

    if not verdict:
        schema = Schema.read(project.schema)
        facts = {column.name: measured_with(column) for column in schema}
        verdict = {"wrong": None, "place": None, "schema": schema, "facts": facts}
    draft = project.state.get("draft", {})
    is_text = re.search(r"\.(csv|tsv|txt|tab)(\.\w+)?$", project.table.lower()) is not None
    return show(
        request,
        "describe.html",
        code=status,
        project=project,
        step="describe",
        shown=shown,
        draft=draft,
        fields=fields.FIELDS,
        kinds=fields.KINDS,
        roles=fields.ROLES,
        dialect=fields.DIALECT if is_text else {},
        most=MOST_POSTED,
        **verdict,
    )
