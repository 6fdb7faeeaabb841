"""Rows of the densities given some of their columns: what is given is read, and the others are drawn from it.

Columns that are given should come first in the order of generation: a column is drawn from those before it alone. The
one rule: no private row comes here.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads, one_thread_each
from understudy.core.randomness import Key
from understudy.encoding.encoder import Levels
from understudy.privacy.densities import NEVER
from understudy.synthesizers.prada.likelihood import columns
from understudy.synthesizers.prada.likelihood.correction import Correction
from understudy.synthesizers.prada.likelihood.drawing import Densities
from understudy.synthesizers.prada.likelihood.variables import Variable

MOST_DRAWS = 8
"""A row is drawn at most so often until it is kept."""


def draw_given(
    densities: Densities, given: Levels, present: Collection[str], *, key: Key, correction: Correction | None = None
) -> Levels:
    """Levels of all columns of rows that have the given ones.

    Args:
        present: Columns that are drawn and not missing, though they may be.
        correction: Says which of the drawn rows are kept; the others are drawn anew, a few times.
    """
    n, size = len(next(iter(given.values()))), densities.chunk

    def chunk(i: int) -> Levels:
        part = {name: level[i * size : (i + 1) * size] for name, level in given.items()}
        draw = key.child(f"rows {i}").numpy()
        found = _draw(densities, part, present, draw)
        if correction is not None:
            _draw_again(densities, found, part, present, correction, draw)
        return found

    with one_thread_each():
        made = in_threads(chunk, range(max(-(-n // size), 1)))
    names = [v.name for v in densities.variables]
    return {name: np.concatenate([each[name] for each in made]) for name in names}


def _draw_again(
    densities: Densities,
    found: Levels,
    given: Levels,
    present: Collection[str],
    correction: Correction,
    draw: np.random.Generator,
) -> None:
    """Draws rows that are not kept anew, in place, until they are or have been drawn so often as may be."""
    left = np.arange(len(next(iter(given.values()))))
    for _ in range(MOST_DRAWS - 1):
        left = left[~correction.keeps({name: level[left] for name, level in found.items()}, draw)]
        if not len(left):
            break
        again = _draw(densities, {name: level[left] for name, level in given.items()}, present, draw)
        for name, level in again.items():
            found[name][left] = level


def _draw(densities: Densities, given: Levels, present: Collection[str], draw: np.random.Generator) -> Levels:
    n = len(next(iter(given.values())))
    inputs = np.zeros((densities.reading.size, n), np.float32)
    found: Levels = {}
    for j, variable in enumerate(densities.variables):
        if variable.name in given:
            level = given[variable.name]
            state = variable.state_of(level)
            seen = variable.scores_of(level, state)[1]
            found[variable.name] = level.copy()
        else:
            own, state = _drawn(densities, j, inputs, variable.name in present, draw)
            seen = densities._seen(variable, own, state)
            uniform = draw.random(n) if variable.states else np.zeros(n)
            found[variable.name] = variable.level_of(own.astype(np.float64), state, uniform)
        at = int(densities.reading.starts[j])
        width = int(densities.reading.widths[j])
        inputs[at : at + width] = densities.reading.of_column(j, seen, state)
    return found


def _drawn(
    densities: Densities, j: int, inputs: NDArray[np.float32], present: bool, draw: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The own scores and the states of one column, given the inputs of those before it."""
    variable, column, n = densities.variables[j], densities.columns[j], inputs.shape[1]
    made, own, state = densities.outputs(j, inputs[column.sources]), np.zeros(n, np.float32), np.zeros(n, np.int64)
    if made.logits is not None:
        state = columns.draw_state(_without_missing(variable, made.logits) if present else made.logits, draw)
    if variable.number:
        score = densities._maps[j](columns.draw_score(column, made, draw))
        own = np.where(state == 0, score, np.float32(0.0)) if variable.states else score
    return own, state


def _without_missing(variable: Variable, logits: NDArray[np.float32]) -> NDArray[np.float32]:
    if not variable.nullable or variable.states < 2:
        return logits
    found = logits.copy()
    found[int(variable.bins[-1])] = NEVER
    return found
