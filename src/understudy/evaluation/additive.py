"""Additive models of a table: every column predicted from all others, by one matrix inverse.

A number has a coordinate for its z-score and one for each of six quantile bins, so that it may act in any shape; a
category has one for each value. The one rule: all tables are described by the same coordinates, those of one table that
sets the scale.

Every column is predicted from all others by ridge regression. With M the inverse of the matrix of second moments of all
coordinates, the coefficients of the block j on all others are -M[others, j] M[j, j]^-1, so that one inverse serves all
columns (Hastie, Tibshirani and Friedman 2009, "The Elements of Statistical Learning", 17.3).
"""

import dataclasses
from collections.abc import Collection

import numpy as np

from understudy.evaluation.pair import Codes, Floats, Side, location_and_deviation
from understudy.evaluation.usefulness import area

BINS, MOST_CLASSES, FARTHEST, RIDGE = 6, 20, 5.0, 1e-3
"""Of a number, of a category, in deviations, and per row."""


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """How one column becomes coordinates.

    Attributes:
        number: Whether it is a number; then its first coordinate is the z-score.
        centre, deviation: Of a number.
        edges: Of its bins.
        classes: Of a category, the codes that have a coordinate of their own.
    """

    number: bool
    centre: float = 0.0
    deviation: float = 1.0
    edges: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    classes: Codes = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclasses.dataclass(frozen=True, eq=False)
class Coordinates:
    """The coordinates of a table, by the table that sets the scale."""

    blocks: dict[str, Block]

    @classmethod
    def of(cls, scale: Side) -> "Coordinates":
        blocks = {name: _number_block(column) for name, column in scale.numbers.items()}
        for name, codes in scale.codes.items():
            counts = np.bincount(codes, minlength=scale.sizes[name])
            common = np.argsort(-counts, kind="stable")[: min(MOST_CLASSES, np.count_nonzero(counts))]
            blocks[name] = Block(number=False, classes=common.astype(np.int64))
        return cls(blocks)

    def describe(self, side: Side) -> tuple[Floats, dict[str, slice]]:
        """All coordinates of a table, (rows, coordinates), and where those of each column are."""
        parts, places, start = [], {}, 0
        for name, block in self.blocks.items():
            part = _of_number(side.numbers[name], block) if block.number else _of_codes(side.codes[name], block)
            parts.append(part)
            places[name] = slice(start, start := start + part.shape[1])
        return np.column_stack(parts), places


def _number_block(column: Floats) -> Block:
    centre, deviation = location_and_deviation(column)
    present = column[~np.isnan(column)]
    edges = np.unique(np.quantile(present, np.arange(1, BINS) / BINS)) if len(present) else np.zeros(0)
    return Block(number=True, centre=centre, deviation=deviation, edges=edges)


def _of_number(column: Floats, block: Block) -> Floats:
    missing = np.isnan(column)
    scores = np.clip(np.nan_to_num((column - block.centre) / block.deviation), -FARTHEST, FARTHEST)
    bins = np.searchsorted(block.edges, np.where(missing, block.centre, column), side="right")
    flags = [(bins == place) & ~missing for place in range(len(block.edges) + 1)]
    return np.column_stack([np.where(missing, 0.0, scores), *flags, missing]).astype(np.float64)


def _of_codes(codes: Codes, block: Block) -> Floats:
    flags = [codes == label for label in block.classes]
    return np.column_stack([*flags, ~np.isin(codes, block.classes)]).astype(np.float64)


