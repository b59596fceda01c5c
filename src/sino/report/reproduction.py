"""What the runs of an experiment came to, in one small file that the documentation is made from.

configurations: [{name, configuration, runs: [{seed, state, errors, transfers, train_seconds, ...}]}]

`errors` are by weights (`none`, `final`, `best`, `selected`) and by set (`paper`, `validation`, `test`), without what
has a value per frame or trajectory.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sino.benchmarks import benchmark
from sino.core.files import write_json
from sino.report.analyses import Analysis
from sino.report.collect import read_run
from sino.report.names import number
from sino.report.paper import ERRORS
from sino.report.results import Evaluation, Score, Scores, read_record
from sino.train.run import Run, plain

FORMAT_VERSION = 1
DIGITS = 5
"""Significant digits that are kept."""
COMPONENTS = 4
"""Principal components of which the explained variance is kept."""


def write_results(path: Path, title: str, wanted: Mapping[str, Mapping[str, Any]], out: Path) -> int:
    """Gather the runs below `out` into a file, and return how many there are in it.

    `wanted` maps the folder of a run, as `ks/sino/seed-1`, to its configuration. Runs that an earlier file has, and
    that are not below `out`, stay if they were asked for alike: they come from another machine.
    """
    kept = _earlier(path, wanted)
    found = {name: _summarise(out / name) for name in wanted if (out / name / "config.json").is_file()}
    settled = {name: run for name, run in found.items() if run["state"] != "unfinished"}
    rows = {name: settled.get(name, kept.get(name)) for name in wanted}
    configurations: dict[str, dict[str, Any]] = {}
    for name, asked in wanted.items():
        if (row := rows[name]) is not None:
            shared = {key: value for key, value in asked.items() if key != "seed"}
            entry = {"name": _parent(name), "configuration": shared, "runs": []}
            configurations.setdefault(_parent(name), entry)["runs"].append(row)
    record = {"format_version": FORMAT_VERSION, "kind": "reproduction", "title": title}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, plain(record | {"runs_wanted": len(wanted), "configurations": list(configurations.values())}))
    return sum(len(entry["runs"]) for entry in configurations.values())


def read_results(path: Path) -> dict[str, Any]:
    """A file of results, checked as far as its readers rely on it."""

    def build(record: dict[str, Any]) -> dict[str, Any]:
        for entry in record["configurations"]:
            _ = entry["name"], entry["configuration"]["benchmark"], entry["configuration"]["model"]
            _ = [(run["seed"], run["state"], run["errors"], run["train_seconds"]) for run in entry["runs"]]
        return record

    return read_record(path, "reproduction", build)


def describe_run(path: Path) -> str:
    """One line on a run that has ended: its errors, with the paper's beside, and what the solver does alone."""
    run = read_run(path)
    c = run.configuration
    figure = paper_figure(c)
    paper = "" if figure is None else f" (paper {number(figure)})"
    alone = {} if run.evaluation is None else run.evaluation.scores["none"]
    seconds = "" if run.train_seconds is None else f", trained in {run.train_seconds:.0f} s"
    return (
        f"{path.parent.parent.name}/{path.parent.name} seed {run.seed}: as the paper measures "
        f"{_figure(run.score('paper'))}{paper}, unseen {_figure(run.score('test'))}, without closure "
        f"{_figure(alone.get('paper'))} and {_figure(alone.get('test'))}{seconds}"
    )


def paper_figure(configuration: Mapping[str, Any]) -> float | None:
    """The paper's mean over seeds for a run that is set up like its own: flow, network, sizes, grid and scheme."""
    c = configuration
    own = benchmark(c["benchmark"], c["preset"]).sizes.coarse
    if c["preset"] != "paper" or c["sizes"] or c["scheme"] != "paper" or c["coarse"] != own or c.get("trajectories"):
        return None
    pair = ERRORS[c["benchmark"]].get(c["model"])
    return None if pair is None else pair[0]


def _summarise(path: Path) -> dict[str, Any]:
    """The run of one seed, without what only figures need."""
    run = read_run(path)
    results = Run(path).results() if Run(path).finished else {}
    return {
        "seed": run.seed,
        "state": run.state,
        "data": _digest(run.configuration.get("data")),
        "parameters": run.parameters,
        "train_seconds": _short(run.train_seconds),
        "evaluate_seconds": _short(results.get("evaluate_seconds")),
        "chosen_at": results.get("chosen_at", {}),
        "events": len(results.get("events", [])),
        "coefficient": _short(results.get("coefficient")),
        "errors": _errors(run.scores),
        "analysis": _analysis(run.analysis),
        "transfers": [_transfer(evaluation) for evaluation in run.transfers],
        "provenance": results.get("provenance", run.provenance),
    }


def _errors(scores: Scores) -> dict[str, Any]:
    return {weights: {name: _score(score) for name, score in sets.items()} for weights, sets in scores.items()}


def _score(score: Score) -> dict[str, Any]:
    return {
        "mean": _short(score.mean),
        "median": _short(score.median),
        "all_frames": _short(score.all_frames),
        "nrmse": _short(score.nrmse),
        "correlation_time": _short(score.correlation_time),
        "blown_up": score.blown_up,
        "trajectories": score.trajectories,
    }


def _analysis(analysis: Analysis | None) -> dict[str, Any] | None:
    """Variance that the first components of each kernel explain, and the speed-up at equal error, if measured."""
    if analysis is None:
        return None
    kernels = [
        {"block": k.block, "branch": k.branch, "explained": [_short(share) for share in k.explained[:COMPONENTS]]}
        for k in analysis.kernels
    ]
    speedup = {} if analysis.cost is None else {name: _short(value) for name, value in analysis.cost.speedup.items()}
    return {"kernels": kernels, "speedup": speedup}


def _transfer(evaluation: Evaluation) -> dict[str, Any]:
    where = {"benchmark": evaluation.benchmark, "coarse": evaluation.coarse}
    return where | {"errors": _errors(evaluation.scores)}


def _earlier(path: Path, wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The runs of an earlier file that are still asked for, with the same configuration."""
    if not path.is_file():
        return {}
    rows = {}
    for entry in read_results(path)["configurations"]:
        for run in entry["runs"]:
            name = f"{entry['name']}/seed-{run['seed']}"
            stored = entry["configuration"] | {"seed": run["seed"]}
            if name in wanted and json.loads(json.dumps(plain(wanted[name]))) == stored:
                rows[name] = run
    return rows


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _digest(hashes: Any) -> str:
    """One hash of the hashes of all shards that were read."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _short(value: Any) -> float | None:
    return None if value is None else float(f"{float(value):.{DIGITS}g}")


def _figure(score: Score | None) -> str:
    if score is None:
        return "not measured"
    return f"{score.blown_up} of {score.trajectories} blew up" if score.mean is None else number(score.mean)
