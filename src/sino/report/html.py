"""The report: one HTML page that opens offline, with the verdict first."""

import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from sino import __version__
from sino.report.animation import Animation
from sino.report.gallery import Gallery, Section
from sino.report.names import ratio
from sino.report.picture import Picture, inline_svg
from sino.report.runs import Collection
from sino.report.verdict import Verdict
from sino.report.writers import to_html

TITLE = "What the closures are worth"
OUTCOMES = {
    "wins": "smaller error",
    "loses": "larger error",
    "level": "no clear difference",
    "unknown": "not known yet",
}
WORDS = {
    "Coarse grid": "the coarse solver on its own, from the same frame 0: what a closure has to beat.",
    "Closure": "a term in the right-hand side of the coarse solver, evaluated once per step.",
    "Unseen": "trajectories that took no part in training or in the choice of a checkpoint: what we stand behind.",
    "Training trajectories": "the paper's protocol: rollouts of the trajectories that were trained on, beyond the "
    "training window, with the checkpoint that is best there.",
    "Blown up": "a rollout that did not stay finite; it is counted, and its error is never left out of a mean.",
}


def page(runs: Collection, gallery: Gallery, verdicts: Sequence[Verdict], title: str = TITLE) -> str:
    """The whole page."""
    parts = {"verdict": ("Verdict", _verdicts(verdicts))}
    comparable = any(setting.preset == "paper" for setting in runs.settings)
    heading = "Results beside the paper's" if comparable else "Results"
    parts["results"] = (heading, _figures(gallery.results, gallery.overview))
    parts |= {f"flow-{s.setting.slug}": (s.setting.title, _section(s)) for s in gallery.sections}
    parts["measures"] = ("All measures", _figures(gallery.measures, ()))
    if gallery.analysis_tables or gallery.analysis_pictures:
        parts["analysis"] = ("Kernels, scaling and cost", _figures(gallery.analysis_tables, gallery.analysis_pictures))
    parts["method"] = ("How to read this", _definitions() + _picture(gallery.method))
    parts["runs"] = ("What was run", _figures(gallery.account, ()))
    room = files("sino.report")
    return Template((room / "page.html").read_text("utf-8")).substitute(
        title=escape(title),
        css=(room / "page.css").read_text("utf-8"),
        script=(room / "page.js").read_text("utf-8"),
        account=escape(_account(runs)),
        contents="".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, (name, _) in parts.items()),
        body="\n".join(
            f'<section id="{key}" aria-labelledby="{key}-heading"><h2 id="{key}-heading">{escape(name)}</h2>\n'
            f"{content}</section>"
            for key, (name, content) in parts.items()
        ),
        footer=f"Made by sino {__version__} from result files alone.",
    )


def summary(verdicts: Sequence[Verdict]) -> str:
    """All verdicts in one or two sentences."""
    by_outcome = {outcome: [v for v in verdicts if v.outcome == outcome] for outcome in OUTCOMES}

    def names(outcome: str) -> str:
        texts = []
        for v in by_outcome[outcome]:
            factor = "" if v.factor is None or outcome != "wins" else f" ({ratio(v.factor)} ×)"
            texts.append(f"{v.setting.title}{factor}")
        return ", ".join(texts)

    count, won = len(verdicts), len(by_outcome["wins"])
    if len(by_outcome["unknown"]) == count:
        return "Nothing can be said yet: the coarse grid was not evaluated beside the closures."
    flows = "" if count == 1 else f" on {won} of {count} flows" if won else f" on none of {count} flows"
    verb = "beats" if won or count > 1 else "does not beat"
    text = f"On trajectories that it has not seen, the closure {verb} the coarse grid{flows}"
    sentences = [f"{text}: {names('wins')}." if won else f"{text}."]
    sentences += [f"It loses on {names('loses')}."] if by_outcome["loses"] else []
    sentences += [f"It makes no clear difference on {names('level')}."] if by_outcome["level"] else []
    sentences += [f"Not known yet: {names('unknown')}."] if by_outcome["unknown"] else []
    return " ".join(sentences)


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    cards = "".join(_card(verdict) for verdict in verdicts)
    return f'<p class="lead">{_unbroken(summary(verdicts))}</p>\n<div class="cards">{cards}</div>\n'


