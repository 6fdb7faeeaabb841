"""DP-MERF: rows and fakes are embedded alike, and the generator comes to the means that were released."""

import itertools

import numpy as np
import polars as pl
import pytest

import understudy
from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.privacy.embedding import EmbeddedColumn
from understudy.synthesizers.merf.embedding import draw_embedding, independent_features
from understudy.synthesizers.merf.fitted import KNOTS, FittedMERF, calibrate, draw_categories, outputs, with_layers
from understudy.synthesizers.merf.generator import fit, initial, through
from understudy.synthesizers.merf.loss import Loss, times
from understudy.synthesizers.merf.method import MERF, shrunk
from understudy.tables.column import Column
from understudy.tables.schema import Schema

COLUMNS = (
    EmbeddedColumn("number", True),
    EmbeddedColumn("perhaps", True, (0.7, 0.3)),
    EmbeddedColumn("colour", False, (0.5, 0.3, 0.2), (-0.8, 0.3, 1.2)),
    EmbeddedColumn("other number", True),
    EmbeddedColumn("always", False, (1.0,), (0.0,)),
)


def embedding(columns=COLUMNS, count=60, touching=(2, 3), moments=0.5, clip=3.0, seed=0):
    draw = np.random.default_rng(seed)
    return draw_embedding(columns, count, touching=touching, scales=(2.0, 0.5), moments=moments, clip=clip, draw=draw)


def feature_table(n, columns=COLUMNS, seed=0, spread=1.0):
    """Rows of features, each column by itself, as the encoder would make them."""
    draw = np.random.default_rng(seed)
    parts = []
    for column in columns:
        indicators = np.eye(max(column.categories, 1))[
            draw.choice(max(column.categories, 1), n, p=column.shares or (1.0,))
        ]
        if column.number:
            score = draw.standard_normal((n, 1)) * spread
            parts.append(np.where(indicators[:, :1] == 1, score, 0.0))
        if column.categories:
            parts.append(indicators)
    return np.concatenate(parts, axis=1)


# The embedding.


def test_every_set_of_columns_is_touched_equally_often_but_for_one():
    made = embedding(tuple(EmbeddedColumn(f"x{i}", True) for i in range(7)), count=100, touching=(2,))
    _, often = np.unique(made.touched, axis=0, return_counts=True)
    assert len(often) == 21 and often.max() - often.min() <= 1


def test_independent_columns_have_the_expected_features():
    made = embedding()
    mean = made.embed(feature_table(40_000)).mean(axis=0)
    expected = made.weights[0] * independent_features(made)
    np.testing.assert_allclose(mean[:60], expected.real, atol=6 * made.weights[0] / np.sqrt(40_000))
    np.testing.assert_allclose(mean[60:120], expected.imag, atol=6 * made.weights[0] / np.sqrt(40_000))


# Fakes.


def loss_of(made, target=None, dtype=np.float64):
    size = 2 * len(made.touched) + len(made.pairs[0])
    return Loss(made, np.zeros(size) if target is None else target, emphasis=10.0, margins=1.0, dtype=dtype)


def fake_mean(made_rows, made):
    return loss_of(made).means(made_rows)


def test_fakes_with_certain_categories_are_embedded_as_rows_are():
    rows, made = feature_table(200), embedding()
    logits, start = rows.copy(), 0
    for column in COLUMNS:
        logits[:, start + column.number : start + column.width] *= 60.0
        start += column.width
    np.testing.assert_allclose(fake_mean(logits, made), made.embed(rows).mean(axis=0), atol=1e-9)


