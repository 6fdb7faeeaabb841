"""A correction keeps drawn rows so that they have what was measured, and tells the density of what it keeps."""

import dataclasses
import functools

import numpy as np
import pytest

from prada_densities import ENCODER, VARIABLES, columns, densities, some_pairs
from understudy.core.randomness import Key
from understudy.encoding.bins import make_bins
from understudy.graphical.marginals import Measured
from understudy.privacy.normal_scores import normal_score
from understudy.synthesizers.prada.likelihood import correcting
from understudy.synthesizers.prada.likelihood.correcting import LEAST_KEPT, MOST_CUT, correction_of
from understudy.synthesizers.prada.likelihood.correction import Correction
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.moments import MomentFeatures, NoisyMoments
from understudy.synthesizers.prada.likelihood.pool import Pool

NAMES = tuple(v.name for v in VARIABLES)
BINS = make_bins(ENCODER, 6)
FEATURES = MomentFeatures.of(ENCODER, NAMES)
POOL = 2**14


@functools.cache
def drawn():
    """Calibrated densities, and rows of theirs."""
    made = densities(columns(some_pairs())).calibrated(2**13, np.random.default_rng(0))[0]
    return made, made.sample(POOL, key=Key.new(5))


def counts_of(levels, weights, names):
    codes, shape = Pool(levels, VARIABLES).codes(BINS), tuple(BINS[name].size for name in names)
    counts = np.zeros(shape)
    np.add.at(counts, tuple(codes[name] for name in names), weights)
    return counts / np.sum(weights)


def leaning(levels):
    """Weights that join two columns which the densities do not know to be joined."""
    codes = Pool(levels, VARIABLES).codes(BINS)
    return np.exp(0.8 * (codes["b"] == 1) * (codes["a"] >= 3) - 0.5 * (codes["b"] == 0) * (codes["f"] > 1))


def measured(levels, names, sigma=1.0):
    """Counts of two columns that lean, while each has the shares that it has in the rows."""
    wanted = counts_of(levels, leaning(levels), names)
    shares = [counts_of(levels, np.ones(POOL), (name,)) for name in names]
    for _ in range(50):
        wanted *= (shares[0] / wanted.sum(axis=1))[:, None]
        wanted *= shares[1] / wanted.sum(axis=0)
    return Measured(names, 1e5 * wanted, sigma)


def moments_of(levels, weights, noise=1e-3, clip_norm=2.5):
    facts = {"features": FEATURES, "noise": noise, "clip_norm": clip_norm}
    x = NoisyMoments(means=np.zeros(0), **facts).clipped(FEATURES.of_levels(levels)).astype(float)
    return NoisyMoments(means=(x * weights) @ x.T / weights.sum(), **facts)


@functools.cache
def corrected():
    made, levels = drawn()
    pairs = [measured(levels, names) for names in (("a", "b"), ("b", "f"))]
    singles = [Measured((name,), 1e5 * counts_of(levels, np.ones(POOL), (name,)), 1.0) for name in NAMES]
    moments = moments_of(levels, leaning(levels))
    found = correction_of(made, BINS, [*singles, *pairs], moments, rows=1e5, pool_rows=POOL, key=Key.new(6))
    assert found is not None and found.matrix.size and found.tables
    return found


def test_kept_rows_have_the_counts_that_were_measured():
    made, levels = drawn()
    fresh = {each: made.sample(POOL, key=Key.new(7), correction=each) for each in (None, corrected())}
    for names in (("a", "b"), ("b", "f")):
        wanted = measured(levels, names).counts / 1e5
        before, after = (np.abs(counts_of(rows, np.ones(POOL), names) - wanted).sum() for rows in fresh.values())
        assert after < 0.45 * before


def test_kept_rows_have_the_single_columns_of_drawn_ones():
    made, levels = drawn()
    kept = made.sample(2 * POOL, key=Key.new(8), correction=corrected())
    for name in NAMES:
        gap = counts_of(kept, np.ones(2 * POOL), (name,)) - counts_of(levels, np.ones(POOL), (name,))
        assert np.abs(gap).sum() / 2 < 0.03, name


def test_scores_are_those_of_the_tables_and_of_products_of_clipped_features():
    made, found = drawn()[0], corrected()
    levels = made.sample(300, key=Key.new(9))
    codes = Pool(levels, VARIABLES).codes(BINS)
    expected = np.zeros(300)
    for clique, table in zip(found.cliques, found.tables, strict=True):
        names = [NAMES[j] for j in clique]
        expected += table[np.ravel_multi_index([codes[n] for n in names], [BINS[n].size for n in names])]
    moments = moments_of(levels, np.ones(300))
    x = moments.clipped(FEATURES.of_levels(levels))
    expected += np.einsum("fr,fg,gr->r", x, found.matrix, x)
    near = np.abs(found.scores(levels) - expected) < 0.02 * np.abs(found.matrix).max() + 1e-3
    assert near.mean() > 0.95  # but for rows in cells that two bins share


def test_scores_may_stand_for_levels():
    levels = drawn()[0].sample(500, key=Key.new(10))
    with_scores = dict(levels, a=normal_score(levels["a"]))
    np.testing.assert_allclose(corrected().scores(with_scores, ["a"]), corrected().scores(levels), atol=1e-9)


def test_a_third_of_the_rows_is_kept_at_least_and_the_density_of_what_is_kept_sums_to_one():
    made, found = drawn()[0], corrected()
    levels = made.sample(2 * POOL, key=Key.new(11))
    shares = np.exp(found.log_kept(levels))
    assert shares.max() <= 1.0
    assert LEAST_KEPT - 1e-6 < found.kept < 0.9
    assert shares.mean() == pytest.approx(found.kept, abs=0.02)
    assert np.exp(found.log_density(levels)).mean() == pytest.approx(1.0, abs=0.05)  # E_q p / q
    kept = found.keeps(levels, np.random.default_rng(0))
    assert kept.mean() == pytest.approx(shares.mean(), abs=0.02)


