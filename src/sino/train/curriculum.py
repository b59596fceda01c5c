"""A recipe: rollout lengths, learning rate and everything else that decides what a training does."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from sino.core.errors import UserError
from sino.coupling.closure import OutScale
from sino.coupling.hybrid import Coupling
from sino.data.windows import Windows

Schedule = Literal["ours", "paper"]
Loss = Literal["mse", "log", "rms"]
Gradient = Literal["full", "stopped", "one-step"]
Optimiser = Literal["adam", "soap"]
COMPILATIONS = 4
"""A schedule of more rollout lengths than this shares compiled programs between them."""


class Stage(NamedTuple):
    """So many epochs of rollouts over so many frames."""

    frames: int
    epochs: int


@dataclass(frozen=True)
class Recipe:
    """How to train. Immutable; `dataclasses.replace` makes variants."""

    stages: tuple[Stage, ...]
    batch: int = 8
    passes: int = 1
    """Windows of each trajectory per epoch."""
    optimiser: Optimiser = "adam"
    learning_rate: float = 1e-3
    warmup: float = 0.0
    """Fraction of all updates over which the learning rate rises from zero; then it falls to zero along a cosine."""
    kernel_rate: float = 1.0
    """Factor on the learning rate of the layers that generate kernels (SINO's hypernetworks)."""
    weight_decay: float = 0.0
    clip: float = 0.0
    """Largest norm of the gradient, if not 0."""
    loss: Loss = "mse"
    gradient: Gradient = "full"
    windows: Windows = "first"
    noise: float = 0.0
    """White noise on the initial state of a window: its deviation, as a fraction of the error that the solver makes
    alone over the training window."""
    average: float = 0.0
    """Decay of the running average of the weights; 0 takes the weights as they are."""
    coupling: Coupling = "frozen"
    out_scale: OutScale = "sigma"
    zero_mean: bool = False
    data_seed: int = 42

    @property
    def epochs(self) -> int:
        """Epochs of all stages."""
        return sum(stage.epochs for stage in self.stages)

    @property
    def longest(self) -> int:
        """Frames of the longest rollout."""
        return max(stage.frames for stage in self.stages)

    @property
    def chunk(self) -> int:
        """Frames that are skipped, or computed again, together: every rollout length is a multiple of it."""
        return math.gcd(*(stage.frames for stage in self.stages))

    def frames(self, epoch: int) -> int:
        """Rollout length of an epoch, counted from 0."""
        for stage in self.stages:
            if epoch < stage.epochs:
                return stage.frames
            epoch -= stage.epochs
        raise IndexError("past the last epoch")

    def bucket(self, frames: int) -> int:
        """The length of the compiled program that runs a rollout of `frames`: at most four serve a schedule."""
        lengths = sorted({stage.frames for stage in self.stages})
        share = -(-len(lengths) // COMPILATIONS)
        return lengths[min(len(lengths) - 1, lengths.index(frames) // share * share + share - 1)]

    def rate(self, progress: float) -> float:
        """Learning rate at a fraction of all updates."""
        if progress < self.warmup:
            return self.learning_rate * progress / self.warmup
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * (progress - self.warmup) / (1 - self.warmup)))


OURS = Recipe(
    stages=(Stage(20, 150), Stage(60, 450), Stage(150, 200)),
    optimiser="soap",
    learning_rate=1e-2,
    kernel_rate=4.0,
    warmup=0.05,
    clip=1.0,
    loss="rms",
    windows="random",
    noise=0.04,
    average=0.995,
    out_scale="defect",
    zero_mean=True,
)
"""Found by measurement on three flows in one dimension: see docs/training.md."""
OURS_2D = replace(OURS, stages=(Stage(20, 100), Stage(40, 300)), learning_rate=5e-3)
"""Ours in two and three dimensions, where a step is dear: longer rollouts cost more than they brought."""


def paper_stages(longest: int, epochs: int = 300) -> tuple[Stage, ...]:
    """`K = min(10 + 15 floor((epoch - 1)/10), longest)` for `epochs` epochs."""
    lengths = [min(10 + 15 * (epoch // 10), longest) for epoch in range(epochs)]
    return tuple(Stage(length, lengths.count(length)) for length in sorted(set(lengths)))


def recipe_for(
    schedule: Schedule, train_frames: int, trajectories: int, weight_decay: float = 0.0, dim: int = 1
) -> Recipe:
    """The recipe of a schedule for a training window of `train_frames` frames of so many trajectories.

    `weight_decay` is the benchmark's, for the paper's schedule. Ours takes several windows of each trajectory per
    epoch when there are few, so that an epoch is the same amount of work.
    """
    if schedule == "paper":
        return Recipe(paper_stages(train_frames), weight_decay=weight_decay)
    ours = OURS if dim == 1 else OURS_2D
    stages = tuple(Stage(min(k, train_frames), epochs) for k, epochs in ours.stages)
    return replace(ours, stages=stages, passes=max(1, round(64 / trajectories)))


def check_recipe(recipe: Recipe, train_frames: int) -> None:
    """Raise, naming the option, if a recipe makes no sense for this data."""
    for name, value, low, high in (
        ("batch", recipe.batch, 1, math.inf),
        ("passes", recipe.passes, 1, math.inf),
        ("learning-rate", recipe.learning_rate, 0.0, sys.float_info.max),
        ("warmup", recipe.warmup, 0.0, 0.99),
        ("kernel-rate", recipe.kernel_rate, 0.0, sys.float_info.max),
        ("data-seed", recipe.data_seed, 0, math.inf),
        ("weight-decay", recipe.weight_decay, 0.0, math.inf),
        ("clip", recipe.clip, 0.0, math.inf),
        ("noise", recipe.noise, 0.0, math.inf),
        ("average", recipe.average, 0.0, 0.999999),
    ):
        if not low <= value <= high:
            raise UserError(f"--{name} must be between {low} and {high}, not {value}")
    if not recipe.stages or min(min(stage) for stage in recipe.stages) < 1:
        raise UserError("every stage needs at least one frame and one epoch")
    if recipe.longest > train_frames:
        raise UserError(f"a rollout of {recipe.longest} frames does not fit the training window of {train_frames}")
