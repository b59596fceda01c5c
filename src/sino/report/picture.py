"""A figure with its words: title, caption and alternative text; as a file, or as part of a page."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sino.report.figures import STYLE

INK = "#1a1c20"
"""Colour of all that is neither data nor background. On a page it becomes the colour of the text, light or dark."""

PAGE_STYLE: dict[Any, Any] = (
    STYLE
    | {
        "savefig.bbox": None,  # the layout leaves no margin to cut
        "svg.fonttype": "path",
        "svg.hashsalt": "sino",
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "axes.linewidth": 0.7,
        "lines.linewidth": 1.4,
        "legend.fontsize": 8,
        "axes.titlelocation": "left",
    }
    | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
)


@dataclass(frozen=True)
class Picture:
    """A figure that explains itself."""

    name: str
    """For file names and anchors; unique in a report."""
    title: str
    alt: str
    """What a reader who does not see it should know."""
    caption: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The figure as SVG without a background, the same bytes every time."""
        stream = io.StringIO()
        with matplotlib.rc_context(PAGE_STYLE):
            self.figure.savefig(stream, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
        return stream.getvalue()


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of so many inches in the style of the report."""
    with matplotlib.rc_context(PAGE_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def log_axis(axis: XAxis | YAxis) -> None:
    """A logarithmic axis with few labels: powers of ten, or 1, 2 and 5 times them where there is less to span."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    narrow = high / low < 30
    several = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 4 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=several if narrow else (1.0,)))
    axis.set_minor_formatter(NullFormatter())
    if narrow:
        axis.set_major_formatter(FuncFormatter(lambda value, _: _label(value)))


def _label(value: float) -> str:
    if 0.01 <= value < 1000:
        return f"{value:g}"
    if 1000 <= value < 1e9:
        return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """One legend for the whole figure, with as many columns as its width holds."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = int(figure.get_figwidth() / (0.55 + 0.065 * longest))
    figure.legend(handles=handles, loc="outside lower center", ncols=max(1, min(columns, len(handles))))


def save_svg(picture: Picture, folder: Path) -> Path:
    """Write a picture on white, for papers and other pages."""
    path = folder / f"{picture.name}.svg"
    head, body = _split(picture.svg)
    path.write_text(f'{head}<rect width="100%" height="100%" fill="white"/>{body}')
    return path


def _split(text: str) -> tuple[str, str]:
    """What comes before the content of an SVG file, and the rest."""
    end = text.index(">", text.index("<svg")) + 1
    return text[:end], text[end:]


def inline_svg(picture: Picture) -> str:
    """A picture as an element of a page: names made unique, colours of the page, alternative text."""
    head, body = _split(picture.svg)
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r' id="([^"]+)"', rf' id="{picture.name}-\1"', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{picture.name}-", body.replace("xlink:href", "href"))
    body = body.replace(INK, "currentColor")
    match = re.search(r'viewBox="([\d. ]+)"', head)
    assert match is not None
    box = match.group(1)
    width = round(float(box.split()[2]) * 4 / 3)  # points to pixels
    return (
        f'<svg class="figure" role="img" aria-label="{escape(picture.alt)}" viewBox="{box}" '
        f'style="--width: {width}px">{body}'
    )
