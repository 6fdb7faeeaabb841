"""A folder of benchmark results as figures: scores against ε, or against a setting that was varied.

The one rule: a figure is a function of the runs, so the same runs give the same SVG, byte for byte. A line is told by
its marker and its dashes as well as by its colour, for print in grey and for eyes that do not tell red from green.

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

from understudy.benchmark.runs import (
    FLOOR,
    REFERENCE,
    ScoreboardError,
    better,
    check_seeds,
    datasets,
    expand,
    is_yardstick,
    read,
    select,
    told_apart,
)
from understudy.benchmark.typesetting import dataset_title, score_title
from understudy.core import files
from understudy.core.text import did_you_mean

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255", "#999933")
_MARKERS = "os^DvP*X"
_DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)))
_YARDSTICKS = {FLOOR: "--", REFERENCE: ":"}
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
_ROOM = 32  # characters that labels below a panel may have side by side
_PANEL, _MARGIN, _ENTRY = (2.5, 1.9), (0.9, 0.9), 0.17  # inches: of a panel, around them, and of a line in the legend

Charge = dict[float, list[float]]
"""The scores of all seeds at each place of the x axis."""


def write_figures(folder: str | os.PathLike[str], into: str | os.PathLike[str]) -> list[Path]:
    """Draws the figures of a folder's grid as NAME.svg and NAME.png, and says where they are.

    Raises:
        ScoreboardError: See `runs.read`; or a figure asks for what no run has.
        ImportError: matplotlib is not installed.
    """
    results = read(folder)
    specs = results.grid.get("figures", [])
    if not specs:
        return []
    with _style():
        drawn = [draw(spec, results.runs) for spec in specs]
        Path(into).mkdir(parents=True, exist_ok=True)
        return [
            _save(figure, spec, Path(into) / f"{spec['name']}.{kind}")
            for spec, figure in zip(specs, drawn, strict=True)
            for kind in ("svg", "png")
        ]


def _style():
    try:
        import matplotlib.style  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("figures need matplotlib. Run: pip install 'understudy[eval]'") from error
    return matplotlib.style.context(["default", _STYLE])  # whatever the user's own settings are


def _save(figure: Any, spec: dict[str, Any], path: Path) -> Path:
    kind = path.suffix[1:]
    metadata = {"Title": spec["title"]} | ({"Date": None} if kind == "svg" else {})
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)
    return path


def _limits(spec: dict[str, Any], score: str) -> list[float] | None:
    """How far a panel reaches: the same for all scores, or one by one. Without, as far as the values do."""
    given = spec.get("y_limits")
    return given.get(score) if isinstance(given, dict) else given


def draw(spec: dict[str, Any], runs: list[dict[str, Any]]) -> Any:
    """One figure: a row of panels for each score, a column for each data set.

    Raises:
        ScoreboardError: No run has what is asked for, or two runs would be one seed of one point.
    """
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    place = f"figure {spec['name']!r}"
    chosen = select(spec, runs)
    points, baselines = _points(spec, chosen, place), [run for run in chosen if is_yardstick(run)]
    columns, rows = spec.get("datasets") or datasets(chosen), expand(spec["scores"], chosen)
    if not any(run["scores"].get(score) is not None for run, _, _ in points for score in rows):
        raise ScoreboardError(f"{place}: no run that it draws has any of its scores, {', '.join(spec['scores'])}.")
    looks = _looks(dict.fromkeys(name for _, _, name in points))
    width = max(4.2, _PANEL[0] * len(columns) + _MARGIN[0])
    per_line = _per_line([*looks, *dict.fromkeys(run["label"] for run in baselines)], width)
    height = _PANEL[1] * len(rows) + _MARGIN[1] + _ENTRY * math.ceil((len(looks) + 2) / per_line)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True)
    axis = _Axis(spec, {x for _, x, _ in points})
    for (score, dataset), panel in zip(itertools.product(rows, columns), panels.flat, strict=True):
        _panel(panel, axis, _lines(points, dataset, score), looks, _levels(baselines, dataset, score))
        if limits := _limits(spec, score):
            panel.set_ylim(*limits)
    for panel, score in zip(panels[:, 0], rows, strict=True):
        panel.set_ylabel(f"{score_title(score)}\n({better(score)} is better)")
    for top, bottom, dataset in zip(panels[0], panels[-1], columns, strict=True):
        top.set_title(dataset_title(dataset))
        bottom.set_xlabel(axis.title)
    figure.suptitle("\n".join(textwrap.wrap(spec["title"], int(width * 13))))
    _legend(figure, panels, per_line)
    return figure


def _points(spec: dict[str, Any], runs: list[dict[str, Any]], place: str) -> list[tuple[dict, Any, str]]:
    """The runs of methods that have a place on the x axis, each with it and with the line it belongs to."""
    x, by = spec.get("x", "epsilon"), spec.get("lines", "label")
    fits = [run for run in runs if not is_yardstick(run)]
    for key in {x, by} - {"label"}:
        if all(_at(run, key) is None for run in fits):
            known = {setting for run in fits for setting in run["settings"]} | {"epsilon"}
            raise ScoreboardError(f"{place}: no run of a method has a setting {key!r}.{did_you_mean(key, known)}")
    fits = [run for run in fits if _at(run, x) is not None and (by == "label" or _at(run, by) is not None)]
    fits = told_apart(fits, leave_out={x, by})
    names = _line_names(fits, x=x, by=by)
    check_seeds(
        [run | {"line": name} for run, name in zip(fits, names, strict=True)],
        place,
        lambda run: (run["line"], run["dataset"], f"{x} = {_at(run, x)}"),
    )
    return [(run, _at(run, x), name) for run, name in zip(fits, names, strict=True)]


def _at(run: dict[str, Any], key: str) -> Any:
    """Where a run stands on an axis: its ε, or one of its settings; None if nowhere."""
    found = run.get("epsilon") if key == "epsilon" else run["settings"].get(key)
    return _plain(found)


def _plain(value: Any) -> Any:
    """A value that can be counted and compared: a list is its text, and JSON has no infinity but its name."""
    if value == "inf":
        return math.inf
    return str(value) if isinstance(value, list | dict | bool) else value


def _line_names(runs: list[dict[str, Any]], *, x: str, by: str) -> list[str]:
    """What each run's line is called: what it is by, and whatever else differs between the lines."""
    several = len({run["label"] for run in runs}) > 1
    budgets = x != "epsilon" and by != "epsilon" and len({run.get("epsilon") for run in runs}) > 1
    names = []
    for run in runs:
        parts = [run["label"]] if by == "label" or several else []
        parts += [_spell(by, _at(run, by))] if by != "label" else []
        parts += [_spell("epsilon", run.get("epsilon"))] if budgets else []
        names.append(", ".join(parts))
    return names


