"""A contrast is the mean clipped slope under the densities themselves; subtracted, it takes the bias of clipping."""

import numpy as np
import pytest

from prada_densities import VARIABLES, columns, parts, rows, some_pairs
from understudy.privacy.densities import derivatives, draw_own, fixed_of, layers, own_of
from understudy.privacy.density_training import clipped_sums
from understudy.synthesizers.prada.likelihood.columns import log_density, outputs_of
from understudy.synthesizers.prada.likelihood.contrast import EVERY, Contrast

MADE = columns(some_pairs())
PARTS = parts(MADE)
KINDS = [f"{part.shape.columns} x {'number' if part.shape.number else part.shape.states}" for part in PARTS]


def contrast_of(part, *, norm, batch=4000, seed=0):
    x = part.rows(rows(500))
    levels = (np.arange(len(x)) + 1) / len(x)
    norms = np.full(part.shape.columns, norm, np.float32)
    features = np.ascontiguousarray(x[:, : part.shape.features + 1])
    draw = np.random.default_rng(seed)
    return Contrast(shape=part.shape, features=features, levels=levels, norms=norms, batch=batch, draw=draw)


@pytest.mark.parametrize("part", PARTS, ids=KINDS)
def test_what_is_drawn_has_the_density_that_is_trained(part):
    """The mean of a density's slope over rows that it draws is zero, by each of its weights."""
    weights, x = part.pack(MADE, VARIABLES), part.rows(rows(500))
    fixed, chosen = fixed_of(weights, part.shape), np.random.default_rng(1).integers(0, 500, 40_000)
    features = x[chosen, : part.shape.features + 1]
    own, state = draw_own(
        weights, fixed, layers(weights, fixed, features, part.shape), part.shape, np.random.default_rng(2)
    )
    read = np.concatenate([features, own.T, state.T], axis=1)
    np.testing.assert_array_equal(own_of(read, part.shape)[1], state)
    made = derivatives(weights, fixed, read, part.shape)
    for slopes in (made.by_second, made.by_linear):
        deviations = slopes.mean(axis=2) / np.maximum(slopes.std(axis=2) / 200.0, 1e-6)
        assert np.abs(deviations).max() < 5.0


@pytest.mark.parametrize("part", PARTS, ids=KINDS)
def test_a_contrast_is_small_without_clipping_and_has_its_bias_with_it(part):
    weights = part.pack(MADE, VARIABLES)
    loose, tight = (
        np.concatenate([each.ravel() for each in contrast_of(part, norm=n)(weights, 0)]) for n in (1e6, 0.1)
    )
    again = np.concatenate([each.ravel() for each in contrast_of(part, norm=0.1, seed=7)(weights, 0)])
    assert np.corrcoef(tight, again)[0, 1] > 0.5  # it is the bias that is seen, not the chance in the draws
    assert np.linalg.norm(tight) <= 0.1 * part.shape.columns**0.5 * (1 + 1e-3)
    assert np.isfinite(loose).all()


def test_private_slopes_minus_the_contrast_vanish_where_the_densities_are_right():
    """Rows that the densities drew themselves are clipped as private rows are; what is left is chance."""
    for part in PARTS:
        weights, x = part.pack(MADE, VARIABLES), part.rows(rows(500))
        fixed, draw = fixed_of(weights, part.shape), np.random.default_rng(3)
        features = x[draw.integers(0, 500, 20_000), : part.shape.features + 1]
        own, state = draw_own(weights, fixed, layers(weights, fixed, features, part.shape), part.shape, draw)
        read = np.concatenate([features, own.T, state.T], axis=1)
        norms = np.full(part.shape.columns, 0.1, np.float32)
        sums = clipped_sums(derivatives(weights, fixed, read, part.shape), fixed, np.ones((20_000, 1), bool), norms)
        biased = np.concatenate([each.ravel() for each in sums]) / 20_000
        contrast = np.concatenate([each.ravel() for each in contrast_of(part, norm=0.1, batch=20_000)(weights, 0)])
        assert np.linalg.norm(biased - contrast) < 0.35 * np.linalg.norm(biased) + 2e-3


def test_a_contrast_is_made_anew_after_some_steps():
    contrast, weights = contrast_of(PARTS[0], norm=1.0, batch=300), PARTS[0].pack(MADE, VARIABLES)
    first = contrast(weights, 0)
    assert contrast(weights, EVERY - 1) is first
    assert contrast(weights, EVERY) is not first


def test_rows_are_drawn_by_their_weight():
    contrast = contrast_of(PARTS[0], norm=1.0, batch=50)
    contrast.levels = np.where(np.arange(500) < 17, 0.0, 1.0)  # all the weight is the eighteenth row's
    weights = PARTS[0].pack(MADE, VARIABLES)
    found = contrast(weights, 0)
    contrast.features = np.repeat(contrast.features[17:18], 500, axis=0)
    contrast.draw, contrast.last = np.random.default_rng(0), ()
    for one, other in zip(found, contrast(weights, 0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_drawn_scores_have_the_log_density_that_models_state():
    """Of one number: the mean log density of what is drawn is the negative entropy, found by a sum over a grid."""
    (part, at) = next(
        (p, i) for p in PARTS for i, j in enumerate(p.members) if VARIABLES[j].number and not VARIABLES[j].states
    )
    j = part.members[at]
    weights, x = part.pack(MADE, VARIABLES), rows(500)
    fixed = fixed_of(weights, part.shape)
    one = np.repeat(part.rows(x)[3:4, : part.shape.features + 1], 20_000, axis=0)
    own, _ = draw_own(weights, fixed, layers(weights, fixed, one, part.shape), part.shape, np.random.default_rng(0))
    inputs = np.repeat(x.inputs[MADE[j].sources][:, 3:4], 20_000, axis=1)
    made = outputs_of(MADE[j], inputs, number=True, components=part.shape.components)
    found = log_density(MADE[j], made, own[at], np.zeros(20_000, np.int64)).mean()
    grid = np.linspace(-12.0, 12.0, 20_000, dtype=np.float32)
    log_p = log_density(MADE[j], made, grid, np.zeros(20_000, np.int64)).astype(np.float64)
    expected = np.sum(np.exp(log_p) * log_p) * (grid[1] - grid[0])
    assert found == pytest.approx(expected, abs=0.05)
