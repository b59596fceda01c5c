"""Tables as text: known strings, balanced LaTeX that compiles, HTML that parses."""

import re
import shutil
import subprocess

import pytest

from sino.report.table import Cell, Column, absent, make_table, name_cell
from sino.report.writers import latex_text, to_html, to_latex, to_markdown

COLUMNS = [Column("Method", numeric=False), Column("AVE", over="KS & co", lowest_is_best=True), Column("Size")]
ROWS = [
    [name_cell("SINO_1"), Cell("1.00e-3", 1e-3, ("paper 2.00e-3",)), Cell("6,681", 6681.0)],
    [name_cell("a|b <c>"), absent("blew up 2 of 8"), Cell("50 %", 50.0)],
    [name_cell("last"), Cell("2.00e-3", 2e-3), Cell("–")],
]


@pytest.fixture
def table():
    return make_table("example", "A title", COLUMNS, ROWS, ["A note with 5 % of $."], sections=[2])


def test_the_lowest_value_is_marked(table):
    assert [[cell.best for cell in row] for row in table.rows] == [[False, True, False], [False] * 3, [False] * 3]
    alone = make_table("one", "t", COLUMNS, ROWS[:1])
    assert not alone.rows[0][1].best  # nothing to compare with


def test_markdown(table):
    assert to_markdown(table).splitlines() == [
        "### A title",
        "",
        "| Method | KS & co: AVE | Size |",
        "|---|--:|--:|",
        "| SINO_1 | **1.00e-3** (paper 2.00e-3) | 6,681 |",
        "| a\\|b <c> | *blew up 2 of 8* | 50 % |",
        "| last | 2.00e-3 | – |",
        "",
        "*A note with 5 % of $.*",
    ]


def test_latex(table):
    lines = to_latex(table).splitlines()
    assert r" & \multicolumn{1}{c}{\textbf{KS \& co}} &  \\" in lines and r"\cmidrule(lr){2-2}" in lines
    assert r"SINO\_1 & \shortstack[r]{\textbf{1.00e-3}\\{\scriptsize paper 2.00e-3}} & 6,681 \\" in lines
    assert r"a|b $<$c$>$ & \textit{blew up 2 of 8} & 50 \% \\" in lines
    assert lines[lines.index("last & 2.00e-3 & -- \\\\") - 1] == r"\midrule"


def test_what_latex_would_read_as_commands():
    assert latex_text(r"50% of a_b & {c} → d² \ #1 $x^2$") == (
        r"50\% of a\_b \& \{c\} $\to$ d$^2$ \textbackslash{} \#1 \$x\textasciicircum{}2\$"
    )


def test_every_table_is_balanced_latex(gallery):
    for table in gallery.tables:
        text = to_latex(table)
        depth = 0
        for sign in re.sub(r"\\[\\{}]", "", text):
            depth += (sign == "{") - (sign == "}")
            assert depth >= 0, table.name
        assert depth == 0, table.name
        assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1]
        assert all(ord(sign) < 128 for sign in text), f"{table.name}: {set(filter(lambda c: ord(c) > 127, text))}"
        for line in text.splitlines():
            if line.endswith(r" \\"):
                spans = sum(int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", line))
                assert len(re.findall(r"(?<!\\)&", line)) + spans == len(table.columns) - 1, line


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(gallery, tmp_path):
    body = "\n".join(to_latex(table) + r"\clearpage" for table in gallery.tables)
    text = rf"\documentclass{{article}}\usepackage{{booktabs,graphicx}}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "all.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


def test_html(table):
    text = to_html(table)
    assert '<th colspan="1" scope="colgroup">KS &amp; co</th>' in text
    assert '<td class="number" data-value="0.001"><strong>1.00e-3</strong> <small>paper 2.00e-3</small></td>' in text
    assert '<th scope="row">a|b &lt;c&gt;</th><td class="number missing">blew up 2 of 8</td>' in text
    assert text.count('aria-sort="none"') == 3 and '<tr class="section"><th scope="row">last</th>' in text
