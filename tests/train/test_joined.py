"""What is one array to an optimiser, and that nothing is lost on the way there and back."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.models import MODELS, build_model
from sino.models.hypernetwork import Hypernetwork
from sino.models.layers import Conv, ConvTranspose, Linear
from sino.train.joined import SMALL, joined, parted, stacked, unstacked

KEY = jax.random.key(0)
LARGE = SMALL // 3


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name, dim):
    """From other numbers than those of the network, since what it starts with may be all zeros or all ones."""
    shapes = eqx.filter_eval_shape(build_model, name, dim=dim, key=KEY)
    numbers = np.random.default_rng(0)
    model = jax.tree.map(lambda x: jnp.asarray(numbers.normal(size=x.shape)), shapes)
    empty = jax.tree.map(jnp.zeros_like, model)
    for back in (parted(joined(model), empty), unstacked(stacked(model), empty)):
        assert eqx.tree_equal(back, model)
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in (model, joined(model), stacked(model))]
    assert len(set(sizes)) == 1


@pytest.mark.parametrize(
    "layer, shape",
    [
        (Linear(SMALL // 4 - 1, 4, key=KEY), (1, SMALL)),
        (Linear(SMALL // 4, 4, key=KEY), (4, SMALL // 4 + 1)),
        (Linear(LARGE, 3, key=KEY, bias=False), (1, 3 * LARGE)),
        (Conv(3, 10, 3, 1, key=KEY), (10, 10)),
        (Conv(2, 3, 3, 2, key=KEY), (1, 57)),
        (ConvTranspose(4, 6, 4, 1, key=KEY), (6, 17)),
    ],
    ids=["small", "large", "without bias", "convolution", "small convolution", "transposed convolution"],
)
def test_the_bias_of_a_layer_is_a_column_of_its_matrix(layer, shape):
    array = joined(layer)
    assert array.shape == shape
    matrix = array.reshape(len(layer.weight), -1)
    weight = layer.weight.reshape(len(layer.weight), -1)
    np.testing.assert_array_equal(matrix[:, : weight.shape[1]], weight)
    if layer.bias is not None:
        np.testing.assert_array_equal(matrix[:, -1], layer.bias)


def test_a_head_holds_matrices():
    net = Hypernetwork(1, 4, 2, 3, 2, key=KEY)
    *rows, first, second = joined(net)
    assert [row.shape for row in rows] == [(1, 8), (1, 20), (1, 10)]
    for position, cube in enumerate((first, second)):
        constant, *others = net.matrices(position)  # the bias is the first of these, and the last column
        np.testing.assert_array_equal(jnp.moveaxis(cube, -1, 0), jnp.stack([*others, constant]))


def test_other_parameters_are_matrices_or_left_alone():
    tree = {"kernel": jnp.ones((4, 3, 2)), "matrix": jnp.ones((2, 3)), "vector": jnp.ones(5), "number": jnp.ones(())}
    shapes = {name: array.shape for name, array in joined(tree).items()}
    assert shapes == {"kernel": (4, 6), "matrix": (2, 3), "vector": (5,), "number": ()}


def test_a_subclass_of_a_layer_is_no_layer():
    """It may hold more than a weight and a bias."""

    class Gained(Linear):
        gain: jax.Array

        def __init__(self):
            super().__init__(3, 2, key=KEY)
            self.gain = jnp.full(4, 2.0)

    layer = Gained()
    arrays = joined(layer)
    assert [leaf.shape for leaf in jax.tree.leaves(arrays)] == [leaf.shape for leaf in jax.tree.leaves(layer)]
    assert eqx.tree_equal(parted(arrays, jax.tree.map(jnp.zeros_like, layer)), layer)
