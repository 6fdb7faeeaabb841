"""DP-MERF: the embedding is bounded and seen alike by rows and fakes, and the generator comes to what was bought."""

import itertools

import numpy as np
import polars as pl
import pytest

import understudy
from understudy.encoding import Encoder
from understudy.randomness import Key
from understudy.schema import Column, Schema
from understudy.synthesizers.merf.embedding import MOST_PAIRS, Block, draw_embedding
from understudy.synthesizers.merf.method import MERF, shrunk
from understudy.synthesizers.merf.recipe import KNOTS, MERFRecipe, calibrate, states_of

BLOCKS = (
    Block("number", True),
    Block("perhaps", True, (0.7, 0.3)),
    Block("colour", False, (0.5, 0.3, 0.2), (-0.8, 0.3, 1.2)),
    Block("other number", True),
    Block("always", False, (1.0,), (0.0,)),
)


def embedding(blocks=BLOCKS, count=60, touching=(2, 3), moments=0.5, clip=3.0, seed=0):
    draw = np.random.default_rng(seed)
    return draw_embedding(blocks, count, touching=touching, scales=(2.0, 0.5), moments=moments, clip=clip, draw=draw)


def signal_table(n, blocks=BLOCKS, seed=0, spread=1.0):
    """Rows of signals, each column by itself, as the encoder would make them."""
    draw = np.random.default_rng(seed)
    parts = []
    for block in blocks:
        states = np.eye(max(block.states, 1))[draw.choice(max(block.states, 1), n, p=block.shares or (1.0,))]
        if block.number:
            score = draw.standard_normal((n, 1)) * spread
            parts.append(np.where(states[:, :1] == 1, score, 0.0))
        if block.states:
            parts.append(states)
    return np.concatenate(parts, axis=1)


# The embedding.


@pytest.mark.parametrize("moments", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 30.0, 1e8])
def test_no_row_has_an_embedding_longer_than_one(moments, spread):
    features = embedding(moments=moments).rows(signal_table(500, spread=spread))
    assert np.linalg.norm(features, axis=1).max() <= 1 + 1e-9


def test_the_bound_is_nearly_reached_so_it_is_not_loose_either():
    blocks = tuple(Block(f"x{i}", True) for i in range(12))
    features = embedding(blocks, clip=12.0).rows(np.full((1, 12), 5.0))
    assert np.linalg.norm(features) > 0.95


def test_a_row_s_features_do_not_depend_on_other_rows():
    made, rows = embedding(), signal_table(300)
    alone = np.concatenate([made.rows(row[None]) for row in rows])
    np.testing.assert_allclose(made.rows(rows), alone, rtol=0, atol=1e-15)


def test_products_of_fourier_features_are_means_of_cosines_of_what_differs():
    made, rows = embedding(moments=0.0), signal_table(2)
    angles = np.zeros((2, 60))
    for row, k in itertools.product(range(2), range(60)):
        start = 0
        for c, block in enumerate(BLOCKS):
            if c in made.touched[k]:
                angles[row, k] += rows[row, start] * made.frequencies[k, c] if block.number else 0.0
                for state in range(block.states):
                    angles[row, k] += rows[row, start + block.number + state] * made.phases[c][k, state]
            start += block.width
    one, two = made.rows(rows)
    assert one @ two == pytest.approx(np.cos(angles[0] - angles[1]).mean())


def test_every_set_of_columns_is_touched_equally_often_but_for_one():
    made = embedding(tuple(Block(f"x{i}", True) for i in range(7)), count=100, touching=(2,))
    _, often = np.unique(made.touched, axis=0, return_counts=True)
    assert len(often) == 21 and often.max() - often.min() <= 1


