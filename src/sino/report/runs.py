"""Runs and what they tell: settings, the seeds of one configuration, and all of them together."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sino.benchmarks import BENCHMARKS, Benchmark, Preset, benchmark
from sino.models import PAPER_COUNTS
from sino.report.analyses import Analysis, Scaling
from sino.report.names import BENCHMARK_TITLES, MODEL_TITLES, grid_title
from sino.report.results import Evaluation, Score, Scores

PRESETS: tuple[Preset, ...] = ("paper", "small", "tiny")


@dataclass(frozen=True)
class Setting:
    """A flow on a coarse grid, and the scheme that solves it there: what a closure is judged in."""

    benchmark: str
    preset: Preset
    coarse: int
    scheme: str

    @property
    def facts(self) -> Benchmark:
        """The benchmark at these sizes."""
        return benchmark(self.benchmark, self.preset)

    @property
    def title(self) -> str:
        """For people."""
        text = BENCHMARK_TITLES[self.benchmark]
        if not self.own_grid:
            text += f", {grid_title(self.benchmark, self.coarse)}"
        text += "" if self.preset == "paper" else f" ({self.preset})"
        return text + ("" if self.scheme == "paper" else f", {self.scheme} scheme")

    @property
    def own_grid(self) -> bool:
        """Whether the coarse grid is the benchmark's own."""
        return self.coarse == self.facts.sizes.coarse

    @property
    def slug(self) -> str:
        """For file names and anchors."""
        parts = [self.benchmark, "" if self.preset == "paper" else self.preset]
        parts += ["" if self.own_grid else f"{self.coarse}-cells", "" if self.scheme == "paper" else self.scheme]
        return "-".join(filter(None, parts))


@dataclass(frozen=True)
class SeedRun:
    """One run folder and all that it tells."""

    path: Path
    configuration: dict[str, Any]
    provenance: dict[str, Any]
    scores: Scores
    train_seconds: float | None
    evaluation: Evaluation | None
    transfers: tuple[Evaluation, ...]
    analysis: Analysis | None
    stopped: dict[str, Any] | None
    """The event that ended the training, if one did."""

    @property
    def finished(self) -> bool:
        """Whether there are errors to report."""
        return bool(self.scores)

    @property
    def state(self) -> str:
        """`finished`, `unfinished`, or where the training stopped."""
        if self.finished or self.stopped is None:
            return "finished" if self.finished else "unfinished"
        return f"stopped: not finite at update {self.stopped['update']}"

    @property
    def seed(self) -> int:
        """The seed of the network."""
        return self.configuration["seed"]

    @property
    def parameters(self) -> int | None:
        """Parameters of the network, if a file tells or the paper's sizes were kept."""
        if self.evaluation is not None:
            return self.evaluation.parameters
        counts = PAPER_COUNTS.get(self.configuration["model"])
        if counts is None or self.configuration["sizes"]:
            return None
        return counts[BENCHMARKS[self.configuration["benchmark"]].dim - 1]

    def score(self, dataset: str) -> Score | None:
        """The error on a set with the weights that it is reported with: on `paper` those that the paper's rule
        selected, elsewhere those that validation chose; the last ones where nothing was chosen."""
        for weights in ("selected" if dataset == "paper" else "best", "final"):
            if dataset in self.scores.get(weights, {}):
                return self.scores[weights][dataset]
        return None


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only."""

    setting: Setting
    model: str
    schedule: str
    sizes: dict[str, Any]
    runs: tuple[SeedRun, ...]
    remark: str = ""
    """What else tells it from another group of the same name."""

    @property
    def label(self) -> str:
        """For people. A network without remark has the paper's sizes and our schedule."""
        parts = [MODEL_TITLES.get(self.model, self.model)]
        parts += ["paper's schedule"] if self.schedule == "paper" else []
        if self.bottleneck is not None and self.sizes:
            parts.append(f"n = {self.bottleneck}")
        else:
            parts += [f"{name.replace('_', ' ')} {size}" for name, size in self.sizes.items()]
        parts += [self.remark] if self.remark else []
        return ", ".join(parts)

    @property
    def slug(self) -> str:
        """For file names and anchors: unique in a report."""
        return f"{self.setting.slug}-{'-'.join(re.findall('[a-z0-9.]+', self.label.lower()))}"

    @property
    def bottleneck(self) -> int | None:
        """The size of both bottlenecks of a SINO that is the paper's otherwise."""
        names = ("frequency_bottleneck", "spatial_bottleneck")
        found = {self.sizes.get(name, 2) for name in names}
        return found.pop() if self.model == "sino" and set(self.sizes) <= set(names) and len(found) == 1 else None

    @property
    def finished(self) -> tuple[SeedRun, ...]:
        """Runs that have errors."""
        return tuple(run for run in self.runs if run.finished)

    def scores(self, dataset: str) -> list[Score]:
        """One score per finished run that was judged on a set."""
        return [score for run in self.finished if (score := run.score(dataset)) is not None]

    @cached_property
    def parameters(self) -> int | None:
        """Parameters of the network."""
        return next((run.parameters for run in self.runs if run.parameters is not None), None)

    @property
    def plain(self) -> bool:
        """Whether the paper's figure can stand beside: its sizes, its scheme and its grids."""
        s = self.setting
        return not self.sizes and s.scheme == "paper" and s.preset == "paper" and s.own_grid


@dataclass(frozen=True)
class Collection:
    """All runs of a report."""

    groups: tuple[Group, ...]
    scalings: tuple[Scaling, ...]

    @property
    def settings(self) -> list[Setting]:
        """Settings that have runs, in the order of the groups."""
        return list(dict.fromkeys(group.setting for group in self.groups))

    @property
    def runs(self) -> list[SeedRun]:
        """All runs."""
        return [run for group in self.groups for run in group.runs]

    def of(self, setting: Setting) -> list[Group]:
        """The groups of a setting."""
        return [group for group in self.groups if group.setting == setting]

    def evaluation(self, setting: Setting) -> Evaluation | None:
        """An evaluation in a setting: what all of them tell alike, the coarse grid's errors above all."""
        return next((run.evaluation for g in self.of(setting) for run in g.runs if run.evaluation is not None), None)

    def coarse(self, setting: Setting, dataset: str) -> Score | None:
        """The error of the coarse solver alone."""
        evaluation = self.evaluation(setting)
        return None if evaluation is None else evaluation.scores["none"].get(dataset)
