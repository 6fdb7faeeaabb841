"""Conditional densities of `prada`: they integrate to one, their factors are gradients, and rows follow them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from prada_densities import COMPONENTS, FOUR, HIDDEN, LAYOUT, densities, every_pair, rows, some_pairs
from understudy.synthesizers.prada.layout import Layout, numeric
from understudy.synthesizers.prada.likelihood import density, drawing
from understudy.synthesizers.prada.likelihood.calibration import calibrate_marginals

log_density = jax.jit(density.log_density, static_argnames=("layout", "components"))


def plain_log_density(made, x, layout, components):
    """The formulas of density.py, row by row and column by column."""
    found = np.zeros((layout.columns, x.shape[1]))
    hidden = made.second.shape[1] - 1
    for j, (block, at) in enumerate(zip(layout.blocks, layout.starts, strict=True)):
        for r in range(x.shape[1]):
            a = np.append([x[f, r] if f >= 0 else 0.0 for f in made.sources[j]], 1.0)
            first = a @ made.first[j]
            o = np.append(np.tanh(first[:hidden]), 1.0) @ made.second[j]
            linear, own = first[hidden:], x[at : at + block.width, r]
            if block.categories:
                chosen = block.number + int(np.argmax(own[block.number :]))
                logits = (linear + o[-layout.width :])[block.number : block.width]
                found[j, r] += logits[chosen - block.number] - np.log(np.exp(logits).sum())
            if block.number and (not block.categories or own[1] == 1):
                shift, raw, weight = o[:components], o[components : 2 * components], o[2 * components : 3 * components]
                low, high = np.log(density.SCALES)
                scale = np.exp(
                    (low + high) / 2 + (high - low) / 2 * np.tanh((raw - (low + high) / 2) * 2 / (high - low))
                )
                share = np.exp(weight) / np.exp(weight).sum()
                s = made.unit[j]
                found[j, r] += np.log(share @ stats.norm.pdf(own[0], s * (linear[0] + shift), s * scale))
    return found


@pytest.mark.parametrize("pairs", [every_pair(LAYOUT), some_pairs()], ids=["all earlier", "some"])
def test_the_log_density_is_that_of_its_formulas(pairs):
    made, x = densities(pairs), rows(20)
    found = log_density(made, x, LAYOUT, COMPONENTS)
    np.testing.assert_allclose(found, plain_log_density(made, x, LAYOUT, COMPONENTS), rtol=2e-4, atol=2e-4)


def test_a_column_sees_its_sources_alone():
    made, x = densities(some_pairs()), rows()
    found = np.asarray(log_density(made, x, LAYOUT, COMPONENTS))
    for k in range(LAYOUT.columns):
        given = np.where((LAYOUT.owners == k)[:, None], x + 1.0, x)
        moved = np.asarray(log_density(made, x, LAYOUT, COMPONENTS, given=given))
        differs = np.abs(moved - found).max(axis=1) > 1e-3
        np.testing.assert_array_equal(differs, some_pairs()[:, k])


def test_factors_are_the_gradient_of_the_weighted_log_density_row_by_row():
    made, x = densities(some_pairs()), jnp.asarray(rows())
    weights = jnp.linspace(0.5, 3.0, LAYOUT.columns)

    def loss(layers, row):
        each = density.log_density(made._replace(**layers), row[:, None], LAYOUT, COMPONENTS)
        return -jnp.sum(weights[:, None] * each)

    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 1)))({"first": made.first, "second": made.second}, x)
    layers = jax.jit(lambda x: [layer[:2] for layer in density.factors(made, x, weights, LAYOUT, COMPONENTS)])(x)
    for (a, delta), exact in zip(layers, (each["first"], each["second"]), strict=True):
        np.testing.assert_allclose(np.einsum("dir,dor->rdio", a, delta), exact, rtol=1e-3, atol=2e-4)
    unread = np.broadcast_to(~np.asarray(density.used_inputs(made.sources))[..., 0], made.first.shape[:2])
    assert unread.any() and not np.asarray(layers[0][0])[unread].any()  # inputs that read nothing have no gradient


def test_densities_of_a_number_integrate_to_one_and_of_categories_sum_to_one():
    """The last number over a grid, and the first category over its values, given the features of some row."""
    grid = np.linspace(-12, 12, 4001)
    x = np.repeat(rows(1), 4001, axis=1)
    last, values = LAYOUT.starts[4], LAYOUT.starts[1] + np.arange(3)
    x[last] = grid
    x[values] = 0.0
    x[values[np.arange(4001) % 3], np.arange(4001)] = 1.0
    found = np.exp(np.asarray(log_density(densities(), x, LAYOUT, COMPONENTS)))
    assert found[1, :3].sum() == pytest.approx(1.0, abs=1e-5)
    for value in range(3):  # the number depends on the category that is given
        own = slice(value, None, 3)
        assert integrate.trapezoid(found[4, own], grid[own]) == pytest.approx(1.0, abs=1e-3)


def test_no_density_is_large_without_bound():
    made = densities()
    wild = made._replace(second=made.second * 1e4)
    found = np.asarray(log_density(wild, rows(), LAYOUT, COMPONENTS))
    assert np.isfinite(found).all()
    assert found.max() <= -math.log(density.SCALES[0] * float(made.unit.min()))


def test_numbers_start_nearly_normal_about_their_linear_output():
    made = densities(layout=FOUR)._replace(second=density.start_second(FOUR, HIDDEN, COMPONENTS))
    x = np.random.default_rng(0).standard_normal((4, 200)).astype(np.float32)
    found = np.asarray(log_density(made, x, FOUR, COMPONENTS))
    inputs = np.concatenate([x[np.maximum(made.sources, 0)], np.ones((4, 1, 200))], axis=1)
    linear = np.einsum("di,dir->dr", made.first[:, :, HIDDEN], inputs)
    exact = stats.norm.logpdf(x, made.unit[:, None] * linear, made.unit[:, None])
    near = np.abs(x / made.unit[:, None] - linear) < 1.5
    assert near.sum() > 200 and np.abs(found - exact)[near].max() < 0.05


# What is drawn ------------------------------------------------------------------------------------------------------


def calibrated(made, layout=LAYOUT, shares=None):
    shares = np.zeros((layout.columns, layout.width)) if shares is None else shares
    args = jnp.asarray(shares, jnp.float32), jnp.float32(4.0), jax.random.key(0)
    return calibrate_marginals(made, *args, layout, COMPONENTS, 2**13)[0]


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [every_pair(LAYOUT), some_pairs()], ids=["all earlier", "some"])
def test_drawn_columns_have_the_distributions_that_were_measured(pairs):
    shares = np.array([[0, 0, 0, 0], [0.5, 0.3, 0.2, 0], [0, 0.8, 0.2, 0], [0.1, 0.6, 0.3, 0], [0, 0, 0, 0]])
    made = calibrated(densities(pairs), shares=shares[:, : LAYOUT.width])
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
    made = calibrated(densities(layout=layout), layout)
    x = drawing.sample(made, layout, COMPONENTS, 8.0, jax.random.key(1), 60_000)
    edges = np.linspace(-7, 7, 281)
    middle = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(drawing.calibrated_log_density(made, grid, layout, COMPONENTS)).reshape(280, 280) * 0.05**2
    assert mass.sum() == pytest.approx(1.0, abs=0.02)
    coarse = mass.reshape(14, 20, 14, 20).sum(axis=(1, 3))
    seen = np.histogram2d(*x.T, bins=[edges[::20]] * 2)[0] / len(x)
    assert np.abs(coarse - seen).max() < 0.01