def _card(v: Verdict) -> str:
    big = "–" if v.factor is None else f"{ratio(v.factor if v.factor >= 1 else 1 / v.factor)} ×"
    words = OUTCOMES[v.outcome]
    if v.factor is None and v.outcome in ("wins", "loses"):
        big, words = ("stays finite" if v.outcome == "wins" else "blew up"), ""
    remarks = "".join(f"<li>{_unbroken(remark)}</li>" for remark in v.remarks)
    return (
        f'<article class="card {v.outcome}"><h3>{escape(v.setting.title)}</h3>'
        f'<p class="big">{big} <small>{words}</small></p><p>{_unbroken(v.sentence)}</p>'
        + (f"<ul>{remarks}</ul>" if remarks else "")
        + "</article>\n"
    )


def _unbroken(text: str) -> str:
    """Words for the page, in which no line ends inside a number such as `5.50e-3` or `31 ×`."""
    return re.sub(r"\d[\d.,]*(e-\d+| ×)", r'<span class="nobreak">\g<0></span>', escape(text))


def _account(runs: Collection) -> str:
    """One line: how much was run, and on what."""
    finished = sum(run.finished for run in runs.runs)
    devices = sorted({str(run.provenance.get("device", "an unknown device")) for run in runs.runs})
    flows = len({(s.benchmark, s.preset) for s in runs.settings})
    text = f"{len(runs.runs)} runs ({finished} finished) on {flows} flow{'s' if flows > 1 else ''}"
    versions = sorted({str(run.provenance["jax"]) for run in runs.runs if "jax" in run.provenance})
    return f"{text}, on {' and '.join(devices)}" + (f", jax {' and '.join(versions)}." if versions else ".")


def _section(section: Section) -> str:
    parts = [] if section.animation is None else [_moving(section.animation)]
    parts += [_picture(picture) for picture in section.pictures]
    if section.missing:
        items = "".join(f"<li>{_command(text)}</li>" for text in section.missing)
        parts.append(f'<ul class="missing-list">{items}</ul>')
    return "\n".join(parts)


def _command(text: str) -> str:
    """A sentence whose end, after a colon, is a command."""
    words, found, command = text.partition(": sino ")
    return f"{escape(words)}: <code>sino {escape(command)}</code>" if found else escape(text)


def _figures(tables: Sequence, pictures: Sequence[Picture]) -> str:
    return "\n".join([*map(to_html, tables), *map(_picture, pictures)])


def _picture(picture: Picture) -> str:
    return (
        f'<figure class="picture" id="figure-{picture.name}"><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(picture.title)}">{inline_svg(picture)}</div>'
        f"<figcaption><strong>{escape(picture.title)}.</strong> {escape(picture.caption)}</figcaption></figure>"
    )


def _moving(animation: Animation) -> str:
    moving, still = (b64encode(data).decode() for data in (animation.moving, animation.still))
    return (
        f'<figure class="moving" id="figure-{animation.name}"><picture>'
        f'<source media="(prefers-reduced-motion: reduce)" srcset="data:image/png;base64,{still}">'
        f'<img alt="{escape(animation.alt)}" src="data:image/gif;base64,{moving}"></picture>'
        '<button type="button" hidden>Pause</button>'
        f"<figcaption><strong>{escape(animation.title)}.</strong> {escape(animation.caption)}</figcaption></figure>"
    )


def _definitions() -> str:
    return "<dl>" + "".join(f"<dt>{term}</dt><dd>{escape(words)}</dd>" for term, words in WORDS.items()) + "</dl>\n"
