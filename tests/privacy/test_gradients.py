"""The hatch for gradients: batches, clipping and noise are what the account says they are."""

import dataclasses
import math
import os
import pathlib
import subprocess
import sys

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from understudy.core.randomness import Key
from understudy.privacy import gradients as dpsgd
from understudy.privacy.accounting import Budget, BudgetExceeded, PlannedMechanism
from understudy.privacy.gradients import Job, Layer, clipped_sums, largest_batch, poisson_batch, train
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows, lock


@dataclasses.dataclass(frozen=True)
class Regression:
    """Least squares of the last column on the others: one dense layer with a bias. Keeps the sums it was given."""

    steps_per_round: int = 1
    rate: float = 0.0

    def prepare(self, state, key):
        return jnp.zeros(self.steps_per_round)

    def factors(self, state, rows):
        a = jnp.concatenate([rows[:-1], jnp.ones((1, rows.shape[1]), jnp.float32)])
        return [Layer(a, state["w"].T @ a - rows[-1:])]

    def update(self, state, gradient, prepared):
        kept = jnp.roll(state["kept"], 1, axis=0).at[0].set(gradient[0])
        return {"w": state["w"] - self.rate * gradient[0], "kept": kept}

    def finish(self, state, key):
        return state


def table(n=50, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, 3))
    return {"a": x[:, 0], "b": x[:, 1], "y": x @ [1.0, -2.0, 0.5] + 3}


def start(steps=1, value=0.0):
    return {"w": jnp.full((3, 1), value, jnp.float32), "kept": jnp.zeros((steps, 3, 1), jnp.float32)}


def ledger(steps=1, rate=1.0, noise=None, epsilon=1.0):
    item = PlannedMechanism(
        name="steps", mechanism="sampled gaussian", share=1.0, times=steps, sampling_rate=rate, noise_multiplier=noise
    )
    return Ledger(Budget(epsilon=epsilon, delta=1e-5), [item])


def job(columns, *, steps=1, rate=1.0, noise=None, clip=1.0, seed=0, epsilon=1.0, rows=None, capacity=64):
    return Job(
        rows=rows or PrivateRows(columns, {}, 1),
        ledger=ledger(steps, rate, noise, epsilon),
        key=Key.new(seed),
        state=start(steps),
        clip_norm=clip,
        capacity=capacity,
    )


def run(jobs, loop=None, **options):
    return train(loop or Regression(), jobs, ["a", "b", "y"], planned="steps", what="a regression", **options)


def exact_run(columns, *, clip, loop=None):
    """One step of the hatch's own loop on everybody and without noise, which the ledger would never sell."""
    box = dpsgd._open(PrivateRows(columns, {}, 1), ["a", "b", "y"], 64)
    most = len(box.units)
    draws = dpsgd.draw_rounds(jax.random.key(0), np.arange(1), 1.0, 0.0, box.count, steps=1, most=most, size=3)
    return dpsgd._run(loop or Regression(), start(), (box.rows, box.units), jnp.float32(clip), jnp.ones(1, bool), draws)


# Gradients ----------------------------------------------------------------------------------------------------------


def loss(w, row):
    a = jnp.append(row[:-1], 1.0)
    return 0.5 * (a @ w[:, 0] - row[-1]) ** 2


def test_without_noise_and_clipping_a_step_is_plain_gradient_descent():
    columns = table()
    rows = np.stack(list(columns.values()), axis=1).astype(np.float32)
    plain = -0.01 * jax.grad(lambda w: sum(loss(w, row) for row in rows))(start()["w"])
    stepped = exact_run(columns, clip=1e30, loop=Regression(rate=0.01))["w"]
    assert np.allclose(stepped, plain, atol=1e-5)


@pytest.mark.parametrize("clip", [0.1, 1.0, 5.0, 100.0])
def test_clipped_sums_are_those_of_explicit_gradients(clip):
    columns = table()
    rows = np.stack(list(columns.values()), axis=1).astype(np.float32)
    each = np.asarray(jax.vmap(jax.grad(loss), in_axes=(None, 0))(start()["w"], rows), dtype=np.float64)
    norms = np.linalg.norm(each, axis=(1, 2))
    expected = (each * np.minimum(1, clip / norms)[:, None, None]).sum(axis=0)
    released = exact_run(columns, clip=clip)["kept"][0]
    assert np.allclose(released, expected, rtol=1e-4, atol=1e-4)


