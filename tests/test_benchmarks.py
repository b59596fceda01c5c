"""The twelve benchmarks: their numbers, and that each runs end to end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.benchmarks import BENCHMARKS, benchmark
from sino.core.errors import UserError
from sino.data.generate import simulator
from sino.evaluate.score import free_run, window_error
from sino.physics.burgers_fv import FiniteVolumeBurgers

MAIN = ["burgers-forced", "burgers-decaying", "ks", "ns-forced-re1000", "ns-forced-re4000", "ns-decaying"]


def test_there_are_twelve_and_the_main_six_come_first():
    assert list(BENCHMARKS)[:6] == MAIN
    assert len(BENCHMARKS) == 12
    assert all(name == b.name for name, b in BENCHMARKS.items())


@pytest.mark.parametrize(
    "name, fine, coarse, fine_steps, frame, duration, start",
    [
        ("burgers-forced", 512, 32, 4, 0.01, 10.0, 2.0),
        ("burgers-forced-128", 512, 128, 4, 0.01, 10.0, 2.0),
        ("burgers-decaying", 2048, 256, 1, 1e-4, 0.1, 0.0),
        ("burgers-decaying-128", 2048, 128, 1, 1e-4, 0.1, 0.0),
        ("ks", 256, 64, 1, 0.01, 10.0, 50.0),
        ("ks-32", 256, 32, 1, 0.01, 10.0, 50.0),
        ("ns-forced-re1000", 512, 64, 8, 7.0125e-3, 7.0125, 40.0),
        ("ns-decaying", 512, 64, 8, 1.16875e-2, 11.6875, 4.5),
    ],
)
def test_sizes_and_steps(name, fine, coarse, fine_steps, frame, duration, start):
    b = benchmark(name)
    assert (b.sizes.fine, b.sizes.coarse) == (fine, coarse)
    assert (b.substeps(fine), b.substeps(coarse)) == (fine_steps, 1)
    assert b.frame == pytest.approx(frame, rel=1e-4)
    assert b.frame * b.sizes.frames == pytest.approx(duration, rel=1e-4)
    assert b.start == pytest.approx(start, abs=b.solver(fine).dt)


def test_a_frame_of_navier_stokes_is_one_two_four_eight_steps():
    b = benchmark("ns-decaying")
    assert [b.substeps(n) for n in (32, 64, 96, 128, 256, 512)] == [1, 1, 2, 2, 4, 8]
    for n in (64, 128, 256, 512):
        solver = b.solver(n)
        assert solver.dt == pytest.approx(0.5 * solver.grid.dx[0] / 4.2)


def test_viscosities():
    expected = {"ns-forced-re1000": 1e-3, "ns-forced-re2000": 5e-4, "ns-forced-re4000": 2.5e-4, "ns-forced-re1e5": 1e-5}
    for name, viscosity in expected.items():
        assert benchmark(name).solver(64).viscosity == viscosity  # pyright: ignore


def test_splits_do_not_overlap():
    for b in BENCHMARKS.values():
        for sizes in (b.sizes, b.small, b.tiny):
            parts = [set(sizes.train), set(sizes.validation), set(sizes.test)]
            assert len(set.union(*parts)) == sum(map(len, parts)) == sizes.trajectories
            assert sizes.train_frames < sizes.frames


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match="did you mean 'ns-decaying'"):
        benchmark("ns-decayng")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_runs_end_to_end_and_the_coarse_grid_errs(name):
    """Finite data, a coarse error that is neither zero nor large, and a fine solver that reproduces itself."""
    b = benchmark(name, "tiny")
    s, seeds = b.sizes, [0, 5]
    simulate = simulator(
        b.solver(s.fine),
        warmup_steps=b.warmup_steps,
        frames=s.frames,
        substeps=b.substeps(s.fine),
        observe=lambda u: {"fine": u, "coarse": b.coarsen(u, (s.coarse,) * b.dim)},
    )
    blocks = [k.observed for k in simulate(b.initial_states(seeds), b.forcings(seeds)) if k.observed]
    fine, coarse = (np.concatenate([k[key] for k in blocks], axis=1) for key in ("fine", "coarse"))
    assert np.isfinite(fine).all()
    assert fine.dtype == np.dtype(b.precision)
    assert not np.allclose(fine[0], fine[1])  # seeds differ
    n = s.coarse
    run = free_run(b.solver(n), coarse[:, 0], b.forcings(seeds), s.frames, t0=b.start, substeps=b.substeps(n))
    error = window_error(run, coarse, 1)
    assert (error > 1e-12).all() and (error < 0.3 * coarse.var()).all()
    again = free_run(b.solver(s.fine), fine[:, 0], b.forcings(seeds), s.frames, t0=b.start, substeps=b.substeps(s.fine))
    np.testing.assert_allclose(again, fine, atol=2e-4 if b.precision == "float32" else 1e-10)


def test_shocks_can_be_captured_where_the_scheme_is_spectral():
    b = benchmark("burgers-decaying", "tiny")
    weno, u = b.scheme_variant("weno").solver(64), jnp.sin(2 * jnp.pi * jnp.arange(64.0) / 64)[None]
    assert isinstance(weno, FiniteVolumeBurgers) and weno.dt == b.frame
    step, spectral = (solver.step(u, None, 0.0) - u for solver in (weno, b.scheme_variant("strong").solver(64)))
    assert np.allclose(step, spectral, atol=0.01 * np.abs(spectral).max())  # where it is smooth, they agree
    for name in BENCHMARKS.keys() - {"burgers-decaying", "burgers-decaying-128"}:
        with pytest.raises(UserError, match="'weno' is for decaying Burgers"):
            BENCHMARKS[name].scheme_variant("weno")


def test_forcings_are_stacked_per_trajectory():
    b = benchmark("burgers-forced")
    stacked = b.forcings([0, 3])
    assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves(stacked))
    one = jax.tree.map(lambda leaf: leaf[1], stacked)
    np.testing.assert_array_equal(jax.tree.leaves(one)[0], jax.tree.leaves(b.force(3))[0])
    assert benchmark("ks").forcings([0, 3]) is None
