"""Large memory pages on a CPU: a long rollout keeps hundreds of megabytes, anew for every update."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

ON_REQUEST = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Holds `always [madvise] never`, the choice in brackets: here programs that ask for large pages get them."""
TUNABLES = "GLIBC_TUNABLES"
HUGE = "glibc.malloc.hugetlb"
SINCE = (2, 35)
"""Version of the GNU C library from which on it can ask for them."""


def use_large_pages() -> None:
    """Start this process anew so that its memory comes in large pages, if the system hands them out on request.

    Memory that the kernel hands out page by page, 4 kB each, at every update can take as long as the arithmetic. The C
    library asks for larger ones if a variable of the environment says so when the process starts. The new process takes
    the place of this one, with its number and its arguments.
    """
    if (environment := with_large_pages(os.environ)) is not None:
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, environment)


def with_large_pages(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment in which memory comes in large pages; None if it need not change, or if that would not help."""
    tunables = environment.get(TUNABLES, "")
    if HUGE in tunables or not _asks() or not ON_REQUEST.is_file() or "[madvise]" not in ON_REQUEST.read_text():
        return None
    return {**environment, TUNABLES: ":".join(filter(None, [tunables, f"{HUGE}=1"]))}


def _asks() -> bool:
    """Whether the C library can ask for large pages."""
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        return name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= SINCE
    except (AttributeError, OSError, ValueError):  # another system, or another C library
        return False
