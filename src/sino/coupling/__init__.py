"""Closures, and solvers that carry one."""
