"""A run: one folder per benchmark, network and seed.

RUN/config.json             what was asked for, fully resolved, with versions and the data's hash
RUN/metrics.jsonl           one line per update, evaluation and event
RUN/checkpoints/last/       state to go on from        (previous/: the one before)
RUN/checkpoints/best/       weights that the validation trajectories chose
RUN/checkpoints/selected/   weights that the paper's rule chose: best on the test window of the training set
RUN/results.json            errors, when the run has ended
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sino.benchmarks import BENCHMARKS, benchmark
from sino.core.errors import UserError, differences
from sino.core.files import named_leaves, write_atomically, write_json
from sino.core.provenance import source
from sino.coupling.classical import CLASSICAL, build_classical
from sino.coupling.closure import Closure, Statistics
from sino.models import build_model
from sino.train import checkpoint
from sino.train.update import State

FORMAT_VERSION = 1
BEFORE = {"recipe.optimiser": "adam"}
"""What a run did whose configuration does not say, because there was no choice yet."""
WEIGHTS = Path(__file__).parent.parent / "weights"
"""The weights that come with this package: WEIGHTS/BENCHMARK/."""
LARGEST_SIZE = 100_000
"""No network has a size above this; a damaged file may."""


@dataclass(frozen=True)
class Run:
    """A run folder. Nothing is read or written before it is asked for."""

    path: Path

    @property
    def config_file(self) -> Path:
        """What was asked for."""
        return self.path / "config.json"

    @property
    def metrics_file(self) -> Path:
        """One line per update, evaluation and event."""
        return self.path / "metrics.jsonl"

    @property
    def results_file(self) -> Path:
        """Written when the run has ended."""
        return self.path / "results.json"

    def checkpoint(self, name: str) -> Path:
        """Folder of `last`, `previous`, `best` or `selected`."""
        return self.path / "checkpoints" / name

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.results_file.is_file()

    def start(self, configuration: Mapping[str, Any]) -> None:
        """Claim the folder for a configuration, or refuse, showing the difference, if it holds another one's run."""
        self.check(configuration)
        if not self.config_file.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            stamp = {"format_version": FORMAT_VERSION, "provenance": source()}
            write_json(self.config_file, stamp | {"configuration": configuration})

    def check(self, configuration: Mapping[str, Any]) -> None:
        """Refuse, as `start` does, without writing anything."""
        if not self.config_file.exists():
            names = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
            if names - {".config.json.tmp"}:  # which a kill may have left
                raise UserError(f"{self.path} is not empty and holds no run; give another folder with --out")
            return
        stored, asked = (BEFORE | _flat(c) for c in (self.configuration(), json.loads(json.dumps(configuration))))
        everything = {key: asked.get(key) for key in sorted(stored.keys() | asked.keys())}
        if found := differences(stored, everything):
            raise UserError(
                f"{self.path} holds another configuration's run: {'; '.join(found[:8])}; give another --out"
            )

    def configuration(self) -> dict[str, Any]:
        """What the run was asked for."""
        if not self.config_file.is_file():
            raise UserError(f"{self.path} is not a run: it has no config.json")
        config = checkpoint.read_json(self.config_file, FORMAT_VERSION)
        if not isinstance(config.get("configuration"), dict):
            raise UserError(f"{self.config_file} is damaged: it holds no configuration")
        return config["configuration"]

    def results(self) -> dict[str, Any]:
        """What the run came to."""
        results = checkpoint.read_json(self.results_file, FORMAT_VERSION)
        try:
            scores = [score for judges in results["errors"].values() for score in judges.values()]
            _ = [(score["mean"], score["median"], score["blown_up"], score["trajectories"]) for score in scores]
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.results_file} is damaged: it holds no errors") from error
        return results

    def finish(self, errors: Mapping[str, Any], train_seconds: float, facts: Mapping[str, Any]) -> None:
        """Write the results: errors by weights and by what they are judged on, the time, and other facts."""
        result = {
            "format_version": FORMAT_VERSION,
            "configuration": self.configuration(),
            "provenance": source(),
            "errors": errors,
            "train_seconds": train_seconds,
        }
        write_json(self.results_file, plain(result | dict(facts)))

    def saved_updates(self) -> dict[int, str]:
        """The updates at which a checkpoint to go on from was saved, by name; an unreadable one is an error."""
        found = {}
        for name in ("last", "previous"):
            folder = self.checkpoint(name)
            if folder.is_dir():
                try:
                    found.setdefault(int(checkpoint.read_facts(folder)["update"]), name)
                except (UserError, KeyError, TypeError, ValueError) as error:
                    raise UserError(self.advice(name, error)) from error
        return found

    def advice(self, name: str, error: Exception) -> str:
        """What to say of a damaged checkpoint: which it is, and what there is to go on from."""
        message = f"{self.checkpoint(name)} cannot be used ({error})"
        other = self.checkpoint("previous")
        if name == "previous" and self.checkpoint("last").is_dir():
            return f"{message}; delete that folder, the run goes on without it"
        if name != "last" or not other.is_dir():
            return f"{message}; delete {self.path} to begin again"
        try:
            update = checkpoint.read_facts(other)["update"]
        except (UserError, KeyError):
            return f"{message}, nor can the one before it; delete {self.path} to begin again"
        return f"{message}; delete that folder to go on from the one before it, at update {update}"

    def save(self, state: State, facts: Mapping[str, Any]) -> None:
        """Write a checkpoint to go on from; the last one becomes the previous one."""
        checkpoint.save(self.checkpoint("last"), state, dict(facts), keep=self.checkpoint("previous"))

    def load(self, name: str, like: State) -> tuple[State, dict[str, Any]]:
        """Read a checkpoint to go on from."""
        folder = self.checkpoint(name)
        try:
            return checkpoint.load(folder, like), checkpoint.read_facts(folder)
        except UserError as error:
            raise UserError(self.advice(name, error)) from error

    def load_closure(self, name: str, like: Closure) -> Closure:
        """Read weights and statistics."""
        return checkpoint.load(self.checkpoint(name), like)

    def save_closure(self, name: str, closure: Closure, facts: Mapping[str, Any]) -> None:
        """Write weights and statistics."""
        checkpoint.save(self.checkpoint(name), closure, dict(facts))

    def cut_metrics(self, update: int) -> None:
        """Drop the lines that came after an update, and a last line that was cut short."""
        if not self.metrics_file.is_file():
            return
        lines = [line for line in self.metrics(tolerate_last=True) if line["update"] <= update]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write_atomically(self.metrics_file, lambda temporary: temporary.write_text(text))

    def append_metrics(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Add lines; numbers that are not finite are written as null."""
        with self.metrics_file.open("a") as file:
            for line in lines:
                file.write(json.dumps(plain(line), allow_nan=False) + "\n")

    def metrics(self, tolerate_last: bool = False) -> list[dict[str, Any]]:
        """All lines."""
        lines = self.metrics_file.read_bytes().splitlines() if self.metrics_file.is_file() else []
        parsed = []
        for number, line in enumerate(lines, start=1):
            try:
                value = json.loads(line)
                parsed.append(value | {"update": int(value["update"])})
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                if tolerate_last and number == len(lines):
                    return parsed
                raise UserError(f"{self.metrics_file} is damaged at line {number}") from error
        return parsed


def load_closure(path: str | Path, checkpoint_name: str | None = None) -> Closure:
    """The trained closure of a run folder: by default the one that validation chose, else the last; or, by the name
    of a benchmark, the one that comes with this package.

    `closure(u)` is the tendency of a state `(c, *n)` on a grid of any size; `closure.prepare(n)` computes the kernels
    once and returns a pure function. Loading runs no code from the file.
    """
    run = Run(Path(path))
    if not run.path.is_dir():
        if str(path) in BENCHMARKS:
            return _load_shipped(str(path), checkpoint_name)
        raise UserError(f"{run.path} is not a run: there is no such folder")
    configuration = run.configuration()
    names = [checkpoint_name] if checkpoint_name else ["best", "selected", "final"]
    folders = [run.checkpoint(name) for name in names]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise UserError(f"{run.path} has no finished weights in {' or '.join(str(f) for f in folders)}")
    return _finite(folder, run.load_closure(folder.name, closure_skeleton(configuration)))


def shipped() -> dict[str, Path]:
    """The folders of the weights that come with this package, by benchmark, in the order of the benchmarks."""
    return {name: WEIGHTS / name for name in BENCHMARKS if (WEIGHTS / name / "card.json").is_file()}


def _load_shipped(name: str, checkpoint_name: str | None) -> Closure:
    folders = shipped()
    if name not in folders:
        there = f"there are some for {', '.join(folders)}" if folders else "there are none yet"
        raise UserError(f"no weights for {name!r} come with this sino: {there}; `sino train {name}` makes your own")
    if checkpoint_name is not None:
        raise UserError(f"the weights for {name!r} that come with sino are the only ones, not {checkpoint_name!r}")
    folder = folders[name]
    return _finite(folder, checkpoint.load(folder, closure_skeleton(Run(folder).configuration())))


def _finite(folder: Path, closure: Closure) -> Closure:
    if not all(np.isfinite(leaf).all() for leaf in named_leaves(closure).values()):
        raise UserError(f"{folder} holds weights that are not finite")
    return closure


def closure_skeleton(configuration: Mapping[str, Any]) -> Closure:
    """The shapes of a run's closure, without its numbers."""
    try:
        sizes = dict(configuration["sizes"])
        if any(isinstance(size, int) and not 0 < size <= LARGEST_SIZE for size in sizes.values()):
            raise UserError(f"the run's config.json is damaged: no network has the sizes {sizes}")
        b = benchmark(configuration["benchmark"], configuration["preset"])
        name, dtype = configuration["model"], jnp.dtype(configuration["precision"])
        zero_mean = bool(configuration["recipe"]["zero_mean"])
        channels = len(b.offsets)
    except UserError:
        raise
    except Exception as error:  # whatever is in the file
        raise _damaged_config(error) from error

    def build() -> Closure:
        if name in CLASSICAL:
            return build_classical(name, jnp.ones((), dtype), channels, b.length)
        model = build_model(name, dim=b.dim, key=jax.random.PRNGKey(0), dtype=dtype, **sizes)
        one = jnp.ones((), dtype)
        return Closure(model, Statistics(jnp.zeros(channels, dtype), one, one), zero_mean)

    try:
        return eqx.filter_eval_shape(build)
    except UserError:
        raise
    except Exception as error:  # sizes of wrong types, and the like
        raise _damaged_config(error) from error


def _damaged_config(error: Exception) -> UserError:
    reason = (str(error) or "?").splitlines()[0][:120]
    return UserError(f"the run's config.json is damaged: {type(error).__name__} {reason}")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return flat


def plain(value: Any) -> Any:
    """For JSON: NumPy scalars as Python ones, what is not finite as None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray, jax.Array)):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
