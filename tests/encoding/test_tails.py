"""Long tails: recovered from noisy counts where a smooth curve fits, and left alone where none does."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import understudy as us
from understudy import encoding
from understudy.core.randomness import Key
from understudy.encoding import fit as fitting
from understudy.encoding import tails
from understudy.encoding.consistency import Round
from understudy.encoding.tails import Counted, long_tail
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.tables.column import Column
from understudy.tables.schema import Schema

ROWS = 20_000
EDGES = np.concatenate([[0.0], 2.0 ** np.arange(0, 17)])


def counted(distribution, *, noise=10.0, extra=()):
    """Exact counts of a distribution over octaves with Gaussian noise, as three equal rounds would give them."""
    exact = ROWS * np.diff(distribution.cdf(EDGES))
    for place, rows in extra:
        exact[int(np.searchsorted(EDGES, place)) - 1] += rows
    draw = np.random.default_rng(0)
    rounds = [
        Counted(EDGES, exact + np.sqrt(3) * noise * draw.standard_normal(len(exact)), 3 * noise**2) for _ in "abc"
    ]
    return rounds, np.mean([each.counts for each in rounds], axis=0)


def tail_of(distribution, *, noise=10.0, extra=(), high: float | None = 65_536.0):
    rounds, masses = counted(distribution, noise=noise, extra=extra)
    return long_tail(rounds, masses, noise=noise, high=high, integer=False, last=len(masses) - 4)


@pytest.mark.parametrize(
    "distribution",
    [stats.lognorm(1.2, scale=np.exp(5)), stats.pareto(1.8, scale=100, loc=-100), stats.expon(scale=500)],
    ids=["lognormal", "pareto", "exponential"],
)
def test_the_quantiles_of_a_tail_are_those_of_its_distribution(distribution):
    tail = tail_of(distribution, noise=4.0)
    assert tail is not None
    beyond = np.append(np.cumsum(tail.masses[::-1])[::-1], 0.0)
    for share in (0.03, 0.01, 0.004):
        found = np.interp(-ROWS * share, -beyond, tail.edges)
        assert found == pytest.approx(distribution.ppf(1 - share), rel=0.1)


@pytest.mark.parametrize("coarse", [40, 200])
def test_looking_at_joined_bins_first_finds_the_same_tail(coarse, monkeypatch):
    distribution, draw = stats.lognorm(1.2, scale=np.exp(5)), np.random.default_rng(0)
    edges = np.concatenate([[0.0], np.geomspace(1.0, 65_536.0, 2000)])
    exact = 1e6 * np.diff(distribution.cdf(edges))
    rounds = [Counted(edges, exact + 20 * draw.standard_normal(len(exact)), 400.0) for _ in "ab"]
    masses = np.mean([each.counts for each in rounds], axis=0)
    found = []
    for most in (10**6, coarse):
        monkeypatch.setattr(tails, "_COARSE", most)
        found.append(long_tail(rounds, masses, noise=14.0, high=65_536.0, integer=False, last=len(masses) - 4))
    assert found[0] is not None and found[1] is not None
    assert found[1].start == found[0].start
    assert found[1].edges == pytest.approx(found[0].edges, rel=0.01)
    assert found[1].masses == pytest.approx(found[0].masses, rel=0.02)


def test_a_separate_group_far_out_is_no_smooth_tail():
    assert tail_of(stats.lognorm(1.2, scale=np.exp(5))) is not None
    assert tail_of(stats.lognorm(1.2, scale=np.exp(5)), extra=[(40_000, 400)]) is None


def test_without_an_upper_bound_no_tail_is_made_up():
    assert tail_of(stats.lognorm(1.2, scale=np.exp(5)), high=None) is None


@pytest.mark.parametrize("distribution", [stats.uniform(0, 4000), stats.norm(2000, 500)], ids=["uniform", "normal"])
def test_a_short_tail_is_left_to_its_bins(distribution):
    assert tail_of(distribution) is None


def learned(values, *, columns, seed):
    """The quantile function that the encoder learns of one of some columns, with the whole of epsilon = 1."""
    column = Column(name="x", kind="continuous", low=0.0, high=100_000.0, decimals=2)
    schema = Schema(columns=(column, *(Column(name=f"c{i}", kind="boolean") for i in range(columns - 1))), rows=ROWS)
    budget = Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger(budget, encoding.plan(schema, share=1.0, delta=budget.delta), seed=seed)
    rows = lock({"x": values}, {}, key=Key.new(seed))
    root = Round(np.array([float(ROWS)]), fitting.UNKNOWN, np.zeros(1, int))
    rounds = fitting._Numeric(column, root, ledger, rows.max_rows_per_unit)
    fitting._count(rows, schema, {}, {"x": rounds}, ledger, Key.new(seed))
    encoder, _ = rounds.fitted()
    return encoder.values((np.arange(100_000) + 0.5) / 100_000)


COSTS = {"lognormal": 0.0, "many zeros": 0.8}


@pytest.mark.parametrize("zeros", COSTS.values(), ids=COSTS)
def test_mean_and_tail_of_costs_are_within_15_percent(zeros):
    worst = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        costs = np.round(np.minimum(draw.lognormal(6.0, 1.2, ROWS), 100_000.0), 2) * (draw.random(ROWS) >= zeros)
        drawn = learned(costs, columns=10, seed=seed)
        worst.append([drawn.mean() / costs.mean() - 1, np.quantile(drawn, 0.99) / np.quantile(costs, 0.99) - 1])
        assert abs((drawn == 0).mean() - (costs == 0).mean()) < 0.01
    assert np.abs(np.mean(worst, axis=0)).max() < 0.05  # no bias
    assert np.abs(worst).max() < 0.15


def test_years_never_leave_their_bounds_and_cents_stay_cents():
    draw = np.random.default_rng(0)
    frame = {"year": draw.integers(1930, 2024, 500), "price": np.round(draw.lognormal(1, 1, 500), 2)}
    schema = us.Schema(
        columns=(
            us.Column(name="year", kind="integer", low=1930, high=2023),
            us.Column(name="price", kind="continuous", decimals=2),
        )
    )
    drawn = us.fit(pl.DataFrame(frame), schema, "independent", epsilon=0.2, seed=0).sample(5000, seed=0)
    assert drawn["year"].is_between(1930, 2023).all()
    assert (drawn["price"] == drawn["price"].round(2)).all()


@pytest.mark.parametrize("seed", [1, 5, 6, 9, 10, 16])
def test_a_tail_never_takes_more_rows_than_were_counted_in_it(seed):
    """A narrow peak with far values between wide bounds: a curve that begins at the peak may say any number of rows."""
    draw = np.random.default_rng(seed)
    x = 0.066 * np.abs(draw.standard_t(2.2, 12_000)) ** 1.3
    x = np.clip(1.0 + x * np.where(draw.random(12_000) < 0.72, 1.0, -0.7), 0.1, 49.0)
    column = us.Column(name="x", kind="continuous", low=0.0, high=50.0)
    model = us.fit(pl.DataFrame({"x": x}), us.Schema(columns=(column,)), "independent", epsilon=0.25, seed=seed)
    drawn = model.sample(12_000, seed=0)["x"].to_numpy()
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(drawn < np.quantile(x, level)) == pytest.approx(level, abs=0.07)
