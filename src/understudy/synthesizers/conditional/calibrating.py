"""Small steps at the end of a fit, on families as they are drawn.

A fit is made for contexts whose rows before have the measured shares. Families that are drawn have others: what a
density has a little wrong comes back through the row before, five times as large if rows are like the ones before them.
So when all is fitted, families are drawn and each density moves against what they have wrong: the logarithms of the
shares of its bins, and its covariances with what it reads. With r what a covariance is off, G how weights move
covariances, V the variances that weights are expected to have and T those of the noise, weights move by a part of

    E[w | r] = V G (G V G + T)⁻¹ r.

The one rule: no private row comes here.
"""

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.density import Column
from understudy.synthesizers.conditional.pools import CodedPool
from understudy.synthesizers.conditional.targets import Targets, expected_weights

Floats = NDArray[np.float64]

FEW = 10.0
"""Shares of bins are compared as if each had so many rows more."""


def calibrated(
    j: int, bases: Bases, targets: Targets, pool: CodedPool, rows: NDArray[np.bool_], column: Column, *, step: float
) -> Column:
    """The density of column j, moved by a part `step` against what the families of a pool have wrong.

    Args:
        rows: The rows of the pool in which it is drawn.
        column: The density that they were drawn with.
    """
    own, codes = bases.of[j], pool.codes[j][rows]
    among = np.flatnonzero(np.isin(targets.reads, column.reads))
    reads = targets.reads[among]
    f = pool.functions[rows][:, reads].astype(np.float64)
    middle = f.mean(axis=0)
    f -= middle
    apart = targets.covariances[among] - f.T @ own.table[codes] / pool.count
    weights = np.zeros((len(reads), own.table.shape[1]))
    curvatures = f.T @ f / pool.count
    degrees = np.concatenate([each.degrees for each in bases.of])[reads].astype(np.float64)
    for q in np.flatnonzero(np.isfinite(targets.noise[among]).any(axis=0)).tolist():
        known = np.flatnonzero(np.isfinite(targets.noise[among, q]))
        variance = max(float(np.var(own.table[codes, q])), 1e-4)
        prior = targets.prior[among][known] / (degrees[known] * own.degrees[q]) ** 2
        curvature = variance * curvatures[np.ix_(known, known)]
        moved = expected_weights(apart[known, q], targets.noise[among, q][known], curvature, prior)
        weights[known, q] = step * moved
    found = column.weights.copy()
    found[np.searchsorted(column.reads, reads)] += weights
    wanted = targets.shares * (len(codes) / max(float(targets.shares.sum()), 1e-12))
    held = np.bincount(codes, minlength=len(wanted))
    constants = column.constants + step * np.log((wanted + FEW) / (held + FEW))
    return column._replace(weights=found, constants=constants - own.table @ (weights.T @ middle))
