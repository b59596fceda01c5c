"""Learned closures inside differentiable solvers."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["benchmark", "build_model", "count_parameters", "fit", "load_closure", "rollout"]

if TYPE_CHECKING:
    from sino.benchmarks import benchmark
    from sino.coupling.hybrid import rollout
    from sino.models import build_model, count_parameters
    from sino.train.loop import fit
    from sino.train.run import load_closure

_HOMES = {
    "benchmark": "sino.benchmarks",
    "build_model": "sino.models",
    "count_parameters": "sino.models",
    "fit": "sino.train.loop",
    "load_closure": "sino.train.run",
    "rollout": "sino.coupling.hybrid",
}


def __getattr__(name: str):
    """Import what is asked for when it is asked for, so that `import sino` does not load JAX."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sino' has no attribute {name!r}")
