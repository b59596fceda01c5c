"""Networks: SINO, its two halves, and eight baselines. They know arrays, not physics."""

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sino.core.errors import UserError
from sino.models.amfno import AMFNO
from sino.models.deeponet import DeepONet
from sino.models.fno import FNO
from sino.models.galerkin import GalerkinTransformer
from sino.models.layers import Key
from sino.models.model import AbstractModel, count_parameters
from sino.models.oformer import OFormer
from sino.models.sino import SINO
from sino.models.transolver import Transolver
from sino.models.ufno import UFNO
from sino.models.unet import UNet

__all__ = ["MODELS", "PAPER_COUNTS", "AbstractModel", "build_model", "count_parameters"]

MODELS: dict[str, Callable[..., AbstractModel]] = {
    "sino": SINO,
    "sino-spe": partial(SINO, branch="frequency"),
    "sino-spa": partial(SINO, branch="spatial"),
    "unet": UNet,
    "deeponet": DeepONet,
    "transolver": Transolver,
    "oformer": OFormer,
    "galerkin": GalerkinTransformer,
    "fno": FNO,
    "ufno": UFNO,
    "amfno": AMFNO,
}
"""By name, as functions of the dimension, a key and sizes."""

PAPER_COUNTS: dict[str, tuple[int, int]] = {
    "sino": (6_681, 59_314),
    "sino-spe": (3_877, 33_834),
    "sino-spa": (1_797, 17_322),
    "unet": (7_077, 61_006),
    "deeponet": (14_913, 269_153),
    "transolver": (8_601, 54_306),
    "oformer": (5_444, 38_087),
    "galerkin": (36_449, 151_874),
    "fno": (11_073, 2_106_018),
    "ufno": (26_017, 1_346_466),
    "amfno": (9_489, 120_162),
}
"""The paper's parameter counts, in 1D and 2D."""


def build_model(name: str, *, dim: int, key: Key, dtype: Any = jnp.float32, **sizes: Any) -> AbstractModel:
    """The network called `name` in `dim` dimensions, at the paper's sizes unless `sizes` says otherwise."""
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, n=1, cutoff=0.0)[0]
        raise UserError(f"there is no network {name!r}; did you mean {near!r}? The networks are {', '.join(MODELS)}")
    valid = model_sizes(name)
    for size in sizes:
        if size not in valid:
            raise UserError(f"{name} has no size {size!r}; its sizes are {', '.join(valid)}")
    model = MODELS[name](dim, key=key, **sizes)
    return jax.tree.map(lambda leaf: leaf.astype(dtype), model)


def model_sizes(name: str) -> list[str]:
    """The sizes that a network can be given."""
    constructor = MODELS[name]
    fixed = {"dim", "key"} | set(constructor.keywords if isinstance(constructor, partial) else ())
    return [size for size in inspect.signature(constructor).parameters if size not in fixed]