def test_fakes_with_uncertain_categories_are_embedded_as_the_mean_over_all_of_them():
    made = embedding(moments=0.0)
    y = np.random.default_rng(3).standard_normal((1, sum(column.width for column in COLUMNS)))
    p1 = np.exp(y[0, 2:4]) / np.exp(y[0, 2:4]).sum()
    p2 = np.exp(y[0, 4:7]) / np.exp(y[0, 4:7]).sum()
    mean = 0.0
    for a, b in itertools.product(range(2), range(3)):
        row = np.concatenate([y[0, :1], [y[0, 1] * (a == 0)], np.eye(2)[a], np.eye(3)[b], y[0, 7:8], [1.0]])
        mean += p1[a] * p2[b] * made.embed(row[None])[0]
    np.testing.assert_allclose(fake_mean(y, made), mean, atol=1e-12)


NUMBERS = tuple(EmbeddedColumn(f"x{i}", True) for i in range(4))


@pytest.mark.parametrize("columns", [COLUMNS, NUMBERS, COLUMNS[:1], COLUMNS[2:3]])
def test_gradients_are_those_of_finite_differences(columns):
    made = embedding(columns, count=110, touching=(1, 2, 3), clip=2.0)
    draw = np.random.default_rng(1)
    loss = loss_of(made, 0.05 * draw.standard_normal(220 + len(made.pairs[0])))
    y = draw.standard_normal((6, sum(column.width for column in columns)))
    gradient, h = loss(y)[1], 1e-5
    for place in np.ndindex(y.shape):
        step = np.zeros_like(y)
        step[place] = h
        assert gradient[place] == pytest.approx((loss(y + step)[0] - loss(y - step)[0]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("columns", [COLUMNS, NUMBERS])
def test_the_loss_is_the_product_of_the_gaps_of_two_halves(columns):
    made, draw = embedding(columns, moments=0.3), np.random.default_rng(2)
    target = 0.05 * draw.standard_normal(120 + len(made.pairs[0]))
    loss, y = loss_of(made, target), draw.standard_normal((10, sum(column.width for column in columns)))
    loss.margins = 0.0
    one, two = (loss.means(part) - target for part in (y[:5], y[5:]))
    weights = np.where(np.arange(len(target)) < 120, 10.0, 1.0) * len(made.pairs[0])
    assert loss(y)[0] == pytest.approx(np.sum(weights * one * two))


def test_waves_by_turns_stand_for_all():
    made, draw = embedding(count=200), np.random.default_rng(4)
    loss, y = loss_of(made), draw.standard_normal((8, sum(column.width for column in COLUMNS)))
    assert len(loss.waves) > 2
    alone = [loss(y, [i])[1] for i in range(len(loss.waves))]
    np.testing.assert_allclose(np.mean(alone, axis=0), loss(y)[1], atol=1e-12)


def test_gradients_go_back_through_the_layers():
    draw, columns = np.random.default_rng(5), NUMBERS[:2]
    params = {name: draw.standard_normal(v.shape) for name, v in initial(columns, (3, 4), 2, draw).items()}
    z, back = draw.standard_normal((2, 3, 2)), draw.standard_normal((2, 3, 2))
    gradients = through(params, with_layers(params, z)[1], back)
    assert gradients.keys() == params.keys()
    for name, value in params.items():
        for place in np.ndindex(value.shape):
            ends = []
            for h in (1e-6, -1e-6):
                moved = value.copy()
                moved[place] += h
                ends.append((outputs({**params, name: moved}, z) * back).sum())
            assert gradients[name][place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("columns", [1, 7, 400])
def test_products_in_pieces_are_products(columns):
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((130, 90)), draw.standard_normal((90, columns))
    np.testing.assert_allclose(times(a, b), a @ b)


def test_the_generator_starts_with_independent_columns_at_their_shares():
    made = embedding()
    params = initial(COLUMNS, (8,), len(COLUMNS), np.random.default_rng(0))
    y = outputs(params, np.random.default_rng(1).standard_normal((20_000, len(COLUMNS))).astype(np.float32))
    expected = made.weights[0] * independent_features(made)
    np.testing.assert_allclose(fake_mean(y, made)[:60], expected.real, atol=6 * made.weights[0] / np.sqrt(20_000))


def test_the_generator_comes_to_the_correlations_it_is_shown():
    columns = tuple(EmbeddedColumn(f"x{i}", True) for i in range(3))
    truth = np.array([[1, 0.8, 0], [0.8, 1, -0.5], [0, -0.5, 1]])
    rows = np.random.default_rng(0).multivariate_normal(np.zeros(3), truth, 20_000)
    made = embedding(columns, count=100, clip=4.0)
    start = initial(columns, (16,), 3, np.random.default_rng(0))
    settings = {"steps": 300, "rate": 0.01, "fakes": 300, "part": 0.5, "emphasis": 1.0, "margins": 3.0}
    settings["draw"] = np.random.default_rng(2)
    params = fit(start, made, made.embed(rows).mean(axis=0), **settings)
    y = outputs(params, np.random.default_rng(1).standard_normal((20_000, 3)).astype(np.float32))
    np.testing.assert_allclose(np.corrcoef(y.T), truth, atol=0.06)


# What is released, and shrunk.


def test_noise_alone_is_taken_for_independence_and_exact_means_are_kept():
    made = embedding(tuple(EmbeddedColumn(f"x{i}", True) for i in range(3)), count=300, touching=(2,))
    independent = made.weights[0] * independent_features(made)
    reference = np.concatenate([independent.real, independent.imag, np.zeros(3)])
    noise = 0.01 * np.random.default_rng(0).standard_normal(603)
    left = shrunk(reference + noise, made, 0.01)[:600] - reference[:600]
    assert np.linalg.norm(left) < 0.4 * np.linalg.norm(noise)
    np.testing.assert_array_equal(shrunk(reference + noise, made, 0.0)[600:], noise[600:])
    np.testing.assert_allclose(shrunk(reference + noise, made, 0.0), reference + noise)


# The fitted generator.


def test_categories_are_drawn_with_their_probabilities():
    p = np.array([0.2, 0.5, 0.3])
    drawn = draw_categories(np.log(np.tile(p, (60_000, 1))), np.random.default_rng(0).random(60_000))
    np.testing.assert_allclose(np.bincount(drawn) / 60_000, p, atol=0.01)


def test_levels_are_uniform_whatever_the_generator_makes():
    columns = (EmbeddedColumn("x", True),)
    params = {
        "straight": np.array([[3.0]]),
        "bias": np.array([5.0]),
        "weight 0": np.ones((1, 4)),
        "shift 0": np.ones(4),
    }
    params |= {"weight 1": np.ones((4, 1))}
    knots = calibrate(params, columns, Key.new(0))
    fitted = FittedMERF(columns=columns, edges=(np.zeros(0),), params=params, knots=knots)
    levels = fitted.sample(50_000, key=Key.new(1))["x"]
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
        ("part", 0.0),
        ("margins", -1.0),
        ("shrink", float("inf")),
        ("encoding_share", 0.0),
    ],
)
def test_settings_that_make_no_sense_are_refused(field, value):
    with pytest.raises(ValueError, match=f"MERF.{field}: expected"):
        MERF(**{field: value})


def test_the_embedding_is_released_once_with_sensitivity_one():
    schema = Schema(columns=(Column(name="a", kind="boolean"), Column(name="b", kind="continuous", low=0.0, high=1.0)))
    frame = pl.DataFrame({"a": [True, False] * 50, "b": np.linspace(0, 1, 100)})
    quick = MERF(features=20, steps=2, fakes=10)
    model = understudy.fit(frame, schema, quick, epsilon=1.0, seed=0)
    charges = [charge for charge in model.receipt.charges if charge.name == "embedding"]
    assert [(charge.sensitivity, charge.times) for charge in charges] == [(1.0, 1)]
    assert sum(planned.share for planned in quick.plan(schema)) == pytest.approx(1 - quick.encoding_share)
    assert isinstance(model.encoder, Encoder)
