"""A network of columns as a picture that can be read: layers from top to bottom, and few arrows.

The one rule: of every column at most `MOST_PARENTS` arrows are shown, its strongest; the table beside the picture has
all of them. A column stands below every column that it is shown to depend on.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from understudy.core.svg import rect, short_name, svg, text

MOST_PARENTS = 2
"""How many arrows lead to a column at most."""
PER_ROW = 5
"""How many columns stand side by side at most; a wider layer takes several rows."""
WIDTH, GAP, ROW, HEIGHT = 124.0, 16.0, 66.0, 24.0
"""Of a box, between two of them, from one row to the next, and the height of a box, in pixels."""

PASSING = 4.0
"""The width of the gap through which an arrow passes a row."""

Graph = Mapping[str, Sequence[str]]
Strengths = Mapping[str, Mapping[str, float]]


def strongest(parents: Graph, strengths: Strengths, most: int = MOST_PARENTS) -> dict[str, list[str]]:
    """Of every column its strongest parents; if none has a strength, the nearest earlier ones."""
    kept: dict[str, list[str]] = {}
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
    above: Sequence[str] = (),
) -> Markup:
    """Columns in layers, and an arrow down from each parent to its child: the strongest two of every column.

    Without an equal in `against` an arrow is dashed. The stronger, the thicker. No arrow passes behind a column.
    """
    strengths, total = strengths or {}, sum(map(len, parents.values()))
    layout = Layout.of(strongest(parents, strengths))
    edges = sorted(layout.chains, key=lambda edge: -strengths.get(edge[1], {}).get(edge[0], 0.0))
    most = max((strengths.get(child, {}).get(parent, 0.0) for parent, child in edges), default=0.0) or 1.0
    ends = layout.ends()
    parts = [_tip(key)]
    for parent, child in edges:
        strength = strengths.get(child, {}).get(parent)
        known = against is None or parent in against.get(child, ())
        thick = 1.2 if strength is None else 1 + 3 * strength / most
        parts.append(_arrow(ends[parent, child], layout.through(parent, child), key, known, thick))
    for name in parents:
        x, y = layout.corner(name)
        parts.append(rect(x, y, WIDTH, HEIGHT, "node"))
        parts.append(text(x + WIDTH / 2, y + HEIGHT / 2 + 4.5, short_name(name, WIDTH - 8), "", "middle"))
    cut = f" The {len(edges)} strongest are drawn." if len(edges) < total else ""
    description = f"{len(parents)} columns and {total} arrows from parent to child, listed in the table below.{cut}"
    return svg(key, layout.size, title, description, parts, above=above)


Point = tuple[float, float]
Edge = tuple[str, str]
Item = str | tuple[str, str, int]
"""What stands in a row: a column or, of an arrow that passes the row, a gap, named by its ends and the row."""


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where everything stands: Sugiyama et al. (1981), doi:10.1109/TSMC.1981.4308636, with three sweeps.

    Attributes:
        rows: How many rows there are.
        row_of: The row of each column.
        chains: For every arrow the items that it leads through, its ends included.
        middles: The middle of every item, across.
        width: Of the picture.
    """

    rows: int
    row_of: dict[str, int]
    chains: dict[Edge, list[Item]]
    middles: dict[Item, float]
    width: float

    @classmethod
    def of(cls, shown: Graph) -> "Layout":
        rows = [layer[at : at + PER_ROW] for layer in layers(shown) for at in range(0, len(layer), PER_ROW)]
        row_of = {name: number for number, row in enumerate(rows) for name in row}
        chains: dict[Edge, list[Item]] = {}
        items: list[list[Item]] = [list(row) for row in rows]
        for child, of in shown.items():
            for parent in of:
                gaps: list[Item] = [(parent, child, row) for row in range(row_of[parent] + 1, row_of[child])]
                chains[parent, child] = [parent, *gaps, child]
                for gap in gaps:
                    items[row_of[parent] + 1 + gaps.index(gap)].append(gap)
        for sweep in range(3):
            _order(items, chains, down=sweep % 2 == 0)
        width = max((_row_width(row) for row in items), default=WIDTH) + 2 * GAP
        return cls(len(rows), row_of, chains, _middles(items, width), width)

    @property
    def size(self) -> Point:
        return self.width, max(self.rows - 1, 0) * ROW + HEIGHT + 8

    def corner(self, name: str) -> Point:
        """The upper left corner of a column's box."""
        return self.middles[name] - WIDTH / 2, 4 + self.row_of[name] * ROW

    def through(self, parent: str, child: str) -> list[Point]:
        """The upper ends of the gaps that an arrow passes."""
        gaps = [item for item in self.chains[parent, child] if not isinstance(item, str)]
        return [(self.middles[gap], 4 + gap[2] * ROW) for gap in gaps]

    def ends(self) -> dict[Edge, tuple[Point, Point]]:
        """Where every arrow starts and ends: spread along the boxes, so that arrows cross as little as they can."""
        starts: dict[Edge, float] = {}
        tips: dict[Edge, float] = {}
        for place, (found, next_to) in enumerate(((starts, 1), (tips, -2))):
            by_box: dict[str, list[Edge]] = {}
            for edge in self.chains:
                by_box.setdefault(edge[place], []).append(edge)
            for name, edges in by_box.items():
                edges.sort(key=lambda edge: self.middles[self.chains[edge][next_to]])
                for number, edge in enumerate(edges):
                    found[edge] = self.middles[name] + WIDTH * ((number + 1) / (len(edges) + 1) - 0.5)
        return {
            edge: ((starts[edge], self.corner(edge[0])[1] + HEIGHT), (tips[edge], self.corner(edge[1])[1]))
            for edge in self.chains
        }


def _order(rows: list[list[Item]], chains: Mapping[Edge, list[Item]], *, down: bool) -> None:
    """Puts the items of every row near those that they hang on, in the row before or, going up, after."""
    near: dict[Item, list[Item]] = {}
    for chain in chains.values():
        for upper, lower in itertools.pairwise(chain):
            near.setdefault(lower if down else upper, []).append(upper if down else lower)
    middles = _middles(rows, 0.0)
    for row in rows if down else reversed(rows):
        row.sort(key=lambda item: _mean([middles[other] for other in near.get(item, [item])]))
        middles |= _middles([row], 0.0)


def _middles(rows: list[list[Item]], width: float) -> dict[Item, float]:
    """The middle of every item, with each row in the middle of the picture."""
    middles: dict[Item, float] = {}
    for row in rows:
        x = (width - _row_width(row)) / 2
        for item in row:
            middles[item] = x + _width(item) / 2
            x += _width(item) + GAP
    return middles


def _width(item: Item) -> float:
    return WIDTH if isinstance(item, str) else PASSING


def _row_width(row: Sequence[Item]) -> float:
    return sum(_width(item) + GAP for item in row) - GAP


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _tip(key: str) -> Markup:
    return Markup(
        '<defs><marker id="{}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
    ).format(key)


def _arrow(ends: tuple[Point, Point], through: Sequence[Point], key: str, known: bool, thick: float) -> Markup:
    (x, y), last = ends
    points = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in (*through, last):
        bend = max(abs(to_y - y) / 2, 20.0)
        points += f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
        if (to_x, to_y) in through:
            y = to_y + HEIGHT
            points += f"V{y:.1f}"
    return Markup('<path d="{}" class="{}" stroke-width="{:.1f}" marker-end="url(#{}-tip)"/>').format(
        points, "edge" if known else "edge wrong", thick, key
    )
