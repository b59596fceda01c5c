"""Learned closures inside differentiable solvers."""

__version__ = "0.1.0"
