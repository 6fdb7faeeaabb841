"""Rows drawn from the densities, column by column, their calibration, and the density of what is drawn.

A column is drawn as its density says (columns.py); its score then goes through a monotone map that makes scores
standard normal, as real ones are. The map is found by calibration: in generation order, the scores of a number go to
normal quantiles, and states get constants that give them their measured shares, so that generated columns have exactly
the distributions that the encoder measured, and later columns see what they were trained on.

The one rule: no private row comes here. Marginals are calibrated on generated rows, to released numbers.
"""

import dataclasses
import functools
import math
import threading
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads, one_thread_each
from understudy.core.randomness import Key
from understudy.encoding.encoder import Levels
from understudy.privacy.normal_scores import normal_score
from understudy.synthesizers.prada.likelihood import columns
from understudy.synthesizers.prada.likelihood.columns import Column, Outputs
from understudy.synthesizers.prada.likelihood.correction import Correction
from understudy.synthesizers.prada.likelihood.pool import PublicRows
from understudy.synthesizers.prada.likelihood.reading import Reading
from understudy.synthesizers.prada.likelihood.variables import Variable

KNOTS = 64
"""The map that makes a column's scores normal has this many knots."""
SHARE_ROUNDS = 6
"""The shares of states are calibrated in this many rounds; each about squares the error."""
MOST_CHUNK, LEAST_CHUNK = 2**14, 2**11
"""Rows are generated in chunks of a size between these: in operations on few rows, threads wait for each other."""
CHUNK_CELLS = 2**21
"""A chunk has at most so many inputs, or states of one column, unless it is the smallest."""
LEAST_EXPECTED = 0.05
"""A correction is taken to keep at least this share of the rows."""
MOST_ROUNDS = 10
"""Rows are drawn at most so often until enough of them are kept; then as they are. Only a damaged file needs more."""
CELLS = 512
"""The map of a column's scores is linear in this many cells."""

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Densities:
    """The densities of all columns, in generation order.

    Attributes:
        knots: Of each column, the scores that its map takes to normal quantiles: (columns, KNOTS).
        components: Normals in the mixture of a number.
        limit: Scores are kept within ± this.
    """

    reading: Reading
    columns: tuple[Column, ...]
    knots: NDArray[np.float32]
    components: int
    limit: float

    @functools.cached_property
    def _maps(self) -> tuple["NormalMap", ...]:
        return tuple(NormalMap(each, self.limit) for each in self.knots)

    @property
    def variables(self) -> tuple[Variable, ...]:
        return self.reading.variables

    @functools.cached_property
    def chunk(self) -> int:
        """How many rows are generated at a time: a power of two."""
        cells = max(self.reading.size, *(v.states for v in self.variables), 1)
        return min(max(2 ** int(math.log2(CHUNK_CELLS / cells)), LEAST_CHUNK), MOST_CHUNK)

    def outputs(self, j: int, read: NDArray[np.float32]) -> Outputs:
        """What column j makes of the inputs that it reads of rows: (inputs, rows)."""
        number = self.variables[j].number
        return columns.outputs_of(self.columns[j], read, number=number, components=self.components)

    def log_density(self, j: int, rows: PublicRows, read: NDArray[np.float32]) -> NDArray[np.float32]:
        """The log density of column j of rows before calibration, given what it reads."""
        return columns.log_density(self.columns[j], self.outputs(j, read), rows.own[j], rows.states[j])

    def draw(self, n: int, draw: np.random.Generator) -> PublicRows:
        """So many rows."""
        return self._draw(n, draw, None)

    def sample(
        self, n: int, *, key: Key, ordered: Collection[str] = (), correction: Correction | None = None
    ) -> Levels:
        """Levels of so many rows; fewer rows are the first of more.

        Args:
            ordered: Columns of which only the order of levels matters. Scores may stand for them.
            correction: Says which of the drawn rows are kept.
        """
        as_scores = frozenset(v.name for v in self.variables if v.name in ordered and v.number and not v.states)
        memory = _Memories(self)

        def chunk(i: int, corrected: bool) -> Levels:
            draw = key.child(f"rows {i}").numpy()
            levels = self.levels(self._draw(self.chunk, draw, None, memory.own), draw, as_scores)
            if correction is None or not corrected:
                return {name: level.copy() if name in as_scores else level for name, level in levels.items()}
            keeps = np.flatnonzero(correction.keeps(levels, draw, as_scores))
            return {name: level[keeps] for name, level in levels.items()}

        names = [v.name for v in self.variables]
        share = 1.0 if correction is None else min(max(LEAST_EXPECTED, correction.kept), 1.0)
        made: list[Levels] = []
        first, missing = 0, n
        for last in [*[False] * MOST_ROUNDS, True]:
            count = -(-missing // self.chunk) if last else math.ceil(missing / share / self.chunk)
            with one_thread_each():
                made += in_threads(lambda i, last=last: chunk(i, not last), range(first, first + count))
            first, missing = first + count, n - sum(len(each[names[0]]) for each in made)
            if missing <= 0:
                break
        return {name: np.concatenate([each[name] for each in made])[:n] if made else np.zeros(0) for name in names}

    def levels(self, rows: PublicRows, draw: np.random.Generator, as_scores: Collection[str] = ()) -> Levels:
        """The levels of drawn rows; of some columns, numbers without states, their scores."""
        found = {}
        for j, v in enumerate(self.variables):
            if v.name in as_scores:
                found[v.name] = rows.own[j]
                continue
            uniform = draw.random(rows.count) if v.states else np.zeros(rows.count)
            found[v.name] = v.level_of(rows.own[j].astype(np.float64), rows.states[j], uniform)
        return found

    def calibrated(self, rows: int, draw: np.random.Generator) -> tuple["Densities", PublicRows]:
        """The same densities with the marginals that were measured, and so many rows they draw."""
        found = _Calibration(list(self.columns), self.knots.copy())
        made = self._draw(rows, draw, found)
        return dataclasses.replace(self, columns=tuple(found.columns), knots=found.knots), made

    def _draw(
        self,
        n: int,
        draw: np.random.Generator,
        calibration: "_Calibration | None",
        memory: "_Memory | None" = None,
    ) -> PublicRows:
        """So many rows; within a memory, until the next are drawn there."""
        memory = _Memory(self, n) if memory is None else memory
        own, states, inputs, work = memory.own, memory.states, memory.inputs, memory.work
        for j, variable in enumerate(self.variables):
            made = columns.outputs_of(
                self.columns[j], inputs, number=variable.number, components=self.components, within=work
            )
            if made.logits is not None:
                logits = made.logits if calibration is None else calibration.states(j, variable, made.logits)
                states[j] = columns.draw_state(logits, draw)
            if variable.number:
                score = columns.draw_score(self.columns[j], made, draw)
                regular = states[j] == 0 if variable.states else None
                if calibration is None:
                    score = self._maps[j](score)
                else:
                    knots = calibration.scores(j, score if regular is None else score[regular])
                    score = NormalMap(knots, self.limit)(score)
                own[j] = score if regular is None else np.where(regular, score, 0.0)
            at = int(self.reading.starts[j])
            seen = self._seen(variable, own[j], states[j])
            inputs[at : at + int(self.reading.widths[j])] = self.reading.of_column(j, seen, states[j])
        return PublicRows(self.variables, own, states, inputs)

    def _seen(self, variable: Variable, own: NDArray[np.float32], state: NDArray) -> NDArray:
        """The scores that later columns see."""
        if not variable.has_atoms:
            return own
        level = variable.level_of(own.astype(np.float64), np.zeros_like(state), np.zeros(len(own)))
        score = normal_score(np.clip(level, variable.edge, 1.0 - variable.edge))
        return np.where(state == 0, score, variable.state_scores[state])

    def total_log_density(self, rows: PublicRows) -> Floats:
        """The log density of rows under what `sample` draws, up to its limit: (rows,).

        A score y comes from z = g⁻¹(y) through the map g of its column: log p(y) = log p(z) + log dz/dy.
        """
        total = np.zeros(rows.count)
        for j, variable in enumerate(self.variables):
            made, score = self.outputs(j, rows.inputs[self.columns[j].sources]), rows.own[j]
            if variable.number:
                back, growth = self._maps[j].inverse(score)
                regular = rows.states[j] == 0 if variable.states else True
                total += np.where(regular, np.log(growth), 0.0)
                score = back.astype(np.float32)
            total += columns.log_density(self.columns[j], made, score, rows.states[j])
        return total


class _Memory:
    """Memory for so many rows: it takes long to get it anew."""

    def __init__(self, densities: Densities, rows: int):
        d = len(densities.variables)
        self.own, self.states = np.zeros((d, rows), np.float32), np.zeros((d, rows), np.int64)
        self.inputs = np.zeros((densities.reading.size, rows), np.float32)
        self.work = columns.Workspace(densities.columns, rows)


class _Memories(threading.local):
    """The memory of every thread for a chunk of rows."""

    def __init__(self, densities: Densities):
        self.own = _Memory(densities, densities.chunk)


@dataclasses.dataclass
class _Calibration:
    """What is found while rows are drawn: constants of states, and knots of scores."""

    columns: list[Column]
    knots: NDArray[np.float32]

    def states(self, j: int, variable: Variable, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits with constants that give the states their shares in the rows; the column gets the constants."""
        constants = share_constants(logits, variable.shares)
        own = self.columns[j]
        if own.places.size:
            self.columns[j] = own._replace(bias=own.bias + constants)
        else:
            second = own.second.copy()
            second[-1, -variable.states :] += constants
            self.columns[j] = own._replace(second=second)
        return logits + constants[:, None]

    def scores(self, j: int, score: NDArray[np.float32]) -> NDArray[np.float32]:
        """The knots that make these scores normal."""
        from scipy.special import ndtr

        found = np.quantile(score, ndtr(quantiles())) if len(score) else quantiles()
        self.knots[j] = found + 1e-5 * np.arange(KNOTS)  # ascending, whatever was drawn
        return self.knots[j]


def share_constants(logits: NDArray[np.float32], shares: Floats) -> NDArray[np.float32]:
    """Constants that give the states of drawn rows their shares: (states,)."""
    wanted, constants = np.log(np.maximum(shares, 1e-6)), np.zeros(len(shares))
    for _ in range(SHARE_ROUNDS):
        weights = logits + constants[:, None].astype(np.float32)
        weights = np.exp(weights - weights.max(axis=0))
        made = (weights / weights.sum(axis=0)).mean(axis=1)
        constants += np.clip(wanted - np.log(np.maximum(made, 1e-9)), -3.0, 3.0)
    return constants.astype(np.float32)


@functools.cache
def quantiles() -> NDArray[np.float32]:
    """Of the standard normal, at the middles of even parts; the outermost ones farther out."""
    from scipy.special import ndtri

    levels = (np.arange(KNOTS) + 0.5) / KNOTS
    levels[[0, -1]] = 0.002, 0.998
    return ndtri(levels).astype(np.float32)


class NormalMap:
    """The map that takes knots to normal quantiles, of slope one beyond them, within ±limit.

    It is linear in cells of equal width, which are found without a search; at their edges it is what lines between the
    knots give.
    """

    def __init__(self, knots: NDArray[np.float32], limit: float):
        self._at = np.linspace(float(knots[0]), float(knots[-1]), CELLS + 1)
        self._to = np.interp(self._at, knots.astype(np.float64), quantiles().astype(np.float64))
        width = self._at[1] - self._at[0]
        slopes = np.concatenate([[1.0], np.diff(self._to) / width, [1.0]])
        constants = self._to[[0, *range(CELLS + 1)]] - slopes * self._at[[0, *range(CELLS + 1)]]
        self._slopes, self._constants = slopes.astype(np.float32), constants.astype(np.float32)
        self._scale, self._offset = np.float32(1.0 / width), np.float32(1.0 - self._at[0] / width)
        self._limit = np.float32(limit)

    def __call__(self, score: NDArray[np.float32]) -> NDArray[np.float32]:
        cell = score * self._scale
        cell += self._offset  # the first cell and the last one are what lies beyond the knots
        np.minimum(np.maximum(cell, 0.0, out=cell), CELLS + 1.0, out=cell)
        at = cell.astype(np.intp)
        found = np.take(self._slopes, at, out=cell, mode="clip")
        found *= score
        found += np.take(self._constants, at, mode="clip")
        return np.minimum(np.maximum(found, -self._limit, out=found), self._limit, out=found)

    def inverse(self, score: NDArray) -> tuple[Floats, Floats]:
        """What the map takes to these scores, and by how much it grows with them."""
        low, high = self._to[0], self._to[-1]
        found = np.interp(score, self._to, self._at) + np.minimum(score - low, 0.0) + np.maximum(score - high, 0.0)
        cell = np.clip(np.searchsorted(self._to, score) - 1, 0, CELLS - 1)
        growth = (np.diff(self._at) / np.diff(self._to))[cell]
        return found, np.where((score < low) | (score > high), 1.0, growth)
