"""A folder of benchmark results: the grid that was run, and its runs, a line each.

The one rule: what is read is whole or refused. A folder holds `grid.toml`, whose [[tables]] and [[figures]] say what to
make of it, and `runs.jsonl`. Only the last line may be torn, since a benchmark may be killed; anything else that is
broken is an error that names its line.
"""

import collections
import dataclasses
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from understudy.benchmark import typesetting
from understudy.benchmark.grids import REAL as FLOOR
from understudy.benchmark.grids import SHUFFLED as REFERENCE
from understudy.core import files
from understudy.core.text import did_you_mean

_STRUCTURE = ("structure/precision", "structure/recall", "structure/f1", "structure/skeleton_f1")
HIGHER_IS_BETTER = ("r2", "f1", "auc", "accuracy", *_STRUCTURE)
COST = "cost"
"""A table that every grid gets; none of its own may be called so."""


class ScoreboardError(ValueError):
    """The folder of results, or what its grid asks for, is not as it should be."""


@dataclasses.dataclass(frozen=True)
class Results:
    """What a folder holds: the grid that was run, and its runs in the order in which they were written."""

    grid: dict[str, Any]
    runs: list[dict[str, Any]]


def read(folder: str | os.PathLike[str]) -> Results:
    """Reads a folder of results. A last line without an end, which a killed run leaves behind, is passed over.

    Raises:
        ScoreboardError: A file is missing or broken, or the grid asks for something unknown.
    """
    folder = Path(folder)
    grid = _read_grid(folder / "grid.toml")
    *lines, _ = _read_bytes(folder / "runs.jsonl").split(b"\n")
    runs = [_parse(line, f"{folder / 'runs.jsonl'}, line {number}") for number, line in enumerate(lines, start=1)]
    if not runs:
        raise ScoreboardError(f"{folder / 'runs.jsonl'} holds no whole run. Let the benchmark finish at least one.")
    first: dict[str, int] = {}
    for number, run in enumerate(runs, start=1):
        if first.setdefault(run["id"], number) != number:
            place = f"{folder / 'runs.jsonl'}, line {number}"
            raise ScoreboardError(f"{place}: the run {run['id']!r} is already on line {first[run['id']]}.")
    return Results(grid=grid, runs=runs)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ScoreboardError(f"{path.parent} has no {path.name}, so it is not a folder of results.") from None
    except OSError as error:
        raise ScoreboardError(f"{path}: {files.reason(error)}.") from error


def _parse(line: bytes, place: str) -> dict[str, Any]:
    try:
        run = json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        raise ScoreboardError(f"{place}: expected a JSON object, but {error}.") from error
    if not isinstance(run, dict):
        raise ScoreboardError(f"{place}: expected a JSON object, got {type(run).__name__}.")
    for key, (fits, rule) in _RUN.items():
        if not fits(run.get(key)):
            raise ScoreboardError(f"{place}: expected {key} to be {rule}.")
    return {"settings": {}, "measured": {}} | {key: value for key, value in run.items() if value is not None}


def _refuse(constant: str):
    raise ValueError(f"{constant} is no number; an undefined score is null")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _are_limits(value: Any) -> bool:
    return all(map(_is_limits, value.values())) if isinstance(value, dict) else _is_limits(value)


