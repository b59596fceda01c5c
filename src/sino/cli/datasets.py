"""The data of a benchmark, as training and evaluation need them: found, generated if nobody made them yet, checked."""

from collections.abc import Iterable
from pathlib import Path

import jax
import jax.numpy as jnp

from sino.benchmarks import Benchmark, Preset
from sino.cli.generation import generate
from sino.cli.verbs import Generate
from sino.core.errors import UserError, differences
from sino.data.store import Dataset, open_dataset
from sino.physics.solver import Source


def name_with_preset(b: Benchmark, preset: Preset) -> str:
    """The name of the folders of a benchmark at the sizes of a preset."""
    return b.name if preset == "paper" else f"{b.name}-{preset}"


def find_dataset(b: Benchmark, preset: Preset, coarse: int, path: Path | None) -> Dataset:
    """The dataset at `path`, or the default one, which is generated if it is not there. It must be of this flow at the
    same sizes, and hold the coarse grid.

    The default is data/BENCHMARK; for a grid that is not the benchmark's own and not in there, data/BENCHMARK-to-CELLS.
    """
    folder = path or dataset_folder(b, preset, coarse)
    if path is None and not is_dataset(folder):
        print(f"{folder} is not there yet: generating it")
        generate(Generate(b.name, preset=preset, coarse=(coarse,), out=folder))
    dataset = open_dataset(folder)
    stored = dataset.manifest["configuration"]
    wanted = {key: value for key, value in b.describe().items() if key != "precision"} | {"frames": b.sizes.frames}
    if found := differences(stored, wanted):
        raise UserError(f"{folder} is another dataset: {'; '.join(found)}; give the right one with --data")
    if str(coarse) not in dataset.resolutions:
        advice = f"`sino generate {b.name} --preset {preset} --coarse {coarse} --out DIR`"
        raise UserError(
            f"{folder} holds no grid of {coarse}, only {', '.join(dataset.resolutions)}; make one with {advice} and "
            "give it with --data"
        )
    return dataset


def shard_hashes(dataset: Dataset, coarse: int, seeds: Iterable[int]) -> dict[str, str]:
    """SHA-256 of the shards that hold these seeds on the coarse grid, by file."""
    used, shards = set(seeds), dataset.manifest["shards"]
    return {s["file"]: s["sha256"] for s in shards if s["resolution"] == str(coarse) and used & set(s["seeds"])}


def forcings_in(b: Benchmark, seeds: Iterable[int], precision: str) -> Source | None:
    """The forcings of several seeds, stacked, in the precision of a simulation."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, precision), b.forcings(list(seeds)))


def dataset_folder(b: Benchmark, preset: Preset, coarse: int, root: Path = Path("data")) -> Path:
    """Where the trajectories of a benchmark on a coarse grid lie below `root`, or will."""
    usual = root / name_with_preset(b, preset)
    if coarse == b.sizes.coarse or (is_dataset(usual) and str(coarse) in open_dataset(usual).resolutions):
        return usual
    return usual.with_name(f"{usual.name}-to-{coarse}")


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a dataset that was finished."""
    return (folder / "manifest.json").is_file()
