"""`sino reproduce`: all runs of an experiment file, skipping what is done, and one file of results."""

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import IO, Any

import jax

from sino.benchmarks import Benchmark, benchmark
from sino.cli.datasets import dataset_folder, is_dataset
from sino.cli.experiment import Entry, Experiment, checkout, find_experiment, read_experiment
from sino.cli.pool import Job, Limits, Step, last_words, run_jobs
from sino.cli.progress import duration
from sino.cli.verbs import Reproduce
from sino.core.cores import usable_cores
from sino.core.errors import UserError
from sino.report.reproduction import describe_run, write_results
from sino.train.run import Run


@dataclass(frozen=True)
class Member:
    """The run of one seed of an entry."""

    entry: Entry
    seed: int
    run: Run

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.entry.name} seed {self.seed}"

    @property
    def files(self) -> list[Path]:
        """The evaluations that are wanted."""
        return [self.run.path / name for name in ("evaluation.json", *(e.file for e in self.entry.elsewhere))]

    @property
    def state(self) -> str:
        """`done`, `stopped`, `trained`, `begun` or `missing`."""
        if self.run.finished:
            return "done" if all(file.is_file() for file in self.files) else "trained"
        if not self.run.metrics_file.is_file():
            return "missing"
        lines = self.run.metrics(tolerate_last=True)
        return "stopped" if any(line.get("event") == "stopped" for line in lines) else "begun"


def reproduce(options: Reproduce) -> int:
    """Run `sino reproduce`; 0, 1 if a run failed or had to be stopped, 130 if the user stopped it."""
    jax.config.update("jax_platforms", "cpu")  # this process only directs: the device is for the others
    experiment = read_experiment(find_experiment(options.name))
    if options.processes is not None and options.processes < 1:
        raise UserError(f"--processes must be at least 1, not {options.processes}")
    out = options.out or Path("runs") / experiment.name
    members = _members(experiment, out, options)
    for member in members:
        _check(member)
    if options.dry_run:
        _print_plan(experiment, members)
        return 0
    with _alone(out) as lock:
        together = _platform() != "cpu"
        limits = _limits(options, together)
        status = _run(experiment, members, options.data, out, limits, together, lock)
        _write(experiment, out, options.results)
    return status


def _members(experiment: Experiment, out: Path, options: Reproduce) -> list[Member]:
    names = {entry.name for entry in experiment.entries}

    def means(text: str, name: str) -> bool:
        return text == name if text in names else text in name

    def wanted(entry: Entry) -> bool:
        return not options.only or any(means(text, entry.name) for text in options.only)

    for text in options.only:
        if not any(text in name for name in names):
            listed = ", ".join(entry.name for entry in experiment.entries)
            raise UserError(f"no run of {experiment.path} has {text!r} in its name; the runs are {listed}")
    members = [Member(e, s, Run(e.folder(out, s))) for e in experiment.entries if wanted(e) for s in e.request.seeds]
    chosen = [member for member in members if not options.seeds or member.seed in options.seeds]
    if not chosen:
        seeds = ", ".join(map(str, sorted({member.seed for member in members})))
        raise UserError(f"none of these runs has one of the seeds {options.seeds}; they have {seeds}")
    return chosen


def _check(member: Member) -> None:
    """Refuse a folder that holds another configuration's run."""
    asked: dict[str, Any] = member.entry.request.configuration_without_data(member.seed)
    if member.run.config_file.is_file():
        asked["data"] = member.run.configuration().get("data")  # which the training itself compares
    member.run.check(asked)


def _run(
    experiment: Experiment, members: list[Member], data: Path, out: Path, limits: Limits, together: bool, lock: IO[Any]
) -> int:
    """Do what is missing, and tell."""
    todo = [member for member in members if member.state not in ("done", "stopped")]
    count = len(members)
    print(f"{experiment.title}: {count} runs, {count - len(todo)} done, {limits.processes} side by side", flush=True)
    for member in members:
        if member.state == "stopped":
            _tell_failure(member.title, _why_stopped(member))
    jobs = _jobs(todo, data, out, together)
    by_job = {job.name: [member for member in todo if job.name in (member.entry.name, member.title)] for job in jobs}
    failed: list[str] = []
    left = {member.title for member in todo}

    def ended(job: Job, status: int) -> None:
        if job.makes is not None and status == 0:
            print(f"{job.name}: generated", flush=True)
        told = True
        for member in by_job[job.name]:
            if member.state == "done":
                left.discard(member.title)
                print(f"{describe_run(member.run.path)} [{count - len(left)} of {count}]", flush=True)
            elif member.state == "stopped":
                left.discard(member.title)
                _tell_failure(member.title, _why_stopped(member))
            else:
                told = False
        if status != 0 and (job.makes is not None or not told):
            failed.append(job.name)
            _tell_failure(job.name, f"{last_words(job.log)} (exit status {status}, see {job.log})")

    finished = run_jobs(jobs, limits, ended, lock)
    if not finished:
        print(f"stopped: {len(left)} of {count} runs are left; the same command goes on", flush=True)
    if failed or any(member.state == "stopped" for member in members):
        return 1
    return 0 if finished or limits.seconds is not None else 130


