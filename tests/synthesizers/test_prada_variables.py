"""Variables of `prada`: levels, states and scores that belong together, on public and on private rows alike."""

import numpy as np
import pytest
from scipy import integrate, stats

from prada_densities import ENCODER, VARIABLES, encoder_of, independent_levels, number, reading
from understudy.core.randomness import Key
from understudy.encoding.columns import PassThroughEncoder
from understudy.encoding.encoder import Encoder
from understudy.privacy.normal_scores import normal_score
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada.likelihood.fitted import public_levels
from understudy.synthesizers.prada.likelihood.pool import Pool
from understudy.synthesizers.prada.likelihood.variables import (
    LEAST_ATOM,
    far_groups,
    own_score_map,
    seen_score_map,
    state_map,
    variables_of,
)
from understudy.tables.column import Column
from understudy.tables.schema import Schema

A, B, C, D, E, F, G = VARIABLES
every_variable = pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.name)


def test_states_of_a_number_are_regular_its_atoms_and_missing():
    np.testing.assert_allclose(C.shares, 0.8 * np.array([0.15, 0.65, 0.2, 0.25]))
    np.testing.assert_allclose(C.levels, [[np.nan] * 2, [0.05, 0.7], [0.75, 0.95], [np.nan] * 2])
    assert (A.states, G.states, F.states) == (0, 2, 4)  # of the whole number, 3 and 4 are no atoms
    assert [v.has_atoms for v in VARIABLES] == [False, False, True, False, False, True, False]


def test_a_number_with_one_common_value_among_many_has_no_atoms():
    [found] = variables_of(encoder_of(number("x", [0.0, 0.0, 9.0], [0.0, 0.75, 1.0])), ["x"])
    assert found.states == 0
    [listed] = variables_of(encoder_of(number("x", [0.0, 0.0, 9.0], [0.0, 0.85, 1.0])), ["x"])
    assert listed.states == 2 and listed.shares[1] == pytest.approx(0.85)


def test_states_of_a_category_are_its_values_and_missing():
    np.testing.assert_allclose(B.shares, [0.5, 0.3, 0.2])
    np.testing.assert_allclose(D.shares, [0.9 * 0.25, 0.9 * 0.75, 0.1])
    assert E.states == 40 and not E.number and E.shares.sum() == pytest.approx(1.0)


def test_a_number_has_at_most_fourteen_atoms():
    edges = np.linspace(0.0, 1.0, 15)
    values = np.repeat(np.arange(15.0), 2)[1:-1]
    atoms = number("x", [0.0, *np.repeat(np.arange(1.0, 15.0), 2), 15.0], [0.0, *np.repeat(edges, 2)[1:-1], 1.0])
    [found] = variables_of(encoder_of(atoms), ["x"])
    assert len(values) == 28 and found.states == 15 and 1 / LEAST_ATOM < 15


FAR = {
    "lower": number("x", [0.0, 40.0, 900.0, 1500.0], [0.0, 0.04, 0.0405, 1.0]),
    "upper": number("x", [0.0, 6.0, 900.0, 940.0], [0.0, 0.97, 0.97, 1.0]),
    "whole": number("x", [-0.5, 0.5, 49.5, 99.5], [0.0, 0.035, 0.0352, 1.0], whole=True),
}
"""Columns with a group far from the rest."""


@pytest.mark.parametrize("name", FAR)
def test_a_group_far_from_the_rest_is_a_state(name):
    encoder = encoder_of(FAR[name])
    known, [variable] = encoder.columns["x"], variables_of(encoder, ["x"])
    [group] = far_groups(known.distribution)
    assert variable.states == 2 and variable.shares[1] == pytest.approx(group.above - group.below)
    values = known.values((np.arange(2000) + 0.5) / 2000)
    in_group = values < 100 if name == "lower" else values > 100 if name == "upper" else values == 0
    level = public_levels(encoder, "x", values, None)
    state, key = variable.state_of(level), Key.new(0)
    maps = {"state": state_map(variable, known.scale, key), "seen": seen_score_map(variable, known.scale, key)}
    made = PrivateRows({"x": values}, {}, 1).derive(maps)._exact
    np.testing.assert_array_equal(made["state"] == 1, in_group)
    np.testing.assert_array_equal(made["state"], state)
    _, seen = variable.scores_of(level, state)
    certain = in_group if name == "whole" else np.ones(2000, bool)  # other whole numbers have a random level each
    np.testing.assert_allclose(made["seen"][certain], seen[certain], atol=1e-9)
    assert made["seen"][in_group].std() < 1e-12


