"""A process of `sino reproduce`: it runs some commands, and ends when the one that started it does.

The first line of its standard input is the work, as JSON; then the input stays open as long as the parent lives.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from sino.cli import main
from sino.cli.pool import Step


def remaining(step: Step) -> list[str] | None:
    """The command of a step for what it can do and has not done yet; None if that is nothing."""
    if not step.each:
        return list(step.command)
    missing = [word for word, needs, makes in step.each if Path(needs).exists() and not Path(makes).exists()]
    return [*step.command, *missing] if missing else None


def work(steps: list[Step]) -> int:
    """Run the steps; a status of 1 (a seed had to be stopped) lets the others go on, any other ends it."""
    worst = 0
    for step in steps:
        command = remaining(step)
        status = 0 if command is None else main(command)
        if status not in (0, 1):
            return status
        worst = max(worst, status)
    return worst


def _follow_parent() -> None:
    """Save and end, as if asked to by SIGTERM, when the parent is gone, however it ended."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _read_line() -> str:
    """Without reading ahead, which would take from the thread that waits for the end."""
    line = b""
    while (byte := os.read(sys.stdin.fileno(), 1)) not in (b"\n", b""):
        line += byte
    return line.decode()


if __name__ == "__main__":
    task = json.loads(_read_line())
    if task["cores"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, task["cores"])
    threading.Thread(target=_follow_parent, daemon=True).start()
    status = work([Step.load(step) for step in task["steps"]])
    sys.stdout.flush()
    os._exit(status)  # whatever the waiting thread does
