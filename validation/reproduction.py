"""Tables of what `sino reproduce` has run, from results/reproduction, with the paper's figures beside."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from sino.benchmarks import BENCHMARKS
from sino.models import MODELS
from sino.report.names import MODEL_TITLES, number
from sino.report.paper import BOTTLENECK, ERRORS, TABLES
from sino.report.reproduction import paper_figure, read_results

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "reproduction"
EXPERIMENTS = ROOT / "experiments"
NOT_RUN = "not run"
WEIGHTS = {"paper": ("selected", "final"), "test": ("best", "final")}
"""By set: the weights whose error is reported, as the paper does on its own, by validation on unseen trajectories."""


@dataclass(frozen=True)
class Configuration:
    """The seeds of one configuration of a result file."""

    experiment: str
    name: str
    facts: dict[str, Any]
    runs: list[dict[str, Any]]

    def scores(self, dataset: str, weights: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """The error of each run on a set."""
        wanted = tuple(weights or WEIGHTS[dataset])
        found = []
        for run in self.runs:
            name = next((w for w in wanted if dataset in run["errors"].get(w, {})), None)
            found += [] if name is None else [run["errors"][name][dataset]]
        return found

    def mean(self, dataset: str, weights: Iterable[str] | None = None) -> float | None:
        """Over the seeds; None if there is none, or if any trajectory blew up."""
        values = [score["mean"] for score in self.scores(dataset, weights)]
        return None if not values or None in values else fmean(values)


@dataclass(frozen=True)
class Results:
    """All result files that there are."""

    configurations: list[Configuration]

    def find(self, benchmark: str, model: str, **facts: Any) -> Configuration | None:
        """A configuration: by default the usual sizes, schedule, scheme and number of trajectories."""
        wanted = {"benchmark": benchmark, "model": model, "sizes": {}, "schedule": "ours", "scheme": "paper"} | facts
        wanted = {"trajectories": None, "preset": "paper", "coarse": BENCHMARKS[benchmark].sizes.coarse} | wanted
        for c in self.configurations:
            if all(c.facts.get(key) == value for key, value in wanted.items()):
                return c
        return None

    def mean(self, benchmark: str, model: str, dataset: str = "paper", **facts: Any) -> float | None:
        """Mean over seeds of a configuration; None if it was not run, or blew up."""
        found = self.find(benchmark, model, **facts)
        return None if found is None else found.mean(dataset)

    def coarse(self, benchmark: str, scheme: str = "paper") -> Configuration | None:
        """Any configuration that tells what the coarse solver does alone."""
        for c in self.configurations:
            at_home = c.facts["coarse"] == BENCHMARKS[benchmark].sizes.coarse and not c.facts.get("trajectories")
            if (
                (c.facts["benchmark"], c.facts["scheme"]) == (benchmark, scheme)
                and at_home
                and c.scores("test", ["none"])
            ):
                return c
        return None


def load(folder: Path = RESULTS) -> Results:
    """Read every result file; there may be none."""
    found = []
    for path in sorted(folder.glob("*.json")):
        for entry in read_results(path)["configurations"]:
            found.append(Configuration(path.stem, entry["name"], entry["configuration"], entry["runs"]))
    return Results(found)


def experiments() -> list[str]:
    """The names of the experiment files."""
    return sorted(path.stem for path in EXPERIMENTS.glob("*.toml"))


def state_table(folder: Path = RESULTS) -> str:
    """How far every experiment has come."""
    lines = ["| experiment | runs | had to be stopped | command |", "|---|--:|--:|---|"]
    for name in experiments():
        path = folder / f"{name}.json"
        record = read_results(path) if path.is_file() else None
        command = f"`sino reproduce {name}`"
        if record is None:
            lines.append(f"| {name} | {NOT_RUN} | | {command} |")
            continue
        states = [run["state"] for entry in record["configurations"] for run in entry["runs"]]
        stopped = sum(state.startswith("stopped") for state in states)
        lines.append(f"| {name} | {len(states)} of {record['runs_wanted']} | {stopped} | {command} |")
    return "\n".join(lines)


def benchmark_tables(which: str, results: Results) -> str:
    """One table for each benchmark of one of the paper's tables."""
    return "\n\n".join(_benchmark_table(which, name, results) for name in TABLES[which])


