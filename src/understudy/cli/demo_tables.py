"""What the demonstration prints: the receipt as bars, distributions as small histograms, the network as a list.

The one rule: what was computed from the simulated people themselves is stamped.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl
from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import understudy as us
from understudy.core.svg import percent

STAMP = "not covered by the budget"
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS = 12
_LONGEST = 24


def receipt_panel(receipt: us.Receipt, width: int) -> Panel:
    """The promise, and a bar for each mechanism as long as its share of the budget."""
    bars = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    bars.add_column(no_wrap=True, max_width=40)
    bars.add_column(no_wrap=True, style="cyan")
    bars.add_column(no_wrap=True, justify="right")
    shares = receipt.shares()
    longest = max((share for _, share in shares), default=1.0)
    for what, share in shares:
        bars.add_row(Text(what), "━" * max(round(_LONGEST * share / longest), 1), percent(share))
    spent = f"Promised: epsilon = {receipt.budget.epsilon:g}, delta = {receipt.budget.delta:g}. "
    spent += f"Spent: epsilon = {receipt.epsilon:.4g}, by {receipt.accountant}."
    inside = Group(Text(receipt.promise), Text(), bars, Text(), Text(spent, style="dim"))
    return Panel(
        inside, title="Privacy receipt", title_align="left", box=ROUNDED, width=min(width, 100), border_style="cyan"
    )


def first_rows(synthetic: pl.DataFrame, count: int = 5) -> Table:
    """The first synthetic rows."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in synthetic.columns:
        made.add_column(name, justify="right" if synthetic[name].dtype.is_numeric() else "left", no_wrap=True)
    for row in synthetic.head(count).iter_rows():
        made.add_row(*(_cell(value) for value in row))
    return made


def distributions(people: pl.DataFrame, synthetic: pl.DataFrame) -> Table:
    """Every column of both tables: a small histogram, the mean, and the share of missing cells."""
    made = _table("Columns", "column", "real", "synthetic", "mean of both", "missing")
    for name in people.columns:
        sides = [frame[name] for frame in (people, synthetic)]
        means = " / ".join(_cell(side.mean()) for side in sides if side.dtype.is_numeric())
        gaps = " / ".join(f"{100 * side.null_count() / max(len(side), 1):.1f}" for side in sides if side.null_count())
        made.add_row(name, *histograms(*sides), means, gaps and f"{gaps} %")
    return made


def histograms(real: pl.Series, synthetic: pl.Series) -> list[str]:
    """Both columns as rows of blocks on one scale: numbers in bins between their outer percentiles, or categories."""
    sides = [side.drop_nulls() for side in (real, synthetic)]
    if real.dtype.is_numeric():
        ends = [side.quantile(share) or 0.0 for side in sides for share in (0.01, 0.99) if len(side)] or [0.0]
        edges = np.linspace(min(ends), max(ends) + 1e-9, _BINS + 1)
        counts = [np.histogram(side.to_numpy(), edges)[0] / max(len(side), 1) for side in sides]
    else:
        names = sorted(set(sides[0].unique()) | set(sides[1].unique()))
        wide = max(_BINS // max(len(names), 1), 1)
        counts = [np.repeat([(side == name).sum() / max(len(side), 1) for name in names], wide) for side in sides]
    peak = max((float(each.max()) for each in counts if each.size), default=0.0) or 1.0
    return ["".join(_BLOCKS[int(np.ceil(8 * share / peak))] for share in each) for each in counts]


def correlations(people: pl.DataFrame, synthetic: pl.DataFrame, pairs: Iterable[tuple[str, str]]) -> Table:
    """Correlations of a few pairs that truly depend on each other."""
    made = _table("Correlations", "column", "with", "real", "synthetic")
    for one, other in pairs:
        values = (frame.select(pl.corr(one, other)).item() for frame in (people, synthetic))
        made.add_row(one, other, *(f"{value:.2f}" for value in values))
    return made


def network(found: Mapping[str, Sequence[str]], truth: Mapping[str, Sequence[str]]) -> Table:
    """What each column is made from, and which of these pairs the truth ties together, in either direction."""
    made = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    known = {frozenset((child, parent)) for child, parents in truth.items() for parent in parents}
    for child, parents in found.items():
        line = Text()
        for place, parent in enumerate(parents):
            right = frozenset((child, parent)) in known
            line.append(", " if place else "")
            line.append(f"{parent} {'✓' if right else '✗'}", style="green" if right else "dim")
        made.add_row(f"  {child}", "←", line if parents else Text("nothing", style="dim"))
    return made


def _table(title: str, *heads: str) -> Table:
    made = Table(
        title=f"{title} ({STAMP})", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for place, head in enumerate(heads):
        made.add_column(head, justify="left" if place < len(heads) - 2 else "right", no_wrap=True)
    return made


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"
