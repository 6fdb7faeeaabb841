"""The densities before any training: linear predictions from public rows.

The one rule: no private row comes here.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.prada.likelihood.columns import MOST_DIRECT, Column, start_second
from understudy.synthesizers.prada.likelihood.pool import PublicRows
from understudy.synthesizers.prada.likelihood.reading import FLAGS_OF_MANY, Reading

Floats = NDArray[np.float64]

SMALLEST = 1e-3
"""Added to the diagonal of correlations that are inverted, so that inputs that repeat each other share a weight."""
LEAST_UNIT = 0.05
"""A number deviates from its prediction by at least this: a score is never known better at the start."""
LEAST_SHARE = 0.02
"""A state counts as at least this common where its probability is predicted: a rare one has steep logits."""
MOST_ROWS = 16_384
"""Predictions are made from at most about this many rows."""


class Prediction(NamedTuple):
    """A linear prediction of some numbers from some inputs.

    Attributes:
        slopes: (numbers, inputs).
        constants: (numbers,).
        left: The deviation that the prediction leaves: (numbers,).
        deviations: Of the inputs: (inputs,).
    """

    slopes: Floats
    constants: Floats
    left: Floats
    deviations: Floats


def least_squares(x: NDArray, targets: NDArray, weights: Floats) -> Prediction:
    """The best linear prediction of targets, (numbers, rows), from inputs, (inputs, rows), over weighted rows."""
    shares = weights / max(float(weights.sum()), 1e-300)
    x, targets = x.astype(np.float64), targets.astype(np.float64)
    means, wanted = x @ shares, targets @ shares
    x, targets = x - means[:, None], targets - wanted[:, None]
    deviations = np.sqrt(np.maximum((x * x) @ shares, 1e-6))
    spread = np.sqrt(np.maximum((targets * targets) @ shares, 1e-6))
    if not len(x):
        return Prediction(np.zeros((len(targets), 0)), wanted, spread, deviations)
    x /= deviations[:, None]
    weighted = x * shares
    among, cross = weighted @ x.T + SMALLEST * np.eye(len(x)), weighted @ targets.T
    found = np.linalg.solve(among, cross)
    explained = np.sum(found * cross, axis=0)
    left = np.sqrt(np.maximum(spread**2 - explained, (LEAST_UNIT * spread) ** 2))
    slopes = found.T / deviations
    return Prediction(slopes, wanted - slopes @ means, left, deviations)


def start_column(
    j: int,
    sources: NDArray[np.int64],
    rows: PublicRows,
    weights: Floats,
    reading: Reading,
    *,
    hidden: int,
    components: int,
    draw: np.random.Generator,
) -> tuple[Column, Prediction]:
    """A column before training, and what it was made from: normal about a linear prediction from its sources.

    States follow a logistic model to first order: with p_c = π_c + b_cᵀ(x - m), log p_c = log π_c + b_cᵀ(x - m) / π_c.
    Those of a column with many follow the prediction of their places. Hidden units look in random directions, and have
    no effect yet.
    """
    variable, table = reading.variables[j], reading.tables[j]
    step = max(1, rows.count // MOST_ROWS)
    x, state, weights = rows.inputs[sources, ::step], rows.states[j, ::step], weights[::step]
    slopes, constants, unit, predicted, found = [], [], 1.0, list[Prediction](), None
    if variable.number:
        regular = weights * (state == 0) if variable.states else weights
        found = least_squares(x, rows.own[j, None, ::step], regular)
        unit = max(float(found.left[0]), LEAST_UNIT)
        slopes.append(found.slopes / unit)
        constants.append(found.constants / unit)
        predicted.append(found)
    many = variable.states > MOST_DIRECT
    places, bias = (table, np.log(variable.shares)) if many else (np.zeros((variable.states, 0)), np.zeros(0))
    if variable.states:
        wanted = table.T[:, state] if many else (state[None, :] == np.arange(variable.states)[:, None])
        of_states = least_squares(x, wanted, weights)
        held = variable.shares @ table if many else variable.shares
        flags = np.arange(len(wanted)) < FLAGS_OF_MANY if many else np.ones(len(wanted), bool)
        scale = np.where(flags, 1.0 / np.maximum(held, LEAST_SHARE), 1.0)
        level = np.zeros(len(wanted)) if many else np.log(variable.shares)
        slopes.append(of_states.slopes * scale[:, None])
        constants.append(level + (of_states.constants - wanted @ (weights / weights.sum())) * scale)
        predicted.append(of_states)
        found = of_states if found is None else found
    linear = np.concatenate(slopes)
    first = np.zeros((len(sources) + 1, hidden + len(linear)))
    first[:-1, :hidden] = draw.standard_normal((len(sources), hidden)) / np.sqrt(len(sources) + 1.0)
    first[-1, :hidden] = 0.5 * draw.standard_normal(hidden)
    first[:-1, hidden:], first[-1, hidden:] = linear.T, np.concatenate(constants)
    outputs = 3 * components * variable.number + (places.shape[1] or variable.states)
    second = start_second(hidden, outputs, number=variable.number, components=components)
    made = Column(
        first=first.astype(np.float32),
        second=second,
        unit=np.asarray(unit, np.float32),
        sources=sources.astype(np.int32),
        places=places.astype(np.float32),
        bias=bias.astype(np.float32),
    )
    assert found is not None  # a column has a number or states
    raw, level, left = (np.concatenate([each[i] for each in predicted]) for i in range(3))
    return made, Prediction(raw, level, left, found.deviations)
