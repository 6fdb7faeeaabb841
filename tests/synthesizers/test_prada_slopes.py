"""The slope that distillation follows is that of the density, and so are the derivatives that private steps follow."""

import jax
import jax.numpy as jnp
import numpy as np
from prada_oracle import log_density

from prada_densities import VARIABLES, columns, parts, rows, some_pairs
from understudy.privacy.densities import derivatives, fixed_of
from understudy.synthesizers.prada.likelihood.slopes import Learned, slope


def test_slopes_are_those_of_the_mean_log_density():
    made, x = columns(some_pairs()), rows(60)
    for part in parts(made):
        weights, read = part.pack(made, VARIABLES), part.rows(x)

        def total(learned, part=part, weights=weights, read=read):
            named = dict(zip(Learned._fields, learned, strict=True))
            return jnp.sum(jnp.mean(log_density(weights._replace(**named), jnp.asarray(read), part.shape), axis=1))

        expected = jax.jit(jax.grad(total))([jnp.asarray(each) for each in weights[:4]])
        found = slope(weights, fixed_of(weights, part.shape), read, part.shape)
        for name, one, other in zip(Learned._fields, found, expected, strict=True):
            if other.size:
                np.testing.assert_allclose(one, other, atol=2e-5, err_msg=f"{part.shape}, {name}")


def test_derivatives_make_the_gradient_of_the_log_density_row_by_row():
    made, x = columns(some_pairs()), rows(20)
    for part in parts(made):
        weights, read = part.pack(made, VARIABLES), part.rows(x)

        def density(layers, row, part=part, weights=weights):
            return jnp.sum(log_density(weights._replace(**layers), row[None, :], part.shape))

        layers = {"first": jnp.asarray(weights.first), "second": jnp.asarray(weights.second)}
        expected = jax.jit(jax.vmap(jax.grad(density), in_axes=(None, 0)))(layers, jnp.asarray(read))
        fixed = fixed_of(weights, part.shape)
        found = derivatives(weights, fixed, read, part.shape)
        features = read[:, : part.shape.features + 1]
        given = np.concatenate([features, np.zeros((20, 1), np.float32)], axis=1)[:, fixed.places]
        by_first = np.concatenate([found.by_hidden, found.by_linear], axis=1)
        bent = np.concatenate([found.hidden, np.ones((len(found.hidden), 1, 20), np.float32)], axis=1)
        first = np.einsum("rdi,dor->rdio", given, by_first)
        second = np.einsum("dhr,dor->rdho", bent, found.by_second)
        np.testing.assert_allclose(first, expected["first"], rtol=1e-3, atol=2e-4)
        np.testing.assert_allclose(second, expected["second"], rtol=1e-3, atol=2e-4)


def test_no_weight_and_no_row_makes_a_slope_that_is_not_finite():
    made, x = columns(some_pairs()), rows(60)
    for part in parts(made):
        shape, weights = part.shape, part.pack(made, VARIABLES)
        read = 50 * part.rows(x)
        read[:, shape.features] = 1.0
        read[:, shape.features + 1 + shape.columns :] /= 50  # states stay states
        far = weights._replace(**{name: 30 * getattr(weights, name) for name in Learned._fields})
        found = slope(far, fixed_of(weights, shape), read, shape)
        assert all(np.isfinite(each).all() for each in found)
