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


@pytest.fixture(scope="module")
def quick_to_compile():
    """Programs that are tiny and run once: optimising them would take longer than running them."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A tiny training of two seeds that has ended, made once. Copy it before you change it."""
    from tiny_training import make_finished

    return make_finished(tmp_path_factory.mktemp("tiny-training"))


@pytest.fixture
def quick(monkeypatch):
    """Commands take data and compiled programs from earlier ones of the same process."""
    from tiny_training import remember_programs

    remember_programs(monkeypatch)
