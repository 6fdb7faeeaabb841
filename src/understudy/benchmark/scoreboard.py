"""Benchmark results as tables: means over seeds, ranks, and a test of the best against every other.

The one rule: a table is made of the runs and of nothing else. `grid.toml` says which tables there are, `runs.jsonl`
holds every number, and the footnotes say how many runs there were, under which protocol, when and where. Numbers that
others published are marked as such and are not ranked.

Privacy:
    None. Scores are computed on real rows without noise, and no budget covers them.

Sources: Wilcoxon, Individual comparisons by ranking methods (1945), for the star.
"""

import collections
import dataclasses
import importlib.resources
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from understudy.benchmark import typesetting
from understudy.benchmark.grid_file import COST
from understudy.benchmark.grids import BASELINES, REAL, SHUFFLED, TableRequest
from understudy.benchmark.result_file import RunResult
from understudy.benchmark.selection import (
    Results,
    ScoreboardError,
    better,
    check_seeds,
    datasets,
    expand,
    read,
    select,
    with_settings_in_labels,
)
from understudy.benchmark.typesetting import Cell, Layout, Row, Section
from understudy.core import files

FEWEST_SEEDS = 6
"""With fewer pairs, a two-sided signed-rank test cannot reach p < 0.05."""

_GROUND_TRUTH = "Ground Truth"
_PROTOCOLS = {
    "private": "everything is inside the stated ε",
    "paper": "columns were standardised with exact moments of the training rows, which NO BUDGET COVERS",
}
_MARKS = (
    "Bold: best of its column at its ε; underlined: second best; star: better than every other label (Wilcoxon "
    "signed-rank test, paired by seed, two-sided p < 0.05; none with fewer than 6 common seeds)."
)
_PUBLISHED = (
    "Published rows are numbers printed in the PrAda-GAN paper, not run here; its columns were standardised with exact "
    "moments, outside its budget. They take no part in the marks."
)


@dataclasses.dataclass(frozen=True)
class Rendered:
    """One table in three formats."""

    markdown: str
    csv: str
    latex: str


def render_tables(results: Results) -> dict[str, Rendered]:
    """All tables that the grid asks for, by name, and after them "cost": seconds and megabytes.

    Raises:
        ScoreboardError: A table has no column, or two runs would be one seed of one row.
    """
    rendered = {}
    for request in results.grid.tables:
        table = _table(request, results.runs)
        rendered[table.name] = Rendered(typesetting.markdown(table), typesetting.csv(table), typesetting.latex(table))
    cost, costs = _cost(results.runs)
    return rendered | {COST: Rendered(typesetting.markdown(cost), costs.write_csv(), typesetting.latex(cost))}


def write_tables(folder: str | os.PathLike[str], into: str | os.PathLike[str]) -> list[Path]:
    """Renders the tables of a folder as NAME.md, NAME.csv and NAME.tex, and says where they are.

    Raises:
        ScoreboardError: See `read` and `render_tables`. Nothing has been written.
    """
    rendered = render_tables(read(folder))
    Path(into).mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in rendered.items():
        for ending, text in ((".md", table.markdown), (".csv", table.csv), (".tex", table.latex)):
            written.append(Path(into) / f"{name}{ending}")
            with files.replacing(written[-1]) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="\n")
    return written


def _table(request: TableRequest, runs: list[RunResult]) -> Layout:
    runs, place = with_settings_in_labels(select(request, runs)), f"table {request.name!r}"
    columns = [
        (dataset, score)
        for dataset in request.datasets or datasets(runs)
        for score in expand(request.scores, (run for run in runs if run.dataset == dataset))
    ]
    if not columns:
        raise ScoreboardError(f"{place}: no run has any of its scores, {', '.join(request.scores)}.")
    check_seeds(_fits(runs), place, lambda run: (run.label, run.dataset, run.epsilon))
    values = _values(runs)
    published = _published() if request.paper else {}
    sections = [_section(epsilon, columns, values, published) for epsilon in _epsilons(runs)]
    sections += _foot(columns, values, published)
    notes = [_footnote(runs, columns, sections, published), _provenance(runs)]
    return Layout(name=request.name, title=request.title, columns=columns, sections=sections, notes=notes)


_Scores = Mapping[Any, float]
"""The scores of one label in one column, by seed."""
_Values = dict[tuple, dict[Any, float]]
"""Scores that are defined, by seed, for each label, epsilon, data set and score; baselines have the epsilon None."""


def _values(runs: list[RunResult]) -> _Values:
    values: _Values = collections.defaultdict(dict)
    for place, run in enumerate(runs):
        # A baseline has no ε, and any number of runs with one seed.
        epsilon, seed = (None, place) if run.is_baseline else (run.epsilon, run.seed)
        for score, value in run.scores.items():
            column = values[run.label, epsilon, run.dataset, score]
            if value is not None:
                column[seed] = value
    return dict(values)


def _fits(runs: list[RunResult]) -> list[RunResult]:
    """The runs of methods, without the baselines."""
    return [run for run in runs if not run.is_baseline]