# Sensitivity --------------------------------------------------------------------------------------------------------

anything = st.floats(width=32, allow_nan=True, allow_infinity=True)
factor = arrays.arrays(np.float32, st.tuples(st.integers(1, 3), st.just(6)), elements=anything)
layers = st.lists(st.tuples(factor, factor), min_size=1, max_size=3)


@hypothesis.settings(deadline=None, derandomize=True, max_examples=200)
@hypothesis.example([(np.full((3, 6), 1e-19, np.float32), np.full((3, 6), 1.8e19, np.float32))], 1.0, 0, 1)
@hypothesis.example([(np.full((3, 6), 1e-30, np.float32), np.full((3, 6), 1e38, np.float32))], 1.0, 0, 2)
@hypothesis.example([(np.full((3, 6), 65536, np.int32), np.ones((3, 6), np.int32))], 1.0, 0, 1)
@hypothesis.given(layers, st.floats(0.01, 100.0), st.integers(0, 2), st.sampled_from([1, 2, 3]))
def test_no_unit_moves_the_sum_by_more_than_the_clipping_norm(factors, clip, unit, each):
    units = 6 // each
    inside = np.ones((units, each), dtype=bool)
    without = inside.copy()
    without[unit % units] = False
    with_unit, without_unit = (
        clipped_sums(
            [Layer(jnp.asarray(a), jnp.asarray(d)) for a, d in factors], jnp.asarray(places), jnp.float32(clip)
        )
        for places in (inside, without)
    )
    moved = [
        np.asarray(a, np.float64) - np.asarray(b, np.float64) for a, b in zip(with_unit, without_unit, strict=True)
    ]
    total = math.sqrt(sum((layer**2).sum() for layer in moved))
    assert total <= clip * (1 + 2e-6 * units)


side_by_side = arrays.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 3), st.just(6)), elements=anything)


