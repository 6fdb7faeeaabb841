"""Training: batches, clipping and noise are what the account says they are, and no Python function sees a row."""

import dataclasses
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.extend import core
from scipy import stats

from loops import COLUMNS, Regression, exact_run, job, part, run, run_parts, start, table
from understudy.core.randomness import Key
from understudy.privacy.batches import capacity_for
from understudy.privacy.clipping import Layer
from understudy.privacy.factors import traced_factors
from understudy.privacy.gradients import Job, Part, train
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, BudgetExceeded, PlannedMechanism
from understudy.privacy.row_programs import SideEffects
from understudy.privacy.rows import PrivateRows, lock
from understudy.privacy.summation import SUMMATION


@pytest.fixture(autouse=True)
def _no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


# Gradients ----------------------------------------------------------------------------------------------------------


def loss(w, row):
    a = jnp.append(row[:-1], 1.0)
    return 0.5 * (a @ w[:, 0] - row[-1]) ** 2


gradients_of = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))


def test_without_noise_and_clipping_a_step_is_plain_gradient_descent():
    columns = table()
    rows = np.stack(list(columns.values()), axis=1).astype(np.float32)
    plain = -0.01 * np.sum(gradients_of(start()["w"], rows), axis=0)
    stepped = exact_run(columns, clip=1e30, loop=Regression(rate=0.01))["w"]
    assert np.allclose(stepped, plain, atol=1e-5)


@pytest.mark.parametrize("clip", [0.1, 1.0, 5.0, 100.0])
def test_clipped_sums_are_those_of_explicit_gradients(clip):
    columns = table()
    rows = np.stack(list(columns.values()), axis=1).astype(np.float32)
    each = np.asarray(gradients_of(start()["w"], rows), dtype=np.float64)
    norms = np.linalg.norm(each, axis=(1, 2))
    expected = (each * np.minimum(1, clip / norms)[:, None, None]).sum(axis=0)
    released = exact_run(columns, clip=clip)["kept"][0]
    assert np.allclose(released, expected, rtol=1e-4, atol=1e-4)


# Sensitivity --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Twice(Regression):
    """The same regression in two layers side by side, the second of which sees half of the inputs."""

    def factors(self, state, rows):
        [(a, delta, _)] = super().factors(state, rows)
        return [Layer(jnp.stack([a, a / 2]), jnp.stack([delta, delta]))]

    def update(self, state, gradient, prepared):
        return {**state, "kept": gradient[0]}


def test_training_takes_layers_side_by_side():
    columns = table(20)
    state = {"w": jnp.zeros((3, 1)), "kept": jnp.zeros((2, 3, 1))}
    assert traced_factors(Twice(), state, 3, 64).size == 6
    done = exact_run(columns, clip=1e30, loop=Twice(), state=state)
    one = np.asarray(exact_run(columns, clip=1e30)["kept"][0])
    assert np.allclose(done["kept"], np.stack([one, one / 2]), rtol=1e-4, atol=1e-4)


def test_all_rows_of_a_unit_are_clipped_together():
    columns = {"a": np.zeros(4), "b": np.zeros(4), "y": np.full(4, -100.0)}  # four rows that all pull the same way
    rows = lock(columns, {}, unit=np.array([7, 7, 7, 9]), max_rows_per_unit=3, key=Key.new(0))
    [state] = run([job(columns, rows=rows, noise=0.002, epsilon=1e6, steps=1)])
    two_units = 2 * (1 - SUMMATION)  # and not four rows
    assert np.linalg.norm(np.asarray(state["kept"][0])) == pytest.approx(two_units, abs=0.02)


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


# No Python function sees a row --------------------------------------------------------------------------------------


@jax.custom_jvp
def shown_inside(x):
    jax.debug.print("{}", x)
    return x


shown_inside.defjvp(lambda primals, tangents: (primals[0], tangents[0]))


