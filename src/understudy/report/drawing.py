"""Pictures for a report, as SVG inside the page.

The one rule: no picture says anything by colour alone. Synthetic is filled and real is an outline, negative values have
another shape, and wrong arrows are dashed. The page shows the numbers of every picture beside it as a table.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from understudy.core.svg import bars, path, percent, rect, short, short_name, svg, text, width_of

NUMBERS_IN_CELLS = 10
"""With up to so many columns, the cells of a heat map show their numbers."""
COLOURS = {
    "light": {"blank": (247, 247, 247), "plus": (33, 102, 172), "minus": (166, 80, 6)},
    "dark": {"blank": (38, 43, 49), "plus": (107, 174, 230), "minus": (240, 146, 70)},
}
"""The colours of a cell of no, of full positive and of full negative strength, by theme."""
_NONE = Markup("")
_HEAT_LEFT = 114


# The budget ---------------------------------------------------------------------------------------------------------


def budget(mechanisms: Sequence[Mapping[str, Any]], key: str = "budget") -> Markup:
    """One bar for each planned mechanism, as long as its share of the budget."""
    named = [(each["what"] + (f", and {each['more']} more" if each["more"] else ""), each) for each in mechanisms]
    return bars(key, "Where the budget went", [(what, each["share"]) for what, each in named])


def profile(points: Sequence[Mapping[str, float]], promised: float, key: str = "profile") -> Markup:
    """The pairs (ε, δ) that hold together, ε along and δ up in powers of ten; the promised one is a square."""
    width, height, left, right, top, bottom = 350.0, 210.0, 54.0, 16.0, 12.0, 40.0
    powers = [math.log10(point["delta"]) for point in points]
    low, high, most = (
        math.floor(min(powers)),
        math.ceil(max(powers)),
        max(max(point["epsilon"] for point in points) * 1.05, 1e-9),
    )
    unit = 10.0 ** math.floor(math.log10(most))
    most = unit * next(step for step in (1, 2, 4, 6, 8, 10, 20) if step * unit >= most)

    def place(point: Mapping[str, float]) -> tuple[float, float]:
        x = left + (width - left - right) * point["epsilon"] / most
        return x, top + (height - top - bottom) * (high - math.log10(point["delta"])) / max(high - low, 1)

    places = [place(point) for point in points]
    parts = [path(f"M{left:.1f} {top:.1f}V{height - bottom:.1f}H{width - right:.1f}", "axis")]
    parts.append(path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places), "curve"))
    for point, (x, y) in zip(points, places, strict=True):
        if point["delta"] == promised:
            parts.append(rect(x - 5, y - 5, 10, 10, "mark"))
        else:
            parts.append(Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3" class="synthetic"/>').format(x, y))
    for power in range(low, high + 1, 2):
        parts.append(text(left - 6, place({"epsilon": 0, "delta": 10.0**power})[1] + 4, f"1e{power}", "small", "end"))
    for share in (0.0, 0.5, 1.0):
        x = left + (width - left - right) * share
        parts.append(text(x, height - bottom + 16, f"{most * share:.2g}", "small", "end" if share == 1 else "middle"))
    parts += [text(left + 4, top + 10, "δ", "small"), text((left + width) / 2, height - 6, "ε", "small", "middle")]
    description = f"A falling curve of {len(points)} points; the promised one is a square. See the table below."
    return svg(key, (width, height), "What the same noise promises at other values of δ", description, parts)


# Columns ------------------------------------------------------------------------------------------------------------


def column(seen: Mapping[str, Any], key: str) -> Markup:
    return _histogram(seen, key) if seen["figure"] == "histogram" else _bars(seen, key)


def _histogram(seen: Mapping[str, Any], key: str) -> Markup:
    """Filled bars for the synthetic rows, and a stepped line over them for the real ones."""
    width, height, left, right, top, bottom = 340.0, 150.0, 56.0, 8.0, 10.0, 22.0
    shares = seen["shares"]
    reach = (seen.get("noise") or {}).get("share", 0.0)
    peak = min(max((max(side) for side in shares.values()), default=0.0) + reach, 1.0) or 1.0
    count = len(seen["edges"]) - 1
    step, floor = (width - left - right) / count, height - bottom

    def up(share: float) -> float:
        return floor - (floor - top) * share / peak

    parts = [
        rect(left + place * step + 0.4, up(share), step - 0.8, floor - up(share), "synthetic")
        for place, share in enumerate(shares["synthetic"])
        if share
    ]
    if seen.get("noise"):
        middles = [(left + (place + 0.5) * step, share) for place, share in enumerate(shares["synthetic"])]
        parts += [
            path(f"M{x:.1f} {up(max(y - reach, 0)):.1f}V{up(min(y + reach, peak)):.1f}", "whisker") for x, y in middles
        ]
    if "real" in shares:
        steps = [f"H{left + (place + 1) * step:.1f}V{up(share):.1f}" for place, share in enumerate(shares["real"][1:])]
        points = f"M{left:.1f} {floor:.1f}V{up(shares['real'][0]):.1f}{''.join(steps)}H{width - right:.1f}V{floor:.1f}"
        parts.append(path(points, "real"))
    first, middle, last = seen["bin_labels"][0][0], seen["bin_labels"][count // 2][0], seen["bin_labels"][-1][1]
    halves = (step * (count // 2), step * (count - count // 2))
    fits = all(
        width_of(end, 12) + width_of(middle, 12) / 2 < half for end, half in zip((first, last), halves, strict=True)
    )
    parts += [
        path(f"M{left:.1f} {top:.1f}V{floor:.1f}H{width - right:.1f}", "axis"),
        text(left - 4, top + 8, percent(peak), "small", "end"),
        text(left - 4, floor, "0", "small", "end"),
        text(left, height - 6, first, "small"),
        text(width - right, height - 6, last, "small", "end"),
    ]
    if count > 2 and fits:
        parts.append(text(left + step * (count // 2), height - 6, middle, "small", "middle"))
    return svg(key, (width, height), f"Distribution of {seen['name']}", _compared(seen, "Histogram"), parts)


def _bars(seen: Mapping[str, Any], key: str) -> Markup:
    """A filled bar for the synthetic share of each category, and an outlined one below it for the real share."""
    width, left, longest = 340.0, 118.0, 112.0
    shares = seen["shares"]
    row = 16 + 13 * ("real" in shares)
    peak = max((max(side, default=0.0) for side in shares.values()), default=0.0) or 1.0
    parts = []
    for place, label in enumerate(seen["labels"]):
        y = place * row
        parts.append(text(left - 6, y + row / 2 + 3, short(label, left - 8, 12), "small", "end"))
        for line, (side, look) in enumerate((("synthetic", "synthetic"), ("real", "real"))):
            if side in shares:
                share = shares[side][place]
                parts.append(rect(left, y + 3 + 12 * line, longest * share / peak, 9, look))
                words = percent(share) + (f" {side}" if "real" in shares and place == 0 else "")
                reach = seen["noise"]["share"] if seen.get("noise") and side == "synthetic" else 0.0
                ends = [left + longest * min(max(x, 0.0), peak) / peak for x in (share - reach, share + reach)]
                if reach:
                    parts.append(path(f"M{ends[0]:.1f} {y + 7.5 + 12 * line:.1f}H{ends[1]:.1f}", "whisker"))
                parts.append(text(ends[1] + 5, y + 11.5 + 12 * line, words, "tiny"))
    parts.append(path(f"M{left:.1f} 0V{row * len(seen['labels']):.1f}", "axis"))
    size = (width, max(row * len(seen["labels"]), 1) + 2)
    return svg(key, size, f"Shares of {seen['name']}", _compared(seen, "Bars"), parts)


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
    parts = [rect(left, top, side, side, "blank")]
    for y, (name, row) in enumerate(zip(names, matrix, strict=True)):
        middle = top + cell * (y + 0.5)
        look = "small" if cell > 13 else "tiny"
        parts.append(text(left - 5, middle + 4, short_name(f"{y + 1} {name}", left - 7, 12), look, "end"))
        if few or y % 2 == 0:  # all of them would not fit
            parts.append(text(left + cell * (y + 0.5), top - 5, str(y + 1), "small" if few else "tiny", "middle"))
        for x, value in enumerate(row):
            if value is not None:
                parts.append((_cell if few else _mark)(left + cell * x, top + cell * y, cell, value, scale))
    description = (
        f"{len(names)} by {len(names)} cells, full colour at ±{scale:.2g}. The numbers are in the table below."
    )
    return svg(key, (heat_width(len(names)), top + side + 4), title, description, parts)


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
        return rect(x + (size - reach) / 2, y + (size - reach) / 2, reach, reach, look)
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}"/>').format(
        x + size / 2, y + size / 2, reach / 2, look
    )
