"""For tests of which the programs are tiny and run once."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_to_compile():
    """Compile without optimising: that would take longer than running them."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
