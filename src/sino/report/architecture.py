"""The architecture of SINO, drawn."""

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon

from sino.report.picture import INK, Picture, drawing

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
Number = int | float
Point = tuple[Number, Number]


def architecture() -> Picture:
    """Pipeline and block of the network, after the paper's figure."""
    with drawing(8.6, 5.8) as figure:
        ax = figure.subplots()
        ax.set(xlim=(0, 100), ylim=(-5, 64))
        ax.set_axis_off()
        _pipeline(ax)
        _block(ax)
    return Picture(
        "architecture",
        "The network",
        "Diagram. Above: the coarse state is normalised, lifted to D channels, passed through L blocks and projected "
        "to the closure term tau, which enters the solver's right-hand side. Below, one block: a frequency branch "
        "multiplies the spectrum by a generated filter m of xi and adds a bypass; a spatial branch convolves with a "
        "generated kernel W of zeta; both are activated, joined, fused and added to the input. Small networks with a "
        "bottleneck of n units generate filter and kernel from normalised coordinates.",
        "(a) The closure inside the solver. (b) One block: filter and kernel are continuous functions of normalised "
        "frequency ξ and offset ζ, generated through a bottleneck of n units; parameters depend neither on the grid "
        "nor on the size of the kernel. The last block has no activation.",
        figure,
    )


def _pipeline(ax: Axes) -> None:
    ax.text(0, 63, "(a) in the solver", fontsize=9, weight="bold", va="top")
    y = 54
    _box(ax, (11, y), 16, 7, "coarse state\n$\\bar{u}$")
    _box(ax, (28, y), 11, 7, "normalise,\nlift $P$")
    _box(ax, (43, y), 11, 7, "block 1", GREEN)
    ax.text(52.5, y, "· · ·", ha="center", va="center", fontsize=11)
    _box(ax, (62, y), 11, 7, "block $L$", GREEN)
    _box(ax, (77, y), 11, 7, "project $Q$,\nscale")
    _box(ax, (92, y), 10, 7, "closure\n$\\tau$")
    for left, right in ((19, 22.5), (33.5, 37.5), (48.5, 50.5), (54.5, 56.5), (67.5, 71.5), (82.5, 87)):
        _arrow(ax, (left, y), (right, y))
    _box(ax, (51.5, 43.5), 40, 5.4, r"coarse solver:   $d\bar{u}/dt = \mathcal{L}(\bar{u}) + \tau$")
    _path(ax, [(92, y - 3.5), (92, 43.5), (71.5, 43.5)])
    _path(ax, [(31.5, 43.5), (11, 43.5), (11, y - 3.5)])


def _block(ax: Axes) -> None:
    ax.text(0, 37.5, "(b) one block", fontsize=9, weight="bold", va="top")
    top, bottom, middle = 24.0, 7.5, 15.7
    _box(ax, (4.5, middle), 7, 6, "$h$")
    _hypernetwork(ax, (17, 33), r"frequency $\xi$", "$m(\\xi)$", BLUE, (53, top + 3))
    _box(ax, (24, top), 14, 6, "Fourier\ntransform", BLUE)
    _box(ax, (53, top), 14, 6, "multiply by\nfilter $m(\\xi)$", BLUE)
    _box(ax, (72, top), 13, 6, "inverse, add\nbypass $Wh$", BLUE)
    _hypernetwork(ax, (17, 0.2), r"offset $\zeta$", "$W(\\zeta)$", ORANGE, (53, bottom - 3))
    _box(ax, (53, bottom), 20, 6, "circular convolution\nwith kernel $W(\\zeta)$", ORANGE)
    _box(ax, (84.5, middle), 10, 8, "ReLU,\njoin, fuse")
    ax.text(94.4, middle, "+", ha="center", va="center", fontsize=13)
    ax.add_patch(FancyBboxPatch((92.9, middle - 1.5), 3, 3, "round,pad=0,rounding_size=1.5", fill=False, edgecolor=INK))
    _path(ax, [(8, middle + 1), (12, middle + 1), (12, top), (17, top)])
    _path(ax, [(8, middle - 1), (12, middle - 1), (12, bottom), (43, bottom)])
    _arrow(ax, (31, top), (46, top))
    _arrow(ax, (60, top), (65.5, top))
    _path(ax, [(78.5, top), (84.5, top), (84.5, middle + 4)])
    _path(ax, [(63, bottom), (84.5, bottom), (84.5, middle - 4)])
    _path(ax, [(4.5, middle - 3), (4.5, -4), (94.4, -4), (94.4, middle - 1.5)], dotted=True)
    ax.text(84.5, -3.4, "residual", fontsize=7, ha="center", va="bottom")
    _arrow(ax, (89.5, middle), (92.9, middle))
    _arrow(ax, (95.9, middle), (100, middle))


def _hypernetwork(ax: Axes, at: Point, coordinate: str, kernel: str, tone: str, into: Point) -> None:
    """Coordinate → hidden layers → bottleneck → kernel, as a funnel."""
    x, y = at
    ax.text(x - 1, y, coordinate, ha="right", va="center", fontsize=8)
    _arrow(ax, (x - 0.5, y), (x + 2.5, y))
    funnel = [(x + 2.5, y + 2.2), (x + 13, y + 2.2), (x + 17, y + 0.8), (x + 17, y - 0.8), (x + 13, y - 2.2)]
    ax.add_patch(Polygon([*funnel, (x + 2.5, y - 2.2)], closed=True, facecolor=tone, alpha=0.18, edgecolor="none"))
    ax.text(x + 8, y, "hidden layers", ha="center", va="center", fontsize=7)
    ax.text(x + 15.2, y, "$n$", ha="center", va="center", fontsize=8)
    ax.text(x + 22.5, y, "heads", ha="center", va="center", fontsize=7)
    _arrow(ax, (x + 17.3, y), (x + 20, y))
    _path(ax, [(x + 25, y), (into[0], y), into])
    ax.text(into[0] + 1, y, kernel, ha="left", va="center", fontsize=8)


def _box(ax: Axes, centre: Point, width: Number, height: Number, text: str, tone: str = "") -> None:
    x, y = centre[0] - width / 2, centre[1] - height / 2
    shape = "round,pad=0,rounding_size=0.9"
    if tone:
        ax.add_patch(FancyBboxPatch((x, y), width, height, shape, facecolor=tone, alpha=0.18, edgecolor="none"))
    ax.add_patch(FancyBboxPatch((x, y), width, height, shape, fill=False, edgecolor=tone or INK, linewidth=1))
    ax.text(*centre, text, ha="center", va="center", fontsize=8, linespacing=1.15)


def _arrow(ax: Axes, start: Point, end: Point) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(start, end, **style, color=INK, linewidth=0.9))


def _path(ax: Axes, corners: list[Point], dotted: bool = False) -> None:
    """A line with corners that ends in an arrow."""
    (x0, y0), (x1, y1) = corners[-2:]
    span = max(abs(x1 - x0), abs(y1 - y0))
    near = (x1 - 2 * (x1 - x0) / span, y1 - 2 * (y1 - y0) / span)
    xs, ys = zip(*corners[:-1], near, strict=True)
    ax.plot(xs, ys, color=INK, linewidth=0.9, linestyle=":" if dotted else "-", solid_joinstyle="round")
    _arrow(ax, near, (x1, y1))