@jax.custom_batching.custom_vmap
def shown_when_mapped(x):
    return x


shown_when_mapped.def_vmap(lambda size, mapped, x: (x, mapped[0]))


def shape_of(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def called_back(x):
    return jax.pure_callback(lambda y: y, shape_of(x), x, vmap_method="sequential")


imitation = core.Primitive("add")  # bears the name of an operation that may be given rows
imitation.def_abstract_eval(lambda x: x)

HOST_CALLS = {
    "pure_callback": called_back,
    "io_callback": lambda x: io_callback(lambda y: y, shape_of(x), x),
    "debug.callback": lambda x: jax.debug.callback(print, x) or x,
    "debug.print": lambda x: jax.debug.print("{}", x) or x,
    "ffi_call": lambda x: jax.ffi.ffi_call("keep", shape_of(x))(x),
    "an operation that is not JAX's": imitation.bind,
    "a function in an operation": lambda x: x + jax.lax.reduce(x, 0.0, lambda a, b: a + b, (0, 1)),
    "custom_vmap": shown_when_mapped,
    "in custom_jvp": shown_inside,
    "in jit": jax.jit(called_back),
    "in vmap": jax.vmap(called_back),
    "in scan": lambda x: jax.lax.scan(lambda carry, y: (carry, called_back(y)), 0.0, x)[1],
    "in fori_loop": lambda x: jax.lax.fori_loop(0, 2, lambda i, y: called_back(y), x),
    "in while_loop": lambda x: jax.lax.while_loop(lambda y: called_back(y)[0, 0] > 0, lambda y: y - 1, x),
    "in cond": lambda x: jax.lax.cond(x[0, 0] > 0, called_back, lambda y: y, x),
    "in a derivative": lambda x: jax.grad(lambda y: jnp.sum(called_back(jax.lax.stop_gradient(y)) * y))(x),
    "of the state": lambda x: x + called_back(jnp.ones(())),
}


@dataclasses.dataclass(frozen=True)
class Telling(Regression):
    """A network that hands rows to Python while it runs, once it is compiled."""

    how: str = "pure_callback"

    def factors(self, state, rows):
        return super().factors(state, HOST_CALLS[self.how](rows))


@pytest.mark.parametrize("how", HOST_CALLS)
def test_a_network_that_calls_out_is_refused_before_anything_is_charged_or_read(how):
    asked = job({}, rows=PrivateRows({}, {}, 1), loop=Telling(how=how))  # reading would be an error
    with pytest.raises(SideEffects, match="factors: expected array operations alone, got "):
        run([asked])
    assert asked.ledger.left("steps") == 1


SHOWN = []


def values_of(tracer):
    """What a tracer tells of the value it stands for: vmap's tracers carry it with them."""
    inner = getattr(tracer, "val", None)
    is_tracer = isinstance(tracer, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]
    return [tracer] if not is_tracer else [] if inner is None else values_of(inner)


@dataclasses.dataclass(frozen=True)
class Watching(Regression):
    """A network that keeps all it is given."""

    mixing: bool = False

    def factors(self, state, rows):
        SHOWN.append(rows)
        return super().factors(state, rows - jnp.mean(rows) if self.mixing else rows)


@pytest.mark.parametrize("mixing", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_even_without_compilation_a_network_never_sees_a_row(mixing):
    SHOWN.clear()
    jax.config.update("jax_disable_jit", True)  # in all threads, unlike jax.disable_jit
    try:
        [state] = run([job(table(), noise=1.0, epsilon=1e3, loop=Watching(mixing=mixing))])
    finally:
        jax.config.update("jax_disable_jit", False)
    assert np.isfinite(np.asarray(state["kept"])).all()
    assert [rows.shape for rows in SHOWN] == [(3, 64), (3, 1)][: 1 + mixing]  # traced once, and once more for one row
    assert not any(isinstance(value, jax.Array | np.ndarray) for rows in SHOWN for value in values_of(rows))


def test_a_table_that_does_not_fit_is_run_by_the_program_traced_for_the_capacity():
    SHOWN.clear()
    columns = table(150)
    [small], [large] = (
        run([job(columns, noise=1e-3, epsilon=1e9, capacity=capacity, loop=Watching(steps_per_round=1, rate=0.25))])
        for capacity in (64, 256)
    )
    assert [rows.shape for rows in SHOWN] == [(3, 64), (3, 256)]  # never 150, which is not public
    assert np.allclose(small["kept"], large["kept"], atol=0.05)


# Rates --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_lower_rate_than_was_charged_is_drawn_with():
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


# Noise and account --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_noise_is_what_was_charged():
    steps, asked = 400, job(table(), steps=400, clip=2.0)
    [state] = run([asked])
    charge = asked.ledger.receipt().charges[0]
    exact = np.asarray(exact_run(table(), clip=2.0)["kept"][0])
    noise = (np.asarray(state["kept"]) - exact).ravel() / charge.sigma
    assert charge.sigma == pytest.approx(charge.noise_multiplier * 2.0)
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise[:-3], noise[3:])[0, 1]) < 5 / math.sqrt(3 * steps)  # from one step to the next


