"""Reads grids from TOML: the runs of a benchmark, and the tables and figures of its results.

The one rule: a grid is read whole, whoever asks. The runner takes its runs and the scoreboard its tables and figures,
but a mistake in either part is found by both.

    name = "real-data"
    protocol = "private"                 # or "paper": columns standardised with exact moments, which no budget covers
    delta = 1e-5
    epsilons = [0.2, 1, 5]
    seeds = [5, 6, 7]                    # of the split, the fit and the sample; for a simulation also of its network
    metrics = ["wd", "tvd2", "r2"]
    learners = ["catboost"]              # for the metrics of usefulness; all five unless given
    baselines = true                     # also evaluate the training rows, as they are and with every column shuffled

    [[datasets]]
    table = "california"                 # a public table,
    bounds = false                       # here without the bounds of its schema,
    target = false                       # or its target, which the evaluation still knows
    rows = 5000                          # and only some of its rows, drawn by the seed

    [[datasets]]
    graph = "erdos-renyi"                # or a simulation
    equations = "nonlinear"
    rows = 2000

    [[datasets]]
    database = "cdnow"                   # or a database, in a grid of databases, whose metrics are those of databases

    [[methods]]
    name = "copula"
    settings = { encoding_share = 0.4 }  # held fixed
    label = "copula, 0.4"

    [[methods]]
    name = "prada-gan"
    settings = { published = true }      # the paper's own for each table and ε

    [[overrides]]                        # settings to be varied: every combination of the lists
    sweep = "degrees"
    degrees = [3, 8, 30]

    [[tables]]
    name = "similarity"
    title = "Distances"
    scores = ["wd", "tvd2"]

    [[figures]]
    name = "utility"
    title = "R² against ε"
    scores = ["r2/*"]
    x = "epsilon"
"""

import collections
import dataclasses
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.benchmark.grids import (
    BASELINES,
    PROTOCOLS,
    Dataset,
    Entry,
    FigureRequest,
    Grid,
    GridError,
    TableRequest,
    as_setting,
)
from understudy.core.files import reason
from understudy.core.text import did_you_mean

COST = "cost"
"""The table of seconds and megabytes that every grid gets; none of its own may have this name."""


def read(path: str | os.PathLike[str]) -> Grid:
    """The grid in a TOML file.

    Raises:
        GridError: The file cannot be read, or breaks a rule.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GridError(f"{os.fspath(path)} cannot be read: {reason(error)}.") from None
    try:
        return parse(text)
    except GridError as error:
        raise GridError(f"{os.fspath(path)}: {error}") from None


def parse(text: str) -> Grid:
    """The grid in the text of a TOML file.

    Raises:
        GridError: The text breaks a rule.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GridError(f"not TOML: {error}.") from None
    content.pop("title", None)  # for readers of the file
    _check_keys("", content, [field.name for field in dataclasses.fields(Grid) if field.name != "text"])
    for key in ("name", "datasets", "methods", "epsilons", "seeds", "metrics"):
        if not content.get(key):
            raise GridError(f"expected `{key}`, and at least one of them.")
    grid = Grid(
        **{
            **content,
            "datasets": tuple(_dataset(facts) for facts in _tables(content, "datasets")),
            "methods": _entries(_tables(content, "methods")),
            "overrides": tuple(_tables(content, "overrides")),
            "epsilons": tuple(_listed(content, "epsilons", float)),
            "seeds": tuple(_listed(content, "seeds", int)),
            "metrics": tuple(_listed(content, "metrics", str)),
            "learners": tuple(_listed(content, "learners", str)),
            "tables": tuple(TableRequest(**facts) for facts in _requests(content, "tables", _TABLE_RULES)),
            "figures": tuple(FigureRequest(**facts) for facts in _requests(content, "figures", _FIGURE_RULES)),
            "text": text,
        }
    )
    _check(grid)
    return grid


