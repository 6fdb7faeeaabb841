"""Benchmark results as figures: scores against ε, or against a setting that was varied.

The one rule: a figure is a function of the runs, so the same runs give the same SVG, byte for byte. Lines differ in
marker and dashes as well as in colour, for print in grey and for readers who cannot tell red from green.

Privacy:
    None. Scores are computed on real rows without noise, and no budget covers them.

Sources: the colours are those of Okabe and Ito, Color universal design (2008), and two of Tol, Colour schemes (2021).
"""

import collections
import itertools
import math
import os
import statistics
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from understudy.benchmark.grids import REAL, SHUFFLED, FigureRequest
from understudy.benchmark.result_file import RunResult
from understudy.benchmark.selection import (
    ScoreboardError,
    better,
    check_seeds,
    datasets,
    expand,
    read,
    select,
    with_settings_in_labels,
)
from understudy.benchmark.typesetting import dataset_title, score_title
from understudy.core import files
from understudy.core.text import did_you_mean

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255", "#999933")
_MARKERS = "os^DvP*X"
_DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)))
_BASELINES = {REAL: "--", SHUFFLED: ":"}
_STYLE = {
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.titlesize": 10.0,
    "legend.fontsize": 8.0,
    "svg.fonttype": "none",  # text stays text: it can be searched, and read aloud
    "svg.hashsalt": "understudy",
}
_MOST_CHARACTERS = 32
"""Tick labels that have more characters together are turned, since they would not fit side by side."""
_PANEL, _MARGIN, _ENTRY = (2.5, 1.9), (0.9, 0.9), 0.17
"""The sizes in inches of a panel, of the margin around all panels, and of a line in the legend."""

Tick = Any
"""A place on the x axis: a number, or the text of a setting."""
Series = dict[Tick, list[float]]
"""The scores of all seeds at each place of the x axis."""


def write_figures(folder: str | os.PathLike[str], into: str | os.PathLike[str]) -> list[Path]:
    """Draws the figures of a folder's grid as NAME.svg and NAME.png, and says where they are.

    Raises:
        GridError, ResultError: See `selection.read`.
        ScoreboardError: A figure asks for what no run has.
        ImportError: matplotlib is not installed.
    """
    results = read(folder)
    requests = results.grid.figures
    if not requests:
        return []
    with style():
        drawn = [draw(request, results.runs) for request in requests]
        Path(into).mkdir(parents=True, exist_ok=True)
        return [
            save(figure, request.title, Path(into) / f"{request.name}.{kind}")
            for request, figure in zip(requests, drawn, strict=True)
            for kind in ("svg", "png")
        ]


