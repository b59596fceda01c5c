"""Tables and verdicts of the documentation, from result files that are whole, partial or absent."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the package `validation`, which is not installed

from validation import claims, reproduction

from sino.core.errors import UserError
from sino.report.paper import TABLES


def score(mean: float | None, blown_up: int = 0) -> dict:
    return {"mean": mean, "median": mean, "blown_up": blown_up, "trajectories": 32}


def entry(
    benchmark: str, model: str, means: list[float | None], transfers=(), analysis=None, count=6681, **facts
) -> dict:
    coarse = {"ks": 64, "ns-forced-re4000": 64, "ns-forced-re1000": 64, "burgers-decaying": 256}[benchmark]
    configuration = {"benchmark": benchmark, "model": model, "preset": "paper", "coarse": coarse, "sizes": {}}
    configuration |= {"schedule": "ours", "scheme": "paper", "trajectories": None} | facts
    runs = []
    for seed, mean in enumerate(means, start=1):
        sets = {"paper": score(mean, mean is None), "test": score(None if mean is None else 2 * mean, mean is None)}
        alone = {"paper": score(4e-3), "test": score(5e-3)}
        errors = {"none": alone, "final": sets} | (
            {} if model == "hyperviscosity" else {"best": sets, "selected": sets}
        )
        run = {"seed": seed, "state": "finished", "errors": errors, "train_seconds": 120.0, "parameters": count}
        runs.append(run | {"transfers": list(transfers), "analysis": analysis, "provenance": {"device": "cpu"}})
    return {"name": f"{benchmark}/{model}", "configuration": configuration, "runs": runs}


def write(folder: Path, name: str, *entries: dict) -> reproduction.Results:
    record = {"format_version": 1, "kind": "reproduction", "title": name, "runs_wanted": 99}
    (folder / f"{name}.json").write_text(json.dumps(record | {"configurations": entries}))
    return reproduction.load(folder)


def test_without_results_everything_says_so(tmp_path):
    results = reproduction.load(tmp_path)
    for which in TABLES:
        text = reproduction.benchmark_tables(which, results)
        assert text.count("not run; `sino reproduce") == 3
    for table in (reproduction.trajectories_table, reproduction.transfer_table):
        assert table(results).startswith("Not run: `sino reproduce ")
    assert reproduction.bottleneck_table(results).count("not run") == 20
    assert "No run" in reproduction.cost_table(results)
    state = reproduction.state_table(tmp_path).splitlines()[2:]
    assert len(state) == len(reproduction.experiments()) >= 8 and all("not run" in line for line in state)


def test_claims_that_need_runs_are_not_measured_without(tmp_path):
    verdicts = {claim.said: claim.verdict(reproduction.load(tmp_path)) for claim in claims.CLAIMS}
    told = {said for said, verdict in verdicts.items() if verdict != claims.NOT_YET}
    assert len(verdicts) == len(claims.CLAIMS) > 30
    assert told == {said for said in verdicts if "parameters" in said or "same in 1D" in said or "compressed" in said}


def test_a_table_has_our_errors_beside_the_papers_and_says_what_is_missing(tmp_path):
    results = write(
        tmp_path,
        "1d",
        entry("ks", "sino", [1e-3, 3e-3]),
        entry("ks", "sino", [5e-3], schedule="paper"),
        entry("ks", "unet", [1e-3, None]),
        entry("ks", "hyperviscosity", [2e-3], scheme="strong"),
    )
    lines = reproduction.benchmark_tables("1d", results).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    rows = {row[0]: row for row in cells}
    assert rows["SINO"][1:] == ["2.00e-3", "71 %", "1.00e-3", "4.00e-3", "71 %", "1.33e-3", "1.14e-3", "2"]
    assert rows["SINO, paper's schedule"][1] == "5.00e-3" and rows["SINO, paper's schedule"][-1] == "1"
    assert rows["U-Net"][1] == "blew up 1 of 64"
    assert rows["Hyperviscosity, strong scheme"][1] == "2.00e-3" and rows["Hyperviscosity, strong scheme"][6] == ""
    assert rows["coarse grid"][1] == "4.00e-3" and rows["coarse grid, strong scheme"][4] == "5.00e-3"
    assert rows["FNO"][1] == "not run" and rows["FNO"][6] == "8.55e-3"
    assert len(rows) == 1 + 2 + 11 + 2  # head, coarse grids, networks, and two more
    assert "`burgers-forced`: not run; `sino reproduce 1d --only burgers-forced/`." in lines
    assert "| 1d | 6 of 99 | 0 |" in reproduction.state_table(tmp_path)
    assert "| `ks/sino` | cpu | 2 | 2.0 |" in reproduction.cost_table(results)


def test_other_tables_read_their_runs(tmp_path):
    moved = {"benchmark": "ns-forced-re4000", "coarse": 64, "errors": {"none": {"test": score(0.5)}}}
    moved["errors"]["best"] = {"test": score(0.25)}
    large = {"frequency_bottleneck": 32, "spatial_bottleneck": 32}
    results = write(
        tmp_path,
        "mixed",
        entry("ks", "sino", [1e-3], trajectories=8),
        entry("ns-forced-re1000", "sino", [0.1], transfers=[moved]),
        entry("ns-forced-re1000", "sino", [0.05], sizes=large),
    )
    assert "| `ks` | SINO | 2.00e-3 | not run | not run | not run |" in reproduction.trajectories_table(results)
    assert "| `ns-forced-re1000` | 1.00e-1 | 9.17e-2 | not run |" in reproduction.bottleneck_table(results)
    assert "| `ns-forced-re4000` | 64 | 5.00e-1 | 2.50e-1 |" in reproduction.transfer_table(results)
    assert claims.bottleneck("ns-forced-re1000", 1.5)(results) == "2.0: reached"
    assert claims.finer_grid("ns-forced-re1000", 2, 128)(results) == "2.6: reached"
    assert claims.finer_grid("ns-forced-re1000", 32, 256)(results) == "1.3: reached"
    assert results.find("ks", "sino") is None  # the one with fewer trajectories is another configuration


@pytest.mark.parametrize(
    "theirs, verdict",
    [(2.5e-3, "2.5: reached"), (1.9e-3, "1.9: smaller"), (5e-4, "0.5: no gain"), (None, "not measured")],
)
def test_a_factor_is_judged(tmp_path, theirs, verdict):
    results = write(tmp_path, "1d", entry("ks", "sino", [1e-3]), entry("ks", "unet", [theirs]))
    assert claims.factor(results, "ks", "unet", 2.5).startswith(verdict)


def test_places_and_ranges_count_what_was_run(tmp_path):
    results = write(
        tmp_path, "1d", entry("ks", "sino", [1e-3]), entry("ks", "fno", [7e-3]), entry("ks", "ufno", [5e-4])
    )
    assert claims.first_place("ks")(results) == "UFNO is first of 3 networks run"
    assert claims.spread_of_factors(["ks"], ("fno", "ufno", "unet"))(results) == "0.5 to 7.0 (2 of 3 pairs run)"


def test_an_exponent_is_that_of_the_runs(tmp_path):
    runs = [entry("ns-forced-re4000", "sino", [n**-0.5], count=n, sizes={"width": n}) for n in (100, 400, 1600)]
    results = write(tmp_path, "scaling", *runs)
    assert claims.exponent("ns-forced-re4000", "sino")(results).startswith("0.500 (0.500 to 0.500)")
    assert claims.exponent("ns-forced-re4000", "fno")(results) == claims.NOT_YET


def test_analyses_of_runs_count(tmp_path):
    kernels = [
        {"block": 0, "branch": branch, "explained": [0.7, low, 0.97]} for branch, low in (("f", 0.91), ("s", 0.8))
    ]
    analysis = {"kernels": kernels, "speedup": {"dataset": 12.0}}
    results = write(tmp_path, "2d", entry("ns-forced-re1000", "sino", [0.1], analysis=analysis))
    assert claims.variance(2, 0.9)(results) == "80.0 % at least, 1 of 2 kernels: not everywhere"
    assert claims.variance(3, 0.95)(results) == "97.0 % at least, 2 of 2 kernels: reached"
    assert claims.variance(2, 0.9, larger=True)(results) == claims.NOT_YET
    large = entry("ks", "sino", [0.1], analysis=analysis, sizes=dict.fromkeys(claims.BOTTLENECKS, 8))
    results = write(tmp_path, "bottleneck-1d", large)
    assert claims.variance(3, 0.95, larger=True)(results) == "97.0 % at least, 2 of 2 kernels: reached"
    assert claims.speedup(results) == "12 to 12"
    whole = {"kernels": [{"block": 0, "branch": "f", "explained": [0.7, 1.0, 1.0]}], "speedup": {}}
    results = write(tmp_path, "2d", entry("ns-forced-re1000", "sino", [0.1], analysis=whole))
    assert "by construction" in claims.variance(2, 0.9)(results)


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "1d.json").write_text('{"format_version": 1, "kind": "reproduction", "configurations": [{}]}')
    with pytest.raises(UserError, match="1d.json is damaged: it holds no name"):
        reproduction.load(tmp_path)
