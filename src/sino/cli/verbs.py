"""The commands and their options. Each `run` imports what it needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class List:
    """Show the twelve benchmarks: grids, steps, forcing and splits; or the networks."""

    models: bool = False
    """Show the networks instead, with their parameter counts beside the paper's."""

    def run(self) -> None:
        """Print the table."""
        from sino.cli.listing import list_benchmarks, list_models

        list_models() if self.models else list_benchmarks()


@dataclass(frozen=True)
class Generate:
    """Simulate a benchmark on its fine grid and store the coarsened trajectories.

    The same command again makes only what is missing; a killed one loses at most the shard in hand.
    """

    benchmark: Positional[str]
    """Name, as `sino list` shows it."""
    trajectories: int | None = None
    """How many seeds; by default all that the preset's training, validation and test splits need."""
    seed0: int = 0
    """First seed."""
    frames: int | None = None
    """Frames after frame 0; by default the preset's."""
    coarse: tuple[int, ...] = ()
    """Coarse grids to store, cells per axis; by default the benchmark's own."""
    keep_fine: tuple[int, ...] = ()
    """Frames of which to store the fine state as well, for pictures."""
    preset: Literal["paper", "small", "tiny"] = "paper"
    """Sizes: as published, minutes on a CPU, or seconds."""
    precision: Literal["float32", "float64"] | None = None
    """Of the fine simulation; by default float64 in 1D and float32 in 2D. Storage is float32."""
    out: Path | None = None
    """Folder of the dataset; by default data/BENCHMARK, with the preset's name behind it unless it is `paper`."""
    dry_run: bool = False
    """Stop after the estimate of time, memory and disk."""

    def run(self) -> None:
        """Generate the dataset."""
        from sino.cli.generation import generate

        generate(self)


@dataclass(frozen=True)
class Inspect:
    """Show what is in a dataset, verify its checksums, and draw it."""

    path: Positional[Path]
    """Folder of the dataset."""
    out: Path | None = None
    """Where to write the picture; by default preview.png in the folder."""

    def run(self) -> None:
        """Print, verify and draw."""
        from sino.cli.inspection import inspect

        inspect(self.path, self.out or self.path / "preview.png")


@dataclass(frozen=True)
class Demo:
    """Make two small flows, measure what a coarse grid gets wrong, and draw it."""

    out: Path = Path("demo")
    """Folder for data and pictures."""

    def run(self) -> None:
        """Run the demo."""
        from sino.cli.demo import demo

        demo(self.out)


VERBS: dict[str, type] = {"list": List, "generate": Generate, "inspect": Inspect, "demo": Demo}
