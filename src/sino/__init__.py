"""Learned closures inside differentiable solvers."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["benchmark"]

if TYPE_CHECKING:
    from sino.benchmarks import benchmark


def __getattr__(name: str):
    """Import what is asked for when it is asked for, so that `import sino` does not load JAX."""
    if name == "benchmark":
        from sino.benchmarks import benchmark

        return benchmark
    raise AttributeError(f"module 'sino' has no attribute {name!r}")