@hypothesis.settings(deadline=None, derandomize=True, max_examples=100)
@hypothesis.example(np.full((3, 2, 6), 1e-19, np.float32), np.full((3, 2, 6), 1.8e19, np.float32), 1.0, 0, 1)
@hypothesis.example(np.full((3, 2, 6), 5.0, np.float32), np.full((3, 2, 6), 7.0, np.float32), 1.0, 0, 2)
@hypothesis.given(side_by_side, side_by_side, st.floats(0.01, 100.0), st.integers(0, 2), st.sampled_from([1, 2, 3]))
def test_no_unit_moves_the_sum_of_layers_side_by_side_by_more(a, delta, clip, unit, each):
    layers = min(len(a), len(delta))
    seen = np.arange(layers * a.shape[1]).reshape(layers, -1) % 3 < 2
    pairs = [
        Layer(jnp.asarray(a[:layers]), jnp.asarray(delta[:layers])),
        Layer(jnp.asarray(a[0]), jnp.asarray(delta[0])),
        Layer(jnp.asarray(a[0]), jnp.asarray(delta[:layers]), seen),
    ]
    inside = np.ones((6 // each, each), dtype=bool)
    without = inside.copy()
    without[unit % len(inside)] = False
    sums = [clipped_sums(pairs, jnp.asarray(places), jnp.float32(clip)) for places in (inside, without)]
    moved = [np.asarray(x, np.float64) - np.asarray(y, np.float64) for x, y in zip(*sums, strict=True)]
    assert math.sqrt(sum((layer**2).sum() for layer in moved)) <= clip * (1 + 2e-6 * len(inside))


@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_layers_side_by_side_are_clipped_as_one_gradient(clip):
    draw = np.random.default_rng(0)
    a, delta = draw.standard_normal((2, 3, 4, 7)), draw.standard_normal((2, 3, 5, 7))
    each = np.einsum("xyir,xyor->rxyio", a, delta)
    norms = np.sqrt((each**2).sum(axis=(1, 2, 3, 4)))
    expected = np.einsum("r,rxyio->xyio", np.minimum(1, clip / norms), each)
    [found] = clipped_sums([Layer(jnp.asarray(a), jnp.asarray(delta))], jnp.ones((7, 1), bool), jnp.float32(clip))
    assert found.shape == (2, 3, 4, 5) and np.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_shared_inputs_are_as_good_as_each_layer_having_its_own(clip):
    draw = np.random.default_rng(0)
    a, delta, seen = draw.standard_normal((4, 7)), draw.standard_normal((3, 5, 7)), draw.random((3, 4)) < 0.6
    own = jnp.asarray(np.where(seen[:, :, None], a, 0.0))
    each = [Layer(jnp.asarray(a), jnp.asarray(delta), seen), Layer(own, jnp.asarray(delta))]
    shared, apart = (clipped_sums([layer], jnp.ones((7, 1), bool), jnp.float32(clip))[0] for layer in each)
    assert shared.shape == (3, 4, 5) and np.allclose(shared, apart, atol=1e-5)
    assert (np.asarray(shared)[~seen] == 0).all()


@pytest.mark.parametrize("seen", [np.ones((2, 1)), jnp.ones((2, 1), bool), np.ones((2, 2), bool)])
def test_what_is_seen_must_be_known_beforehand(seen):
    with pytest.raises(ValueError, match="NumPy array of truth values"):
        clipped_sums([Layer(jnp.ones((1, 6)), jnp.ones((2, 1, 6)), seen)], jnp.ones((6, 1), bool), jnp.float32(1.0))


def test_layers_side_by_side_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="equal axes"):
        clipped_sums([Layer(jnp.ones((2, 1, 6)), jnp.ones((1, 1, 6)))], jnp.ones((6, 1), bool), jnp.float32(1.0))


@dataclasses.dataclass(frozen=True)
class Twice(Regression):
    """The same regression in two layers side by side, the second of which sees half of the inputs."""

    def factors(self, state, rows):
        [(a, delta, _)] = super().factors(state, rows)
        return [Layer(jnp.stack([a, a / 2]), jnp.stack([delta, delta]))]

    def update(self, state, gradient, prepared):
        return {**state, "kept": gradient[0]}


def test_the_hatch_takes_layers_side_by_side():
    columns = table(20)
    box = dpsgd._open(PrivateRows(columns, {}, 1), ["a", "b", "y"], 64)
    state = {"w": jnp.zeros((3, 1)), "kept": jnp.zeros((2, 3, 1))}
    size = dpsgd._noise_size(Twice(), state, 3)
    assert size == 6
    most = len(box.units)
    draws = dpsgd.draw_rounds(jax.random.key(0), np.arange(1), 1.0, 0.0, box.count, steps=1, most=most, size=size)
    done = dpsgd._run(Twice(), state, (box.rows, box.units), jnp.float32(1e30), jnp.ones(1, bool), draws)
    one = np.asarray(exact_run(columns, clip=1e30)["kept"][0])
    assert np.allclose(done["kept"], np.stack([one, one / 2]), rtol=1e-4, atol=1e-4)


def test_all_rows_of_a_unit_are_clipped_together():
    columns = {"a": np.zeros(4), "b": np.zeros(4), "y": np.full(4, -100.0)}  # four rows that all pull the same way
    key = Key.new(0)
    rows = lock(columns, {}, unit=np.array([7, 7, 7, 9]), max_rows_per_unit=3, key=key)
    box = dpsgd._open(rows, ["a", "b", "y"], 4)
    assert sorted(np.sum(np.asarray(box.units) < 4, axis=1).tolist()) == [0, 0, 1, 3]
    assert box.count == 2
    [state] = run([job(columns, rows=rows, noise=0.002, epsilon=1e6, steps=1)])
    assert np.linalg.norm(np.asarray(state["kept"][0])) == pytest.approx(2.0, abs=0.02)  # two units, not four rows


def test_in_a_large_batch_rounding_stays_within_the_margin():
    draw = np.random.default_rng(0)
    m = 40_000
    a, delta = (jnp.asarray(draw.normal(3.0, 0.1, (4, m)), jnp.float32) for _ in range(2))
    clip = jnp.float32(1 - dpsgd.MARGIN - dpsgd.MARGIN_PER_UNIT * m)
    inside = np.ones((m, 1), dtype=bool)
    whole = clipped_sums([Layer(a, delta)], jnp.asarray(inside), clip)[0]
    for unit in range(20):
        inside[unit] = False
        without = clipped_sums([Layer(a, delta)], jnp.asarray(inside), clip)[0]
        inside[unit] = True
        assert np.linalg.norm(np.asarray(whole, np.float64) - np.asarray(without, np.float64)) <= 1.0


@dataclasses.dataclass(frozen=True)
class Mixing(Regression):
    """A network that looks at the whole batch, as batch normalisation does."""

    def factors(self, state, rows):
        [(a, delta, _)] = super().factors(state, rows)
        return [Layer(a * jnp.sign(jnp.mean(rows)), delta)]


def test_a_network_cannot_let_one_row_move_the_others():
    columns = {"a": np.full(20, 1.0), "b": np.full(20, 1.0), "y": np.full(20, 1.0)}
    more = {name: np.append(column, -1000.0) for name, column in columns.items()}
    few, many = (np.asarray(exact_run(c, clip=1.0, loop=Mixing())["kept"][0], np.float64) for c in (columns, more))
    assert np.linalg.norm(few - many) <= 1.0


@dataclasses.dataclass(frozen=True)
class Smuggling(Regression):
    """A network that tries to carry rows from where it sees them to where it keeps its state."""

    bag: list = dataclasses.field(default_factory=list, hash=False, compare=False)

    def factors(self, state, rows):
        self.bag.append(rows)
        return super().factors(state, rows)

    def update(self, state, gradient, prepared):
        return {**super().update(state, gradient, prepared), "w": self.bag[-1][:3, :1]}


def test_a_network_cannot_carry_rows_out():
    with pytest.raises(jax.errors.UnexpectedTracerError):
        exact_run(table(), clip=1.0, loop=Smuggling())


def test_a_lower_rate_than_was_paid_for_is_drawn_with():
    columns = {name: np.repeat(column, 40) for name, column in table(50).items()}  # 2000 rows
    high, low = (
        dataclasses.replace(
            job(columns, steps=40, rate=0.5, noise=1.0, epsilon=1e3, clip=1.0, capacity=2048), rate=rate
        )
        for rate in (1.0, 0.05)
    )
    sums = [np.linalg.norm(np.asarray(run([each])[0]["kept"]), axis=(1, 2)).mean() for each in (high, low)]
    assert sums[1] / sums[0] == pytest.approx(0.1, rel=0.15)
    assert high.ledger.left("steps") == low.ledger.left("steps")


@pytest.mark.parametrize("noise", [0.7, 1.5, 4.0])
def test_a_lower_rate_is_no_less_private(noise):
    """Hockey-stick divergences of the two mixtures on a grid, both ways: never more for the lower rate."""
    x = np.linspace(-12 * noise, 12 * noise + 1, 20_001)
    plain, moved = (np.exp(-0.5 * ((x - at) / noise) ** 2) for at in (0.0, 1.0))
    mixtures = [(1 - rate) * plain + rate * moved for rate in (0.3, 0.02)]
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        for order in (1, -1):
            above = [
                np.maximum(first - np.exp(epsilon) * second, 0).sum()
                for first, second in ((mixture, plain)[::order] for mixture in mixtures)
            ]
            assert above[1] <= above[0] + 1e-9


def test_a_row_that_is_not_finite_counts_as_nothing():
    columns = table(10)
    spoilt = {name: np.append(column, np.nan if name == "a" else np.inf) for name, column in columns.items()}
    good, bad = (exact_run(c, clip=1.0)["kept"][0] for c in (columns, spoilt))
    assert np.linalg.norm(np.asarray(bad) - np.asarray(good)) <= 1.0
    assert np.isfinite(np.asarray(bad)).all()


# Batches ------------------------------------------------------------------------------------------------------------


def batches(rate, units, count, seed=0):
    most = largest_batch(units, rate)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), count)
        places, drawn = jax.vmap(lambda key: poisson_batch(key, jnp.float64(rate), units, most))(keys)
    included = np.zeros((count, units + 1), dtype=int)
    rows = np.repeat(np.arange(count), most).reshape(count, most)
    np.add.at(included, (rows, np.where(drawn, places, units)), 1)
    return included[:, :units]


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9])
def test_each_unit_is_drawn_at_most_once_and_at_its_rate(rate):
    included = batches(rate, 40, 4000)
    assert included.max() == 1
    chances = [stats.binomtest(int(k), 4000, rate).pvalue for k in included.sum(axis=0)]
    assert min(chances) > 1e-5


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_units_are_drawn_independently(rate):
    included = batches(rate, 30, 20_000)
    expected = 20_000 * stats.binom.pmf(np.arange(31), 30, rate)
    sizes = np.bincount(included.sum(axis=1), minlength=31)
    common = expected > 10
    found, wanted = np.append(sizes[common], sizes[~common].sum()), np.append(expected[common], expected[~common].sum())
    assert stats.chisquare(found, wanted).pvalue > 1e-4
    together = np.corrcoef(included.T)[np.triu_indices(30, 1)]
    assert np.abs(together).max() < 5 / math.sqrt(20_000)


