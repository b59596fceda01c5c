"""`sino inspect`: what is in a dataset or a run, whether it is whole, and what it looks like."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sino.benchmarks import BENCHMARKS
from sino.cli.progress import size
from sino.cli.start import start_jax
from sino.data.store import FINE, Dataset, as_ranges, open_dataset
from sino.metrics.velocity import vorticity
from sino.report import figures
from sino.train import checkpoint
from sino.train.run import Run
from sino.train.session import CHOICES


def inspect(path: Path, picture: Path) -> None:
    """Print a summary, verify every checksum, and draw."""
    start_jax()
    if (path / "config.json").is_file():
        _inspect_run(Run(path), picture)
    else:
        _inspect_dataset(path, picture)


def _inspect_run(run: Run, picture: Path) -> None:
    configuration = run.configuration()
    print(f"{run.path}: {configuration['model']} on {configuration['benchmark']}, seed {configuration['seed']}")
    for key in ("preset", "coarse", "scheme", "sizes", "schedule", "precision"):
        print(f"  {key:13s} {configuration[key]}")
    for key, value in configuration["recipe"].items():
        print(f"  {key:13s} {value}")
    lines = run.metrics()
    updates = [line for line in lines if line["kind"] == "update"]
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    for line in lines:
        if line["kind"] == "event":
            print(f"  {line['event']} at update {line['update']}, frame {line['frame']} of {line['frames']}")
    for folder in sorted(run.path.glob("checkpoints/*")):
        checkpoint.verify(folder)
        print(f"  {folder.name:13s} update {checkpoint.read_facts(folder).get('update', '-')}")
    print(f"  every checksum is right; the run has {'ended' if run.finished else 'not ended'}")
    if not updates:
        return
    losses = {"loss": _curve(updates, lambda line: line["loss"])}
    errors = {judge: _curve(evaluations, lambda line, judge=judge: line[judge]["mean"]) for judge in CHOICES}
    title = f"{configuration['model']} on {configuration['benchmark']}, seed {configuration['seed']}"
    print(f"wrote {figures.save(figures.training_curves(losses, errors, title), picture)}")


def _curve(lines: list[dict[str, Any]], value: Callable[[dict[str, Any]], Any]) -> tuple[np.ndarray, np.ndarray]:
    """Updates and values; a gap where there is none."""
    values = [value(line) for line in lines]
    return np.array([line["update"] for line in lines]), np.array([np.nan if v is None else v for v in values])


def _inspect_dataset(path: Path, picture: Path) -> None:
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
    rows = {f"{resolution}² cells": vorticity(frames[chosen], b.length)}
    return figures.compare_vorticity(rows, data.times[chosen], f"{b.name}, seed {seed}")
