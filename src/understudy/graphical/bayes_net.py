"""A Bayes network over bins: one conditional table a column, in the order in which rows are drawn.

The fitted generator of every method that ends in tables. The one rule: a table's parents come before it, so that a row
is drawn from the first table to the last, each column by one look at its parents' bins. Public mathematics: nothing
here sees a private row.

Sources: Pearl (1988), "Probabilistic reasoning in intelligent systems"; Duchi et al. (2008), "Efficient projections
onto the l1-ball", for the projection on to the simplex.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.stratified import stratified_uniforms
from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.graphical.conditional_draws import draw_codes
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class ConditionalTable:
    """The distribution of one column's bins, for every combination of its parents' bins.

    Attributes:
        column: Its name.
        parents: The columns it is drawn from, all of them drawn earlier.
        probabilities: Shape (*parent sizes, column size); along the last axis they sum to 1.
        groups: If parents are seen in coarser bins: for each parent, the coarse bin of every bin. Empty if all are seen
            as they are.
    """

    column: str
    parents: tuple[str, ...]
    probabilities: Floats
    groups: tuple[Codes, ...] = ()

    def __post_init__(self):
        place, shape = f"table of {self.column!r}", np.shape(self.probabilities)
        if len(shape) != len(self.parents) + 1:
            raise ValueError(f"{place}: expected {len(self.parents) + 1} axes, got {len(shape)}.")
        if self.groups and len(self.groups) != len(self.parents):
            raise ValueError(f"{place}: expected groups for {len(self.parents)} parents, got {len(self.groups)}.")
        if not np.all(self.probabilities >= 0) or not np.allclose(self.probabilities.sum(-1), 1.0, atol=1e-6):
            raise ValueError(f"{place}: expected probabilities that sum to 1 along the last axis, got others.")


@dataclasses.dataclass(frozen=True)
class BayesNet:
    """Conditional tables in the order of sampling, and the bins of their columns.

    Attributes:
        tables: One for each column; each has its parents before it.
        bins: Of each column.
    """

    tables: tuple[ConditionalTable, ...]
    bins: Mapping[str, Bins]

    def __post_init__(self):
        drawn: list[str] = []
        for table in self.tables:
            place = f"table of {table.column!r}"
            late = [name for name in table.parents if name not in drawn]
            if late or table.column in drawn:
                raise ValueError(f"{place}: expected every column once and parents first, got {late or 'it twice'}.")
            drawn.append(table.column)
            sizes = [self.bins[name].size for name in (*table.parents, table.column)]
            for axis, group in enumerate(table.groups):
                if len(group) != sizes[axis] or group.min() < 0 or group.max() >= table.probabilities.shape[axis]:
                    raise ValueError(f"{place}: expected a group for each of {sizes[axis]} bins of parent {axis}.")
                sizes[axis] = table.probabilities.shape[axis]
            if tuple(sizes) != table.probabilities.shape:
                raise ValueError(f"{place}: expected shape {tuple(sizes)}, got {table.probabilities.shape}.")

    def sample_codes(self, n: int, *, key: Key) -> dict[str, Codes]:
        """The bin of every column in n rows, column after column."""
        codes: dict[str, Codes] = {}
        for table in self.tables:
            row = np.zeros(n, np.int64)  # which row of the flattened table: all parents in one number
            for axis, name in enumerate(table.parents):
                code = table.groups[axis][codes[name]] if table.groups else codes[name]
                row = row * table.probabilities.shape[axis] + code
            codes[table.column] = draw_bins(table.probabilities, row, key.child(f"cell {table.column}").numpy())
        return codes

    def sample(self, n: int, *, key: Key) -> Levels:
        """Levels of n rows: a bin from its table, and a uniform place in the bin."""
        codes = self.sample_codes(n, key=key)
        return {
            name: self.bins[name].level(codes[name], key.child(f"level {name}").numpy().random(n)) for name in self.bins
        }

    def sample_given(self, given: Levels, *, key: Key, present: Collection[str] = ()) -> Levels:
        """Rows with the given levels: bins of the other columns by Gibbs sampling (conditional_draws.py)."""
        known = {name: self.bins[name].code(level, level) for name, level in given.items()}
        codes = draw_codes(self.tables, self.bins, known, frozenset(present), key)
        n = len(next(iter(given.values())))
        drawn = {
            name: self.bins[name].level(codes[name], key.child(f"level {name}").numpy().random(n))
            for name in self.bins
            if name not in given
        }
        return {name: given[name] if name in given else drawn[name] for name in self.bins}

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every column's parents, in the order of sampling."""
        return {table.column: list(table.parents) for table in self.tables}

    def arrays(self) -> dict[str, NDArray]:
        """Flat arrays: tables and edges one after another, and how long each is."""
        place = {table.column: i for i, table in enumerate(self.tables)}
        bins = [self.bins[table.column] for table in self.tables]
        groups = [
            group
            for table in self.tables
            for group in (table.groups or [np.arange(self.bins[name].size) for name in table.parents])
        ]
        return {
            "columns": np.array([table.column for table in self.tables]),
            "listed": np.array([place[name] for name in self.bins], np.int64),
            "degrees": np.array([len(table.parents) for table in self.tables], np.int64),
            "parents": np.array([place[name] for table in self.tables for name in table.parents], np.int64),
            "grouped": np.array([bool(table.groups) for table in self.tables]),
            "groups": np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int64),
            "shapes": np.array([size for table in self.tables for size in table.probabilities.shape], np.int64),
            "probabilities": np.concatenate([table.probabilities.ravel() for table in self.tables]),
            "cuts": np.array([len(each.edges) for each in bins], np.int64),
            "ends": np.concatenate([each.edges for each in bins]),
            "nullable": np.array([each.nullable for each in bins]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Self:
        """The network that `arrays` came from."""
        names = arrays["columns"].tolist()
        edges = np.split(arrays["ends"], np.cumsum(arrays["cuts"])[:-1])
        bins = [Bins(own, bool(nullable)) for own, nullable in zip(edges, arrays["nullable"], strict=True)]
        degrees = arrays["degrees"]
        parents = np.split(arrays["parents"], np.cumsum(degrees)[:-1])
        shapes = np.split(arrays["shapes"], np.cumsum(degrees + 1)[:-1])
        lengths = [int(np.prod(shape)) for shape in shapes]
        masses = np.split(arrays["probabilities"], np.cumsum(lengths)[:-1])
        groups = iter(np.split(arrays["groups"], np.cumsum([bins[p].size for p in arrays["parents"]])))
        tables = []
        for i, name in enumerate(names):
            own = tuple(next(groups) for _ in parents[i])
            probabilities = masses[i].reshape(tuple(shapes[i]))
            its = tuple(names[p] for p in parents[i])
            tables.append(ConditionalTable(name, its, probabilities, own if arrays["grouped"][i] else ()))
        return cls(tuple(tables), {names[i]: bins[i] for i in arrays["listed"]})


def draw_bins(probabilities: Floats, rows: Codes, draw: np.random.Generator) -> Codes:
    """One bin for each entry of `rows`, a row number of the flattened table: the inverse distribution function.

    Entries with the same row number are drawn by stratified sampling: each has the row's distribution, and together
    they have it to within a row or so (`core.stratified`), so that chance adds little to the error of what is drawn.
    One binary search serves all entries: log2(size) steps, and memory of a few numbers for each.
    """
    size = probabilities.shape[-1]
    width = 1 << (size - 1).bit_length()
    below = np.cumsum(probabilities.reshape(-1, size), axis=1)
    padded = np.full((len(below), width), np.inf)
    padded[:, :size] = below / below[:, -1:]
    flat, uniform = padded.ravel(), stratified_uniforms(rows, draw)
    start = rows * width
    place = start.copy()
    half = width // 2
    while half:
        place += half * (flat[place + (half - 1)] <= uniform)
        half //= 2
    return place - start


# From noisy counts --------------------------------------------------------------------------------------------------


def to_simplices(masses: Floats, totals: Floats) -> Floats:
    """Row by row along the last axis, the nearest non-negative masses with the given sums (`totals` > 0)."""
    descending = -np.sort(-masses, axis=-1)
    shift = (np.cumsum(descending, axis=-1) - totals[..., None]) / np.arange(1, masses.shape[-1] + 1)
    above = np.maximum((descending > shift).sum(-1) - 1, 0)
    projected = np.maximum(masses - np.take_along_axis(shift, above[..., None], -1), 0.0)
    sums = projected.sum(-1, keepdims=True)
    lost = sums <= 0  # noise so large that the total is lost in rounding
    largest = np.arange(masses.shape[-1]) == np.argmax(masses, -1)[..., None]
    return np.where(lost, largest * totals[..., None], projected * (totals[..., None] / np.where(lost, 1.0, sums)))


def conditional(masses: Floats, *, marginal: Floats | None = None, least: float = 0.0) -> Floats:
    """Probabilities of the last axis given the others, from noisy masses that may be negative.

    Each row is projected on to the simplex of its own sum. A row whose sum is not above `least` says nothing. It gets
    `marginal`, the column's own distribution (of any shape that broadcasts); by default that of all rows together.
    """
    masses = np.asarray(masses, np.float64)
    if marginal is None:
        whole = masses.reshape(-1, masses.shape[-1]).sum(0)
        total = whole.sum()
        size = len(whole)
        marginal = to_simplices(whole, np.asarray(total)) / total if total > 0 else np.full(size, 1.0 / size)
    totals = masses.sum(-1)
    known = totals > max(least, 1e-9)
    safe = np.where(known, totals, 1.0)
    found = to_simplices(masses, safe) / safe[..., None]
    found = np.where(known[..., None], found, np.asarray(marginal))
    return found / found.sum(-1, keepdims=True)
