"""`sino inspect`: what is in a dataset, whether it is whole, and what it looks like."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from sino.benchmarks import BENCHMARKS
from sino.cli.progress import size
from sino.cli.start import start_jax
from sino.core.grid import Grid
from sino.data.store import FINE, Dataset, as_ranges, open_dataset
from sino.physics.staggered import vorticity
from sino.report import figures


def inspect(path: Path, picture: Path) -> None:
    """Print a summary, verify every checksum, and draw one trajectory."""
    start_jax()
    dataset = open_dataset(path)
    configuration = dataset.manifest["configuration"]
    print(f"{path}: dataset of {configuration['benchmark']}")
    for key, value in configuration.items():
        if key != "benchmark":
            print(f"  {key:13s} {value}")
    print(f"  {'seeds':13s} {as_ranges(dataset.seeds)} ({len(dataset.seeds)} trajectories)")
    for seed, reason in dataset.excluded.items():
        print(f"  {'excluded':13s} seed {seed}: {reason}")
    for resolution in dataset.resolutions:
        files = [path / shard["file"] for shard in dataset.manifest["shards"] if shard["resolution"] == resolution]
        total = sum(file.stat().st_size for file in files if file.is_file())
        print(f"  {'grid ' + resolution:13s} {len(files)} shards, {size(total)}")
    dataset.verify()
    print("  every checksum is right")
    print(f"wrote {figures.save(_draw(dataset), picture)}")


def _draw(dataset: Dataset):
    """A picture of the first trajectory on the finest of the coarse grids."""
    resolution = [r for r in dataset.resolutions if r != FINE][-1]
    seed = dataset.seeds[0]
    data = dataset.load(resolution, [seed])
    frames = data.frames[0]
    b = BENCHMARKS[dataset.manifest["configuration"]["benchmark"]]
    if b.dim == 1:
        return figures.space_time(frames[:, 0], data.times, f"{b.name}, seed {seed}, {resolution} cells")
    chosen = np.linspace(0, len(frames) - 1, 5).astype(int)
    rows = {f"{resolution}² cells": vorticities(frames[chosen], b.length)}
    return figures.compare_vorticity(rows, data.times[chosen], f"{b.name}, seed {seed}")


def vorticities(frames: np.ndarray, length: float) -> np.ndarray:
    """Vorticity `(t, x, y)` of staggered velocities `(t, 2, x, y)`."""
    grid = Grid(frames.shape[2:], (length, length))
    return np.stack([np.asarray(vorticity(jnp.asarray(frame), grid)) for frame in frames])
