"""Hostile defaults: float64, no silent promotion of dtype or rank. (Warnings are errors: see pyproject.toml.)"""

import itertools
import os
import tempfile

import jax
import pytest

os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="sino-cache-")  # commands keep compiled programs there
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def getkey():
    """A source of fresh random keys, the same in every run."""
    counter = itertools.count()
    return lambda: jax.random.PRNGKey(next(counter))
