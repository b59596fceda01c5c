"""What `sino evaluate` was asked for, checked before any work: which weights, and on what they are tried."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from sino.benchmarks import Preset, Scheme, benchmark
from sino.cli.verbs import Evaluate
from sino.core.errors import UserError
from sino.coupling.closure import Closure
from sino.coupling.hybrid import Coupling
from sino.train.run import Run, load_closure

WEIGHTS = ("final", "best", "selected")
"""Checkpoints that are evaluated, if they exist."""


@dataclass(frozen=True, order=True)
class Setting:
    """On what weights are evaluated. Runs that share it share data, compiled programs and the coarse grid's scores."""

    benchmark: str
    preset: Preset
    coarse: int
    scheme: Scheme
    coupling: Coupling
    precision: str
    trajectories: int
    """How many of the training trajectories were trained on: those are the set `paper`."""


@dataclass(frozen=True)
class Subject:
    """A run whose weights are evaluated."""

    run: Run
    configuration: dict[str, Any]
    closures: dict[str, Closure]
    train_seconds: float | None
    setting: Setting

    @property
    def trained_on(self) -> dict[str, Any]:
        """Benchmark and grid of the training."""
        return {key: self.configuration[key] for key in ("benchmark", "coarse")}

    @property
    def at_home(self) -> bool:
        """Whether the weights are evaluated on what they were trained on."""
        return self.trained_on == {"benchmark": self.setting.benchmark, "coarse": self.setting.coarse}

    @property
    def file(self) -> Path:
        """Where the evaluation goes."""
        on = "" if self.at_home else f"-on-{self.setting.benchmark}-{self.setting.coarse}"
        return self.run.path / f"evaluation{on}.json"


def find_runs(paths: tuple[Path, ...]) -> list[Run]:
    """The runs that some paths name: the folder of one seed, or a folder with runs below it, of which those count that
    have weights. Each once, seeds in rising order."""
    if not paths:
        raise UserError("name at least one run: the folder of one seed, or one that holds several")
    found: dict[Path, Run] = {}
    for path in paths:
        if not path.is_dir():
            raise UserError(f"{path} is not a run: there is no such folder")
        if (path / "config.json").is_file():
            found.setdefault(path.resolve(), Run(path))
            continue
        below = [Run(file.parent) for file in path.rglob("config.json")]
        ready = [run for run in below if available(run)]
        if not ready:
            raise UserError(f"{path} holds no run with weights; `sino train` makes some")
        for run in sorted(below, key=lambda run: (run.path.parent, len(run.path.name), run.path.name)):
            if run in ready:
                found.setdefault(run.path.resolve(), run)
            else:
                print(f"{run.path} has no weights yet and is left out")
    return list(found.values())


def available(run: Run) -> list[str]:
    """Which of the weights a run has."""
    return [name for name in WEIGHTS if run.checkpoint(name).is_dir()]


def needed(run: Run) -> list[str]:
    """The same, for a run that must have some."""
    names = available(run)
    if not names:
        raise UserError(f"{run.path} has no weights yet; `sino train` goes on with it")
    return names


def make_subject(run: Run, options: Evaluate) -> Subject:
    """Read a run's weights and decide on what to try them; whatever is wrong with them is said before the work."""
    configuration, names = run.configuration(), needed(run)
    if options.weights != "all" and options.weights not in names:
        raise UserError(f"{run.path} has no {options.weights!r} weights, only {', '.join(names)}")
    chosen = names if options.weights == "all" else [options.weights]
    closures = {name: load_closure(run.path, name) for name in chosen}
    seconds = run.results().get("train_seconds") if run.finished else None
    setting = _setting(run, configuration, options)
    b = benchmark(setting.benchmark, setting.preset)
    state = jax.ShapeDtypeStruct((len(b.offsets), *b.grid(setting.coarse).n), setting.precision)
    eqx.filter_eval_shape(closures[chosen[0]], state)  # a network that cannot take this grid says so
    return Subject(run, configuration, closures, seconds, setting)


def _setting(run: Run, configuration: dict[str, Any], options: Evaluate) -> Setting:
    try:
        own, preset, _ = (configuration[key] for key in ("benchmark", "preset", "seed"))
        scheme, precision = configuration["scheme"], configuration["precision"]
        coarse, coupling = int(configuration["coarse"]), configuration["recipe"]["coupling"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{run.config_file} is damaged: {type(error).__name__} {error}") from error
    here, there = benchmark(own, preset), benchmark(options.on or own, preset)
    if here.dim != there.dim:
        raise UserError(f"{run.path} was trained in {here.dim} dimensions, and {there.name} has {there.dim}")
    if options.coarse is not None and options.coarse < 1:
        raise UserError(f"--coarse must be a number of cells, not {options.coarse}")
    elsewhere = coarse if options.on in (None, own) else there.sizes.coarse
    trajectories = configuration.get("trajectories") or len(there.sizes.train)
    return Setting(there.name, preset, options.coarse or elsewhere, scheme, coupling, precision, trajectories)
