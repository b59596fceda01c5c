"""`sino demo`: the whole story on two small flows: data, closures trained in the loop, a verdict and a report."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from sino.cli.evaluation import evaluate
from sino.cli.generation import generate
from sino.cli.progress import duration
from sino.cli.training import train
from sino.cli.verbs import Evaluate, Generate, Train
from sino.report.collect import collect
from sino.report.results import Score
from sino.report.runs import Group
from sino.report.write import write_report

PRESET = "small"
CHAOS = Train(
    "ks",
    preset=PRESET,
    stages=((20, 30), (60, 90), (150, 20)),
    optimiser="adam",
    learning_rate=5e-3,
    evaluate_every=35,
)
"""A sixth of the usual epochs. In so short a training Adam is as good as SOAP, and its updates cost less."""
BASELINE = replace(CHAOS, model="unet", stages=((20, 60), (60, 30)), learning_rate=2e-3, evaluate_every=45)
"""About as many parameters, and about as long a training on a clock: its steps cost four times as much."""
TURBULENCE = Train(
    "ns-decaying",
    preset=PRESET,
    sizes={"width": "8", "depth": "2"},
    stages=((4, 100), (16, 40)),
    evaluate_every=50,
)
"""Short rollouts: in two dimensions a CPU makes a hundred solver steps where it makes thousands in one. But not shorter
ones: after rollouts of 2 and 8 frames a closure can be worse than none. Here Adam would not do either."""
ENOUGH = 2.0
"""The factor on the error of the coarse grid from which on the demo calls it a success."""


def demo(out: Path) -> int:
    """Run the demo; the exit status is 0 if the closure beats the coarse grid by the factor that it should, else 1."""
    started = time.perf_counter()

    def so_far() -> str:
        return duration(time.perf_counter() - started)

    chaos = _train(out, CHAOS)
    factor = _compare(chaos)[-1][1]
    print(f"\n{_sentence(factor)} {so_far()} so far. A baseline and a two-dimensional flow come next.\n")
    _train(out, BASELINE)
    turbulence = _train(out, TURBULENCE)
    print("writing the report")
    report = out / "report.html"
    write_report((out / "runs",), report, out / "figures", title="Two small flows, with and without a closure")
    print(
        f"\n{'mean squared error, unseen trajectories':50s}{'error':>10s}{'better than grid':>18s}{'trained in':>12s}"
    )
    for line, _ in _compare(chaos) + _compare(turbulence):
        print(line)
    print(f"{_sentence(factor)} {so_far()} in all.\nOpen {report}")
    return 0 if factor >= ENOUGH else 1


def _train(out: Path, options: Train) -> Path:
    """Generate, train and evaluate in the folders of the demo; return the folder of this flow's runs."""
    data, runs = out / "data" / options.benchmark, out / "runs" / options.benchmark
    generate(Generate(options.benchmark, preset=PRESET, out=data))
    train(replace(options, data=data, out=runs / options.model))
    evaluate(Evaluate((runs / options.model,), data=data, weights="best"))
    return runs


def _compare(runs: Path) -> list[tuple[str, float]]:
    """One line for the coarse grid and one for each network, the best last, with the factor by which it is better."""
    found = collect((runs,))
    (setting,) = found.settings
    alone = _mean([found.coarse(setting, "test")])
    lines = [(f"{setting.title + ': coarse grid alone':50s}{alone:10.2e}", 1.0)]
    for group in sorted(found.of(setting), key=_error, reverse=True):
        error, seconds = _error(group), sum(run.train_seconds or 0.0 for run in group.runs)
        name = f"{setting.title}: {group.label.split(',')[0]}"
        lines.append((f"{name:50s}{error:10.2e}{alone / error:17.1f}x{duration(seconds):>12s}", alone / error))
    return lines


def _error(group: Group) -> float:
    return _mean(group.scores("test"))


def _mean(scores: Sequence[Score | None]) -> float:
    """Of one score per seed; infinite if a trajectory blew up."""
    return fmean(float("inf") if score is None or score.mean is None else score.mean for score in scores)


def _sentence(factor: float) -> str:
    won = f"On unseen trajectories the closure makes {factor:.1f} times smaller errors than the coarse grid alone."
    return won if factor >= ENOUGH else f"The closure did NOT win by the factor {ENOUGH:.0f} that it should. {won}"