def _tell_failure(name: str, why: str) -> None:
    print(f"{name}: FAILED: {why}", file=sys.stderr, flush=True)


def _why_stopped(member: Member) -> str:
    event = [line for line in member.run.metrics(tolerate_last=True) if line.get("event") == "stopped"][-1]
    return f"the training was stopped, not finite again and again, at update {event['update']}"


def _jobs(todo: list[Member], data: Path, out: Path, together: bool) -> list[Job]:
    """First the data that are missing, then the runs: all seeds of an entry together, or each by itself."""
    sources: dict[Path, Job] = {}
    runs: list[Job] = []
    entries = list(dict.fromkeys(member.entry.name for member in todo))
    for name in entries:
        members = [member for member in todo if member.entry.name == name]
        for group in [members] if together else [[member] for member in members]:
            runs.append(_job(group, data, out, sources, name if together else group[0].title))
    return [*sources.values(), *runs]


def _job(members: list[Member], data: Path, out: Path, sources: dict[Path, Job], name: str) -> Job:
    entry = members[0].entry
    request, preset = entry.request, entry.request.preset
    needs = []

    def source(b: Benchmark, coarse: int) -> Path:
        folder = dataset_folder(b, preset, coarse, data)
        if not is_dataset(folder):
            command = ("generate", b.name, "--preset", preset, "--coarse", str(coarse), "--out", str(folder))
            log = out / "logs" / f"data-{folder.name}.log"
            sources.setdefault(folder, Job(f"data {folder}", (Step(command),), log, makes=folder))
            needs.append(folder)
        return folder

    home = source(request.benchmark, request.coarse)
    folder = out / entry.name
    train = ("train", request.benchmark.name, *entry.words, "--data", str(home), "--out", str(folder), "--seeds")
    each = [(str(m.seed), str(home), str(m.run.results_file)) for m in members]
    steps = [Step(train, tuple(each))]
    places: list[tuple[str, tuple[str, ...]]] = [("evaluation.json", ("--data", str(home)))]
    for e in entry.elsewhere:
        there = source(benchmark(e.benchmark, preset), e.coarse)
        places.append((e.file, ("--on", e.benchmark, "--coarse", str(e.coarse), "--data", str(there))))
    for file, words in places:
        each = [(str(m.run.path), str(m.run.results_file), str(m.run.path / file)) for m in members]
        steps.append(Step(("evaluate", *words), tuple(each)))
    log = out / "logs" / f"{name.replace('/', '-').replace(' ', '-')}.log"
    return Job(name, tuple(steps), log, needs=tuple(needs))


def _limits(options: Reproduce, together: bool) -> Limits:
    """On a CPU a process per core, each with one thread; on a GPU one process, which has all seeds of a run."""
    cores = usable_cores()
    processes = options.processes or (1 if together else min(len(cores), _share() or len(cores)))
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if together and processes > 1 else {}
    pinned = None if together or processes == 1 else tuple(cores)
    return Limits(processes, pinned, options.seconds, shared)


def _share() -> int | None:
    """How many cores a container may use of those that it sees; None if that is not said."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None


def _platform() -> str:
    """What JAX would compute on, asked in another process."""
    command = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"JAX does not start: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return done.stdout.split()[-1]


@contextmanager
def _alone(out: Path) -> Iterator[IO[Any]]:
    """Hold a lock on the folder of the runs; the processes that are started hold it too, until they have ended."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        for _ in range(50):  # those of a killed command may still be saving
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise UserError(f"another `sino reproduce` works in {out}, or still saves; wait for it, or give --out")
        yield lock


def _print_plan(experiment: Experiment, members: list[Member]) -> None:
    """Every run and its state; how long the rest will take, as far as finished runs tell."""
    seconds: dict[str, list[float]] = {}
    for member in members:
        if member.run.finished:
            seconds.setdefault(member.entry.name, []).append(member.run.results()["train_seconds"])
    known, unknown = 0.0, 0
    for member in members:
        state, told = member.state, seconds.get(member.entry.name)
        if state in ("missing", "begun"):
            known, unknown = (known + fmean(told), unknown) if told else (known, unknown + 1)
        about = f", about {duration(fmean(told))} as its other seeds" if told and state == "missing" else ""
        print(f"{member.title}: {state}{about}")
    left = sum(member.state in ("missing", "begun", "trained") for member in members)
    print(f"{experiment.title}: {left} of {len(members)} runs are left; nothing was written")
    if left:
        print(f"training time left: {duration(known)} on one process, and {unknown} runs of which nothing is known yet")


def _write(experiment: Experiment, out: Path, results: Path | None) -> None:
    """The result file, in the repository if the experiment is one of its own, else with the runs."""
    root = checkout()
    own = root is not None and experiment.path.resolve().parent == root / "experiments"
    usual = root / "results" / "reproduction" if root is not None and own else out
    path = results or usual / f"{experiment.name}.json"
    wanted = {
        f"{e.name}/seed-{seed}": e.request.configuration_without_data(seed)
        for e in experiment.entries
        for seed in e.request.seeds
    }
    count = write_results(path, experiment.title, wanted, out)
    print(f"wrote {path} ({count} of {len(wanted)} runs)")
