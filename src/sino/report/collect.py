"""Find the runs below folders, read them, and group them: the seeds of one configuration belong together."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sino.benchmarks import BENCHMARKS
from sino.core.errors import UserError
from sino.report.analyses import read_analysis, read_scaling
from sino.report.names import MODEL_TITLES
from sino.report.results import Scores, read_evaluation, real, training_scores
from sino.report.runs import PRESETS, Collection, Group, SeedRun, Setting
from sino.train.run import Run

KEYS: dict[str, type] = dict.fromkeys(("benchmark", "preset", "scheme", "model", "schedule", "precision"), str)
KEYS |= dict.fromkeys(("coarse", "seed"), int) | dict.fromkeys(("sizes", "recipe"), dict)
"""What a configuration must hold."""
SEEDLESS = ("seed", "data", "evaluate_every")
"""Entries of a configuration that may differ between the runs of a group."""
TRACES = ("metrics.jsonl", "results.json", "evaluation.json", "checkpoints")
"""What tells the config.json of a run from that of something else."""


def collect(paths: Sequence[Path]) -> Collection:
    """Read every run at or below the given folders, and every scaling law at or between them."""
    if not paths:
        raise UserError("there is nothing to report: give at least one run, or a folder of runs")
    folders = _distinct(folder for path in paths for folder in _run_folders(path))
    scalings = _distinct(file for path in paths for file in _scaling_files(path))
    if not folders:
        raise UserError(f"there are no runs in {', '.join(map(str, paths))}; `sino train` makes them")
    runs = [read_run(folder) for folder in folders]
    if not any(run.finished for run in runs):
        raise UserError(
            f"no run has results yet: {runs[0].path} is {runs[0].state}; `sino train` with the same options goes on"
        )
    return Collection(_named(_grouped(runs)), tuple(read_scaling(file) for file in scalings))


def _run_folders(path: Path) -> list[Path]:
    if path.is_file() and path.suffix == ".json" and path.name != "config.json":
        return []  # a scaling law, which the other search reads
    if not path.is_dir():
        raise UserError(f"{path} is not a run: there is no such folder")
    if (path / "config.json").is_file():
        return [path]
    found = (file.parent for file in sorted(path.rglob("config.json")))
    return [folder for folder in found if any((folder / trace).exists() for trace in TRACES)]


def _scaling_files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return sorted(path.rglob("scaling*.json"))


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """As they were given, but each place once."""
    return list({path.resolve(): path for path in paths}.values())


def read_run(path: Path) -> SeedRun:
    """One run folder and all that its files tell."""
    run = Run(path)
    configuration = run.configuration()
    for key, kind in KEYS.items():
        if not isinstance(configuration.get(key), kind):
            raise UserError(f"{run.config_file} is damaged: it holds no {key}")
    for key, known in (("model", MODEL_TITLES), ("benchmark", BENCHMARKS), ("preset", PRESETS)):
        if configuration[key] not in known:
            raise UserError(f"{run.config_file} names the {key} {configuration[key]!r}, which this sino does not know")
    results = run.results() if run.finished else {}
    evaluation = _if_there(path / "evaluation.json", read_evaluation)
    scores: Scores = training_scores(results.get("errors", {}))
    for weights, sets in evaluation.scores.items() if evaluation is not None else ():
        scores[weights] = scores.get(weights, {}) | sets
    seconds = results.get("train_seconds", None if evaluation is None else evaluation.train_seconds)
    if not isinstance(seconds, int | float | None):
        raise UserError(f"{run.results_file} is damaged: it holds no train_seconds")
    events = [] if scores else [line for line in run.metrics(tolerate_last=True) if line.get("event") == "stopped"]
    return SeedRun(
        path=path,
        configuration=configuration,
        provenance=dict(json.loads(run.config_file.read_bytes()).get("provenance") or {}),
        scores=scores,
        train_seconds=real(seconds),
        evaluation=evaluation,
        transfers=tuple(read_evaluation(file) for file in sorted(path.glob("evaluation-on-*.json"))),
        analysis=_if_there(path / "analysis.json", read_analysis),
        stopped=events[-1] if events else None,
    )


def _if_there(path: Path, read: Any) -> Any:
    return read(path) if path.is_file() else None


def _grouped(runs: list[SeedRun]) -> list[Group]:
    """Runs by what they were asked for, in the order of the benchmarks and of the paper's rows."""
    by_key: dict[str, list[SeedRun]] = {}
    for run in runs:
        shared = {key: value for key, value in run.configuration.items() if key not in SEEDLESS}
        by_key.setdefault(json.dumps(shared, sort_keys=True), []).append(run)
    groups = []
    for members in by_key.values():
        members.sort(key=lambda run: run.seed)
        for one, other in zip(members, members[1:], strict=False):
            if one.seed == other.seed:
                raise UserError(f"{one.path} and {other.path} are the same run; give only one of them")
        c = members[0].configuration
        setting = Setting(c["benchmark"], c["preset"], c["coarse"], c["scheme"])
        groups.append(Group(setting, c["model"], c["schedule"], dict(c["sizes"]), tuple(members)))
    benchmarks, models = list(BENCHMARKS), list(MODEL_TITLES)

    def place(group: Group) -> tuple:
        s = group.setting
        row = (models.index(group.model), group.schedule, len(group.sizes), json.dumps(group.sizes, sort_keys=True))
        return (PRESETS.index(s.preset), benchmarks.index(s.benchmark), s.scheme, -s.coarse, *row)

    return sorted(groups, key=place)


def _named(groups: list[Group]) -> tuple[Group, ...]:
    """Groups of one name in one setting, told apart by what differs in their recipes."""
    named = []
    for group in groups:
        rivals = [other for other in groups if (other.setting, other.label) == (group.setting, group.label)]
        recipes = [_recipe(rival) for rival in rivals]
        own = _recipe(group)
        differing = [key for key in own if any(recipe.get(key) != own[key] for recipe in recipes)]
        named.append(replace(group, remark=", ".join(f"{key.replace('_', ' ')} {own[key]}" for key in differing)))
    return tuple(named)


def _recipe(group: Group) -> dict[str, Any]:
    c = group.runs[0].configuration
    stages = c["recipe"].get("stages", [])
    return {**c["recipe"], "precision": c["precision"], "stages": " ".join(f"{k}x{epochs}" for k, epochs in stages)}
