"""The table that `sino evaluate` prints: every weight beside the coarse grid, and over seeds the mean and the best."""

import json
from pathlib import Path
from typing import Any

import numpy as np

SETS = {"paper": "training trajectories", "test": "unseen trajectories"}
LABEL, CELL = 24, 27


def print_table(evaluations: list[tuple[Path, dict[str, Any]]]) -> None:
    """Print evaluations, each with the folder of its run; those that differ in nothing but the seed make one block."""
    blocks: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path, evaluation in evaluations:
        blocks.setdefault(_kind(evaluation), []).append((path, evaluation))
    for members in blocks.values():
        _print_block(members)


def _kind(evaluation: dict[str, Any]) -> str:
    configuration = {key: value for key, value in evaluation["configuration"].items() if key != "seed"}
    return json.dumps([evaluation[key] for key in ("benchmark", "coarse")] + [configuration], sort_keys=True)


def _print_block(members: list[tuple[Path, dict[str, Any]]]) -> None:
    path, first = members[0]
    own = first["trained_on"]
    at_home = own == {key: first[key] for key in ("benchmark", "coarse")}
    trained = "" if at_home else f", trained on {own['benchmark']}, {own['coarse']} cells"
    print(f"\n{path.resolve().parent.name}: {first['model']} on {first['benchmark']}, {first['coarse']} cells{trained}")
    print(f"mean squared error over frames {first['first']}..{first['last']} (factor won over the coarse grid)")
    print(" " * LABEL + "".join(f"{title:<{CELL}}" for title in SETS.values()) + "unseen: correlated until")
    alone = first["scores"]["none"]
    print(_row("coarse grid alone", alone, alone))
    for path, evaluation in members:
        for weights, scores in evaluation["scores"].items():
            if weights != "none":
                print(_row(f"{path.resolve().name} {weights}", scores, alone))
    if len(members) > 1:
        _print_seeds([evaluation["scores"] for _, evaluation in members], alone)
    for line in _failures(members):
        print(line)


def _row(label: str, scores: dict[str, Any], alone: dict[str, Any]) -> str:
    cells = "".join(f"{_error(scores[name], alone[name]):<{CELL}}" for name in SETS)
    return f"{label:<{LABEL}}{cells}{_time(scores['test'])}"


def _error(score: dict[str, Any], alone: dict[str, Any]) -> str:
    mean, count = score["mse"]["mean"], score["blown_up"]["count"]
    if count:
        return f"{count} of {len(score['seeds'])} blew up"
    return _number(mean) if score is alone else f"{_number(mean)} {_factor(mean, alone)}"


def _factor(mean: float, alone: dict[str, Any]) -> str:
    coarse = alone["mse"]["mean"]
    return "" if coarse is None or not mean else f"({coarse / mean:.3g}x)"


def _time(score: dict[str, Any]) -> str:
    lost, count = score["correlation_time"], len(score["seeds"])
    if lost["censored"] == count:
        return f"{lost['mean']:.3g}, the end"
    low, high = lost["interval"]
    never = f", {lost['censored']} of {count} to the end" if lost["censored"] else ""
    return f"{lost['mean']:.3g} ({low:.3g} to {high:.3g}){never}"


def _print_seeds(members: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    """Mean, minimum and standard deviation over the seeds of the same network, for each kind of weights."""
    for weights in dict.fromkeys(name for scores in members for name in scores if name != "none"):
        have = [scores[weights] for scores in members if weights in scores]
        if len(have) < 2:
            continue
        errors = {name: [scores[name]["mse"]["mean"] for scores in have] for name in SETS}
        for label, summary in (("AVE", np.mean), ("Best", np.min), ("spread", _deviation)):
            cells = [_over_seeds(errors[name], summary, None if label == "spread" else alone[name]) for name in SETS]
            row = f"{f'{label} of {len(have)}, {weights}':<{LABEL}}" + "".join(f"{cell:<{CELL}}" for cell in cells)
            print(row.rstrip())


def _over_seeds(errors: list[float | None], summary: Any, alone: dict[str, Any] | None) -> str:
    """Of the seeds that have an error. A mean or a spread of fewer than all of them would flatter."""
    finite = [error for error in errors if error is not None]
    failed = len(errors) - len(finite)
    if not finite or (failed and summary is not np.min):
        return f"{failed} of {len(errors)} seeds blew up"
    value = float(summary(finite))
    return f"{_number(value)} {_factor(value, alone)}" if alone else _number(value)


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1))


def _failures(members: list[tuple[Path, dict[str, Any]]]) -> list[str]:
    """What blew up: where, on which trajectory, at which frame."""
    lines = []
    for path, evaluation in members:
        for weights, scores in evaluation["scores"].items():
            if weights == "none" and path != members[0][0]:
                continue
            who = "coarse grid alone" if weights == "none" else f"{path.resolve().name} {weights}"
            for name, title in SETS.items():
                failed = [
                    f"seed {one['seed']} at frame {one['frame']}" for one in scores[name]["blown_up"]["trajectories"]
                ]
                if failed:
                    lines.append(f"blew up: {who}, {title}: {', '.join(failed)}")
    return lines


def _number(value: float) -> str:
    return f"{value:.3e}"
