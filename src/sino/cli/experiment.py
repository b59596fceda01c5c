"""Experiment files: the runs that `sino reproduce` makes, checked before anything starts.

title = "Kuramoto-Sivashinsky"

[[runs]]
benchmarks = ["ks"]              # and models, schedules, schemes: every combination is a run
models = ["sino", "fno"]
seeds = [1, 2, 3]
sizes = [{width = 8}, {}]        # sizes and trajectories may be lists too
epochs_scale = 0.5               # any other option of `sino train`
evaluate = [{on = "ks-32"}]      # besides at home: on another flow, or with `coarse` on another grid
"""

import dataclasses
import difflib
import io
import itertools
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sino
from sino.benchmarks import benchmark
from sino.cli.datasets import name_with_preset
from sino.cli.training_plan import Request, make_request
from sino.cli.verbs import Train
from sino.cli.words import read_toml, words_of
from sino.core.errors import UserError

LISTS = {"benchmarks": "benchmark", "models": "model", "schedules": "schedule", "schemes": "scheme"}
"""Keys that hold several values of an option, each of which makes a run."""
SEVERAL = ("sizes", "trajectories")
"""Options that may be given as a list, each item of which makes a run."""
FIELDS = {field.name: field for field in dataclasses.fields(Train)}
NOT_HERE = {"data", "out", "dry_run", "tensorboard"}
"""Options of `sino train` that a file of runs does not decide."""
UNNAMED = {"benchmark", "model", "preset", "schedule", "scheme", "seeds", "sizes", "memory", "precision"}
UNNAMED |= {"evaluate_every"}
"""Options that the name of a run's folder tells otherwise, or not at all."""


@dataclass(frozen=True)
class Elsewhere:
    """An evaluation of finished weights on another flow or grid."""

    benchmark: str
    coarse: int

    @property
    def file(self) -> str:
        """What `sino evaluate` calls its result."""
        return f"evaluation-on-{self.benchmark}-{self.coarse}.json"


@dataclass(frozen=True)
class Entry:
    """One configuration and its seeds."""

    name: str
    """Its folder: BENCHMARK/MODEL, with what is unusual behind."""
    request: Request
    words: tuple[str, ...]
    """The options of `sino train`, without seeds and folders."""
    elsewhere: tuple[Elsewhere, ...]

    def folder(self, out: Path, seed: int) -> Path:
        """The run of one seed."""
        return out / self.name / f"seed-{seed}"


@dataclass(frozen=True)
class Experiment:
    """A file of runs."""

    name: str
    title: str
    path: Path
    entries: tuple[Entry, ...]


def checkout() -> Path | None:
    """The repository that this package runs from, if it does."""
    root = Path(sino.__file__).resolve().parents[2]
    return root if (root / "experiments").is_dir() and (root / "pyproject.toml").is_file() else None


def find_experiment(name: str) -> Path:
    """The file that a user means by a name or a path."""
    if name.endswith(".toml") or Path(name).name != name:
        return Path(name)
    root = checkout()
    if root is None:
        raise UserError(
            f"the experiments are files of the repository, and this sino runs without it: give the path of a TOML file "
            f"instead of {name!r}"
        )
    path = root / "experiments" / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.toml")))
        raise UserError(f"there is no experiment {name!r}; there are {known}, and paths of TOML files")
    return path


def read_experiment(path: Path) -> Experiment:
    """Read and check a file of runs. Nothing is written, and no data are needed."""
    values = read_toml(path)
    for key in values:
        if key not in ("title", "runs"):
            raise UserError(f"{path} has a key {key!r} outside of [[runs]]; only `title` may stand there")
    groups = values.get("runs")
    if not isinstance(groups, list) or not groups or not all(isinstance(group, dict) for group in groups):
        raise UserError(f"{path} lists no runs: it needs a table [[runs]]")
    entries: dict[str, Entry] = {}
    for group in groups:
        for entry in _entries(path, group):
            if entry.name in entries:
                raise UserError(f"{path} names the run {entry.name} twice")
            entries[entry.name] = entry
    return Experiment(path.stem, str(values.get("title", path.stem)), path, tuple(entries.values()))


