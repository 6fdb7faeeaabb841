"""The attack on the steps of a training: gradients are those that are added up, and losses those of a mixture."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy.audit.attacked_loop import KnownTable, loss_of_steps, unit_gradients
from understudy.privacy.clipping import Layer, clipped_sums
from understudy.privacy.rows import PrivateRows


def some(draw: np.random.Generator, *sizes: int) -> jax.Array:
    return jnp.asarray(draw.normal(size=sizes), jnp.float32)


def layers(rows, *, side_by_side):
    draw = np.random.default_rng(0)
    if not side_by_side:
        sizes = [(4, 3), (2, 1)]
        return [Layer(some(draw, inputs, rows), some(draw, outputs, rows)) for inputs, outputs in sizes]
    seen = np.array([[True, False, True, True], [False, True, True, False]])
    return [Layer(some(draw, 4, rows), some(draw, 2, 3, rows), seen)]


@pytest.mark.parametrize(("clip", "most"), [(1.0, 3), (100.0, 1), ([0.5, 2.0], 3)], ids=["clipped", "whole", "apart"])
def test_unit_gradients_add_up_to_the_clipped_sum(clip, most):
    whose = None if most == 1 else np.repeat(np.arange(4), [3, 1, 2, 3])
    rows = PrivateRows({"a": np.arange(9.0)}, {}, most, whose)
    table = KnownTable.of(rows, ["a"])
    inside = jnp.asarray(table.units < 9)
    made = layers(table.units.size, side_by_side=isinstance(clip, list))

    @jax.jit
    def both(norm):
        summed = clipped_sums(made, inside, norm)
        return unit_gradients(made, table, norm), jnp.concatenate([each.ravel() for each in summed])

    found, expected = map(np.asarray, both(jnp.asarray(clip)))
    np.testing.assert_allclose(found.sum(axis=1), expected, atol=1e-4)
    assert np.all(np.linalg.norm(found, axis=0) <= np.linalg.norm(clip) * 1.0001)


def test_without_sampling_losses_are_those_of_two_normals():
    told = np.array([[[0.3, 0.5], [-1.0, 0.2]]])  # one part, two steps: z and τ
    loss, information = loss_of_steps([*told], canaries=2, rate=1.0)
    shifts = 2 * told[0, :, 1]
    assert loss == pytest.approx(float(np.sum(shifts * told[0, :, 0] - shifts**2 / 2)))
    assert information == pytest.approx(float(np.sum(shifts**2)) / 2)


def test_two_parts_of_a_step_are_one_release():
    apart = np.array([[[0.3, 0.3]], [[-0.2, 0.4]]])
    place = np.sum(apart[:, 0, 0] * apart[:, 0, 1]) / 0.5
    assert loss_of_steps([*apart], canaries=3, rate=0.3) == pytest.approx(
        loss_of_steps([np.array([[place, 0.5]])], canaries=3, rate=0.3)
    )


def test_the_expected_loss_is_that_of_many_draws():
    draw, tau, canaries, rate = np.random.default_rng(0), 0.8, 3, 0.4
    drawn = draw.binomial(canaries, rate, 4000) * tau + draw.standard_normal(4000)
    told = np.stack([drawn, np.full_like(drawn, tau)], axis=1)
    total, information = loss_of_steps([told], canaries=canaries, rate=rate)
    assert total == pytest.approx(information, rel=0.15)
    assert information > 0.3 * 4000 * (canaries * rate * tau) ** 2 / 2