def test_a_rate_of_one_draws_everyone():
    assert (batches(1.0, 25, 10) == 1).all()


@pytest.mark.parametrize("units", [1, 2, 50, 10_000, 10_000_000])
@pytest.mark.parametrize("rate", [1e-6, 0.004, 0.5, 1.0])
def test_a_batch_fits_into_its_place(units, rate):
    most = largest_batch(units, rate)
    assert most <= units and (most == units or stats.binom.logsf(most, units, rate) <= math.log(dpsgd.OVERFLOW))


# Noise and account --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_noise_is_what_was_paid_for():
    steps, asked = 400, job(table(), steps=400, clip=2.0)
    [state] = run([asked])
    line = asked.ledger.receipt().charges[0]
    exact = np.asarray(exact_run(table(), clip=2.0)["kept"][0])
    noise = (np.asarray(state["kept"]) - exact).ravel() / line.sigma
    assert line.sigma == pytest.approx(line.noise_multiplier * 2.0)
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise[:-3], noise[3:])[0, 1]) < 5 / math.sqrt(3 * steps)  # from one step to the next


def test_the_receipt_says_what_was_done():
    asked = job(table(), steps=20, rate=0.1, clip=0.5)
    run([asked])
    line = asked.ledger.receipt().charges[0]
    assert (line.mechanism, line.times, line.sampling_rate, line.sensitivity) == ("sampled gaussian", 20, 0.1, 0.5)
    assert 0.99 <= asked.ledger.receipt().epsilon <= 1.0