@pytest.mark.parametrize(
    ("values", "cdf"),
    [
        ([0.0, 40.0, 60.0, 100.0], [0.0, 0.04, 0.04, 1.0]),  # a narrow gap
        ([0.0, 40.0, 900.0, 1500.0], [0.0, 0.04, 0.1, 1.0]),  # one that is not empty
        ([0.0, 40.0, 900.0, 1500.0], [0.0, 0.004, 0.0041, 1.0]),  # few values
        ([0.0, 0.0, 10.0, 900.0], [0.0, 0.77, 0.77, 1.0]),  # values that are far from each other as well
        ([1.0, 10.0, 100.0, 1000.0, 10000.0], [0.0, 0.9, 0.99, 0.999, 1.0]),  # a heavy tail
    ],
)
def test_no_group_is_far(values, cdf):
    [variable] = variables_of(encoder_of(number("x", values, cdf)), ["x"])
    assert variable.states == 0


# Levels, states and scores --------------------------------------------------------------------------------------------


def levels_of(variable, n=4000, seed=0):
    return independent_levels(ENCODER, n, seed)[variable.name]


@every_variable
def test_states_are_as_common_as_their_shares(variable):
    state = variable.state_of(levels_of(variable, 40_000))
    if variable.states:
        np.testing.assert_allclose(np.bincount(state, minlength=variable.states) / 40_000, variable.shares, atol=0.01)
    else:
        assert not state.any()


@every_variable
def test_levels_come_back_from_scores_and_states(variable):
    level, uniform = levels_of(variable), np.random.default_rng(1).random(4000)
    inner = np.isnan(level) | ((level > 2 * variable.edge) & (level < 1 - 2 * variable.edge))
    level, uniform = level[inner], uniform[inner]
    state = variable.state_of(level)
    own, _ = variable.scores_of(level, state)
    back = variable.level_of(own, state, uniform)
    np.testing.assert_array_equal(variable.state_of(back), state)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(level))
    regular = (state == 0) & variable.number & ~np.isnan(level)
    np.testing.assert_allclose(back[regular], level[regular], atol=1e-9)
    low, high = variable.levels[state[~regular]].T if variable.states else np.zeros((2, 0))
    np.testing.assert_allclose(back[~regular], low + uniform[~regular] * (high - low))


@pytest.mark.parametrize("variable", [A, C, F, G], ids=lambda v: v.name)
def test_regular_values_have_normal_scores_among_themselves(variable):
    level = levels_of(variable, 20_000)
    state = variable.state_of(level)
    own, seen = variable.scores_of(level, state)
    assert stats.kstest(own[state == 0], "norm").pvalue > 1e-3
    assert not own[state != 0].any()
    regular = (state == 0) & (np.abs(own) < 3)
    np.testing.assert_allclose(seen[regular], normal_score(level[regular]), atol=1e-9)


def test_an_atom_is_seen_as_the_mean_score_of_its_levels():
    level = np.array([0.06, 0.4, 0.8, np.nan])
    _, seen = C.scores_of(level, C.state_of(level))
    means = [integrate.quad(stats.norm.ppf, low, high)[0] / (high - low) for low, high in ((0.05, 0.7), (0.75, 0.95))]
    np.testing.assert_allclose(seen, [means[0], means[0], means[1], 0.0], atol=1e-7)
    np.testing.assert_allclose(C.state_scores, [0.0, *means, 0.0], atol=1e-7)


def test_a_missing_value_that_may_not_be_is_somewhere_all_the_same():
    level = np.array([np.nan, 0.3])
    for variable in (A, B, F):
        state = variable.state_of(level)
        own, seen = variable.scores_of(level, state)
        assert (state >= 0).all() and np.isfinite(own).all() and np.isfinite(seen).all()


def test_a_number_may_have_nothing_but_atoms():
    [only] = variables_of(encoder_of(number("x", [-0.5, 0.5, 1.5], [0.0, 0.4, 1.0], whole=True)), ["x"])
    level = np.linspace(0.01, 0.99, 50)
    state = only.state_of(level)
    np.testing.assert_array_equal(state, 1 + (level >= 0.4))
    assert only.shares[0] < 1e-3
    back = only.level_of(np.zeros(50), state, np.full(50, 0.5))
    np.testing.assert_allclose(back, np.where(state == 1, 0.2, 0.7))
    assert np.isfinite(only.level_of(np.linspace(-3, 3, 50), np.zeros(50, int), np.zeros(50))).all()
    scale = encoder_of(number("x", [-0.5, 0.5, 1.5], [0.0, 0.4, 1.0], whole=True)).columns["x"].scale
    made = PrivateRows({"x": np.array([0.0, 1.0, np.nan])}, {}, 1).derive({"y": own_score_map(only, scale, Key.new(0))})
    assert np.isfinite(made._exact["y"]).all()


