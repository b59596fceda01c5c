"""A spot check: a few reference frames that are small enough to be stored beside weights, and the errors on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sino.benchmarks import Benchmark, Scheme
from sino.core.errors import UserError
from sino.core.files import read_arrays, save_arrays
from sino.coupling.closure import Closure
from sino.coupling.hybrid import Coupling
from sino.data.well import Trajectories
from sino.evaluate.score import make_free_run

LAST = {1: 150, 2: 40}
"""By dimension: the last frame; on a benchmark of fewer, its last."""
COUNT = {1: (2, 7), 2: (1, 2)}
"""By dimension: how many trajectories, and how many frames of each."""


@dataclass(frozen=True)
class Spot:
    """Some frames of unseen trajectories on the coarse grid."""

    seeds: tuple[int, ...]
    frames: tuple[int, ...]
    """Their numbers; the first is 0."""
    start: Float[np.ndarray, "b c *n"]
    truth: Float[np.ndarray, "b t c *n"]
    """The frames after 0; in two dimensions in half precision, which is far below any closure's error."""


def choose_spot(b: Benchmark, data: Trajectories) -> Spot:
    """The first trajectories of a set, at equally spaced frames."""
    trajectories, count = COUNT[b.dim]
    last = min(LAST[b.dim], b.sizes.frames)
    frames = np.unique(np.linspace(0, last, count).astype(int))
    chosen = np.asarray(data.frames[:trajectories][:, frames], np.float32)
    truth = chosen[:, 1:].astype(np.float32 if b.dim == 1 else np.float16)
    return Spot(tuple(data.seeds[:trajectories]), tuple(map(int, frames)), chosen[:, 0], truth)


def save_spot(path: Path, spot: Spot) -> None:
    """Write it as safetensors."""
    numbers = {"seeds": np.array(spot.seeds, np.int32), "frames": np.array(spot.frames, np.int32)}
    save_arrays(path, {**numbers, "start": spot.start, "truth": spot.truth})


def load_spot(path: Path) -> Spot:
    """Read what `save_spot` wrote."""
    arrays = read_arrays(path)
    if arrays.keys() != {"seeds", "frames", "start", "truth"}:
        raise UserError(f"{path} is damaged: it holds other arrays than a spot check has")
    seeds, frames = (tuple(arrays[name].tolist()) for name in ("seeds", "frames"))
    return Spot(seeds, frames, arrays["start"], arrays["truth"])


def spot_errors(
    b: Benchmark, closure: Closure, spot: Spot, *, scheme: Scheme, coupling: Coupling, precision: str
) -> dict[str, float]:
    """Mean squared error over the frames after 0, with the closure and of the solver `alone`."""
    own = b.scheme_variant(scheme)
    coarse = spot.start.shape[-1]
    run = make_free_run(
        own.solver(coarse), spot.frames[-1], t0=own.start, substeps=own.substeps(coarse), coupling=coupling
    )
    forcing: Any = jax.tree.map(lambda leaf: jnp.asarray(leaf, precision), own.forcings(list(spot.seeds)))
    errors = {}
    for name, tau in {"closure": closure, "alone": None}.items():
        found = run(tau, spot.start.astype(precision), forcing)[:, list(spot.frames[1:])]
        errors[name] = float(np.mean((found.astype(np.float64) - spot.truth.astype(np.float64)) ** 2))
    return errors
