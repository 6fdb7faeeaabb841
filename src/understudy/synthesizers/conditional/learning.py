"""How densities are learned from released numbers: the most likely log-linear model that has them.

Let f be the functions of what a column reads and g those of the column (basis.py). What was released are covariances t
of f and g over private rows, with noise of deviation τ. The density of the column is fitted on rows of a pool, whose
contexts are those that it will be drawn given:

    minimise  mean log Σ_b exp(logit_b) - Σ W t - Σ constant · share + ½ Σ λ W²,    λ = τ² / (v s²).

At the minimum the pool has the covariances t - λ W: what is within the noise stays as it would be without W. s² is the
variance of f times that of g: a weight moves its covariance by about W s², so that this is the best estimate of a
weight whose square is expected to be v, less for higher frequencies. It is the conditional model of maximum entropy
that has these covariances, or the most likely one under a normal prior of the weights. That two columns of a context
say the same is known from the pool, and counted once; t is what is expected of the released covariances then
(`targets.expected_weights`).

The one rule: no private row comes here.

Sources: Berger, Della Pietra and Della Pietra (1996), "A maximum entropy approach to natural language processing";
Nocedal (1980), "Updating quasi-Newton matrices with limited storage".
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.density import Column, add_stay
from understudy.synthesizers.conditional.pools import CodedPool
from understudy.synthesizers.conditional.targets import Targets, expected_weights

Floats = NDArray[np.float64]
Single = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]

ITERATIONS = 40
"""L-BFGS makes at most so many steps, unless it is told otherwise; it starts where the last fit ended."""
TOLERANCE = 1e-7
"""It ends when a step gains less than this part of the objective."""
MEMORY = 20
"""It remembers so many steps."""
LEAST_PENALTY = 2e-4
"""λ v / s² is at least this, however little noise there is."""
LANDING_PENALTY = 1e-4
"""λ of the orders that gaps lead to."""
CLASH_PENALTY = 0.01
"""Of gaps, λ of a bin and of an order besides, times its share. What is measured of gaps and of orders has noise, and
perhaps no density has both; without it, weights would grow without end then."""
SINGULAR = 1e-6
"""Added to curvatures, which rounding may leave without an inverse."""
STAY_PENALTY = 1e-5
"""λ of staying with a category."""
LEAST_SHARE = 1e-6
"""No bin is taken to be rarer than this."""


def learned(
    j: int,
    bases: Bases,
    targets: Targets,
    pool: CodedPool,
    rows: NDArray[np.bool_],
    start: Column | None,
    *,
    iterations: int = ITERATIONS,
) -> Column:
    """The density of column j.

    Args:
        rows: The rows of the pool in which it is drawn.
        start: What an earlier fit found.
        iterations: L-BFGS makes at most so many steps.
    """
    from scipy.optimize import minimize

    problem = _Problem(j, bases, targets, pool, rows)
    first = problem.packed(start)
    options = {"maxiter": iterations, "ftol": TOLERANCE, "maxcor": MEMORY}
    with np.errstate(over="ignore", invalid="ignore"):  # a line search may look too far
        found = minimize(problem.objective, first, jac=True, method="L-BFGS-B", options=options)
    return problem.column(found.x if np.all(np.isfinite(found.x)) else first)


def mixed(old: Column | None, new: Column, part: float) -> Column:
    """A density between two: logits are this part of the way from the old one's to the new one's."""
    if old is None or part >= 1.0:
        return new
    rest, weights = 1.0 - part, part * new.weights
    kept = np.flatnonzero(np.isin(old.reads, new.reads))
    weights[np.searchsorted(new.reads, old.reads[kept])] += rest * old.weights[kept]
    return new._replace(
        weights=weights,
        constants=part * new.constants + rest * old.constants,
        stay=part * new.stay + rest * old.stay,
        landings=part * new.landings + rest * old.landings if old.landings.size else new.landings,
    )


class _Part(NamedTuple):
    """The weights of one own function.

    Attributes:
        function: Which one.
        reads: Which of the functions that are read have a weight.
        place: Their coordinates.
        penalty: λ of each.
        wanted: The released covariances.
        scale: Turns coordinates into weights.
    """

    function: int
    reads: Whole
    place: slice
    penalty: Floats
    wanted: Floats
    scale: Floats


class _Problem:
    """The objective of one column, in coordinates in which it is about as curved in all directions.

    Functions are taken about their means in the pool, so that constants and weights are nearly independent. With C the
    covariances of the functions that are read and s² the variance of an own function, the curvature along its weights
    is at most s² C + λ, and its inverse root scales them. Coordinates are those of weights, of constants, of landings
    if there are any, and of staying.
    """

    def __init__(self, j: int, bases: Bases, targets: Targets, pool: CodedPool, rows: NDArray[np.bool_]):
        own, self._targets, self._labels = bases.of[j], targets, len(bases.bins[j].edges) - 1
        self._table = own.table.astype(np.float32)
        read, self._row_weights = pool.functions[rows][:, targets.reads], pool.weights[rows][:, None] / pool.count
        part = float(self._row_weights.sum())
        self._middle = (read.T @ self._row_weights)[:, 0].astype(np.float64) / part
        self._f = np.ascontiguousarray(read - self._middle.astype(np.float32))
        shares = np.maximum(targets.shares, LEAST_SHARE)
        self._shares = shares * (part / float(shares.sum()))
        self._parts = self._parts_of(j, bases)
        self._used = [each.function for each in self._parts]
        self._own = np.ascontiguousarray(self._table[:, self._used])
        self._before = None if targets.stay is None else pool.codes[targets.before][rows]
        lands = targets.landings is not None and pool.landings is not None
        self._landings = pool.landings[rows] if lands and pool.landings is not None else None
        wanted = targets.landings if lands and targets.landings is not None else np.zeros(0)
        self._landed = wanted * (part / max(float(wanted.sum()), 1e-12))
        sizes = [sum(len(each.reads) for each in self._parts), len(self._shares), len(self._landed)]
        ends = np.cumsum([0, *sizes]).tolist()
        self._places = [slice(*ends[i : i + 2]) for i in range(3)]
        self._size = ends[-1] + (self._before is not None)

    def _parts_of(self, j: int, bases: Bases) -> list[_Part]:
        own, targets, found, first = bases.of[j], self._targets, list[_Part](), 0
        active = np.isfinite(targets.noise)
        among = (self._f.T @ (self._f * self._row_weights)).astype(np.float64)
        spreads = np.maximum(bases.squares - bases.means**2, 1e-4)[targets.reads]
        degrees = bases.degrees[targets.reads].astype(np.float64)
        for q in np.flatnonzero(active.any(axis=0)).tolist():
            reads = np.flatnonzero(active[:, q])
            mean = float(self._shares @ own.table[:, q])
            variance = max(float(self._shares @ own.table[:, q] ** 2) - mean**2, 1e-4)
            information = np.maximum(spreads[reads] * variance, 1e-7)
            prior = targets.prior[reads] / (degrees[reads] * own.degrees[q]) ** 2
            penalty = np.maximum(targets.noise[reads, q] ** 2 / information, LEAST_PENALTY * information) / prior
            curvature = variance * among[np.ix_(reads, reads)]
            noise = targets.noise[reads, q]
            wanted = curvature @ expected_weights(targets.covariances[reads, q], noise, curvature, prior)
            factor = np.linalg.cholesky(curvature + np.diag(penalty + SINGULAR))
            place = slice(first, first + len(reads))
            scale = np.linalg.inv(factor).T.astype(np.float64)
            found.append(_Part(q, reads, place, penalty, wanted, scale))
            first += len(reads)
        return found

    def _weights(self, x: Floats) -> Floats:
        """Of the own functions that are used: (functions that are read, functions)."""
        weights = np.zeros((len(self._middle), len(self._used)))
        for at, part in enumerate(self._parts):
            weights[part.reads, at] = part.scale @ x[part.place]
        return weights

    def _constants(self, x: Floats) -> tuple[Floats, Floats, float]:
        """The constants of bins and of landings, and that of staying."""
        bins, lands = x[self._places[1]] / np.sqrt(self._shares), x[self._places[2]] / np.sqrt(self._landed + 1e-4)
        return bins, lands, float(x[-1]) if self._before is not None else 0.0

    def objective(self, x: Floats) -> tuple[float, Floats]:
        """The value, and its slopes."""
        weights, (bins, lands, stay) = self._weights(x), self._constants(x)
        chances, value = self._chances(weights, bins, lands, stay)
        value -= float(bins @ self._shares)
        clash = np.zeros(len(bins)) if self._landings is None else CLASH_PENALTY * self._shares
        apart = bins - np.log(self._shares)
        value += float(0.5 * clash @ apart**2)
        slopes = np.zeros(len(x))
        by_weight = (self._f.T @ (chances @ self._own)).astype(np.float64)
        for at, part in enumerate(self._parts):
            own = weights[part.reads, at]
            value += float(np.sum(0.5 * part.penalty * own**2 - own * part.wanted))
            slopes[part.place] = part.scale.T @ (by_weight[part.reads, at] - part.wanted + part.penalty * own)
        slopes[self._places[1]] = (chances.sum(axis=0, dtype=np.float64) - self._shares + clash * apart) / np.sqrt(
            self._shares
        )
        if self._landings is not None:
            made = np.bincount(self._landings.ravel(), chances.ravel(), len(lands))
            penalty = LANDING_PENALTY + CLASH_PENALTY * self._landed
            value += float(0.5 * penalty @ lands**2 - lands @ self._landed)
            by_landing = made - self._landed + penalty * lands
            slopes[self._places[2]] = by_landing / np.sqrt(self._landed + 1e-4)
        if self._before is not None and self._targets.stay is not None:
            rows = np.flatnonzero(self._before < self._labels)
            made = float(chances[rows, self._before[rows]].sum(dtype=np.float64))
            value += 0.5 * STAY_PENALTY * stay**2 - stay * self._targets.stay
            slopes[-1] = made - self._targets.stay + STAY_PENALTY * stay
        return value, slopes

    def _chances(self, weights: Floats, bins: Floats, lands: Floats, stay: float) -> tuple[Single, float]:
        """The weighted probability of every bin, (rows, bins), and the weighted mean of log Σ exp(logit)."""
        logits = (self._f @ weights.astype(np.float32)) @ self._own.T
        logits += bins.astype(np.float32)
        if self._before is not None:
            add_stay(logits, self._before, stay, self._labels)
        if self._landings is not None:
            logits += lands.astype(np.float32)[self._landings]
        top = logits.max(axis=1, keepdims=True)
        logits -= top
        np.exp(logits, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        value = float(((np.log(total) + top) * self._row_weights).sum(dtype=np.float64))
        logits *= self._row_weights / total
        return logits, value

    def packed(self, start: Column | None) -> Floats:
        """The coordinates of an earlier fit; of none, those of a column that depends on nothing."""
        x = np.zeros(self._size)
        weights, constants = np.zeros((len(self._middle), self._table.shape[1])), np.log(self._shares)
        if start is not None:
            place = {int(read): i for i, read in enumerate(self._targets.reads)}
            kept = [i for i, read in enumerate(start.reads.tolist()) if read in place]
            weights[[place[int(start.reads[i])] for i in kept]] = start.weights[kept]
            constants = start.constants + self._table.astype(np.float64) @ (weights.T @ self._middle)
            if self._before is not None:
                x[-1] = start.stay
            if len(start.landings) == len(self._landed):
                x[self._places[2]] = start.landings * np.sqrt(self._landed + 1e-4)
        for part in self._parts:
            x[part.place] = np.linalg.solve(part.scale, weights[part.reads, part.function])
        x[self._places[1]] = constants * np.sqrt(self._shares)
        return x

    def column(self, x: Floats) -> Column:
        """The density at these coordinates."""
        weights = np.zeros((len(self._middle), self._table.shape[1]))
        weights[:, self._used] = self._weights(x)
        bins, lands, stay = self._constants(x)
        constants = bins - self._table.astype(np.float64) @ (weights.T @ self._middle)
        before = -1 if self._before is None else self._targets.before
        return Column(self._targets.reads, weights, constants - constants.max(), stay, before, lands)
