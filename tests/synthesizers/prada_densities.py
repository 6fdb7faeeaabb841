"""Densities for the tests of `prada` by likelihood: random weights over small layouts, and rows of features."""

import numpy as np

from understudy.synthesizers.prada.layout import Layout, categorical, numeric
from understudy.synthesizers.prada.likelihood.density import Densities, start_second
from understudy.synthesizers.prada.likelihood.parents import sources_of

LAYOUT = Layout(
    (numeric("a"), categorical("b", 3), numeric("c", nullable=True), categorical("d", 2, nullable=True), numeric("e"))
)
"""A column of every kind: 11 features."""
FOUR = Layout(tuple(numeric(f"c{i}") for i in range(4)))
HIDDEN, COMPONENTS = 5, 3


def every_pair(layout: Layout) -> np.ndarray:
    """Every column reads all earlier ones."""
    return np.tril(np.ones((layout.columns, layout.columns), bool), -1)


def some_pairs() -> np.ndarray:
    """Pairs of `LAYOUT`: column e reads c and b, d reads a, c reads b."""
    pairs = np.zeros((5, 5), bool)
    pairs[[4, 4, 3, 2], [2, 1, 0, 1]] = True
    return pairs


def rows(n: int = 40, seed: int = 0) -> np.ndarray:
    """Rows of features of `LAYOUT`, (features, n): scores, one category each, no score where it is missing."""
    draw = np.random.default_rng(seed)
    x = np.zeros((n, LAYOUT.features), np.float32)
    for block, at in zip(LAYOUT.blocks, LAYOUT.starts, strict=True):
        category = draw.integers(0, max(block.categories, 1), n)
        if block.categories:
            x[np.arange(n), at + block.number + category] = 1.0
        if block.number:
            x[:, at] = draw.standard_normal(n) * (category == 0 if block.categories else 1)
    return x.T


def densities(
    pairs: np.ndarray | None = None, layout: Layout = LAYOUT, components: int = COMPONENTS, seed: int = 0
) -> Densities:
    """Random weights of columns that read these pairs, all earlier columns unless told; none where nothing is read."""
    draw = np.random.default_rng(seed)
    sources = sources_of(every_pair(layout) if pairs is None else pairs, layout)
    second = start_second(layout, HIDDEN, components)
    first = 0.5 * draw.standard_normal((layout.columns, sources.shape[1] + 1, HIDDEN + layout.width))
    first[:, :-1] *= (sources >= 0)[:, :, None]
    second = second + 0.5 * draw.standard_normal(second.shape)
    unit = draw.uniform(0.3, 1.0, layout.columns)
    first, second, unit = (np.asarray(value, np.float32) for value in (first, second, unit))
    return Densities(first, second, unit, sources)
