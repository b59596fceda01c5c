"""Work in several processes side by side: started in order, stopped gently, told of when it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

GRACE = 90.0
"""Seconds that a process has to save before it is killed."""
PAUSE = 0.1
"""Seconds between two looks at the processes."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Step:
    """A command; with `each`, for those words of which a file is there that it needs and one missing that it makes."""

    command: tuple[str, ...]
    each: tuple[tuple[str, str, str], ...] = ()
    """Word to append, file that must exist, file that must not."""

    @classmethod
    def load(cls, value: list[Any]) -> "Step":
        """From JSON."""
        command, each = value
        return cls(tuple(command), tuple((word, needs, makes) for word, needs, makes in each))


@dataclass(frozen=True)
class Job:
    """What one process does."""

    name: str
    steps: tuple[Step, ...]
    log: Path
    """Where what it prints goes."""
    needs: tuple[Path, ...] = ()
    """Folders that other jobs make; it waits for them, and is dropped if they fail."""
    makes: Path | None = None


@dataclass(frozen=True)
class Limits:
    """How much may be used."""

    processes: int
    cores: tuple[int, ...] | None
    """One for each process, which then gets a single thread; None to leave them alone."""
    seconds: float | None = None
    """After so many, nothing new is started and what runs is asked to save and stop."""
    environment: dict[str, str] = field(default_factory=dict)


def run_jobs(
    jobs: list[Job], limits: Limits, ended: Callable[[Job, int], object], passed: IO[Any] | None = None
) -> bool:
    """Run all jobs; `ended` hears of each with its exit status. False if time or the user ended it before.

    `passed` is a file that the processes keep open as long as they live.
    """
    waiting, failed = list(jobs), set[Path]()
    running: dict[int, tuple[Job, subprocess.Popen]] = {}
    started = time.monotonic()
    asked_at = None
    with _stop_requests() as asked:
        try:
            while running or (waiting and asked_at is None):
                for slot, (job, process) in list(running.items()):
                    if (status := process.poll()) is not None:
                        del running[slot]
                        _close(process)
                        if status != 0 and job.makes is not None:
                            failed.add(job.makes)
                        if asked_at is None or status == 0:
                            ended(job, status)
                now = time.monotonic()
                late = limits.seconds is not None and now - started > limits.seconds
                if asked_at is None and (asked or late):
                    asked_at = now
                    print("asking what runs to save and stop", flush=True)
                    for _, process in running.values():
                        process.terminate()
                if asked_at is not None and (len(asked) > 1 or now - asked_at > GRACE):
                    for _, process in running.values():
                        process.kill()
                if asked_at is None:
                    _start(waiting, running, failed, limits, ended, passed)
                time.sleep(PAUSE)
        finally:
            for _, process in running.values():  # an exception is on its way
                process.terminate()
                process.wait()
                _close(process)
    return asked_at is None


def _start(
    waiting: list[Job],
    running: dict[int, tuple[Job, subprocess.Popen]],
    failed: set[Path],
    limits: Limits,
    ended: Callable[[Job, int], object],
    passed: IO[Any] | None,
) -> None:
    """Fill the free slots with the first jobs that have what they need."""
    pending = {job.makes for job in [*waiting, *(job for job, _ in running.values())]} - {None}
    for job in list(waiting):
        if missing := failed & set(job.needs):
            waiting.remove(job)
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.write_text(f"sino: {min(missing)} could not be made\n")
            ended(job, 1)
            continue
        free = [slot for slot in range(limits.processes) if slot not in running]
        if not free or pending & set(job.needs):
            continue
        waiting.remove(job)
        running[free[0]] = (job, _launch(job, free[0], limits, passed))


def _launch(job: Job, slot: int, limits: Limits, passed: IO[Any] | None) -> subprocess.Popen:
    environment = os.environ | limits.environment
    pinned = limits.cores is not None and job.makes is None  # a fine simulation may use what it finds
    if pinned:
        flags = f"{environment.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
        environment |= ONE_THREAD | {"XLA_FLAGS": flags}
    cores = [limits.cores[slot % len(limits.cores)]] if pinned and limits.cores else None
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "sino.cli.worker"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C on a terminal reaches this process alone, which then asks the others
            pass_fds=() if passed is None else (passed.fileno(),),
        )
    task = {"cores": cores, "steps": [[step.command, step.each] for step in job.steps]}
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already, and will be heard of
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()  # and stays open: its end tells the process that this one is gone
    return process


def _close(process: subprocess.Popen) -> None:
    with suppress(BrokenPipeError):
        if process.stdin is not None:
            process.stdin.close()


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Turn SIGTERM and Ctrl-C into a list of requests."""
    asked: list[int] = []
    before = {number: signal.signal(number, lambda n, _: asked.append(n)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def last_words(log: Path) -> str:
    """The last line that a process printed, which says why it failed."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()] if log.is_file() else []
    said = [line for line in lines if line.startswith("sino: ")] or [line for line in lines if line]
    return said[-1].removeprefix("sino: ")[:300] if said else "it did not come to say why"