def _benchmark_table(which: str, name: str, results: Results) -> str:
    run = [c for c in results.configurations if c.facts["benchmark"] == name and c.experiment == which]
    if not run:
        return f"`{name}`: {NOT_RUN}; `sino reproduce {which} --only {name}/`."
    head = (
        "| method | as the paper measures | spread | lowest | unseen | spread | paper, mean | paper, lowest | seeds |"
    )
    lines = [f"**`{name}`**", "", head, "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for scheme in ("paper", "strong", "weno"):
        if (alone := results.coarse(name, scheme)) is not None:
            title = "coarse grid" if scheme == "paper" else f"coarse grid, {scheme} scheme"
            figure = number(BENCHMARKS[name].paper_errors[alone.facts["coarse"]]) if scheme == "paper" else ""
            cells = [*_cells(alone, "paper", ["none"]), *_cells(alone, "test", ["none"])[:2]]
            lines.append(f"| {title} | {cells[0]} | | | {cells[3]} | | {figure} | | |")
    expected = [{"model": m} for m in MODELS]
    known = {(c.facts["model"], c.facts["schedule"], c.facts["scheme"], str(c.facts["sizes"])) for c in run}
    for row in expected:
        if (row["model"], "ours", "paper", "{}") not in known:
            pair = ERRORS[name][row["model"]]
            figures = " | ".join(map(number, pair))
            lines.append(f"| {MODEL_TITLES[row['model']]} | {NOT_RUN} | | | {NOT_RUN} | | {figures} | |")
        lines += [_row(c) for c in run if c.facts["model"] == row["model"]]
    lines += [_row(c) for c in run if c.facts["model"] not in MODELS]
    return "\n".join(lines)


def _row(c: Configuration) -> str:
    parts = [MODEL_TITLES[c.facts["model"]]]
    parts += ["paper's schedule"] if c.facts["schedule"] == "paper" else []
    parts += [f"{c.facts['scheme']} scheme"] if c.facts["scheme"] != "paper" else []
    parts += [f"{key.replace('_', ' ')} {value}" for key, value in c.facts["sizes"].items()]
    pair = None if paper_figure(c.facts) is None else ERRORS[c.facts["benchmark"]][c.facts["model"]]
    figures = ["", ""] if pair is None else [number(value) for value in pair]
    cells = [", ".join(parts), *_cells(c, "paper"), *_cells(c, "test")[:2], *figures, str(len(c.runs))]
    return "| " + " | ".join(cells) + " |"


def _cells(c: Configuration, dataset: str, weights: Iterable[str] | None = None) -> list[str]:
    """Mean, spread over seeds in per cent, and minimum."""
    scores = c.scores(dataset, weights)
    if not scores:
        return [c.runs[0]["state"].partition(" at")[0] if c.runs else NOT_RUN, "", ""]
    values = [score["mean"] for score in scores]
    if None in values:
        blown, count = (sum(score[key] for score in scores) for key in ("blown_up", "trajectories"))
        return [f"blew up {blown} of {count}", "", ""]
    spread = f"{100 * stdev(values) / fmean(values):.0f} %" if len(values) > 1 else ""
    return [number(fmean(values)), spread, number(min(values))]


def bottleneck_table(results: Results) -> str:
    """SINO by the size of its bottlenecks, which the paper has in two dimensions."""
    sizes = (2, 8, 16, 32)
    lines = ["| flow | " + " | ".join(f"n = {n} | paper" for n in sizes) + " |", "|---|" + "--:|--:|" * len(sizes)]
    for name in (*TABLES["1d"], *BOTTLENECK):
        cells = [f"`{name}`"]
        for n in sizes:
            wanted = {} if n == 2 else {"frequency_bottleneck": n, "spatial_bottleneck": n}
            found = results.find(name, "sino", sizes=wanted)
            paper = BOTTLENECK.get(name)
            cells += [
                NOT_RUN if found is None else _cells(found, "paper")[0],
                "" if paper is None else number(paper[n]),
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def trajectories_table(results: Results) -> str:
    """Error on unseen trajectories by how many were trained on."""
    counts = (8, 16, 32, 64)
    found = {(c.facts["benchmark"], c.facts["model"], c.facts.get("trajectories")): c for c in results.configurations}
    pairs = [(b, m) for b, m, n in found if n]
    if not pairs:
        return f"{NOT_RUN.capitalize()}: `sino reproduce data-efficiency`."
    lines = ["| flow | network | " + " | ".join(map(str, counts)) + " |", "|---|---|" + "--:|" * len(counts)]
    for benchmark, model in dict.fromkeys(pairs):
        cells = [_cells(c, "test")[0] if (c := found.get((benchmark, model, n))) else NOT_RUN for n in counts]
        lines.append(f"| `{benchmark}` | {MODEL_TITLES[model]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def transfer_table(results: Results) -> str:
    """Weights tried elsewhere without training: error on unseen trajectories over that of the coarse grid."""
    lines = ["| weights | tried on | cells | coarse grid | with closure |", "|---|---|--:|--:|--:|"]
    for c in results.configurations:
        places = {(t["benchmark"], t["coarse"]) for run in c.runs for t in run["transfers"]}
        for place in sorted(places):
            tried = [t for run in c.runs for t in run["transfers"] if (t["benchmark"], t["coarse"]) == place]
            there = Configuration(c.experiment, c.name, c.facts, [{"errors": t["errors"], "state": ""} for t in tried])
            cells = (_cells(there, "test", ["none"])[0], _cells(there, "test")[0])
            lines.append(f"| `{c.name}` | `{place[0]}` | {place[1]} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) if len(lines) > 2 else f"{NOT_RUN.capitalize()}: `sino reproduce transfer`."


def cost_table(results: Results) -> str:
    """Seconds of training per run and device."""
    lines = ["| run | device | seeds | minutes per seed, or for all seeds that trained together |", "|---|---|--:|--:|"]
    for c in results.configurations:
        by_device: dict[str, list[float]] = {}
        for run in c.runs:
            if run["train_seconds"] is not None:
                by_device.setdefault(run["provenance"].get("device", "?"), []).append(run["train_seconds"])
        for device, seconds in by_device.items():
            lines.append(f"| `{c.name}` | {device} | {len(seconds)} | {fmean(seconds) / 60:.1f} |")
    return "\n".join(lines) if len(lines) > 2 else "No run of an experiment file is stored yet."


def table(name: str) -> str:
    """A table by the name that stands in a page."""
    results = load()
    if name.removeprefix("reproduction-") in TABLES:
        return benchmark_tables(name.removeprefix("reproduction-"), results)
    makers = {"bottleneck": bottleneck_table, "data-efficiency": trajectories_table}
    makers |= {"transfer": transfer_table, "cost": cost_table, "state": lambda _: state_table()}
    return makers[name.removeprefix("reproduction-")](results)
