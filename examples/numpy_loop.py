"""Use a trained closure in a solver that knows nothing of JAX: a plain NumPy loop.

`python examples/numpy_loop.py RUN`, where RUN is a run folder of a one-dimensional flow, made by `sino train`.
"""

import sys

import jax
import numpy as np

import sino


def main(run, n=64, steps=100, dt=1e-3):
    """Burgers' equation on `n` cells by forward Euler, with the closure's tendency on its right-hand side."""
    closure = sino.load_closure(run)
    tendency = jax.jit(closure.prepare((n,)))  # kernels are made once; what is left is a function of an array
    dx = 2 * np.pi / n
    u = np.sin(dx * np.arange(n))[None]  # one channel
    for _ in range(steps):
        right, left = np.roll(u, -1, -1), np.roll(u, 1, -1)
        resolved = -(right**2 - left**2) / (4 * dx) + 0.01 * (right - 2 * u + left) / dx**2
        u = u + dt * (resolved + np.asarray(tendency(u)))
    print(f"after {steps} steps: mean {u.mean():.6f}, largest {np.abs(u).max():.4f}")
    return u


if __name__ == "__main__":
    main(sys.argv[1])
