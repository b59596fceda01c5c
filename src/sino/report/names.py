"""How benchmarks and models are called in tables and figures, and how each is drawn."""

from sino.benchmarks import BENCHMARKS

MODEL_TITLES: dict[str, str] = {
    "unet": "U-Net",
    "deeponet": "DeepONet",
    "transolver": "Transolver",
    "oformer": "OFormer",
    "galerkin": "GK-Transformer",
    "fno": "FNO",
    "ufno": "UFNO",
    "amfno": "AM-FNO",
    "sino-spe": "SINO-SPE",
    "sino-spa": "SINO-SPA",
    "sino": "SINO",
    "hyperviscosity": "Hyperviscosity",
    "smagorinsky": "Smagorinsky",
    "none": "Coarse grid",
}
"""In the order of the paper's rows; classical closures and the uncorrected solver at the end."""

BENCHMARK_TITLES: dict[str, str] = {
    "burgers-forced": "Forced Burgers",
    "burgers-decaying": "Decaying Burgers",
    "ks": "Kuramoto-Sivashinsky",
    "ns-forced-re1000": "Forced NS, Re 1000",
    "ns-forced-re4000": "Forced NS, Re 4000",
    "ns-decaying": "Decaying NS",
    "burgers-forced-128": "Forced Burgers (128)",
    "burgers-decaying-128": "Decaying Burgers (128)",
    "ks-32": "Kuramoto-Sivashinsky (32)",
    "ns-forced-re2000": "Forced NS, Re 2000",
    "ns-taylor-green": "Taylor-Green NS, Re 1000",
    "ns-forced-re1e5": "Forced NS, Re 100 000",
}

SINO, GREY = "#D55E00", "#8A8A8A"
_COLOURS: dict[str, str] = {
    "sino": SINO,
    "sino-spe": "#E69F00",
    "sino-spa": "#CC79A7",
    "fno": "#0072B2",
    "ufno": "#56B4E9",
    "amfno": "#009E73",
    "unet": "#0072B2",
    "deeponet": "#56B4E9",
    "transolver": "#009E73",
    "oformer": "#CC79A7",
    "galerkin": "#E69F00",
}
_MARKERS: dict[str, str] = {
    "sino": "*",
    "sino-spe": "^",
    "sino-spa": "v",
    "fno": "o",
    "ufno": "s",
    "amfno": "D",
    "unet": "P",
    "deeponet": "X",
    "transolver": "p",
    "oformer": "h",
    "galerkin": "d",
    "hyperviscosity": "_",
    "smagorinsky": "|",
}


def colour(model: str) -> str:
    """Okabe and Ito's colours, which colour-blind readers can tell apart; grey for what is no network."""
    return _COLOURS.get(model, GREY)


def marker(model: str) -> str:
    """A shape per model, since there are more models than colours that can be told apart."""
    return _MARKERS.get(model, ".")


def number(value: float) -> str:
    """Three digits, as `1.03e-3`; without exponent where it would be 0."""
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}" if int(exponent) else mantissa


def ratio(value: float) -> str:
    """A factor for people: two or three digits, as `1.8`, `35` or `1,200`."""
    if value >= 100:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}" if value < 0.995 else f"{value:.1f}"


def speed(value: float) -> str:
    """A speed-up in words: `18 times faster`, or `4.2 times slower` if it is none."""
    return f"{ratio(value)} times faster" if value >= 1 else f"{ratio(1 / value)} times slower"


def grid_title(benchmark: str, cells: int) -> str:
    """`64 cells` or `64² cells`."""
    return f"{cells}{'²' if BENCHMARKS[benchmark].dim == 2 else ''} cells"
