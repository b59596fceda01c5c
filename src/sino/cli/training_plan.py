"""What `sino train` was asked for, checked before anything is written."""

import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from sino.benchmarks import Benchmark, Preset, Scheme, benchmark
from sino.cli.datasets import find_dataset, forcings_in, name_with_preset, shard_hashes
from sino.cli.verbs import Train
from sino.core.errors import UserError
from sino.coupling.classical import CLASSICAL
from sino.coupling.closure import measure_statistics
from sino.data.store import Dataset
from sino.data.well import Trajectories
from sino.models import MODELS, build_model
from sino.models.model import AbstractModel
from sino.train.curriculum import Recipe, Stage, check_recipe, recipe_for
from sino.train.loss import Reference
from sino.train.run import Run
from sino.train.session import Problem


@dataclass(frozen=True)
class Request:
    """What was asked for, checked as far as that is possible without data."""

    benchmark: Benchmark
    preset: Preset
    schedule: str
    coarse: int
    scheme: Scheme
    model: str
    sizes: dict[str, Any]
    seeds: tuple[int, ...]
    trajectories: int | None
    """How many trajectories are trained on, if not all."""
    recipe: Recipe
    precision: str
    evaluate_every: int

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.model} on {self.benchmark.name}"

    @property
    def train(self) -> range:
        """Seeds of the trajectories that are trained on."""
        return self.benchmark.sizes.train[: self.trajectories]

    @property
    def late(self) -> int:
        """Frames after the training window."""
        return self.benchmark.sizes.frames - self.benchmark.sizes.train_frames

    def build(self, seed: int) -> AbstractModel:
        """The untrained network of a seed."""
        key = jax.random.PRNGKey(seed)
        return build_model(self.model, dim=self.benchmark.dim, key=key, dtype=self.precision, **self.sizes)

    def configuration_without_data(self, seed: int) -> dict[str, Any]:
        """What determines a run, apart from the content of its data."""
        return {
            "benchmark": self.benchmark.name,
            "preset": self.preset,
            "coarse": self.coarse,
            "scheme": self.scheme,
            "model": self.model,
            "sizes": self.sizes,
            "seed": seed,
            "trajectories": self.trajectories,
            "schedule": self.schedule,
            "precision": self.precision,
            "evaluate_every": self.evaluate_every,
            "recipe": asdict(self.recipe),
        }


@dataclass(frozen=True)
class TrainingPlan(Request):
    """A request, with where its data are and where its runs go."""

    dataset: Dataset
    out: Path
    memory: int | None
    tensorboard: bool

    def configuration(self, seed: int) -> dict[str, Any]:
        """What determines a run."""
        s = self.benchmark.sizes
        hashes = shard_hashes(self.dataset, self.coarse, {*self.train, *s.validation, *s.test})
        return self.configuration_without_data(seed) | {"data": hashes}

    def seeds_of(self, runs: list[Run]) -> list[int]:
        """The seeds that belong to some of the runs."""
        return [seed for seed in self.seeds if self.out / f"seed-{seed}" in {run.path for run in runs}]


