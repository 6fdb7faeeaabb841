"""The networks: columns look at earlier ones through W alone, and the critic's closed forms are its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.synthesizers.prada.adversarial import critic, sequential
from understudy.synthesizers.prada.adversarial.layers import TEMPERATURE, Dense
from understudy.synthesizers.prada.layout import Block, Layout, categorical, numeric
from understudy.synthesizers.prada.programs import CHUNK

pytestmark = pytest.mark.slow  # networks of prada-gan and dpgan, one compilation each

KEY = jax.random.key(7)
# One number of rows and two layouts nearly everywhere: each further shape is one more program to compile.
generate = jax.jit(sequential.generate, static_argnames=("layout", "temperature", "hard"))
draw_noise = jax.jit(sequential.draw_noise, static_argnames=("layout", "n", "noise"))
critic_factors = jax.jit(critic.critic_factors)
input_gradient = jax.jit(critic.input_gradient)
NUMBERS = Layout(tuple(numeric(f"x{j}") for j in range(5)))
MIXED = Layout(
    (
        numeric("age"),
        categorical("city", 3),
        numeric("income", nullable=True),
        categorical("colour", 2, nullable=True),
        categorical("only", 1),
        numeric("weight"),
    )
)
layouts = pytest.mark.parametrize("layout", [NUMBERS, MIXED, Layout((numeric("x"),))], ids=["numbers", "mixed", "one"])
widths = pytest.mark.parametrize("widths", [(), (8, 4), (16, 8, 4)])


def weights_of(layout, seed=0, **settings):
    """Random weights with biases, so that nothing is right because it is zero."""
    params = jax.tree.map(jnp.asarray, sequential.initial(layout, np.random.default_rng(seed), spread=0.7, **settings))
    draw = np.random.default_rng(seed)
    bias, shift = (draw.normal(size=value.shape).astype(np.float32) for value in (params.bias, params.shift))
    return params._replace(bias=bias, shift=shift)


def critic_of(features, widths, seed=0):
    draw = np.random.default_rng(seed)
    params = jax.tree.map(jnp.asarray, critic.initial_critic(np.random.default_rng(seed), features, widths))
    return tuple(layer._replace(bias=draw.normal(size=layer.bias.shape).astype(np.float32)) for layer in params)


def points(n, features, seed=1):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(n, features)).astype(np.float32))


def plain_rows(params, noise, layout, temperature):
    """The generator as the paper writes it: column by column, no padding, no scan."""
    params, noise = (jax.tree.map(np.asarray, tree) for tree in (params, noise))
    rows = []
    for i in range(noise.z.shape[-1]):
        x = np.zeros(0)
        for j, block in enumerate(layout.blocks):
            w = params.rows[j]
            h = w[: len(x)].T @ x + w[layout.features :].T @ noise.z[j, :, i] + params.bias[j]
            h = h + params.mix[j].T @ np.where(h > 0, h, 0.2 * h)
            out = (params.head[j].T @ h + params.shift[j])[: block.width]
            if block.categories:
                e = np.exp((out + noise.gumbel[j, : block.width, i])[block.number :] / temperature)
                present = [out[0] * (e / e.sum())[0]] if block.number else []
                out = np.concatenate([present, e / e.sum()])
            x = np.concatenate([x, out])
        rows.append(x)
    return np.array(rows)


# The layout ---------------------------------------------------------------------------------------------------------


def test_every_column_owns_its_stretch_of_features():
    assert [block.width for block in MIXED.blocks] == [1, 3, 3, 3, 1, 1]
    assert MIXED.starts.tolist() == [0, 1, 4, 7, 10, 11]
    assert MIXED.owners.tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5]
    assert (MIXED.features, MIXED.width, MIXED.columns) == (12, 3, 6)


def test_a_column_may_look_at_the_features_of_earlier_columns_only():
    assert MIXED.earlier[2].tolist() == [True] * 4 + [False] * 8
    assert not MIXED.earlier[0].any()


def test_equal_layouts_are_one_key():
    other = Layout(tuple(Block(block.name, block.number, block.categories) for block in MIXED.blocks))
    assert other.width == MIXED.width  # cached on one of them, so it must not count
    assert {MIXED: "found"}[other] == "found"


@pytest.mark.parametrize(("number", "categories"), [(False, 0), (True, 1)])
def test_a_block_without_a_choice_or_a_number_is_refused(number, categories):
    with pytest.raises(ValueError, match="'x', categories: expected at least"):
        Block("x", number, categories)


def test_a_layout_without_columns_is_refused():
    with pytest.raises(ValueError, match="at least one column"):
        Layout(())


# The generator ------------------------------------------------------------------------------------------------------


@layouts
def test_the_scan_makes_the_rows_of_the_plain_loop(layout):
    params, noise = weights_of(layout), draw_noise(layout, KEY, 50)
    expected = plain_rows(params, noise, layout, TEMPERATURE)
    np.testing.assert_allclose(generate(params, noise, layout), expected, atol=2e-5)


def test_noise_may_have_more_dimensions_and_categories_another_temperature():
    params, noise = weights_of(MIXED, noise=3), draw_noise(MIXED, KEY, 50, noise=3)
    rows = generate(params, noise, MIXED, temperature=0.9)
    np.testing.assert_allclose(rows, plain_rows(params, noise, MIXED, 0.9), atol=2e-5)


@layouts
@pytest.mark.parametrize("hard", [False, True])
def test_no_column_feels_the_noise_of_a_later_one(layout, hard):
    params, noise = weights_of(layout), draw_noise(layout, KEY, 50)
    last = layout.columns - 1
    other = noise._replace(z=noise.z.at[last].add(1.0))
    one, two = (generate(params, z, layout, hard=hard) for z in (noise, other))
    assert np.array_equal(one[:, : layout.starts[last]], two[:, : layout.starts[last]])


@pytest.mark.parametrize("gone", range(4))
def test_rows_of_zeros_are_an_absent_parent(gone):
    """Nothing goes round W: without its rows a column cannot reach any other."""
    params, noise = weights_of(NUMBERS), draw_noise(NUMBERS, KEY, 50)
    cut = params._replace(rows=params.rows.at[:, gone].set(0.0))
    other = noise._replace(z=noise.z.at[gone].add(1.0))
    moved = np.asarray(generate(cut, noise, NUMBERS) != generate(cut, other, NUMBERS)).any(axis=0)
    assert moved.tolist() == [j == gone for j in range(5)]


def test_weights_on_later_columns_are_never_read():
    params, noise = weights_of(MIXED), draw_noise(MIXED, KEY, 50)
    unseen = jnp.asarray(~MIXED.earlier)[:, :, None]
    wild = params._replace(rows=params.rows.at[:, : MIXED.features].add(100.0 * unseen))
    assert np.array_equal(generate(wild, noise, MIXED), generate(params, noise, MIXED))
    slope = jax.jit(jax.grad(lambda p: generate(p, noise, MIXED).sum()))(wild).rows[:, : MIXED.features]
    assert not np.asarray(jnp.where(unseen, slope, 0.0)).any()


def test_hard_categories_are_one_of_them_and_soft_ones_add_up():
    params, noise = weights_of(MIXED), draw_noise(MIXED, KEY, 50)
    soft, hard = (np.asarray(generate(params, noise, MIXED, hard=hard)) for hard in (False, True))
    categories = [slice(1, 4), slice(5, 7), slice(7, 10), slice(10, 11)]
    for rows in (soft, hard):
        np.testing.assert_allclose([rows[:, s].sum(axis=1) for s in categories], 1.0, atol=1e-6)
    assert set(np.unique(np.concatenate([hard[:, s] for s in categories], axis=1))) == {0.0, 1.0}


def test_a_missing_number_has_the_score_zero():
    rows = sequential.sample(weights_of(MIXED), MIXED, KEY, 500)
    missing = rows[:, 6] == 1.0
    assert 0 < missing.sum() < 500
    assert np.array_equal(rows[:, 4] == 0.0, missing)


def test_categories_are_drawn_with_the_probabilities_of_the_head():
    params = weights_of(MIXED)
    shares = np.array([0.6, 0.3, 0.1])
    shift = jnp.asarray(params.shift).at[1].set(jnp.log(jnp.asarray(shares, jnp.float32)))
    params = params._replace(head=0.0 * params.head, shift=shift)
    counts = sequential.sample(params, MIXED, KEY, 20_000)[:, 1:4].mean(axis=0)
    assert np.abs(counts - shares).max() < 5 * np.sqrt(0.25 / 20_000)


def test_hard_categories_have_the_gradient_of_relaxed_ones():
    layout = Layout((categorical("city", 3),))
    params, noise = weights_of(layout), draw_noise(layout, KEY, 50)
    value = jnp.asarray([1.0, -2.0, 0.5])

    def total(params, hard):
        return (generate(params, noise, layout, hard=hard) @ value).sum()

    slopes = jax.jit(jax.grad(total), static_argnames="hard")
    soft, hard = (slopes(params, hard=hard) for hard in (False, True))
    np.testing.assert_allclose(hard.shift, soft.shift, atol=1e-5)
    assert np.abs(hard.shift).max() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_score_moves_by_at_most_twice_the_norm_of_a_parents_rows(seed):
    params = weights_of(NUMBERS, seed)
    params = sequential.bounded(params._replace(mix=5.0 * params.mix, head=5.0 * params.head))
    x, z = points(200, NUMBERS.features, seed).T, points(1, 200)
    further = x.at[2].add(1.0)
    column = sequential.Weights(*(value[4] for value in params))
    moved = sequential.column_outputs(column, further, z) - sequential.column_outputs(column, x, z)
    assert 0 < float(jnp.abs(moved[0]).max()) <= 2 * float(jnp.linalg.norm(params.rows[4, 2]))


def test_bounding_twice_is_bounding_once():
    once = sequential.bounded(sequential.Weights(*(3.0 * value for value in weights_of(MIXED))))
    twice = sequential.bounded(once)
    np.testing.assert_allclose(twice.mix, once.mix, atol=1e-6)
    np.testing.assert_allclose(twice.head, once.head, atol=1e-6)


def test_numbers_start_near_a_standard_normal():
    layout = Layout(tuple(numeric(f"x{j}") for j in range(20)))
    deviations = sequential.sample(sequential.initial(layout, np.random.default_rng(7)), layout, KEY, 5000).std(axis=0)
    assert 0.5 < np.median(deviations) < 2


def test_the_program_is_as_long_for_128_columns_as_for_8():
    def length(d):
        layout = Layout(tuple(numeric(f"x{j}") for j in range(d)))
        params = sequential.initial(layout, np.random.default_rng(7))
        noise = jax.eval_shape(lambda: sequential.draw_noise(layout, KEY, 10))
        slope = jax.grad(lambda p, z: sequential.generate(p, z, layout).sum())
        return jax.jit(slope).lower(params, noise).as_text().count(" = ")

    assert length(8) == length(128)


def test_many_fits_at_once_make_the_rows_of_each():
    params = [weights_of(MIXED, seed) for seed in range(3)]
    noise = draw_noise(MIXED, KEY, 50)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    together = jax.jit(jax.vmap(lambda p: generate(p, noise, MIXED)))(stacked)
    np.testing.assert_allclose(together, [np.asarray(generate(p, noise, MIXED)) for p in params], atol=1e-5)


def test_fewer_rows_are_the_first_of_more():
    params = weights_of(MIXED)
    more = sequential.sample(params, MIXED, KEY, CHUNK + 10)
    assert np.array_equal(sequential.sample(params, MIXED, KEY, 100), more[:100])
    assert more.shape == (CHUNK + 10, MIXED.features)
    assert not np.array_equal(more[:10], more[-10:])


def test_no_rows_are_no_rows():
    assert sequential.sample(weights_of(MIXED), MIXED, KEY, 0).shape == (0, MIXED.features)


# The critic ---------------------------------------------------------------------------------------------------------


@widths
def test_factors_are_the_gradient_of_every_row(widths):
    params, x = critic_of(6, widths), points(40, 6)
    one = jax.grad(lambda p, row: critic.critic(p, row[None])[0])
    each = jax.tree.map(np.asarray, jax.jit(jax.vmap(one, in_axes=(None, 0)))(params, x))
    factors = critic_factors(params, x)
    for (a, delta), layer in zip(factors, each, strict=True):
        outer = np.asarray(a)[:, :, None] * np.asarray(delta)[:, None, :]
        np.testing.assert_allclose(outer, layer.weight, atol=1e-5)
        np.testing.assert_allclose(delta, layer.bias, atol=1e-5)
    squares = sum(np.sum(leaf.reshape(40, -1) ** 2, axis=1) for leaf in jax.tree.leaves(each))
    from_factors = sum((np.sum(a**2, axis=1) + 1.0) * np.sum(delta**2, axis=1) for a, delta in factors)
    np.testing.assert_allclose(from_factors, squares, rtol=1e-5)


@widths
def test_a_weighted_sum_of_factors_is_the_gradient_of_the_weighted_sum(widths):
    params, x = critic_of(6, widths), points(40, 6)
    share = jnp.asarray(np.random.default_rng(5).uniform(size=40).astype(np.float32))
    oracle = jax.jit(jax.grad(lambda p: jnp.sum(share * critic.critic(p, x))))(params)
    weighted = [(a, delta * share[:, None]) for a, delta in critic_factors(params, x)]
    mine = tuple(Dense(a.T @ delta, delta.sum(axis=0)) for a, delta in weighted)
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(oracle), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@widths
def test_the_steepness_penalty_and_its_gradient_are_those_of_automatic_differentiation(widths):
    params, x = critic_of(6, widths), points(40, 6)

    def oracle(p):
        slopes = jax.vmap(jax.grad(lambda row: critic.critic(p, row[None])[0]))(x)
        return jnp.mean(jnp.maximum(jnp.linalg.norm(slopes, axis=1) - 1.0, 0.0) ** 2)

    both = [lambda p: critic.steepness_penalty(p, x), oracle]
    (mine, slope), (other, its_slope) = (jax.jit(jax.value_and_grad(f))(params) for f in both)
    assert float(mine) == pytest.approx(float(other), rel=1e-4)
    for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(its_slope), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_flat_critic_is_not_penalised():
    flat = jax.tree.map(lambda leaf: 0.1 * leaf, critic_of(6, (8, 4)))
    penalty, slope = jax.jit(jax.value_and_grad(critic.steepness_penalty))(flat, points(40, 6))
    assert penalty == 0
    assert all(np.isfinite(leaf).all() and not leaf.any() for leaf in map(np.asarray, jax.tree.leaves(slope)))


@widths
def test_a_clamped_critic_is_no_steeper_than_its_bound(widths):
    wild = jax.tree.map(lambda leaf: 100.0 * leaf, critic_of(6, widths))
    params = critic.clamped(wild, 0.05)
    assert max(float(jnp.abs(layer.weight).max()) for layer in params) <= 0.05 + 1e-7
    steepest = float(jnp.linalg.norm(input_gradient(params, points(500, 6)), axis=1).max())
    assert steepest <= critic.lipschitz_bound(params, 0.05) * (1 + 1e-5)


def test_the_bound_is_reached_where_all_weights_are_at_the_limit():
    params = tuple(layer._replace(weight=jnp.full_like(layer.weight, 0.3)) for layer in critic_of(6, (8, 4)))
    slope = input_gradient(params, np.full((1, 6), 10.0, np.float32))
    assert float(jnp.linalg.norm(slope)) == pytest.approx(critic.lipschitz_bound(params, 0.3), rel=1e-5)


def test_the_default_critic_is_the_papers():
    shapes = [layer.weight.shape for layer in critic.initial_critic(np.random.default_rng(7), 17)]
    assert shapes == [(17, 17), (17, 8), (8, 1)]


def test_penalty_points_lie_between_fakes_and_noise():
    fakes = jnp.full((4000, 3), 10.0)
    made = np.asarray(critic.penalty_points(KEY, fakes))
    assert made.mean() == pytest.approx(5.0, abs=0.3)
    assert made.min() < 2 and made.max() > 8 and (made < 14).all()
