"""The findings of a verdict as small tables of text, ready to be shown.

The one rule: a finding that there is none of has no table.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from understudy.core.svg import percent

Finding = Mapping[str, Any]
Table = dict[str, Any]


def tables_of(verdict: Mapping[str, Any], columns: Iterable[Mapping[str, Any]]) -> list[Table]:
    """The tables below a verdict, the worst columns first.

    Args:
        columns: The columns of the report, which know their noise.
    """
    noise = {column["name"]: column.get("noise") for column in columns}
    found = verdict["findings"]

    def worst_column(each: Finding) -> list[str]:
        own = noise.get(each["columns"][0])
        return [percent(each["synthetic"]), percent(each["real"]), percent(own["distance"]) if own else "–"]

    made = [
        _table(
            "The worst columns",
            "Share of rows that would have to change.",
            ["column", "synthetic", "real rows", "by noise, about"],
            verdict["worst_columns"],
            worst_column,
        ),
        _table(
            "The worst pairs",
            "The same for two columns together.",
            ["columns", "synthetic", "real rows", "shuffled"],
            verdict["worst_pairs"],
            lambda each: [percent(each[key]) for key in ("synthetic", "real", "shuffled")],
        ),
        _pairs("Associations that the noise invented", "Below 0.1 in real rows, above it here.", found["invented"]),
        _pairs("Associations that were lost", "Above 0.1 in real rows, below it here.", found["lost"]),
        _table(
            "Days between two dates",
            "Median and 95 % quantile.",
            ["columns", "real", "synthetic"],
            found["date_differences"],
            lambda each: [" and ".join(map(_number, each[side])) for side in ("real", "synthetic")],
        ),
        _table(
            "Tails",
            "Outer quantiles that are farthest off, as a part of their distance from the median.",
            ["column", "quantile", "real", "synthetic", "off by"],
            found["tails"],
            lambda each: [each["quantile"], _number(each["real"]), _number(each["synthetic"]), percent(each["error"])],
        ),
        _table(
            "Means of subgroups",
            "Those that are farthest off, in deviations of the column.",
            ["number", "subgroup", "real", "synthetic", "off by"],
            found["subgroup_means"],
            lambda each: [each["group"], _number(each["real"]), _number(each["synthetic"]), f"{each['error']:.2f}"],
        ),
        _coefficients(found["coefficients"]),
    ]
    return [table for table in made if table["rows"]]


def _table(
    title: str, note: str, head: list[str], found: Iterable[Finding], cells: Callable[[Finding], list[str]]
) -> Table:
    return {"title": title, "note": note, "head": head, "rows": [[_name(each), *cells(each)] for each in found]}


def _name(each: Finding) -> str:
    return ", ".join(each["columns"]) if "columns" in each else str(each.get("column") or each["name"])


def _pairs(title: str, note: str, found: Iterable[Finding]) -> Table:
    head = ["columns", "real", "synthetic"]
    return _table(title, note, head, found, lambda each: [f"{each[side]:.2f}" for side in ("real", "synthetic")])


def _coefficients(found: Finding | None) -> Table:
    if found is None:
        return _table("", "", [], [], lambda each: [])
    note = f"95 % intervals of standardised coefficients overlap by {percent(found['overlap'])} on average; the least:"

    def cells(each: Finding) -> list[str]:
        intervals = [f"{each[side][0]:z.2f} to {each[side][1]:z.2f}" for side in ("real", "synthetic")]
        return [*intervals, percent(each["overlap"])]

    head = ["coefficient", "real", "synthetic", "overlap"]
    return _table(f"Regression of {found['target']}", note, head, found["worst"], cells)


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
