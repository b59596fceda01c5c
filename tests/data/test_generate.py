"""Simulating a batch: equal to stepping by hand, whatever the blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.data.generate import FRAME_BLOCK, WARMUP_BLOCK, simulator
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.initial import sine_forcing

SOLVER = FiniteVolumeBurgers(Grid((16,), (2 * np.pi,)), 0.02, 0.05)


def forcings(seeds):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *(sine_forcing(seed, 2 * np.pi) for seed in seeds))


def by_hand(seed, steps):
    """States after 0, 1, ... steps from rest, with the clock at index * dt."""
    forcing, u = sine_forcing(seed, 2 * np.pi), jnp.zeros((1, 16))
    states = [u]
    for i in range(steps):
        states.append(SOLVER.step(states[-1], forcing, SOLVER.dt * i))
    return np.stack(states)


@pytest.mark.parametrize("warmup", [0, 3, WARMUP_BLOCK + 1])
def test_equals_stepping_by_hand(warmup):
    frames, substeps = 5, 2  # fewer frames than a block
    simulate = simulator(SOLVER, warmup_steps=warmup, frames=frames, substeps=substeps, observe=lambda u: {"u": u})
    blocks = list(simulate(np.zeros((2, 1, 16)), forcings([3, 4])))
    seen = [block for block in blocks if block.observed]
    assert [block.first_frame for block in seen] == [0, 1]
    assert blocks[-1].steps == warmup + frames * substeps
    got = np.concatenate([block.observed["u"] for block in seen], axis=1)
    for row, seed in enumerate([3, 4]):
        expected = by_hand(seed, warmup + frames * substeps)[warmup::substeps]
        np.testing.assert_allclose(got[row], expected, rtol=1e-11, atol=1e-13)


def test_many_blocks_join_without_a_seam():
    frames = 2 * FRAME_BLOCK + 3
    simulate = simulator(SOLVER, warmup_steps=0, frames=frames, substeps=1, observe=lambda u: {"u": u})
    got = np.concatenate([b.observed["u"] for b in simulate(np.zeros((1, 1, 16)), forcings([0]))], axis=1)
    assert got.shape == (1, frames + 1, 1, 16)
    np.testing.assert_allclose(got[0], by_hand(0, frames), rtol=1e-11, atol=1e-13)


def test_one_failing_trajectory_leaves_the_others_alone():
    initial = np.zeros((2, 1, 16))
    initial[1] = np.nan
    simulate = simulator(SOLVER, warmup_steps=2, frames=2, substeps=1, observe=lambda u: {"u": u})
    *_, last = simulate(initial, forcings([0, 1]))
    assert np.isfinite(last.observed["u"][0]).all()
    assert np.isnan(last.observed["u"][1]).all()
    np.testing.assert_allclose(last.observed["u"][0, -1], by_hand(0, 4)[-1], rtol=1e-11, atol=1e-13)


def test_float64_without_x64_is_refused():
    simulate = simulator(SOLVER, warmup_steps=0, frames=1, substeps=1, observe=lambda u: {"u": u})
    with jax.enable_x64(False), pytest.raises(ValueError, match="jax_enable_x64"):
        next(simulate(np.zeros((1, 1, 16)), None))
