"""Before the private steps of `prada`: linear predictions on public rows, and the densities that learn such rows."""

import functools

import numpy as np
import pytest
from scipy import stats

from prada_densities import (
    FOUR,
    HIDDEN,
    VARIABLES,
    category,
    columns,
    densities,
    encoder_of,
    every_pair,
    number,
    parts,
    reading,
    rows,
    some_pairs,
)
from understudy.core.randomness import Key
from understudy.synthesizers.prada.likelihood import schedule
from understudy.synthesizers.prada.likelihood.distillation import BATCH, _batches, distil
from understudy.synthesizers.prada.likelihood.fit import _distil
from understudy.synthesizers.prada.likelihood.parents import sources_of
from understudy.synthesizers.prada.likelihood.pool import Pool, PublicRows
from understudy.synthesizers.prada.likelihood.reading import FLAGS_OF_MANY, Reading, reading_of
from understudy.synthesizers.prada.likelihood.start import LEAST_UNIT, Prediction, least_squares, start_column
from understudy.synthesizers.prada.likelihood.variables import variables_of

# Linear predictions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("even", [True, False], ids=["even weights", "uneven weights"])
def test_a_linear_prediction_is_least_squares(even):
    draw = np.random.default_rng(0)
    x = np.linalg.cholesky(0.5 * np.eye(4) + 0.5) @ draw.standard_normal((4, 3000)) + np.arange(4)[:, None]
    x, targets = x[:3], np.stack([x[3], x[0] - 2 * x[1] + draw.standard_normal(3000)])
    weights = np.ones(3000) if even else draw.exponential(size=3000)
    found, root = least_squares(x, targets, weights), np.sqrt(weights)
    left = np.stack([*x, np.ones(3000)], axis=1) * root[:, None]
    for i, target in enumerate(targets):
        slopes, *_ = np.linalg.lstsq(left, target * root)
        np.testing.assert_allclose([*found.slopes[i], found.constants[i]], slopes, atol=0.01)  # SMALLEST shrinks them
        residual = target * root - left @ slopes
        assert found.left[i] == pytest.approx(np.sqrt((residual**2).sum() / weights.sum()), rel=0.01)
    share = weights / weights.sum()
    np.testing.assert_allclose(found.deviations, np.sqrt(x**2 @ share - (x @ share) ** 2))


def test_inputs_that_repeat_each_other_share_a_weight():
    one, other = np.random.default_rng(0).standard_normal((2, 1000))
    found = least_squares(np.stack([one, one]), (one + 0.1 * other)[None], np.ones(1000))
    np.testing.assert_allclose(found.slopes, [[0.5, 0.5]], atol=0.01)


def test_inputs_that_never_vary_and_rows_that_weigh_nothing_are_predicted_from_all_the_same():
    x = np.stack([np.ones(50), np.random.default_rng(0).standard_normal(50)])
    for weights in (np.ones(50), np.zeros(50)):
        found = least_squares(x, x[1:], weights)
        assert all(np.isfinite(part).all() for part in found) and (found.left > 0).all()


def test_without_inputs_the_mean_is_predicted():
    found = least_squares(np.zeros((0, 4)), np.array([[1.0, 2.0, 3.0, 6.0]]), np.array([1.0, 1.0, 1.0, 0.0]))
    assert found.slopes.shape == (1, 0) and found.constants == pytest.approx(2.0)
    assert found.left == pytest.approx(np.sqrt(2 / 3))


def started(x: PublicRows, read: Reading, pairs, weights=None, components=1):
    """All columns before training, and their predictions."""
    draw, weights = np.random.default_rng(0), np.ones(x.count) if weights is None else weights
    return [
        start_column(j, sources, x, weights, read, hidden=HIDDEN, components=components, draw=draw)
        for j, sources in enumerate(sources_of(pairs, read))
    ]


