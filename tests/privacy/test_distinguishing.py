"""Distinguishing attacks: how clearly the noise that ships lets two neighbouring tables be told apart.

Every attack runs one mechanism many times on two neighbouring tables, with secret noise from OpenDP and a ledger
calibrated for a stated (epsilon, delta). The attacker knows both tables and guesses "with the unit" if a statistic of
the release, the likelihood ratio, exceeds a threshold fixed beforehand. Clopper-Pearson bounds on its two error rates
give a lower bound on mu, and that one on epsilon at the stated delta (Dong, Roth, Su 2019; Nasr et al. 2023).

The bound must not exceed the stated epsilon; it must not be vacuous; and it must exceed epsilon if the noise is halved,
which shows that the attack would catch such a mistake.
"""

import copy
import functools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from understudy.core.randomness import Key
from understudy.encoding.fit import fit_encoder
from understudy.encoding.plan import plan
from understudy.privacy import counts, embedding, fused_counts, moments, pair_selection, selection
from understudy.privacy.embedding import EmbeddedColumn, Embedding, noisy_embedding_sum
from understudy.privacy.ledger import Ledger
from understudy.privacy.pair_selection import PairErrors, PairSelection
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import PrivateRows, lock
from understudy.privacy.selection import MarginalError, noisy_marginal_errors, select_marginal
from understudy.tables.column import Column
from understudy.tables.schema import Schema

BUDGET = Budget(epsilon=8.0, delta=1e-5)
FALSE_ALARM = 1e-6
"""An honest mechanism exceeds its epsilon here with at most this probability."""


# From error rates to epsilon.


def gaussian_delta(mu, epsilon):
    """delta of Gaussian noise of this mu at epsilon (Balle and Wang 2018)."""
    if mu <= 0:
        return 0.0
    shift = epsilon / mu
    return stats.norm.cdf(mu / 2 - shift) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - shift)


