"""Grids: which runs a benchmark is made of, and which tables and figures are drawn from its results.

A grid is data sets × methods × ε × seeds × overrides. The one rule: a run is identified by everything its result
depends on, so the same run is never made twice, and a changed run is another run. What may differ from one machine to
the next (time, memory, versions) is not part of its identity. `grid_file` reads grids from TOML.
"""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PROTOCOLS = ("private", "paper")
EXAMPLE = "example"
NO_TARGET = "no target"
"""What the name of a data set says if the schema of its fits names no target."""
REAL, SHUFFLED = "real rows", "shuffled rows"
BASELINES = (REAL, SHUFFLED)
"""Labels of the baselines: the training rows in place of synthetic ones, and the same with every column shuffled."""

TRAINING_SHARE = 0.6
"""The share of a table's rows that a split trains on."""
MOST_IN_SMALL = 4
"""Of more data sets than this, a small grid has the first and the last."""

Setting = Any
"""The value of a method's setting: whatever TOML can hold, lists as tuples."""


class GridError(ValueError):
    """A grid cannot be read, or asks for something that does not exist."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A public table, a simulation, or a database.

    Attributes:
        table: The name of a public table; None for a simulation or a database.
        database: The name of a public database, or "hospital", the simulated one.
        bounds: Whether the table's schema keeps its bounds.
        target: Whether the schema of the fits names the table's target. The evaluation knows it in any case.
        graph, equations, columns, degree: The arguments of `simulators.simulate`; or the graph "example", the example
            network, whose columns and equations are fixed.
        rows: The number of training rows of a simulation; for a table the number of rows that are used in all, 60 % of
            them for training and drawn by the seed of the split, None for all. Of a database, its units.
        public_rows: Whether the schema states the number of training rows.
    """

    table: str | None = None
    bounds: bool = True
    target: bool = True
    graph: str | None = None
    equations: str = "nonlinear"
    columns: int = 10
    degree: int = 2
    rows: int | None = None
    public_rows: bool = False
    database: str | None = None

    def __post_init__(self):
        if sum(each is not None for each in (self.table, self.graph, self.database)) != 1:
            raise GridError("datasets: expected either `table`, `graph` or `database`, got several or none.")
        if self.graph is not None and self.rows is None:
            raise GridError("datasets: a simulation needs `rows`.")
        if not isinstance(self.target, bool) or (not self.target and self.table is None):
            raise GridError(f"datasets, target: expected true or false for a table, got {self.target!r}.")
        for key in ("rows", "columns"):
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 2):
                raise GridError(f"datasets, {key}: expected a whole number >= 2, got {value!r}.")

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        if self.database is not None:
            return self.database
        if self.table is not None:
            return ", ".join([self.table, *["no bounds"] * (not self.bounds), *[NO_TARGET] * (not self.target)])
        return "example" if self.graph == EXAMPLE else f"{self.graph}, {self.equations}"


