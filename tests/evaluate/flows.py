"""Flows small enough to simulate in a test, and a closure whose effect is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from sino.benchmarks import Sizes, benchmark
from sino.coupling.closure import Closure, Statistics
from sino.models.model import AbstractModel


class Damping(AbstractModel):
    """`tau = -rate u`."""

    rate: jax.Array

    def prepare(self, n):
        return lambda u: -self.rate.astype(u.dtype) * u


def damping(rate, channels):
    one = jnp.ones(())
    return Closure(Damping(jnp.asarray(rate)), Statistics(jnp.zeros(channels), one, one))


def flow(name, fine, coarse, frames=4, warmup=0.02, **splits):
    b = benchmark(name, "tiny")
    splits = {"train": range(2), "validation": range(2, 3), "test": range(3, 5), "shard": 1} | splits
    return replace(b, sizes=Sizes(fine, coarse, frames=frames, train_frames=2, warmup=warmup, **splits))
