"""Before the private steps of `prada`: linear predictions on public rows, and the densities that learn such rows."""

import jax
import numpy as np
import pytest
from scipy import stats

from fitting import mixed_encoder
from prada_densities import FOUR, LAYOUT, densities, every_pair, rows, some_pairs
from understudy.privacy.normal_scores import ValueWeighting
from understudy.synthesizers.prada.layout import Layout, categorical, numeric
from understudy.synthesizers.prada.likelihood import schedule
from understudy.synthesizers.prada.likelihood.density import log_density, used_inputs
from understudy.synthesizers.prada.likelihood.distillation import distil
from understudy.synthesizers.prada.likelihood.moments import NoisyMoments
from understudy.synthesizers.prada.likelihood.parents import sources_of
from understudy.synthesizers.prada.likelihood.start import (
    LEAST_UNIT,
    FeatureFacts,
    LinearStart,
    correlations_of,
    feature_facts,
    linear_start,
    start_params,
)

densities_of = jax.jit(log_density, static_argnames=("layout", "components"))

# Facts of the encoder -----------------------------------------------------------------------------------------------


def test_facts_of_the_features_are_those_of_the_encoder():
    encoder = mixed_encoder()
    layout = Layout.of(encoder, encoder.schema.names)
    facts = feature_facts(encoder, layout)
    at = dict(zip(layout.names, layout.starts, strict=True))
    place = {name: j for j, name in enumerate(layout.names)}
    assert (facts.means[at["age"]], facts.variances[at["age"]]) == (0.0, 1.0)
    missing = encoder.columns["income"].missing
    np.testing.assert_allclose(facts.means[at["income"] + 1 :][:2], [1 - missing, missing], atol=1e-3)
    shares = np.diff(encoder.columns["member"].distribution.cdf)
    np.testing.assert_allclose(facts.shares[place["member"], :2], shares, atol=1e-3)
    np.testing.assert_allclose(facts.variances[at["member"] :][:2], shares * (1 - shares), atol=1e-3)
    for j, block in enumerate(layout.blocks):
        assert facts.shares[j].sum() == pytest.approx(1.0 if block.categories else 0.0)


# Linear predictions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("even", [True, False], ids=["even weights", "uneven weights"])
def test_the_linear_start_is_least_squares_from_the_parents(even):
    draw = np.random.default_rng(0)
    x = np.linalg.cholesky(0.5 * np.eye(4) + 0.5) @ draw.standard_normal((4, 3000)) + np.arange(4)[:, None]
    weights = np.ones(3000) if even else draw.exponential(size=3000)
    pairs = every_pair(FOUR)
    pairs[3, 1] = False
    found = linear_start(correlations_of(x, weights), pairs, FOUR)
    root = np.sqrt(weights)
    for j in range(4):
        read = np.flatnonzero(pairs[j])
        left = np.stack([*x[read], np.ones(3000)], axis=1) * root[:, None]
        slopes, *_ = np.linalg.lstsq(left, x[j] * root)
        np.testing.assert_allclose(found.weights[j, read], slopes[:-1], atol=0.005)  # SMALLEST is on the diagonal
        residual = x[j] * root - left @ slopes
        assert found.left[j] == pytest.approx(np.sqrt((residual**2).sum() / weights.sum()), rel=0.01)
        assert not np.delete(found.weights[j], read).any()
    np.testing.assert_allclose(found.means, x @ weights / weights.sum())


def test_columns_that_repeat_each_other_share_a_weight():
    one, other = np.random.default_rng(0).standard_normal((2, 1000))
    layout = Layout(tuple(numeric(name) for name in "abc"))
    found = linear_start(
        correlations_of(np.stack([one, one, one + 0.1 * other]), np.ones(1000)), every_pair(layout), layout
    )
    np.testing.assert_allclose(found.weights[2], [0.5, 0.5, 0.0], atol=0.01)


def test_a_category_that_no_row_is_in_is_predicted_all_the_same():
    x = rows(300).astype(float)
    x[LAYOUT.starts[1]] = 0.0
    found = linear_start(correlations_of(x, np.ones(300)), every_pair(LAYOUT), LAYOUT)
    assert all(np.isfinite(part).all() for part in found) and (found.left > 0).all()


