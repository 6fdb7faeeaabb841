"""Regret: how much worse a method is than the best other one, case by case.

A case is a data set, with or without a target in the schema of the fits, a budget and a score. The loss of a method in
a case is the mean over splits of a distance itself, or of (score of the real training rows) − (score of the synthetic
rows), paired by split. The regret of a method is its loss divided by the smallest loss of any other method: below 1 it
is the best, at 2 it loses twice as much as somebody who chose better. The one rule: a case counts if at least two
methods ran in it, whatever else is missing.

Losses are not counted below a resolution. Two losses near 0 differ by chance, and their ratio says nothing.

Privacy:
    None. Scores are computed on real rows without noise, and no budget covers them.
"""

import collections
import dataclasses
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from understudy.benchmark.grids import NO_TARGET, REAL
from understudy.benchmark.result_file import RunResult
from understudy.benchmark.selection import (
    Results,
    ScoreboardError,
    better,
    check_seeds,
    read,
    with_settings_in_labels,
)
from understudy.benchmark.typesetting import dataset_title, score_title
from understudy.core import files

SCORE_RESOLUTION, DISTANCE_RESOLUTION = 0.01, 0.001
"""The smallest loss that is told from 0: of a score, and of a distance."""
WORST = 10
"""How many of its worst cases are listed for each method."""
SINGLE_COLUMN = ("wd", "tvd1")
"""Scores that see one column at a time. They are reported by themselves: shuffled columns would be perfect in them."""
NAME = "regret"
"""What the files are called."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """Where methods are compared: a data set without the remark on its target, a budget and a score."""

    dataset: str
    target: bool
    epsilon: float | None
    score: str

    @property
    def part(self) -> "Part":
        return Part(target=self.target, single_column=self.score in SINGLE_COLUMN)

    def __str__(self) -> str:
        budget = "" if self.epsilon is None else f", ε = {self.epsilon:g}"
        return f"{dataset_title(self.dataset)}{budget}, {score_title(self.score)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The cases that are summed up together."""

    target: bool
    single_column: bool

    def __str__(self) -> str:
        scores = "single columns" if self.single_column else "dependence and usefulness"
        return f"{scores}, {'with' if self.target else 'without'} a target in the schema"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regret:
    """The regret of a method in a case.

    Attributes:
        loss: Its own loss.
        splits: How many splits that is the mean of.
        other: The method with the smallest loss among the others.
        other_loss: That loss.
        most_splits: The most splits that any method has in this case.
    """

    case: Case
    label: str
    loss: float
    splits: int
    other: str
    other_loss: float
    most_splits: int

    @property
    def value(self) -> float:
        return self.loss / self.other_loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The regrets of a method in one part, the largest first."""

    part: Part
    label: str
    regrets: Sequence[Regret]

    @property
    def worst(self) -> float:
        return self.regrets[0].value

    @property
    def mean(self) -> float:
        """The geometric mean, in which half and double cancel."""
        return math.exp(statistics.fmean(math.log(regret.value) for regret in self.regrets))


def regrets(results: Results) -> list[Regret]:
    """The regret of every method in every case that at least two methods ran in.

    Raises:
        ScoreboardError: There is no such case, or two runs would be one split of one mean.
    """
    found = []
    for case, by_split in _losses(results.runs).items():
        losses = {label: _loss(case, values) for label, values in by_split.items()}
        splits = {label: len(values) for label, values in by_split.items()}
        for label, loss in losses.items():
            others = {other: value for other, value in losses.items() if other != label}
            if others:
                best = min(others, key=lambda other: others[other])
                mine, compared = {"loss": loss, "splits": splits[label]}, {"other": best, "other_loss": others[best]}
                found.append(Regret(case=case, label=label, **mine, **compared, most_splits=max(splits.values())))
    if not found:
        raise ScoreboardError("regret: expected at least two methods that ran on one data set at one ε, got none.")
    return found


def summarise(found: Iterable[Regret]) -> list[Summary]:
    """By part, dependence before single columns; in each part the method with the smallest worst regret first."""
    groups: dict[tuple[Part, str], list[Regret]] = collections.defaultdict(list)
    for regret in found:
        groups[regret.case.part, regret.label].append(regret)
    summaries = [
        Summary(part=part, label=label, regrets=sorted(group, key=lambda regret: -regret.value))
        for (part, label), group in groups.items()
    ]
    return sorted(summaries, key=lambda each: (each.part.single_column, not each.part.target, each.worst))


def _loss(case: Case, values: Sequence[float]) -> float:
    """The mean over splits, not below the resolution."""
    resolution = SCORE_RESOLUTION if better(case.score) == "higher" else DISTANCE_RESOLUTION
    return max(statistics.fmean(values), resolution)


def _losses(runs: Sequence[RunResult]) -> dict[Case, dict[str, list[float]]]:
    """The losses of each label in each case, one for each split."""
    real = {(run.dataset, run.seed): run.scores for run in runs if run.label == REAL}
    fits = with_settings_in_labels([run for run in runs if not run.is_baseline])
    check_seeds(fits, NAME, lambda run: (run.label, run.dataset, run.epsilon))
    losses: dict[Case, dict[str, list[float]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for run in fits:
        for score, value in run.scores.items():
            if value is None:
                continue
            if better(score) == "higher":
                from_real = real.get((run.dataset, run.seed), {}).get(score)
                if from_real is None:  # without the score of the real rows there is no loss
                    continue
                value = from_real - value
            losses[_case(run, score)][run.label].append(value)
    return losses


def _case(run: RunResult, score: str) -> Case:
    dataset = run.dataset.removesuffix(f", {NO_TARGET}")
    return Case(dataset=dataset, target=dataset == run.dataset, epsilon=run.epsilon, score=score)


# Output -------------------------------------------------------------------------------------------------------------

_NOTES = (
    "Regret: the loss of a method divided by the smallest loss of any other method in the same case (data set, ε, "
    "score); below 1 it is the best. Loss: a mean over splits of a distance, or of the score of the real training rows "
    f"minus that of the synthetic rows. Losses of scores count as {SCORE_RESOLUTION} at least and distances as "
    f"{DISTANCE_RESOLUTION}, since ratios of losses near 0 mean nothing. Cases in which fewer than two methods ran are "
    "left out."
)


def markdown(summaries: Sequence[Summary]) -> str:
    """A table for each part, and below it the worst cases of each method."""
    blocks = []
    for part in dict.fromkeys(each.part for each in summaries):
        rows = [each for each in summaries if each.part == part]
        lines = [f"### Regret: {part}", ""]
        lines += ["| method | worst | geometric mean | cases |", "| --- | ---: | ---: | ---: |"]
        lines += [f"| {row.label} | {row.worst:.2f} | {row.mean:.2f} | {len(row.regrets)} |" for row in rows]
        for row in rows:
            worst = [f"{each.value:.2f} {each.case} ({each.other})" for each in row.regrets[:WORST]]
            lines += ["", f"Worst of {row.label}, and whose loss is smallest: {'; '.join(worst)}."]
        blocks.append("\n".join(lines))
    fewer = dict.fromkeys(row.label for row in summaries if any(each.splits < each.most_splits for each in row.regrets))
    missing = f" Fewer splits than others in some cases: {', '.join(fewer)}." if fewer else ""
    return "\n\n".join([*blocks, _NOTES + missing]) + "\n"


def as_frame(found: Iterable[Regret]) -> pl.DataFrame:
    """One row for each method and case."""
    rows = [
        dataclasses.asdict(each.case)
        | {"label": each.label, "regret": each.value, "loss": each.loss, "splits": each.splits}
        | {"other": each.other, "other_loss": each.other_loss}
        for each in found
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def as_json(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    """The summaries as JSON holds them, with the worst cases of each."""
    return [
        {
            "target": each.part.target,
            "single_column": each.part.single_column,
            "label": each.label,
            "cases": len(each.regrets),
            "worst": each.worst,
            "geometric_mean": each.mean,
            "worst_cases": as_frame(each.regrets[:WORST]).drop("label").to_dicts(),
        }
        for each in summaries
    ]


def write(folder: str | os.PathLike[str], into: str | os.PathLike[str]) -> list[Path]:
    """Writes regret.md and regret.csv, which has every case, and says where they are.

    Raises:
        GridError, ResultError, ScoreboardError: See `selection.read` and `regrets`. Nothing has been written.
    """
    found = regrets(read(folder))
    texts = {".md": markdown(summarise(found)), ".csv": as_frame(found).write_csv()}
    Path(into).mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, text in texts.items():
        paths.append(Path(into) / f"{NAME}{ending}")
        with files.replacing(paths[-1]) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return paths
