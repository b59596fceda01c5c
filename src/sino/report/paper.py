"""What the paper reports, transcribed.

Errors of the uncorrected coarse grids are `Benchmark.paper_errors`; parameter counts are `sino.models.PAPER_COUNTS`.
The paper's protocol: mean squared error over frames 301..1000 of the trajectories whose frames 0..300 were trained on,
with the checkpoint that is best there; mean ("AVE") and minimum ("Best") over three seeds.
"""

from collections.abc import Mapping

Row = tuple[float, float, float, float, float, float]
"""AVE and Best on each of a table's three benchmarks."""

TABLES: dict[str, tuple[str, str, str]] = {
    "1d": ("burgers-forced", "ks", "burgers-decaying"),
    "2d": ("ns-forced-re1000", "ns-forced-re4000", "ns-decaying"),
    "1d-supplementary": ("burgers-forced-128", "ks-32", "burgers-decaying-128"),
    "2d-supplementary": ("ns-forced-re2000", "ns-taylor-green", "ns-forced-re1e5"),
}
"""The benchmarks of the four result tables, in the order of their columns."""

_ROWS: dict[str, dict[str, Row]] = {
    "1d": {
        "unet": (4.07e-3, 3.31e-3, 3.33e-3, 1.48e-3, 1.65e-1, 1.65e-1),
        "deeponet": (3.22e-3, 2.78e-3, 1.05e0, 1.39e0, 1.65e-1, 1.65e-1),
        "transolver": (2.94e-3, 2.80e-3, 1.14e-2, 1.09e-2, 1.65e-1, 1.64e-1),
        "oformer": (2.92e-3, 2.92e-3, 5.45e-3, 5.45e-3, 1.65e-1, 1.65e-1),
        "galerkin": (2.84e-3, 2.77e-3, 1.12e-2, 1.11e-2, 1.65e-1, 1.64e-1),
        "fno": (2.99e-3, 2.82e-3, 8.55e-3, 8.03e-3, 1.65e-1, 1.65e-1),
        "ufno": (6.63e-3, 5.70e-3, 8.28e-3, 7.82e-3, 1.65e-1, 1.65e-1),
        "amfno": (1.58e-3, 1.34e-3, 2.92e-3, 2.50e-3, 1.66e-1, 1.65e-1),
        "sino-spe": (1.56e-3, 1.32e-3, 3.02e-3, 2.49e-3, 1.28e-1, 1.27e-1),
        "sino-spa": (2.12e-3, 1.79e-3, 3.53e-3, 2.11e-3, 2.09e-2, 4.08e-3),
        "sino": (1.03e-3, 9.41e-4, 1.33e-3, 1.14e-3, 4.37e-3, 2.90e-3),
    },
    "2d": {
        "unet": (1.34e-1, 1.16e-1, 1.91e-1, 1.84e-1, 6.67e-2, 5.64e-2),
        "deeponet": (4.62e-1, 4.60e-1, 5.25e-1, 5.18e-1, 2.95e-1, 2.79e-1),
        "transolver": (3.65e-1, 3.48e-1, 4.27e-1, 4.23e-1, 2.24e-1, 2.17e-1),
        "oformer": (5.07e-1, 5.07e-1, 5.33e-1, 5.33e-1, 4.03e-1, 4.03e-1),
        "galerkin": (3.87e-1, 3.84e-1, 4.60e-1, 4.55e-1, 2.04e-1, 1.96e-1),
        "fno": (4.44e-1, 4.42e-1, 4.78e-1, 4.75e-1, 2.60e-1, 2.40e-1),
        "ufno": (1.64e-1, 1.51e-1, 2.15e-1, 2.12e-1, 5.58e-2, 4.86e-2),
        "amfno": (1.69e-1, 1.59e-1, 2.32e-1, 2.15e-1, 7.68e-2, 7.05e-2),
        "sino-spe": (2.18e-1, 1.81e-1, 2.63e-1, 2.40e-1, 1.71e-1, 1.51e-1),
        "sino-spa": (2.23e-1, 2.20e-1, 2.82e-1, 2.72e-1, 1.37e-1, 1.24e-1),
        "sino": (9.17e-2, 8.43e-2, 1.47e-1, 1.41e-1, 5.99e-2, 4.55e-2),
    },
    "1d-supplementary": {
        "unet": (1.15e-4, 7.76e-5, 4.38e-1, 5.92e-1, 1.87e-1, 1.87e-1),
        "deeponet": (2.00e-4, 1.72e-4, 1.70e0, 1.39e0, 1.87e-1, 1.87e-1),
        "transolver": (2.60e-4, 2.55e-4, 7.47e-1, 7.36e-1, 1.87e-1, 1.87e-1),
        "oformer": (1.18e-4, 1.18e-4, 1.89e1, 1.89e1, 1.87e-1, 1.87e-1),
        "galerkin": (3.05e-4, 2.97e-4, 7.32e-1, 7.17e-1, 1.87e-1, 1.87e-1),
        "fno": (2.13e-4, 1.90e-4, 1.05e0, 9.44e-1, 1.87e-1, 1.87e-1),
        "ufno": (9.70e-4, 9.25e-4, 9.27e-1, 8.47e-1, 1.87e-1, 1.87e-1),
        "amfno": (1.36e-4, 1.23e-4, 3.58e-1, 3.37e-1, 1.88e-1, 1.87e-1),
        "sino-spe": (2.14e-4, 1.29e-4, 1.89e-1, 1.06e-1, 1.05e-1, 8.70e-2),
        "sino-spa": (8.82e-5, 7.82e-5, 5.76e-1, 5.37e-1, 1.79e-2, 1.76e-2),
        "sino": (6.15e-5, 5.72e-5, 1.30e-1, 6.84e-2, 1.57e-2, 1.37e-2),
    },
    "2d-supplementary": {
        "unet": (1.51e-1, 1.48e-1, 1.41e-2, 1.09e-2, 2.37e-1, 2.31e-1),
        "deeponet": (5.02e-1, 4.96e-1, 1.59e-1, 1.56e-1, 6.04e-1, 5.91e-1),
        "transolver": (4.72e-1, 4.14e-1, 6.61e-2, 6.01e-2, 5.59e-1, 5.37e-1),
        "oformer": (5.64e-1, 5.64e-1, 1.61e-1, 1.61e-1, 6.45e-1, 6.43e-1),
        "galerkin": (4.52e-1, 4.14e-1, 7.84e-2, 7.50e-2, 5.50e-1, 5.41e-1),
        "fno": (4.97e-1, 4.95e-1, 1.10e-1, 1.07e-1, 5.83e-1, 5.76e-1),
        "ufno": (1.94e-1, 1.88e-1, 1.64e-2, 1.57e-2, 2.62e-1, 2.50e-1),
        "amfno": (2.10e-1, 2.06e-1, 2.31e-2, 2.16e-2, 3.00e-1, 2.88e-1),
        "sino-spe": (2.56e-1, 2.49e-1, 2.87e-2, 2.57e-2, 3.72e-1, 3.56e-1),
        "sino-spa": (2.45e-1, 2.25e-1, 4.14e-2, 3.14e-2, 3.40e-1, 2.99e-1),
        "sino": (1.24e-1, 1.18e-1, 1.01e-2, 8.50e-3, 2.03e-1, 1.98e-1),
    },
}


def _by_benchmark() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    return {
        benchmark: {model: (row[2 * column], row[2 * column + 1]) for model, row in _ROWS[table].items()}
        for table, benchmarks in TABLES.items()
        for column, benchmark in enumerate(benchmarks)
    }


ERRORS = _by_benchmark()
"""AVE and Best by benchmark and network. Two pairs are printed with Best above AVE (DeepONet on `ks`, U-Net on
`ks-32`): slips of the paper, kept."""

BOTTLENECK: dict[str, dict[int, float]] = {
    "ns-decaying": {2: 5.99e-2, 8: 4.98e-2, 16: 4.49e-2, 32: 4.08e-2},
    "ns-forced-re1000": {2: 9.17e-2, 8: 6.89e-2, 16: 6.67e-2, 32: 6.06e-2},
}
"""AVE of SINO by benchmark and size of both bottlenecks."""

EXPONENTS: dict[str, dict[str, float]] = {
    "ns-forced-re4000": {"sino": 0.568, "amfno": 0.143, "ufno": 0.162, "fno": 0.015},
    "ns-decaying": {"sino": 0.868, "fno": 0.073},
}
"""Exponents `a` of `error = c parameters^-a`, by benchmark and network, where the paper prints them."""
