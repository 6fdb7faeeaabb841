"""The network of a model as a picture that can be read: layers from top to bottom, and few arrows.

The one rule: of every column at most `MOST_PARENTS` arrows are shown, its strongest; the table beside the picture has
all of them. A column stands below every column that it is shown to depend on.
"""

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from understudy.core.svg import rect, short, svg, text

MOST_PARENTS = 2
"""How many arrows lead to a column at most."""
PER_ROW = 5
"""How many columns stand side by side at most; a wider layer takes several rows."""
WIDTH, GAP, ROW, HEIGHT = 124.0, 16.0, 66.0, 24.0
"""Of a box, between two of them, from one row to the next, and the height of a box, in pixels."""

Graph = Mapping[str, Sequence[str]]
Strengths = Mapping[str, Mapping[str, float]]


def strongest(parents: Graph, strengths: Strengths, most: int = MOST_PARENTS) -> dict[str, list[str]]:
    """Of every column its strongest parents; if none has a strength, the nearest earlier ones."""
    kept = {}
    for child, of in parents.items():
        known = strengths.get(child, {})
        ranked = sorted(enumerate(of), key=lambda each: (-known.get(each[1], 0.0), -each[0]))
        kept[child] = [parent for _, parent in ranked[:most]]
    return kept


def layers(parents: Graph) -> list[list[str]]:
    """The columns by depth: each below all of its parents. A circle is cut where fewest arrows lead upwards."""
    depth: dict[str, int] = {}
    waiting = list(parents)
    while waiting:
        ready = [name for name in waiting if all(parent in depth for parent in parents[name])]
        if not ready:
            ready = [min(waiting, key=lambda name: sum(parent not in depth for parent in parents[name]))]
        for name in ready:
            depth[name] = 1 + max((depth[parent] for parent in parents[name] if parent in depth), default=-1)
            waiting.remove(name)
    return [[name for name in parents if depth[name] == level] for level in range(max(depth.values(), default=-1) + 1)]


def network(
    parents: Graph,
    key: str,
    title: str,
    *,
    strengths: Strengths | None = None,
    against: Graph | None = None,
) -> Markup:
    """Columns in layers, and an arrow down from each parent to its child: the strongest two of every column.

    Without an equal in `against` an arrow is dashed. The stronger, the thicker.
    """
    strengths, total = strengths or {}, sum(map(len, parents.values()))
    shown = strongest(parents, strengths)
    places, size = _places(shown)
    edges = [(parent, child) for child, of in shown.items() for parent in of]
    edges.sort(key=lambda edge: -strengths.get(edge[1], {}).get(edge[0], 0.0))
    most = max((strengths.get(child, {}).get(parent, 0.0) for parent, child in edges), default=0.0) or 1.0
    parts = [_tip(key)]
    ends = _ends(edges, places)
    for parent, child in edges:
        strength = strengths.get(child, {}).get(parent)
        known = against is None or parent in against.get(child, ())
        thick = 1.2 if strength is None else 1 + 3 * strength / most
        parts.append(_arrow(*ends[parent, child], key, known, thick))
    for name, (x, y) in places.items():
        parts.append(rect(x, y, WIDTH, HEIGHT, "node"))
        parts.append(text(x + WIDTH / 2, y + HEIGHT / 2 + 4.5, short(name, WIDTH - 8), "", "middle"))
    cut = f" The {len(edges)} strongest are drawn." if len(edges) < total else ""
    description = f"{len(places)} columns and {total} arrows from parent to child, listed in the table below.{cut}"
    return svg(key, size, title, description, parts)


def _places(shown: Graph) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """The upper left corner of every box, and the size of the picture."""
    rows: list[list[str]] = []
    across: dict[str, float] = {}
    for layer in layers(shown):
        middle = {name: _mean([across[parent] for parent in shown[name] if parent in across]) for name in layer}
        ranked = sorted(layer, key=lambda name: middle[name])  # near its parents
        cut = [ranked[start : start + PER_ROW] for start in range(0, len(ranked), PER_ROW)]
        rows += cut
        across |= {name: place - (len(row) - 1) / 2 for row in cut for place, name in enumerate(row)}
    widest = max((len(row) for row in rows), default=1)
    width = widest * (WIDTH + GAP) + GAP
    places = {
        name: (width / 2 + across[name] * (WIDTH + GAP) - WIDTH / 2, 4 + number * ROW)
        for number, row in enumerate(rows)
        for name in row
    }
    return places, (width, max(len(rows) - 1, 0) * ROW + HEIGHT + 8)


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


Point = tuple[float, float]


def _ends(edges: Iterable[tuple[str, str]], places: Mapping[str, Point]) -> dict[tuple[str, str], tuple[Point, Point]]:
    """Where every arrow starts and ends: spread along the boxes, so that arrows cross as little as they can."""
    edges = list(edges)
    starts: dict[tuple[str, str], float] = {}
    tips: dict[tuple[str, str], float] = {}
    for name, (x, _) in places.items():
        out = sorted((edge for edge in edges if edge[0] == name), key=lambda edge: places[edge[1]][0])
        into = sorted((edge for edge in edges if edge[1] == name), key=lambda edge: places[edge[0]][0])
        for of, found in ((out, starts), (into, tips)):
            for number, edge in enumerate(of):
                found[edge] = x + WIDTH * (number + 1) / (len(of) + 1)
    return {
        (parent, child): ((starts[parent, child], places[parent][1] + HEIGHT), (tips[parent, child], places[child][1]))
        for parent, child in edges
    }


def _tip(key: str) -> Markup:
    return Markup(
        '<defs><marker id="{}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
    ).format(key)


def _arrow(start: Point, end: Point, key: str, known: bool, thick: float) -> Markup:
    (x, y), (to_x, to_y) = start, end
    bend = max(abs(to_y - y) / 2, 20.0)
    points = f"M{x:.1f} {y:.1f}C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
    return Markup('<path d="{}" class="{}" stroke-width="{:.1f}" marker-end="url(#{}-tip)"/>').format(
        points, "edge" if known else "edge wrong", thick, key
    )
