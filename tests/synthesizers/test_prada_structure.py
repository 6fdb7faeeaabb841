"""The structure: groups of weights, the penalty's steps that stop where they should, and an order from moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.graphical.ordering import by_explained_variance
from understudy.synthesizers.prada import structure
from understudy.synthesizers.prada.adversarial import penalty as lasso
from understudy.synthesizers.prada.adversarial.fit import order_by_moments
from understudy.synthesizers.prada.adversarial.sequential import initial
from understudy.synthesizers.prada.fitted import FittedSequential
from understudy.synthesizers.prada.layout import Layout, categorical, numeric
from understudy.tables.column import Column
from understudy.tables.schema import Schema

pytestmark = pytest.mark.slow  # the group lasso of prada-gan

MIXED = Layout((numeric("age"), categorical("city", 3), numeric("income", nullable=True), numeric("weight")))
NUMBERS = Layout(tuple(numeric(f"x{j}") for j in range(6)))
shrunk = jax.jit(structure.shrunk, static_argnames="layout")


def rows_of(layout, seed=0, spread=1.0, noise=2, hidden=4):
    made = initial(layout, np.random.default_rng(seed), hidden=hidden, noise=noise, spread=spread)
    return jnp.asarray(made.rows)


def group(rows, layout, j, k):
    return np.asarray(rows)[j, : layout.features][layout.owners == k]


# Groups and penalties -----------------------------------------------------------------------------------------------


def test_a_group_is_all_the_rows_of_one_column():
    rows = rows_of(MIXED)
    norms = np.asarray(structure.group_norms(rows, MIXED))
    expected = [[float(np.linalg.norm(group(rows, MIXED, j, k))) if k < j else 0.0 for k in range(4)] for j in range(4)]
    np.testing.assert_allclose(norms, expected, rtol=1e-5)


def test_penalties_grow_with_the_place():
    np.testing.assert_allclose(lasso.penalties(4, 0.3, 0.5), 0.3 * np.sqrt([1, 2, 3, 4]), rtol=1e-6)
    np.testing.assert_allclose(lasso.penalties(4, 0.3), [0.3] * 4, rtol=1e-6)


def test_the_subgradient_is_the_gradient_of_the_penalty():
    rows, penalty = rows_of(MIXED), lasso.penalties(4, 0.3, 0.5)
    below = np.tril(np.ones((4, 4), dtype=bool), k=-1)

    def value(w):
        return jnp.sum(
            jnp.where(below, jnp.sqrt(structure.group_norms(w, MIXED) ** 2 + ~below), 0.0) * penalty[:, None]
        )

    oracle = jax.grad(lambda w: value(w + 1e-12))(rows)
    mine = lasso.subgradient(rows, MIXED, penalty)
    finite = np.isfinite(np.asarray(oracle))
    np.testing.assert_allclose(np.asarray(mine)[finite], np.asarray(oracle)[finite], atol=1e-5)
    assert finite[1:, : MIXED.features].any()


def test_the_subgradient_of_an_absent_parent_is_zero():
    rows = structure.only(rows_of(MIXED), jnp.zeros((4, 4), dtype=bool), MIXED)
    assert not np.asarray(lasso.subgradient(rows, MIXED, lasso.penalties(4, 1.0))).any()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 1000), amount=st.floats(0.0, 2.0))
def test_shrinking_is_the_proximal_map(seed, amount):
    """u minimises ‖u - w‖² / 2 + amount·‖u‖: w - u = amount · u / ‖u‖, or u = 0 and ‖w‖ <= amount."""
    before = rows_of(MIXED, seed)
    after = shrunk(before, MIXED, jnp.full((4, 4), amount, jnp.float32))
    for j, k in zip(*np.tril_indices(4, k=-1), strict=True):
        w, u = group(before, MIXED, j, k), group(after, MIXED, j, k)
        size = np.linalg.norm(u)
        if size:
            np.testing.assert_allclose(w - u, amount * u / size, atol=1e-4)
        else:
            assert np.linalg.norm(w) <= amount + 1e-5
    assert np.array_equal(after[:, MIXED.features :], before[:, MIXED.features :])


# Steps --------------------------------------------------------------------------------------------------------------


def regression(seed=0):
    """A quadratic loss of W with correlated inputs: its gradient, and a penalty that prunes some groups."""
    draw = np.random.default_rng(seed)
    layout, hidden = NUMBERS, 3
    mixing = draw.normal(size=(7, 7)) / np.sqrt(7) + np.eye(7)
    covariance = jnp.asarray(mixing @ mixing.T, jnp.float32)
    truth = draw.normal(size=(6, 7, hidden)) * (draw.random((6, 7, 1)) < 0.5)
    truth = structure.masked(jnp.asarray(truth, jnp.float32), layout)
    scale = jnp.asarray(10.0 ** draw.uniform(-1, 1, 6), jnp.float32)  # columns whose losses differ in size

    def gradient(w):
        return structure.masked(scale[:, None, None] * jnp.einsum("ab,jbh->jah", covariance, w - truth), layout)

    return gradient, 0.4 * scale, scale


def worst_condition(rows, gradient, penalty):
    """How far W is from the conditions of a minimum of loss + penalty, relative to the penalty."""
    slope, worst = gradient(rows), 0.0
    for j, k in zip(*np.tril_indices(6, k=-1), strict=True):
        w, g = group(rows, NUMBERS, j, k), group(slope, NUMBERS, j, k)
        size = np.linalg.norm(w)
        gap = np.linalg.norm(g + penalty[j] * w / size) if size else max(np.linalg.norm(g) - penalty[j], 0.0)
        worst = max(worst, float(gap / penalty[j]))
    return worst


@pytest.fixture(scope="module")
def minimum():
    """The minimum, by many small proximal gradient steps with a rate for each column's own scale."""
    gradient, penalty, scale = regression()
    rows, rate = jnp.zeros((6, 7, 3)), 0.1 / scale

    def step(w, _):
        amount = jnp.broadcast_to((rate * penalty)[:, None], (6, 6))
        return structure.shrunk(w - rate[:, None, None] * gradient(w), NUMBERS, amount), None

    rows, _ = jax.lax.scan(step, rows, length=5000)
    assert worst_condition(rows, gradient, penalty) < 1e-3
    return np.asarray(rows)