def _is_limits(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _is_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(score is None or _is_number(score) for score in value.values())


_Rules = dict[str, tuple[Callable[[Any], bool], str]]
_RUN: _Rules = {
    "id": (_is_text, "a text"),
    "dataset": (_is_text, "a text"),
    "label": (_is_text, "a text"),
    "epsilon": (lambda value: value is None or (_is_number(value) and value > 0), "a number > 0 or null"),
    "seed": (lambda value: isinstance(value, int), "a whole number"),
    "scores": (_is_scores, "an object of finite numbers and nulls"),
    "settings": (lambda value: value is None or isinstance(value, dict), "an object or null"),
    "measured": (lambda value: value is None or isinstance(value, dict), "an object or null"),
}
_COMMON: _Rules = {
    "name": (
        lambda value: _is_text(value) and bool(re.fullmatch(r"[A-Za-z0-9][\w.-]*", value, re.ASCII)),
        "letters, digits, '.', '_' and '-'",
    ),
    "title": (_is_text, "a text"),
    "scores": (_is_texts, "a list of different scores"),
    "datasets": (_is_texts, "a list of different data sets"),
    "sweep": (_is_text, "the name of a group of overrides"),
}
_ASKS: dict[str, _Rules] = {
    "tables": _COMMON | {"paper": (lambda value: isinstance(value, bool), "true or false")},
    "figures": _COMMON
    | {
        "x": (_is_text, "'epsilon' or the name of a setting"),
        "lines": (_is_text, "'label', 'epsilon' or the name of a setting"),
        "x_scale": (lambda value: value in ("log", "linear"), "'log' or 'linear'"),
        "y_limits": (_are_limits, "two numbers, the lower one first, or such a pair for each score"),
    },
}
_NEEDED = ("name", "title", "scores")


def _read_grid(path: Path) -> dict[str, Any]:
    try:
        grid = tomllib.loads(_read_bytes(path).decode())
    except ValueError as error:
        if isinstance(error, ScoreboardError):
            raise
        raise ScoreboardError(f"{path}: not TOML, {error}.") from error
    for kind, rules in _ASKS.items():
        asked = grid.get(kind, [])
        if not isinstance(asked, list) or not all(isinstance(spec, dict) for spec in asked):
            raise ScoreboardError(f"{path}: expected {kind} to be written as [[{kind}]].")
        for number, spec in enumerate(asked, start=1):
            _check(spec, rules, f"{path}, [[{kind}]] number {number}")
        _check_names([spec["name"] for spec in asked], kind, path)
    return grid


def _check(spec: dict[str, Any], rules: _Rules, place: str) -> None:
    for key in spec:
        if key not in rules:
            raise ScoreboardError(f"{place}: unknown key {key!r}.{did_you_mean(key, rules)} Known: {', '.join(rules)}.")
    for key in _NEEDED:
        if key not in spec:
            raise ScoreboardError(f"{place}: {key} is missing.")
    for key, value in spec.items():
        fits, rule = rules[key]
        if not fits(value):
            raise ScoreboardError(f"{place}: expected {key} to be {rule}, got {value!r}.")


def _check_names(names: list[str], kind: str, path: Path) -> None:
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise ScoreboardError(f"{path}: {count} [[{kind}]] are called {name!r}; one would overwrite the other.")
    if kind == "tables" and COST in names:
        raise ScoreboardError(f"{path}: the name {COST!r} is taken by the table of seconds and megabytes.")


def better(score: str) -> str:
    """The direction in which a score is better: "higher" or "lower"."""
    return "higher" if score.startswith(HIGHER_IS_BETTER) else "lower"


def datasets(runs: Iterable[dict[str, Any]]) -> list[str]:
    """The data sets of some runs, in order of appearance."""
    return list(dict.fromkeys(run["dataset"] for run in runs))


def select(spec: dict[str, Any], runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs that a table or a figure is made of: those on its data sets, and of its sweep if it names one."""
    found = [run for run in runs if "datasets" not in spec or run["dataset"] in spec["datasets"]]
    return [run for run in found if "sweep" not in spec or run.get("sweep") == spec["sweep"] or is_yardstick(run)]


def is_yardstick(run: dict[str, Any]) -> bool:
    """Whether a run is floor or reference, and no method's."""
    return run["label"] in (FLOOR, REFERENCE)


def told_apart(runs: list[dict[str, Any]], *, leave_out: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The same runs, with those settings in the label that vary under it: "copula, degrees = 3"."""
    settings = collections.defaultdict(list)
    for run in runs:
        settings[run["label"]].append(run["settings"])
    varied = {label: _varied(found) - set(leave_out) for label, found in settings.items()}
    return [run | {"label": _told(run, varied[run["label"]])} for run in runs]


def _varied(settings: list[dict[str, Any]]) -> set[str]:
    spelt = collections.defaultdict(set)
    for key in {key for found in settings for key in found}:
        spelt[key] = {repr(found.get(key)) for found in settings}
    return {key for key, values in spelt.items() if len(values) > 1}


def _told(run: dict[str, Any], keys: set[str]) -> str:
    parts = [f"{key} = {value}" for key, value in run["settings"].items() if key in keys]
    return ", ".join([run["label"], *parts])


def check_seeds(runs: list[dict[str, Any]], place: str, by: Callable[[dict[str, Any]], tuple]) -> None:
    """Refuses runs of which two would be one seed of the same mean."""
    means = collections.Counter((by(run), run["seed"]) for run in runs)
    for (what, seed), count in means.items():
        if count > 1:
            spelt = ", ".join(str(part) for part in what if part is not None)
            raise ScoreboardError(f"{place}: {count} runs of {spelt} have the seed {seed}. Name one `sweep` to draw.")


def expand(scores: Iterable[str], runs: Iterable[dict[str, Any]]) -> list[str]:
    """Scores by name, where "r2/*" stands for all learners that the runs have an r2 of."""
    found = dict.fromkeys(score for run in runs for score in run["scores"])
    order = list(typesetting.LEARNERS)
    names = []
    for score in scores:
        metric = score.removesuffix("*")
        learners = [name.removeprefix(metric) for name in found if name.startswith(metric)]
        learners.sort(key=lambda learner: order.index(learner) if learner in order else len(order))
        names += [metric + learner for learner in learners] if score.endswith("/*") else [score]
    return list(dict.fromkeys(names))
