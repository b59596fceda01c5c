"""One switch for all that is computed in another way than the equations are written, because it is faster.

Every fast path gives the same values and gradients as the plain one up to rounding, and is tested against it. Set the
environment variable `SINO_FAST=0` to use the plain ones everywhere.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np


def allowed() -> bool:
    """Whether fast paths may be taken at all."""
    return os.environ.get("SINO_FAST", "1") != "0"


def accelerated() -> bool:
    """Whether programs run on an accelerator, where many small operations are dear and arithmetic is cheap."""
    return allowed() and jax.default_backend() != "cpu"


def kernels(dtype: np.dtype | type) -> bool:
    """Whether arrays of this type go through kernels written in Pallas: in single precision, on a GPU."""
    return allowed() and jax.default_backend() in ("gpu", "cuda") and dtype == jnp.float32


PRODUCTS = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
"""Precision of products on the matrix units of a GPU: in three parts, with the rounding of float32."""
