"""Densities for the tests of `prada` by likelihood: columns of every kind, public rows, and random weights."""

import functools

import numpy as np

from understudy.encoding.columns import CategoricalEncoder, NumericEncoder
from understudy.encoding.encoder import Encoder
from understudy.privacy.piecewise import Distribution
from understudy.synthesizers.prada.likelihood.columns import MOST_DIRECT, Column, start_second
from understudy.synthesizers.prada.likelihood.drawing import Densities, quantiles
from understudy.synthesizers.prada.likelihood.parents import sources_of
from understudy.synthesizers.prada.likelihood.parts import Part, parts_of
from understudy.synthesizers.prada.likelihood.pool import Pool, PublicRows
from understudy.synthesizers.prada.likelihood.reading import Reading, reading_of
from understudy.synthesizers.prada.likelihood.variables import Variable, variables_of
from understudy.tables.column import Column as Described
from understudy.tables.schema import Schema

HIDDEN, COMPONENTS = 5, 3
MANY = 40


def category(name: str, shares: np.ndarray, missing: float = 0.0) -> CategoricalEncoder:
    """A column of categories with these shares, of those that are not missing."""
    labels = tuple(f"{name}{i}" for i in range(len(shares)))
    cdf = np.concatenate([[0.0], np.cumsum(shares) / np.sum(shares)])
    cdf[-1] = 1.0
    column = Described(name=name, kind="categorical", values=labels, nullable=missing > 0)
    return CategoricalEncoder(
        column, Distribution(np.arange(len(cdf), dtype=np.float64) - 0.5, cdf, integer=True), missing, labels
    )


def number(name: str, values: list[float], cdf: list[float], missing: float = 0.0, *, whole: bool = False):
    """A column of numbers with this distribution; a repeated knot is an atom."""
    column = Described(name=name, kind="integer" if whole else "continuous", nullable=missing > 0)
    return NumericEncoder(column, Distribution(np.array(values, float), np.array(cdf), integer=whole), missing)


def encoder_of(*columns: CategoricalEncoder | NumericEncoder, rows: float = 5000.0) -> Encoder:
    described = Schema(columns=tuple(each.column for each in columns))
    return Encoder(described, {each.column.name: each for each in columns}, rows)


ENCODER = encoder_of(
    number("a", [-3.0, 0.0, 3.0], [0.0, 0.4, 1.0]),
    category("b", np.array([0.5, 0.3, 0.2])),
    number("c", [-2.0, 0.0, 0.0, 5.0, 5.0, 9.0], [0.0, 0.05, 0.7, 0.75, 0.95, 1.0], missing=0.2),
    category("d", np.array([0.25, 0.75]), missing=0.1),
    category("e", 1.0 / np.arange(1, MANY + 1)),
    number("f", [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5], [0.0, 0.4, 0.7, 0.9, 0.95, 1.0], whole=True),
    number("g", [0.0, 1.0], [0.0, 1.0], missing=0.3),
)
"""A number, few states, atoms and missing values, states that may be missing, many states, a whole number with atoms,
and a number that may be missing but has no atoms."""
VARIABLES = variables_of(ENCODER, ENCODER.schema.names)
FOUR = variables_of(
    encoder_of(*(number(f"c{i}", [-3.0, 3.0], [0.0, 1.0]) for i in range(4))), [f"c{i}" for i in range(4)]
)
"""Four numbers."""


def independent_levels(encoder: Encoder, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Every level by itself, missing as often as was measured."""
    draw = np.random.default_rng(seed)
    missing = {name: each.missing for name, each in encoder.columns.items()}
    return {name: np.where(draw.random(n) < missing[name], np.nan, draw.random(n)) for name in encoder.schema.names}


def reading(variables: tuple[Variable, ...] = VARIABLES, encoder: Encoder = ENCODER) -> Reading:
    """How independent columns are read."""
    if variables is not VARIABLES:
        return Reading(variables, tuple(np.zeros((v.states, 0), np.float32) for v in variables))
    return _reading()


@functools.cache
def _reading() -> Reading:
    pool = Pool(independent_levels(ENCODER, 3000, seed=9), VARIABLES)
    codes = [
        state if v.states else (level * 4).astype(int)
        for v, state, level in zip(
            VARIABLES, pool.states, (np.nan_to_num(pool.levels[v.name]) for v in VARIABLES), strict=True
        )
    ]
    return reading_of(VARIABLES, pool.states, codes, np.ones(3000))


def rows(n: int = 40, seed: int = 0) -> PublicRows:
    """Rows of `VARIABLES` whose columns are independent."""
    return Pool(independent_levels(ENCODER, n, seed), VARIABLES).read(reading())


def every_pair(columns: int) -> np.ndarray:
    """Every column reads all earlier ones."""
    return np.tril(np.ones((columns, columns), bool), -1)


def some_pairs() -> np.ndarray:
    """Pairs of `VARIABLES`: c reads b; d reads a; e reads c and d; f reads e; g reads a, c and e; b reads nothing."""
    pairs = np.zeros((7, 7), bool)
    pairs[[2, 3, 4, 4, 5, 6, 6, 6], [1, 0, 2, 3, 4, 0, 2, 4]] = True
    return pairs


def columns(pairs: np.ndarray | None = None, read: Reading | None = None, seed: int = 0, components: int = COMPONENTS):
    """Random weights of columns that read these pairs, all earlier columns unless told."""
    read = read or reading()
    draw, found = np.random.default_rng(seed), []
    for j, sources in enumerate(sources_of(every_pair(len(read.variables)) if pairs is None else pairs, read)):
        v, table = read.variables[j], read.tables[j]
        many = v.states > MOST_DIRECT
        drawn = table.shape[1] if many else v.states
        second = start_second(HIDDEN, 3 * components * v.number + drawn, number=v.number, components=components)
        found.append(
            Column(
                first=0.5 * draw.standard_normal((len(sources) + 1, HIDDEN + v.number + drawn)).astype(np.float32),
                second=(second + 0.5 * draw.standard_normal(second.shape)).astype(np.float32),
                unit=np.asarray(draw.uniform(0.3, 1.0), np.float32),
                sources=sources.astype(np.int32),
                places=table if many else np.zeros((v.states, 0), np.float32),
                bias=np.log(v.shares).astype(np.float32) if many else np.zeros(0, np.float32),
            )
        )
    return found


def densities(made: list[Column] | None = None, read: Reading | None = None, components: int = COMPONENTS) -> Densities:
    """Densities with these weights, or random ones, before calibration."""
    read = read or reading()
    made = made or columns(read=read, components=components)
    knots = np.repeat(quantiles()[None, :], len(made), axis=0)
    return Densities(reading=read, columns=tuple(made), knots=knots, components=components, limit=4.0)


def parts(made: list[Column], read: Reading | None = None, components: int = COMPONENTS) -> list[Part]:
    return parts_of(made, (read or reading()).variables, components=components)