def test_the_problem_prunes_some_groups_and_keeps_others(minimum):
    norms = np.asarray(structure.group_norms(jnp.asarray(minimum), NUMBERS))[np.tril_indices(6, k=-1)]
    assert 3 <= np.sum(norms == 0) <= 12


def test_proximal_steps_find_the_minimum(minimum):
    gradient, penalty, _ = regression()

    def step(w, _):
        return lasso.proximal_step(w, gradient(w), NUMBERS, rate=0.01, penalty=penalty), None

    rows, _ = jax.lax.scan(step, rows_of(NUMBERS, noise=1, hidden=3), length=20_000)
    np.testing.assert_allclose(rows, minimum, atol=0.01)
    assert np.array_equal(structure.group_norms(rows, NUMBERS) == 0, structure.group_norms(minimum, NUMBERS) == 0)


def test_proximal_adam_finds_the_same_minimum_although_it_rescales_gradients(minimum):
    gradient, penalty, _ = regression()
    steps = 4000
    rows = rows_of(NUMBERS, noise=1, hidden=3)

    def step(carry, t):
        w, moments = carry
        rate = 0.01 * (1 - t / steps)
        return lasso.proximal_adam_step(w, gradient(w), moments, NUMBERS, rate=rate, penalty=penalty), None

    (rows, _), _ = jax.lax.scan(step, (rows, lasso.no_moments(rows, NUMBERS)), jnp.arange(steps))
    np.testing.assert_allclose(rows, minimum, atol=0.01)
    assert np.array_equal(structure.group_norms(rows, NUMBERS) == 0, structure.group_norms(minimum, NUMBERS) == 0)