def test_densities_start_as_the_normal_distribution_of_the_rows():
    draw = np.random.default_rng(1)
    root = draw.standard_normal((4, 4))
    x = np.linalg.cholesky(root @ root.T + 4 * np.eye(4)) @ draw.standard_normal((4, 20_000))
    x = ((x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)).astype(np.float32)
    start = linear_start(correlations_of(x.astype(float), np.ones(20_000)), every_pair(FOUR), FOUR)
    sources = sources_of(every_pair(FOUR), FOUR)
    made = start_params(start, np.zeros((4, 1)), sources, FOUR, 6, 1, np.random.default_rng(0))
    found = np.asarray(densities_of(made, x[:, :50], FOUR, 1)).sum(axis=0)
    exact = stats.multivariate_normal.logpdf(x[:, :50].T, np.zeros(4), np.cov(x))  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_categories_start_at_their_shares_and_nothing_is_read_where_no_source_is():
    shares = np.array([[0, 0, 0, 0], [0.5, 0.3, 0.2, 0], [0, 0.8, 0.2, 0], [0.1, 0.6, 0.3, 0], [0, 0, 0, 0]])
    sources = sources_of(some_pairs(), LAYOUT)
    features = LAYOUT.features
    start = LinearStart(np.zeros((features, features)), np.zeros(features), np.full(features, 1e-9))
    made = start_params(start, shares[:, : LAYOUT.width], sources, LAYOUT, 4, 2, np.random.default_rng(0))
    x = rows()
    found = np.exp(np.asarray(densities_of(made, x, LAYOUT, 2)))
    np.testing.assert_allclose(found[1], shares[1, :3] @ x[1:4], rtol=1e-4)
    assert not made.first[~np.broadcast_to(used_inputs(sources), made.first.shape)].any()
    np.testing.assert_allclose(made.unit[[0, 2, 4]], LEAST_UNIT)


# Distillation -------------------------------------------------------------------------------------------------------

PAIR = Layout((numeric("a"), numeric("b")))


def distilled(made, x, weights=None, layout=PAIR, components=1, steps=600, rate=0.03):
    weights = np.ones(x.shape[1]) if weights is None else weights
    return distil(
        made,
        x.astype(np.float32),
        weights,
        steps=steps,
        rate=rate,
        key=jax.random.key(0),
        layout=layout,
        components=components,
    )


def plain_start(layout, pairs, shares=None, hidden=4, components=1):
    """Densities that know nothing: standard normal numbers, even categories."""
    size, given = layout.features, np.full((layout.columns, layout.width), 0.5) if shares is None else shares
    nothing = LinearStart(np.zeros((size, size)), np.zeros(size), np.ones(size))
    return start_params(nothing, given, sources_of(pairs, layout), layout, hidden, components, np.random.default_rng(0))


@pytest.mark.parametrize("weighted", [False, True], ids=["even weights", "weights"])
def test_distilled_densities_have_the_slope_and_the_deviation_of_their_rows(weighted):
    """b ~ N(0.8 a + 0.3, 0.5²) on rows that count, and something else on rows that weigh nothing."""
    draw, n = np.random.default_rng(0), 8000
    a, e = draw.standard_normal((2, n))
    counts = np.arange(n) % 2 == 0 if weighted else np.ones(n, bool)
    b = np.where(counts, 0.8 * a + 0.3 + 0.5 * e, 3.0 - a)
    made = distilled(plain_start(PAIR, every_pair(PAIR)), np.stack([a, b]), counts.astype(float))
    grid = np.linspace(-2, 2, 81)
    for given in (-1.0, 0.0, 1.0):
        found = np.exp(
            np.asarray(densities_of(made, np.stack([np.full(81, given), 0.3 + 0.8 * given + grid]), PAIR, 1))
        )
        mass = found[1] / found[1].sum()
        assert mass @ grid == pytest.approx(0.0, abs=0.06)
        assert np.sqrt(mass @ grid**2) == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
def test_distilled_categories_have_the_shares_of_their_rows():
    draw = np.random.default_rng(0)
    layout = Layout((categorical("a", 2), categorical("b", 2)))
    given = np.array([[0.9, 0.1], [0.3, 0.7]])
    a = draw.integers(0, 2, 20_000)
    b = (draw.random(20_000) < given[a, 1]).astype(int)
    x = np.concatenate([np.eye(2)[a].T, np.eye(2)[b].T])
    made = distilled(plain_start(layout, every_pair(layout)), x, layout=layout)
    cases = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]], np.float32).T
    found = np.exp(np.asarray(densities_of(made, cases, layout, 1)))[1]
    np.testing.assert_allclose(found, given.ravel(), atol=0.03)