def test_what_a_step_releases_lies_on_a_public_grid():
    """Whoever is in the table, the same whole multiples of one power of two can come out."""
    steps, few = 8, {name: column[:-1] for name, column in table().items()}
    for columns in (table(), few):
        [state] = run([job(columns, steps=steps, clip=0.5, noise=1.0, epsilon=1e3)])
        grid = LatticeNoise.of(0.5, clip_norm=0.5, size=3).step
        whole = np.asarray(state["kept"], np.float64) / grid
        assert (whole == np.rint(whole)).all() and len(np.unique(whole)) > steps


def test_the_receipt_says_what_was_done():
    asked = job(table(), steps=20, rate=0.1, clip=0.5)
    run([asked])
    charge = asked.ledger.receipt().charges[0]
    assert (charge.mechanism, charge.times, charge.sampling_rate, charge.sensitivity) == (
        "sampled gaussian",
        20,
        0.1,
        0.5,
    )
    assert 0.99 <= asked.ledger.receipt().epsilon <= 1.0


def test_a_second_training_is_not_covered():
    asked = job(table(), steps=5)
    run([asked])
    with pytest.raises(BudgetExceeded, match="all are spent"):
        run([asked])


def test_nothing_is_read_that_is_not_charged():
    asked = job({"other": np.zeros(3)}, steps=5)  # reading would be a KeyError
    with pytest.raises(BudgetExceeded, match="not in the plan"):
        train([asked], planned="other", what="")
    with pytest.raises(KeyError):
        run([asked])
    assert asked.ledger.left("steps") == 0  # entered before it was read


@pytest.mark.parametrize("clip", [0.0, -1.0, math.inf, math.nan, 1e-38, 1e30])
def test_a_clipping_norm_that_clips_nothing_is_refused(clip):
    with pytest.raises(ValueError, match="clip_norm"):
        run([job(table(), clip=clip)])


def test_steps_are_whole_rounds():
    with pytest.raises(ValueError, match="not a whole number of rounds"):
        run([job(table(), steps=5, loop=Regression(steps_per_round=2))])


# Parts --------------------------------------------------------------------------------------------------------------


