"""A tilt: weights of public rows under which they have the counts and moments that were measured.

Let q be the model that the rows were drawn from, f_k a function of a row (whether it lies in a cell, or a product of
two features) and t_k the measured mean of f_k, with noise of deviation τ_k; the chance in the drawn rows counts as
noise as well. The tilted model is p(x) ∝ q(x) exp Σ_k θ_k f_k(x), with the θ that minimise

    log E_q exp Σ_k θ_k f_k - Σ_k θ_k t_k + ½ Σ_k λ_k θ_k²,    λ_k = τ_k² / ω_k.

At the minimum E_p f_k = t_k - λ_k θ_k: what is within the noise stays as q has it. It is the most likely model if the
true mean of f_k lies about that of q with a variance of ω_k times that of f_k. ω is estimated: by how much farther the
measured means are from those of q than their noise explains.

The one rule: public mathematics. Rows of q and released numbers come in; no private row does.

Where the measurements are sharp and q is far from them, few rows would carry all the weight, and what is learned from
them would be their noise. So weights are softened until they are worth a quarter of the rows.

Sources: Della Pietra, Della Pietra and Lafferty (1997), "Inducing features of random fields"; Efron and Morris (1973),
"Stein's estimation rule and its competitors", for ω.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.minimisation import minimise
from understudy.core.processors import in_threads
from understudy.encoding.encoder import Levels
from understudy.graphical.marginals import Measured
from understudy.synthesizers.prada.likelihood.moments import NoisyMoments

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

ITERATIONS = 20
"""L-BFGS makes at most this many steps on all rows."""
FIRST_EVERY, FIRST_ITERATIONS = 8, 60
"""A first θ is found from every eighth row, in at most so many steps, ..."""
LEAST_FIRST = 2000
"""... if there are so many of them."""
TOLERANCE = 1e-6
"""It ends when a step gains less than this part of the objective: nearer is within the noise anyway."""
LIGHTEST = 1e-9
"""Rows that weigh less than this part of the heaviest count as nothing."""
LARGEST_WEIGHT = 20.0
"""No row weighs more than this many times the mean: beyond it a few rows would stand for many."""
LEAST_EFFECTIVE = 0.25
"""The weights are worth at least this part of the rows, Σw² <= (Σw)² / (this part · rows): else all are softened."""
BLOCK_CELLS = 2**18
"""Rows of a pool are looked at in blocks that have about so many numbers in each term and stay in the cache, ..."""
MOST_BLOCK, LEAST_BLOCK = 2**13, 2**12
"""... but between so many rows."""
TRIANGLE = 64
"""A product with a triangular matrix is made of so many of its rows at a time, without what is zero before them."""
BISECTIONS = 20
"""The power that softens weights is found by so many bisections."""
CLEARLY = 2.0
"""Many gaps are larger than noise explains if their mean square is so many of its deviations above the noise's."""
LEAST_EXCESS = 1e-6
"""A variance ω below this counts as this: means that agree within their noise are left as they are."""

