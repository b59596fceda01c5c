import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core import fast
from sino.core.rollout import repeat, rollout, scan_in_chunks


def step(u, i):
    """A nonlinear step on a nested state, whose result depends on the index."""
    clock = 0.1 * jnp.asarray(i, float)
    return {"x": jnp.sin(u["x"] + clock), "more": (u["more"][0] * 0.9 + u["x"].sum(), u["more"][1] + 1)}


def state(seed=0):
    rng = np.random.default_rng(seed)
    return {"x": jnp.asarray(rng.normal(size=3)), "more": (jnp.asarray(rng.normal()), jnp.asarray(0))}


def loop(u, count, start=0):
    """The same steps, written out: all states after the initial one."""
    states = []
    for i in range(start, start + count):
        u = step(u, i)
        states.append(u)
    return states


def stack(states):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def assert_trees_close(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-14), a, b)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("start", [0, 7])
def test_repeat_is_a_loop(count, start):
    assert_trees_close(repeat(step, count)(state(), start), loop(state(), count, start)[-1])


@pytest.mark.parametrize("substeps", [1, 3])
def test_rollout_is_a_loop(substeps):
    frames = 4
    states = loop(state(), frames * substeps)
    last, seen = rollout(step, state(), frames, substeps=substeps)
    assert_trees_close(last, states[-1])
    assert_trees_close(seen, stack(states[substeps - 1 :: substeps]))  # frames 1, 2, ...: not the initial state


def test_repeat_is_a_loop_on_an_accelerator(monkeypatch):
    """Where steps go two by two."""
    monkeypatch.setattr(fast, "accelerated", lambda: True)
    for count in (4, 5):
        test_repeat_is_a_loop(count, 3)


def test_rollout_keeps_only_what_is_observed():
    last, seen = rollout(step, state(), 4, substeps=2, observe=lambda u: u["x"].mean())
    assert seen.shape == (4,)
    assert_trees_close(seen, jnp.stack([u["x"].mean() for u in loop(state(), 8)[1::2]]))
    assert_trees_close(last, loop(state(), 8)[-1])


@pytest.mark.parametrize("substeps, start", [(1, 0), (3, 0), (3, 5)])
def test_every_step_sees_its_own_index(substeps, start):
    """The state is a logbook with a counter; the step writes down the index it was given."""

    def write(book, i):
        count, log = book
        return count + 1, log.at[count].set(i)

    frames = 4
    blank = (jnp.asarray(0), jnp.full(frames * substeps, -1))
    (_, log), (counts, _) = rollout(write, blank, frames, substeps=substeps, start=start)
    np.testing.assert_array_equal(log, start + np.arange(frames * substeps))
    np.testing.assert_array_equal(counts, substeps * np.arange(1, frames + 1))


def test_rollouts_compose():
    last, seen = rollout(step, state(), 5, substeps=2, start=3)
    middle, first_part = rollout(step, state(), 2, substeps=2, start=3)
    end, second_part = rollout(step, middle, 3, substeps=2, start=3 + 2 * 2)
    assert_trees_close(end, last)
    assert_trees_close(jax.tree.map(lambda *parts: jnp.concatenate(parts), first_part, second_part), seen)
    wrong, _ = rollout(step, middle, 3, substeps=2)
    assert np.abs(wrong["x"] - last["x"]).max() > 1e-3  # the index matters, so this test can fail


def test_start_may_be_traced():
    expected = [rollout(step, state(), 2, substeps=3, start=start)[0]["x"] for start in (0, 4)]
    computed = jax.vmap(lambda start: rollout(step, state(), 2, substeps=3, start=start)[0]["x"])(jnp.array([0, 4]))
    np.testing.assert_allclose(computed, jnp.stack(expected), rtol=1e-13)


def test_vmap_is_a_loop():
    states = [state(seed) for seed in range(3)]
    batched = jax.vmap(lambda u: rollout(step, u, 3, substeps=2))(stack(states))
    assert_trees_close(batched, stack([rollout(step, u, 3, substeps=2) for u in states]))


