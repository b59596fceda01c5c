"""Slow checks of the physics, with asserts. Each module runs by itself: `python -m validation.one_dimensional`."""
