"""The commands and their options. Each `run` imports what it needs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class List:
    """Show the twelve benchmarks: grids, steps, forcing and splits; or the networks."""

    models: bool = False
    """Show the networks instead, with their parameter counts beside the paper's."""
    weights: bool = False
    """Show instead the trained closures that come with this package: what they are, their errors and their limits."""

    def run(self) -> None:
        """Print the table."""
        from sino.cli.listing import list_benchmarks, list_models, list_weights

        list_weights() if self.weights else list_models() if self.models else list_benchmarks()


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
class Train:
    """Train a closure inside the coarse solver.

    Data that are missing are generated first. The same command again goes on where it stopped, after a kill too.
    Options that are not given are the schedule's.
    """

    benchmark: Positional[str]
    """Name, as `sino list` shows it."""
    model: str = "sino"
    """A network, as `sino list --models` shows it; or smagorinsky or hyperviscosity, which have one coefficient."""
    preset: Literal["paper", "small", "tiny"] = "paper"
    """Sizes: as published, minutes on a CPU, or seconds."""
    schedule: Literal["ours", "paper"] = "ours"
    """The recipe that we found best, or the paper's."""
    seeds: tuple[int, ...] = (1,)
    """One network per seed. They train together, and each has its own run folder."""
    data: Path | None = None
    """Dataset; by default data/BENCHMARK, which is generated if it is not there."""
    out: Path | None = None
    """Folder for the runs; by default runs/BENCHMARK/MODEL, with the schedule behind it if it is the paper's."""
    coarse: int | None = None
    """Cells per axis of the coarse grid; by default the benchmark's. The dataset must hold it."""
    trajectories: int | None = None
    """Train on the first so many trajectories only; by default on all of the training split."""
    scheme: Literal["paper", "strong", "weno"] = "paper"
    """Of the coarse solver: the paper's, or a stronger classical one (see the documentation)."""
    sizes: dict[str, str] = field(default_factory=dict)
    """Sizes of the network that differ from the paper's, such as `--sizes width 8 depth 2`."""
    stages: tuple[tuple[int, int], ...] | None = None
    """Pairs of rollout length in frames and number of epochs, such as `--stages 20 100 60 60`."""
    epochs_scale: float = 1.0
    """Factor on the number of epochs of every stage."""
    batch: int | None = None
    """Windows per update."""
    passes: int | None = None
    """Windows of each trajectory per epoch."""
    optimiser: Literal["adam", "soap"] | None = None
    """Adam (the paper), or Adam along axes that follow the covariances of the gradient (SOAP). With Adam, our schedule
    does better at `--learning-rate 5e-3`."""
    learning_rate: float | None = None
    """At its peak."""
    warmup: float | None = None
    """Fraction of all updates over which the learning rate rises."""
    kernel_rate: float | None = None
    """Factor on the learning rate of the layers that generate kernels."""
    weight_decay: float | None = None
    """Decoupled from the gradient, as in AdamW."""
    clip: float | None = None
    """Largest norm of the gradient; 0 for no limit."""
    loss: Literal["mse", "log", "rms"] | None = None
    """Mean squared error (the paper), the mean over trajectories of its logarithm, or the logarithm of the mean over
    trajectories of its root."""
    gradient: Literal["full", "stopped", "one-step"] | None = None
    """Through the whole rollout, stopped at every frame, or of single frames from the reference."""
    windows: Literal["first", "random"] | None = None
    """Rollouts begin at frame 0 (the paper), or anywhere in the training window."""
    noise: float | None = None
    """White noise on initial states, as a fraction of the error of the solver alone over the training window."""
    average: float | None = None
    """Decay of the running average of the weights; 0 for none."""
    coupling: Literal["frozen", "stages", "after"] | None = None
    """Closure evaluated once per step (the paper), in every stage, or added after the step."""
    out_scale: Literal["defect", "sigma"] | None = None
    """Scale of the closure: the one-step defect, or the deviation of the data (the paper)."""
    zero_mean: bool | None = None
    """Take the mean over the grid off the closure."""
    data_seed: int | None = None
    """Seed of the order of the data, windows and noise."""
    precision: Literal["float32", "float64"] = "float32"
    """Of the training."""
    evaluate_every: int | None = None
    """Epochs between rollouts on validation and training trajectories; by default a thirtieth of all."""
    memory: float | None = None
    """GB of device memory that a rollout may take before its steps are computed again in the backward pass."""
    tensorboard: bool = False
    """Write TensorBoard events too (needs the extra `track`)."""
    dry_run: bool = False
    """Stop after the estimate of time and memory."""

    def run(self) -> int:
        """Train."""
        from sino.cli.training import train

        return train(self)


