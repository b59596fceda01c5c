"""Flows: differentiable solvers, their initial states and forcings, and exact solutions to test them with."""