def test_parts_of_a_job_have_the_same_batches_and_noise_of_their_own():
    """With little noise the sums are those of the batches; what is left of them is the noise."""
    columns, steps = table(), 8
    asked = job(columns, steps=steps, rate=0.3, noise=1e-3, epsilon=1e9, parts=[part(steps=steps)] * 2)
    [one, other] = (np.asarray(state["kept"])[:steps] for state in run_parts([asked])[0])
    sigma = 1e-3 * math.sqrt(2)  # two parts of norm 1
    assert asked.ledger.receipt().charges[0].sigma == pytest.approx(sigma)
    assert np.ptp(one, axis=0).min() > 0.5  # a batch for each step
    gaps = (one - other).ravel() / sigma
    assert 0.8 < np.std(gaps) / math.sqrt(2) < 1.25 and len(np.unique(gaps)) == gaps.size
    [alone] = run([job(columns, steps=steps, rate=0.3, noise=1e-3, epsilon=1e9)])
    np.testing.assert_allclose(alone["kept"], run_parts([asked_again(asked)])[0][0]["kept"], atol=10 * sigma)


def asked_again(asked):
    planned = asked.ledger.planned("steps")
    return dataclasses.replace(asked, ledger=Ledger(asked.ledger.budget, [planned]))


def test_parts_are_charged_as_one_release_of_all_their_norms():
    norms = [0.5, np.array([1.0, 0.0, 2.0])]
    asked = job(table(), steps=2, parts=[part(clip=norms[0]), part(Beside(), clip=norms[1], state=beside())])
    run_parts([asked])
    [charge] = asked.ledger.receipt().charges
    assert charge.sensitivity == pytest.approx(math.sqrt(0.25 + 1.0 + 4.0)) and charge.times == 2
    assert charge.sigma == pytest.approx(charge.noise_multiplier * charge.sensitivity)


@dataclasses.dataclass(frozen=True)
class Beside(Regression):
    """Three regressions side by side, of which each looks at rows that are longer than those of the one before."""

    def factors(self, state, rows):
        [(a, delta, _)] = super().factors({"w": jnp.zeros((3, 1))}, rows)
        return [Layer(jnp.stack([a, 2 * a, 100 * a]), jnp.stack([delta] * 3))]

    def update(self, state, gradient, prepared):
        return {**state, "kept": gradient[0]}


def beside():
    return {"w": np.zeros(0, np.float32), "kept": np.zeros((3, 3, 1), np.float32)}


def test_networks_side_by_side_are_clipped_to_norms_of_their_own():
    """Extreme rows, each of which adds all that it may to every network."""
    norms = np.array([0.5, 0.0, 2.0])
    columns = {"a": np.full(21, 1e3), "b": np.zeros(21), "y": np.full(21, 1e6)}
    fewer = {name: column[:-1] for name, column in columns.items()}
    many, few = (np.asarray(exact_run(c, clip=norms, loop=Beside(), state=beside())["kept"]) for c in (columns, fewer))
    moved = np.linalg.norm((many - few).astype(float), axis=(1, 2))
    np.testing.assert_allclose(moved, norms, rtol=1e-4)
    assert np.linalg.norm(moved) == pytest.approx(math.sqrt(0.25 + 4.0), rel=1e-4)


@pytest.mark.slow
def test_what_a_step_releases_has_the_noise_of_all_parts():
    """Ten parts of norm 1 have √10 times the noise of one."""
    asked = job({name: np.zeros(5) for name in COLUMNS}, steps=8, parts=[part(steps=8)] * 10)
    states = run_parts([asked])[0]
    noise = np.stack([np.asarray(state["kept"]) for state in states])
    charge = asked.ledger.receipt().charges[0]
    assert charge.sigma == pytest.approx(math.sqrt(10) * charge.noise_multiplier)
    assert stats.kstest(noise.ravel() / charge.sigma, "norm").pvalue > 1e-3
    together = np.corrcoef(noise.reshape(10, -1))[np.triu_indices(10, 1)]
    assert np.abs(together).max() < 4.5 / math.sqrt(24)


def test_parts_that_read_other_columns_and_have_other_loops_are_trained_by_themselves():
    columns, low = table(), Regression(rate=0.01)
    parts = [part(low, columns=["a", "b", "y"]), part(low, columns=["b", "a", "y"])]
    [one, other] = run_parts([job(columns, noise=1e-3, epsilon=1e9, parts=parts)])[0]
    np.testing.assert_allclose(np.asarray(one["w"])[[1, 0, 2]], other["w"], atol=1e-4)
    assert not np.allclose(one["w"], other["w"], atol=1e-2)


