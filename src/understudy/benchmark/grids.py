"""Grids: which runs a benchmark is made of, as a TOML file.

A grid is data sets × methods × ε × seeds × overrides. The one rule: a run is known by everything that its result
depends on, so the same run is never done twice, and a changed one is another run. What may differ from one machine to
the next (time, memory, versions) is not part of it.

    name = "real-data"
    protocol = "private"                 # or "paper": columns standardised with exact moments, which no budget covers
    delta = 1e-5
    epsilons = [0.2, 1, 5]
    seeds = [5, 6, 7]                    # of the split, the fit and the sample; for a simulation also of its network
    metrics = ["wd", "tvd2", "r2"]
    learners = ["catboost"]              # of the metrics of usefulness; all five unless given
    baselines = true                    # also judge the training rows themselves, and the same with columns shuffled

    [[datasets]]
    table = "california"                 # a public table,
    bounds = false                       # here without the bounds of its schema

    [[datasets]]
    graph = "erdos-renyi"                # or a simulation
    equations = "nonlinear"
    rows = 2000

    [[methods]]
    name = "copula"
    settings = { encoding_share = 0.4 }  # held fixed
    label = "copula, 0.4"

    [[methods]]
    name = "prada-gan"
    settings = { published = true }      # as the paper has it for each table and ε

    [[overrides]]                        # settings to be varied: every combination of the lists
    sweep = "degrees"
    degrees = [3, 8, 30]

`[[tables]]` and `[[figures]]` in the same file say what the scoreboard draws of the results.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.core.files import reason
from understudy.core.text import did_you_mean

PROTOCOLS = ("private", "paper")
EXAMPLE = "example"
REAL, SHUFFLED = "real rows", "shuffled rows"
BASELINES = (REAL, SHUFFLED)
"""The training rows in place of synthetic ones, and the same with every column shuffled by itself."""


class GridError(ValueError):
    """A grid cannot be read, or asks for what there is not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A public table, or a simulation.

    Attributes:
        table: The name of a public table; None for a simulation.
        bounds: Whether the table's schema keeps its bounds.
        graph, equations, columns, degree: A simulation's, as `simulators.simulate` takes them; or the graph "example",
            which is the example network with columns and equations of its own.
        rows: Training rows: of a simulation; of a table at most so many, None for all.
        public_rows: Whether the schema says how many training rows there are.
    """

    table: str | None = None
    bounds: bool = True
    graph: str | None = None
    equations: str = "nonlinear"
    columns: int = 10
    degree: int = 2
    rows: int | None = None
    public_rows: bool = False

    def __post_init__(self):
        if (self.table is None) == (self.graph is None):
            raise GridError("datasets: expected either `table` or `graph`, got both or neither.")
        if self.graph is not None and self.rows is None:
            raise GridError("datasets: a simulation needs `rows`.")
        for key in ("rows", "columns"):
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 2):
                raise GridError(f"datasets, {key}: expected a whole number >= 2, got {value!r}.")

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        if self.table is not None:
            return self.table if self.bounds else f"{self.table}, no bounds"
        return "example" if self.graph == EXAMPLE else f"{self.graph}, {self.equations}"


def _said(dataset: Dataset) -> dict[str, Any]:
    """What is not as usual, so that a new kind of choice leaves the ids of old runs alone."""
    fields = dataclasses.fields(dataset)
    return {f.name: value for f in fields if (value := getattr(dataset, f.name)) != f.default}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A method in the race: its name, what is fixed of it, and what its row is called."""

    name: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One fit and its verdict, before it is made.

    Attributes:
        label: The row it counts for; `REAL` and `SHUFFLED` are the baselines, which fit nothing.
        epsilon: None for a baseline.
        sweep: The group of overrides it belongs to.
    """

    grid: str
    protocol: str
    dataset: Dataset
    method: str
    settings: Mapping[str, Any]
    label: str
    sweep: str
    epsilon: float | None
    delta: float
    seed: int
    metrics: tuple[str, ...]
    learners: tuple[str, ...]

    @property
    def id(self) -> str:
        """A digest of all of it."""
        content = json.dumps({**dataclasses.asdict(self), "dataset": _said(self.dataset)}, sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=10).hexdigest()

    def __str__(self) -> str:
        settings = [f"{key} = {value}" for key, value in self.settings.items()]
        budget = [] if self.epsilon is None else [f"ε = {self.epsilon:g}"]
        return ", ".join([f"{self.dataset.name}: {self.label}", *budget, *settings, f"seed {self.seed}"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """A grid as it was written; `runs` is what it comes to."""

    name: str
    datasets: tuple[Dataset, ...]
    methods: tuple[Entry, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    learners: tuple[str, ...] = ()
    protocol: str = "private"
    delta: float = 1e-5
    baselines: bool = True
    overrides: tuple[Mapping[str, Any], ...] = ()
    text: str = dataclasses.field(default="", repr=False)

    def __post_init__(self):
        names = [dataset.name for dataset in self.datasets]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise GridError(
                f"datasets: two are called {twice!r}, and tables could not tell them apart. Make two grids."
            )

    def runs(self) -> list[Run]:
        """Every run once, in the order of the grid; the baselines of a data set come before its fits."""
        found = {}
        for dataset in self.datasets:
            for run in (*self._yardsticks(dataset), *self._fits(dataset)):
                found.setdefault(run.id, run)
        return list(found.values())

    def _yardsticks(self, dataset: Dataset) -> Iterator[Run]:
        for label, seed in itertools.product((REAL, SHUFFLED) if self.baselines else (), self.seeds):
            yield self._run(dataset, Entry(name=label, label=label), {}, "", None, seed)

    def _fits(self, dataset: Dataset) -> Iterator[Run]:
        for entry, epsilon in itertools.product(self.methods, self.epsilons):
            for sweep, settings in self._settings(entry):
                for seed in self.seeds:
                    yield self._run(dataset, entry, settings, sweep, epsilon, seed)

    def _settings(self, entry: Entry) -> Iterator[tuple[str, dict[str, Any]]]:
        """A method's settings with every combination of the overrides laid over them."""
        for group in self.overrides or ({},):
            varied = {key: value if isinstance(value, list) else [value] for key, value in group.items()}
            sweep = varied.pop("sweep", [""])[0]
            for values in itertools.product(*varied.values()):
                yield sweep, {**entry.settings, **dict(zip(varied, map(_frozen, values), strict=True))}

    def _run(
        self, dataset: Dataset, entry: Entry, settings: dict[str, Any], sweep: str, epsilon: float | None, seed: int
    ) -> Run:
        return Run(
            grid=self.name,
            protocol=self.protocol,
            dataset=dataset,
            method=entry.name,
            settings=settings,
            label=entry.label,
            sweep=sweep,
            epsilon=epsilon,
            delta=self.delta,
            seed=seed,
            metrics=self.metrics,
            learners=self.learners,
        )

    def only(self, methods: Sequence[str]) -> "Grid":
        """The same grid with some of its methods.

        Raises:
            GridError: One of them is not in the grid.
        """
        known = [entry.label for entry in self.methods]
        for label in methods:
            if label not in known:
                raise GridError(f"grid {self.name!r} has the methods {', '.join(known)}; got {label!r}.")
        return dataclasses.replace(self, methods=tuple(entry for entry in self.methods if entry.label in methods))

    def small(self, *, rows: int = 300) -> "Grid":
        """A sketch of the grid that runs in seconds: few rows, one seed, few steps, the ends of what is varied."""
        datasets = tuple(dataclasses.replace(dataset, rows=rows) for dataset in self.datasets)
        overrides = tuple(
            {key: _ends(value) if isinstance(value, list) else value for key, value in group.items()}
            for group in self.overrides
        )
        methods = tuple(dataclasses.replace(entry, settings=_hurried(entry.settings)) for entry in self.methods)
        epsilons = tuple(_ends(self.epsilons))
        return dataclasses.replace(
            self, datasets=datasets, methods=methods, seeds=self.seeds[:1], epsilons=epsilons, overrides=overrides
        )