EXCESS_OF_SINGLE = 1e-4
"""The variance ω of a single column is at least this."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CountTerm:
    """Measured marginals: which cells every row of the pool is in, the measured shares, and λ of each cell.

    Attributes:
        places: The cell of every row in each marginal, among those of all: (rows, marginals).
        variances: About those of the cells, in the pool.
    """

    cliques: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]  # their cells
    places: NDArray[np.int32]
    targets: Floats
    penalty: Floats
    variances: Floats

    @property
    def size(self) -> int:
        return len(self.targets)

    @property
    def width(self) -> int:
        """Numbers for each row."""
        return max(self.places.shape[1], 1)

    @functools.cached_property
    def cells(self) -> "sparse.csr_array":
        """1 where a row is in a cell: (rows, cells)."""
        from scipy import sparse

        rows, width = self.places.shape
        starts = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
        return sparse.csr_array((_ones(rows * width), self.places.ravel(), starts), shape=(rows, self.size))

    def part(self, rows: slice) -> "CountTerm":
        """The same term, of some rows of the pool."""
        return dataclasses.replace(self, places=self.places[rows])

    def scores(self, theta: Floats) -> Floats:
        return self.cells @ theta

    def sums(self, weights: Floats) -> Floats:
        return self.cells.T @ weights

    def gaps(self, weights: Floats) -> Floats:
        """Weighted minus measured means."""
        return self.sums(weights) - self.targets

    def dot(self, theta: Floats) -> float:
        return float(theta @ self.targets)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MomentTerm:
    """Measured products of features: clipped rows of the pool, which products, their measured means, and λ of each."""

    used: NDArray[np.int64]  # which features of all
    rows: NDArray[np.float32]  # (features that are used, rows)
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]]
    targets: Floats
    penalty: Floats
    variances: Floats  # about those of the products, in the pool

    @property
    def size(self) -> int:
        return len(self.targets)

    @property
    def width(self) -> int:
        """Numbers for each row."""
        return max(len(self.rows), 1)

    def part(self, rows: slice) -> "MomentTerm":
        """The same term, of some rows of the pool."""
        return dataclasses.replace(self, rows=np.ascontiguousarray(self.rows[:, rows]))

    def scores(self, theta: Floats) -> Floats:
        matrix, product = np.zeros((len(self.rows), len(self.rows)), np.float32), np.empty_like(self.rows)
        matrix[np.minimum(*self.pairs), np.maximum(*self.pairs)] = theta
        for i in range(0, len(matrix), TRIANGLE):
            np.matmul(matrix[i : i + TRIANGLE, i:], self.rows[i:], out=product[i : i + TRIANGLE])
        return np.einsum("fr,fr->r", self.rows, product).astype(np.float64)

    def sums(self, weights: Floats) -> Floats:
        light = np.where(weights > LIGHTEST * weights.max(), weights, 0.0).astype(np.float32)  # no slow denormals
        rows = self.rows * np.sqrt(light)
        return (rows @ rows.T)[self.pairs].astype(np.float64)  # of a matrix with itself, which takes half the time

    def gaps(self, weights: Floats) -> Floats:
        return self.sums(weights) - self.targets

    def dot(self, theta: Floats) -> float:
        return float(theta @ self.targets)


Term = CountTerm | MomentTerm


@functools.lru_cache(maxsize=4)
def _ones(count: int) -> Floats:
    """So many ones, which all blocks share, so that they stay in the cache."""
    found = np.ones(count)
    found.setflags(write=False)
    return found


def count_term(measured: Sequence[Measured], codes: Mapping[str, Codes], rows: float) -> CountTerm:
    """The term of measured marginals; those of several columns that the pool has within the noise are left out.

    Single columns stay in, so that what is right already is not lost to the others. A marginal that was measured more
    than once is counted once, with the same weights of the rows.

    Args:
        codes: The bin of every row of the pool, by column.
        rows: How many rows the table has.
    """
    found: dict[tuple[str, ...], _Counted] = {}
    pool, size = len(next(iter(codes.values()))), 0
    for each in measured:
        code = np.ravel_multi_index([codes[name] for name in each.clique], each.counts.shape)
        share, noise = each.counts.ravel() / rows, each.sigma / rows
        made = np.bincount(code, minlength=len(share)) / pool
        excess = float(np.sum((share - made) ** 2)) - len(share) * noise**2 - 1.0 / pool
        if len(each.clique) == 1:
            excess = max(excess, EXCESS_OF_SINGLE)
        if excess <= LEAST_EXCESS:
            continue
        penalty = (noise**2 + made / pool) / excess
        if each.clique in found:
            found[each.clique] = found[each.clique].with_another(share, penalty)
        else:
            found[each.clique] = _Counted((code + size).astype(np.int32), share, penalty, made)
            size += len(share)
    parts, nothing = list(found.values()), np.zeros(0)
    return CountTerm(
        cliques=tuple(found),
        sizes=tuple(len(each.targets) for each in parts),
        places=_by_row([each.places for each in parts], pool),
        targets=np.concatenate([nothing, *(each.targets for each in parts)]),
        penalty=np.concatenate([nothing, *(each.penalty for each in parts)]),
        variances=np.concatenate([nothing, *(each.variances for each in parts)]),
    )


def _by_row(places: Sequence[NDArray[np.int32]], rows: int) -> NDArray[np.int32]:
    """Cells side by side, (rows, marginals): some rows at a time, which stay in the cache while they are turned."""
    found = np.empty((rows, len(places)), np.int32)
    for i in range(0, rows, MOST_BLOCK):
        for j, each in enumerate(places):
            found[i : i + MOST_BLOCK, j] = each[i : i + MOST_BLOCK]
    return found


class _Counted(NamedTuple):
    """A marginal as the term counts it: the cell of every row, and targets, λ and variances of the cells."""

    places: NDArray[np.int32]
    targets: Floats
    penalty: Floats
    variances: Floats

    def with_another(self, targets: Floats, penalty: Floats) -> "_Counted":
        """The same marginal, measured once more: one θ in place of the sum of two.

        With θ₁ + θ₂ = θ, the least of Σ ½ λ_i θ_i² - θ_i t_i is ½ λ θ² - θ t and what does not depend on θ, where
        λ = λ₁ λ₂ / (λ₁ + λ₂) and t = (λ₂ t₁ + λ₁ t₂) / (λ₁ + λ₂).
        """
        total = np.maximum(self.penalty + penalty, 1e-300)
        joint = (penalty * self.targets + self.penalty * targets) / total
        return self._replace(targets=joint, penalty=self.penalty * penalty / total)


def moment_term(levels: Levels, moments: NoisyMoments) -> MomentTerm:
    """The term of measured moments, products of features of two columns; those within the noise are left out.

    ω is that of all products, if they are farther from the pool than noise explains; or that of one by itself, if its
    gap is larger than the largest of so many that are nothing but noise.
    """
    x = moments.clipped(moments.features.of_levels(levels))
    products = product_gaps(x, moments)
    ratios = products.signals()
    kept = ratios > 0.0
    one, other = (each[kept] for each in products.pairs)
    used, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    pairs = place[: len(one)], place[len(one) :]
    return MomentTerm(
        used=used,
        rows=x[used],
        pairs=pairs,
        targets=moments.means[one, other],
        penalty=1 / ratios[kept],
        variances=products.variances[kept],
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProductGaps:
    """How far measured means of products of two features are from those of public rows.

    Attributes:
        pairs: Features of two columns.
        z: Measured minus public means, in deviations of what is noise in them, the chance in the public rows included.
        variances: About those of the products.
        numbers: Which are products of two numbers.
    """

    pairs: tuple[Codes, Codes]
    z: Floats
    variances: Floats
    numbers: NDArray[np.bool_]

    def signals(self) -> Floats:
        """ω of each gap, its variance beyond that of its noise, in units of that; 0 where noise explains it.

        One that is larger than the largest of so many that are nothing but noise has its own. Products of two numbers
        have a common one besides, as large as what their gaps have beyond noise between them. Those of categories are
        too many for that, and most of them say nothing.
        """
        count, excess = max(len(self.z), 2), self.z**2 - 1.0
        ours = excess[self.numbers]
        typical = float(ours.mean()) if len(ours) else 0.0
        typical = typical if typical > CLEARLY * math.sqrt(2.0 / max(len(ours), 2)) else 0.0
        common = np.where(self.numbers, typical, 0.0)
        return np.where(np.abs(self.z) > math.sqrt(2.0 * math.log(count)), np.maximum(excess, common), common)


def product_gaps(x: NDArray[np.float32], moments: NoisyMoments) -> ProductGaps:
    """The gaps of all products of features of two columns, for clipped features of public rows: (features, rows)."""
    owners = moments.features.owners
    one, other = np.nonzero(np.triu(owners[:, None] != owners[None, :]))
    products = (x @ x.T / x.shape[1]).astype(np.float64)
    squares = np.maximum(np.diag(products), 1e-9)
    variances = squares[one] * squares[other]
    noise = np.sqrt(moments.noise**2 + variances / x.shape[1])
    is_number = np.array([feature.category is None for feature in moments.features.features])
    return ProductGaps(
        pairs=(one, other),
        z=(moments.means[one, other] - products[one, other]) / noise,
        variances=variances,
        numbers=is_number[one] & is_number[other],
    )


def total_gap(
    codes: Mapping[str, Codes], levels: Levels, measured: Sequence[Measured], moments: NoisyMoments, rows: float
) -> float:
    """How far public rows are from all that was measured: mean squared gaps of counts and of moments, in deviations.

    What chance explains, in the rows and in the noise, is subtracted.
    """
    rows, pool = max(rows, 1.0), len(next(iter(codes.values())))
    total = []
    for each in measured:
        code = np.ravel_multi_index([codes[name] for name in each.clique], each.counts.shape)
        share, noise = each.counts.ravel() / rows, each.sigma / rows
        made = np.bincount(code, minlength=len(share)) / pool
        chance = len(share) * noise**2 + 1.0 / pool
        total.append(max(float(np.sum((share - made) ** 2)) - chance, 0.0) / chance)
    products = product_gaps(moments.clipped(moments.features.of_levels(levels)), moments)
    of_moments = max(float(np.mean(products.z**2)) - 1.0, 0.0) if len(products.z) else 0.0
    return float(np.mean(total)) + of_moments if total else of_moments


class Tilted(NamedTuple):
    """Weights of the rows of a pool.

    Attributes:
        weights: Of mean 1.
        effective: How many even rows they would be worth without softening, as a part of all.
    """

    weights: Floats
    effective: float


def tilt(terms: Sequence[Term], rows: int) -> Tilted:
    """Weights under which the rows of a pool have what was measured."""
    terms = [term for term in terms if term.size]
    if not terms:
        return Tilted(np.ones(rows), 1.0)
    scores = _scores(terms, solve(terms, rows))
    return Tilted(_weights(scores, softening(scores)), effective_part(_weights(scores, 1.0)))


def solve(terms: Sequence[Term], rows: int) -> list[Floats]:
    """θ of every term: first of a few of the rows, then, from there, of all.

    The curvature along θ_k is about v_k + λ_k, so θ is found in units of its root.
    """
    ends = np.cumsum([term.size for term in terms])[:-1]
    found = np.zeros(sum(term.size for term in terms))
    if not len(found):
        return np.split(found, ends)
    unit = 1.0 / np.sqrt(np.concatenate([term.variances + term.penalty for term in terms]))
    for every, iterations in ((FIRST_EVERY, FIRST_ITERATIONS), (1, ITERATIONS)):
        if every == 1 or rows >= LEAST_FIRST * every:
            objective = _Objective([term.part(slice(None, None, every)) for term in terms], -(-rows // every), unit)
            found = minimise(objective, found, iterations=iterations, tolerance=TOLERANCE)
    return np.split(found * unit, ends)


class _Objective:
    """What θ minimises, and its slope, with θ in some unit.

    Rows are added up in blocks, on all cores; always in the same ones, so that sums are always the same. The weights of
    a block are in units of its largest until all are known.
    """

    def __init__(self, terms: Sequence[Term], rows: int, unit: Floats):
        self.terms, self.rows, self.unit = terms, rows, unit
        self.ends = np.cumsum([term.size for term in terms])[:-1]
        length = min(max(BLOCK_CELLS // max(term.width for term in terms), LEAST_BLOCK), MOST_BLOCK)
        places = [slice(i, min(i + length, rows)) for i in range(0, rows, length)]
        self.blocks = [[term.part(place) for term in terms] for place in places]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        parts = np.split(theta * self.unit, self.ends)

        def sums(block: Sequence[Term]) -> tuple[float, Floats]:
            """The largest score of a block, and weights and terms summed over its rows, in units of its weight."""
            scores = _scores(block, parts)
            largest = float(scores.max())
            weights = np.exp(scores - largest)
            return largest, np.concatenate([[weights.sum()], *(term.sums(weights) for term in block)])

        found = in_threads(sums, self.blocks, length=self.rows)
        largest = max(each for each, _ in found)
        summed = np.sum([math.exp(each - largest) * own for each, own in found], axis=0)
        total, slopes = float(summed[0]), summed[1:]
        value = largest + math.log(total / self.rows)
        for term, part in zip(self.terms, parts, strict=True):
            value += 0.5 * float(np.sum(term.penalty * part**2)) - term.dot(part)
        wanted = [term.targets - term.penalty * part for term, part in zip(self.terms, parts, strict=True)]
        return value, (slopes / total - np.concatenate(wanted)) * self.unit


def softening(log_weights: Floats) -> float:
    """The largest power, at most 1, to which weights are worth `LEAST_EFFECTIVE` of the rows."""
    low, high = 0.0, 1.0
    if effective_part(_weights(log_weights, high)) >= LEAST_EFFECTIVE:
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = effective_part(_weights(log_weights, middle)) >= LEAST_EFFECTIVE
        low, high = (middle, high) if enough else (low, middle)
    return low


def _weights(log_weights: Floats, power: float) -> Floats:
    weights = np.exp(power * (log_weights - log_weights.max()))
    weights = np.minimum(weights / weights.mean(), LARGEST_WEIGHT)
    return weights / weights.mean()


def effective_part(weights: Floats) -> float:
    """How many even rows weighted ones are worth, as a part of them: (Σw)² / (n Σw²)."""
    return float(np.sum(weights) ** 2 / (len(weights) * np.sum(weights**2)))


def _scores(terms: Sequence[Term], parts: Sequence[Floats]) -> Floats:
    """Σ_k θ_k f_k of every row."""
    return np.sum([term.scores(part) for term, part in zip(terms, parts, strict=True)], axis=0)
