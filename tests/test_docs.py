"""What the documentation says is true: its snippets run, its commands exist, its tables are the committed results, and
the site is built without a warning."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jax
import numpy as np
import pytest

from sino.cli import main
from sino.cli.verbs import VERBS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the packages `validation` and `scripts`, which are not installed

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = Path("runs/ks-tiny/sino/seed-1")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def snippets():
    for page in PAGES:
        for number, code in enumerate(fences(page, "python")):
            yield pytest.param(code, id=f"{name_of(page)}-{number}")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the dataset and the run that the pages speak of; the network of the run is untrained."""
    from sino.train.run import Run, closure_skeleton

    folder = tmp_path_factory.mktemp("docs")
    data, run = folder / "data" / "ks-tiny", Run(folder / RUN)
    assert main(["generate", "ks", "--preset", "tiny", "--out", str(data)]) == 0
    configuration = {"benchmark": "ks", "preset": "tiny", "coarse": 32, "scheme": "paper", "precision": "float32"}
    configuration |= {"model": "sino", "sizes": {"width": 4, "depth": 1}, "seed": 1, "schedule": "ours"}
    configuration |= {"recipe": {"zero_mean": True, "coupling": "frozen"}}
    run.start(configuration)
    closure = jax.tree.map(lambda leaf: np.full(leaf.shape, 0.01, leaf.dtype), closure_skeleton(configuration))
    run.save_closure("best", closure, {"update": 0})
    assert main(["evaluate", str(run.path), "--data", str(data)]) == 0
    return folder


@pytest.mark.parametrize("code", list(snippets()))
def test_snippets_run(code, workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_that_is_not_run_here_is_an_example_that_is_run_elsewhere(page):
    """`test_examples.py` runs them."""
    for first, code in re.findall(r"^```([^\n]*python[^\n]*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        if first != "python":
            (included,) = re.fullmatch(r'--8<-- "(examples/\w+\.py)"\n', code).groups()
            assert (ROOT / included).is_file()


def test_keys_of_the_evaluation_are_described(workplace):
    """Every key of the file stands in the page's tables, and the other way round."""
    found = json.loads((workplace / RUN / "evaluation.json").read_text())
    assert np.isfinite(found["scores"]["best"]["test"]["mse"]["mean"])
    text = (ROOT / "docs" / "runs.md").read_text().split("## evaluation.json")[1].split("## analysis.json")[0]
    whole, score = (
        {key for row in table.split("\n") for key in re.findall(r"`(\w+)`", row.split("|")[1])}
        for table in re.findall(r"^\| key .*?(?=\n\n)", text, re.DOTALL | re.MULTILINE)
    )
    assert whole == found.keys() - {"format_version", "kind", "provenance"}
    assert score - {"enstrophy_spectrum", "divergence"} == found["scores"]["best"]["test"].keys()


def test_tables_are_made_from_the_results():
    from validation.tables import PAGES, render

    texts = [page.read_text() for page in PAGES]
    assert sum(text.count("<!-- table: ") for text in texts) == 22
    assert [render(text) for text in texts] == texts, "run `make docs`"


def test_the_command_line_page_is_made_from_the_commands():
    from scripts.commands import PAGE, render

    text = PAGE.read_text()
    assert render(text) == text, "run `make docs`"


def test_the_command_line_page_shows_types_and_defaults():
    from scripts.commands import section

    lines = section("generate", VERBS["generate"]).splitlines()
    assert "sino generate BENCHMARK [options]" in lines
    assert "| `BENCHMARK` | Name, as `sino list` shows it. |" in lines
    assert "| `--seed0` `N` | First seed. Default: `0`. |" in lines
    assert any(line.startswith("| `--preset` `paper` or `small` or `tiny` | ") for line in lines)
    assert any(line.startswith("| `--coarse` `N ...` | ") for line in lines)


@pytest.fixture
def asked(monkeypatch):
    """What commands were asked for: they are parsed but not run."""
    seen = []
    for verb in VERBS.values():
        monkeypatch.setattr(verb, "run", lambda self: seen.append(self))
    return seen


def commands(page: Path) -> list[list[str]]:
    """The words of all lines of a page's shell snippets."""
    lines = [line for code in fences(page, "sh") for line in code.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_the_pages_exist(page, asked):
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for program, *arguments in commands(page):
        if program == "sino":
            before = len(asked)
            assert main(arguments) == 0 and len(asked) == before + 1, arguments
        elif program == "make":
            assert set(arguments) <= set(targets)
        else:
            assert program in ("pip", "source", "git", "cd"), program


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_the_text_mentions_exists(page):
    """Commands, options, files of the repository and names of the Makefile, in the running text."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", text)
    flags = {"--help", "--config", "--version", "--no-"}
    flags |= {"--" + name.replace("_", "-") for verb in VERBS.values() for name in verb.__dataclass_fields__}
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for span in spans:
        if match := re.match(r"sino ([a-z]\w*)", span):
            assert match[1] in VERBS, span
        if match := re.match(r"make ([a-z][\w-]*)", span):
            assert match[1] in targets, span
        if span.startswith(("sino ", "--")):
            assert set(re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", span)) <= flags, span
        if re.match(r"(examples|experiments|results|docs|src|bench|validation|scripts|tests)/\S+$", span):
            assert (ROOT / span).exists(), span


def test_the_file_of_the_command_line_page_says_the_same_as_the_command(asked, tmp_path):
    page = ROOT / "docs" / "command-line.md"
    (line,), (file,) = commands(page), fences(page, "toml")
    assert tomllib.loads(file)["stages"] == [[20, 100], [60, 60]]
    (tmp_path / "small.toml").write_text(file)
    assert main(line[1:]) == 0 and main(["train", "--config", str(tmp_path / "small.toml")]) == 0
    assert asked[0] == asked[1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_rooms_have_a_page():
    rooms = {path.stem for path in (ROOT / "src" / "sino").iterdir() if path.is_dir() or path.stem == "benchmarks"}
    pages = {path.stem for path in (ROOT / "docs" / "api").glob("*.md")}
    assert pages - {"index"} == rooms - {"__pycache__", "cli", "weights"}
    for room in pages - {"index"}:
        assert f"::: sino.{room}\n" in (ROOT / "docs" / "api" / f"{room}.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it: a warning, as of a page that is not in the navigation, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_holds_every_page_and_loads_nothing_from_elsewhere(site):
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"", page.read_text())
        assert loaded and not [address for address in loaded if urlsplit(address).netloc]


def test_every_link_of_the_site_leads_somewhere(site):
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', page.read_text())) for page in site.rglob("*.html")}
    for page in set(anchors) - {site / "404.html"}:  # whose links are those of a server
        for address in re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', page.read_text()):
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.is_file(), f"{page.name} links to {address}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in anchors[target] | {"__skip"}, f"{page.name} links to {address}"


def test_the_api_pages_show_docstrings_and_shapes(site):
    text = re.sub(r"<[^>]+>", "", (site / "api" / "coupling.html").read_text())
    assert "Statistics of a training window, as the paper takes them" in text
    assert "Float[Array, &#34;c *n&#34;]" in text or 'Float[Array, "c *n"]' in text


def test_examples_are_part_of_the_site(site):
    for path in (ROOT / "examples").glob("*.py"):
        assert (site / "examples" / path.name).read_bytes() == path.read_bytes()
    page = re.sub(r"<[^>]+>", "", (site / "own-solver.html").read_text())
    assert "One step of Heun&#39;s method" in page or "One step of Heun's method" in page