def test_a_column_that_passes_through_is_its_own_level_and_score():
    column = Column(name="x", kind="continuous")
    encoder = Encoder(Schema(columns=(column,)), {"x": PassThroughEncoder(column)}, 100.0)
    [through] = variables_of(encoder, ["x"])
    x = np.array([-2.0, 0.5, 7.0])
    assert through.states == 0 and through.pass_through
    for found in through.scores_of(x, through.state_of(x)):
        np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(through.level_of(x, np.zeros(3, int), np.zeros(3)), x)
    made = PrivateRows({"x": x}, {}, 1).derive({"y": seen_score_map(through, encoder.columns["x"].scale, Key.new(0))})
    np.testing.assert_array_equal(made._exact["y"], x)


# Private rows ---------------------------------------------------------------------------------------------------------


def values_and_levels(n=2000):
    """Values of all columns, the interval of levels of each, and the level that a public table would have."""
    levels, values, intervals, public = independent_levels(ENCODER, n, 3), {}, {}, {}
    for name, each in ENCODER.columns.items():
        values[name] = each.values(levels[name])
        intervals[name] = each.levels(values[name])
        public[name] = public_levels(ENCODER, name, values[name], each.labels)
    return values, intervals, public


@every_variable
def test_maps_of_private_rows_agree_with_public_rows(variable):
    values, intervals, public = values_and_levels()
    rows, scale, key = PrivateRows(values, {}, 1), ENCODER.columns[variable.name].scale, Key.new(0)
    below, above = intervals[variable.name]
    level = public[variable.name]
    state = variable.state_of(level)
    maps = {"state": state_map(variable, scale, key)}
    if variable.number:
        maps |= {"own": own_score_map(variable, scale, key), "seen": seen_score_map(variable, scale, key)}
    made = rows.derive(maps)._exact
    np.testing.assert_array_equal(made["state"], state)
    if not variable.number:
        return
    own, seen = variable.scores_of(level, state)
    certain = ~(above > below) | (state != 0)
    assert certain.mean() > 0.85
    np.testing.assert_allclose(made["seen"][certain], seen[certain], atol=1e-9)
    regular = (state == 0) & certain
    np.testing.assert_allclose(made["own"][regular], own[regular], atol=1e-9)
    spread = ~certain
    assert spread.any() == (variable.name == "f")
    edge = variable.edge
    within = [normal_score(np.clip(each[spread], edge, 1 - edge)) for each in (below, above)]
    assert ((made["seen"][spread] >= within[0]) & (made["seen"][spread] <= within[1])).all()
    back = variable.level_of(made["own"][spread], state[spread], np.zeros(spread.sum()))
    apart = np.abs(normal_score(np.clip(back, edge, 1 - edge)) - made["seen"][spread])
    assert not spread.any() or np.mean(apart < 0.05) > 0.98  # but for the edges


def test_inputs_of_private_rows_are_those_of_public_rows():
    values, _, public = values_and_levels()
    read = reading()
    maps = dict(read.maps(ENCODER, Key.new(0)))
    made = PrivateRows(values, {}, 1).derive(maps)._exact
    expected = Pool(public, VARIABLES).read(read).inputs
    assert list(maps) == list(dict.fromkeys(maps)) and len(maps) == read.size == len(expected)
    values_of_f = values["f"]
    for (name, found), wanted in zip(made.items(), expected, strict=True):
        certain = values_of_f < 3 if name == "seen f" else np.ones(2000, bool)  # 3 and 4 have a random level each
        np.testing.assert_allclose(found[certain], wanted[certain], atol=1e-6, err_msg=name)


@every_variable
def test_no_private_value_raises_or_is_lost(variable):
    odd = np.array([np.nan, np.inf, -np.inf, 1e300, -7.0, 0.5, 1e9])
    rows, scale, key = PrivateRows({variable.name: odd}, {}, 1), ENCODER.columns[variable.name].scale, Key.new(0)
    maps = {"state": state_map(variable, scale, key)}
    if variable.number:
        maps |= {"own": own_score_map(variable, scale, key), "seen": seen_score_map(variable, scale, key)}
    made = rows.derive(maps)._exact
    assert all(np.isfinite(each).all() for each in made.values())
    assert ((made["state"] >= 0) & (made["state"] < max(variable.states, 1))).all()