def _entries(path: Path, group: dict[str, Any]) -> list[Entry]:
    """Every combination of the lists of a group."""
    known = [*LISTS, *(name for name in FIELDS if name not in NOT_HERE), "evaluate"]
    for key in group:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise UserError(f"{path} has a key {key!r} in [[runs]]; did you mean {near!r}?")
    axes = []
    for plural, single in LISTS.items():
        if plural in group and single in group:
            raise UserError(f"{path} gives both {plural!r} and {single!r} in one [[runs]]")
        found = group.get(plural, [group[single]] if single in group else [None])
        if not isinstance(found, list) or not found:
            raise UserError(f"{path}: {plural!r} must be a list of names, not {found!r}")
        axes.append([(single, value) for value in found if value is not None])
    if not axes[0]:
        raise UserError(f"{path} has a [[runs]] without `benchmarks`")
    several = [key for key in SEVERAL if isinstance(group.get(key), list)]
    axes += [[(key, value) for value in group[key]] for key in several]
    taken = {*LISTS.values(), *several}
    common = {key: value for key, value in group.items() if key in FIELDS and key not in taken}
    places = group.get("evaluate", [])
    chosen = itertools.product(*(axis or [None] for axis in axes))
    return [_entry(path, dict(filter(None, pairs)) | common, places) for pairs in chosen]


def _entry(path: Path, given: dict[str, Any], places: Any) -> Entry:
    options = _parse(path, given)
    try:
        request = make_request(options)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    kept = {key: value for key, value in given.items() if key not in ("benchmark", "seeds")}
    words = [word for key, value in kept.items() for word in words_of(FIELDS[key], value)]
    return Entry(_name(options), request, tuple(words), _elsewhere(path, request, places))


def _parse(path: Path, given: dict[str, Any]) -> Train:
    """The options as the command line would read them."""
    import tyro

    def read(keys: list[str]) -> Train | None:
        words = [word for key in keys for word in words_of(FIELDS[key], given[key])]
        try:
            with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
                return tyro.cli(Train, args=[str(given["benchmark"]), *words])
        except SystemExit:
            return None

    keys = [key for key in given if key != "benchmark"]
    parsed = read(keys)
    if parsed is None:
        wrong = next((key for key in keys if read([key]) is None), keys[0])
        flag = "--" + wrong.replace("_", "-")
        raise UserError(f"{path}: {wrong} = {given[wrong]!r} is not what `sino train {flag}` takes")
    return parsed


def _name(options: Train) -> str:
    """`ks/sino`, `ks-tiny/fno-paper`, `ks/sino-width-8`: what is not usual stands in the name."""
    b = benchmark(options.benchmark, options.preset)
    parts = [options.model]
    parts += [options.schedule] if options.schedule != "ours" else []
    parts += [options.scheme] if options.scheme != "paper" else []
    parts += [options.precision] if options.precision != "float32" else []
    parts += [f"{key}-{value}" for key, value in options.sizes.items()]
    for name, field in FIELDS.items():
        value = getattr(options, name)
        if name not in UNNAMED | NOT_HERE and value != field.default:
            text = "-".join("x".join(map(str, pair)) for pair in value) if isinstance(value, tuple) else str(value)
            parts.append(f"{name}-{text}")
    return f"{name_with_preset(b, options.preset)}/{'-'.join(parts).replace('_', '-')}"


def _elsewhere(path: Path, request: Request, places: Any) -> tuple[Elsewhere, ...]:
    """Where else the weights are to be tried."""
    if not isinstance(places, list) or not all(isinstance(place, dict) for place in places):
        raise UserError(f"{path}: 'evaluate' must be a list such as [{{on = \"ks-32\"}}, {{coarse = 128}}]")
    found = []
    for place in places:
        if not place or place.keys() - {"on", "coarse"} or not isinstance(place.get("coarse", 1), int):
            raise UserError(f"{path}: an entry of 'evaluate' has `on` or `coarse`, or both, unlike {place!r}")
        own = request.benchmark
        try:
            there = benchmark(place.get("on", own.name), request.preset)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        if there.dim != own.dim:
            raise UserError(f"{path}: {own.name} has {own.dim} dimensions, and {there.name} has {there.dim}")
        usual = request.coarse if there.name == own.name else there.sizes.coarse
        elsewhere = Elsewhere(there.name, place.get("coarse", usual))
        if (elsewhere.benchmark, elsewhere.coarse) == (own.name, request.coarse):
            raise UserError(f"{path}: 'evaluate' names {own.name} itself, which is always evaluated")
        found.append(elsewhere)
    return tuple(found)
