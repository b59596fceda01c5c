"""The tables of the documentation, made from results/. `python -m validation.tables` rewrites them."""

import json
from pathlib import Path

from bench import account, ratios, worth

from validation import claims, reproduction, schedules, unseen
from validation.record import RESULTS

DOCS = Path(__file__).parent.parent / "docs"
PAGES = tuple(
    DOCS / name for name in ("validation.md", "training.md", "performance.md", "reproduction.md", "claims.md")
)
TRAINING = RESULTS.parent / "training"
HEAD = "| benchmark | variant | cells | error | 95 % interval | median | trajectories | reference | paper |"


def table(name: str) -> str:
    """The rows of one result file as Markdown, with where they come from."""
    if name in ("schedules", "search"):
        record = json.loads((TRAINING / f"{name}.json").read_text())
        return schedules.table(record) if name == "schedules" else schedules.search_table(record)
    if name == "unseen":
        return unseen.table(json.loads(unseen.FILE.read_text()))
    if name == "performance-cpu":
        return ratios.table(ratios.stored())
    if name.startswith("worth-"):
        _, part, device = name.split("-")
        return worth.table(worth.stored(device), part)
    if name.startswith("performance-"):
        record = account.stored("h200" if name == "performance-h200" else "h200-now")
        return account.goals(record) if name == "performance-goals" else account.table(record)
    if name == "claims":
        return claims.table()
    if name.startswith("reproduction-"):
        return reproduction.table(name)
    record = json.loads((RESULTS / f"{name}.json").read_text())
    lines = [HEAD, "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for r in record["rows"]:
        low, high = r["interval"]
        count = str(r["trajectories"])
        if r["excluded"]:
            count += f" (without seed {', '.join(map(str, r['excluded']))})"
        cells = (r["benchmark"], r["variant"], str(r["resolution"]), f"{r['error']:.3g}", f"{low:.3g} to {high:.3g}")
        cells += (f"{r['median']:.3g}", count, _figure(r["protocol"]), _figure(r["paper"]))
        lines.append("| " + " | ".join(cells) + " |")
    made = record["provenance"]
    source = f"results/validation/{name}.json: {made['device']}, jax {made['jax']}, commit {made['git_commit'][:10]}"
    lines += ["", f"*From {source}.*"]
    for benchmark, run in record.get("runs", {}).items():
        if benchmark == "ns-decaying":
            low, middle, high = (f"{100 * share:.1f}" for share in run["energy_lost"])
            lines += ["", f"Energy lost by `ns-decaying` over the recording: {low} to {high} %, median {middle} %."]
    return "\n".join(lines)


def render(page: str) -> str:
    """Replace what stands between `<!-- table: NAME -->` and `<!-- end -->`."""
    parts = page.split("<!-- table: ")
    done = [parts[0]]
    for part in parts[1:]:
        name, rest = part.split(" -->", 1)
        _, after = rest.split("<!-- end -->", 1)
        done.append(f"{name} -->\n\n{table(name)}\n\n<!-- end -->{after}")
    return "<!-- table: ".join(done)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(render(page.read_text()))
        print(f"wrote {page}")
