"""Write a report: the page and, if they are asked for, its tables and figures as files."""

from collections.abc import Sequence
from pathlib import Path

from sino.core.errors import UserError
from sino.core.files import write_atomically
from sino.report.collect import collect
from sino.report.gallery import Gallery, make_gallery
from sino.report.html import TITLE, page
from sino.report.picture import save_svg
from sino.report.verdict import Verdict, verdicts
from sino.report.writers import to_latex, to_markdown


def write_report(
    paths: Sequence[Path], out: Path, tables: Path | None = None, title: str = TITLE
) -> tuple[list[Verdict], list[Path]]:
    """Collect the runs at or below `paths` and write the page to `out`; return the verdicts and what was written.

    With a folder `tables`, every table goes there as NAME.md and NAME.tex, every figure as NAME.svg, and every
    animation as NAME.gif with a still NAME.png.
    """
    for folder in (out.parent, *([] if tables is None else [tables])):
        _make(folder)
    if out.is_dir():
        raise UserError(f"{out} is a folder; give the name of a file with --out")
    runs = collect(paths)
    found, gallery = verdicts(runs), make_gallery(runs)
    text = page(runs, gallery, found, title)
    try:
        write_atomically(out, lambda temporary: temporary.write_text(text, "utf-8"))
        written = [out] if tables is None else [out, *_write_parts(gallery, tables)]
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from error
    return found, written


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error


def _write_parts(gallery: Gallery, folder: Path) -> list[Path]:
    written = []
    for table in gallery.tables:
        for suffix, text in ((".md", to_markdown(table)), (".tex", to_latex(table))):
            path = folder / f"{table.name}{suffix}"
            path.write_text(text, "utf-8")
            written.append(path)
    written += [save_svg(picture, folder) for picture in gallery.pictures]
    return written + [path for animation in gallery.animations for path in animation.save(folder)]
