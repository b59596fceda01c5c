"""SOAP against a plain loop, against Adam where they must agree and where they must not, and what it leaves out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.extend.core import jaxprs_in_params
from small import largest_difference, mixer, tiny_sino, toy

from sino.core.files import named_leaves
from sino.models.hypernetwork import Hypernetwork
from sino.models.layers import Linear
from sino.train.curriculum import Recipe, Stage
from sino.train.optimiser import optimiser
from sino.train.soap import LARGEST_SIDE, REFRESH, orthonormal, scale_by_soap
from sino.train.update import initial_state

ADAM = optax.scale_by_adam(b2=0.99)
"""With the decay of squares that SOAP has."""
UPDATES = 12
SHAPES = {"matrix": (3, 4), "square": (4, 4), "kernel": (4, 2, 2), "head": (LARGEST_SIDE + 1, 3), "row": (1, 2)}
"""No covariance is short of more than one rank, so that its eigenvectors are determined."""
WITHOUT_SIDES = {"single": (1, 1), "long row": (1, LARGEST_SIDE + 1), "bias": (5,), "scale": ()}


@pytest.fixture(autouse=True)
def settings():
    with jax.numpy_dtype_promotion("standard"):  # optax mixes integers and floats
        yield


def gradients(shapes, count=UPDATES, seed=0):
    """Random trees whose entries are of very different size."""
    rng = np.random.default_rng(seed)
    scales = {name: np.exp(rng.normal(size=shape)) for name, shape in shapes.items()}
    return [
        {name: jnp.asarray(scale * rng.normal(size=scale.shape)) for name, scale in scales.items()}
        for _ in range(count)
    ]


def run(transformation, sequence, first=0):
    """The directions for a sequence of gradients, and the states after each."""
    step = jax.jit(optax.with_extra_args_support(transformation).update)
    state = transformation.init(sequence[0])
    directions, states = [], []
    for index, gradient in enumerate(sequence, start=first):
        direction, state = step(gradient, state, index=jnp.int32(index))
        directions.append(direction)
        states.append(state)
    return directions, states


def generators(seed=0):
    return [np.random.default_rng((seed, update)) for update in range(UPDATES)]


def soap_of_one_array(sequence, turned):
    """The algorithm as one would write it down, for a sequence of arrays some axes of which turn."""
    shape = sequence[0].shape
    mean, square = np.zeros(shape), np.zeros(shape)
    covariance, basis = [np.zeros((n, n)) for n in shape], [np.eye(n) for n in shape]

    def rotated(x, matrices):
        for axis, q in enumerate(matrices):
            x = np.moveaxis(np.tensordot(q, x, axes=(0, axis)), 0, axis)
        return x

    for count, g in enumerate(sequence, start=1):
        for axis in range(g.ndim):
            flat = np.moveaxis(g, axis, 0).reshape(shape[axis], -1)
            covariance[axis] = 0.95 * covariance[axis] + 0.05 * flat @ flat.T
            for _ in range(10 if count == 1 else 1):
                if turned[axis] and (count - 1) % 5 == 0:
                    unit = covariance[axis] / np.trace(covariance[axis]) + 1e-6 * np.eye(shape[axis])
                    q, r = np.linalg.qr(unit @ basis[axis])
                    basis[axis] = q * np.sign(np.diag(r))
        mean = 0.9 * mean + 0.1 * g
        square = 0.99 * square + 0.01 * rotated(g, basis) ** 2
        inside = rotated(mean / (1 - 0.9**count), basis)
        yield rotated(inside / (np.sqrt(square / (1 - 0.99**count)) + 1e-8), [q.T for q in basis])


@pytest.mark.parametrize(
    "name, turned",
    [
        ("matrix", (True, True)),
        ("square", (True, True)),
        ("kernel", (True, True)),
        ("head", (False, True)),
        ("row", (False, True)),
    ],
)
def test_it_is_the_algorithm(name, turned):
    sequence = gradients(SHAPES)
    directions, _ = run(scale_by_soap(), sequence)
    matrices = [np.asarray(tree[name]).reshape(len(tree[name]), -1) for tree in sequence]
    for mine, other in zip(directions, soap_of_one_array(matrices, turned), strict=True):
        # Along axes on which there was no gradient yet, rounding errors are divided by 1e-8.
        np.testing.assert_allclose(mine[name].reshape(other.shape), other, atol=1e-6)


def test_the_head_of_a_hypernetwork_turns_along_three_axes():
    net = Hypernetwork(1, 2, 2, 3, 1, key=jax.random.key(0))
    sequence = [jax.tree.map(lambda x, n=numbers: jnp.asarray(n.normal(size=x.shape)), net) for numbers in generators()]
    directions, _ = run(scale_by_soap(), sequence)
    cubes = [np.concatenate([g.heads[0].weight, g.heads[0].bias[:, None]], axis=1).reshape(3, 3, 3) for g in sequence]
    for mine, other in zip(directions, soap_of_one_array(cubes, (True, True, True)), strict=True):
        np.testing.assert_allclose(mine.heads[0].weight, other[:, :, :2].reshape(9, 2), atol=1e-6)
        np.testing.assert_allclose(mine.heads[0].bias, other[:, :, 2].reshape(9), atol=1e-6)


def test_a_small_layer_has_a_covariance_of_all_pairs():
    layer = Linear(2, 2, key=jax.random.key(0))
    sequence = [jax.tree.map(lambda x, n=n: jnp.asarray(n.normal(size=x.shape)), layer) for n in generators()]
    directions, _ = run(scale_by_soap(), sequence)
    rows = [np.concatenate([g.weight, g.bias[:, None]], axis=1).reshape(1, 6) for g in sequence]
    for mine, other in zip(directions, soap_of_one_array(rows, (False, True)), strict=True):
        found = np.concatenate([mine.weight, mine.bias[:, None]], axis=1)
        np.testing.assert_allclose(found, other.reshape(2, 3), atol=1e-6)


def test_without_sides_it_is_adam():
    sequence = gradients(WITHOUT_SIDES)
    directions, states = run(scale_by_soap(), sequence)
    assert jax.tree.leaves((states[-1].covariances, states[-1].bases)) == []
    for mine, other in zip(directions, run(ADAM, sequence)[0], strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), mine, other)


def test_where_the_axes_are_right_already_it_is_adam():
    """The covariances of diagonal gradients are diagonal; those of others are not, and it is not Adam."""
    sequence = gradients({"matrix": (4, 4)})
    for single, equal in ((np.eye(4), True), (np.ones((4, 4)), False)):
        chosen = [jax.tree.map(lambda g, single=single: g * single, tree) for tree in sequence]
        for mine, other in zip(run(scale_by_soap(), chosen)[0], run(ADAM, chosen)[0], strict=True):
            assert np.allclose(mine["matrix"], other["matrix"], atol=1e-10) == equal


def test_it_descends_where_adam_is_slow():
    """A quadratic of condition 1e7 whose axes are not those of the parameters."""
    rng = np.random.default_rng(0)

    def bent(n, decades):
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        return jnp.asarray(turn * 10 ** -np.linspace(0, decades, n) @ turn.T)

    left, right, target = bent(6, 2), bent(8, 1.5), jnp.asarray(rng.normal(size=(6, 8)))

    def loss(w):
        return 0.5 * jnp.sum((left @ (w - target) @ right) ** 2)

    def reached(transformation, rate, count=300):
        transformation = optax.with_extra_args_support(transformation)

        def step(carry, index):
            w, state = carry
            direction, state = transformation.update(jax.grad(loss)(w), state, w, index=index)
            return (w - rate * 0.5 * (1 + jnp.cos(jnp.pi * index / count)) * direction, state), None

        start = jnp.zeros_like(target)
        indices = jnp.arange(count, dtype=jnp.int32)
        return float(loss(jax.jit(lambda: jax.lax.scan(step, (start, transformation.init(start)), indices)[0][0])()))

    assert reached(scale_by_soap(), 0.1) < 1e-5
    assert min(reached(optax.scale_by_adam(), rate) for rate in (0.03, 0.1, 0.3, 1.0)) > 1e-4


def test_bases_turn_now_and_then_and_stay_orthogonal():
    _, states = run(scale_by_soap(), gradients(SHAPES, count=2 * REFRESH + 2))
    for index, (before, after) in enumerate(zip(states, states[1:], strict=False), start=1):
        for old, new in zip(*map(jax.tree.leaves, (before.bases, after.bases)), strict=True):
            assert np.array_equal(old, new) == (index % REFRESH != 0)
            products = new.swapaxes(1, 2) @ new
            np.testing.assert_allclose(products, np.broadcast_to(np.eye(new.shape[1]), new.shape), atol=1e-13)


def loops(jaxpr, inside_conditions):
    """How many loops a program holds, those in its conditions counted or not: bases turn in two, one in the other."""
    found = 0
    for equation in jaxpr.eqns:
        found += equation.primitive.name in ("while", "scan")
        if inside_conditions or equation.primitive.name != "cond":
            found += sum(loops(part, inside_conditions) for part in jaxprs_in_params(equation.params))
    return found


def test_seeds_turn_their_bases_only_now_and_then_and_those_of_equal_size_together():
    """A condition on what differs between seeds would be computed on both branches, at every update."""
    trees = [gradients(SHAPES, 1, seed)[0] for seed in range(2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
    state = jax.vmap(scale_by_soap().init)(stacked)

    def program(index, axis):
        def update(gradient, state, index):
            return scale_by_soap().update(gradient, state, index=index)

        return jax.make_jaxpr(jax.vmap(update, (0, 0, axis)))(stacked, state, index).jaxpr

    shared, apart = program(jnp.int32(0), None), program(jnp.zeros(2, jnp.int32), 0)
    sizes = {side.shape[-1] for side in jax.tree.leaves(scale_by_soap().init(trees[0]).bases)}
    assert sizes == {2, 3, 4}
    assert loops(shared, inside_conditions=False) == 0
    assert loops(shared, inside_conditions=True) == 2 * len(sizes)
    assert loops(apart, inside_conditions=False) > 0


def test_seeds_of_a_network_together_are_seeds_alone():
    shapes = eqx.filter_eval_shape(tiny_sino, depth=1)
    sequences = [
        [jax.tree.map(lambda x, n=n: jnp.asarray(n.normal(size=x.shape)), shapes) for n in generators(seed)]
        for seed in range(2)
    ]
    together = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in zip(*sequences, strict=True)]
    soap = scale_by_soap()
    step = jax.jit(jax.vmap(lambda g, state, index: soap.update(g, state, index=index), (0, 0, None)))
    state = jax.vmap(soap.init)(together[0])
    alone = [run(soap, sequence)[0] for sequence in sequences]
    for index, gradient in enumerate(together):
        directions, state = step(gradient, state, jnp.int32(index))
        for seed in range(2):
            assert largest_difference(jax.tree.map(lambda x, s=seed: x[s], directions), alone[seed][index]) < 1e-6


def test_a_parameter_without_gradient_keeps_an_orthogonal_basis():
    _, states = run(scale_by_soap(), [{"matrix": jnp.zeros((3, 4))}] * 2)
    for basis in jax.tree.leaves(states[-1].bases):
        np.testing.assert_allclose(basis, np.broadcast_to(np.eye(basis.shape[1]), basis.shape), atol=1e-12)


def test_parameters_of_one_shape_do_not_disturb_each_other():
    sequence = gradients({"one": (3, 4), "between": (2, 3), "two": (3, 4)})
    together, _ = run(scale_by_soap(), sequence)
    for name in sequence[0]:
        alone, _ = run(scale_by_soap(), [{name: tree[name]} for tree in sequence])
        for mine, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(mine[name], other[name], rtol=1e-6)


def test_a_state_that_begins_late_is_adam_until_its_bases_turn():
    """As that of a seed which failed at once and went back: it has seen less than the index says."""
    sequence = gradients({"matrix": (4, 4)}, count=REFRESH + 1)
    mine, states = run(scale_by_soap(), sequence, first=1)
    adam, _ = run(ADAM, sequence)
    equal = [np.allclose(a["matrix"], b["matrix"], rtol=1e-12) for a, b in zip(mine, adam, strict=True)]
    assert equal == [True] * (REFRESH - 1) + [False, False]
    assert int(states[-1].count) == REFRESH + 1


@pytest.mark.parametrize("name", ["adam", "soap"])
def test_the_clip_comes_before_and_the_decay_after(name):
    recipe = Recipe((Stage(1, 1),), optimiser=name, clip=1e-6, weight_decay=0.5)
    model, bare = mixer(), optimiser(Recipe((Stage(1, 1),), optimiser=name))
    gradient = mixer(seed=1)
    small = jax.tree.map(lambda leaf: 1e-6 * leaf / optax.tree.norm(gradient), gradient)
    whole, _ = optimiser(recipe).update(gradient, optimiser(recipe).init(model), model, index=jnp.int32(0))
    alone, _ = bare.update(small, bare.init(model), model, index=jnp.int32(0))
    for mine, step, weight in zip(*map(jax.tree.leaves, (whole, alone, model)), strict=True):
        np.testing.assert_allclose(mine, step + 0.5 * weight, rtol=1e-9)


def names(model, **options):
    return [
        name.removeprefix("now.moments.")
        for name in named_leaves(initial_state([model], Recipe((Stage(1, 1),), **options)))
        if name.startswith("now.moments.")
    ]


def test_the_names_in_a_checkpoint():
    adam = ["count", "mu.slope", "mu.offset", "nu.slope", "nu.offset"]
    assert names(toy()) == [f"0.{name}" for name in adam]
    assert names(toy(), clip=1.0) == [f"1.{name}" for name in adam]
    sides = [f"{field}.0.{axis}" for field in ("covariances", "bases") for axis in range(2)]
    leaves = ["mean.0", "mean.1", "square.0", "square.1"]
    assert names(mixer(), optimiser="soap") == [f"0.{name}" for name in ("count", *leaves, *sides)]


@pytest.mark.parametrize("size", [1, 2, 17])
def test_gram_schmidt_is_qr(size):
    rng = np.random.default_rng(size)
    factors = rng.normal(size=(3, size, size))
    basis = np.linalg.qr(rng.normal(size=(3, size, size)))[0]
    poor = factors[:, :, :1] @ factors[:, :, :1].swapaxes(1, 2)  # rank one, as after the first gradient of a vector
    for covariance in (factors @ factors.swapaxes(1, 2), poor + 1e-6 * np.eye(size)):
        a = covariance @ basis
        q, r = np.linalg.qr(a)
        found = np.asarray(orthonormal(jnp.asarray(a)))
        np.testing.assert_allclose(found.swapaxes(1, 2) @ found, np.broadcast_to(np.eye(size), a.shape), atol=1e-12)
        np.testing.assert_allclose(found, q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None], atol=1e-6)
