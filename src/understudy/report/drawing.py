"""Pictures for a report, as SVG inside the page.

The one rule: no picture says anything by colour alone. Synthetic is filled and real is an outline, negative values have
another shape, and wrong arrows are dashed. Every picture has a title and a description, and the page shows its numbers
beside it as a table. All text passes through `Markup.format`, which escapes it.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

NUMBERS_IN_CELLS = 10
"""With up to so many columns, the cells of a heat map show their numbers."""
MOST_EDGES = 400
"""At most so many arrows of a network are drawn, the strongest first."""
LEAST_SCALE = 0.75
"""A picture that can be scrolled sideways shrinks no further than this, so that its text stays readable."""
COLOURS = {
    "light": {"blank": (247, 247, 247), "plus": (33, 102, 172), "minus": (166, 80, 6)},
    "dark": {"blank": (38, 43, 49), "plus": (107, 174, 230), "minus": (240, 146, 70)},
}
"""The colours of a cell of no, of full positive and of full negative strength, by theme."""
_NONE = Markup("")
_HEAT_LEFT = 114


def width_of(text: str, size: float) -> float:
    """About how many pixels wide a text is at this size of font: rather too many than too few, as no font is known."""
    return size * sum(_ems(letter) for letter in text)


def _ems(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in "MWmw@%…—":
        return 1.0
    return 0.42 if letter in "fijlrtI.,:;'|!()[] -\xa0" else 0.72 if letter.isupper() else 0.64


def short(text: str, width: float, size: float = 13.0) -> str:
    """As much of a text as fits into a width, in pixels, at this size of font."""
    if width_of(text, size) <= width:
        return text
    kept = text
    while kept and width_of(kept + "…", size) > width:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def percent(share: float) -> str:
    return f"{100 * share:.1f}\xa0%"


def _svg(key: str, size: tuple[float, float], title: str, description: str, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg viewBox="0 0 {w:.0f} {h:.0f}" style="max-width:{w:.0f}px;--least:{least:.0f}px" role="img" '
        'aria-labelledby="{key}-title {key}-desc">'
        '<title id="{key}-title">{title}</title><desc id="{key}-desc">{description}</desc>{body}</svg>'
    ).format(
        w=size[0],
        h=size[1],
        least=LEAST_SCALE * size[0],
        key=key,
        title=title,
        description=description,
        body=Markup("").join(parts),
    )


def _text(x: float, y: float, text: str, look: str = "", anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>').format(x, y, look, anchor, text)


def _rect(x: float, y: float, width: float, height: float, look: str) -> Markup:
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}"/>').format(
        x, y, max(width, 0.0), max(height, 0.0), look
    )


def _path(points: str, look: str) -> Markup:
    return Markup('<path d="{}" class="{}"/>').format(points, look)


# The budget ---------------------------------------------------------------------------------------------------------


def budget(mechanisms: Sequence[Mapping[str, Any]], key: str = "budget") -> Markup:
    """One bar for each planned mechanism, as long as its share of the budget."""
    width, row, left = 350, 40, 2
    longest = max((each["share"] for each in mechanisms), default=1.0)
    parts = []
    for place, each in enumerate(mechanisms):
        y, length = place * row, (width - 68) * each["share"] / longest
        what = each["what"] + (f", and {each['more']} more" if each["more"] else "")
        parts += [
            _text(left, y + 14, short(what, width - 4)),
            _rect(left, y + 19, length, 12, "synthetic"),
            _text(left + 6 + length, y + 30, percent(each["share"])),
        ]
    largest = max(mechanisms, key=lambda each: each["share"])["what"] if mechanisms else "nothing"
    description = f"{len(mechanisms)} bars. The longest is: {largest}."
    return _svg(key, (width, row * len(mechanisms) or 1), "Where the budget went", description, parts)


# Columns ------------------------------------------------------------------------------------------------------------


def column(seen: Mapping[str, Any], key: str) -> Markup:
    return _histogram(seen, key) if seen["figure"] == "histogram" else _bars(seen, key)


def _histogram(seen: Mapping[str, Any], key: str) -> Markup:
    """Filled bars for the synthetic rows, and a stepped line over them for the real ones."""
    width, height, left, right, top, bottom = 340.0, 150.0, 56.0, 8.0, 10.0, 22.0
    shares = seen["shares"]
    peak = max((max(side) for side in shares.values()), default=0.0) or 1.0
    count = len(seen["edges"]) - 1
    step, floor = (width - left - right) / count, height - bottom

    def up(share: float) -> float:
        return floor - (floor - top) * share / peak

    parts = [
        _rect(left + place * step + 0.4, up(share), step - 0.8, floor - up(share), "synthetic")
        for place, share in enumerate(shares["synthetic"])
        if share
    ]
    if "real" in shares:
        steps = [f"H{left + (place + 1) * step:.1f}V{up(share):.1f}" for place, share in enumerate(shares["real"][1:])]
        points = f"M{left:.1f} {floor:.1f}V{up(shares['real'][0]):.1f}{''.join(steps)}H{width - right:.1f}V{floor:.1f}"
        parts.append(_path(points, "real"))
    first, middle, last = seen["bin_labels"][0][0], seen["bin_labels"][count // 2][0], seen["bin_labels"][-1][1]
    halves = (step * (count // 2), step * (count - count // 2))
    fits = all(
        width_of(end, 12) + width_of(middle, 12) / 2 < half for end, half in zip((first, last), halves, strict=True)
    )
    parts += [
        _path(f"M{left:.1f} {top:.1f}V{floor:.1f}H{width - right:.1f}", "axis"),
        _text(left - 4, top + 8, percent(peak), "small", "end"),
        _text(left - 4, floor, "0", "small", "end"),
        _text(left, height - 6, first, "small"),
        _text(width - right, height - 6, last, "small", "end"),
    ]
    if count > 2 and fits:
        parts.append(_text(left + step * (count // 2), height - 6, middle, "small", "middle"))
    return _svg(key, (width, height), f"Distribution of {seen['name']}", _compared(seen, "Histogram"), parts)


def _bars(seen: Mapping[str, Any], key: str) -> Markup:
    """A filled bar for the synthetic share of each category, and an outlined one below it for the real share."""
    width, left, longest = 340.0, 118.0, 112.0
    shares = seen["shares"]
    row = 16 + 13 * ("real" in shares)
    peak = max((max(side, default=0.0) for side in shares.values()), default=0.0) or 1.0
    parts = []
    for place, label in enumerate(seen["labels"]):
        y = place * row
        parts.append(_text(left - 6, y + row / 2 + 3, short(label, left - 8, 12), "small", "end"))
        for line, (side, look) in enumerate((("synthetic", "synthetic"), ("real", "real"))):
            if side in shares:
                share = shares[side][place]
                parts.append(_rect(left, y + 3 + 12 * line, longest * share / peak, 9, look))
                words = percent(share) + (f" {side}" if "real" in shares and place == 0 else "")
                parts.append(_text(left + longest * share / peak + 5, y + 11.5 + 12 * line, words, "tiny"))
    parts.append(_path(f"M{left:.1f} 0V{row * len(seen['labels']):.1f}", "axis"))
    size = (width, max(row * len(seen["labels"]), 1) + 2)
    return _svg(key, size, f"Shares of {seen['name']}", _compared(seen, "Bars"), parts)


def _compared(seen: Mapping[str, Any], word: str) -> str:
    both = "synthetic rows filled, real rows as an outline" if "real" in seen["shares"] else "synthetic rows"
    return f"{word}: {both}. The numbers are in the table below."


# Pairs --------------------------------------------------------------------------------------------------------------


Matrix = Sequence[Sequence[float | None]]


def full_scale(matrix: Matrix) -> float:
    """The value that a heat map of differences shows in full colour: the largest of them, and at least 0.05."""
    return max([0.05, *(abs(value) for row in matrix for value in row if value is not None)])


def _cell_size(count: int) -> int:
    return 28 if count <= NUMBERS_IN_CELLS else 16 if count <= 20 else 13


def heat_width(count: int) -> int:
    """How wide a heat map of so many columns is, in pixels."""
    return _HEAT_LEFT + _cell_size(count) * count + 4


def heat(names: Sequence[str], matrix: Matrix, key: str, title: str, scale: float = 1.0) -> Markup:
    """A square of cells: with numbers in them if they are few, else marks as large as the numbers.

    A positive number is blue and a square, a negative one orange and a circle; `scale` has full colour and size.
    """
    few = len(names) <= NUMBERS_IN_CELLS
    cell, left, top = _cell_size(len(names)), _HEAT_LEFT, 18
    side = cell * len(names)
    parts = [_rect(left, top, side, side, "blank")]
    for y, (name, row) in enumerate(zip(names, matrix, strict=True)):
        middle = top + cell * (y + 0.5)
        look = "small" if cell > 13 else "tiny"
        parts.append(_text(left - 5, middle + 4, short(f"{y + 1} {name}", left - 7, 12), look, "end"))
        if few or y % 2 == 0:  # all of them would not fit
            parts.append(_text(left + cell * (y + 0.5), top - 5, str(y + 1), "small" if few else "tiny", "middle"))
        for x, value in enumerate(row):
            if value is not None:
                parts.append((_cell if few else _mark)(left + cell * x, top + cell * y, cell, value, scale))
    description = (
        f"{len(names)} by {len(names)} cells, full colour at ±{scale:.2g}. The numbers are in the table below."
    )
    return _svg(key, (heat_width(len(names)), top + side + 4), title, description, parts)


def colour(strength: float, theme: str) -> tuple[int, int, int]:
    """Between the blank of a theme and blue for 0 to 1, between the blank and orange for 0 to -1."""
    ends, weight = COLOURS[theme], min(abs(strength), 1.0)
    pairs = zip(ends["blank"], ends["plus" if strength >= 0 else "minus"], strict=True)
    red, green, blue = (round(a + (b - a) * weight) for a, b in pairs)
    return red, green, blue


def luminance(rgb: Sequence[int]) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _cell(x: float, y: float, size: float, value: float, scale: float) -> Markup:
    grounds = {theme: colour(value / scale, theme) for theme in COLOURS}
    inks = {theme: "#000" if luminance(rgb) > 0.179 else "#fff" for theme, rgb in grounds.items()}  # the better one
    return Markup(
        '<rect x="{x:.0f}" y="{y:.0f}" width="{s:.0f}" height="{s:.0f}" class="ground" style="{grounds}"/>'
        '<text x="{tx:.1f}" y="{ty:.1f}" style="{inks}" class="cell" text-anchor="middle">{number}</text>'
    ).format(
        x=x,
        y=y,
        s=size,
        grounds=";".join(f"--{theme}:rgb{rgb}" for theme, rgb in grounds.items()),
        inks=";".join(f"--{theme}:{ink}" for theme, ink in inks.items()),
        tx=x + size / 2,
        ty=y + size / 2 + 4,
        number=f"{value:z.2f}".replace("0.", ".", 1),
    )


def _mark(x: float, y: float, size: float, value: float, scale: float) -> Markup:
    reach = (size - 1) * math.sqrt(min(abs(value / scale), 1.0))
    if reach < 1:
        return _NONE
    look = "plus" if value >= 0 else "minus"
    if value >= 0:
        return _rect(x + (size - reach) / 2, y + (size - reach) / 2, reach, reach, look)
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}"/>').format(
        x + size / 2, y + size / 2, reach / 2, look
    )


# The network --------------------------------------------------------------------------------------------------------


def network(
    parents: Mapping[str, Sequence[str]],
    key: str,
    title: str,
    *,
    strengths: Mapping[str, Mapping[str, float]] | None = None,
    against: Mapping[str, Sequence[str]] | None = None,
) -> Markup:
    """Columns from top to bottom, and an arrow from each parent to its child.

    An arrow to a later column runs on the right, one to an earlier column on the left. Without an equal in
    `against` it is dashed. The stronger, the thicker.
    """
    names, strengths = list(parents), strengths or {}
    edges = [(parent, child) for child, of in parents.items() for parent in of]
    total = len(edges)
    edges = sorted(edges, key=lambda edge: -strengths.get(edge[1], {}).get(edge[0], 0.0))[:MOST_EDGES]
    place = {name: number for number, name in enumerate(names)}
    back = max((place[parent] - place[child] for parent, child in edges), default=0)
    ahead = max((place[child] - place[parent] for parent, child in edges), default=0)
    spread = 90 if back > 0 and ahead > 0 else 190  # the picture must fit into a phone's width
    row, label = 30.0, 128.0
    left = 10 + (_reach(back, len(names), spread) * 0.78 if back > 0 else 0)
    width = left + label + 14 + (_reach(ahead, len(names), spread) * 0.78 if ahead > 0 else 0)
    most = max((strength for of in strengths.values() for strength in of.values()), default=0.0) or 1.0
    parts = [
        Markup(
            '<defs><marker id="{}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
        ).format(key)
    ]
    for parent, child in edges:
        strength = strengths.get(child, {}).get(parent)
        known = against is None or parent in against.get(child, ())
        thick = 1.2 if strength is None else 1 + 3 * strength / most
        bend = _reach(place[child] - place[parent], len(names), spread)
        parts.append(_arrow((place[parent], place[child]), (left, label, row), bend, key, known, thick))
    for number, name in enumerate(names):
        y = number * row + row / 2
        parts.append(_rect(left, y - 11, label, 22, "node"))
        parts.append(_text(left + label / 2, y + 4, short(name, label - 8), "", "middle"))
    cut = f" Of {total} arrows the {MOST_EDGES} strongest are drawn." if total > MOST_EDGES else ""
    description = f"{len(names)} columns and {total} arrows from parent to child, listed in the table below.{cut}"
    return _svg(key, (width, row * len(names)), title, description, parts)


def _reach(distance: int, count: int, spread: float) -> float:
    """How far an arrow bends out; long ones further."""
    return 24 + spread * (abs(distance) / max(count, 8)) ** 0.7


def _arrow(
    ends: tuple[int, int], frame: tuple[float, float, float], reach: float, key: str, known: bool, thick: float
) -> Markup:
    left, label, row = frame
    start, end = (row * number + row / 2 for number in ends)
    down = ends[1] > ends[0]
    x = left + label + 1 if down else left - 1
    bend = x + (1 if down else -1) * reach
    shift = 4 if down else -4  # it leaves the lower part of its parent and meets the upper part of its child
    start, end = start + shift, end - shift
    points = f"M{x:.1f} {start:.1f}C{bend:.1f} {start:.1f} {bend:.1f} {end:.1f} {x:.1f} {end:.1f}"
    return Markup('<path d="{}" class="{}" stroke-width="{:.1f}" marker-end="url(#{}-tip)"/>').format(
        points, "edge" if known else "edge wrong", thick, key
    )