def _spell(key: str, value: Any) -> str:
    return f"{'ε' if key == 'epsilon' else key} = {_short(value)}"


def _short(value: Any) -> str:
    if value == math.inf:
        return "∞"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


class _Axis:
    """The x axis: to scale where all places are numbers that the scale can hold, else evenly spaced."""

    def __init__(self, spec: dict[str, Any], places: set[Any]):
        x, scale = spec.get("x", "epsilon"), spec.get("x_scale", "log")
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

    def dress(self, panel: Any) -> None:
        panel.set_xscale(self.scale)
        labels = [_short(place) for place in self.places]
        steep = {"rotation": 45, "ha": "right"} if sum(map(len, labels)) > _ROOM else {}
        panel.set_xticks(self.ticks, labels=labels, **steep)
        panel.set_xticks([], minor=True)
        panel.set_xlim(*self._limits())

    def beside(self, place: Any, shift: float) -> float:
        """Where a point is drawn: a hair off its tick, so that error bars of several lines can be told apart."""
        return self._move(self.position[place], shift * min(0.05 * self.span, 0.5 * self.gap))

    def _limits(self) -> tuple[float, float]:
        return self._move(self.ticks[0], -0.08 * self.span), self._move(self.ticks[-1], 0.08 * self.span)

    def _to_scale(self, tick: float) -> float:
        return math.log10(tick) if self.scale == "log" else tick

    def _move(self, tick: float, by: float) -> float:
        return tick * 10**by if self.scale == "log" else tick + by


def _lines(points: list[tuple[dict, Any, str]], dataset: str, score: str) -> dict[str, Charge]:
    lines: dict[str, Charge] = collections.defaultdict(lambda: collections.defaultdict(list))
    for run, x, name in points:
        value = run["scores"].get(score)
        if run["dataset"] == dataset and value is not None:
            lines[name][x].append(value)
    return lines


def _levels(baselines: list[dict[str, Any]], dataset: str, score: str) -> dict[str, float]:
    """The means of floor and reference."""
    found = collections.defaultdict(list)
    for run in baselines:
        if run["dataset"] == dataset and run["scores"].get(score) is not None:
            found[run["label"]].append(run["scores"][score])
    return {label: statistics.fmean(found[label]) for label in _YARDSTICKS if label in found}


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
    panel: Any, axis: _Axis, lines: dict[str, Charge], looks: dict[str, dict[str, Any]], levels: dict[str, float]
) -> None:
    """One score on one data set: means over seeds, with a standard deviation up and down."""
    if not lines and not levels:
        panel.text(0.5, 0.5, "no runs", ha="center", va="center", color="0.5", transform=panel.transAxes)
        panel.set_yticks([])
    for label, level in levels.items():
        panel.axhline(level, color="0.35", linestyle=_YARDSTICKS[label], linewidth=1.0, label=label, zorder=1)
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
    axis.dress(panel)


def _per_line(names: list[str], width: float) -> int:
    """How many entries of the legend fit beside each other, and leave the last line as full as the others."""
    fit = max(1, int((width - 0.2) / (0.55 + 0.058 * max(map(len, names)))))
    return math.ceil(len(names) / math.ceil(len(names) / fit))


def _legend(figure: Any, panels: Any, columns: int) -> None:
    """One legend for all panels, below them."""
    entries = dict(_entries(panels))
    names = [name for name in entries if name not in _YARDSTICKS] + [name for name in _YARDSTICKS if name in entries]
    figure.legend([entries[n] for n in names], names, loc="outside lower center", ncols=columns, frameon=False)


def _entries(panels: Any) -> Iterator[tuple[str, Any]]:
    for panel in panels.flat:
        handles, labels = panel.get_legend_handles_labels()
        yield from zip(labels, handles, strict=True)
