"""What this process may compute on."""

import os


def usable_cores() -> list[int]:
    """The cores that this process may run on, where the system tells; else all."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
