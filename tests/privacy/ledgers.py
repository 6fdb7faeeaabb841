"""A ledger for one mechanism, locked rows, and what noise must look like: shared by the tests of mechanisms."""

import numpy as np
import pytest
from scipy import stats

from conftest import examples
from understudy.core.randomness import Key
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import PrivateRows

KEYS = {"secret": Key.new(), "seeded": Key.new(0)}
both_keys = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
tried_hard = examples(25)


def ledger_for(mechanism="discrete gaussian", *, noise=1e-3, times=1, delta=0.5, threshold_delta=0.0) -> Ledger:
    """A ledger for one planned mechanism, "it", whose noise multiplier is given."""
    planned = PlannedMechanism(
        name="it", mechanism=mechanism, noise_multiplier=noise, times=times, threshold_delta=threshold_delta
    )
    return Ledger(Budget(epsilon=1e7, delta=delta), [planned])


def locked(m=1, /, **columns) -> PrivateRows:
    """Locked rows of which a unit has at most `m`."""
    return PrivateRows({name: np.asarray(column) for name, column in columns.items()}, {}, m)


def named(labels, codes, m=1) -> PrivateRows:
    """Locked rows with one column of private categories."""
    return PrivateRows({"c": np.asarray(codes, dtype=np.int64)}, {"c": labels}, m)


def assert_is_noise(noise, sigma):
    """Variance within six standard errors, mean within six, and the shape of a normal."""
    n = len(noise)
    assert abs(noise.mean()) < 6 * sigma / np.sqrt(n)
    assert abs(noise.var() / sigma**2 - 1) < 6 * np.sqrt(2 / n)
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6
