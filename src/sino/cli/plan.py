"""What `sino generate` was asked for, checked before anything is written."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sino.benchmarks import Benchmark, benchmark
from sino.cli.progress import size
from sino.cli.verbs import Generate
from sino.core.errors import UserError, differences
from sino.data.coarsen import check_divides
from sino.data.store import FINE, open_dataset, shard_file
from sino.data.well import read_labels


@dataclass(frozen=True)
class Plan:
    """A request that has been checked: which trajectories of which flow, at which resolutions, and where."""

    benchmark: Benchmark
    seeds: range
    coarse: tuple[int, ...]
    keep_fine: tuple[int, ...]
    out: Path

    @property
    def configuration(self) -> dict[str, Any]:
        """What determines the content of a shard. A folder holds shards of one configuration."""
        sizes = self.benchmark.sizes
        own = {"frames": sizes.frames, "coarse": list(self.coarse), "keep_fine": list(self.keep_fine)}
        return self.benchmark.describe() | own | {"shard": sizes.shard}

    @property
    def shards(self) -> list[range]:
        """All seeds of each batch that holds a wanted seed. A batch is always simulated whole."""
        count = self.benchmark.sizes.shard
        return [range(first, first + count) for first in range(self.seeds[0] // count * count, self.seeds.stop, count)]

    @property
    def resolutions(self) -> list[str]:
        """The folders of a dataset: one per coarse grid, and one for fine frames."""
        return [str(n) for n in self.coarse] + ([FINE] if self.keep_fine else [])

    def files(self, batch: range) -> list[Path]:
        """The shards of a batch, one per resolution."""
        return [self.out / shard_file(resolution, batch[0]) for resolution in self.resolutions]

    @property
    def bytes_per_trajectory(self) -> int:
        """Size on disk."""
        b = self.benchmark
        cells = (b.sizes.frames + 1) * sum(n**b.dim for n in self.coarse) + len(self.keep_fine) * b.sizes.fine**b.dim
        return 4 * len(b.offsets) * cells


def make_plan(options: Generate) -> Plan:
    """Check a request. Nothing is written, whatever is wrong with it."""
    b = benchmark(options.benchmark, options.preset)
    frames = b.sizes.frames if options.frames is None else options.frames
    count = b.sizes.trajectories if options.trajectories is None else options.trajectories
    if count < 1:
        raise UserError(f"--trajectories must be at least 1, not {count}")
    if frames < 1:
        raise UserError(f"--frames must be at least 1, not {frames}")
    if options.seed0 < 0:
        raise UserError(f"--seed0 must not be negative: {options.seed0}")
    coarse = tuple(sorted(set(options.coarse or (b.sizes.coarse,))))
    for n in coarse:
        check_divides(b.sizes.fine, n)
    for frame in options.keep_fine:
        if not 0 <= frame <= frames:
            raise UserError(f"--keep-fine {frame} is not one of the frames 0..{frames}")
    name = options.benchmark if options.preset == "paper" else f"{options.benchmark}-{options.preset}"
    b = replace(b, sizes=replace(b.sizes, frames=frames), precision=options.precision or b.precision)
    seeds = range(options.seed0, options.seed0 + count)
    plan = Plan(b, seeds, coarse, tuple(sorted(set(options.keep_fine))), options.out or Path("data") / name)
    _check_folder(plan)
    return plan


def check_space(plan: Plan, shards: int) -> None:
    """Raise if the disk cannot hold what is missing."""
    folder = next(parent for parent in (plan.out, *plan.out.resolve().parents) if parent.exists())
    need = plan.bytes_per_trajectory * plan.benchmark.sizes.shard * shards
    free = shutil.disk_usage(folder).free
    if need > free:
        raise UserError(f"{plan.out} needs {size(need)}, but only {size(free)} are free there")


def _check_folder(plan: Plan) -> None:
    """Raise if the output path cannot take this dataset."""
    out = plan.out
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder with --out")
    if (out / "manifest.json").is_file():
        stored = open_dataset(out).manifest["configuration"]
    elif shards := sorted(out.glob("*/seed-*.h5")):
        stored = read_labels(shards[0])["configuration"]
    elif any(path.is_file() and path.suffix != ".tmp" for path in out.rglob("*")):  # a kill may leave .tmp files
        raise UserError(f"{out} is not empty and holds no dataset; give another folder with --out")
    else:
        return
    if found := differences(stored, plan.configuration):
        raise UserError(f"{out} holds another configuration's data: {'; '.join(found)}; give another --out")
