"""The transcription of the paper's tables: its size, and a sample of its cells."""

import pytest

from sino.benchmarks import BENCHMARKS
from sino.models import MODELS, PAPER_COUNTS
from sino.report.paper import BOTTLENECK, ERRORS, EXPONENTS, TABLES


def test_every_table_is_whole():
    assert list(TABLES) == ["1d", "2d", "1d-supplementary", "2d-supplementary"]
    assert sorted(b for row in TABLES.values() for b in row) == sorted(BENCHMARKS) == sorted(ERRORS)
    assert all(set(models) == set(MODELS) == set(PAPER_COUNTS) for models in ERRORS.values())
    assert sum(len(pair) for models in ERRORS.values() for pair in models.values()) == 264
    assert sum(map(len, BOTTLENECK.values())) == 8 and sum(map(len, EXPONENTS.values())) == 6


@pytest.mark.parametrize(
    ("benchmark", "model", "pair"),
    [
        ("burgers-forced", "unet", (4.07e-3, 3.31e-3)),
        ("burgers-forced", "amfno", (1.58e-3, 1.34e-3)),
        ("burgers-forced", "sino", (1.03e-3, 9.41e-4)),
        ("ks", "deeponet", (1.05, 1.39)),
        ("ks", "transolver", (1.14e-2, 1.09e-2)),
        ("ks", "sino", (1.33e-3, 1.14e-3)),
        ("burgers-decaying", "oformer", (1.65e-1, 1.65e-1)),
        ("burgers-decaying", "sino-spa", (2.09e-2, 4.08e-3)),
        ("burgers-decaying", "sino", (4.37e-3, 2.90e-3)),
        ("ns-forced-re1000", "galerkin", (3.87e-1, 3.84e-1)),
        ("ns-forced-re1000", "sino", (9.17e-2, 8.43e-2)),
        ("ns-forced-re4000", "fno", (4.78e-1, 4.75e-1)),
        ("ns-forced-re4000", "sino", (1.47e-1, 1.41e-1)),
        ("ns-decaying", "ufno", (5.58e-2, 4.86e-2)),
        ("ns-decaying", "sino", (5.99e-2, 4.55e-2)),
        ("burgers-forced-128", "sino-spe", (2.14e-4, 1.29e-4)),
        ("burgers-forced-128", "sino", (6.15e-5, 5.72e-5)),
        ("ks-32", "unet", (4.38e-1, 5.92e-1)),
        ("ks-32", "oformer", (18.9, 18.9)),
        ("ks-32", "sino", (1.30e-1, 6.84e-2)),
        ("burgers-decaying-128", "sino", (1.57e-2, 1.37e-2)),
        ("ns-forced-re2000", "deeponet", (5.02e-1, 4.96e-1)),
        ("ns-taylor-green", "sino", (1.01e-2, 8.50e-3)),
        ("ns-forced-re1e5", "oformer", (6.45e-1, 6.43e-1)),
        ("ns-forced-re1e5", "sino", (2.03e-1, 1.98e-1)),
    ],
)
def test_cells(benchmark, model, pair):
    assert ERRORS[benchmark][model] == pair


def test_bottlenecks_and_exponents():
    assert BOTTLENECK["ns-decaying"] == {2: 5.99e-2, 8: 4.98e-2, 16: 4.49e-2, 32: 4.08e-2}
    assert BOTTLENECK["ns-forced-re1000"][32] == 6.06e-2
    assert EXPONENTS["ns-forced-re4000"]["sino"] == 0.568 and EXPONENTS["ns-decaying"]["fno"] == 0.073
    for benchmark, sizes in BOTTLENECK.items():
        assert sizes[2] == ERRORS[benchmark]["sino"][0]  # the paper's SINO has n = 2


def test_best_is_not_above_the_mean_but_for_two_slips():
    broken = [(b, m) for b, models in ERRORS.items() for m, (average, best) in models.items() if best > average]
    assert broken == [("ks", "deeponet"), ("ks-32", "unet")]


SUMS = {
    "burgers-forced": (0.0319, 0.028491),
    "ks": (1.10901, 1.44302),
    "burgers-decaying": (1.47427, 1.45198),
    "ns-forced-re1000": (3.1647, 3.0523),
    "ns-forced-re4000": (3.753, 3.668),
    "ns-decaying": (1.9532, 1.831),
    "burgers-forced-128": (0.0026807, 0.002422),
    "ks-32": (25.747, 25.1744),
    "burgers-decaying-128": (1.6356, 1.6143),
    "ns-forced-re2000": (3.667, 3.517),
    "ns-taylor-green": (0.7083, 0.6729),
    "ns-forced-re1e5": (4.655, 4.51),
}
"""Of the columns of the paper's tables, added up from its text."""


def test_sums_of_columns():
    """Any digit that goes astray shows."""
    for benchmark, expected in SUMS.items():
        found = [sum(pair[i] for pair in ERRORS[benchmark].values()) for i in (0, 1)]
        assert found == pytest.approx(expected, rel=1e-5)
    assert len(SUMS) == 12