def style():
    """The settings of all figures, as a context.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib.style  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("figures need matplotlib. Run: pip install 'understudy-dp[eval]'") from error
    return matplotlib.style.context(["default", _STYLE])  # whatever the user's own settings are


def save(figure: Any, title: str, path: Path) -> Path:
    """Writes a figure, whole or not at all, and says where."""
    kind = path.suffix[1:]
    metadata = {"Title": title} | ({"Date": None} if kind == "svg" else {})
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
    return path


def draw(request: FigureRequest, runs: list[RunResult]) -> Any:
    """One figure: a row of panels for each score, a column for each data set.

    Raises:
        ScoreboardError: No run has what is asked for, or two runs would be one seed of one point.
    """
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    place = f"figure {request.name!r}"
    chosen = select(request, runs)
    points, baselines = _points(request, chosen, place), [run for run in chosen if run.is_baseline]
    columns, rows = request.datasets or datasets(chosen), expand(request.scores, chosen)
    if not any(run.scores.get(score) is not None for run, _, _ in points for score in rows):
        raise ScoreboardError(f"{place}: no run that it draws has any of its scores, {', '.join(request.scores)}.")
    looks = _looks(dict.fromkeys(name for _, _, name in points))
    width = max(4.2, _PANEL[0] * len(columns) + _MARGIN[0])
    per_line = _per_line([*looks, *dict.fromkeys(run.label for run in baselines)], width)
    height = _PANEL[1] * len(rows) + _MARGIN[1] + _ENTRY * math.ceil((len(looks) + 2) / per_line)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True)
    axis = _Axis(request, {x for _, x, _ in points})
    for (score, dataset), panel in zip(itertools.product(rows, columns), panels.flat, strict=True):
        _panel(panel, axis, _lines(points, dataset, score), looks, _levels(baselines, dataset, score))
        if limits := request.limits(score):
            panel.set_ylim(*limits)
    for panel, score in zip(panels[:, 0], rows, strict=True):
        panel.set_ylabel(f"{score_title(score)}\n({better(score)} is better)")
    for top, bottom, dataset in zip(panels[0], panels[-1], columns, strict=True):
        top.set_title(dataset_title(dataset))
        bottom.set_xlabel(axis.title)
    figure.suptitle("\n".join(textwrap.wrap(request.title, int(width * 13))))
    _legend(figure, panels, per_line)
    return figure


_Point = tuple[RunResult, Tick, str]
"""A run, its place on the x axis, and the name of its line."""


def _points(request: FigureRequest, runs: list[RunResult], place: str) -> list[_Point]:
    """The runs of methods that have a place on the x axis."""
    x, by = request.x, request.lines
    fits = [run for run in runs if not run.is_baseline]
    for key in {x, by} - {"label"}:
        if all(_at(run, key) is None for run in fits):
            known = {setting for run in fits for setting in run.settings} | {"epsilon"}
            raise ScoreboardError(f"{place}: no run of a method has a setting {key!r}.{did_you_mean(key, known)}")
    fits = [run for run in fits if _at(run, x) is not None and (by == "label" or _at(run, by) is not None)]
    fits = with_settings_in_labels(fits, leave_out={x, by})
    names = dict(zip((run.id for run in fits), _line_names(fits, x=x, by=by), strict=True))
    check_seeds(fits, place, lambda run: (names[run.id], run.dataset, f"{x} = {_at(run, x)}"))
    return [(run, _at(run, x), names[run.id]) for run in fits]


def _at(run: RunResult, key: str) -> Tick:
    """Where a run stands on an axis: its ε, or one of its settings; None if nowhere."""
    return _plain(run.epsilon if key == "epsilon" else run.settings.get(key))


def _plain(value: Any) -> Any:
    """A value that can be counted and compared: a list is its text, and JSON has no infinity but its name."""
    if value == "inf":
        return math.inf
    return str(value) if isinstance(value, list | dict | bool) else value


def _line_names(runs: list[RunResult], *, x: str, by: str) -> list[str]:
    """The name of each run's line: its value of `by`, and whatever else differs between the lines."""
    several = len({run.label for run in runs}) > 1
    budgets = x != "epsilon" and by != "epsilon" and len({run.epsilon for run in runs}) > 1
    names = []
    for run in runs:
        parts = [run.label] if by == "label" or several else []
        parts += [_spell(by, _at(run, by))] if by != "label" else []
        parts += [_spell("epsilon", run.epsilon)] if budgets else []
        names.append(", ".join(parts))
    return names


def _spell(key: str, value: Any) -> str:
    return f"{'ε' if key == 'epsilon' else key} = {_short(value)}"


def _short(value: Any) -> str:
    if value == math.inf:
        return "∞"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