def epsilon_of(mu, delta) -> float:
    """The epsilon that mu amounts to at delta."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, 500.0))  # pyright: ignore[reportArgumentType]


def most(errors, tries):
    """An upper bound on a rate of which `errors` were seen (Clopper and Pearson)."""
    return float(stats.beta.ppf(1 - FALSE_ALARM / 2, errors + 1, tries - errors)) if errors < tries else 1.0


def epsilon_shown(with_unit, without, threshold) -> float:
    """The lower bound on epsilon: with error rates a and b, mu >= -Phi^-1(a) - Phi^-1(b)."""
    missed, alarms = np.sum(with_unit <= threshold), np.sum(without > threshold)
    a, b = most(missed, len(with_unit)), most(alarms, len(without))
    return epsilon_of(-stats.norm.ppf(a) - stats.norm.ppf(b), BUDGET.delta)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_epsilon_and_mu_belong_together(epsilon):
    mu = optimize.brentq(lambda mu: gaussian_delta(mu, epsilon) - 1e-5, 1e-3, 20.0)
    assert epsilon_of(mu, 1e-5) == pytest.approx(epsilon)


def test_the_bound_is_below_the_true_epsilon_and_comes_near_it():
    draw = np.random.default_rng(0)
    mu, n = 1.5, 2000
    shown = epsilon_shown(draw.normal(mu, 1, n), draw.normal(0, 1, n), mu / 2)
    assert 0.6 * epsilon_of(mu, 1e-5) < shown < epsilon_of(mu, 1e-5)


# The attacks: each gives the statistics of many releases on the two tables, and the threshold.


def ledger_for(mechanism, times):
    """A ledger whose charges each have the whole budget: a release is one fit."""
    share = Ledger(BUDGET, [PlannedMechanism(name="it", mechanism=mechanism, share=1.0)]).noise("it")
    planned = PlannedMechanism(name="it", mechanism=mechanism, noise_multiplier=share, times=times)
    return Ledger(Budget(epsilon=1e7, delta=0.5), [planned])


def asked(mechanism, times=1):
    return {"what": "attack", "planned": "it", "ledger": ledger_for(mechanism, times), "key": Key.new()}


def counted(m, tries):
    """Every cell is a run of its own: 40 rows, and all m rows of one more unit."""
    found = []
    for rows_in_cell in (40 + m, 40):
        rows = PrivateRows({"c": np.repeat(np.arange(tries), rows_in_cell)}, {}, m)
        found.append(counts.noisy_counts(rows, ["c"], [tries], **asked("discrete gaussian")))
    return *found, 40 + m / 2


def multiplied(tries):
    """Second moments, with a unit's row in two columns: their squares and product together are the likelihood ratio.

    Four pairs of columns, each with a row of its own, are four runs.
    """
    width, clip = 8, 1.5
    pairs = np.arange(width).reshape(-1, 2)
    row = clip / math.sqrt(2)
    spikes = np.zeros((len(pairs), width))
    spikes[np.arange(len(pairs))[:, None], pairs] = row
    how = asked("discrete gaussian", times=2 * tries)
    found = []
    for x in (spikes, np.zeros_like(spikes)):
        rows = PrivateRows({str(i): column for i, column in enumerate(x.T)}, {}, 1)
        runs = [moments.noisy_second_moments(rows, rows.names, clip_norm=clip, **how) for _ in range(tries // 4)]
        found.append(np.array([m[i, i] + m[j, j] + 2 * m[i, j] for m in runs for i, j in pairs]))
    return *found, 2 * row**2


def selected(tries):
    """The unit makes one estimate worse and another one better, by one row each: the most a selection can shift.

    Their scores are 0 and 1 without it, 1 and 0 with it.
    """
    errors = [
        MarginalError(columns=("c",), estimate=np.array([10.0, 0.0])),
        MarginalError(columns=("c",), estimate=np.array([20.0, 0.0]), penalty=9.0),
    ]
    how = asked("exponential", times=2 * tries)
    found = []
    for x in (np.zeros(11, int), np.zeros(10, int)):
        rows = PrivateRows({"c": x}, {}, 1)
        found.append(np.array([1.0 - select_marginal(rows, errors, **how) for _ in range(tries)]))
    return *found, 0.5


def drawn_pair(tries):
    """As `selected`, for columns alone and pairs of them, which are drawn in two steps."""
    singles = np.array([10.0, 0.0, 20.0, 0.0])
    errors = PairErrors(
        singles=singles, rows=1.0, weights=np.ones(4), factors=np.ones((2, 2)), penalties=np.diag([0.0, 9.0])
    )
    how, found = asked("exponential", times=2 * tries), []
    for x in (np.zeros(11, int), np.zeros(10, int)):
        chooser = PairSelection(PrivateRows({"a": x, "b": x}, {}, 1), ["a", "b"], [2, 2])
        chooser.compare(errors)
        found.append(np.array([1.0 - chooser.choose(np.eye(2, dtype=bool), **how)[0] for _ in range(tries)]))
    return *found, 0.5


def scored(tries):
    """Scores of three marginals, all of which the unit moves: their sum is the likelihood ratio."""
    errors = [MarginalError(columns=("c",), estimate=np.zeros(2))] * 3
    how = asked("discrete gaussian", times=2 * tries)
    found = []
    for x in (np.zeros(11, int), np.zeros(10, int)):
        rows = PrivateRows({"c": x}, {}, 1)
        found.append(np.array([noisy_marginal_errors(rows, errors, **how).sum() for _ in range(tries)]))
    return *found, 3 * 10.5


def embedded(tries):
    """The embedding of one row, along which the likelihood ratio lies."""
    names = [f"x{i}" for i in range(12)]
    waves = Embedding(
        columns=tuple(EmbeddedColumn(name, True) for name in names),
        touched=np.array([[0]]),
        frequencies=np.eye(1, 12),
        phases=(np.zeros((1, 0)),) * 12,
        moments=0.5,
        clip=12.0,
    )
    row = np.full((1, 12), 5.0)  # the norm of its embedding is 0.98
    direction = waves.embed(row)[0]
    how = asked("discrete gaussian", times=2 * tries)
    found = []
    for x in (row, row[:0]):
        rows = PrivateRows(dict(zip(names, x.T, strict=True)), {}, 1)
        found.append(np.array([noisy_embedding_sum(rows, names, waves, **how) @ direction for _ in range(tries)]))
    return *found, direction @ direction / 2


PERSON = Schema(
    columns=(Column(name="x", kind="categorical", values=("crowd", "loner")),),
    rows=400,
    unit="person",
    max_rows_per_unit=3,
)


def encoded(tries):
    """The released count of a category, with ten rows of one person more, of which three may count."""
    ledger = Ledger(BUDGET, plan(PERSON, share=1.0, delta=BUDGET.delta), max_rows_per_unit=3)
    found = []
    for more in (10, 0):
        x = np.r_[np.zeros(200, int), np.ones(200 + more, int)]
        unit = np.r_[np.arange(400), np.full(more, 999)]
        runs = []
        for _ in range(tries):
            key = Key.new()
            rows = lock({"x": x}, {}, unit=unit, max_rows_per_unit=3, key=key)
            encoder = fit_encoder(rows, PERSON, ledger=copy.deepcopy(ledger), key=key)
            runs.append(encoder.rows * (1.0 - encoder.columns["x"].distribution.cdf[1]))
        found.append(np.array(runs))
    return *found, 201.5


slow = pytest.mark.slow
ATTACKS = [
    pytest.param(functools.partial(counted, 1), 4000, counts, "discrete_gaussian", id="counts"),
    pytest.param(functools.partial(counted, 3), 4000, counts, "discrete_gaussian", id="counts of a unit"),
    pytest.param(multiplied, 800, moments, "discrete_gaussian", id="second moments"),
    pytest.param(selected, 400, selection, "largest_with_gumbel", id="selection"),
    pytest.param(drawn_pair, 400, pair_selection, "largest_with_gumbel", id="selection of a pair"),
    pytest.param(scored, 800, selection, "discrete_gaussian", id="scores", marks=slow),
    pytest.param(embedded, 800, embedding, "discrete_gaussian", id="embedding", marks=slow),
    pytest.param(encoded, 800, fused_counts, "discrete_gaussian", id="encoder", marks=slow),
]
every_attack = pytest.mark.parametrize(("attack", "tries", "module", "noise"), ATTACKS)


@every_attack
def test_no_unit_is_seen_more_clearly_than_epsilon_allows_and_the_attack_is_sharp(attack, tries, module, noise):
    shown = epsilon_shown(*attack(tries))
    assert 0.4 * BUDGET.epsilon < shown <= BUDGET.epsilon


@pytest.mark.slow
@every_attack
def test_the_attack_catches_halved_noise(attack, tries, module, noise, monkeypatch):
    honest = getattr(module, noise)
    if noise == "discrete_gaussian":
        monkeypatch.setattr(module, noise, lambda sigma, size, key: honest(sigma / 2, size, key))
    else:
        monkeypatch.setattr(module, noise, lambda scores, scale, key: honest(scores, scale / 2, key))
    assert epsilon_shown(*attack(tries)) > BUDGET.epsilon
