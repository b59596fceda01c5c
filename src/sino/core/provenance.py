"""Where a result comes from."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import jax

from sino import __version__


def provenance() -> dict[str, str]:
    """Versions and device."""
    device = jax.devices()[0]
    record = {"sino": __version__} | {name: version(name) for name in ("jax", "jaxlib", "numpy")}
    record |= {"python": platform.python_version(), "platform": device.platform, "device": device.device_kind}
    return record


def source() -> dict[str, str]:
    """Provenance and commit: what is stored beside every result."""
    return provenance() | {"commit": git_commit()}


def git_commit() -> str:
    """The commit of the checkout that this package runs from, with `+changes` if it was edited since; or `unknown`.

    Where the source was copied without its history, the variable SOURCE_COMMIT can name the commit.
    """
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("SOURCE_COMMIT", "unknown")
