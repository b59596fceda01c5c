"""The checked-in result files, read and drawn once."""

from pathlib import Path

import pytest

from sino.report.collect import collect
from sino.report.gallery import make_gallery
from sino.report.html import page
from sino.report.verdict import verdicts

FOLDER = Path(__file__).parent / "runs"
"""Made by make_runs.py."""


@pytest.fixture(scope="session")
def runs():
    return collect([FOLDER])


@pytest.fixture(scope="session")
def gallery(runs):
    return make_gallery(runs)


@pytest.fixture(scope="session")
def html(runs, gallery):
    return page(runs, gallery, verdicts(runs), "A <report> & more")