def test_there_is_no_correction_where_all_is_as_measured():
    made, levels = drawn()
    even = np.ones(POOL)
    singles = [Measured((name,), 1e5 * counts_of(levels, even, (name,)), 30.0) for name in NAMES]
    moments = moments_of(levels, even, noise=0.05)
    assert correction_of(made, BINS, singles, moments, rows=1e5, pool_rows=POOL, key=Key.new(6)) is None


def fitted(correction):
    d = len(NAMES)
    norms, pairs = np.zeros((d, d), np.float32), np.zeros((d, d), bool)
    return FittedDensity(densities=drawn()[0], norms=norms, pairs=pairs, correction=correction)


def test_a_model_file_keeps_the_correction():
    model = fitted(corrected())
    again = FittedDensity.from_arrays(model.arrays())
    for name, level in model.sample(700, key=Key.new(1)).items():
        np.testing.assert_array_equal(again.sample(700, key=Key.new(1))[name], level)
    assert FittedDensity.from_arrays(fitted(None).arrays()).correction is None


def test_fewer_kept_rows_are_the_first_of_more():
    made, found = drawn()[0], corrected()
    few, many = (made.sample(n, key=Key.new(2), correction=found) for n in (100, 6000))
    for name in NAMES:
        assert len(many[name]) == 6000
        np.testing.assert_array_equal(few[name], many[name][:100])


@pytest.mark.parametrize("kept", [0.0, float("nan"), 1e-300])
def test_a_damaged_correction_that_keeps_nothing_does_not_go_on_for_ever(kept):
    damaged = dataclasses.replace(corrected(), limit=1e9, kept=kept)
    levels = drawn()[0].sample(50, key=Key.new(3), correction=damaged)
    assert {len(level) for level in levels.values()} == {50}


def test_rows_that_have_given_columns_are_drawn_from_the_corrected_density_given_them():
    """One given row, many times: draws are those of the densities alone, weighted by the probability to be kept."""
    found, levels = corrected(), drawn()[1]
    given = {name: np.full(POOL, levels[name][0]) for name in ("a", "b")}
    plain, kept = (fitted(each).sample_given(given, key=Key.new(4)) for each in (None, found))
    np.testing.assert_array_equal(kept["a"], given["a"])
    weights = np.exp(found.log_kept(plain))
    for name in ("e", "f"):
        gap = counts_of(plain, weights, (name,)) - counts_of(kept, np.ones(POOL), (name,))
        assert np.abs(gap).sum() / 2 < 0.04, name


def test_a_correction_without_tables_or_products_is_written_down_and_read():
    plain = dataclasses.replace(corrected(), cliques=(), tables=(), matrix=np.zeros((0, 0), np.float32))
    again = Correction.from_arrays(NAMES, plain.arrays())
    assert again is not None and again.tables == () and not again.matrix.size
    np.testing.assert_array_equal(again.scores(drawn()[1]), np.zeros(POOL))


def test_tables_of_the_same_columns_are_looked_up_as_one():
    """Counts may be measured twice, and a table of one column counts in that of a pair: the scores are the same."""
    found, levels = corrected(), drawn()[0].sample(500, key=Key.new(13))
    halves = dataclasses.replace(
        found,
        cliques=(*found.cliques, *found.cliques),
        tables=tuple(each / 2 for each in (*found.tables, *found.tables)),
    )
    assert len(halves._by_cell.pairs) == len({tuple(each) for each in found.cliques if len(each) == 2})
    np.testing.assert_allclose(halves.scores(levels), found.scores(levels), atol=1e-5)


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5, 0.8, 3.0, 50.0])
@pytest.mark.parametrize("rows", [1, 2, 50, 5001])
def test_the_limit_cuts_little_weight_and_keeps_enough_rows(spread, rows):
    scores = 7.0 + spread * np.random.default_rng(0).standard_normal(rows)
    limit = correcting._limit(scores)

    def kept_and_cut(at):
        return np.minimum(np.exp(scores - at), 1.0).mean(), 1.0 - np.exp(
            np.logaddexp.reduce(np.minimum(scores, at)) - np.logaddexp.reduce(scores)
        )

    kept, cut = kept_and_cut(limit)
    assert kept >= LEAST_KEPT - 1e-9
    assert cut <= MOST_CUT + 1e-9 or kept == pytest.approx(LEAST_KEPT, abs=1e-6)
    assert kept_and_cut(limit - 1e-3)[1] > MOST_CUT or kept == pytest.approx(LEAST_KEPT, abs=1e-6)  # and is no larger


@pytest.mark.parametrize("clip_norm", [100.0, 2.0])
def test_features_without_a_product_count_for_the_norm_alone(clip_norm):
    found, levels = corrected(), drawn()[0].sample(500, key=Key.new(14))
    matrix = np.zeros_like(found.matrix)
    matrix[0, -1], matrix[1, 2] = 0.7, -0.4
    few = dataclasses.replace(found, cliques=(), tables=(), matrix=matrix, clip_norm=clip_norm)
    cells = [few._cell(j, levels[name], False) for j, name in enumerate(few.names)]
    x = np.concatenate([table[:, cell] for table, cell in zip(few.features, cells, strict=True)]).astype(float)
    x *= np.minimum(1.0, clip_norm / np.sqrt((x**2).sum(axis=0)))
    assert len(few._by_feature.tables) == 4 and few._by_feature.others
    np.testing.assert_allclose(few.scores(levels), np.einsum("fr,fg,gr->r", x, matrix, x), rtol=1e-4, atol=1e-5)
