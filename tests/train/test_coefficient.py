"""The fit of a classical coefficient finds the one that made the data."""

import jax.numpy as jnp
import numpy as np
import pytest
from small import FLOW, KS, simulated

from sino.coupling.classical import build_classical
from sino.coupling.hybrid import hybrid_step
from sino.train.coefficient import SEARCHED, bracket, fit_coefficient


@pytest.mark.parametrize("name, solver, planted", [("hyperviscosity", KS, 1.7), ("smagorinsky", FLOW, 0.23)])
def test_a_planted_coefficient_is_recovered(name, solver, planted):
    channels = solver.grid.dim
    tau = build_classical(name, jnp.asarray(planted), channels, solver.grid.length[0]).prepare(solver.grid.n)
    data = simulated(solver, trajectories=2, frames=4, step=hybrid_step(solver, tau, t0=0.0))
    watched = []
    found, error = fit_coefficient(name, solver, data, watch=watched.append)
    assert found == pytest.approx(planted, rel=0.03)
    assert error < 1e-3 * float(jnp.square(data.frames).mean())
    assert watched == list(range(1, SEARCHED + 1))


def test_coefficients_that_blow_up_lose(monkeypatch):
    """Far too large ones are tried first and give no number."""
    monkeypatch.setattr("sino.train.coefficient.bracket", lambda name, dt: (1e-2, 1e9))
    data = simulated(KS, trajectories=1, frames=40)
    found, error = fit_coefficient("hyperviscosity", KS, data)
    assert np.isfinite(error) and found < 1e2


def test_damping_rates_are_limited_by_the_time_step():
    assert bracket("hyperviscosity", 0.1) == pytest.approx((1e-3, 20.0))
    assert bracket("smagorinsky", 0.1) == bracket("smagorinsky", 0.2)