def test_gradients_are_those_of_the_loop():
    """With respect to the initial state and a parameter of the step, for random weights on every frame."""
    frames, substeps = 3, 2
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(frames, 3)))

    def parametrised(parameter):
        return lambda u, i: jnp.sin(parameter * u + 0.1 * jnp.asarray(i, float))

    def rolled(u, parameter):
        return (weights * rollout(parametrised(parameter), u, frames, substeps=substeps)[1]).sum()

    def unrolled(u, parameter):
        total = 0.0
        for i in range(frames * substeps):
            u = parametrised(parameter)(u, i)
            if (i + 1) % substeps == 0:
                total += (weights[i // substeps] * u).sum()
        return total

    arguments = jnp.asarray([0.3, -0.7, 1.1]), jnp.asarray(1.3)
    assert_trees_close(rolled(*arguments), unrolled(*arguments))
    gradients = jax.grad(rolled, argnums=(0, 1))(*arguments)
    assert_trees_close(gradients, jax.grad(unrolled, argnums=(0, 1))(*arguments))
    assert all(np.abs(g).min() > 1e-3 for g in gradients)


LENGTH, CHUNK = 12, 3
WEIGHTS = jnp.asarray(np.random.default_rng(2).normal(size=(LENGTH, 3)))


def frame(parameter):
    def body(u, x):
        u = jnp.sin(parameter * u + x)
        return u, u**2

    return body


def scanned(length, **options):
    """The value of a scan and its gradient in the carry, the inputs and a parameter."""

    def score(u, xs, parameter, count):
        body = frame(parameter)
        if options:
            extra = {"count": count} if options.get("counted") else {}
            recompute = options.get("recompute", False)
            last, ys = scan_in_chunks(body, u, xs, chunk=CHUNK, recompute=recompute, **extra)
        else:
            last, ys = jax.lax.scan(body, u, xs)
        return (WEIGHTS[: len(ys)] * ys).sum() + (last**3).sum(), (last, ys)

    xs = jnp.linspace(0.0, 1.0, LENGTH * 3).reshape(LENGTH, 3)
    xs = xs if options else xs[:length]
    arguments = jnp.asarray([0.3, -0.7, 1.1]), xs, jnp.asarray(1.3), jnp.asarray(length)
    return jax.jit(jax.value_and_grad(score, argnums=(0, 1, 2), has_aux=True))(*arguments)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_scan_in_chunks_is_a_scan(recompute):
    assert_trees_close(scanned(LENGTH, recompute=recompute), scanned(LENGTH))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("count", [0, 3, 9, 12])
def test_a_counted_scan_is_a_scan_of_that_length_and_then_nothing(count, recompute):
    (value, (last, ys)), (of_carry, of_xs, of_parameter) = scanned(count, counted=True, recompute=recompute)
    (expected, (end, some)), (its_carry, its_xs, its_parameter) = scanned(count)
    assert_trees_close((value, last, ys[:count], of_carry), (expected, end, some, its_carry))
    assert_trees_close((of_xs[:count], of_parameter), (its_xs, its_parameter))
    np.testing.assert_array_equal(ys[count:], 0)
    np.testing.assert_array_equal(of_xs[count:], 0)


def test_chunks_must_fit():
    with pytest.raises(ValueError, match="12 steps cannot be cut into chunks of 5"):
        scan_in_chunks(frame(1.0), jnp.zeros(3), jnp.zeros((12, 3)), chunk=5)


@pytest.mark.parametrize("recompute", [1, 2, 4])
def test_a_rollout_that_computes_again_has_the_same_gradient(recompute):
    def score(u, again):
        step = lambda u, i: jnp.sin(1.3 * u + 0.1 * jnp.asarray(i, float))  # noqa: E731
        return (WEIGHTS[:4] * rollout(step, u, 4, substeps=3, start=2, recompute=again)[1]).sum()

    u = jnp.asarray([0.3, -0.7, 1.1])
    assert_trees_close(jax.value_and_grad(score)(u, recompute), jax.value_and_grad(score)(u, 0))


def test_computing_again_keeps_less_for_the_backward_pass():
    def kept(recompute):
        return sum(
            x.size for x in jax.tree.leaves(jax.eval_shape(lambda u: jax.vjp(run(recompute), u)[1], jnp.ones(50)))
        )

    def run(recompute):
        step = lambda u, i: jnp.sin(jnp.sin(jnp.sin(u)))  # noqa: E731
        return lambda u: rollout(step, u, 100, recompute=recompute)[0]

    assert kept(0) >= 3 * 100 * 50
    assert kept(10) <= 2 * 10 * 50