class _Axis:
    """The x axis: to scale if the scale can hold every place, else evenly spaced."""

    def __init__(self, request: FigureRequest, places: set[Tick]):
        x, scale = request.x, request.x_scale
        numbers = [place for place in places if isinstance(place, int | float)]
        self.places = [*sorted(numbers), *sorted(places - set(numbers))]
        fits = all(isinstance(p, int | float) and math.isfinite(p) and (scale == "linear" or p > 0) for p in places)
        self.scale = scale if fits else "linear"
        self.ticks = self.places if fits else list(range(len(places)))
        self.position = dict(zip(self.places, self.ticks, strict=True))
        at = [self._to_scale(tick) for tick in self.ticks]
        self.span = at[-1] - at[0] or 1.0
        self.gap = min((after - before for before, after in itertools.pairwise(at)), default=self.span)
        self.title = "ε" if x == "epsilon" else x

    def apply(self, panel: Any) -> None:
        panel.set_xscale(self.scale)
        labels = [_short(place) for place in self.places]
        turned = {"rotation": 45, "ha": "right"} if sum(map(len, labels)) > _MOST_CHARACTERS else {}
        panel.set_xticks(self.ticks, labels=labels, **turned)
        panel.set_xticks([], minor=True)
        panel.set_xlim(*self._limits())

    def beside(self, place: Any, shift: float) -> float:
        """Where a point is drawn: slightly off its tick, so that error bars of several lines can be told apart."""
        return self._move(self.position[place], shift * min(0.05 * self.span, 0.5 * self.gap))

    def _limits(self) -> tuple[float, float]:
        return self._move(self.ticks[0], -0.08 * self.span), self._move(self.ticks[-1], 0.08 * self.span)

    def _to_scale(self, tick: float) -> float:
        return math.log10(tick) if self.scale == "log" else tick

    def _move(self, tick: float, by: float) -> float:
        return tick * 10**by if self.scale == "log" else tick + by


def _lines(points: list[_Point], dataset: str, score: str) -> dict[str, Series]:
    lines: dict[str, Series] = collections.defaultdict(lambda: collections.defaultdict(list))
    for run, x, name in points:
        value = run.scores.get(score)
        if run.dataset == dataset and value is not None:
            lines[name][x].append(value)
    return lines


def _levels(baselines: list[RunResult], dataset: str, score: str) -> dict[str, float]:
    """The mean score of each baseline."""
    found = collections.defaultdict(list)
    for run in baselines:
        if run.dataset == dataset and run.scores.get(score) is not None:
            found[run.label].append(run.scores[score])
    return {label: statistics.fmean(found[label]) for label in _BASELINES if label in found}


def _looks(names: dict[str, None]) -> dict[str, dict[str, Any]]:
    """A colour, a marker, dashes and a place beside the tick for each line."""
    middle = (len(names) - 1) / 2
    return {
        name: {
            "shift": (place - middle) / len(names),
            "color": _COLOURS[place % len(_COLOURS)],
            "marker": _MARKERS[place % len(_MARKERS)],
            "linestyle": _DASHES[place % len(_DASHES)],
        }
        for place, name in enumerate(names)
    }


def _panel(
    panel: Any, axis: _Axis, lines: dict[str, Series], looks: dict[str, dict[str, Any]], levels: dict[str, float]
) -> None:
    """One score on one data set: means over seeds, with a standard deviation up and down."""
    if not lines and not levels:
        panel.text(0.5, 0.5, "no runs", ha="center", va="center", color="0.5", transform=panel.transAxes)
        panel.set_yticks([])
    for label, level in levels.items():
        panel.axhline(level, color="0.35", linestyle=_BASELINES[label], linewidth=1.0, label=label, zorder=1)
    for name, line in lines.items():
        look = dict(looks[name])
        shift = look.pop("shift")
        places = [place for place in axis.places if place in line]
        means = [statistics.fmean(line[place]) for place in places]
        spread = [statistics.stdev(line[place]) if len(line[place]) > 1 else 0.0 for place in places]
        panel.errorbar(
            [axis.beside(place, shift) for place in places],
            means,
            yerr=spread,
            label=name,
            **look,
            markersize=4.0,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=1.5,
        )
    axis.apply(panel)


def _per_line(names: list[str], width: float) -> int:
    """How many entries of the legend fit beside each other, and leave the last line as full as the others."""
    fit = max(1, int((width - 0.2) / (0.55 + 0.058 * max(map(len, names)))))
    return math.ceil(len(names) / math.ceil(len(names) / fit))


def _legend(figure: Any, panels: Any, columns: int) -> None:
    """One legend for all panels, below them."""
    entries = dict(entries_of(panels.flat))
    names = [name for name in entries if name not in _BASELINES] + [name for name in _BASELINES if name in entries]
    figure.legend([entries[n] for n in names], names, loc="outside lower center", ncols=columns, frameon=False)


def entries_of(panels: Any) -> Iterator[tuple[str, Any]]:
    """The names and the drawn objects of all that has a label."""
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        yield from zip(labels, handles, strict=True)
