"""Every numeric claim of the paper beside what the stored results say of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sino.benchmarks import BENCHMARKS
from sino.evaluate.scaling import fit_power_law
from sino.models import PAPER_COUNTS
from sino.report.names import MODEL_TITLES, ratio
from sino.report.paper import EXPONENTS, TABLES
from validation.reproduction import Results, load

NOT_YET = "not measured yet"
NEARLY = 0.9
"""A factor counts as reached from this share of the claimed one on."""
BOTTLENECKS = {"frequency_bottleneck", "spatial_bottleneck"}
BASELINES = ("unet", "deeponet", "transolver", "oformer", "galerkin", "fno", "ufno", "amfno")
MAIN = (*TABLES["1d"], *TABLES["2d"])


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and how it is checked."""

    said: str
    measured_by: str
    verdict: Callable[[Results], str]


def factor(results: Results, benchmark: str, other: str, claimed: float) -> str:
    """The error of another network over SINO's, both means over seeds, as the paper measures."""
    sino, theirs = (results.mean(benchmark, model) for model in ("sino", other))
    if sino is None or theirs is None:
        return NOT_YET
    return judge(theirs / sino, claimed)


def judge(found: float, claimed: float) -> str:
    """A factor in words: `reached`, `smaller`, or `no gain`."""
    word = "reached" if found >= NEARLY * claimed else "smaller" if found > 1 else "no gain"
    return f"{ratio(found)}: {word}"


def spread_of_factors(benchmarks: Iterable[str], others: Iterable[str]) -> Callable[[Results], str]:
    """Lowest and highest factor over some flows and networks, if all were run."""
    pairs = [(b, m) for b in benchmarks for m in others]

    def verdict(results: Results) -> str:
        found = []
        for b, m in pairs:
            sino, theirs = results.mean(b, "sino"), results.mean(b, m)
            if sino is not None and theirs is not None:
                found.append(theirs / sino)
        if not found:
            return NOT_YET
        part = "" if len(found) == len(pairs) else f" ({len(found)} of {len(pairs)} pairs run)"
        return f"{ratio(min(found))} to {ratio(max(found))}{part}"

    return verdict


def first_place(benchmark: str, dataset: str = "paper") -> Callable[[Results], str]:
    """Who has the lowest error of all that were run."""

    def verdict(results: Results) -> str:
        models = ("sino", *BASELINES)
        means = {m: mean for m in models if (mean := results.mean(benchmark, m, dataset)) is not None}
        if "sino" not in means or len(means) < 2:
            return NOT_YET
        best = min(means, key=lambda m: means[m])
        part = "" if len(means) == len(models) else f" of {len(means)} networks run"
        return f"{MODEL_TITLES[best]} is first{part}"

    return verdict


def exponent(benchmark: str, model: str) -> Callable[[Results], str]:
    """Of a power law of the unseen error in the number of parameters."""

    def verdict(results: Results) -> str:
        points = []
        for c in results.configurations:
            facts = (c.facts["benchmark"], c.facts["model"], c.facts["schedule"], c.facts["scheme"])
            if facts == (benchmark, model, "ours", "paper") and c.experiment == "scaling":
                scored = zip(c.runs, c.scores("test"), strict=False)
                points += [(run["parameters"], score["mean"]) for run, score in scored if score["mean"]]
        if len(points) < 3 or len({x for x, _ in points}) < 2:
            return NOT_YET
        sizes, errors = (np.array(values, float) for values in zip(*points, strict=True))
        law = fit_power_law(sizes, errors)
        low, high = law.interval
        return f"{law.exponent:.3f} ({low:.3f} to {high:.3f})"

    return verdict


def bottleneck(benchmark: str, claimed: float) -> Callable[[Results], str]:
    """The error of SINO-2 over that of SINO-32."""

    def verdict(results: Results) -> str:
        large = dict.fromkeys(BOTTLENECKS, 32)
        means = [results.mean(benchmark, "sino", sizes=sizes) for sizes in ({}, large)]
        if means[0] is None or means[1] is None:
            return NOT_YET
        return judge(means[0] / means[1], claimed)

    return verdict


