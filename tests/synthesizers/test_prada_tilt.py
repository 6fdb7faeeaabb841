"""A tilt gives rows of a pool the counts and moments that were measured, and leaves what is within the noise."""

import numpy as np
import pytest
from scipy.optimize import minimize

from conftest import MIXED
from fitting import mixed_encoder
from prada_densities import independent_levels
from understudy.encoding.bins import make_bins
from understudy.graphical.marginals import Measured
from understudy.synthesizers.prada.likelihood import tilt as tilts
from understudy.synthesizers.prada.likelihood.moments import MomentFeatures, NoisyMoments
from understudy.synthesizers.prada.likelihood.pool import Pool, joined
from understudy.synthesizers.prada.likelihood.tilt import (
    LARGEST_WEIGHT,
    LEAST_EFFECTIVE,
    CountTerm,
    MomentTerm,
    ProductGaps,
    count_term,
    effective_part,
    tilt,
)
from understudy.synthesizers.prada.likelihood.variables import variables_of

ENCODER = mixed_encoder()
FEATURES = MomentFeatures.of(ENCODER, MIXED.names)


def pool_of(n=4000, seed=0):
    """Independent columns: every level by itself, missing as often as in the table."""
    return Pool(independent_levels(ENCODER, n, seed), variables_of(ENCODER, MIXED.names))


# The pool -----------------------------------------------------------------------------------------------------------


def test_codes_of_a_pool_are_those_of_bins():
    bins, pool = make_bins(ENCODER, 8), pool_of()
    for name, codes in pool.codes(bins).items():
        np.testing.assert_array_equal(codes, bins[name].code(pool.levels[name], pool.levels[name]))
    missing = pool.codes(bins)["income"] == bins["income"].size - 1
    np.testing.assert_array_equal(missing, np.isnan(pool.levels["income"]))


def test_pools_are_joined_row_by_row():
    one, other = pool_of(5), pool_of(3, seed=1)
    both = Pool(joined([one.levels, other.levels]), one.variables)
    assert both.count == 8
    np.testing.assert_array_equal(both.states, np.concatenate([one.states, other.states], axis=1))


# Terms --------------------------------------------------------------------------------------------------------------

BINS = make_bins(ENCODER, 4)


def measured_pair(codes, weights, sigma=0.0, names=("age", "member"), seed=0):
    """The counts of two columns among weighted rows, with noise."""
    shape = tuple(BINS[name].size for name in names)
    counts = np.zeros(shape)
    np.add.at(counts, tuple(codes[name] for name in names), weights)
    return Measured(names, counts + sigma * np.random.default_rng(seed).standard_normal(shape), sigma)


def moments_of(pool, weights=None, noise=0.01, clip_norm=100.0, seed=0):
    """Noisy moments of the pool's own rows, weighted."""
    facts = {"features": FEATURES, "noise": noise, "clip_norm": clip_norm}
    x = NoisyMoments(means=np.zeros(0), **facts).clipped(FEATURES.of_levels(pool.levels)).astype(float)
    weights = np.ones(pool.count) if weights is None else weights
    chance = np.triu(noise * np.random.default_rng(seed).standard_normal((len(x), len(x))))
    means = (x * weights) @ x.T / weights.sum() + chance + np.triu(chance, 1).T
    return NoisyMoments(means=means, **facts)


def leaning(pool, seed=3):
    """Weights under which whoever is old and a member counts more."""
    codes = pool.codes(BINS)
    return np.exp(0.5 * (codes["age"] - 1) * (codes["member"] - 0.5)) + 0.1 * np.random.default_rng(seed).random(
        pool.count
    )


def test_counts_have_the_cells_of_the_rows_and_penalties_from_their_noise():
    pool = pool_of()
    codes, weights = pool.codes(BINS), leaning(pool)
    names = [("age", "member"), ("member", "colour")]
    term = count_term([measured_pair(codes, weights, 20.0, names=each) for each in names], codes, weights.sum())
    sizes = [BINS[one].size * BINS[other].size for one, other in names]
    assert term.size == sum(sizes) and term.cells.shape == (pool.count, sum(sizes))
    found, start, noise = term.cells.toarray(), 0, 20.0 / weights.sum()
    for (one, other), size in zip(names, sizes, strict=True):
        code = codes[one] * BINS[other].size + codes[other]
        np.testing.assert_array_equal(found[:, start : start + size], code[:, None] == np.arange(size))
        made, own = np.bincount(code, minlength=size) / pool.count, slice(start, start + size)
        excess = ((term.targets[own] - made) ** 2).sum() - size * noise**2 - 1 / pool.count
        np.testing.assert_allclose(term.penalty[own], (noise**2 + made / pool.count) / excess)
        even = np.full(pool.count, 1 / pool.count)
        np.testing.assert_allclose(term.gaps(even)[own], made - term.targets[own], atol=1e-12)
        start += size