def test_a_second_training_is_not_paid_for():
    asked = job(table(), steps=5)
    run([asked])
    with pytest.raises(BudgetExceeded, match="all are spent"):
        run([asked])


def test_nothing_is_read_that_is_not_paid():
    asked = dataclasses.replace(job({}, steps=5), rows=PrivateRows({}, {}, 1))  # reading would be a KeyError
    with pytest.raises(BudgetExceeded, match="not in the plan"):
        train(Regression(), [asked], ["a"], planned="other", what="")
    with pytest.raises(KeyError):
        run([asked])
    assert asked.ledger.left("steps") == 0  # entered before it was read


@pytest.mark.parametrize("clip", [0.0, -1.0, math.inf, math.nan, 1e-38, 1e30])
def test_a_clipping_norm_that_clips_nothing_is_refused(clip):
    with pytest.raises(ValueError, match="clip_norm"):
        run([job(table(), clip=clip)])


def test_steps_are_whole_rounds():
    with pytest.raises(ValueError, match="not a whole number of rounds"):
        run([job(table(), steps=5)], Regression(steps_per_round=2))


# Many at once -------------------------------------------------------------------------------------------------------


def test_many_at_once_are_the_same_as_one_by_one():
    loop = Regression(steps_per_round=2, rate=0.01)

    def jobs():
        facts = [(4, 1.0), (8, 5.0), (8, 0.2)]
        made = [job(table(seed=s), steps=t, rate=0.5, seed=s, epsilon=e) for s, (t, e) in enumerate(facts)]
        return [dataclasses.replace(one, state=start(8)) for one in made]

    alone, together = [run([one], loop)[0] for one in jobs()], run(jobs(), loop)
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one["w"], other["w"], atol=1e-5) and np.allclose(one["kept"], other["kept"], atol=1e-4)
    assert np.count_nonzero(np.asarray(together[0]["kept"]).any(axis=(1, 2))) == 4  # its own number of steps


