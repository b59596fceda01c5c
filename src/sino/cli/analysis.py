"""`sino analyze`: what the trained kernels are like, what theory says of them, and what the closure costs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sino.benchmarks import benchmark
from sino.cli.analysis_tables import print_analysis, print_cost, print_scaling
from sino.cli.evaluation_plan import find_runs, needed
from sino.cli.scaling_plan import ScalingPlan, fit_scaling, plan_scaling
from sino.cli.start import start_jax
from sino.cli.verbs import Analyze
from sino.core.errors import UserError
from sino.core.files import write_json
from sino.core.provenance import source
from sino.coupling.closure import Closure
from sino.evaluate.approximation import approximation_errors
from sino.evaluate.bounds import fno_bounds, sino_bounds
from sino.evaluate.cost import CostPlan, check_plan, measure_cost
from sino.evaluate.kernels import kernel_components
from sino.models.fno import FNO
from sino.models.sino import SINO
from sino.train import checkpoint
from sino.train.run import FORMAT_VERSION, Run, load_closure, plain

WEIGHTS = ("best", "final", "selected")
"""Checkpoints in order of preference: the first that a run has is analysed."""


@dataclass(frozen=True)
class Subject:
    """A run to analyse, checked."""

    run: Run
    configuration: dict[str, Any]
    weights: dict[str, str]
    """Name and hash of the checkpoint."""
    closure: Closure
    before: dict[str, Any]
    """An earlier analysis, if there is one."""
    cost: CostPlan | None

    @property
    def file(self) -> Path:
        """Where the analysis goes."""
        return _file(self.run)


def analyze(options: Analyze) -> None:
    """Run `sino analyze`."""
    start_jax()
    subjects = [_subject(run, options) for run in find_runs(options.runs)]
    scaling = plan_scaling([(subject.run, subject.configuration) for subject in subjects], options.out)
    approximation = cache(approximation_errors)  # the same for all
    for subject in subjects:
        result = _analyse(subject, approximation)
        print_analysis(subject.run.path, result)
        if "cost" in result:
            print_cost(result["cost"])
        write_json(subject.file, result)
        print(f"wrote {subject.file}")
    if scaling is not None:
        _scale(scaling)


def _subject(run: Run, options: Analyze) -> Subject:
    """Read a run; whatever is wrong with it, or with the request, is said before the work."""
    configuration, names = run.configuration(), needed(run)
    name = next(name for name in WEIGHTS if name in names)
    weights = {"name": name, "sha256": checkpoint.read_facts(run.checkpoint(name))["sha256"]}
    before = checkpoint.read_json(_file(run), FORMAT_VERSION) if _file(run).is_file() else {}
    closure = load_closure(run.path, name)
    cost = _cost_plan(configuration, closure, options) if options.cost else None
    return Subject(run, configuration, weights, closure, before, cost)


def _analyse(subject: Subject, approximation: Callable[[], list[dict[str, Any]]]) -> dict[str, Any]:
    """Everything that `analysis.json` holds. A cost measured earlier for the same weights is kept."""
    model, configuration = subject.closure.model, subject.configuration
    result: dict[str, Any] = {"format_version": FORMAT_VERSION, "kind": "analysis", "configuration": configuration}
    result |= {"provenance": source(), "weights": subject.weights}
    result |= {"kernels": [], "bounds": []}
    n = benchmark(configuration["benchmark"], configuration["preset"]).grid(configuration["coarse"]).n
    if isinstance(model, SINO):
        result |= {"kernels": kernel_components(model, n), "bounds": sino_bounds(model, n)}
        result["approximation"] = approximation()
    elif isinstance(model, FNO):
        result["bounds"] = fno_bounds(model, n)
    if subject.cost is not None:
        seconds = subject.run.results().get("train_seconds") if subject.run.finished else None
        result["cost"] = measure_cost(subject.cost, seconds, lambda line: print(f"  {line}", flush=True))
    elif subject.before.get("cost") and subject.before.get("weights") == subject.weights:
        result["cost"] = subject.before["cost"]
    return plain(result)


def _cost_plan(configuration: dict[str, Any], closure: Closure, options: Analyze) -> CostPlan:
    b, coarse = benchmark(configuration["benchmark"], configuration["preset"]), configuration["coarse"]
    unseen = len(b.sizes.test)
    count = min(4, unseen) if options.trajectories is None else options.trajectories
    if not 1 <= count <= unseen:
        raise UserError(f"--trajectories must be among 1..{unseen}, the unseen ones of {b.name}")
    nested = [n for n in (2 * coarse, 4 * coarse) if n < b.sizes.fine and b.sizes.fine % n == 0]
    first, last = options.window or (b.sizes.train_frames + 1, b.sizes.frames)
    plan = CostPlan(
        benchmark=b,
        coarse=coarse,
        scheme=configuration["scheme"],
        closure=closure,
        coupling=configuration["recipe"]["coupling"],
        precision=configuration["precision"],
        grids=tuple(nested) if options.grids is None else options.grids,
        seeds=tuple(b.sizes.test[:count]),
        batch=count if options.batch is None else options.batch,
        first=first,
        last=last,
    )
    check_plan(plan)
    return plan


def _scale(plan: ScalingPlan) -> None:
    fits = fit_scaling(plan)
    print_scaling(plan.benchmark, fits)
    stamp = {"format_version": FORMAT_VERSION, "kind": "scaling", "provenance": source()}
    write_json(plan.out, plain(stamp | {"benchmark": plan.benchmark, "fits": fits}))
    print(f"wrote {plan.out}")


def _file(run: Run) -> Path:
    return run.path / "analysis.json"
