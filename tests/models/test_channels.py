"""The mix of channels: a matrix product, for single fields and batches, and its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.models.channels import mix_channels

CO, CI, N = 3, 4, (5, 6)


def plain(h, matrix):
    return jnp.tensordot(matrix, h, axes=1)


def normal(getkey, *shape):
    return jax.random.normal(getkey(), shape)


# One network and a batch of fields; several networks; several networks with batches of their own.
BATCHES = {
    "one field": (lambda f: f, (), ()),
    "a batch": (lambda f: jax.vmap(f, (0, None)), (2,), ()),
    "several networks": (lambda f: jax.vmap(f), (3,), (3,)),
    "several networks and a batch": (lambda f: jax.vmap(jax.vmap(f, (0, None))), (3, 2), (3,)),
    "several networks on one batch": (lambda f: jax.vmap(jax.vmap(f, (0, None)), (None, 0)), (2,), (3,)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_it_is_a_product_with_its_gradients(getkey, name):
    batch, fields, networks = BATCHES[name]
    h, matrix = normal(getkey, *fields, CI, *N), normal(getkey, *networks, CO, CI)
    mine, plainly = (jax.vjp(batch(f), h, matrix) for f in (mix_channels, plain))
    np.testing.assert_allclose(mine[0], plainly[0], atol=1e-13)
    d = normal(getkey, *mine[0].shape)
    for one, other in zip(mine[1](d), plainly[1](d), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_a_batch_is_not_laid_out_anew(getkey):
    h, matrix = normal(getkey, 2, CI, *N), normal(getkey, CO, CI)
    assert "transpose" not in str(jax.make_jaxpr(jax.vmap(mix_channels, (0, None)))(h, matrix))