@dataclass(frozen=True)
class Evaluate:
    """Measure trained closures on training and unseen trajectories, beside the coarse grid alone.

    Data that are missing are generated first. The same weights can be tried on another flow or grid, without training.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs: of one seed, or a folder above several, of which those are taken that have weights."""
    data: Path | None = None
    """Dataset; by default data/BENCHMARK, which is generated if it is not there."""
    on: str | None = None
    """Another benchmark of the same dimension, with its solver, forcing and trajectories."""
    coarse: int | None = None
    """Cells per axis of the coarse grid; by default the training's or, on another benchmark, its own."""
    weights: Literal["all", "final", "best", "selected"] = "all"
    """Of the end, chosen by validation, or chosen by the paper's rule on the test window."""

    def run(self) -> None:
        """Evaluate."""
        from sino.cli.evaluation import evaluate

        evaluate(self)


@dataclass(frozen=True)
class Analyze:
    """Look into trained closures: their kernels, what theory says of them, scaling laws, and what they cost.

    Several runs of one benchmark and network at different sizes make a scaling law.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs: of one seed, or a folder above several, of which those are taken that have weights."""
    cost: bool = False
    """Measure wall clock and error of the closure, of finer grids and of a better classical scheme, on this device."""
    grids: tuple[int, ...] | None = None
    """Finer grids for the cost, cells per axis; by default twice and four times the coarse one."""
    trajectories: int | None = None
    """Unseen trajectories whose errors count for the cost; by default four."""
    batch: int | None = None
    """Trajectories that are timed side by side; by default as many as errors are taken of."""
    window: tuple[int, int] | None = None
    """First and last frame of the errors for the cost; by default those after the training window."""
    out: Path | None = None
    """File of the scaling laws; by default scaling.json beside the runs, if they come in several sizes."""

    def run(self) -> None:
        """Analyse."""
        from sino.cli.analysis import analyze

        analyze(self)


@dataclass(frozen=True)
class Report:
    """Put all that runs came to on one page: the verdict, tables beside the paper's, and figures.

    Works from result files alone, which `sino evaluate` and `sino analyze` make; what is missing is said in its place.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of runs, or folders above them; files of scaling laws too."""
    out: Path = Path("report.html")
    """The page: one file that needs no network."""
    tables: Path | None = None
    """Folder for the tables as Markdown and LaTeX, and for the figures; by default none are written."""
    title: str | None = None
    """Heading of the page."""

    def run(self) -> None:
        """Write the report."""
        from sino.cli.reporting import report

        report(self)


@dataclass(frozen=True)
class Inspect:
    """Show what is in a dataset or a run, verify its checksums, and draw it."""

    path: Positional[Path]
    """Folder of the dataset, or of the run of one seed."""
    out: Path | None = None
    """Where to write the picture; by default preview.png in the folder."""

    def run(self) -> None:
        """Print, verify and draw."""
        from sino.cli.inspection import inspect

        inspect(self.path, self.out or self.path / "preview.png")


@dataclass(frozen=True)
class Reproduce:
    """Make all runs of an experiment file: data, trainings, evaluations, and one file of results.

    The same command again goes on where it stopped and skips what is done. A run that fails does not hold up others.
    """

    name: Positional[str]
    """Name of a file in the repository's folder `experiments`, or the path of a TOML file."""
    processes: int | None = None
    """Trainings side by side, each in its own process; by default one per core, and one in all on a GPU, where a
    training has all seeds of a run."""
    only: tuple[str, ...] = ()
    """Only runs with one of these texts in `BENCHMARK/MODEL`; a whole such name is that one alone."""
    seeds: tuple[int, ...] = ()
    """Only these seeds of the runs."""
    seconds: float | None = None
    """Start nothing after so many seconds, and ask what runs to save and stop."""
    out: Path | None = None
    """Folder for the runs; by default runs/NAME."""
    data: Path = Path("data")
    """Folder of the datasets; those that are missing are generated there."""
    results: Path | None = None
    """File of results; by default results/reproduction/NAME.json in the repository, for a file of `experiments`, else
    NAME.json beside the runs."""
    dry_run: bool = False
    """List the runs and their state, then stop."""

    def run(self) -> int:
        """Reproduce."""
        from sino.cli.reproduction import reproduce

        return reproduce(self)


@dataclass(frozen=True)
class Demo:
    """The whole story on two small flows, in minutes on a CPU: data, training in the loop, a verdict, a report.

    The same command again goes on where it stopped.
    """

    out: Path = Path("demo")
    """Folder for data, runs and the report."""

    def run(self) -> int:
        """Run the demo."""
        from sino.cli.demo import demo

        return demo(self.out)


VERBS: dict[str, type] = {
    "list": List,
    "generate": Generate,
    "train": Train,
    "evaluate": Evaluate,
    "analyze": Analyze,
    "report": Report,
    "inspect": Inspect,
    "reproduce": Reproduce,
    "demo": Demo,
}
