"""Measure simulations against the truth."""