def _epsilons(runs: list[RunResult]) -> list[float | None]:
    """Ascending; runs without an epsilon come last, like an infinite one."""
    return sorted({run.epsilon for run in _fits(runs)}, key=lambda epsilon: math.inf if epsilon is None else epsilon)


def _at(epsilon: float | None) -> str:
    return "no ε" if epsilon is None else f"ε = {epsilon:g}"


def _section(epsilon: float | None, columns: list[tuple[str, str]], values: _Values, published: _Values) -> Section:
    labels = list(dict.fromkeys(label for label, _, _, _ in values if label not in BASELINES))
    marked = [
        mark({label: values.get((label, epsilon, *column), {}) for label in labels}, better=better(column[1]))
        for column in columns
    ]
    present = {label for label, at, _, _ in values if at == epsilon}
    rows = [
        Row(label=label, epsilon=epsilon, cells=[column[label] for column in marked])
        for label in labels
        if label in present
    ]
    printed = _published_rows(epsilon, columns, published) if epsilon is not None else []
    return Section(heading=_at(epsilon), groups=[group for group in (rows, printed) if group])


def mark(column: Mapping[str, _Scores], *, better: str) -> dict[str, Cell]:
    """One column of one section: each label's mean over seeds, its rank among all as printed, and the star.

    Args:
        column: For each label its scores by seed; none, if it has none.
        better: "higher" or "lower".
    """
    cells = {label: _cell(scores) for label, scores in column.items()}
    printed = {typesetting.show(cell.mean) for cell in cells.values() if cell.mean is not None}
    ranks = {text: rank for rank, text in enumerate(sorted(printed, key=float, reverse=better == "higher"), start=1)}
    sign = 1 if better == "higher" else -1

    def leads(label: str) -> bool:
        others = [scores for name, scores in column.items() if name != label and scores]
        return bool(others) and all(beats(column[label], other, sign=sign) for other in others)

    found = {label: ranks.get(typesetting.show(cell.mean)) for label, cell in cells.items()}
    return {
        label: dataclasses.replace(cell, rank=found[label], star=found[label] == 1 and leads(label))
        for label, cell in cells.items()
    }


def beats(mine: _Scores, other: _Scores, *, sign: int) -> bool:
    """Whether a signed-rank test over common seeds finds the first better: sign is 1 if higher is better, else -1."""
    difference = np.array([sign * (mine[seed] - other[seed]) for seed in mine if seed in other])
    if len(difference) < FEWEST_SEEDS or not difference.any():
        return False
    ranks = stats.rankdata(np.abs(difference[difference != 0]))
    # The sign comes from the ranks too: one outlier may turn the mean, but not the test.
    if ranks @ np.sign(difference[difference != 0]) <= 0:
        return False
    _, p = np.asarray(stats.wilcoxon(difference, zero_method="wilcox"))
    return bool(p < 0.05)


def _cell(scores: _Scores) -> Cell:
    numbers = pl.Series(list(scores.values()), dtype=pl.Float64)
    mean, sd = numbers.mean(), numbers.std()
    return Cell(mean=mean, sd=sd, runs=len(numbers))  # pyright: ignore[reportArgumentType]


def _foot(columns: list[tuple[str, str]], values: _Values, published: _Values) -> list[Section]:
    """The baselines: the floor, what the paper prints as such, and the reference."""
    remarks = {REAL: "floor", SHUFFLED: "reference"}
    present = {label for label, _, _, _ in values}
    rows = [
        Row(label=label, remark=remark, cells=[_cell(values.get((label, None, *column), {})) for column in columns])
        for label, remark in remarks.items()
        if label in present
    ]
    place = 1 if REAL in present else 0
    rows[place:place] = _published_rows(None, columns, published)
    return [Section(heading="", groups=[rows])] if rows else []


def _published() -> _Values:
    """The numbers of the paper, shaped like ours; its ground truth is at None."""
    text = (importlib.resources.files("understudy.benchmark") / "paper.csv").read_text(encoding="utf-8")
    values = {}
    for row in pl.read_csv(io.StringIO(text)).iter_rows(named=True):
        score = f"{row['metric']}/{row['learner']}" if row["learner"] else row["metric"]
        epsilon = None if row["method"] == _GROUND_TRUTH else row["epsilon"]
        values[row["method"], epsilon, row["dataset"], score] = {None: row["value"]}
    return values


def _published_rows(epsilon: float | None, columns: list[tuple[str, str]], published: _Values) -> list[Row]:
    rows = []
    for method in dict.fromkeys(method for method, at, _, _ in published if at == epsilon):
        found = [published.get((method, epsilon, *column), {}).get(None) for column in columns]
        if any(value is not None for value in found):
            cells = [Cell(mean=value) for value in found]
            rows.append(Row(label=method, epsilon=epsilon, remark="published", source="published", cells=cells))
    return rows


