"""Columns in bins of every coarseness, and which columns with which parents may come next. Public facts alone."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import LIGHTEST, Bins, best_cut, places
from understudy.encoding.encoder import Encoder
from understudy.privacy.selection import DependenceCandidate

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""How many coarse bins a column may be seen in, besides its own finest ones."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A column and its parents, and in how many bins each is counted."""

    column: str
    size: int
    parents: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The parents, then the column."""
        return (*self.parents, self.column)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.sizes, self.size)

    @property
    def cells(self) -> int:
        """How many cells the table of the column with its parents has."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class View:
    """One column in bins of every coarseness.

    Attributes:
        masses: The share of each finest bin, from the encoder.
        groups: For each number of coarse bins, the coarse bin of every finest one.
        z: |z| of the finest bins, as in `marginals.z_scores`.
    """

    masses: Floats
    groups: Mapping[int, Whole]
    z: Floats

    @classmethod
    def of(cls, bins: Bins, encoder: Encoder, name: str, z: Floats) -> "View":
        column_map = encoder.columns[name]
        present = np.diff(bins.edges) * (1.0 - column_map.missing)
        where = None
        if column_map.labels is None:
            where = places(column_map.distribution, bins.edges, 0.5 * LIGHTEST / len(present))
        groups = {}
        for size in SIZES:
            if size < bins.size:
                found = np.zeros(len(present), np.int64)
                if size > bins.nullable:
                    parts = size - bins.nullable
                    found = _by_size(present, parts) if where is None else _by_place(present, where, parts)
                found = np.append(found, found.max() + 1) if bins.nullable else found
                groups[int(found.max()) + 1] = found
        groups.pop(1, None)
        groups[bins.size] = np.arange(bins.size)
        masses = np.append(present, column_map.missing) if bins.nullable else present
        masses = np.maximum(masses, 0.0) + 1e-12
        return cls(masses / masses.sum(), groups, z)

    def z_scores(self, size: int) -> Floats:
        """|z| of coarse bins: the root mean square over what they hold."""
        group = self.groups[size]
        squares = np.bincount(group, self.masses * self.z**2, size) / np.bincount(group, self.masses, size)
        return np.sqrt(squares)

    @property
    def sizes(self) -> list[int]:
        return sorted(self.groups)

    def finest(self, limit: float) -> int:
        """The most bins that fit into `limit`, or the fewest there are."""
        return _finest(self.sizes, limit)

    def child_sizes(self, limit: float, *, most: int) -> list[int]:
        """A few sizes in which the column itself may be counted, beside at least one parent in two bins."""
        fit = [size for size in self.sizes if size <= limit / 2] or self.sizes[:1]
        return fit[-1:-8:-2][-most:]

    def filled_in(self, probabilities: Floats, size: int) -> Floats:
        """Coarse probabilities along the last axis, spread over the finest bins as the encoder has them."""
        group = self.groups[size]
        within = self.masses / np.bincount(group, self.masses, size)[group]
        return probabilities[..., group] * within


def _by_place(masses: Floats, where: Floats, size: int) -> Whole:
    """Neighbouring bins that are alike together, as the finest ones are made."""
    starts = best_cut(np.maximum(masses, 1e-12), where, most=size, least=LIGHTEST / size * float(masses.sum()))
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _by_size(masses: Floats, size: int) -> Whole:
    """The heaviest bins each alone, the rest together."""
    rank = np.empty(len(masses), np.int64)
    rank[np.argsort(-masses, kind="stable")] = np.arange(len(masses))
    return np.minimum(rank, size - 1)


def _finest(sizes: Sequence[int], limit: float) -> int:
    return max((size for size in sizes if size <= limit), default=min(sizes))


def even_sizes(choices: Sequence[Sequence[int]], limit: float) -> tuple[int, ...] | None:
    """A size for every parent, as even as their bins allow, whose product fits into `limit`; None if there is none."""
    sizes = [0] * len(choices)
    order = sorted(range(len(choices)), key=lambda i: choices[i][-1])
    for left, i in zip(range(len(choices), 0, -1), order, strict=True):
        sizes[i] = _finest(choices[i], limit ** (1 / left) + 1e-9)
        limit /= sizes[i]
    return tuple(sizes) if limit >= 1 - 1e-9 else None


def parent_sets(
    waiting: Sequence[str], placed: Sequence[str], count: int, *, most: int, draw: np.random.Generator
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Columns with parent sets of `count`: all of them if they are few, else about `most` at random."""
    if len(waiting) * math.comb(len(placed), count) <= most:
        for column in waiting:
            for parents in itertools.combinations(placed, count):
                yield column, parents
        return
    drawn = {
        (int(draw.integers(len(waiting))), *np.sort(draw.choice(len(placed), count, replace=False)).tolist())
        for _ in range(max(most, 0))
    }
    for column, *parents in sorted(drawn):
        yield waiting[column], tuple(placed[int(i)] for i in parents)


def value_weights(views: Mapping[str, View], candidate: Candidate) -> tuple[Floats, Floats]:
    """The value weighting of the cells of all parents together, and of those of the column: |z|.

    Of several parents the largest |z| counts: with a further parent no cell weighs less.
    """
    across = np.zeros(1)
    for name, size in zip(candidate.parents, candidate.sizes, strict=True):
        across = np.maximum.outer(across, views[name].z_scores(size)).ravel()
    return across, views[candidate.column].z_scores(candidate.size)


def described(
    views: Mapping[str, View], candidate: Candidate, weights: tuple[Floats, Floats], offset: float
) -> DependenceCandidate:
    """The candidate as `select_dependence` takes it."""
    across, along = weights
    return DependenceCandidate(
        columns=candidate.columns,
        groups=groups_of(views, candidate),
        shape=candidate.shape,
        across=across,
        along=along,
        offset=offset,
    )


def groups_of(views: Mapping[str, View], candidate: Candidate) -> tuple[Whole, ...]:
    """Of each parent and of the column, the coarse bin of every finest one."""
    return tuple(views[name].groups[size] for name, size in zip(candidate.columns, candidate.shape, strict=True))
