"""Tables as Markdown, LaTeX and HTML."""

from html import escape
from itertools import groupby

from sino.report.table import Cell, Column, Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "→": r"$\to$",
    "×": r"$\times$",
    "²": r"$^2$",
    "·": r"$\cdot$",
    "–": "--",
}


def headings(columns: tuple[Column, ...]) -> list[tuple[str, int]]:
    """The headings above the columns' own, each with the number of columns it spans; empty ones for gaps."""
    return [(over, len(list(columns))) for over, columns in groupby(columns, key=lambda column: column.over)]


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown under its title; shared headings are written into each column's."""
    titles = [f"{c.over}: {c.title}" if c.over and c.title else c.over or c.title for c in table.columns]
    lines = [f"### {table.title}", "", _markdown_row(titles)]
    lines.append("|" + "|".join("--:" if column.numeric else "---" for column in table.columns) + "|")
    lines += [_markdown_row([_markdown_cell(cell) for cell in row]) for row in table.rows]
    lines += [line for note in table.notes for line in ("", f"*{note}*")]
    return "\n".join(lines) + "\n"


def _markdown_row(texts: list[str]) -> str:
    return "| " + " | ".join(text.replace("|", r"\|") for text in texts) + " |"


def _markdown_cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.best else f"*{cell.text}*" if cell.missing else cell.text
    return text + (f" ({'; '.join(cell.remarks)})" if cell.remarks else "")


def to_latex(table: Table) -> str:
    """A `table` environment for the packages booktabs and graphicx, as wide as the text."""
    count = len(table.columns)
    spec = "".join("r" if column.numeric else "l" for column in table.columns)
    lines = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{latex_text(table.title)}}}"]
    lines += [rf"\label{{tab:{table.name}}}", r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"]
    lines += [rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    above = headings(table.columns)
    if any(over for over, _ in above):
        lines.append(" & ".join(_latex_heading(over, span) for over, span in above) + r" \\")
        lines += _rules(above)
    lines += [" & ".join(rf"\textbf{{{latex_text(c.title)}}}" for c in table.columns) + r" \\", r"\midrule"]
    for position, row in enumerate(table.rows):
        lines += [r"\midrule"] if position in table.sections else []
        lines.append(" & ".join(_latex_cell(cell) for cell in row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if table.notes:
        notes = " ".join(latex_text(note) for note in table.notes)
        lines.append(rf"\par\smallskip{{\footnotesize {notes}\par}}")
    assert all(len(row) == count for row in table.rows)
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_heading(over: str, span: int) -> str:
    return rf"\multicolumn{{{span}}}{{c}}{{\textbf{{{latex_text(over)}}}}}" if over else " & ".join([""] * span)


def _rules(above: list[tuple[str, int]]) -> list[str]:
    """A rule under every shared heading."""
    rules, start = [], 1
    for over, span in above:
        if over:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    return rules


def _latex_cell(cell: Cell) -> str:
    text = latex_text(cell.text)
    text = rf"\textbf{{{text}}}" if cell.best else rf"\textit{{{text}}}" if cell.missing else text
    if not cell.remarks:
        return text
    return rf"\shortstack[r]{{{text}\\{{\scriptsize {latex_text('; '.join(cell.remarks))}}}}}"


def latex_text(text: str) -> str:
    """Words for LaTeX, with what it would read as commands escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def to_html(table: Table) -> str:
    """A table that the page's script can sort, in a box that scrolls on its own."""
    lines = [f'<figure class="table" id="table-{table.name}"><figcaption>{escape(table.title)}</figcaption>']
    lines.append(f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">')
    lines.append('<table class="sortable"><thead>')
    above = headings(table.columns)
    if any(over for over, _ in above):
        cells = (f'<th colspan="{span}" scope="colgroup">{escape(over)}</th>' if over else "<td></td>" * span
                 for over, span in above)  # fmt: skip
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append(f"<tr>{''.join(_html_heading(column) for column in table.columns)}</tr></thead><tbody>")
    for position, row in enumerate(table.rows):
        mark = ' class="section"' if position in table.sections else ""
        cells = "".join(_html_cell(cell, column) for cell, column in zip(row[1:], table.columns[1:], strict=True))
        lines.append(f'<tr{mark}><th scope="row">{_html_text(row[0])}</th>{cells}</tr>')
    lines.append("</tbody></table></div>")
    lines += [f'<p class="note">{escape(note)}</p>' for note in table.notes]
    return "\n".join([*lines, "</figure>"])


def _html_heading(column: Column) -> str:
    kind = ' class="number"' if column.numeric else ""
    return f'<th scope="col" aria-sort="none"{kind}><button type="button">{escape(column.title)}</button></th>'


def _html_cell(cell: Cell, column: Column) -> str:
    classes = [name for name, is_so in (("number", column.numeric), ("missing", cell.missing)) if is_so]
    mark = f' class="{" ".join(classes)}"' if classes else ""
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{mark}{value}>{_html_text(cell)}</td>"


def _html_text(cell: Cell) -> str:
    text = f"<strong>{escape(cell.text)}</strong>" if cell.best else escape(cell.text)
    return text + "".join(f" <small>{escape(remark)}</small>" for remark in cell.remarks)
