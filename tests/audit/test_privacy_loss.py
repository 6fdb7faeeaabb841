"""The privacy loss that an attacker computes is the one that the plan accounts for."""

import numpy as np
import pytest

import understudy
from conftest import MIXED, mixed_table
from understudy.audit.privacy_loss import watched
from understudy.audit.tradeoff import claimed_mu
from understudy.audit.worlds import worst_cases
from understudy.encoding import fit as encoding_fit
from understudy.privacy import counts
from understudy.privacy.calibration import planned_charges
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers import resolve
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.column import Column
from understudy.tables.schema import Schema

SMALL = Schema(
    columns=(
        Column("height", "continuous", low=0.0, high=2.0),
        Column("children", "integer", low=0, high=20, nullable=True),
        Column("colour", "categorical", values=("red", "green", "blue")),
    )
)
UNITS = 5


def fitted(schema, method, table, worlds, count=1):
    with watched(*worlds.tables) as watch:
        options = {"epsilon": 1.0, "delta": 1e-5, "progress": False}
        understudy.fit_many(table, schema, [method] * count, list(range(count)), **options)
    return watch.of_fits


def claim(schema, method):
    budget, method = Budget(epsilon=1.0, delta=1e-5), resolve(method)
    plan = planned_mechanisms(schema, method, budget)
    return claimed_mu(planned_charges(plan, Ledger(budget, plan).scale))[0]


@pytest.mark.parametrize("schema", [SMALL, MIXED], ids=["listed categories", "open categories"])
def test_canaries_move_every_count_by_all_that_is_paid_for(schema):
    worlds = next(worst_cases(schema, units=UNITS))
    [loss] = fitted(schema, "independent", worlds.with_units, worlds)
    plan = planned_mechanisms(schema, resolve("independent"), Budget(epsilon=1.0, delta=1e-5))
    assert set(loss.losses) == {planned.name for planned in plan}
    told = sum(loss.information.values())
    assert told == pytest.approx((UNITS * claim(schema, "independent")) ** 2 / 2, rel=1e-3)


@pytest.mark.parametrize("method", ["copula", *(pytest.param(m, marks=pytest.mark.slow) for m in ("mst", "privbayes"))])
def test_no_pair_of_tables_moves_a_release_by_more_than_is_paid_for(method):
    most = (UNITS * claim(SMALL, method)) ** 2 / 2
    for worlds in worst_cases(SMALL, units=UNITS):
        [loss] = fitted(SMALL, method, worlds.with_units, worlds)
        assert 0.3 * most < sum(loss.information.values()) <= most * 1.001


def test_losses_are_those_of_two_normals():
    """Of mean ±mu²/2 and variance mu², which is checked to within four deviations."""
    schema = Schema(rows=400, columns=(Column("colour", "categorical", values=("red", "green")),))
    worlds, fits = next(worst_cases(schema, units=UNITS)), 40
    mu = UNITS * claim(schema, "independent")
    for table, sign in ((worlds.without, -1), (worlds.with_units, 1)):
        found = [sum(each.losses.values()) for each in fitted(schema, "independent", table, worlds, fits)]
        assert np.mean(found) == pytest.approx(sign * mu**2 / 2, abs=4 * mu / np.sqrt(fits))
        assert np.std(found) == pytest.approx(mu, rel=4 / np.sqrt(2 * fits))


@pytest.mark.parametrize("method", ["mst", *(pytest.param(m, marks=pytest.mark.slow) for m in ("copula", "privbayes"))])
def test_a_watched_fit_is_the_fit_that_it_would_be(method):
    table = mixed_table(200)
    plain = understudy.fit(table, MIXED, method, epsilon=1.0, seed=3)
    with watched(table, table[:190]):
        seen = understudy.fit(table, MIXED, method, epsilon=1.0, seed=3)
    assert seen.sha256 == plain.sha256


def test_nothing_is_wrapped_afterwards():
    before = counts.noisy_counts, counts.discrete_gaussian, PrivateRows.derive, encoding_fit.noisy_column_counts
    with pytest.raises(ZeroDivisionError), watched(None, None):
        assert encoding_fit.noisy_column_counts is not before[3]
        raise ZeroDivisionError
    after = counts.noisy_counts, counts.discrete_gaussian, PrivateRows.derive, encoding_fit.noisy_column_counts
    assert after == before