def test_a_count_that_the_pool_has_already_is_left_out():
    pool = pool_of()
    codes = pool.codes(BINS)
    term = count_term([measured_pair(codes, np.ones(pool.count))], codes, pool.count)
    assert term.size == 0
    np.testing.assert_array_equal(tilt([term], pool.count).weights, np.ones(pool.count))


def test_a_marginal_that_was_measured_twice_is_counted_once_with_the_weights_of_both(monkeypatch):
    monkeypatch.setattr(tilts, "TOLERANCE", 1e-14)
    monkeypatch.setattr(tilts, "ITERATIONS", 300)
    pool = pool_of()
    codes, weights = pool.codes(BINS), leaning(pool)
    twice = [measured_pair(codes, weights, sigma, seed=seed) for seed, sigma in enumerate((20.0, 60.0))]
    once, *each = (count_term(some, codes, weights.sum()) for some in (twice, twice[:1], twice[1:]))
    assert once.cliques == (("age", "member"),) and once.places.shape == (pool.count, 1)
    both = CountTerm(
        cliques=2 * once.cliques,
        sizes=2 * once.sizes,
        places=np.concatenate([each[0].places, each[1].places + each[0].size], axis=1),
        targets=np.concatenate([term.targets for term in each]),
        penalty=np.concatenate([term.penalty for term in each]),
        variances=np.concatenate([term.variances for term in each]),
    )
    np.testing.assert_allclose(tilt([once], pool.count).weights, tilt([both], pool.count).weights, rtol=1e-3)


@pytest.mark.parametrize("rows", [1, 700, 20_001])
def test_the_objective_is_the_same_however_rows_are_cut_into_blocks(rows, monkeypatch):
    terms, theta = hand_made_terms(rows), np.array([0.3, -0.4, 0.2, 0.5, -0.1, 0.2])
    found = tilts._Objective(terms, rows, np.ones(6))(theta)
    scores = np.sum([term.scores(part) for term, part in zip(terms, np.split(theta, 2), strict=True)], axis=0)
    weights = np.exp(scores) / np.exp(scores).sum()
    value = np.log(np.exp(scores).mean()) - sum(
        term.dot(part) - 0.5 * np.sum(term.penalty * part**2)
        for term, part in zip(terms, np.split(theta, 2), strict=True)
    )
    slopes = [term.gaps(weights) + term.penalty * part for term, part in zip(terms, np.split(theta, 2), strict=True)]
    assert found[0] == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(found[1], np.concatenate(slopes), atol=1e-5)


