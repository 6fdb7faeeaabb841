"""The embedding: bounded whatever a row holds, each row by itself, and clipped inside the mechanism."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ledgers import assert_is_noise, both_keys, ledger_for, locked, tried_hard
from understudy.core.randomness import Key
from understudy.privacy.embedding import (
    BLOCK_ROWS,
    FINE_POINT,
    MOST_PAIRS,
    EmbeddedColumn,
    Embedding,
    noisy_embedding_sum,
)

COLUMNS = (
    EmbeddedColumn("number", True),
    EmbeddedColumn("perhaps", True, (0.7, 0.3)),
    EmbeddedColumn("colour", False, (0.5, 0.3, 0.2), (-0.8, 0.3, 1.2)),
    EmbeddedColumn("other number", True),
    EmbeddedColumn("always", False, (1.0,), (0.0,)),
)
WIDTH = sum(column.width for column in COLUMNS)
any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)


def described(columns=COLUMNS, count=60, moments=0.5, clip=3.0, seed=0):
    """An embedding of two columns a frequency."""
    draw = np.random.default_rng(seed)
    d = len(columns)
    touched = np.stack([draw.permutation(d)[:2] if d > 1 else np.array([0, -1]) for _ in range(count)])
    return Embedding(
        columns=tuple(columns),
        touched=touched,
        frequencies=draw.normal(0, 2, (count, d)),
        phases=tuple(draw.uniform(0, 2 * np.pi, (count, column.categories)) for column in columns),
        moments=moments,
        clip=clip,
    )


def feature_table(n, columns=COLUMNS, seed=0, spread=1.0):
    """Rows of features, each column by itself, as the encoder would make them."""
    draw = np.random.default_rng(seed)
    parts = []
    for column in columns:
        categories = max(column.categories, 1)
        indicators = np.eye(categories)[draw.choice(categories, n, p=column.shares or (1.0,))]
        if column.number:
            score = draw.standard_normal((n, 1)) * spread
            parts.append(np.where(indicators[:, :1] == 1, score, 0.0))
        if column.categories:
            parts.append(indicators)
    return np.concatenate(parts, axis=1)


def released(x, embedding, m=1, *, noise=1e-3, key=None, bound=1.0):
    rows = locked(m, **{f"x{i}": column for i, column in enumerate(x.T)})
    how = {"what": "", "planned": "it", "ledger": ledger_for(noise=noise), "key": key or Key.new(0)}
    return noisy_embedding_sum(rows, rows.names, embedding, bound=bound, **how)


@pytest.mark.parametrize("moments", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 30.0, 1e8])
def test_no_row_has_an_embedding_longer_than_one(moments, spread):
    embedded = described(moments=moments).embed(feature_table(500, spread=spread))
    assert np.linalg.norm(embedded, axis=1).max() <= 1 + 1e-9


def test_the_bound_is_nearly_reached_so_it_is_not_loose_either():
    columns = tuple(EmbeddedColumn(f"x{i}", True) for i in range(12))
    assert np.linalg.norm(described(columns, clip=12.0).embed(np.full((1, 12), 5.0))) > 0.95


@tried_hard
@given(arrays(np.float64, (6, WIDTH), elements=any_float), st.integers(1, 3), st.sampled_from([1e-3, 0.3, 1.0, 1e3]))
def test_a_unit_moves_the_sum_by_no_more_than_its_rows_times_the_bound(x, m, bound):
    # Any features, not only those an encoder would make, and bounds below the norm that the description promises.
    embedding = described(count=5)
    change = released(x, embedding, m, bound=bound) - released(x[:-m], embedding, m, bound=bound)
    assert np.linalg.norm(change) <= m * bound * (1 + 1e-6)


def test_a_description_with_a_larger_norm_is_clipped_all_the_same():
    loud = described(moments=0.99, clip=3.0)
    object.__setattr__(loud, "weights", (50.0, 50.0))  # stands for a description that is wrong about its norm
    x = feature_table(9)
    assert np.linalg.norm(loud.embed(x), axis=1).min() > 10
    assert np.linalg.norm(released(x, loud) - released(x[:-1], loud)) <= 1 + 1e-6


def test_a_row_is_embedded_by_itself():
    embedding, rows = described(), feature_table(300)
    alone = np.concatenate([embedding.embed(row[None]) for row in rows])
    np.testing.assert_allclose(embedding.embed(rows), alone, rtol=0, atol=1e-15)


def test_products_of_fourier_features_are_means_of_cosines_of_what_differs():
    embedding, rows = described(moments=0.0), feature_table(2)
    angles = np.zeros((2, 60))
    for row, k in itertools.product(range(2), range(60)):
        start = 0
        for c, column in enumerate(COLUMNS):
            if c in embedding.touched[k]:
                angles[row, k] += rows[row, start] * embedding.frequencies[k, c] if column.number else 0.0
                for category in range(column.categories):
                    angles[row, k] += rows[row, start + column.number + category] * embedding.phases[c][k, category]
            start += column.width
    one, two = embedding.embed(rows)
    assert one @ two == pytest.approx(np.cos(angles[0] - angles[1]).mean())


@pytest.mark.parametrize("columns", [1, 2, 60, 200, 450])
def test_any_number_of_columns_is_embedded(columns):
    each = tuple(EmbeddedColumn(f"x{i}", True) for i in range(columns))
    embedding = described(each, count=30)
    embedded = embedding.embed(feature_table(3, each))
    assert embedded.shape == (3, embedding.size) == (3, 60 + min(columns * (columns - 1) // 2, MOST_PAIRS))
    assert np.linalg.norm(embedded, axis=1).max() <= 1 + 1e-9


@both_keys
@pytest.mark.parametrize(("m", "bound"), [(1, 1.0), (3, 0.2)])
def test_every_feature_gets_the_noise_that_was_charged(key, m, bound):
    nothing = released(np.zeros((0, WIDTH)), described(count=750), m, noise=2.5, key=key, bound=bound)
    assert_is_noise(nothing, 2.5 * m * bound)


def test_sums_are_those_of_the_embedded_rows_over_more_than_one_block():
    embedding, x = described(count=20), feature_table(3 * BLOCK_ROWS + 7)
    np.testing.assert_allclose(released(x, embedding), embedding.embed(x).sum(0), atol=len(x) / FINE_POINT + 1e-2)


def test_features_that_are_not_numbers_are_silent_and_count_as_nothing(recwarn):
    x = feature_table(4)
    x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, 1e308
    assert np.isfinite(released(x, described())).all() and not len(recwarn)


@pytest.mark.parametrize(
    "wrong",
    [
        {"touched": np.full((60, 2), 5)},
        {"touched": np.zeros((0, 2), int)},
        {"frequencies": np.zeros((60, 4))},
        {"phases": (np.zeros((60, 0)),)},
        {"moments": 1.0},
        {"clip": 0.0},
    ],
)
def test_descriptions_that_do_not_fit_are_refused(wrong):
    good = described()
    fields = {name: getattr(good, name) for name in ("columns", "touched", "frequencies", "phases", "moments", "clip")}
    with pytest.raises(ValueError, match="Embedding"):
        Embedding(**{**fields, **wrong})


def test_other_features_than_those_of_the_embedding_are_refused_before_anything_is_charged():
    ledger = ledger_for()
    with pytest.raises(ValueError, match=f"expected {WIDTH} features"):
        noisy_embedding_sum(locked(), ["x"], described(), what="", planned="it", ledger=ledger, key=Key.new(0))
    assert ledger.left("it") == 1
