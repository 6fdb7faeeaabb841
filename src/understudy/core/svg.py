"""Small pieces of SVG, and a picture that a notebook shows and a file keeps.

The one rule: every picture has a title and a description. All text passes through `Markup.format`, which escapes it.
"""

import dataclasses
import os
import unicodedata
from collections.abc import Sequence

from markupsafe import Markup

from understudy.core.files import replacing

LEAST_SCALE = 0.75
"""A picture that can be scrolled sideways shrinks no further than this, so that its text stays readable."""


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture: a notebook shows it, and `save` writes it to a file.

    Attributes:
        svg: The whole picture, as text.
    """

    svg: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture as an SVG file, whole or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(self.svg, "utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg)} characters of SVG; .save(path) writes it)"


STYLE = (
    "svg.us{background:#fff}.us text{font:13px system-ui,sans-serif;fill:#1b1f24}"
    ".us .small{font-size:12px;fill:#545b64}.us .loud{font-weight:600}.us .synthetic{fill:#4a7fb8}"
    ".us .blank{fill:#eef0f3}.us .axis{fill:none;stroke:#545b64}.us .node{fill:#eef3f9;stroke:#545b64;rx:4px}"
    ".us .edge{fill:none;stroke:#4a7fb8}.us .tip{fill:#1b1f24}"
)
"""What a page would say of the classes that drawings have; the class keeps it away from the page around a picture."""


def standalone(drawn: Markup) -> Picture:
    """A picture that stands by itself, with the style that a page would have given it."""
    head, rest = str(drawn).split(">", 1)
    return Picture(f'{head} class="us" xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>{rest}')


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


def short_name(name: str, width: float, size: float = 13.0) -> str:
    """As much of both ends of a name as fits: names of columns often begin alike and differ at the end."""
    if width_of(name, size) <= width:
        return name
    for kept in range(len(name) - 1, 0, -1):
        made = f"{name[: (kept + 1) // 2].rstrip()}…{name[len(name) - kept // 2 :].lstrip()}"
        if width_of(made, size) <= width:
            return made
    return "…"


def percent(share: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * share:.1f}\xa0%"


def svg(
    key: str,
    size: tuple[float, float],
    title: str,
    description: str,
    parts: Sequence[Markup],
    *,
    above: Sequence[str] = (),
) -> Markup:
    """A picture of this size, with lines of text above it if there are any; `key` is unique on its page."""
    width, height = size
    if above:
        top, width = 20 * len(above) + 8, max(width, min(400.0, 10 + max(width_of(line, 13) for line in above)))
        lines = [short(line, width - 8) for line in above]
        words = [text(4, 16 + 20 * place, line, "small" if place else "loud") for place, line in enumerate(lines)]
        moved = Markup('<g transform="translate(0 {})">{}</g>').format(top, Markup("").join(parts))
        height, parts = height + top, [*words, moved]
    return Markup(
        '<svg viewBox="0 0 {w:.0f} {h:.0f}" style="max-width:{w:.0f}px;--least:{least:.0f}px" role="img" '
        'aria-labelledby="{key}-title {key}-desc">'
        '<title id="{key}-title">{title}</title><desc id="{key}-desc">{description}</desc>{body}</svg>'
    ).format(
        w=width,
        h=height,
        least=LEAST_SCALE * width,
        key=key,
        title=title,
        description=description,
        body=Markup("").join(parts),
    )


def text(x: float, y: float, words: str, look: str = "", anchor: str = "start") -> Markup:
    """A line of text."""
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>').format(x, y, look, anchor, words)


def rect(x: float, y: float, width: float, height: float, look: str) -> Markup:
    """A box; a negative size counts as none."""
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}"/>').format(
        x, y, max(width, 0.0), max(height, 0.0), look
    )


def path(points: str, look: str) -> Markup:
    """A line along some points."""
    return Markup('<path d="{}" class="{}"/>').format(points, look)


def bars(key: str, title: str, shares: Sequence[tuple[str, float]], *, above: Sequence[str] = ()) -> Markup:
    """One bar for each share, under its name and as long as it is, with its percentage."""
    width, row, left = 350, 40, 2
    longest = max((share for _, share in shares), default=1.0)
    parts: list[Markup] = []
    for place, (name, share) in enumerate(shares):
        y, length = place * row, (width - 68) * share / longest
        parts += [
            text(left, y + 14, short(name, width - 4)),
            rect(left, y + 19, length, 12, "synthetic"),
            text(left + 6 + length, y + 30, percent(share)),
        ]
    largest = max(shares, key=lambda each: each[1])[0] if shares else "nothing"
    description = f"{len(shares)} bars. The longest is: {largest}."
    return svg(key, (width, row * len(shares) or 1), title, description, parts, above=above)