def test_progress_is_told_to_the_end():
    told = []
    run([job(table(), steps=7)], progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (7, 7) and told == sorted(told)


def test_a_seed_gives_the_same_steps_and_another_seed_others():
    first, same, other = (run([job(table(), steps=3, rate=0.5, seed=s)])[0]["kept"] for s in (1, 1, 2))
    assert np.array_equal(first, same) and not np.array_equal(first, other)


# What stays behind --------------------------------------------------------------------------------------------------


def test_what_is_kept_on_disk_does_not_tell_the_number_of_rows(tmp_path):
    script = """
import sys, jax
from test_gradients import *
for n in map(int, sys.argv[1:]):
    run([job(table(n), steps=4, rate=0.5, capacity=64)])
    print(len(list(pathlib.Path(jax.config.jax_compilation_cache_dir).rglob("*-cache"))))
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = [sys.executable, "-W", "ignore", "-c", script, "50", "51", "3", "65"]  # the last does not fit
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert int(shown[0]) > 0 and len(set(shown)) == 1


def test_a_value_that_float32_cannot_hold_does_not_warn():
    spoilt = {name: np.append(column, 1e200) for name, column in table(10).items()}
    assert np.isfinite(np.asarray(exact_run(spoilt, clip=1.0)["kept"][0])).all()


def test_a_table_without_rows_gives_noise_alone():
    [state] = run([job({name: np.zeros(0) for name in "aby"}, steps=2)])
    assert np.isfinite(np.asarray(state["kept"])).all()


def test_two_secret_trainings_do_not_share_their_noise():
    key = Key.new()
    made = [run([dataclasses.replace(job(table(), steps=2), key=key)])[0]["kept"] for _ in range(2)]
    assert not np.array_equal(made[0], made[1])


def test_a_rate_that_leaves_all_to_delta_is_said_on_the_receipt():
    asked = job(table(), steps=5, rate=0.01)
    run([asked])
    assert "delta carries the promise" in str(asked.ledger.receipt())


@dataclasses.dataclass(frozen=True)
class Sum:
    """A loop whose state is the sum of what its rows add."""

    steps_per_round: int = 1

    def prepare(self, state, key):
        return jnp.zeros(1)

    def factors(self, state, rows):
        return [Layer(jnp.ones((1, rows.shape[1])), 100.0 * rows)]

    def update(self, state, gradient, prepared):
        return state + gradient[0][0, 0]

    def finish(self, state, key):
        return state


def test_a_unit_of_many_rows_adds_no_more_where_the_table_does_not_fit():
    """The number of rows must not scale the clipping norm, or one unit would move what all others add."""
    most, people = 300, 20_000

    def released(units):
        plan = [PlannedMechanism(name="g", mechanism="sampled gaussian", share=1.0, times=1, sampling_rate=1.0)]
        ledger = Ledger(Budget(epsilon=1e6, delta=1e-6), plan, max_rows_per_unit=most)  # hardly any noise
        rows = PrivateRows({"x": np.where(units < people, 1.0, -1.0)}, {}, most, units)
        capacity = dpsgd.capacity_for(1.0)
        job = Job(rows=rows, ledger=ledger, key=Key.new(0), state=np.float32(0), clip_norm=1.0, capacity=capacity)
        return float(train(Sum(), [job], ["x"], planned="g", what="")[0])

    others = np.arange(people)
    with_one_more = np.concatenate([others, np.full(most, people)])
    assert abs(released(with_one_more) - released(others)) <= 1.05


def test_batches_that_float32_cannot_add_up_are_refused_before_anything_is_paid():
    plan = [PlannedMechanism(name="g", mechanism="sampled gaussian", share=1.0, times=1, sampling_rate=1.0)]
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), plan)
    rows = PrivateRows({"x": np.zeros(3)}, {}, 1)
    capacity = dpsgd.capacity_for(1e7)
    job = Job(rows=rows, ledger=ledger, key=Key.new(0), state=np.float32(0), clip_norm=1.0, capacity=capacity)
    with pytest.raises(ValueError, match="expected at most 1 000 000"):
        train(Sum(), [job], ["x"], planned="g", what="")
    assert ledger.left("g") == 1
