"""A dataset: a folder of shards, and a manifest that is written last.

    DIR/manifest.json               configuration, exclusions, and the SHA-256 of every shard
    DIR/64/seed-00000.h5            trajectories of seeds 0..15 coarsened to 64 cells per axis
    DIR/fine/seed-00000.h5          chosen fine frames, if they were asked for

The folder can grow: more seeds are more shards. A missing or altered shard is an error that names it.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sino.core.errors import UserError
from sino.core.files import write_json
from sino.data.well import FORMAT_VERSION, Trajectories, read_shard

FINE = "fine"
READERS = 4
"""Shards that are read at once: each is hashed, which takes longer than to read it."""


def shard_file(resolution: int | str, first_seed: int) -> str:
    """Path of a shard inside its dataset."""
    return f"{resolution}/seed-{first_seed:05d}.h5"


@dataclass(frozen=True)
class Dataset:
    """A finished dataset. Opening reads the manifest only; loading checks every shard that it reads."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def resolutions(self) -> list[str]:
        """Grids that are stored: cells per axis in rising order, then `fine`."""
        stored = {shard["resolution"] for shard in self.manifest["shards"]}
        return sorted(stored, key=lambda r: (r == FINE, len(r), r))

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trajectories that are stored, in rising order."""
        return sorted({seed for shard in self.manifest["shards"] for seed in shard["seeds"]})

    @property
    def excluded(self) -> dict[int, str]:
        """Seeds that were simulated but left out, and why."""
        return {item["seed"]: item["reason"] for item in self.manifest["excluded"]}

    def load(self, resolution: int | str, seeds: Iterable[int] | None = None) -> Trajectories:
        """Trajectories on one grid in order of seed: all of them, or those of `seeds` that were not excluded."""
        if str(resolution) not in self.resolutions:
            raise UserError(f"{self.path} holds no grid of {resolution}; it has {', '.join(self.resolutions)}")
        wanted = set(self.seeds if seeds is None else seeds) - set(self.excluded)
        if missing := sorted(wanted - set(self.seeds)):
            raise UserError(f"{self.path} holds no trajectory of seed {missing[0]}; it has {as_ranges(self.seeds)}")
        shards = [s for s in self.manifest["shards"] if s["resolution"] == str(resolution) and wanted & set(s["seeds"])]
        if not shards:
            raise UserError(f"{self.path} holds none of the trajectories that were asked for")
        with ThreadPoolExecutor(READERS) as pool:
            parts = list(pool.map(self._read, sorted(shards, key=lambda s: s["seeds"])))
        rows = [[row for row, seed in enumerate(part.seeds) if seed in wanted] for part in parts]
        chosen = list(zip(parts, rows, strict=True))
        return Trajectories(
            frames=np.concatenate([part.frames[row] for part, row in chosen]),
            seeds=tuple(part.seeds[r] for part, row in chosen for r in row),
            times=parts[0].times,
            forcing={key: np.concatenate([part.forcing[key][row] for part, row in chosen]) for key in parts[0].forcing},
        )

    def verify(self) -> None:
        """Read every shard; raise, naming it, at the first that is missing or altered."""
        for shard in self.manifest["shards"]:
            self._read(shard)

    def _read(self, shard: Mapping[str, Any]) -> Trajectories:
        return read_shard(self.path / shard["file"], shard["sha256"])


def open_dataset(path: Path) -> Dataset:
    """Open a dataset folder."""
    file = path / "manifest.json"
    if not path.is_dir():
        raise UserError(f"{path} is not a dataset: there is no such folder")
    if not file.is_file():
        raise UserError(f"{path} is not a finished dataset: it has no manifest.json; run `sino generate` again")
    try:
        manifest = json.loads(file.read_text())
        if manifest["format_version"] > FORMAT_VERSION:
            raise UserError(f"{file} has format {manifest['format_version']}; this sino reads up to {FORMAT_VERSION}")
        _check(manifest)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged ({type(error).__name__}: {error}); run `sino generate` again") from error
    return Dataset(path, manifest)


def write_manifest(
    path: Path, configuration: Mapping[str, Any], shards: list[dict[str, Any]], excluded: list[dict[str, Any]]
) -> None:
    """Write the manifest: from now on the folder is a dataset."""
    manifest = {
        "format_version": FORMAT_VERSION,
        "configuration": configuration,
        "excluded": sorted(excluded, key=lambda item: item["seed"]),
        "shards": sorted(shards, key=lambda shard: shard["file"]),
    }
    write_json(path / "manifest.json", manifest)


def as_ranges(seeds: Iterable[int]) -> str:
    """`[0, 1, 2, 5]` as `0-2, 5`."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def _check(manifest: Mapping[str, Any]) -> None:
    """Touch what is used later, so that a damaged manifest fails on opening, not in the middle of a training."""
    _ = manifest["configuration"]["benchmark"], [(item["seed"], item["reason"]) for item in manifest["excluded"]]
    for shard in manifest["shards"]:
        if not (isinstance(shard["resolution"], str) and isinstance(shard["sha256"], str)):
            raise ValueError("a shard without a grid or a hash")
        if not all(isinstance(seed, int) for seed in shard["seeds"]):
            raise ValueError("a shard whose seeds are no numbers")
        file = Path(shard["file"])
        if file.is_absolute() or ".." in file.parts:
            raise ValueError(f"a shard outside the folder: {file}")