def finer_grid(benchmark: str, size: int, cells: int) -> Callable[[Results], str]:
    """SINO's error beside that of the uncorrected solver on a finer grid, which the paper prints and we agree with."""

    def verdict(results: Results) -> str:
        sizes = {} if size == 2 else dict.fromkeys(BOTTLENECKS, size)
        mean = results.mean(benchmark, "sino", sizes=sizes)
        if mean is None:
            return NOT_YET
        finer = BENCHMARKS[benchmark].paper_errors[cells]
        return f"{ratio(finer / mean)}: {'reached' if mean < finer else 'not reached'}"

    return verdict


def parameters(models: Iterable[str], dim: int) -> Callable[[Results], str]:
    """How many times more parameters than SINO; the counts of our networks are the paper's, which a test checks."""

    def verdict(results: Results) -> str:
        own = PAPER_COUNTS["sino"][dim - 1]
        return ", ".join(f"{MODEL_TITLES[m]} {ratio(PAPER_COUNTS[m][dim - 1] / own)}" for m in models)

    return verdict


def variance(components: int, share: float, *, larger: bool = False) -> Callable[[Results], str]:
    """The lowest share of variance that so many components explain, over all blocks and branches of all SINO runs of
    the usual size, or of those with `larger` bottlenecks."""

    def verdict(results: Results) -> str:
        found = [
            kernel["explained"][min(components, len(kernel["explained"])) - 1]
            for c in results.configurations
            if c.facts["model"] == "sino" and set(c.facts["sizes"]) == (BOTTLENECKS if larger else set())
            for run in c.runs
            for kernel in (run.get("analysis") or {}).get("kernels", [])
        ]
        if not found:
            return NOT_YET
        if min(found) > 1 - 1e-4:
            return "all of it: by construction, since these bottlenecks have two units"
        word = "reached" if min(found) >= share else "not everywhere"
        enough = sum(value >= share for value in found)
        return f"{100 * min(found):.1f} % at least, {enough} of {len(found)} kernels: {word}"

    return verdict


def speedup(results: Results) -> str:
    """Wall clock at equal error, against the same scheme on a finer grid."""
    found = [
        value
        for c in results.configurations
        if c.facts["model"] == "sino" and BENCHMARKS[c.facts["benchmark"]].dim == 2
        for run in c.runs
        if (value := (run.get("analysis") or {}).get("speedup", {}).get("dataset")) is not None
    ]
    return f"{ratio(min(found))} to {ratio(max(found))}" if found else NOT_YET


