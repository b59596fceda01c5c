"""Grids, Fourier transforms, rollouts and files: what every other room stands on, with no physics in it."""