def test_densities_start_as_the_normal_distribution_of_the_rows():
    draw = np.random.default_rng(1)
    root = draw.standard_normal((4, 4))
    x = np.linalg.cholesky(root @ root.T + 4 * np.eye(4)) @ draw.standard_normal((4, 16_000))
    x = ((x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)).astype(np.float32)
    read = reading(FOUR)
    public = PublicRows(FOUR, x, np.zeros(x.shape, np.int64), x)
    made = densities([column for column, _ in started(public, read, every_pair(4))], read, components=1)
    found = made.total_log_density(public.some(50))
    exact = stats.multivariate_normal.logpdf(x[:, :50].T, np.zeros(4), np.cov(x))  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_states_start_at_their_shares_where_nothing_is_read():
    x, made = rows(4000), started(rows(4000), reading(), np.zeros((7, 7), bool))
    for j, (column, prediction) in enumerate(made):
        variable = VARIABLES[j]
        assert column.first.shape[0] == 1 and prediction.slopes.shape[1] == 0
        if variable.states:
            logits = densities([c for c, _ in made], components=1).outputs(j, x.inputs[:0, :1]).logits
            assert logits is not None
            chances = np.exp(logits[:, 0]) / np.exp(logits[:, 0]).sum()
            np.testing.assert_allclose(chances, variable.shares, atol=0.01)
        if variable.number:
            assert float(column.unit) == pytest.approx(1.0, abs=0.1)


def test_predictions_are_in_units_of_what_is_predicted():
    """b = 0.8 a + 0.6 e: the slope is 0.8 and not 0.8 / 0.6, which the column's own weight is."""
    x = np.random.default_rng(0).standard_normal((4, 8000))
    x[1] = 0.8 * x[0] + 0.6 * x[1]
    x = x.astype(np.float32)
    made = started(PublicRows(FOUR, x, np.zeros(x.shape, np.int64), x), reading(FOUR), every_pair(4))
    column, prediction = made[1]
    assert prediction.slopes[0, 0] == pytest.approx(0.8, abs=0.02) and prediction.left[0] == pytest.approx(
        0.6, abs=0.02
    )
    assert column.first[0, HIDDEN] == pytest.approx(0.8 / 0.6, abs=0.04)


def test_a_number_that_is_known_is_not_taken_for_certain():
    x = np.repeat(np.random.default_rng(0).standard_normal((1, 500)), 4, axis=0).astype(np.float32)
    public = PublicRows(FOUR, x, np.zeros(x.shape, np.int64), x)
    made = started(public, reading(FOUR), every_pair(4))
    assert [float(column.unit) for column, _ in made][1:] == pytest.approx([LEAST_UNIT] * 3, rel=0.05)


def dependent(n=8000, seed=0):
    """Twenty values and three others that follow whether the first are even."""
    draw = np.random.default_rng(seed)
    x = draw.integers(0, 20, n)
    y = np.where(draw.random(n) < 0.8, x % 2, 2)
    encoder = encoder_of(category("y", np.array([0.4, 0.4, 0.2])), category("x", np.ones(20)))
    variables = variables_of(encoder, ["y", "x"])
    levels = {v.name: v.levels[code].mean(axis=1) for v, code in zip(variables, (y, x), strict=True)}
    pool = Pool(levels, variables)
    read = reading_of(variables, pool.states, [y, x], np.ones(n))
    return pool.read(read), read


