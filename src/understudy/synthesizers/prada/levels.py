"""Levels from generated features: scores go through the normal distribution function, categories to their middle.

The one rule: no row comes here. Everything is a function of the encoder, which is public once it is fitted.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder, Levels
from understudy.synthesizers.prada.layout import Layout

Edges = Mapping[str, NDArray]
"""For every categorical column, the levels between its values; an empty entry marks a pass-through column."""


def category_edges(encoder: Encoder, layout: Layout) -> dict[str, NDArray]:
    """The edges of every categorical column, and an empty entry for every pass-through column."""
    return {
        block.name: np.zeros(0)
        if encoder.columns[block.name].is_pass_through
        else encoder.columns[block.name].distribution.cdf
        for block in layout.blocks
        if not block.number or encoder.columns[block.name].is_pass_through
    }


def to_levels(made: NDArray, layout: Layout, edges: Edges) -> Levels:
    """Levels from generated rows of features, (rows, features): NaN for a missing value."""
    from scipy.special import ndtr

    levels = {}
    for block, start in zip(layout.blocks, layout.starts, strict=True):
        if block.categories:
            category = made[:, start + block.number : start + block.width].argmax(axis=1)
        else:
            category = np.zeros(len(made), int)
        if block.number:
            score = made[:, start].astype(np.float64)
            level = score if block.name in edges else ndtr(score)
            levels[block.name] = np.where(category == 1, np.nan, level)
        else:
            cdf = edges[block.name]
            middle = np.append((cdf[:-1] + cdf[1:]) / 2, np.nan)
            levels[block.name] = middle[category]
    return levels


def edge_arrays(layout: Layout, edges: Edges) -> dict[str, NDArray]:
    """The edges as arrays, by the place of their column."""
    places = {name: i for i, name in enumerate(layout.names)}
    return {f"edges/{places[name]}": value for name, value in edges.items()}


def edges_from(arrays: Mapping[str, NDArray], layout: Layout) -> dict[str, NDArray]:
    """The edges that `edge_arrays` wrote down."""
    return {name: arrays[f"edges/{i}"] for i, name in enumerate(layout.names) if f"edges/{i}" in arrays}
