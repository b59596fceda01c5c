"""What the documentation says is true: its snippets run, and its tables are the committed results."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the package `validation`, which is not installed

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def snippets():
    for page in PAGES:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
            yield pytest.param(code, id=f"{page.name}-{number}")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the dataset that the pages speak of."""
    from sino.cli import main

    folder = tmp_path_factory.mktemp("docs")
    assert main(["generate", "ks", "--preset", "tiny", "--out", str(folder / "data" / "ks-tiny")]) == 0
    return folder


@pytest.mark.parametrize("code", list(snippets()))
def test_snippets_run(code, workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    exec(compile(code, "snippet", "exec"), {})


def test_tables_are_made_from_the_results():
    from validation.tables import PAGES, render

    texts = [page.read_text() for page in PAGES]
    assert sum(text.count("<!-- table: ") for text in texts) == 5
    assert [render(text) for text in texts] == texts, "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
