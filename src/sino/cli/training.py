"""`sino train`: check the request, say what it costs, train, and survive."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax

from sino.cli.live import live_view
from sino.cli.progress import duration, progress, size
from sino.cli.start import start_jax
from sino.cli.training_plan import TrainingPlan, load_problem, make_training_plan
from sino.cli.verbs import Train
from sino.core.errors import UserError
from sino.coupling.classical import CLASSICAL, build_classical
from sino.data.windows import batches_per_epoch, epoch_batches
from sino.models.model import AbstractModel
from sino.train.coefficient import SEARCHED, fit_coefficient
from sino.train.loop import Evaluate, make_evaluate
from sino.train.memory import MemoryPlan, plan_memory
from sino.train.run import Run
from sino.train.session import Cadence, Problem, groups, summary, train_together
from sino.train.update import Turn, Update, UpdateProgram, initial_state, make_update


def train(options: Train) -> int:
    """Run `sino train`; the exit status is 0, 1 if a seed had to be stopped, or 130 if the user stopped it."""
    start_jax()
    plan = make_training_plan(options)
    problem = load_problem(plan)
    runs = [Run(plan.out / f"seed-{seed}") for seed in plan.seeds]
    if options.dry_run:
        if plan.model not in CLASSICAL:
            _prepare(plan, problem, [plan.build(seed) for seed in plan.seeds], whole=False)
        print("dry run: nothing was written")
        return 0
    for run, seed in zip(runs, plan.seeds, strict=True):
        run.check(plan.configuration(seed))
    for run, seed in zip(runs, plan.seeds, strict=True):
        run.start(plan.configuration(seed))
    open_runs = [run for run in runs if not run.finished]
    for run in runs:
        if run not in open_runs:
            print(f"{run.path} has ended already")
    if open_runs and plan.model in CLASSICAL:
        _fit(plan, problem, open_runs)
    elif open_runs and not _train(plan, problem, open_runs):
        return 130
    return _print_results(plan, problem, runs)


def _train(plan: TrainingPlan, problem: Problem, runs: list[Run]) -> bool:
    """Train the networks of all runs; False if a signal stopped it."""
    seeds = {run: seed for run, seed in zip(runs, plan.seeds_of(runs), strict=True)}
    for together, start in groups(runs):
        chosen = [seeds[run] for run in together]
        models = [plan.build(seed) for seed in chosen]
        update, evaluate = _prepare(plan, problem, models)
        if start:
            print(f"going on from update {start:,}")
        with stop_requests() as stop, live_view(plan.title, chosen, together, plan.tensorboard) as watch:
            done = train_together(
                problem,
                together,
                models,
                plan.recipe,
                update,
                evaluate,
                start=start,
                cadence=Cadence(evaluate_epochs=plan.evaluate_every),
                stop=stop,
                watch=watch,
            )
        if not done:
            print(f"stopped and saved in {plan.out}; the same command goes on from there")
            return False
    return True


def _prepare(
    plan: TrainingPlan, problem: Problem, models: list[AbstractModel], *, whole: bool = True
) -> tuple[Update, Evaluate]:
    """Choose how to use the memory, compile, try the longest rollout, and say what all will cost. Unless `whole`, only
    what that needs is compiled."""
    recipe, count, devices = plan.recipe, len(models), len(jax.devices())
    memory = plan_memory(
        problem.solver,
        problem.stats,
        problem.train,
        recipe,
        models[0],
        seeds=count,
        devices=devices,
        budget=plan.memory,
    )
    update = make_update(problem.solver, problem.stats, problem.train, recipe, recompute=memory.recompute)
    evaluate = make_evaluate(problem.solver, problem.stats, recipe, problem.together)
    print(_describe(plan, memory, count, devices))
    compile_seconds, per_frame = _try_longest(plan, problem, models, update, evaluate if whole else None)
    per_epoch = batches_per_epoch(len(problem.train), recipe.batch, recipe.passes)
    frames = per_epoch * sum(stage.frames * stage.epochs for stage in recipe.stages)
    print(
        f"the longest rollout runs ({compile_seconds:.1f} s to compile); {1e3 * per_frame:.2f} ms per step forward and "
        f"backward: about {duration(frames * per_frame)} for {per_epoch * recipe.epochs:,} updates, without evaluations"
    )
    return update, evaluate


def _describe(plan: TrainingPlan, memory: MemoryPlan, count: int, devices: int) -> str:
    recipe = plan.recipe
    lengths = sorted({stage.frames for stage in recipe.stages})
    shown = ", ".join(str(n) for n in lengths) if len(lengths) < 8 else f"{lengths[0]} to {lengths[-1]}"
    where = jax.devices()[0].device_kind + (f" x {devices}" if devices > 1 else "")
    kept = (
        f"computing steps again in chunks of {recipe.chunk} (keeping all would take {size(memory.kept)})"
        if memory.recompute
        else "keeping all steps"
    )
    return (
        f"{plan.title}: {count} seed{'s' if count > 1 else ''} on {where}, rollouts of {shown} frames; "
        f"about {size(memory.predicted)} for a rollout, {kept}"
    )


def _try_longest(
    plan: TrainingPlan, problem: Problem, models: list[AbstractModel], update: UpdateProgram, evaluate: Evaluate | None
) -> tuple[float, float]:
    """Compile and run the longest rollout, so that memory fails now or never; seconds to compile, and per step.

    With `evaluate`, all other programs of the training are compiled beside it.
    """
    recipe, longest = plan.recipe, plan.recipe.longest
    state = initial_state(models, recipe)
    first = epoch_batches(
        recipe.data_seed,
        0,
        len(problem.train),
        recipe.batch,
        frames=longest,
        last=problem.first - 1,
        windows=recipe.windows,
    )
    batch, times = next(first), []

    def turn(frames: int, index: int = 0) -> Turn:
        return Turn(frames, 0.0, index, False)

    try:
        started = time.perf_counter()
        with ThreadPoolExecutor() as pool:
            making = [pool.submit(update.compile, state, batch, turn(longest))]
            if evaluate is not None:
                buckets = {recipe.bucket(stage.frames) for stage in recipe.stages}
                making += [pool.submit(update.compile, state, batch, turn(k)) for k in buckets - {longest}]
                making.append(pool.submit(evaluate.compile, state.now.average, problem.judges["validation"]))
        for made in making:
            made.result()
        compile_seconds = time.perf_counter() - started
        for index in range(2):  # the second is timed, and like most of them it turns no axes of SOAP
            started = time.perf_counter()
            state, report = update(state, batch, turn(longest, index))
            jax.block_until_ready(report)
            times.append(time.perf_counter() - started)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(
            f"a rollout of {longest} frames with a batch of {recipe.batch} does not fit the device's memory; "
            "lower --memory to compute steps again, or take a smaller --batch or fewer --seeds at once"
        ) from error
    return compile_seconds, times[1] / longest


def _fit(plan: TrainingPlan, problem: Problem, runs: list[Run]) -> None:
    """Find the coefficient of a classical closure; it has no seed, so all runs get the same."""
    started = time.monotonic()
    with progress(plan.title, SEARCHED, "rollouts") as report:
        coefficient, error = fit_coefficient(plan.model, problem.solver, problem.train, watch=report)
    seconds = time.monotonic() - started
    frames = problem.train.frames
    closure = build_classical(
        plan.model, jax.numpy.asarray(coefficient, frames.dtype), frames.shape[2], problem.solver.grid.length[0]
    )
    evaluate = make_evaluate(problem.solver, closure.stats, plan.recipe, problem.together)
    stacked = jax.tree.map(lambda leaf: leaf[None], closure.model)
    scores = {name: summary(evaluate(stacked, ref)[0], problem.first) for name, ref in problem.references.items()}
    for run in runs:
        run.save_closure("final", closure, {"coefficient": coefficient, "training_error": error})
        run.finish({"final": scores}, seconds, {"coefficient": coefficient})


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn SIGTERM and Ctrl-C into a request that the training reads after each update. A second one ends at once."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt
        print("\nstopping after this update; once more to stop at once", flush=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_results(plan: TrainingPlan, problem: Problem, runs: list[Run]) -> int:
    """A table of errors beside the coarse grid's; 1 if a run had to be stopped."""
    alone = _coarse_errors(plan, problem)
    names = {"paper": "training trajectories", "validation": "validation", "test": "unseen trajectories"}
    print(f"\nmean squared error over frames {problem.first}..{problem.first + plan.late - 1} (median in brackets)")
    width = 24
    print(" " * 22 + "".join(f"{names[judge]:>{width}}" for judge in alone))
    print(f"{'coarse grid alone':22s}" + "".join(f"{_cell(score):>{width}}" for score in alone.values()))
    failed = 0
    for run in runs:
        if not run.finished:
            failed = 1
            event = [line for line in run.metrics() if line["kind"] == "event"][-1]
            print(
                f"{run.path.name}: stopped at update {event['update']}, rollout of {event['frames']} frames, "
                f"trajectory of seed {event['trajectory']}, frame {event['frame']}: not finite "
                f"{event['failures']} times"
            )
            continue
        errors = run.results()["errors"]
        for name, scores in errors.items():
            row = f"{run.path.name} {name}"
            print(f"{row:22s}" + "".join(f"{_cell(scores[judge]):>{width}}" for judge in alone))
    print(f"wrote {', '.join(str(run.path) for run in runs)}")
    return failed


def _coarse_errors(plan: TrainingPlan, problem: Problem) -> dict[str, Any]:
    """The uncorrected solver's errors on the same trajectories."""
    evaluate = make_evaluate(problem.solver, None, plan.recipe, problem.together)
    return {name: summary(evaluate(None, ref)[0], problem.first) for name, ref in problem.references.items()}


def _cell(score: dict[str, Any]) -> str:
    if score["mean"] is None:
        return f"{score['blown_up']} of {score['trajectories']} blew up"
    return f"{score['mean']:.3e} ({score['median']:.2e})"
