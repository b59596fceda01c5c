"""The examples are short, and do what they say."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.fixture
def as_users_have_it():
    """JAX as it comes: float32, and promotion as usual."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) < 80


def test_a_closure_for_a_solver_of_ones_own_helps(as_users_have_it):
    alone, corrected = load("own_solver").main()
    assert corrected < alone / 2


def test_a_closure_runs_in_a_numpy_loop(trained, as_users_have_it):
    u = load("numpy_loop").main(trained.run(), n=32, steps=20)
    assert isinstance(u, np.ndarray) and u.shape == (1, 32) and np.isfinite(u).all()