def make_request(options: Train) -> Request:
    """Check a request. Nothing is read or written."""
    b = benchmark(options.benchmark, options.preset)
    if options.model not in (*MODELS, *CLASSICAL):
        build_model(options.model, dim=b.dim, key=jax.random.PRNGKey(0))  # raises, with the nearest name
    if options.model == "smagorinsky" and b.dim != 2:
        raise UserError("smagorinsky is a closure for two-dimensional flow; in one dimension take hyperviscosity")
    if len(set(options.seeds)) != len(options.seeds) or not options.seeds:
        raise UserError("--seeds must name at least one seed, and each only once")
    if not 0 < options.epochs_scale < math.inf:
        raise UserError(f"--epochs-scale must be positive, not {options.epochs_scale}")
    if options.memory is not None and not 0 <= options.memory < math.inf:
        raise UserError(f"--memory must be a number of GB, not {options.memory}")
    if options.coarse is not None and options.coarse < 1:
        raise UserError(f"--coarse must be a number of cells, not {options.coarse}")
    if options.evaluate_every is not None and options.evaluate_every < 1:
        raise UserError(f"--evaluate-every must be at least 1, not {options.evaluate_every}")
    if options.trajectories is not None and not 1 <= options.trajectories <= len(b.sizes.train):
        raise UserError(f"--trajectories must be between 1 and {len(b.sizes.train)}, not {options.trajectories}")
    b.scheme_variant(options.scheme)  # raises, if there is none
    recipe = _recipe(options, b)
    sizes = {name: _number(text) for name, text in options.sizes.items()}
    if options.model in MODELS:
        try:
            eqx.filter_eval_shape(build_model, options.model, dim=b.dim, key=jax.random.PRNGKey(0), **sizes)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            given = " ".join(f"{name} {size}" for name, size in sizes.items())
            raise UserError(f"{options.model} cannot be built with --sizes {given}") from error
    elif sizes:
        raise UserError(f"{options.model} has no sizes")
    return Request(
        benchmark=b,
        preset=options.preset,
        schedule=options.schedule,
        coarse=options.coarse or b.sizes.coarse,
        scheme=options.scheme,
        model=options.model,
        sizes=sizes,
        seeds=options.seeds,
        trajectories=options.trajectories,
        recipe=recipe,
        precision=options.precision,
        evaluate_every=options.evaluate_every or max(1, recipe.epochs // 30),
    )


def make_training_plan(options: Train) -> TrainingPlan:
    """Check a request. Nothing is written, but data that nobody made yet are generated."""
    request = make_request(options)
    b, coarse = request.benchmark, request.coarse
    folder = options.model if options.schedule == "ours" else f"{options.model}-{options.schedule}"
    return TrainingPlan(
        **{field.name: getattr(request, field.name) for field in fields(Request)},
        dataset=find_dataset(b, options.preset, coarse, options.data),
        out=options.out or Path("runs") / name_with_preset(b, options.preset) / folder,
        memory=None if options.memory is None else int(options.memory * 1e9),
        tensorboard=options.tensorboard,
    )


def load_problem(plan: TrainingPlan) -> Problem:
    """Read the data and measure its statistics."""
    b, s = plan.benchmark, plan.benchmark.sizes
    solver = b.scheme_variant(plan.scheme).solver(plan.coarse)
    whole = plan.dataset.load(plan.coarse, plan.train)
    end = s.train_frames + 1
    window = replace(whole, frames=whole.frames[:, :end], times=whole.times[:end])
    train = _reference(plan, window)
    stats = measure_statistics(
        solver, train.frames, train.forcing, t0=train.t0, substeps=train.substeps, out_scale=plan.recipe.out_scale
    )
    judges = {
        "paper": _reference(plan, whole),
        "validation": _reference(plan, plan.dataset.load(plan.coarse, s.validation)),
    }
    test = _reference(plan, plan.dataset.load(plan.coarse, s.test))
    return Problem(solver, stats, train, judges, test, whole.seeds, s.train_frames + 1)


def _reference(plan: TrainingPlan, data: Trajectories) -> Reference:
    b = plan.benchmark.scheme_variant(plan.scheme)
    forcing = forcings_in(b, data.seeds, plan.precision)
    return Reference(jnp.asarray(data.frames, plan.precision), forcing, b.start, b.substeps(plan.coarse))


def _recipe(options: Train, b: Benchmark) -> Recipe:
    """The schedule's recipe, with what the user set."""
    s = b.sizes
    recipe = recipe_for(options.schedule, s.train_frames, options.trajectories or len(s.train), b.weight_decay, b.dim)
    names = {field.name for field in fields(Recipe)} - {"stages"}
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    stages = recipe.stages if options.stages is None else tuple(Stage(*stage) for stage in options.stages)
    recipe = replace(recipe, stages=stages, **given)
    check_recipe(recipe, s.train_frames)
    return replace(
        recipe, stages=tuple(Stage(k, max(1, round(options.epochs_scale * epochs))) for k, epochs in recipe.stages)
    )


def _number(text: Any) -> Any:
    """`16`, `0.1`, `both`: what a size may be."""
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            continue
    return text
