"""An animation of one unseen trajectory: truth, coarse grid and closure side by side."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from sino.report.fields import Flow
from sino.report.figures import FIELD_MAP
from sino.report.names import GREY, SINO
from sino.report.picture import INK, PAGE_STYLE

FRAMES = 48
DPI = 110
MILLISECONDS = 90
LARGEST = 2_000_000
"""Bytes of an animation: frames are left out of a larger one."""


@dataclass(frozen=True)
class Animation:
    """Moving pictures as GIF, one of them as PNG for readers who want no motion, and their words."""

    name: str
    title: str
    alt: str
    caption: str
    moving: bytes
    still: bytes

    def save(self, folder: Path) -> list[Path]:
        """Write both."""
        paths = [folder / f"{self.name}.gif", folder / f"{self.name}.png"]
        for path, data in zip(paths, (self.moving, self.still), strict=True):
            path.write_bytes(data)
        return paths


def animate(flow: Flow) -> Animation:
    """Draw vorticity in panels (2D) or profiles in one plot (1D), over the whole trajectory."""
    scalars = dict(list(flow.scalars.items())[:3])
    steps = np.unique(np.linspace(0, len(flow.times) - 1, FRAMES).astype(int))
    with matplotlib.rc_context(PAGE_STYLE):
        figure, show = (_profiles if flow.setting.facts.dim == 1 else _panels)(scalars)
        figure.set_facecolor("white")
        canvas = FigureCanvasAgg(figure)
        heading = figure.suptitle(" ", x=0.01, ha="left", fontsize=9)
        digits = max(0, 2 - int(np.floor(np.log10(flow.times[-1]))))
        images = []
        for step in steps:
            show(int(step))
            inside = flow.times[step] <= flow.train_until
            heading.set_text(f"t = {flow.times[step]:.{digits}f}" + (" (training window)" if inside else ""))
            canvas.draw()
            figure.set_layout_engine("none")  # once is enough, and it is slow
            images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    late = int(np.argmin(np.abs(flow.times[steps] - 0.5 * (flow.train_until + flow.times[-1]))))
    closure = list(scalars)[2:] or ["no closure"]
    what = "u as a function of x" if flow.setting.facts.dim == 1 else "vorticity"
    return Animation(
        f"animation-{flow.setting.slug}",
        f"{flow.setting.title}: reference, coarse grid and {closure[0]}",
        f"Animation of {what} in one unseen trajectory: the reference, the coarse grid alone and {closure[0]}.",
        "One unseen trajectory from frame 0. All start from the same state, and each goes its own way.",
        _gif(images),
        _png(images[late]),
    )


def _panels(scalars: dict[str, np.ndarray]) -> tuple[Figure, Callable[[int], object]]:
    """Fields side by side on one colour scale."""
    figure = Figure(figsize=(2.1 * len(scalars), 2.55), dpi=DPI, layout="constrained")
    limit = float(np.quantile(np.abs(scalars["reference"]), 0.995))
    images = []
    for ax, (label, field) in zip(figure.subplots(1, len(scalars), squeeze=False)[0], scalars.items(), strict=True):
        style = {"cmap": FIELD_MAP, "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        images.append(ax.imshow(field[0].T, origin="lower", **style))
        ax.set_title(label, loc="center", fontsize=8)
        ax.set(xticks=(), yticks=())
        ax.spines[:].set_visible(False)

    def show(step: int) -> None:
        for image, field in zip(images, scalars.values(), strict=True):
            image.set_data(field[step].T)

    return figure, show


def _profiles(scalars: dict[str, np.ndarray]) -> tuple[Figure, Callable[[int], object]]:
    """All solutions as curves in one plot."""
    figure = Figure(figsize=(6.3, 2.6), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    limit = 1.15 * float(np.abs(scalars["reference"]).max())
    styles = ((INK, "-", 2.6, 0.45), (GREY, "--", 1.3, 1.0), (SINO, "-", 1.3, 1.0))
    lines = []
    for (label, field), (tone, dashes, width, alpha) in zip(scalars.items(), styles, strict=False):
        x = (np.arange(field.shape[1]) + 0.5) / field.shape[1]
        style = {"color": tone, "linestyle": dashes, "linewidth": width, "alpha": alpha, "label": label}
        lines += ax.plot(x, field[0], **style)
    ax.set(xlim=(0, 1), ylim=(-limit, limit), xlabel="x / L", ylabel="u")
    figure.legend(loc="outside right upper", fontsize=8)

    def show(step: int) -> None:
        for line, field in zip(lines, scalars.values(), strict=True):
            line.set_ydata(field[step])

    return figure, show


def _reduced(image: Image.Image) -> Image.Image:
    """Few colours, the same for all frames so that nothing flickers: those of fields, of text and of the closure."""
    shades = np.linspace(0, 1, 32)[:, None]
    inks = [(1 - shades) * np.array(to_rgb(tone)) + shades for tone in (INK, SINO)]
    fields = matplotlib.colormaps[FIELD_MAP](np.linspace(0, 1, 80))[:, :3]
    holder = Image.new("P", (1, 1))
    holder.putpalette(np.rint(255 * np.concatenate([fields, *inks])).astype(np.uint8).tobytes())
    return image.quantize(palette=holder, dither=Image.Dither.NONE)


def _gif(images: list[Image.Image]) -> bytes:
    """As many of the frames, evenly spread, as the size allows."""
    frames, pause = [_reduced(image) for image in images], MILLISECONDS
    while True:
        stream = io.BytesIO()
        durations = [pause] * (len(frames) - 1) + [1500]
        frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
        if stream.tell() <= LARGEST or len(frames) < 8:
            return stream.getvalue()
        frames, pause = frames[::2], 2 * pause


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    _reduced(image).save(stream, "PNG", optimize=True)
    return stream.getvalue()
