"""Pictures of a database: the graph of its keys, and histories as lines of events.

The one rule: as in `drawing`, no picture says anything by colour alone, and a table beside it has all of it as text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from understudy.core.svg import path, rect, short, short_name, svg, text

_BOX, _HEIGHT, _APART, _BETWEEN = 190.0, 58.0, 180.0, 26.0
_LINE, _LABEL, _WIDTH = 26.0, 64.0, 460.0


def keys(tables: Sequence[Mapping[str, Any]], key: str = "keys") -> Markup:
    """A box for each table, and an arrow from each child to its parent; public tables are dashed, below the others.

    Tables stand in columns by their depth, parents on the left; every table has a row of its own below its parent's
    first child.
    """
    by_name = {table["name"]: table for table in tables}
    places = _places(tables)
    parts = []
    for table in tables:
        if table["parent"] is not None:
            parts += _arrow(places[table["parent"]], places[table["name"]], _bound(table))
        for other in dict.fromkeys(table["references"].values()):
            parts += _reference(places[table["name"]], places[other])
    for name, (x, y) in places.items():
        table = by_name[name]
        parts += [
            rect(x, y, _BOX, _HEIGHT, "node wrong" if table["public"] else "node"),
            text(x + 10, y + 22, short_name(name, _BOX - 20)),
            text(x + 10, y + 42, short(_about(table), _BOX - 20, 12), "small"),
        ]
    width = max(x for x, _ in places.values()) + _BOX + 2
    height = max(y for _, y in places.values()) + _HEIGHT + 2
    links = "; ".join(f"{table['name']} hangs on {table['parent']}" for table in tables if table["parent"])
    return svg(
        key, (width, height), "The keys of the database", f"{len(tables)} tables. {links}. See the table below.", parts
    )


def _places(tables: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Where each box is: private tables as a tree, each child below the whole tree of its earlier sibling."""
    places: dict[str, tuple[float, float]] = {}
    rows = 0

    def put(name: str, depth: int) -> None:
        nonlocal rows
        places[name] = (1 + depth * (_BOX + _APART), 1 + rows * (_HEIGHT + _BETWEEN))
        below = [table["name"] for table in tables if table["parent"] == name]
        for place, child in enumerate(below):
            rows += place > 0
            put(child, depth + 1)

    for table in tables:
        if table["parent"] is None and not table["public"]:
            put(table["name"], 0)
    for table in tables:
        if table["public"]:
            rows += 1
            put(table["name"], 0)
    return places


def _about(table: Mapping[str, Any]) -> str:
    role = "the unit, " if table["unit"] else "public, " if table["public"] else ""
    return f"{role}{table['columns']} column{'' if table['columns'] == 1 else 's'}"


def _bound(table: Mapping[str, Any]) -> str:
    return f"≤ {table['most']}" + (f", by {table['order']}" if table["order"] else "")


def _arrow(parent: tuple[float, float], child: tuple[float, float], label: str) -> list[Markup]:
    start, end = (child[0], child[1] + _HEIGHT / 2), (parent[0] + _BOX, parent[1] + _HEIGHT / 2)
    middle = end[0] + 26
    line = f"M{start[0]:.1f} {start[1]:.1f}H{middle:.1f}V{end[1]:.1f}H{end[0] + 8:.1f}"
    tip = f"M{end[0]:.1f} {end[1]:.1f}l10 -5v10z"
    words = short(label, start[0] - middle - 8, 12)
    return [path(line, "edge"), path(tip, "tip"), text(middle + 6, start[1] - 6, words, "small")]


def _reference(table: tuple[float, float], public: tuple[float, float]) -> list[Markup]:
    """A dashed line from a table down to a public one."""
    x, y = table[0] + _BOX / 2, table[1] + _HEIGHT
    line = f"M{x:.1f} {y:.1f}V{public[1] - 12:.1f}H{public[0] + _BOX * 0.75:.1f}V{public[1]:.1f}"
    return [path(line, "edge wrong")]


Span = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The earliest and the latest event of histories that stand side by side."""


def histories(found: Sequence[Sequence[Mapping[str, Any]]], span: Span, key: str, title: str) -> Markup:
    """A line for each history, with a mark for each event, at its place in the span."""
    low, high = (event["time"] for event in span)
    parts = []
    for place, events in enumerate(found):
        y = 14 + place * _LINE
        marks = [_LABEL + (_WIDTH - _LABEL - 10) * (event["time"] - low) / max(high - low, 1e-12) for event in events]
        parts.append(text(_LABEL - 12, y + 4, f"{place + 1}", "small", "end"))
        parts.append(path(f"M{marks[0]:.1f} {y:.1f}H{max(marks[-1], marks[0] + 0.1):.1f}", "axis"))
        parts += [Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4" class="synthetic"/>').format(x, y) for x in marks]
    height = 14 + len(found) * _LINE + 14
    parts += [
        text(_LABEL, height - 4, span[0]["at"], "small"),
        text(_WIDTH - 10, height - 4, span[1]["at"], "small", "end"),
    ]
    description = f"{len(found)} lines with {sum(map(len, found))} events in all. The table below has every event."
    return svg(key, (_WIDTH, height), title, description, parts)


def span_of(of: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> Span:
    """The earliest and the latest event of all histories."""
    events = [event for found in of.values() for history in found for event in history]
    nothing = {"time": 0.0, "at": ""}
    ordered = sorted(events, key=lambda event: event["time"]) or [nothing]
    return ordered[0], ordered[-1]