def test_products_do_not_depend_on_the_order_in_which_two_features_are_named():
    draw = np.random.default_rng(5)
    x, theta, weights = draw.standard_normal((150, 40)).astype(np.float32), draw.standard_normal(2), np.full(40, 1 / 40)
    facts = {"used": np.arange(150), "rows": x, "targets": np.zeros(2), "penalty": np.ones(2), "variances": np.ones(2)}
    pairs = np.array([3, 140]), np.array([100, 70])
    expected = theta[0] * x[3] * x[100] + theta[1] * x[140] * x[70]
    for term in (MomentTerm(pairs=each, **facts) for each in (pairs, (pairs[1], pairs[0]))):
        np.testing.assert_allclose(term.scores(theta), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(term.sums(weights), [x[3] @ x[100] / 40, x[140] @ x[70] / 40], atol=1e-5)


def test_a_single_column_stays_in_the_term_so_that_others_do_not_move_it():
    pool = pool_of()
    codes = pool.codes(BINS)
    single = Measured(("age",), np.bincount(codes["age"], minlength=BINS["age"].size).astype(float), 1.0)
    term = count_term([single], codes, pool.count)
    assert term.cliques == (("age",),) and term.sizes == (BINS["age"].size,)


def test_moments_are_products_of_features_of_two_columns_over_clipped_rows(monkeypatch):
    monkeypatch.setattr(tilts.ProductGaps, "signals", lambda self: np.ones(len(self.z)))  # none is left out
    pool = pool_of(500)
    moments, owners = moments_of(pool, clip_norm=3.0), FEATURES.owners
    term = tilts.moment_term(pool.levels, moments)
    x = FEATURES.of_levels(pool.levels).astype(float)
    norms = np.sqrt((x**2).sum(axis=0))
    x = x * np.minimum(1.0, 3.0 / norms)
    assert (norms > 3.0).any() and (norms < 3.0).any()
    expected = [(f, g) for f in range(len(x)) for g in range(f + 1, len(x)) if owners[f] != owners[g]]
    assert list(zip(*term.pairs, strict=True)) == expected
    even = np.full(500, 1 / 500)
    made = [x[f] @ x[g] / 500 for f, g in expected]
    np.testing.assert_allclose(term.gaps(even) + term.targets, made, atol=1e-5)
    np.testing.assert_allclose(term.targets, [moments.means[pair] for pair in expected])
    theta = np.random.default_rng(0).standard_normal(term.size)
    scores = sum(t * x[f] * x[g] for t, (f, g) in zip(theta, expected, strict=True))
    np.testing.assert_allclose(term.scores(theta), scores, rtol=1e-3, atol=1e-3)


def counted(codes, shares, penalty):
    """A count of one column."""
    return CountTerm(
        cliques=(("a",),),
        sizes=(len(shares),),
        places=codes.astype(np.int32)[:, None],
        targets=np.array(shares),
        penalty=np.full(len(shares), penalty),
        variances=np.bincount(codes, minlength=len(shares)) / len(codes),
    )


def hand_made_terms(rows=200):
    draw = np.random.default_rng(4)
    x = draw.standard_normal((3, rows)).astype(np.float32)
    count = counted(draw.integers(0, 3, rows), [0.5, 0.2, 0.3], 0.05)
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
    targets, penalty = np.array([0.3, -0.2, 0.1]), np.array([0.1, 0.5, 2.0])
    variances = np.ones(3)
    moment = MomentTerm(used=np.arange(3), rows=x, pairs=pairs, targets=targets, penalty=penalty, variances=variances)
    return count, moment


@pytest.mark.parametrize("term", hand_made_terms(), ids=["counts", "moments"])
def test_gaps_are_the_gradient_of_the_logarithm_of_the_mean_weight(term):
    def value(theta):
        return np.log(np.exp(term.scores(theta)).mean()) - term.dot(theta)

    theta, step = np.array([0.3, -0.4, 0.2]), 1e-2
    weights = np.exp(term.scores(theta))
    slopes = [(value(theta + step * e) - value(theta - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(term.gaps(weights / weights.sum()), slopes, atol=2e-4)


# The tilt -----------------------------------------------------------------------------------------------------------


def test_weights_are_the_nearest_to_even_ones_that_pay_for_their_gaps(monkeypatch):
    """The dual of the tilt, over the weights p themselves: KL(p, even) + Σ_k (E_p f_k - t_k)² / 2 λ_k is least."""
    monkeypatch.setattr(tilts, "TOLERANCE", 1e-14)
    monkeypatch.setattr(tilts, "ITERATIONS", 200)
    count, moment = hand_made_terms(12)
    found = tilt([count, moment], 12).weights / 12

    def primal(logits):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        gaps = [np.sum(term.gaps(p) ** 2 / (2 * term.penalty)) for term in (count, moment)]
        return float(np.sum(p * np.log(12 * p)) + sum(gaps))

    best = minimize(
        primal,
        np.zeros(12),
        method="Nelder-Mead",
        options={"maxiter": 60_000, "maxfev": 60_000, "xatol": 1e-7, "fatol": 1e-12, "adaptive": True},
    )
    assert primal(np.log(found)) <= best.fun + 1e-5
    np.testing.assert_allclose(found, np.exp(best.x) / np.exp(best.x).sum(), atol=2e-3)


def test_without_noise_weighted_rows_have_what_was_measured_up_to_the_chance_in_them(monkeypatch):
    monkeypatch.setattr(tilts, "ITERATIONS", 500)
    monkeypatch.setattr(tilts, "TOLERANCE", 1e-12)
    pool = pool_of(2000)
    codes, true = pool.codes(BINS), leaning(pool)
    pairs = [("age", "member"), ("weight", "colour")]
    measured = [measured_pair(codes, true, 1e-3, names=names) for names in pairs]
    terms = [count_term(measured, codes, true.sum()), tilts.moment_term(pool.levels, moments_of(pool, true, 1e-5))]
    weights = tilt(terms, pool.count).weights
    for each in measured:
        made = measured_pair(codes, weights, names=each.clique).counts / pool.count
        np.testing.assert_allclose(made, each.counts / true.sum(), atol=3e-3)
    before, after = (np.abs(terms[-1].gaps(w / w.sum())).max() for w in (np.ones(pool.count), weights))
    assert before > 0.05 and after < before / 5


@pytest.mark.parametrize("sigma", [5.0, 40.0])
def test_noise_alone_moves_counts_by_little_of_it(sigma):
    pool, names = pool_of(), ("age", "colour")
    codes, even, moved = pool.codes(BINS), np.ones(pool.count), []
    for seed in range(20):
        noisy = measured_pair(codes, even, sigma, names, seed)
        weights = tilt([count_term([noisy], codes, pool.count)], pool.count).weights
        moved.append(measured_pair(codes, weights - even, names=names).counts)
    assert np.sqrt(np.mean(np.square(moved))) < 0.25 * sigma


def test_moments_that_are_off_by_noise_alone_are_left_out():
    pool = pool_of(1000)
    kept = [tilts.moment_term(pool.levels, moments_of(pool, noise=0.02, seed=seed)).size for seed in range(10)]
    assert kept.count(0) >= 8


def signals(z, numbers=True):
    return ProductGaps(
        pairs=(np.zeros(len(z), np.int64), np.zeros(len(z), np.int64)),
        z=z,
        variances=np.ones(len(z)),
        numbers=np.full(len(z), numbers),
    ).signals()


def test_a_single_gap_and_many_small_ones_are_told_from_noise():
    draw = np.random.default_rng(0)
    noise = draw.standard_normal(1000)
    assert np.count_nonzero(signals(noise)) <= 2
    found = signals(np.append(noise, 6.0))
    assert found[-1] == pytest.approx(35.0) and np.count_nonzero(found) <= 3
    many = signals(noise + 0.7 * draw.standard_normal(1000))
    assert many.min() == pytest.approx(0.49, rel=0.3)
    assert signals(np.zeros(0)).size == 0


def test_many_small_gaps_of_categories_count_for_nothing():
    draw = np.random.default_rng(0)
    z = 1.2 * draw.standard_normal(1000)
    found = signals(np.append(z, 6.0), numbers=False)
    assert found[-1] == pytest.approx(35.0) and np.count_nonzero(found) <= 10


def test_a_tilt_of_many_rows_begins_with_some_of_them(monkeypatch):
    """The first θ, from every eighth row, is where the last one begins, and hardly moves it."""
    pool = pool_of(20_000)
    codes, true = pool.codes(BINS), leaning(pool)
    terms = [count_term([measured_pair(codes, true, 5.0)], codes, true.sum())]
    monkeypatch.setattr(tilts, "TOLERANCE", 1e-12)
    seen = []
    call = tilts._Objective.__call__
    monkeypatch.setattr(tilts._Objective, "__call__", lambda self, x: (seen.append(self.rows), call(self, x))[1])
    (found,) = tilts.solve(terms, pool.count)
    assert seen[0] == 2500 and seen[-1] == 20_000
    monkeypatch.setattr(tilts, "LEAST_FIRST", 10**9)
    monkeypatch.setattr(tilts, "ITERATIONS", 100)
    (alone,) = tilts.solve(terms, pool.count)
    np.testing.assert_allclose(found, alone, atol=1e-3)


def test_nothing_measured_leaves_all_rows_alike():
    np.testing.assert_array_equal(tilt([], 7).weights, np.ones(7))


def test_weights_have_mean_one_and_no_row_stands_for_very_many():
    """A tenth of the mass is wanted of five rows in ten thousand: each would weigh 200 times the mean."""
    codes = (np.arange(10_000) < 5).astype(np.int64)
    weights = tilt([counted(codes, [0.9, 0.1], 1e-9)], 10_000).weights
    assert weights.mean() == pytest.approx(1.0)
    assert weights.max() <= LARGEST_WEIGHT / (1 - 0.1) * (1 + 1e-3) and weights.max() > LARGEST_WEIGHT
    assert np.ptp(weights[5:]) < 1e-9


# Softened weights -----------------------------------------------------------------------------------------------------


def test_weights_are_worth_a_quarter_of_the_rows_however_sharp_the_counts():
    """A cell that one row in a hundred is in, counted without noise to speak of as holding everybody."""
    codes = (np.arange(1000) % 100 == 0).astype(np.int64)
    sharp = counted(codes, [0.0, 1.0], 1e-12)
    weights, effective = tilt([sharp], 1000)
    assert effective_part(weights) == pytest.approx(LEAST_EFFECTIVE, abs=0.01)
    assert effective < 0.2 * LEAST_EFFECTIVE  # what they were worth before
    assert weights[0] == weights.max() and weights.mean() == pytest.approx(1.0)


def test_weights_that_are_worth_enough_are_left_as_they_are():
    codes = (np.arange(1000) % 2).astype(np.int64)
    weights, effective = tilt([counted(codes, [0.3, 0.7], 1e-9)], 1000)
    assert effective == effective_part(weights)
    np.testing.assert_allclose(weights[:2], [0.6, 1.4], atol=0.01)


def test_even_weights_are_worth_all_rows_and_one_row_its_part():
    assert effective_part(np.ones(50)) == pytest.approx(1.0)
    assert effective_part(np.eye(50)[0]) == pytest.approx(0.02)