def scores(train: Side, test: Side, coordinates: Coordinates) -> dict[str, float]:
    """How well each column of `test` is predicted from its others by a model of `train`.

    R² of a number, over the rows that have it; 2·AUC − 1 of a category, one value against the rest, weighted by its
    share. 0 if the column is constant in `test`.
    """
    shown, places = coordinates.describe(train)
    asked, _ = coordinates.describe(test)
    mean = shown.mean(axis=0)
    shown, asked = shown - mean, asked - mean
    inverse = np.linalg.inv(shown.T @ shown / len(shown) + RIDGE * np.eye(shown.shape[1]))
    found = {}
    for name, place in places.items():
        others = np.ones(shown.shape[1], dtype=bool)
        others[place] = False
        coefficients = -inverse[others, place] @ np.linalg.inv(inverse[place, place])
        guess = asked[:, others] @ coefficients
        block = coordinates.blocks[name]
        if block.number:
            found[name] = _r2(guess[:, 0], asked[:, place][:, 0], ~np.isnan(test.numbers[name]))
        else:
            found[name] = _discrimination(guess, test.codes[name], block.classes)
    return found


def target_scores(train: Side, test: Side, coordinates: Coordinates, targets: Collection[str]) -> dict[str, float]:
    """How well each of some columns of `test` is predicted from all columns that are not among them.

    The same ridge regression and the same scores as in `scores`, with the targets hidden from each other.
    """
    shown, places = coordinates.describe(train)
    asked, _ = coordinates.describe(test)
    mean = shown.mean(axis=0)
    shown, asked = shown - mean, asked - mean
    known = np.ones(shown.shape[1], dtype=bool)
    for name in targets:
        known[places[name]] = False
    features = shown[:, known]
    moments = features.T @ features / len(shown) + RIDGE * np.eye(features.shape[1])
    coefficients = np.linalg.solve(moments, features.T @ shown[:, ~known] / len(shown))
    guess = np.zeros_like(asked)
    guess[:, ~known] = asked[:, known] @ coefficients
    found = {}
    for name in targets:
        block, place = coordinates.blocks[name], places[name]
        if block.number:
            found[name] = _r2(guess[:, place][:, 0], asked[:, place][:, 0], ~np.isnan(test.numbers[name]))
        else:
            found[name] = _discrimination(guess[:, place], test.codes[name], block.classes)
    return found


def _r2(guess: Floats, truth: Floats, present: np.ndarray) -> float:
    truth, guess = truth[present], guess[present]
    variance = float(truth.var()) if len(truth) else 0.0
    return 1.0 - float(np.mean((truth - guess) ** 2)) / variance if variance > 1e-12 else 0.0


def _discrimination(guess: Floats, truth: Codes, classes: Codes) -> float:
    """2·AUC − 1 of each value against the rest, weighted by its share among the rows."""
    total = weight = 0.0
    for place, label in enumerate(classes):
        own = truth == label
        share = float(own.mean())
        if 0 < share < 1:
            total += share * (2 * area(guess[:, place], own) - 1)
            weight += share
    return total / weight if weight else 0.0


def propensity(real: Side, synthetic: Side, coordinates: Coordinates) -> tuple[float, float]:
    """pMSE of an additive logistic model that tells two tables apart, and what it would be if they were alike.

    The mean squared distance of the estimated propensity from one half (Snoke et al. 2018, arXiv:1604.06651), and its
    expectation for two samples of one population and one size: (k - 1) / (4 N), with N rows in all and k parameters.
    """
    both = np.concatenate([coordinates.describe(side)[0] for side in (real, synthetic)])
    both = both[:, both.std(axis=0) > 1e-9]
    x = np.column_stack([np.ones(len(both)), (both - both.mean(axis=0)) / both.std(axis=0)])
    y = np.repeat([0.0, 1.0], [real.rows, synthetic.rows])
    beta = np.zeros(x.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-2 * np.eye(x.shape[1])
        step = np.linalg.solve(hessian, x.T @ (y - p) - 1e-2 * beta)
        beta += step
        if np.abs(step).max() < 1e-4:
            break
    p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
    sizes = np.linalg.eigvalsh(x.T @ x)
    rank = int((sizes > 1e-9 * sizes.max()).sum())
    return float(np.mean((p - 0.5) ** 2)), (rank - 1) / (4 * len(x))
