"""Solvers that carry a closure: what it adds, where, and that rollouts compose."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.grid import Grid
from sino.coupling.closure import Closure, Statistics
from sino.coupling.hybrid import hybrid_step, rollout
from sino.models.model import AbstractModel
from sino.physics.burgers_fv import FiniteVolumeBurgers
from sino.physics.forcing import SineForcing
from sino.physics.kuramoto_sivashinsky import KuramotoSivashinsky
from sino.physics.navier_stokes import FiniteVolumeNavierStokes
from sino.physics.solver import clocked
from sino.physics.staggered import divergence, from_streamfunction

KS = KuramotoSivashinsky(Grid((16,), (32.0,)), dt=0.05)
BURGERS = FiniteVolumeBurgers(Grid((16,), (2 * np.pi,)), dt=0.02, viscosity=0.02)
FLOW = FiniteVolumeNavierStokes(Grid((8, 8), (2 * np.pi,) * 2), dt=0.02, viscosity=0.05)
COUPLINGS = ("frozen", "stages", "after")
FORCING = SineForcing(*(jnp.asarray(p) for p in ([0.5, 0.3], [4.0, -3.0], [1.0, 2.0], [0.1, 0.7])), length=2 * np.pi)


class Shear(AbstractModel):
    """Nonlinear, and not free of divergence."""

    size: jax.Array

    def prepare(self, n):
        return lambda x: self.size.astype(x.dtype) * jnp.tanh(jnp.roll(x, 1, axis=-1))


def closure(size=0.5, channels=1):
    return Closure(Shear(jnp.asarray(size)), Statistics(jnp.zeros(channels), jnp.asarray(1.2), jnp.asarray(0.8)))


def field(solver, seed=0):
    rng = np.random.default_rng(seed)
    x = 2 * np.pi * np.arange(solver.grid.n[-1]) / solver.grid.n[-1]
    if solver.grid.dim == 1:
        return jnp.asarray(sum(rng.normal() * np.sin(k * x + rng.normal()) for k in (1, 2)))[None]
    psi = sum(rng.normal() * np.sin(k * x[:, None] + rng.normal()) * np.cos(x[None] + k) for k in (1, 2))
    return from_streamfunction(jnp.asarray(psi), solver.grid)


def quickly(function):
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def one_step(solver, tau, u, coupling="frozen", forcing=None):
    return quickly(hybrid_step(solver, tau, t0=1.0, forcing=forcing, coupling=coupling))(u, 3)


@pytest.mark.parametrize("solver", [KS, BURGERS, FLOW], ids=["ks", "burgers", "flow"])
def test_no_closure_is_the_plain_solver(solver):
    u = field(solver)
    forcing = FORCING if solver.grid.dim == 1 else None
    expected = quickly(clocked(solver, forcing, t0=1.0))(u, 3)
    np.testing.assert_array_equal(one_step(solver, None, u, forcing=forcing), expected)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_a_closure_of_zero_is_the_plain_solver(coupling):
    tau = closure(0.0).prepare((16,))
    for solver in (KS, BURGERS):
        u = field(solver)
        step = hybrid_step(solver, tau, t0=1.0, forcing=FORCING, coupling=coupling)
        np.testing.assert_array_equal(step(u, 3), clocked(solver, FORCING, t0=1.0)(u, 3))


def test_a_frozen_closure_enters_kuramoto_sivashinsky_by_phi_1():
    """Exactly, if it has only modes that are dealiased: those do not act back on the rest within the step."""
    x = 2 * np.pi * np.arange(16) / 16
    tau = (0.7 * np.sin(6 * x + 0.3) + 0.2 * np.cos(7 * x))[None]
    added = one_step(KS, lambda v: jnp.asarray(tau), field(KS)) - one_step(KS, None, field(KS))
    z = KS.dt * KS.linear_symbol()
    phi_1 = np.where(z == 0, 1.0, np.expm1(z) / np.where(z == 0, 1.0, z))
    np.testing.assert_allclose(added, np.fft.irfft(KS.dt * phi_1 * np.fft.rfft(tau), 16), atol=1e-13)


def test_frozen_is_evaluated_once_stages_at_every_stage_and_after_at_the_end():
    u, seen = field(BURGERS), []

    def tau(v):
        seen.append(np.asarray(v))
        return 0.1 * v

    for coupling, count in (("frozen", 1), ("stages", 4), ("after", 1)):
        seen.clear()
        hybrid_step(BURGERS, tau, t0=0.0, coupling=coupling)(u, 0)
        assert len(seen) == count
        first = BURGERS.step(u, None, 0.0) if coupling == "after" else u
        np.testing.assert_allclose(seen[0], first, rtol=1e-12)


def test_the_couplings_agree_to_first_order_and_differ_beyond():
    u, tau = field(BURGERS), closure().prepare((16,))
    frozen, stages, after = (one_step(BURGERS, tau, u, coupling) for coupling in COUPLINGS)
    size = np.abs(frozen - one_step(BURGERS, None, u)).max()
    for other in (stages, after):
        assert 1e-5 * size < np.abs(other - frozen).max() < 0.1 * size


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_a_flow_stays_free_of_divergence(coupling):
    tau = closure(2.0, channels=2).prepare((8, 8))
    u = field(FLOW)
    assert np.abs(divergence(tau(u), FLOW.grid)).max() > 0.1
    step = quickly(hybrid_step(FLOW, tau, t0=0.0, coupling=coupling))
    for i in range(5):
        u = step(u, i)
    assert np.abs(divergence(u, FLOW.grid)).max() < 1e-12


@pytest.mark.parametrize("coupling", ["frozen", "after"])
def test_rollouts_compose_in_time(coupling):
    substeps = 2
    run = partial(rollout, BURGERS, closure(), forcing=FORCING, substeps=substeps, coupling=coupling)
    whole, first = (quickly(lambda u, t, k=k: run(u, k, t0=t)) for k in (5, 2))
    rest = quickly(lambda u, t: run(u, 3, t0=t))
    u = field(BURGERS)
    expected = whole(u, 1.0)
    begun = first(u, 1.0)
    np.testing.assert_allclose(begun, expected[:2], rtol=1e-12)
    np.testing.assert_allclose(rest(begun[-1], 1.0 + 2 * substeps * BURGERS.dt), expected[2:], rtol=1e-11)
    assert np.abs(rest(begun[-1], 1.0) - expected[2:]).max() > 1e-4


def test_a_batch_is_a_loop():
    run = partial(rollout, BURGERS, closure(), frames=3, t0=0.0, forcing=FORCING)
    batch = jnp.stack([field(BURGERS, seed) for seed in range(3)])
    alone = quickly(lambda u: run(u))
    np.testing.assert_allclose(
        quickly(jax.vmap(lambda u: run(u)))(batch), jnp.stack([alone(u) for u in batch]), rtol=1e-11
    )


def test_a_rollout_that_computes_again_is_the_same_with_the_same_gradient():
    def score(size, recompute):
        frames = rollout(BURGERS, closure(size), field(BURGERS), 4, t0=0.0, recompute=recompute)
        return (frames**2).sum()

    kept, again = (quickly(jax.value_and_grad(partial(score, recompute=r)))(jnp.asarray(0.5)) for r in (0, 2))
    np.testing.assert_allclose(again, kept, rtol=1e-12)
    assert abs(float(kept[1])) > 1e-3


def test_the_gradient_reaches_the_closure_through_every_step():
    """The derivative of the last frame in the weights is that of finite differences."""

    def last(size):
        return rollout(BURGERS, closure(size), field(BURGERS), 4, t0=0.0)[-1, 0, 3]

    slope = quickly(jax.grad(last))(jnp.asarray(0.5))
    ahead, behind = (float(quickly(last)(jnp.asarray(0.5 + h))) for h in (1e-5, -1e-5))
    assert float(slope) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6) and abs(float(slope)) > 1e-3