@pytest.mark.parametrize("columns", [1, 2, 60, 200, 450])
def test_any_number_of_columns_is_embedded(columns):
    blocks = tuple(Block(f"x{i}", True) for i in range(columns))
    features = embedding(blocks, count=30).rows(signal_table(3, blocks))
    assert features.shape == (3, 60 + min(columns * (columns - 1) // 2, MOST_PAIRS))
    assert np.linalg.norm(features, axis=1).max() <= 1 + 1e-9


def test_independent_columns_have_the_expected_features():
    made = embedding()
    mean = made.rows(signal_table(40_000)).mean(axis=0)
    expected = made.weights[0] * made.independent()
    np.testing.assert_allclose(mean[:60], expected.real, atol=6 * made.weights[0] / np.sqrt(40_000))
    np.testing.assert_allclose(mean[60:120], expected.imag, atol=6 * made.weights[0] / np.sqrt(40_000))


# Fakes.


def fake_mean(made_rows, made):
    import jax.numpy as jnp

    from understudy.synthesizers.merf import generator

    shape, facts = generator.facts_of(made)
    return np.asarray(generator.mean_features(jnp.asarray(made_rows, jnp.float32), shape, facts))[0]


def test_fakes_with_certain_states_are_embedded_as_rows_are():
    rows, made = signal_table(200), embedding()
    logits, start = rows.copy(), 0
    for block in BLOCKS:
        logits[:, start + block.number : start + block.width] *= 60.0
        start += block.width
    np.testing.assert_allclose(fake_mean(logits, made), made.rows(rows).mean(axis=0), atol=2e-5)


def test_fakes_with_uncertain_states_are_embedded_as_the_mean_over_all_their_states():
    made = embedding(moments=0.0)
    y = np.random.default_rng(3).standard_normal((1, sum(block.width for block in BLOCKS)))
    p1 = np.exp(y[0, 2:4]) / np.exp(y[0, 2:4]).sum()
    p2 = np.exp(y[0, 4:7]) / np.exp(y[0, 4:7]).sum()
    mean = 0.0
    for a, b in itertools.product(range(2), range(3)):
        row = np.concatenate([y[0, :1], [y[0, 1] * (a == 0)], np.eye(2)[a], np.eye(3)[b], y[0, 7:8], [1.0]])
        mean += p1[a] * p2[b] * made.rows(row[None])[0]
    np.testing.assert_allclose(fake_mean(y, made), mean, atol=1e-5)


def test_cosines_and_sines_and_their_slopes_are_right():
    import jax

    from understudy.synthesizers.merf.generator import turn

    angles = np.linspace(-40, 40, 4001).astype(np.float32)
    cosine, sine = turn(angles)
    np.testing.assert_allclose(cosine, np.cos(angles), atol=1e-5)
    np.testing.assert_allclose(sine, np.sin(angles), atol=1e-5)
    slope = jax.vmap(jax.grad(lambda a: turn(a)[0]))(angles)
    np.testing.assert_allclose(slope, -np.sin(angles), atol=1e-5)


def test_the_generator_starts_with_independent_columns_at_their_shares():
    from understudy.synthesizers.merf.generator import initial

    made = embedding()
    params = initial(BLOCKS, (8,), len(BLOCKS), np.random.default_rng(0))
    from understudy.synthesizers.merf.recipe import outputs

    y = outputs(params, np.random.default_rng(1).standard_normal((20_000, len(BLOCKS))).astype(np.float32))
    expected = made.weights[0] * made.independent()
    np.testing.assert_allclose(fake_mean(y, made)[:60], expected.real, atol=6 * made.weights[0] / np.sqrt(20_000))


def test_the_generator_comes_to_the_correlations_it_is_shown():
    from understudy.synthesizers.merf import generator
    from understudy.synthesizers.merf.recipe import outputs

    blocks = tuple(Block(f"x{i}", True) for i in range(3))
    truth = np.array([[1, 0.8, 0], [0.8, 1, -0.5], [0, -0.5, 1]])
    rows = np.random.default_rng(0).multivariate_normal(np.zeros(3), truth, 20_000)
    made = embedding(blocks, count=100, clip=4.0)
    start = generator.initial(blocks, (16,), 3, np.random.default_rng(0))
    settings = {"steps": 300, "rate": 0.01, "fakes": 300, "emphasis": 1.0, "margins": 3.0, "key": Key.new(0).jax()}
    params = generator.fit(start, made, made.rows(rows).mean(axis=0), **settings)
    y = outputs(params, np.random.default_rng(1).standard_normal((20_000, 3)).astype(np.float32))
    np.testing.assert_allclose(np.corrcoef(y.T), truth, atol=0.06)


# What is bought, and shrunk.


def test_noise_alone_is_taken_for_independence_and_exact_means_are_kept():
    made = embedding(tuple(Block(f"x{i}", True) for i in range(3)), count=300, touching=(2,))
    independent = made.weights[0] * made.independent()
    reference = np.concatenate([independent.real, independent.imag, np.zeros(3)])
    noise = 0.01 * np.random.default_rng(0).standard_normal(603)
    left = shrunk(reference + noise, made, 0.01)[:600] - reference[:600]
    assert np.linalg.norm(left) < 0.4 * np.linalg.norm(noise)
    np.testing.assert_array_equal(shrunk(reference + noise, made, 0.0)[600:], noise[600:])
    np.testing.assert_allclose(shrunk(reference + noise, made, 0.0), reference + noise)


# The recipe.


def test_states_are_drawn_with_their_probabilities():
    p = np.array([0.2, 0.5, 0.3])
    drawn = states_of(np.log(np.tile(p, (60_000, 1))), np.random.default_rng(0).random(60_000))
    np.testing.assert_allclose(np.bincount(drawn) / 60_000, p, atol=0.01)


def test_levels_are_uniform_whatever_the_generator_makes():
    blocks = (Block("x", True),)
    params = {
        "straight": np.array([[3.0]]),
        "bias": np.array([5.0]),
        "weight 0": np.ones((1, 4)),
        "shift 0": np.ones(4),
    }
    params |= {"weight 1": np.ones((4, 1))}
    knots = calibrate(params, blocks, Key.new(0))
    recipe = MERFRecipe(blocks=blocks, ends=(np.zeros(0),), params=params, knots=knots)
    levels = recipe.sample(50_000, key=Key.new(1))["x"]
    assert knots.shape == (1, KNOTS) and levels.min() >= 0 and levels.max() <= 1
    np.testing.assert_allclose(np.quantile(levels, np.linspace(0, 1, 21)), np.linspace(0, 1, 21), atol=0.012)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("features", 3),
        ("features", 0),
        ("touching", ()),
        ("touching", (0,)),
        ("scales", (0.0,)),
        ("moments", 1.0),
        ("clip", -1.0),
        ("widths", (1.5,)),
        ("steps", 0),
        ("rate", float("nan")),
        ("fakes", 5),
        ("margins", -1.0),
        ("shrink", float("inf")),
        ("encoding_share", 0.0),
    ],
)
def test_settings_that_make_no_sense_are_refused(field, value):
    with pytest.raises(ValueError, match=f"MERF.{field}: expected"):
        MERF(**{field: value})


def test_the_embedding_is_bought_once_with_sensitivity_one():
    schema = Schema(columns=(Column(name="a", kind="boolean"), Column(name="b", kind="continuous", low=0.0, high=1.0)))
    frame = pl.DataFrame({"a": [True, False] * 50, "b": np.linspace(0, 1, 100)})
    quick = MERF(features=20, steps=2, fakes=10)
    model = understudy.fit(frame, schema, quick, epsilon=1.0, seed=0)
    lines = [line for line in model.receipt.lines if line.name == "embedding"]
    assert [(line.sensitivity, line.times) for line in lines] == [(1.0, 1)]
    assert sum(item.share for item in quick.plan(schema)) == pytest.approx(1 - quick.encoding_share)
    assert isinstance(model.encoder, Encoder)
