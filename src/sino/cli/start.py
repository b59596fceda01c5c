"""Set JAX up for a command."""

import os
from pathlib import Path

import jax


def start_jax() -> None:
    """Allow float64, multiply matrices in full precision, and keep compiled programs between runs.

    The programs go to the user's cache folder, unless another is set.
    """
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")  # on a GPU the default would be TF32
    if jax.config.values["jax_compilation_cache_dir"] is None:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(root / "sino" / "jax"))
