"""Set JAX up for a command."""

import os
from pathlib import Path

import jax


def start_jax() -> None:
    """Allow float64, and keep compiled programs between runs (in the user's cache folder, unless one is set)."""
    jax.config.update("jax_enable_x64", True)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(root / "sino" / "jax"))