def test_inputs_that_read_nothing_keep_weights_of_exactly_zero():
    made = densities(some_pairs())
    trained = distilled(made, rows(2000), layout=LAYOUT, components=3, steps=20)
    unread = ~np.broadcast_to(used_inputs(made.sources), made.first.shape)
    assert unread.any() and not trained.first[unread].any()
    assert not np.allclose(trained.first[~unread], made.first[~unread])
    np.testing.assert_array_equal(trained.sources, made.sources)
    np.testing.assert_array_equal(trained.unit, made.unit)


def test_distillation_makes_rows_more_likely():
    made, x = densities(some_pairs()), rows(2000)
    trained = distilled(made, x, layout=LAYOUT, components=3, steps=20)
    before, after = (np.asarray(densities_of(each, x, LAYOUT, 3)).mean(axis=1) for each in (made, trained))
    assert (after > before).all()


# The penalty --------------------------------------------------------------------------------------------------------


def test_pairs_that_the_start_is_sure_of_are_hardly_penalised():
    layout = Layout(tuple(numeric(f"c{i}") for i in range(3)))
    start = LinearStart(np.array([[0, 0, 0], [0.8, 0, 0], [0.0, 0.0, 0]]), np.zeros(3), np.ones(3))

    def penalties(scale, noise):
        return schedule.penalties(scale, start, start_noise=0.01, rows=1e4, noise=noise, layout=layout, hidden=8)

    found = penalties(1.0, 1e-3)
    assert found[1, 0] < found[2, 0] / 10 and (penalties(0.0, 1e-4) == 0).all()
    np.testing.assert_allclose(penalties(1.0, 1e-2), found / 100)  # a hundredth of the chance's share of the squares
    silent = penalties(1.0, 0.0)
    assert np.isfinite(silent).all() and (silent >= found).all()


# The copula that the moments stand for --------------------------------------------------------------------------------


def noisy_moments(means, *, weightings=None):
    return NoisyMoments(means=means, noise=1e-9, clip_norm=1e3, weightings=weightings or {})


def test_moments_of_scores_are_the_correlations_of_their_copula():
    layout = Layout((numeric("a"), numeric("b")))
    facts = FeatureFacts(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    matrix = np.array([[1.0, 0.6], [0.6, 1.0]])
    found = noisy_moments(matrix).correlations(facts, layout)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-9)


def test_what_clipping_took_is_given_back():
    """Clipped rows have smaller squares and products alike; the known squares say by how much."""
    layout = Layout((numeric("a"), numeric("b")))
    facts = FeatureFacts(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    found = noisy_moments(0.7 * np.array([[1.0, 0.6], [0.6, 1.0]])).correlations(facts, layout)
    np.testing.assert_allclose(found.matrix[0, 1], 0.6, atol=1e-9)


def test_products_of_scores_that_follow_values_are_divided_by_their_loading():
    layout = Layout((numeric("a"), numeric("b")))
    facts = FeatureFacts(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    weighting = ValueWeighting(0.0, 1.0, loading=0.8)
    moments = noisy_moments(np.array([[1.0, 0.48], [0.48, 1.0]]), weightings={"b": weighting})
    np.testing.assert_allclose(moments.correlations(facts, layout).matrix[0, 1], 0.6, atol=1e-9)


def test_means_of_categories_are_taken_out_of_their_products():
    layout = Layout((numeric("a"), categorical("c", 2)))
    facts = FeatureFacts(np.array([0.0, 0.3, 0.7]), np.array([1.0, 0.21, 0.21]), np.array([[0.0, 0.0], [0.3, 0.7]]))
    means = np.array([[1.0, 0.1, -0.1], [0.1, 0.3, 0.0], [-0.1, 0.0, 0.7]])
    found = noisy_moments(means).correlations(facts, layout)
    np.testing.assert_allclose(found.matrix[0, 1], 0.1 / np.sqrt(0.21), atol=0.02)
    assert found.matrix[1, 2] < -0.9  # one category excludes the other
