"""How densities are learned from released numbers: the most likely log-linear model that has them.

Let f be the functions of what a column reads and g those of the column (basis.py). What was released are means t of
products f g over private rows, with noise of deviation τ. The density of the column is fitted on rows of a pool, whose
contexts are those that it will be drawn given:

    minimise  mean log Σ_b exp(logit_b) - Σ W t - Σ constant · share + ½ Σ λ W²,    λ = τ² / v.

At the minimum the pool has the means t - λ W: what is within the noise stays as it would be without W. v is how large
the square of a weight is expected to be, less for higher frequencies. It is the conditional model of maximum entropy that has these means,
or the most likely one under a normal prior of the weights. That two columns of a context say the same is known from the
pool, and counted once.

The one rule: no private row comes here.

Sources: Berger, Della Pietra and Della Pietra (1996), "A maximum entropy approach to natural language processing";
Nocedal (1980), "Updating quasi-Newton matrices with limited storage".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.density import Column, add_stay
from understudy.synthesizers.conditional.pools import CodedPool
from understudy.synthesizers.conditional.targets import Targets

Floats = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.int64]

ITERATIONS = 30
"""L-BFGS makes at most so many steps; it starts where the last fit ended."""
TOLERANCE = 1e-7
"""It ends when a step gains less than this part of the objective."""
LEAST_PENALTY = 2e-4
"""λ v is at least this, however little noise there is."""
SMALLEST = 1e-5
"""λ of what is not a weight."""
LANDING_PENALTY = 1e-4
"""λ of the orders that gaps lead to."""
LEAST_SHARE = 1e-6
"""No bin is taken to be rarer than this."""


def learned(
    j: int, bases: Bases, targets: Targets, pool: CodedPool, rows: NDArray[np.bool_], start: Column | None
) -> Column:
    """The density of column j.

    Args:
        rows: The rows of the pool in which it is drawn.
        start: What an earlier fit found.
    """
    from scipy.optimize import minimize

    problem = _Problem(j, bases, targets, pool, rows)
    options = {"maxiter": ITERATIONS, "ftol": TOLERANCE, "maxcor": 20}
    found = minimize(problem.objective, problem.packed(start), jac=True, method="L-BFGS-B", options=options)
    return problem.column(found.x)


class _Problem:
    """The objective of one column, in coordinates in which it is about as curved in all directions.

    Functions are taken about their means in the pool, so that constants and weights are nearly independent. With C the
    covariances of the functions that are read and s² the variance of an own function, the curvature along its weights
    is at most s² C + λ, and its inverse root scales them.
    """

    def __init__(self, j: int, bases: Bases, targets: Targets, pool: CodedPool, rows: NDArray[np.bool_]):
        own, self._targets = bases.of[j], targets
        self._labels, self._stays = len(bases.bins[j].edges) - 1, targets.stay is not None
        self._table = own.table.astype(np.float32)
        read, self._row_weights = pool.functions[rows][:, targets.reads], pool.weights[rows][:, None] / pool.count
        part = float(self._row_weights.sum())
        self._middle = (read.T @ self._row_weights)[:, 0].astype(np.float64) / part
        self._f = np.ascontiguousarray(read - self._middle.astype(np.float32))
        self._before = pool.codes[targets.before][rows] if self._stays else np.zeros(0, np.int64)
        shares = np.maximum(targets.shares, LEAST_SHARE)
        self._shares = shares * (part / float(shares.sum()))
        active, self._parts, first = np.isfinite(targets.noise), list[_Part](), 0
        among = (self._f.T @ (self._f * self._row_weights)).astype(np.float64)
        degrees = np.concatenate([each.degrees for each in bases.of])[targets.reads].astype(np.float64)
        for q in np.flatnonzero(active.any(axis=0)).tolist():
            reads = np.flatnonzero(active[:, q])
            penalty = targets.noise[reads, q] ** 2 * (degrees[reads] * own.degrees[q]) ** 2 / targets.prior[reads]
            mean = float(self._shares @ own.table[:, q])
            variance = max(float(self._shares @ own.table[:, q] ** 2) - mean**2, 1e-4)
            penalty = np.maximum(penalty, LEAST_PENALTY / targets.prior[reads])
            factor = np.linalg.cholesky(variance * among[np.ix_(reads, reads)] + np.diag(penalty))
            scale = np.linalg.inv(factor).T
            place = slice(first, first + len(reads))
            self._parts.append(_Part(q, reads, place, penalty, targets.covariances[reads, q], scale))
            first += len(reads)
        self._landings = None if targets.landings is None or pool.landings is None else pool.landings[rows]
        self._extra = int(self._stays) + (0 if self._landings is None else len(_known(targets.landings)))
        self._used = [part.function for part in self._parts]
        self._size = first
        self._own = np.ascontiguousarray(self._table[:, self._used])

    def _weights(self, x: Floats) -> Floats:
        """Of the own functions that are used: (functions that are read, functions)."""
        weights = np.zeros((len(self._middle), len(self._used)))
        for at, part in enumerate(self._parts):
            weights[part.reads, at] = part.scale @ x[part.place]
        return weights

    def _constants(self, x: Floats) -> Floats:
        return x[self._size : self._size + len(self._shares)] / np.sqrt(self._shares)

    def objective(self, x: Floats) -> tuple[float, Floats]:
        """The value, and its slopes."""
        weights, constants = self._weights(x), self._constants(x)
        landings = x[self._size + len(self._shares) : len(x) - self._stays]
        chances, value = self._chances(weights, constants, float(x[-1]), landings)
        value -= float(constants @ self._shares)
        slopes = np.zeros(len(x))
        by_weight = (self._f.T @ (chances @ self._own)).astype(np.float64)
        for at, part in enumerate(self._parts):
            own = weights[part.reads, at]
            value += float(np.sum(0.5 * part.penalty * own**2 - own * part.wanted))
            slopes[part.place] = part.scale.T @ (by_weight[part.reads, at] - part.wanted + part.penalty * own)
        by_constant = chances.sum(axis=0, dtype=np.float64) - self._shares
        slopes[self._size : self._size + len(self._shares)] = by_constant / np.sqrt(self._shares)
        if self._landings is not None:
            wanted = _known(self._targets.landings)
            wanted = wanted * (float(self._shares.sum()) / float(wanted.sum()))
            made = np.bincount(self._landings.ravel(), chances.ravel(), len(wanted))
            value += float(0.5 * LANDING_PENALTY * landings @ landings - landings @ wanted)
            slopes[self._size + len(self._shares) : len(x) - self._stays] = made - wanted + LANDING_PENALTY * landings
        if self._targets.stay is not None:
            stay, rows = float(x[-1]), np.flatnonzero(self._before < self._labels)
            made = float(chances[rows, self._before[rows]].sum(dtype=np.float64))
            value += 0.5 * SMALLEST * stay**2 - stay * self._targets.stay
            slopes[-1] = made - self._targets.stay + SMALLEST * stay
        return value, slopes

    def _chances(self, weights: Floats, constants: Floats, stay: float, landings: Floats) -> tuple[Single, float]:
        """The weighted probability of every bin, (rows, bins), and the weighted mean of log Σ exp(logit)."""
        logits = (self._f @ weights.astype(np.float32)) @ self._own.T
        logits += constants.astype(np.float32)
        if self._stays:
            add_stay(logits, self._before, stay, self._labels)
        if self._landings is not None:
            logits += landings.astype(np.float32)[self._landings]
        top = logits.max(axis=1, keepdims=True)
        logits -= top
        np.exp(logits, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        value = float(((np.log(total) + top) * self._row_weights).sum(dtype=np.float64))
        logits *= self._row_weights / total
        return logits, value

    def _earlier(self, start: Column | None) -> Floats:
        """The weights of an earlier fit, as this one has them."""
        weights = np.zeros((len(self._middle), self._table.shape[1]))
        if start is not None:
            place = {int(read): i for i, read in enumerate(self._targets.reads)}
            kept = [i for i, read in enumerate(start.reads.tolist()) if read in place]
            weights[[place[int(start.reads[i])] for i in kept]] = start.weights[kept]
        return weights

    def packed(self, start: Column | None) -> Floats:
        """The coordinates of an earlier fit; of none, those of a column that depends on nothing."""
        x = np.zeros(self._size + len(self._shares) + self._extra)
        weights, constants = self._earlier(start), np.log(self._shares)
        if start is not None:
            constants = start.constants + self._table.astype(np.float64) @ (weights.T @ self._middle)
            x[-1] = start.stay if self._stays else x[-1]
            if self._landings is not None and start.landings.size:
                x[self._size + len(self._shares) : len(x) - self._stays] = start.landings
        for part in self._parts:
            x[part.place] = np.linalg.solve(part.scale, weights[part.reads, part.function])
        x[self._size : self._size + len(self._shares)] = constants * np.sqrt(self._shares)
        return x

    def column(self, x: Floats) -> Column:
        """The density at these coordinates."""
        weights = np.zeros((len(self._middle), self._table.shape[1]))
        weights[:, self._used] = self._weights(x)
        constants = self._constants(x) - self._table.astype(np.float64) @ (weights.T @ self._middle)
        stay, before = (float(x[-1]), self._targets.before) if self._stays else (0.0, -1)
        landings = x[self._size + len(self._shares) : len(x) - self._stays]
        return Column(self._targets.reads, weights, constants - constants.max(), stay, before, landings)


def _known(landings: Floats | None) -> Floats:
    assert landings is not None
    return landings


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