def _hurried(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a method that trains, with a hundred steps; published noise is too little for few rows."""
    if "published" in settings:
        return {**settings, "critic_steps": 100, "noise_multiplier": None}
    return {**settings, "critic_steps": 100} if "critic_steps" in settings else dict(settings)


def _ends(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys([values[0], values[-1]]))


# From TOML ----------------------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> Grid:
    """The grid in a TOML file.

    Raises:
        GridError: It cannot be read, or says what it may not.
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
    """The grid in the text of a TOML file."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GridError(f"not TOML: {error}.") from None
    for key in ("tables", "figures", "title"):
        content.pop(key, None)  # the scoreboard's
    _check_keys("", content, [field.name for field in dataclasses.fields(Grid) if field.name != "text"])
    for key in ("name", "datasets", "methods", "epsilons", "seeds", "metrics"):
        if not content.get(key):
            raise GridError(f"expected `{key}`, and at least one of them.")
    entries = tuple(_entry(facts) for facts in _tables(content, "methods"))
    labels = [entry.label for entry in entries]
    if repeated := [label for label in labels if labels.count(label) > 1 or label in (REAL, SHUFFLED)]:
        raise GridError(f"methods: expected a `label` for each that no other has, got {repeated[0]!r} again.")
    grid = Grid(
        **{
            **content,
            "datasets": tuple(_dataset(facts) for facts in _tables(content, "datasets")),
            "methods": entries,
            "overrides": tuple(_tables(content, "overrides")),
            "epsilons": tuple(_listed(content, "epsilons", float)),
            "seeds": tuple(_listed(content, "seeds", int)),
            "metrics": tuple(_listed(content, "metrics", str)),
            "learners": tuple(_listed(content, "learners", str)),
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


def _dataset(facts: Mapping[str, Any]) -> Dataset:
    _check_keys("datasets, ", facts, [field.name for field in dataclasses.fields(Dataset)])
    return Dataset(**facts)


def _entry(facts: Mapping[str, Any]) -> Entry:
    _check_keys("methods, ", facts, [field.name for field in dataclasses.fields(Entry)])
    if not isinstance(facts.get("name"), str):
        raise GridError("methods: expected a `name` for each.")
    settings = {key: _frozen(value) for key, value in facts.get("settings", {}).items()}
    return Entry(**{"label": facts["name"], **facts, "settings": settings})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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