def _check(grid: Grid) -> None:
    if not re.fullmatch(r"[\w.-]+", str(grid.name)):
        raise GridError(f"name: expected letters, digits, dots, dashes or underscores, got {grid.name!r}.")
    if grid.protocol not in PROTOCOLS:
        raise GridError(f"protocol: expected one of {', '.join(PROTOCOLS)}, got {grid.protocol!r}.")
    if not isinstance(grid.baselines, bool):
        raise GridError(f"baselines: expected true or false, got {grid.baselines!r}.")
    if not isinstance(grid.delta, float) or not 0 < grid.delta < 1:
        raise GridError(f"delta: expected a number between 0 and 1, got {grid.delta!r}.")
    if any(epsilon <= 0 for epsilon in grid.epsilons) or any(seed < 0 for seed in grid.seeds):
        raise GridError("expected every epsilon > 0 and every seed >= 0.")
    if COST in (table.name for table in grid.tables):
        raise GridError(f"the name {COST!r} is taken by the table of seconds and megabytes.")


def _dataset(facts: Mapping[str, Any]) -> Dataset:
    _check_keys("datasets, ", facts, [field.name for field in dataclasses.fields(Dataset)])
    return Dataset(**facts)


def _entries(methods: Sequence[Mapping[str, Any]]) -> tuple[Entry, ...]:
    entries = tuple(map(_entry, methods))
    labels = [entry.label for entry in entries]
    if repeated := [label for label in labels if labels.count(label) > 1 or label in BASELINES]:
        raise GridError(f"methods: expected a `label` for each that no other has, got {repeated[0]!r} again.")
    return entries


def _entry(facts: Mapping[str, Any]) -> Entry:
    _check_keys("methods, ", facts, [field.name for field in dataclasses.fields(Entry)])
    if not isinstance(facts.get("name"), str):
        raise GridError("methods: expected a `name` for each.")
    settings = {key: as_setting(value) for key, value in facts.get("settings", {}).items()}
    return Entry(**{"label": facts["name"], **facts, "settings": settings})


def _check_keys(place: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in content:
        if key not in known:
            raise GridError(f"{place}unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")


def _tables(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = content.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise GridError(f"{key}: expected [[{key}]] tables.")
    return found


def _listed(content: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    values = content.get(key, [])
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, allowed) for v in values):
        raise GridError(f"{key}: expected a list of {'text' if kind is str else 'numbers'}, got {values!r}.")
    return [kind(value) for value in values]


# Tables and figures -------------------------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_name(value: Any) -> bool:
    return _is_text(value) and bool(re.fullmatch(r"[A-Za-z0-9][\w.-]*", value, re.ASCII))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_limits(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _are_limits(value: Any) -> bool:
    return all(map(_is_limits, value.values())) if isinstance(value, dict) else _is_limits(value)


_Rules = Mapping[str, tuple[Callable[[Any], bool], str]]
_COMMON_RULES: _Rules = {
    "name": (_is_name, "letters, digits, '.', '_' and '-'"),
    "title": (_is_text, "a text"),
    "scores": (_are_texts, "a list of different scores"),
    "datasets": (_are_texts, "a list of different data sets"),
    "sweep": (_is_text, "the name of a group of overrides"),
}
_TABLE_RULES: _Rules = {**_COMMON_RULES, "paper": (lambda value: isinstance(value, bool), "true or false")}
_FIGURE_RULES: _Rules = {
    **_COMMON_RULES,
    "x": (_is_text, "'epsilon' or the name of a setting"),
    "lines": (_is_text, "'label', 'epsilon' or the name of a setting"),
    "x_scale": (lambda value: value in ("log", "linear"), "'log' or 'linear'"),
    "y_limits": (_are_limits, "two numbers, the lower one first, or such a pair for each score"),
}
_REQUIRED = ("name", "title", "scores")


def _requests(content: Mapping[str, Any], kind: str, rules: _Rules) -> list[dict[str, Any]]:
    """The [[tables]] or [[figures]], each checked against its rules."""
    found = _tables(content, kind)
    for number, facts in enumerate(found, start=1):
        place = f"[[{kind}]] number {number}"
        _check_keys(f"{place}: ", facts, list(rules))
        for key in _REQUIRED:
            if key not in facts:
                raise GridError(f"{place}: {key} is missing.")
        for key, value in facts.items():
            holds, rule = rules[key]
            if not holds(value):
                raise GridError(f"{place}: expected {key} to be {rule}, got {value!r}.")
    for name, count in collections.Counter(facts["name"] for facts in found).items():
        if count > 1:
            raise GridError(f"{count} [[{kind}]] are called {name!r}; one would overwrite the other.")
    return [{key: _frozen(value) for key, value in facts.items()} for facts in found]


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(value) if isinstance(value, list) else value