def _footnote(
    runs: list[RunResult], columns: list[tuple[str, str]], sections: list[Section], published: _Values
) -> str:
    """How many seeds, under which protocol, and how the marks are to be read."""
    most = [count for section in sections if section.heading for count in _most([section])] or _most(sections)
    low, high = min(filter(None, most), default=0), max(most, default=0)
    seeds = f"{high} seed{'' if high == 1 else 's'}" if low == high else f"{low} to {high} seeds"
    protocols = dict.fromkeys(run.protocol for run in _fits(runs) or runs if run.protocol is not None)
    said = [f"Protocol {name}" + (f": {_PROTOCOLS[name]}" if name in _PROTOCOLS else "") + "." for name in protocols]
    deltas = sorted({run.delta for run in _fits(runs) if run.delta is not None})
    said += [f"δ = {', '.join(f'{delta:g}' for delta in deltas)}."] if deltas else []
    fewer = _fewer(columns, sections)
    said += [_MARKS, *_directions(columns), *([_PUBLISHED] if published else [])]
    return " ".join([f"Means over {seeds}.", *said, *([f"Fewer runs: {'; '.join(fewer)}."] if fewer else [])])


def _directions(columns: list[tuple[str, str]]) -> list[str]:
    found = {way: dict.fromkeys(s for _, s in columns if better(s) == way) for way in ("lower", "higher")}
    titles = {way: dict.fromkeys(map(typesetting.metric_title, scores)) for way, scores in found.items()}
    return [f"{way.capitalize()} is better: {', '.join(names)}." for way, names in titles.items() if names]


def _most(sections: list[Section]) -> list[int]:
    """For each column, the most runs that a row of ours has in these sections."""
    rows = [row for section in sections for group in section.groups for row in group if row.source == "ours"]
    return [max(cell.runs or 0 for cell in column) for column in zip(*(row.cells for row in rows), strict=True)]


def _fewer(columns: list[tuple[str, str]], sections: list[Section]) -> list[str]:
    """The labels with fewer runs than others in their column, and how many. What has none shows that itself."""
    found: dict[tuple, list[str]] = collections.defaultdict(list)
    for section in sections:
        most = _most([section] if section.heading else sections)
        for row in (row for group in section.groups for row in group if row.source == "ours"):
            for (dataset, score), cell, full in zip(columns, row.cells, most, strict=True):
                if 0 < (cell.runs or 0) < full:
                    found[row.label, section.heading, dataset, cell.runs].append(score)
    whole = dict(typesetting.by_dataset(columns))
    return [
        f"{label}{f' at {heading}' if heading else ''} on {typesetting.dataset_title(dataset)}: {runs}"
        + ("" if scores == whole[dataset] else f" ({', '.join(map(typesetting.score_title, scores))})")
        for (label, heading, dataset, runs), scores in found.items()
    ]


def _provenance(runs: list[RunResult]) -> str:
    """Where the numbers come from: grid, dates, machines and the time it took."""
    grids = dict.fromkeys(run.grid for run in runs if run.grid is not None)
    dates = sorted(str(run.measured["date"])[:10] for run in runs if run.measured.get("date"))
    machines = sorted({str(run.measured["machine"]) for run in runs if run.measured.get("machine")})
    seconds = math.fsum(run.measured.get("fit_s") or 0.0 for run in runs)
    when = "" if not dates else dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    parts = [f"grid {', '.join(grids)}" if grids else "", f"{len(runs)} runs", when, *machines]
    said = "; ".join(filter(None, [*parts, f"{seconds:.1f} s of fitting in all"]))
    return f"Provenance: {said}."


def _cost(runs: list[RunResult]) -> tuple[Layout, pl.DataFrame]:
    """Seconds and megabytes of every label on every data set, to print and to compute with."""
    shape = {"dataset": pl.String, "label": pl.String, "fit_s": pl.Float64, "peak_mb": pl.Float64}
    lines = [(r.dataset, r.label, r.measured.get("fit_s"), r.measured.get("peak_mb")) for r in runs]
    mean, most = pl.col("fit_s").mean().alias("fit_s_mean"), pl.col("peak_mb").max().alias("peak_mb_max")
    costs = (
        pl.DataFrame(lines, schema=shape, orient="row")
        .group_by("dataset", "label", maintain_order=True)
        .agg(mean, most, pl.len().cast(pl.Int64).alias("runs"))
        .filter(pl.any_horizontal(pl.col("fit_s_mean", "peak_mb_max").is_not_null()))  # a baseline costs nothing
    )
    found = {(label, dataset): numbers for dataset, label, *numbers in costs.iter_rows()}
    wanted = datasets(runs)
    rows = [
        Row(
            label=label,
            cells=[Cell(mean=n) for dataset in wanted for n in found.get((label, dataset), [None, None])[:2]],
        )
        for label in costs["label"].unique(maintain_order=True)
    ]
    columns = [(dataset, score) for dataset in wanted for score in ("fit_s", "peak_mb")]
    notes = ["Mean seconds of a fit over all ε and seeds, and the largest peak of memory.", _provenance(runs)]
    sections = [Section(heading="", groups=[rows])]
    return Layout(name=COST, title="Cost", columns=columns, sections=sections, notes=notes), costs
