"""The slope that distillation follows is that of the density which the private steps train."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prada_densities import VARIABLES, columns, parts, rows, some_pairs
from understudy.synthesizers.prada.likelihood.density import log_density
from understudy.synthesizers.prada.likelihood.parts import tight_part
from understudy.synthesizers.prada.likelihood.slopes import Learned, given_of, slope


@pytest.mark.parametrize("tight", [False, True], ids=["room to spare", "tight"])
def test_slopes_are_those_of_the_mean_log_density(tight):
    made, x = columns(some_pairs()), rows(60)
    for part in parts(made):
        part = tight_part(part, made, VARIABLES) if tight else part
        weights, read = part.pack(made, VARIABLES), part.rows(x.inputs, x.own, x.states)

        def total(learned, part=part, weights=weights, read=read):
            named = dict(zip(Learned._fields, learned, strict=True))
            return jnp.sum(jnp.mean(log_density(weights._replace(**named), jnp.asarray(read), part.shape), axis=1))

        learned = Learned(*(np.asarray(value) for value in weights[:4]))
        expected = jax.grad(total)([jnp.asarray(each) for each in learned])
        found = slope(learned, given_of(weights), np.ascontiguousarray(read.T), part.shape)
        for name, one, other in zip(Learned._fields, found, expected, strict=True):
            if other.size:
                np.testing.assert_allclose(one, other, atol=2e-5, err_msg=f"{part.shape}, {name}")


def test_no_weight_and_no_row_makes_a_slope_that_is_not_finite():
    made, x = columns(some_pairs()), rows(60)
    for part in parts(made):
        weights, read = part.pack(made, VARIABLES), 50 * part.rows(x.inputs, x.own, x.states)
        read[part.shape.features + part.shape.columns :] /= 50  # states stay states
        far = Learned(*(30 * np.asarray(value) for value in weights[:4]))
        found = slope(far, given_of(weights), np.ascontiguousarray(read.T), part.shape)
        assert all(np.isfinite(each).all() for each in found)
