"""Row independence: a network that may mix rows is found, whatever it is called, and never sees two at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.privacy.row_independence import RowsMixed, prove_row_independence
from understudy.privacy.row_programs import apply_row_wise, row_program
from understudy.synthesizers.prada.adversarial import critic as critics

STATE = {"w": np.arange(12, dtype=np.float32).reshape(3, 4) / 10, "b": np.ones(4, np.float32)}
ROWS = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def _no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


def prove(network, state=STATE, shape=ROWS.shape):
    prove_row_independence(jax.make_jaxpr(network)(state, jax.ShapeDtypeStruct(shape, np.float32)))


def apply(network, rows, at_once=None):
    """What the program of a network, traced for so many rows at once, makes of rows."""
    rows = jnp.asarray(rows)
    program = row_program(network, STATE, columns=len(rows), rows=at_once or rows.shape[1])
    return jax.jit(functools.partial(apply_row_wise, program))(STATE, rows)


def dense(state, rows):
    return [jnp.tanh(state["w"].T @ rows + state["b"][:, None])]


def gradient(state, rows):
    _, pull_back = jax.vjp(lambda x: dense(state, x)[0], rows)
    return pull_back(jnp.ones((4, rows.shape[1])))


def side_by_side(state, rows):
    every = jnp.einsum("dfo,fr->dor", jnp.stack([state["w"], -state["w"]]), rows)
    return [jnp.einsum("dor,dor->dr", every, every), every]


def looked_up(state, rows):
    return [rows[jnp.array([[2, 0], [1, 1]])], rows[::2], jnp.take(rows, 1, axis=0)[None]]


def normalised(state, rows):
    return [jax.nn.log_softmax(rows, axis=0), jax.scipy.special.logsumexp(rows, axis=0, keepdims=True)]


def one_by_one(state, rows):
    return [jax.vmap(lambda row: jnp.sort(row), in_axes=1, out_axes=1)(jnp.maximum(rows, 0.0))]


def turned(state, rows):
    folded = jnp.broadcast_to(rows.T[:, :, None], (rows.shape[1], 3, 2)).reshape(rows.shape[1], 6)
    return [
        folded.T,
        jnp.stack([rows, rows + 1]),
        jnp.stack([rows, -rows], axis=2)[..., 1],
        jnp.concatenate([rows, jnp.ones((1, rows.shape[1]))]),
        jnp.squeeze(rows[:1], 0),
    ]


def constant(state, rows):
    return [jnp.ones((1, rows.shape[1]))]


@pytest.mark.parametrize("network", [dense, gradient, side_by_side, looked_up, normalised, turned, constant])
def test_an_independent_network_gives_each_row_what_it_gets_alone(network):
    prove(network)
    together = apply(network, ROWS)
    in_blocks = apply(network, ROWS, at_once=2)  # 5 rows: the last block is filled up
    one_by_one = apply(network, ROWS, at_once=1)
    for made, *others in zip(together, jax.jit(network)(STATE, ROWS), in_blocks, one_by_one, strict=True):
        for other in others:
            assert made.shape == other.shape and np.allclose(made, other, atol=1e-6)


MIXING = {
    "mean": lambda rows: rows - jnp.mean(rows),
    "mean of rows": lambda rows: rows - jnp.mean(rows, axis=1, keepdims=True),
    "largest": lambda rows: rows / jnp.max(rows, axis=1, keepdims=True),
    "softmax": lambda rows: jax.nn.softmax(rows, axis=1),
    "running sum": lambda rows: jnp.cumsum(rows, axis=1),
    "sorted": lambda rows: jnp.sort(rows, axis=1),
    "shifted": lambda rows: jnp.roll(rows, 1, axis=1),
    "reversed": lambda rows: rows[:, ::-1],
    "first row": lambda rows: rows - rows[:, :1],
    "looked up": lambda rows: rows[:, jnp.array([0, 0, 1, 2, 3])],
    "looked up by a row": lambda rows: jnp.arange(9.0)[jnp.clip(rows, 0, 8).astype(int)],
    "every row with every row": lambda rows: rows.T @ rows,
    "kernel": lambda rows: (rows.T @ rows)[:1],
    "folded": lambda rows: rows.reshape(5, 3).T,
    "written over": lambda rows: rows.at[:, 0].set(rows[:, 1]),
    "turned over": lambda rows: (rows.T @ jnp.ones((3, 3)))[:3],
    "loop": lambda rows: jax.lax.fori_loop(0, 2, lambda _, x: x + jnp.mean(x), rows),
    "scan": lambda rows: jax.lax.scan(lambda c, x: (c + x, c), jnp.zeros(3), rows.T)[1].T,
    "condition": lambda rows: jax.lax.cond(rows[0, 0] > 0, lambda: rows, lambda: -rows),
    "inside a program": lambda rows: jax.jit(lambda x: x - jnp.sum(x))(rows),
    "convolved": lambda rows: jnp.stack([jnp.convolve(row, jnp.ones(3), mode="same") for row in rows]),
    "callback": lambda rows: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(rows.shape, rows.dtype), rows),
    "printed": lambda rows: jax.debug.print("{}", rows) or rows,
    "rows as columns": lambda rows: jnp.tile(rows[:1].T, (1, 5)),
}


@pytest.mark.parametrize("mixing", MIXING.values(), ids=MIXING.keys())
def test_what_may_mix_rows_is_found(mixing):
    with pytest.raises(RowsMixed):
        prove(lambda state, rows: [mixing(rows)])


@pytest.mark.parametrize("name", ["mean", "softmax", "shifted", "loop", "condition", "inside a program", "kernel"])
def test_what_may_mix_rows_sees_one_at_a_time(name):
    def network(state, rows):
        return [MIXING[name](rows)]

    [together], plain = apply(network, ROWS), jax.jit(network)
    for row in range(ROWS.shape[1]):
        [alone] = plain(STATE, ROWS[:, [row]])
        assert np.allclose(together[..., row], alone[..., 0], atol=1e-6)


def test_an_operation_that_is_not_known_is_named_and_runs_all_the_same():
    with pytest.raises(RowsMixed, match="sort"):
        prove(one_by_one)
    assert np.allclose(apply(one_by_one, ROWS)[0], np.sort(np.maximum(ROWS, 0), axis=0))


def test_rows_that_are_an_axis_of_two_operands_are_refused_unless_it_is_the_same():
    def crossed(state, rows):
        return [jnp.einsum("ir,js->rsi", rows, rows)[0]]

    with pytest.raises(RowsMixed, match="every row with every other"):
        prove(crossed)


def test_the_program_that_was_proved_is_the_one_that_runs():
    calls = []

    def fickle(state, rows):
        calls.append(rows)
        return [rows if len(calls) == 1 else rows - jnp.mean(rows)]

    [made] = apply(fickle, ROWS)
    assert len(calls) == 1 and np.array_equal(made, ROWS)


def test_the_critic_is_proved_and_so_runs_on_all_rows_at_once():
    critic = critics.initial_critic(np.random.default_rng(0), 3, (4, 2))

    def network(critic, rows):
        return [factor.T for pair in critics.critic_factors(critic, rows.T) for factor in pair]

    with jax.numpy_rank_promotion("allow"):  # the critic adds its bias by broadcasting
        prove(network, critic, (3, 5))


def test_a_result_without_an_axis_for_rows_is_refused():
    with pytest.raises(ValueError, match="expected rows to be the last axis"):
        apply(lambda state, rows: [jnp.sum(rows, axis=1)], ROWS)
