"""PrAda by likelihood: densities, factors, the start from second moments, parents, and what is drawn."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy import integrate, stats

import understudy
from conftest import MIXED, mixed_table, quick
from understudy.synthesizers.prada.layout import Layout, categorical, numeric
from understudy.synthesizers.prada.likelihood import density, drawing, schedule
from understudy.synthesizers.prada.likelihood.calibration import calibrate_marginals
from understudy.synthesizers.prada.likelihood.density import Densities
from understudy.synthesizers.prada.likelihood.method import Prada
from understudy.synthesizers.prada.likelihood.parents import cut_inputs, influences, prune_parents
from understudy.synthesizers.prada.likelihood.start import Start, start_from, start_params
from understudy.synthesizers.prada.settings import drawn_rate, sampling_rate
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

LAYOUT = Layout(
    (numeric("a"), categorical("b", 3), numeric("c", nullable=True), categorical("d", 2, nullable=True), numeric("e"))
)
FOUR = Layout(tuple(numeric(f"c{i}") for i in range(4)))
HIDDEN, COMPONENTS = 5, 3
log_density = jax.jit(density.log_density, static_argnames=("layout", "components"))


def rows(n=40, seed=0):
    """Rows of features of the layout: scores, one category each, no score where it is missing."""
    draw = np.random.default_rng(seed)
    x = np.zeros((n, LAYOUT.features), np.float32)
    for block, at in zip(LAYOUT.blocks, LAYOUT.starts, strict=True):
        category = draw.integers(0, max(block.categories, 1), n)
        if block.categories:
            x[np.arange(n), at + block.number + category] = 1.0
        if block.number:
            x[:, at] = draw.standard_normal(n) * (category == 0 if block.categories else 1)
    return jnp.asarray(x.T)


def params(seed=0, layout=LAYOUT, hidden=HIDDEN, components=COMPONENTS):
    draw = np.random.default_rng(seed)
    second = density.start_second(layout, hidden, components)
    first = 0.5 * draw.standard_normal((layout.columns, layout.features + 1, hidden + layout.width))
    first[:, :-1] *= layout.earlier[:, :, None]
    second = second + 0.5 * draw.standard_normal(second.shape)
    unit = draw.uniform(0.3, 1.0, layout.columns)
    return Densities(*(jnp.asarray(value, jnp.float32) for value in (first, second, unit)))


# Densities ----------------------------------------------------------------------------------------------------------


def test_factors_are_the_gradient_of_the_weighted_log_density():
    made, x = params(), rows()
    weights = jnp.linspace(0.5, 3.0, LAYOUT.columns)

    def loss(layers, row):
        first, second = layers
        each = density.log_density(Densities(first, second, made.unit), row[:, None], LAYOUT, COMPONENTS)
        return -jnp.sum(weights[:, None] * each)

    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 1)))((made.first, made.second), x)
    # `seen` is no array of the program, but a constant of the layout.
    pairs = jax.jit(lambda params, x: [layer[:2] for layer in density.factors(params, x, weights, LAYOUT, COMPONENTS)])
    factors = [(*pair, seen) for pair, seen in zip(pairs(made, x), (LAYOUT.seen(1), None), strict=True)]
    for i, (a, delta, seen) in enumerate(factors):
        own = a if seen is None else np.where(seen[:, :, None], a, 0.0)
        exact = np.einsum("dir,dor->rdio", own, delta)
        expected = np.asarray(each[i])
        if seen is not None:
            expected = expected * np.append(LAYOUT.earlier, np.ones((LAYOUT.columns, 1)), axis=1)[None, :, :, None]
        assert np.allclose(exact, expected, atol=2e-4, rtol=1e-3)


def test_a_column_does_not_see_itself_or_later_ones():
    made, x = params(), rows()
    found = log_density(made, x, LAYOUT, COMPONENTS)
    moved = np.array(x)
    moved[LAYOUT.owners == 4] += 1.0
    again = log_density(made, jnp.asarray(moved), LAYOUT, COMPONENTS)
    assert np.array_equal(found[:4], again[:4]) and not np.allclose(found[4], again[4])


def test_densities_of_a_number_integrate_to_one_and_of_categories_sum_to_one():
    """The last number over a grid, and the first category over its values, given the features of some row."""
    made, grid = params(), np.linspace(-12, 12, 4001)
    x = np.repeat(np.asarray(rows(1)), 4001, axis=1)
    last, values = LAYOUT.starts[4], LAYOUT.starts[1] + np.arange(3)
    x[last] = grid
    x[values] = 0.0
    x[values[np.arange(4001) % 3], np.arange(4001)] = 1.0
    found = np.exp(np.asarray(log_density(made, jnp.asarray(x), LAYOUT, COMPONENTS)))
    assert found[1, :3].sum() == pytest.approx(1.0, abs=1e-5)
    for value in range(3):  # the number depends on the category that is given
        own = slice(value, None, 3)
        assert integrate.trapezoid(found[4, own], grid[own]) == pytest.approx(1.0, abs=1e-3)


def test_no_density_is_large_without_bound():
    made = params()
    wild = made._replace(second=made.second * 1e4)
    found = np.asarray(log_density(wild, rows(), LAYOUT, COMPONENTS))
    assert np.isfinite(found).all()
    assert found.max() <= -math.log(density.SCALES[0] * float(made.unit.min()))


# The start ----------------------------------------------------------------------------------------------------------


def gaussian_moments(n=4, seed=0):
    draw = np.random.default_rng(seed)
    root = draw.standard_normal((n, n))
    covariance = root @ root.T + n * np.eye(n)
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


def test_the_start_is_the_gaussian_copula():
    correlation = gaussian_moments()
    start = start_from(correlation, np.zeros(4), np.ones(4), FOUR, noise=0.0)
    made = start_params(start, np.zeros((4, 1)), FOUR, 6, 1, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    found = np.asarray(log_density(made, jnp.asarray(x.T), FOUR, 1)).sum(axis=0)
    exact = stats.multivariate_normal.logpdf(x, np.zeros(4), correlation)  # pyright: ignore[reportArgumentType]
    assert np.allclose(found, exact, atol=1e-3)


def test_the_start_of_a_value_weighted_score_is_the_gaussian_copula_behind_it():
    """With a = g(Z), moments of a and x are those of Z and x times the loading of a, and its own square is one."""
    correlation, loading = gaussian_moments(), 0.6
    seen = correlation.copy()
    seen[-1, :-1] *= loading
    seen[:-1, -1] *= loading
    loadings = np.array([1.0, 1.0, 1.0, loading])
    weighted = start_from(seen, np.zeros(4), np.ones(4), FOUR, noise=0.0, loadings=loadings)
    plain = start_from(correlation, np.zeros(4), np.ones(4), FOUR, noise=0.0)
    assert np.allclose(weighted.weights[-1], loading * plain.weights[-1], atol=1e-9)
    assert weighted.left[-1] == pytest.approx(loading * plain.left[-1])
    assert np.allclose(weighted.weights[:-1], plain.weights[:-1])


def test_influence_is_in_deviations_and_zero_without_weights():
    layout = Layout(tuple(numeric(f"c{i}") for i in range(3)))
    start = Start(
        weights=np.array([[0, 0, 0], [0.8, 0, 0], [0, 0.3, 0]]),
        means=np.zeros(3),
        left=np.array([1, 0.6, 0.9]),
        noise=0.0,
    )
    made = start_params(start, np.zeros((3, 1)), layout, 6, 1, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((8000, 3)) @ np.array([[1, 0.8, 0.24], [0, 0.6, 0.18], [0, 0, 0.9]])
    found = np.asarray(influences(made, jnp.asarray(x.T, jnp.float32), jax.random.key(0), layout, 1))
    assert found[1, 0] == pytest.approx(0.8 / 0.6, abs=0.05) and found[2, 1] == pytest.approx(0.3 / 0.9, abs=0.05)
    assert np.abs(np.triu(found)).max() == 0 and found[2, 0] < 1e-3


def test_what_is_no_parent_is_cut_and_leaves_its_mean():
    first = np.array(params().first)
    pairs = np.tril(np.ones((5, 5), bool), -1)
    pairs[4, 1] = False
    means = np.linspace(0.1, 0.5, LAYOUT.features)
    cut = cut_inputs(first, pairs, means, LAYOUT)
    assert (cut[4, :-1][LAYOUT.owners == 1] == 0).all() and np.array_equal(cut[:4], first[:4])
    at = np.append(means, 1.0)
    assert np.allclose(at @ cut[4], at @ first[4], atol=1e-5)


def test_pairs_that_the_start_is_sure_of_are_hardly_penalised():
    layout = Layout(tuple(numeric(f"c{i}") for i in range(3)))
    weights = np.array([[0, 0, 0], [0.8, 0, 0], [0.0, 0.0, 0]])
    start = Start(weights=weights, means=np.zeros(3), left=np.ones(3), noise=0.01)
    found = schedule.penalties(1.0, start, 1e4, 1e-3, layout, 8)
    assert found[1, 0] < found[2, 0] / 10 and (schedule.penalties(0.0, start, 1e4, 1e-4, layout, 8) == 0).all()
    noisier = schedule.penalties(1.0, start, 1e4, 1e-2, layout, 8)
    assert np.allclose(noisier, found / 100)  # a hundredth of the chance's share of the squares
    silent = schedule.penalties(1.0, start, 1e4, 0.0, layout, 8)
    assert np.isfinite(silent).all() and (silent >= found).all()


def test_the_weakest_inputs_are_cut_up_to_a_share_of_the_nats():
    found = np.sqrt(np.array([[0.0, 0.0, 0.0, 0.0], [0.01, 0, 0, 0], [0.9, 0.03, 0, 0], [0.5, 0.04, 0.46, 0]]))
    kept = prune_parents(found, 0.05)
    assert kept.tolist() == [[False] * 4, [False] * 4, [True, False, False, False], [True, False, True, False]]
    more = prune_parents(found, 0.5)
    assert more[3].tolist() == [True, False, False, False]  # 0.46 and 0.04 are half of it, 0.5 is not cut
    assert np.array_equal(prune_parents(found, 0.0), found > 0)
    counted_more = prune_parents(found, 0.05, np.array([1.0, 1.0, 8.0, 1.0]))
    assert counted_more.tolist() == [[False] * 4, [False] * 4, [True, True, False, False], [True, False, True, False]]


def test_the_target_is_generated_last_unless_the_schema_has_an_order():
    columns = tuple(Column(name=name, kind="continuous", low=0.0, high=1.0) for name in "abc")
    schema = Schema(name="t", columns=columns, target="a")
    assert Prada().order_for(schema) == ("b", "c", "a")
    assert Prada(order=("c", "a", "b")).order_for(schema) == ("c", "a", "b")
    assert Prada().order_for(dataclasses.replace(schema, order=("a", "c", "b"))) == ("a", "c", "b")
    assert Prada().order_for(dataclasses.replace(schema, target=None)) == ("a", "b", "c")


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
def test_a_noisy_matrix_gives_a_start_all_the_same(noise):
    draw = np.random.default_rng(0)
    layout, features = LAYOUT, LAYOUT.features
    moments = noise * draw.standard_normal((features, features)) + np.eye(features)
    start = start_from(moments + moments.T, np.full(features, 0.1), np.full(features, 0.5), layout, noise=noise)
    made = start_params(start, np.full((layout.columns, layout.width), 0.2), layout, 4, 2, np.random.default_rng(0))
    assert all(np.isfinite(value).all() for value in made)
    assert (start.left > 0).all()


# What is drawn ------------------------------------------------------------------------------------------------------


def calibrated(made, layout=LAYOUT, components=COMPONENTS, shares=None):
    shares = np.zeros((layout.columns, layout.width)) if shares is None else shares
    args = jnp.asarray(shares, jnp.float32), jnp.float32(4.0), jax.random.key(0)
    return calibrate_marginals(made, *args, layout, components, 2**13)[0]


@pytest.mark.slow
def test_drawn_columns_have_the_distributions_that_were_measured():
    shares = np.array([[0, 0, 0, 0], [0.5, 0.3, 0.2, 0], [0, 0.8, 0.2, 0], [0.1, 0.6, 0.3, 0], [0, 0, 0, 0]])
    made = calibrated(params(), shares=shares[:, : LAYOUT.width])
    x = drawing.sample(made, LAYOUT, COMPONENTS, 4.0, jax.random.key(1), 20_000)
    for j, (block, at) in enumerate(zip(LAYOUT.blocks, LAYOUT.starts, strict=True)):
        if block.categories:
            categories = x[:, at + block.number : at + block.width]
            assert (categories.sum(axis=1) == 1).all()
            assert np.allclose(categories.mean(axis=0), shares[j, block.number : block.width], atol=0.02)
        if block.number:
            present = x[:, at + 1] == 1 if block.categories else np.ones(len(x), bool)
            assert (x[~present, at] == 0).all()
            assert stats.kstest(x[present, at], "norm").statistic < 0.03


@pytest.mark.slow
def test_the_density_of_what_is_drawn_is_that_of_the_drawing():
    """Two columns, one grid: the density integrates to one, and to the shares of drawn rows in cells."""
    layout = Layout((numeric("a"), numeric("b")))
    made = calibrated(params(layout=layout), layout)
    x = drawing.sample(made, layout, COMPONENTS, 8.0, jax.random.key(1), 60_000)
    edges = np.linspace(-7, 7, 281)
    middle = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(drawing.calibrated_log_density(made, grid, layout, COMPONENTS)).reshape(280, 280) * 0.05**2
    assert mass.sum() == pytest.approx(1.0, abs=0.02)
    coarse = mass.reshape(14, 20, 14, 20).sum(axis=(1, 3))
    seen = np.histogram2d(*x.T, bins=[edges[::20]] * 2)[0] / len(x)
    assert np.abs(coarse - seen).max() < 0.01


def test_rows_of_zeros_are_an_absent_parent():
    made = params()
    first = np.array(made.first)
    first[4, :-1][LAYOUT.owners == 0] = 0.0
    x = np.array(rows())
    moved = x.copy()
    moved[0] += 2.0
    one, two = (log_density(made._replace(first=first), jnp.asarray(z), LAYOUT, COMPONENTS)[4] for z in (x, moved))
    assert np.array_equal(one, two)


# The method ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 30}, "multiple"),
        ({"rate": 0.0}, "rate"),
        ({"hidden": 0}, "hidden"),
        ({"components": -1}, "components"),
        ({"average": 1.5}, "average"),
        ({"encoding_share": 0.6, "moments_share": 0.5}, "together"),
        ({"order": "private"}, "order"),
        ({"encoding_share": 0.001}, "encoding_share"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"penalty": -1.0}, "penalty"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Prada(**settings)


def test_an_order_must_name_every_column():
    with pytest.raises(SchemaError, match="order"):
        Prada(order=("age",)).plan(MIXED)


def test_the_plan_is_the_whole_budget():
    method = Prada()
    assert sum(item.share for item in method.plan(MIXED)) == pytest.approx(1.0 - method.encoding_share)
    assert method.plan(dataclasses.replace(MIXED, rows=1_000_000))[1].sampling_rate == pytest.approx(800 / 1e6)


def test_noise_allows_fewer_hidden_units_and_never_none():
    layout = Layout(tuple(numeric(f"c{i}") for i in range(20)))
    sizes = [schedule.capacity(noise, layout) for noise in (1e-6, 1e-3, 1e-2, 1.0)]
    assert sizes == sorted(sizes, reverse=True) and min(sizes[-1]) >= 1


def simulated(n, seed=0):
    """A column that bends and splits with an earlier one, and one that is alone."""
    draw = np.random.default_rng(seed)
    a, alone = draw.standard_normal(n), draw.standard_normal(n)
    b = np.where(draw.random(n) < 0.5, 1.0, -1.0) * (1.0 + np.abs(a)) + 0.2 * draw.standard_normal(n)
    columns = tuple(Column(name=name, kind="continuous", low=-10.0, high=10.0) for name in ("a", "alone", "b"))
    return pl.DataFrame({"a": a, "alone": alone, "b": b}), Schema(name="bent", columns=columns, rows=n)


@pytest.mark.slow
def test_without_noise_to_speak_of_it_learns_what_a_copula_cannot():
    frame, schema = simulated(4000)
    model = understudy.fit(frame, schema, Prada(steps=1500), epsilon=1e5, seed=0)
    drawn = model.sample(4000, seed=0)
    spread = [np.abs(f["b"].to_numpy())[np.abs(f["a"].to_numpy()) > 1.2].mean() for f in (frame, drawn)]
    assert abs(spread[0] - spread[1]) < 0.15
    fresh = simulated(2000, seed=1)[0]
    assert (
        model.log_density(fresh).mean()
        > model.log_density(fresh.select("alone", pl.col("a"), -pl.col("a").alias("b"))).mean()
    )


@pytest.mark.slow
def test_the_log_density_of_a_table(mixed):
    model = understudy.fit(mixed, MIXED, quick("prada"), epsilon=1e4, seed=0)
    table = mixed_table(200, seed=3)
    found = model.log_density(table)
    assert found.shape == (200,) and np.isfinite(found).all()
    assert np.array_equal(found, model.log_density(table))
    strange = table.with_columns(age=pl.lit(10**9), weight=pl.lit(float("nan")))
    assert np.isfinite(model.log_density(strange)).all()


def test_a_method_without_densities_says_so():
    model = understudy.fit(mixed_table(100), MIXED, "independent", epsilon=1.0, seed=0)
    with pytest.raises(TypeError, match="log_density"):
        model.log_density(mixed_table(5))


@pytest.mark.parametrize(
    ("given", "rows", "expected"), [(None, 12_000, 0.08), (None, 1e6, 0.0016), (1_000_000, 1e6, 0.0008)]
)
def test_batches_stay_small_however_many_rows_there_turn_out_to_be(given, rows, expected):
    schema = Schema(name="t", columns=(Column(name="a", kind="continuous", low=0.0, high=1.0),), rows=given)
    assert drawn_rate(Prada().batch_size, schema, rows) == pytest.approx(expected)
    assert drawn_rate(Prada().batch_size, schema, rows) <= sampling_rate(Prada().batch_size, schema)