@pytest.mark.parametrize("trained", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_many_states_follow_their_places(trained):
    """Given y = 0, even values hold 9 in 10 of the mass or more; given y = 2, half."""
    x, read = dependent()
    made = [column for column, _ in started(x, read, every_pair(2))]
    assert made[1].places.shape == (20, FLAGS_OF_MANY + 2)
    if trained:
        made = learnt(made, x, read, steps=200)
    logits = densities(made, read, components=1).outputs(1, x.inputs[made[1].sources]).logits
    assert logits is not None
    chances = np.exp(logits - logits.max(axis=0))
    even = (chances[::2].sum(axis=0) / chances.sum(axis=0))[[np.argmax(x.states[0] == y) for y in range(3)]]
    assert (
        even[2] == pytest.approx(0.5, abs=0.1) and even[0] > (0.9 if trained else 0.7) and even[1] < 1 - even[0] + 0.1
    )


# Distillation -------------------------------------------------------------------------------------------------------


def learnt(made, x, read, weights=None, steps=400, rate=0.03, components=1):
    """Columns that are trained further on weighted public rows."""
    weights = np.ones(x.count) if weights is None else weights
    return _distil(made, parts(made, read, components), x, weights, steps, rate, Key.new(0))


@functools.cache
def pair_of_numbers():
    encoder = encoder_of(*(number(name, [-3.0, 3.0], [0.0, 1.0]) for name in "ab"))
    return reading(variables_of(encoder, ["a", "b"]))


@pytest.mark.parametrize("weighted", [False, True], ids=["even weights", "weights"])
def test_distilled_densities_have_the_slope_and_the_deviation_of_their_rows(weighted):
    """b ~ N(0.8 a + 0.3, 0.5²) on rows that count, and something else on rows that weigh nothing."""
    draw, n, read = np.random.default_rng(0), 8000, pair_of_numbers()
    a, e = draw.standard_normal((2, n))
    counts = np.arange(n) % 2 == 0 if weighted else np.ones(n, bool)
    b = np.where(counts, 0.8 * a + 0.3 + 0.5 * e, 3.0 - a)
    x, states = np.stack([a, b]).astype(np.float32), np.zeros((2, n), np.int64)
    public = PublicRows(read.variables, x, states, x)
    nothing = [
        column
        for column, _ in started(
            PublicRows(read.variables, x[:, :2] * 0, states, x[:, :2] * 0), read, every_pair(2), np.zeros(2)
        )
    ]
    nothing = [column._replace(unit=np.float32(1.0)) for column in nothing]
    made = learnt(nothing, public, read, counts.astype(float), steps=600)
    grid = np.linspace(-2, 2, 81)
    for given in (-1.0, 0.0, 1.0):
        at = np.stack([np.full(81, given), 0.3 + 0.8 * given + grid]).astype(np.float32)
        found = densities(made, read, components=1).log_density(1, PublicRows(read.variables, at, states, at), at[:1])
        mass = np.exp(found) / np.exp(found).sum()
        assert mass @ grid == pytest.approx(0.0, abs=0.06)
        assert np.sqrt(mass @ grid**2) == pytest.approx(0.5, abs=0.05)


def test_batches_are_drawn_in_proportion_to_the_weights():
    weights = np.array([0.0, 1.0, 3.0, 0.0, 4.0])
    found = _batches(weights, 50, np.random.default_rng(0))
    assert found.shape == (50, BATCH)
    counts = np.bincount(found.ravel(), minlength=5) / found.size
    np.testing.assert_allclose(counts, weights / 8, atol=1e-3)  # stratified
    for batch in found:
        assert np.abs(np.bincount(batch, minlength=5) - BATCH * weights / 8).max() <= 1


def test_distillation_makes_rows_more_likely_and_leaves_the_rest():
    made, x, read = columns(some_pairs()), rows(2000), reading()
    given = [(part, part.pack(made, VARIABLES), part.rows(x)) for part in parts(made)]
    trained = distil(given, np.ones(2000), steps=20, rate=0.03, draw=np.random.default_rng(0))
    after, unused = list(made), 0
    for (part, before, _), weights in zip(given, trained, strict=True):
        unread = np.zeros(before.first.shape, bool)
        unread[:, :-1] = (before.sources < 0)[:, :, None]
        unused += unread.sum()
        assert not weights.first[unread].any()  # inputs that read nothing keep weights of zero
        assert not np.allclose(weights.first[~unread], before.first[~unread])
        np.testing.assert_array_equal(weights.sources, before.sources)
        np.testing.assert_array_equal(weights.unit, before.unit)
        for j, column in part.unpack(weights, made):
            after[j] = column
    assert unused
    one, other = (densities(each, read) for each in (made, after))
    for j in range(7):
        read_by = x.inputs[made[j].sources]
        assert other.log_density(j, x, read_by).mean() > one.log_density(j, x, read_by).mean(), VARIABLES[j].name


@pytest.mark.slow
def test_distilled_states_have_the_shares_of_their_rows():
    draw = np.random.default_rng(0)
    encoder = encoder_of(category("a", np.ones(2)), category("b", np.ones(2)))
    variables = variables_of(encoder, ["a", "b"])
    given = np.array([[0.9, 0.1], [0.3, 0.7]])
    a = draw.integers(0, 2, 20_000)
    b = (draw.random(20_000) < given[a, 1]).astype(int)
    levels = {v.name: v.levels[code].mean(axis=1) for v, code in zip(variables, (a, b), strict=True)}
    pool = Pool(levels, variables)
    read = reading_of(variables, pool.states, [a, b], np.ones(20_000))
    x = pool.read(read)
    made = learnt([column for column, _ in started(x, read, every_pair(2))], x, read)
    for value in range(2):
        at = x.some(20_000)
        logits = densities(made, read, components=1).outputs(1, at.inputs[made[1].sources][:, a == value][:, :1]).logits
        assert logits is not None
        chances = np.exp(logits[:, 0]) / np.exp(logits[:, 0]).sum()
        np.testing.assert_allclose(chances, given[value], atol=0.03)


# The penalty --------------------------------------------------------------------------------------------------------


def test_pairs_that_the_start_is_sure_of_are_hardly_penalised():
    read = reading(FOUR[:3])
    made = columns(every_pair(3), read)
    slopes = [np.zeros((1, 0)), np.array([[0.8]]), np.zeros((1, 2))]
    starts = [Prediction(each, np.zeros(1), np.ones(1), np.ones(each.shape[1])) for each in slopes]

    def penalties(scale, noise):
        owners = np.arange(3)
        return schedule.penalties(scale, made, starts, owners, start_noise=0.01, rows=1e4, noise=noise)

    found = penalties(1.0, 1e-2)
    assert [each.shape for each in found] == [(3,)] * 3
    assert found[1][0] < found[2][0] / 10 and not np.concatenate(penalties(0.0, 1e-4)).any()
    assert (found[2] > 0).tolist() == [True, True, False]  # of columns that are read
    for one, other in zip(penalties(1.0, 1e-1), found, strict=True):
        np.testing.assert_allclose(one, other / 100)  # a hundredth of the chance's share of the squares
    silent = penalties(1.0, 0.0)
    assert all(np.isfinite(one).all() and (one >= other).all() for one, other in zip(silent, found, strict=True))


def test_a_larger_group_of_weights_has_a_larger_penalty():
    """Of g, c has four inputs and a one: twice the length."""
    made = columns(some_pairs())
    starts = [Prediction(np.zeros((1, len(c.sources))), np.zeros(1), np.ones(1), np.ones(len(c.sources))) for c in made]
    found = schedule.penalties(1.0, made, starts, reading().owners, start_noise=0.01, rows=1e4, noise=1e-2)
    assert found[6][2] == pytest.approx(2 * found[6][0])


def test_rates_fall_where_the_noise_in_a_gradient_is_large():
    made = columns(every_pair(7))
    weights = sum(own.first.size + own.second.size for own in made)
    just = schedule.STEADY / np.sqrt(weights)
    assert schedule.steady_rate(0.01, made, just / 10) == schedule.steady_rate(0.01, made, 0.0) == 0.01
    assert schedule.steady_rate(0.01, made, just) == pytest.approx(0.01)
    assert schedule.steady_rate(0.01, made, 5 * just) == pytest.approx(0.002)
