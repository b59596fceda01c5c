"""The switch of all fast paths."""

import jax
import jax.numpy as jnp

from sino.core import fast


def test_fast_paths_need_an_accelerator_and_the_switch(monkeypatch):
    monkeypatch.delenv("SINO_FAST", raising=False)
    assert fast.allowed() and not fast.accelerated() and not fast.kernels(jnp.float32)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert fast.accelerated() and fast.kernels(jnp.float32) and not fast.kernels(jnp.float64)
    monkeypatch.setenv("SINO_FAST", "0")
    assert not fast.allowed() and not fast.accelerated() and not fast.kernels(jnp.float32)
