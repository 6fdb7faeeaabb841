"""Conditional densities of a table: column after column, each log-linear in functions of the columns before it.

With f the functions of a row's context and of its earlier columns, and g(b) those of bin b of a column (basis.py),

    P(b | row) ∝ exp(constant_b + fᵀ W g(b) + stay · [b is the value of the row before]).

The levels within a bin are all equally likely. Columns that are given are read and never drawn. Numbers are shown with
their measured distributions (level_maps.py). The one rule: no private row comes here.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads
from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.synthesizers.conditional.basis import Bases, Basis
from understudy.synthesizers.conditional.landing import Landing
from understudy.synthesizers.conditional.level_maps import LevelMap
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]
Single = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]

CHUNK = 8192
"""Rows are drawn this many at a time."""
NEVER = -1e9
"""The logit of what cannot be."""


class Column(NamedTuple):
    """The density of one column.

    Attributes:
        reads: The functions f that it reads, by their places among those of all columns.
        weights: W, (functions that it reads, functions of its own).
        constants: (bins,).
        stay: How much likelier a category is that of the row before.
        before: The column of that row's category; -1 if there is none.
        landings: Of a gap, how much likelier it is for the order that it leads to: (bins of it,).
    """

    reads: Whole
    weights: Floats
    constants: Floats
    stay: float = 0.0
    before: int = -1
    landings: Floats = np.zeros(0)


@dataclasses.dataclass(frozen=True, eq=False)
class ConditionalDensity:
    """The densities of all columns of a table; None for those that are always given.

    Attributes:
        bases: The functions of the columns, in generation order.
        landing: Of a history, where its gaps lead to.
        maps: How levels are shown, by the number of the column; others are shown as they are drawn.
    """

    bases: Bases
    columns: tuple[Column | None, ...]
    landing: Landing | None = None
    maps: Mapping[int, LevelMap] = dataclasses.field(default_factory=dict)

    def sample(self, n: int, *, key: Key) -> Levels:
        """Rows without a context: each given column has its measured distribution."""
        draw = key.child("context").numpy()
        given: Levels = {}
        for j, (bins, own, column) in enumerate(zip(self.bases.bins, self.bases.of, self.columns, strict=True)):
            if column is None:
                codes = draw.choice(len(own.shares), n, p=own.shares / own.shares.sum())
                given[self.bases.names[j]] = self.shown(j, bins.level(codes, draw.random(n)))
        return self.sample_given(given, key=key) if given else self._chunk(given, n, frozenset(), key)

    def sample_given(self, given: Levels, *, key: Key, present: Collection[str] = ()) -> Levels:
        n = len(next(iter(given.values())))

        def chunk(i: int) -> Levels:
            part = {name: level[i * CHUNK : (i + 1) * CHUNK] for name, level in given.items()}
            rows = min(CHUNK, n - i * CHUNK)
            return self._chunk(part, rows, frozenset(present), key.child(f"rows {i}"))

        made = in_threads(chunk, range(max(-(-n // CHUNK), 1)))
        return {name: np.concatenate([each[name] for each in made]) for name in self.bases.names}

    def _chunk(self, given: Levels, n: int, present: Collection[str], key: Key) -> Levels:
        draw, found = key.numpy(), dict[str, Floats]()
        functions = np.zeros((n, int(self.bases.starts[-1])), np.float32)
        codes = np.zeros((len(self.columns), n), np.int64)
        for j, (name, bins, column) in enumerate(zip(self.bases.names, self.bases.bins, self.columns, strict=True)):
            if name in given or column is None:
                codes[j] = bins.code_of(self.as_drawn(j, given[name]))
                found[name] = given[name].copy()
            else:
                logits = self.logits(j, column, functions, codes)
                if self.landing is not None and self.landing.column == j and column.landings.size:
                    places = self.landing.codes(found[self.bases.names[self.landing.base]])
                    logits += column.landings.astype(np.float32)[places]
                if name in present and bins.nullable and bins.size > 1:
                    logits[:, -1] = NEVER
                codes[j] = drawn_codes(logits, draw)
                found[name] = self.shown(j, bins.level(codes[j], draw.random(n)))
            functions[:, self.bases.functions_of(j)] = self.bases.of[j].table[codes[j]]
        return found

    def shown(self, j: int, level: Floats) -> Floats:
        """Levels of column j that were drawn, as they are shown."""
        return self.maps[j].show(level) if j in self.maps else level

    def as_drawn(self, j: int, level: Floats) -> Floats:
        """Levels of column j that are shown, as they were drawn."""
        return self.maps[j].read(level) if j in self.maps else level

    def logits(self, j: int, column: Column, functions: Single, codes: Whole) -> Single:
        """The logits of the bins of column j: (rows, bins)."""
        table = self.bases.of[j].table.astype(np.float32)
        found = (functions[:, column.reads] @ column.weights.astype(np.float32)) @ table.T
        found += column.constants.astype(np.float32)
        if column.before >= 0:
            add_stay(found, codes[column.before], column.stay, len(self.bases.bins[j].edges) - 1)
        return found

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        owners, names = self.bases.owners, self.bases.names
        found: dict[str, list[str]] = {}
        for name, column in zip(names, self.columns, strict=True):
            used = [] if column is None else np.unique(owners[column.reads[np.any(column.weights != 0, axis=1)]])
            found[name] = [names[i] for i in used]
        return found

    # In a model file --------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray]:
        found: dict[str, NDArray] = {
            "names": np.array(self.bases.names),
            "nullable": np.array([each.nullable for each in self.bases.bins]),
            "numbers": np.array([each.number for each in self.bases.of]),
        }
        for j, (bins, own, column) in enumerate(zip(self.bases.bins, self.bases.of, self.columns, strict=True)):
            found |= {f"{j} edges": bins.edges, f"{j} shares": own.shares, f"{j} table": own.table}
            found |= {f"{j} degrees": own.degrees, f"{j} measured": own.measured}
            if column is not None:
                found |= {f"{j} reads": column.reads, f"{j} weights": column.weights.astype(np.float32)}
                found |= {f"{j} constants": column.constants, f"{j} stay": np.array([column.stay, column.before])}
                found |= {f"{j} landings": column.landings}
        if self.landing is not None:
            found["landing"] = np.array([self.landing.column, self.landing.base])
            found |= {f"landing {part}": getattr(self.landing, part) for part in ("values", "steps", "edges")}
        found |= {f"{j} map": np.stack(each) for j, each in self.maps.items()}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "ConditionalDensity":
        names = [str(name) for name in arrays["names"]]
        bins, bases, columns = list[Bins](), list[Basis](), list[Column | None]()
        for j, (nullable, number) in enumerate(zip(arrays["nullable"], arrays["numbers"], strict=True)):
            bins.append(Bins(arrays[f"{j} edges"], bool(nullable)))
            shares, table, degrees, measured = (
                arrays[f"{j} {part}"] for part in ("shares", "table", "degrees", "measured")
            )
            bases.append(Basis(shares, table, degrees, measured, bool(number)))
            column = None
            if f"{j} reads" in arrays:
                reads, weights, constants = (arrays[f"{j} {part}"] for part in ("reads", "weights", "constants"))
                stay, before = arrays[f"{j} stay"].tolist()
                column = Column(reads, weights, constants, float(stay), int(before), arrays[f"{j} landings"])
            columns.append(column)
        landing = None
        if "landing" in arrays:
            gap, base = arrays["landing"].tolist()
            values, steps, edges = (arrays[f"landing {part}"] for part in ("values", "steps", "edges"))
            landing = Landing(int(gap), int(base), values, steps, edges)
        maps = {j: LevelMap(*arrays[f"{j} map"]) for j in range(len(names)) if f"{j} map" in arrays}
        return cls(Bases(tuple(names), tuple(bins), tuple(bases)), tuple(columns), landing, maps)


def add_stay(logits: Single, before: Whole, stay: float, categories: int) -> None:
    """Adds `stay` to the logit of the category of the row before, in place; a missing one is none of so many."""
    rows = np.flatnonzero(before < categories)
    logits[rows, before[rows]] += np.float32(stay)


def drawn_codes(logits: Single, draw: np.random.Generator) -> Whole:
    """A bin for every row, drawn by its logits."""
    sums = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    level = draw.random(len(sums), np.float32)[:, None] * sums[:, -1:]
    return np.minimum((sums <= level).sum(axis=1), logits.shape[1] - 1)