def test_a_first_adam_step_is_the_rate_long_in_every_weight_on_average():
    rows = jnp.zeros((6, 7, 3))
    slope = structure.masked(jnp.asarray(np.random.default_rng(0).normal(size=(6, 7, 3)), jnp.float32), NUMBERS)
    moved, _ = lasso.proximal_adam_step(
        rows, slope, lasso.no_moments(rows, NUMBERS), NUMBERS, rate=0.1, penalty=jnp.zeros(6)
    )
    np.testing.assert_allclose(np.sqrt(np.mean(group(moved, NUMBERS, 5, 2) ** 2)), 0.1, rtol=1e-2)


def test_a_subgradient_step_never_reaches_zero_and_a_proximal_one_does():
    penalty = lasso.penalties(6, 1.0)
    start = rows_of(NUMBERS, noise=1, spread=0.1)

    def step(both, _):
        away, back = both
        away = away - 0.01 * lasso.subgradient(away, NUMBERS, penalty)
        return (away, lasso.proximal_step(back, 0.0 * back, NUMBERS, rate=0.01, penalty=penalty)), None

    (away, back), _ = jax.lax.scan(step, (start, start), length=50)
    below = np.tril_indices(6, k=-1)
    assert (np.asarray(structure.group_norms(away, NUMBERS))[below] > 0).all()
    assert not np.asarray(structure.group_norms(back, NUMBERS)).any()


# Theory, parents ----------------------------------------------------------------------------------------------------


def test_the_theorys_penalty_is_its_formula():
    psi = (np.sqrt(10) + np.log(2000)) * 2000**-0.1 + 0.3 + 0.2
    found = lasso.theory_penalty(2000, 10, optimisation_error=0.3, approximation_error=0.2)
    assert found == pytest.approx(np.sqrt(psi) / 10)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"n": 100_000}, {"n": 1000}),
        ({"n": 1000, "ancestors": 3}, {"n": 1000}),
        ({"n": 1000}, {"n": 1000, "optimisation_error": 1.0}),
    ],
    ids=["rows", "ancestors", "noise"],
)
def test_the_theorys_penalty_falls_with_rows_and_sparsity_and_grows_with_noise(less, more):
    assert lasso.theory_penalty(columns=10, **less) < lasso.theory_penalty(columns=10, **more)


def test_parents_are_the_pairs_that_count():
    pairs = np.zeros((4, 4), bool)
    pairs[1, 0] = pairs[3, 2] = True
    fitted = FittedSequential(layout=MIXED, params={}, edges={}, norms=0.5 * pairs, pairs=pairs)
    schema = Schema(columns=tuple(Column(name=name, kind="continuous") for name in MIXED.names))
    assert fitted.parents(schema) == {"age": [], "city": ["age"], "income": [], "weight": ["income"]}
    assert fitted.strengths()["weight"] == {"age": 0.0, "city": 0.0, "income": 0.5}


def test_only_the_kept_pairs_have_weights():
    rows, pairs = rows_of(MIXED), np.zeros((4, 4), dtype=bool)
    pairs[3, 1] = True
    kept = structure.only(rows, jnp.asarray(pairs), MIXED)
    assert np.array_equal(np.asarray(structure.group_norms(kept, MIXED)) > 0, pairs)
    assert np.array_equal(group(kept, MIXED, 3, 1), group(rows, MIXED, 3, 1))
    assert np.array_equal(kept[:, MIXED.features :], rows[:, MIXED.features :])


# A private order ----------------------------------------------------------------------------------------------------


def test_ranks_from_moments_are_those_of_the_explained_variance():
    draw = np.random.default_rng(0)
    source = draw.normal(size=5000)
    middle = source + 2.0 * draw.normal(size=5000)
    x = np.column_stack([middle, source, middle + source + 0.3 * draw.normal(size=5000)])
    x = x / x.std(axis=0)
    ranks = order_by_moments(x.T @ x / len(x))
    assert [ranks.index(place) for place in range(3)] == by_explained_variance(np.corrcoef(x.T))


def test_ranks_from_moments_survive_noise_that_makes_them_impossible():
    noise = np.random.default_rng(1).normal(size=(6, 6))
    assert sorted(order_by_moments(np.eye(6) + 2 * (noise + noise.T))) == list(range(6))