def _beats(benchmark: str, other: str, claimed: float, sentence: str, source: str) -> Claim:
    return Claim(sentence, source, lambda results: factor(results, benchmark, other, claimed))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "the error of a baseline is 1.5 to 38 times SINO's, on six flows",
        "`1d`, `2d`",
        spread_of_factors(MAIN, BASELINES),
    ),
    _beats("burgers-forced", "amfno", 1.5, "forced Burgers: 1.5 times better than the second, AM-FNO", "`1d`"),
    _beats("ks", "amfno", 2.2, "Kuramoto-Sivashinsky: 2.2 times better than AM-FNO", "`1d`"),
    _beats("ks", "unet", 2.5, "Kuramoto-Sivashinsky: 2.5 times better than U-Net", "`1d`"),
    Claim(
        "Kuramoto-Sivashinsky: 6 to 8 times better than FNO, UFNO and transformers",
        "`1d`",
        spread_of_factors(["ks"], ("fno", "ufno", "transolver", "oformer", "galerkin")),
    ),
    Claim(
        "decaying Burgers: 38 times better than most baselines, which stay at the coarse grid's error",
        "`1d`",
        spread_of_factors(["burgers-decaying"], BASELINES),
    ),
    _beats("ns-forced-re1000", "unet", 1.5, "forced NS, Re 1000: 1.5 times better than the second, U-Net", "`2d`"),
    Claim("forced NS, Re 1000: SINO is first", "`2d`", first_place("ns-forced-re1000")),
    Claim("forced NS, Re 4000: SINO is first", "`2d`", first_place("ns-forced-re4000")),
    Claim("decaying NS: UFNO is first on average, SINO close behind", "`2d`", first_place("ns-decaying")),
    Claim(
        "one branch alone has 1.5 to 3 times SINO's error, on all flows",
        "`1d`, `2d`",
        spread_of_factors(MAIN, ("sino-spe", "sino-spa")),
    ),
    Claim(
        "FNO-like networks have 2 to 23 times SINO's parameters: 2D", "built", parameters(("amfno", "ufno", "fno"), 2)
    ),
    Claim("the same in 1D", "built", parameters(("amfno", "fno", "ufno"), 1)),
    Claim("two principal components explain over 90 % of the kernels' variance", "`sino analyze`", variance(2, 0.90)),
    Claim("three explain over 95 %", "`sino analyze`", variance(3, 0.95)),
    Claim("two explain over 90 % where there are 8 to 32", "`bottleneck-1d`", variance(2, 0.90, larger=True)),
    Claim("three explain over 95 % there", "`bottleneck-1d`", variance(3, 0.95, larger=True)),
    Claim(
        "kernels are compressed more than 250 times",
        "[theory](theory.md)",
        lambda _: "1,024 entries over 4 components: by construction, since `n` bottleneck units span `n + 1` matrices",
    ),
    *(
        Claim(f"exponent {claimed} for {MODEL_TITLES[model]} on `{b}`", "`scaling`", exponent(b, model))
        for b, models in EXPONENTS.items()
        for model, claimed in models.items()
    ),
    Claim(
        "SINO-32 has 1/1.5 of SINO-2's error: forced NS, Re 1000", "`bottleneck`", bottleneck("ns-forced-re1000", 1.5)
    ),
    Claim("SINO-32 has 1/1.5 of SINO-2's error: decaying NS", "`bottleneck`", bottleneck("ns-decaying", 1.5)),
    Claim("SINO-2 beats 128² cells: forced NS, Re 1000", "`bottleneck`", finer_grid("ns-forced-re1000", 2, 128)),
    Claim("SINO-2 beats 128² cells: decaying NS", "`bottleneck`", finer_grid("ns-decaying", 2, 128)),
    Claim("SINO-32 beats 256² cells: forced NS, Re 1000", "`bottleneck`", finer_grid("ns-forced-re1000", 32, 256)),
    Claim("SINO-32 beats 256² cells: decaying NS", "`bottleneck`", finer_grid("ns-decaying", 32, 256)),
    Claim("over 16 times faster at equal error, counted in cells", "`sino analyze --cost`", speedup),
    _beats(
        "burgers-forced-128",
        "unet",
        1.9,
        "forced Burgers, 128 cells: 1.9 times better than U-Net",
        "`1d-supplementary`",
    ),
    _beats("burgers-forced-128", "sino-spa", 1.4, "and 1.4 times better than SINO-SPA", "`1d-supplementary`"),
    _beats(
        "ks-32", "amfno", 2.8, "Kuramoto-Sivashinsky, 32 points: 2.8 times better than AM-FNO", "`1d-supplementary`"
    ),
    _beats("ks-32", "unet", 3.4, "and 3.4 times better than U-Net", "`1d-supplementary`"),
    Claim(
        "decaying Burgers, 128 points: 12 times better than most baselines",
        "`1d-supplementary`",
        spread_of_factors(["burgers-decaying-128"], ("unet", "fno", "amfno")),
    ),
    _beats("ns-forced-re2000", "unet", 1.2, "forced NS, Re 2000: 1.2 times better than U-Net", "`2d-supplementary`"),
    _beats("ns-taylor-green", "unet", 1.4, "Taylor-Green forcing: 1.4 times better than U-Net", "`2d-supplementary`"),
    Claim("forced NS, Re 100 000: SINO is first", "`2d-supplementary`", first_place("ns-forced-re1e5")),
)


def table() -> str:
    """All claims as Markdown."""
    results = load()
    lines = ["| the paper says | measured by | measured here |", "|---|---|---|"]
    lines += [f"| {c.said} | {c.measured_by} | {c.verdict(results)} |" for c in CLAIMS]
    return "\n".join(lines)