def test_parts_have_rounds_of_one_length():
    parts = [part(steps=4), part(Regression(steps_per_round=2), steps=4)]
    asked = job(table(), steps=4, parts=parts)
    with pytest.raises(ValueError, match="rounds of one length"):
        run_parts([asked])
    assert asked.ledger.left("steps") == 4


def test_a_part_that_calls_out_is_refused_before_anything_is_charged():
    asked = job(table(), parts=[part(), part(Telling())])
    with pytest.raises(SideEffects):
        run_parts([asked])
    assert asked.ledger.left("steps") == 1


@pytest.mark.parametrize("norms", [[1.0, -1.0], [1.0, math.nan], [1.0, 1e-38], [0.0, 0.0]])
def test_each_clipping_norm_is_checked(norms):
    with pytest.raises(ValueError, match="clip_norm"):
        run_parts([job(table(), parts=[part(clip=np.array(norms))])])


@pytest.mark.parametrize("norms", [[1.0], [1.0, 1.0, 1.0], [[1.0]]])
def test_clipping_norms_of_another_shape_are_refused_before_anything_is_charged(norms):
    asked = job(table(), parts=[part(clip=np.array(norms))])
    with pytest.raises(ValueError, match="clip_norm: expected one for each layer side by side"):
        run_parts([asked])
    assert asked.ledger.left("steps") == 1


# Many at once -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("accelerated", [False, True], ids=["in threads", "side by side"])
def test_many_at_once_are_the_same_as_one_by_one(accelerated, monkeypatch):
    loop = Regression(steps_per_round=2, rate=0.01)

    def jobs():
        facts = [(4, 1.0), (8, 5.0), (8, 0.2)]
        return [
            job(table(30 + 9 * s, seed=s), steps=t, rate=0.5, seed=s, epsilon=e, parts=[part(loop, steps=8)])
            for s, (t, e) in enumerate(facts)
        ]

    alone = [run([one])[0] for one in jobs()]
    if accelerated:
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # trainings of one program are run side by side
    together = run(jobs())
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
import pathlib
from loops import *
for n in map(int, sys.argv[1:]):
    run([job(table(n), steps=4, rate=0.5, capacity=64)])
    print(len(list(pathlib.Path(jax.config.jax_compilation_cache_dir).rglob("*-cache"))))
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = [sys.executable, "-W", "ignore", "-c", script, "50", "3", "65"]  # the last does not fit
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


@pytest.mark.slow
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
        capacity = capacity_for(1.0)
        total = Part(loop=Sum(), state=np.float32(0), columns=["x"], clip_norm=1.0)
        job = Job(rows=rows, ledger=ledger, key=Key.new(0), parts=[total], capacity=capacity)
        return float(train([job], planned="g", what="")[0][0])

    others = np.arange(people)
    with_one_more = np.concatenate([others, np.full(most, people)])
    assert abs(released(with_one_more) - released(others)) <= 1.05


def test_batches_that_float32_cannot_add_up_are_refused_before_anything_is_charged():
    plan = [PlannedMechanism(name="g", mechanism="sampled gaussian", share=1.0, times=1, sampling_rate=1.0)]
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), plan)
    rows = PrivateRows({"x": np.zeros(3)}, {}, 1)
    capacity = capacity_for(1e7)
    total = Part(loop=Sum(), state=np.float32(0), columns=["x"], clip_norm=1.0)
    job = Job(rows=rows, ledger=ledger, key=Key.new(0), parts=[total], capacity=capacity)
    with pytest.raises(ValueError, match="expected at most 1 000 000"):
        train([job], planned="g", what="")
    assert ledger.left("g") == 1