def _non_defaults(dataset: Dataset) -> dict[str, Any]:
    """The fields that differ from their defaults, so that a new field leaves the ids of old runs alone."""
    fields = dataclasses.fields(dataset)
    return {f.name: value for f in fields if (value := getattr(dataset, f.name)) != f.default}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A method of the grid: its name, its fixed settings, and the label of its results."""

    name: str
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    label: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One fit and its evaluation, before it is made.

    Attributes:
        label: The row of a table it counts for; `REAL` and `SHUFFLED` are the baselines, which fit nothing.
        epsilon: None for a baseline.
        sweep: The group of overrides it belongs to.
    """

    grid: str
    protocol: str
    dataset: Dataset
    method: str
    settings: Mapping[str, Setting]
    label: str
    sweep: str
    epsilon: float | None
    delta: float
    seed: int
    metrics: tuple[str, ...]
    learners: tuple[str, ...]

    @property
    def id(self) -> str:
        """A digest of every field."""
        content = json.dumps({**dataclasses.asdict(self), "dataset": _non_defaults(self.dataset)}, sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=10).hexdigest()

    @property
    def is_baseline(self) -> bool:
        return self.label in BASELINES

    def __str__(self) -> str:
        settings = [f"{key} = {value}" for key, value in self.settings.items()]
        budget = [] if self.epsilon is None else [f"ε = {self.epsilon:g}"]
        return ", ".join([f"{self.dataset.name}: {self.label}", *budget, *settings, f"seed {self.seed}"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableRequest:
    """A [[tables]] entry: a table to be made from the results.

    Attributes:
        scores: Its columns, in order; "r2/*" stands for r2 with every learner.
        datasets: The data sets it shows, in order; None for all.
        sweep: The group of overrides it shows; None for all runs.
        paper: Whether the numbers printed in the PrAda-GAN paper stand beside ours.
    """

    name: str
    title: str
    scores: tuple[str, ...]
    datasets: tuple[str, ...] | None = None
    sweep: str | None = None
    paper: bool = False


Limits = tuple[float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """A [[figures]] entry: a figure to be drawn from the results.

    Attributes:
        scores, datasets, sweep: As for a table; a panel for each score and data set.
        x: What the horizontal axis shows: "epsilon" or the name of a setting.
        lines: What tells one line from another: "label", "epsilon" or the name of a setting.
        x_scale: "log" or "linear".
        y_limits: The range of the vertical axis, for all scores or for each.
    """

    name: str
    title: str
    scores: tuple[str, ...]
    datasets: tuple[str, ...] | None = None
    sweep: str | None = None
    x: str = "epsilon"
    lines: str = "label"
    x_scale: str = "log"
    y_limits: Limits | Mapping[str, Limits] | None = None

    def limits(self, score: str) -> Limits | None:
        """The range of the vertical axis for one score; None: as far as the values reach."""
        return self.y_limits.get(score) if isinstance(self.y_limits, Mapping) else self.y_limits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """A grid as it was written; `runs` lists what it comes to."""

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
    tables: tuple[TableRequest, ...] = ()
    figures: tuple[FigureRequest, ...] = ()
    text: str = dataclasses.field(default="", repr=False)

    def __post_init__(self):
        names = [dataset.name for dataset in self.datasets]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise GridError(
                f"datasets: two are called {twice!r}, and tables could not tell them apart. Make two grids."
            )
        if len({dataset.database is None for dataset in self.datasets}) > 1:
            raise GridError("datasets: expected databases alone or none, since they have metrics of their own.")
        if self.protocol == "paper" and any(dataset.database is not None for dataset in self.datasets):
            raise GridError('protocol: expected "private" for databases, got "paper".')

    def runs(self) -> list[Run]:
        """Every run once, in the order of the grid; the baselines of a data set come before its fits."""
        found = {}
        for dataset in self.datasets:
            for run in (*self._baseline_runs(dataset), *self._fits(dataset)):
                found.setdefault(run.id, run)
        return list(found.values())

    def _baseline_runs(self, dataset: Dataset) -> Iterator[Run]:
        for label, seed in itertools.product(BASELINES if self.baselines else (), self.seeds):
            yield self._run(dataset, Entry(name=label, label=label), {}, "", None, seed)

    def _fits(self, dataset: Dataset) -> Iterator[Run]:
        for entry, epsilon in itertools.product(self.methods, self.epsilons):
            for sweep, settings in self._settings(entry):
                for seed in self.seeds:
                    yield self._run(dataset, entry, settings, sweep, epsilon, seed)

    def _settings(self, entry: Entry) -> Iterator[tuple[str, dict[str, Setting]]]:
        """A method's settings with every combination of the overrides laid over them, each with its sweep."""
        for group in self.overrides or ({},):
            varied = {key: value if isinstance(value, list) else [value] for key, value in group.items()}
            sweep = varied.pop("sweep", [""])[0]
            for values in itertools.product(*varied.values()):
                yield sweep, {**entry.settings, **dict(zip(varied, map(as_setting, values), strict=True))}

    def _run(
        self, dataset: Dataset, entry: Entry, settings: dict[str, Setting], sweep: str, epsilon: float | None, seed: int
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

    def only(
        self,
        methods: Sequence[str] | None = None,
        *,
        datasets: Sequence[str] | None = None,
        epsilons: Sequence[float] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> "Grid":
        """The same grid with some of its methods, data sets, budgets and seeds; None for all of them.

        Args:
            methods: Labels.
            datasets: Names of data sets, or of tables with all their variants.

        Raises:
            GridError: One of them is not in the grid.
        """
        labels = [entry.label for entry in self.methods]
        names = [name for dataset in self.datasets for name in (dataset.name, dataset.table)]
        wanted_names = self._known("data sets", datasets, [name for name in names if name is not None])
        wanted_labels = self._known("methods", methods, labels)
        return dataclasses.replace(
            self,
            methods=tuple(entry for entry in self.methods if entry.label in wanted_labels),
            datasets=tuple(each for each in self.datasets if {each.name, each.table} & set(wanted_names)),
            epsilons=tuple(self._known("epsilons", epsilons, self.epsilons)),
            seeds=tuple(self._known("seeds", seeds, self.seeds)),
        )

    def _known(self, what: str, wanted: Sequence[Any] | None, known: Sequence[Any]) -> list[Any]:
        """Those of `known` that are wanted, in the order of the grid."""
        known = list(dict.fromkeys(known))
        for each in wanted or ():
            if each not in known:
                raise GridError(f"grid {self.name!r} has the {what} {', '.join(map(str, known))}; got {each!r}.")
        return known if wanted is None else [each for each in known if each in wanted]

    def small(self, *, rows: int = 300) -> "Grid":
        """A sketch of the grid that runs in seconds: few rows, one seed, few steps, the extremes of each sweep."""
        kept = self.datasets if len(self.datasets) <= MOST_IN_SMALL else _extremes(self.datasets)
        datasets = tuple(
            dataclasses.replace(dataset, rows=rows if dataset.graph is not None else round(rows / TRAINING_SHARE))
            for dataset in kept
        )
        overrides = tuple(
            {key: _extremes(value) if isinstance(value, list) else value for key, value in group.items()}
            for group in self.overrides
        )
        methods = tuple(dataclasses.replace(entry, settings=_few_steps(entry.settings)) for entry in self.methods)
        epsilons = tuple(_extremes(self.epsilons))
        return dataclasses.replace(
            self, datasets=datasets, methods=methods, seeds=self.seeds[:1], epsilons=epsilons, overrides=overrides
        )


def as_setting(value: Any) -> Setting:
    """A value from TOML as a method takes it."""
    return tuple(value) if isinstance(value, list) else value


def _few_steps(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings of an adversarial method with a hundred steps; the published noise is too small for few rows."""
    if "published" in settings:
        return {**settings, "critic_steps": 100, "noise_multiplier": None}
    return {**settings, "critic_steps": 100} if "critic_steps" in settings else dict(settings)


def _extremes(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys([values[0], values[-1]]))
