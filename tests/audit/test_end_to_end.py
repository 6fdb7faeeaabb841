"""End to end: planted leaks are certified, honest methods are not accused."""

import json
from typing import Any

import pytest

from understudy.audit.end_to_end import FEWER_STEPS, FREE, Attack, choose_statistic, end_to_end, without_free_work
from understudy.audit.worlds import worst_cases
from understudy.core.randomness import Key
from understudy.encoding import fit as encoding_fit
from understudy.privacy import fused_counts, moments
from understudy.privacy.plan import Budget
from understudy.synthesizers import METHODS
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.column import Column
from understudy.tables.schema import Schema

COLOURS = Schema(rows=400, columns=(Column("colour", "categorical", values=("red", "green", "blue")),))
MIXED = Schema(
    columns=(
        Column("height", "continuous", low=0.0, high=2.0),
        Column("children", "integer", low=0, high=20, nullable=True),
        Column("colour", "categorical", values=("red", "green", "blue")),
    )
)
DELTA = 1e-5


def attacked(schema, method, epsilon, fits, seed=0):
    return end_to_end(schema, method, epsilon=epsilon, delta=DELTA, fits=fits, key=Key.new(seed))


def test_an_honest_method_is_not_accused_and_the_bound_is_not_vacuous():
    result = attacked(COLOURS, "independent", 1.0, 120)
    assert result.passed
    assert 0.2 < result.epsilon_lower <= 1.0
    assert result.power["tight"] < 1.0 < result.power["halved noise"]
    assert result.attained_mu == pytest.approx(result.claimed_mu, rel=1e-3)
    assert json.loads(result.to_json())["passed"] is True


@pytest.mark.slow
def test_too_little_noise_is_certified(monkeypatch):
    honest = fused_counts.discrete_gaussian
    monkeypatch.setattr(fused_counts, "discrete_gaussian", lambda sigma, size, key: honest(sigma / 3, size, key))
    result = attacked(COLOURS, "independent", 1.0, 120)
    assert not result.passed
    assert result.epsilon_lower > 1.0


@pytest.mark.parametrize("method", FREE)
def test_what_is_cut_down_costs_no_budget(method):
    budget, whole = Budget(epsilon=1.0, delta=DELTA), METHODS[method]()
    cut = without_free_work(whole, MIXED)
    assert cut != whole
    assert planned_mechanisms(MIXED, cut, budget) == planned_mechanisms(MIXED, whole, budget)


def test_too_few_fits_are_refused():
    with pytest.raises(ValueError, match="expected at least"):
        attacked(COLOURS, "independent", 1.0, 7)


@pytest.mark.slow
def test_a_few_fits_certify_nothing_and_say_how_little_they_could():
    result = attacked(COLOURS, "independent", 1.0, 8)
    assert result.passed
    assert result.epsilon_lower < 0.3
    assert result.power["tight"] < 0.3


def test_a_number_that_gives_all_away_is_chosen_over_losses_that_say_little():
    without = [{"loss: a": float(i % 5), "model: rows": 100.0} for i in range(40)]
    with_units = [{"loss: a": float(i % 5) + 0.5, "model: rows": 101.0} for i in range(40)]
    chosen = choose_statistic(without, with_units, error=0.01)
    assert chosen.name == "model: rows"
    assert [chosen.alarm(without[0]), chosen.alarm(with_units[0])] == [False, True]


@pytest.mark.slow
def test_the_noise_that_ships_is_attacked_without_a_seed():
    result = end_to_end(COLOURS, "independent", epsilon=1.0, delta=DELTA, fits=600, confidence=0.9999)
    assert result.passed
    assert result.epsilon_lower > 0.4


@pytest.mark.slow
@pytest.mark.parametrize(("method", "epsilon"), [("independent", 1.0), ("copula", 4.0), ("copula", 1.0), ("mst", 4.0)])
def test_the_certified_bound_comes_near_the_claim(method, epsilon):
    result = attacked(MIXED, method, epsilon, 800)
    assert result.passed
    assert result.epsilon_lower >= 0.7 * epsilon


@pytest.mark.slow
def test_the_certified_bound_of_the_default_is_half_of_the_claim():
    result = attacked(MIXED, "prada", 4.0, 600)
    assert result.passed
    assert result.epsilon_lower >= 0.5 * 4.0


@pytest.mark.slow
@pytest.mark.parametrize("method", FEWER_STEPS)
def test_the_steps_of_a_training_are_attacked_and_the_claim_stands(method):
    result = attacked(MIXED, method, 4.0, 200)
    assert result.passed
    assert result.epsilon_lower >= 0.2 * 4.0
    assert 0.7 * result.claimed_mu < result.attained_mu <= result.claimed_mu


@pytest.mark.slow  # compiles a training
@pytest.mark.parametrize("name", FEWER_STEPS)
def test_fits_of_both_tables_are_trained_by_the_programs_of_one(name):
    from understudy.privacy import compiled_training

    run_rounds: Any = compiled_training.run_rounds  # JAX keeps how many programs it has compiled, without a type
    budget, method = Budget(epsilon=4.0, delta=DELTA), without_free_work(METHODS[name](), MIXED)
    attack = Attack(MIXED, method, budget, Key.new(0))
    worlds = next(worst_cases(MIXED, units=2))
    run_rounds.clear_cache()  # another test may have compiled the same program
    both = attack.watched_fits(worlds, [0, 1], Key.new(1))
    assert run_rounds._cache_size() == 1
    alone = [attack.watched_fits(worlds, [world], Key.new(2)) for world in (0, 1)]
    assert run_rounds._cache_size() == 1
    assert [len(both), *map(len, alone)] == [2, 1, 1] and all("loss: critic" in fit for fit in both)


@pytest.mark.slow
def test_an_exact_number_of_rows_is_certified(monkeypatch):
    def leaking(rows, *, planned, ledger, key):
        ledger.charge(planned, what="", sensitivity=1.0)
        return float(len(next(iter(rows._exact.values()))))

    monkeypatch.setattr(encoding_fit, "noisy_row_count", leaking)
    result = attacked(MIXED, "independent", 1.0, 200)
    assert not result.passed
    assert result.statistic == "model: rows"


@pytest.mark.slow
def test_too_little_noise_on_the_second_moments_alone_is_certified(monkeypatch):
    honest = moments.discrete_gaussian
    monkeypatch.setattr(moments, "discrete_gaussian", lambda sigma, size, key: honest(sigma / 3, size, key))
    assert not attacked(MIXED, "copula", 4.0, 600).passed
