"""Looking at a fit: its report, its synthetic rows, pictures of them, and the network.

The one rule: everything here follows from the model, so its budget covers it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from understudy.studio.pages import fit_of, reading, show, without_style
from understudy.studio.projects import Fit, ProjectError
from understudy.studio.security import REPORT_POLICY

if TYPE_CHECKING:
    import polars as pl

PER_PAGE = 50
"""Rows on a page."""
MOST_DRAWN = 60
"""Columns with a picture on a page."""
RELATIONS = {"is": "is", "contains": "contains", "least": "is at least", "most": "is at most", "missing": "is missing"}


def done(request: Request) -> tuple[Any, Fit]:
    """The project and the fit of an address, if the fit is done."""
    project, fit = fit_of(request)
    if not fit.is_done:
        raise ProjectError("this fit is not done.")
    return project, fit


@reading
def look(request: Request) -> Response:
    """The report, framed."""
    project, fit = done(request)
    return show(request, "look.html", project=project, fit=fit, step="look", view="report")


@reading
def report(request: Request) -> Response:
    """The report itself, as the file is: it brings its style and runs nothing."""
    return framed(done(request)[1].page)


def framed(page: Path) -> Response:
    """A page of the report, with the policy that lets it keep its own style and nothing else."""
    return FileResponse(page, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})


@reading
def pictures(request: Request) -> Response:
    """Every column as a histogram, and two of them against each other."""
    from understudy.studio.scatter import scatter

    project, fit = done(request)
    numbers = fit.numbers()
    columns = columns_of(numbers)
    drawn = [
        {"name": each["name"], "kind": each["kind"], "picture": _picture(each, f"column-{place}")}
        for place, each in enumerate(columns[:MOST_DRAWN])
    ]
    table = table_of(fit, request.query_params.get("table", ""))
    frame = rows_of(fit, table)
    keys = {name for each in numbers.get("keys", []) for name in (*each["key"], *each["foreign_key"])}
    names = [name for name in frame.columns if name not in keys] or frame.columns
    asked = [request.query_params.get(key, "") for key in ("x", "y")]
    across = asked[0] if asked[0] in names else names[0]
    up = asked[1] if asked[1] in names else names[1 if len(names) > 1 else 0]
    cloud = without_style(scatter(frame, across, up))
    content = {"names": names, "across": across, "up": up, "cloud": cloud, "columns": drawn}
    content |= {"table": table, "tables": list(fit.tables)}
    if _is_part(request):
        return show(request, "parts/scatter.html", project=project, fit=fit, **content)
    left = max(len(columns) - MOST_DRAWN, 0)
    return show(request, "look.html", project=project, fit=fit, step="look", view="pictures", left_out=left, **content)


def columns_of(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """The columns that a report has a picture of; of a database those of all tables, and the children per parent."""
    if "database" not in numbers:
        return numbers.get("columns") or []
    of_tables = [column for table in numbers["database"]["tables"] for column in table["columns"]]
    return [*numbers["database"]["children"], *of_tables]


def _picture(column: dict[str, Any], key: str) -> Any:
    """One column of the synthetic rows; the report shows the noise of its counts as well."""
    from understudy.report import drawing

    return without_style(drawing.column(column | {"noise": None}, key))


@reading
def network(request: Request) -> Response:
    """Which column is made from which, or which table hangs on which."""
    from understudy.core.network_drawing import network as draw
    from understudy.report.database_drawing import keys

    project, fit = done(request)
    numbers = fit.numbers()
    if "keys" in numbers:
        content = {"keys": numbers["keys"], "drawn": without_style(keys(numbers["keys"]))}
        return show(request, "look.html", project=project, fit=fit, step="look", view="keys", **content)
    found = numbers["network"]
    parents = found["parents"]
    drawn = without_style(draw(parents, "network", "The learned network", strengths=found.get("strengths")))
    content = {"parents": parents, "drawn": drawn}
    return show(request, "look.html", project=project, fit=fit, step="look", view="network", **content)


@reading
def rows(request: Request) -> Response:
    """The synthetic rows as a table that can be sorted and filtered."""
    project, fit = done(request)
    asked = dict(request.query_params)
    table = table_of(fit, asked.get("table", ""))
    found = selected(rows_of(fit, table), asked)
    pages = max(-(-found.height // PER_PAGE), 1)
    typed = asked.get("page", "")
    page = min(max(int(typed) if typed.isascii() and typed.isdigit() else 1, 1), pages)
    content = {
        "names": found.columns,
        "rows": [[_shown(value) for value in row] for row in found.slice((page - 1) * PER_PAGE, PER_PAGE).iter_rows()],
        "total": found.height,
        "page": page,
        "pages": pages,
        "asked": {key: asked.get(key, "") for key in ("sort", "down", "column", "relation", "value")},
        "table": table,
        "tables": list(fit.tables),
        "relations": RELATIONS,
        "numeric": [name for name, kind in found.schema.items() if kind.is_numeric()],
    }
    if _is_part(request):
        return show(request, "parts/rows.html", project=project, fit=fit, **content)
    return show(request, "look.html", project=project, fit=fit, step="look", view="rows", **content)


def table_of(fit: Fit, asked: str) -> str:
    """The table that is asked for; the first one if there is no such table."""
    return asked if asked in fit.tables else next(iter(fit.tables))


def rows_of(fit: Fit, table: str = "") -> "pl.DataFrame":
    """The synthetic rows of a fit, of one of its tables."""
    import polars as pl

    return pl.read_parquet(fit.tables[table])


def selected(frame: "pl.DataFrame", asked: dict[str, str]) -> "pl.DataFrame":
    """The rows that meet the filter, sorted as asked for; what names no column changes nothing."""
    import polars as pl

    name, relation, value = (asked.get(key, "") for key in ("column", "relation", "value"))
    if name in frame.columns and relation in RELATIONS and (value or relation == "missing"):
        column, text = pl.col(name), pl.col(name).cast(pl.String)
        number = _as_number(value)
        numeric = frame.schema[name].is_numeric() and number is not None
        compared, bound = (column, pl.lit(number)) if numeric else (text, pl.lit(value))
        frame = frame.filter(
            {
                "is": compared == bound,
                "contains": text.str.to_lowercase().str.contains(value.lower(), literal=True),
                "least": compared >= bound,
                "most": compared <= bound,
                "missing": column.is_null(),
            }[relation]
        )
    if asked.get("sort") in frame.columns:
        frame = frame.sort(asked["sort"], descending=asked.get("down") == "1", nulls_last=True)
    return frame


def _as_number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _is_part(request: Request) -> bool:
    """Whether a part of the page is asked for; the browser's way back asks for all of it."""
    return request.headers.get("hx-request") == "true" and "hx-history-restore-request" not in request.headers
