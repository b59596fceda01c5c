"""Cells of every table, against what the checked-in result files say."""

import json
import shutil

import pytest

from conftest import FOLDER
from sino.report.account import benchmark_table, run_table
from sino.report.analysis_tables import cost_tables, kernel_table, scaling_table
from sino.report.bottleneck import bottleneck_table
from sino.report.collect import collect
from sino.report.measures import checkpoint_table, measure_tables, transfer_table
from sino.report.tables import result_tables


def row(table, *names):
    """The texts of the row that begins with these names, by heading."""
    found = [r for r in table.rows if tuple(cell.text for cell in r[: len(names)]) == names]
    (cells,) = found
    titles = [f"{column.over}: {column.title}" if column.over else column.title for column in table.columns]
    return dict(zip(titles, cells, strict=True))


def told(cell):
    return (cell.text, *cell.remarks)


def test_result_table_of_one_dimensional_flows(runs):
    table, other = result_tables(runs)
    assert (table.name, other.name) == ("results-1d", "results-2d")
    flow = "Decaying Burgers"
    sino = row(table, "SINO")
    assert told(sino[f"{flow}: AVE"]) == ("5.00e-3", "paper 4.37e-3")
    assert told(sino[f"{flow}: Best"]) == ("4.00e-3", "paper 2.90e-3")
    assert told(sino[f"{flow}: unseen AVE"]) == ("5.50e-3",)
    assert told(sino[f"{flow}: unseen Best"]) == ("4.40e-3",)
    assert told(sino["Parameters"]) == ("6,681", "paper 6,681")
    assert all(sino[f"{flow}: {title}"].best for title in ("AVE", "Best", "unseen AVE", "unseen Best"))
    late = row(table, "SINO, paper's schedule")
    assert told(late[f"{flow}: AVE"]) == ("7.00e-3", "paper 4.37e-3", "1 seed") and not late[f"{flow}: AVE"].best


def test_missing_cells_say_why(runs):
    table, other = result_tables(runs)
    flow = "Decaying Burgers"
    assert told(row(table, "U-Net")[f"{flow}: AVE"]) == ("unfinished", "paper 1.65e-1")
    assert told(row(table, "UFNO")[f"{flow}: unseen AVE"]) == ("not run",)
    assert told(row(table, "UFNO")["Kuramoto-Sivashinsky: Best"]) == ("not run", "paper 7.82e-3")
    assert told(row(other, "AM-FNO")["Decaying NS: AVE"]) == ("stopped: not finite", "paper 7.68e-2")
    fno = row(table, "FNO")
    assert told(fno[f"{flow}: unseen AVE"]) == ("blew up 2 of 8", "2 seeds")
    assert told(fno[f"{flow}: unseen Best"]) == ("9.90e-2",)  # of the seed that did not
    assert fno[f"{flow}: unseen AVE"].missing and not fno[f"{flow}: AVE"].missing


def test_rows_without_a_network(runs):
    table, other = result_tables(runs)
    coarse = row(table, "Coarse grid")
    assert told(coarse["Decaying Burgers: AVE"]) == ("1.60e-1", "paper 1.65e-1")
    assert told(coarse["Decaying Burgers: unseen AVE"]) == ("1.70e-1",)
    assert told(coarse["Forced Burgers: AVE"]) == ("not run", "paper 2.23e-1")
    assert told(row(table, "Hyperviscosity")["Decaying Burgers: AVE"]) == ("2.40e-2",)  # the last weights, no seeds
    assert told(row(other, "Smagorinsky")["Decaying NS: unseen AVE"]) == ("6.60e-1",)
    assert "Smagorinsky" not in {r[0].text for r in table.rows}
    assert len(table.rows) == 14 and len(other.rows) == 15


def test_flows_that_were_run_come_first(runs):
    table, _ = result_tables(runs)
    overs = list(dict.fromkeys(column.over for column in table.columns if column.over))
    assert overs == ["Decaying Burgers", "Forced Burgers", "Kuramoto-Sivashinsky"]
    assert [sum(column.over == over for column in table.columns) for over in overs] == [4, 2, 2]


def test_without_evaluation_the_coarse_grid_names_the_command():
    (table,) = result_tables(collect([FOLDER / "burgers-decaying" / "sino-paper"]))
    assert told(row(table, "Coarse grid")["Decaying Burgers: AVE"]) == ("run sino evaluate", "paper 1.65e-1")
    assert told(row(table, "SINO, paper's schedule")["Decaying Burgers: unseen AVE"]) == ("7.70e-3", "1 seed")


def test_reduced_sizes_have_a_table_of_their_own(tmp_path):
    shutil.copytree(FOLDER / "burgers-decaying" / "sino", tmp_path / "sino")
    for file in tmp_path.rglob("*.json"):
        file.write_text(file.read_text().replace('"preset": "paper"', '"preset": "small"'))
    (table,) = result_tables(collect([tmp_path]))
    assert table.name == "results-1d-small" and "not comparable" in table.notes[-1]
    assert told(row(table, "SINO")["Decaying Burgers: AVE"]) == ("5.00e-3",)  # nothing of the paper's beside
    assert [r[0].text for r in table.rows] == ["SINO", "Coarse grid"]


def test_other_grids_and_schemes(tmp_path):
    """A run on another grid is in no table of the paper's; one with a strong scheme has rows of its own."""
    shutil.copytree(FOLDER / "burgers-decaying" / "sino" / "seed-2", tmp_path / "a" / "seed-2")
    shutil.copytree(FOLDER / "burgers-decaying" / "sino" / "seed-3", tmp_path / "b" / "seed-3")
    for folder, old, new in (("a", '"coarse": 256', '"coarse": 128'), ("b", '"scheme": "paper"', '"scheme": "strong"')):
        for file in (tmp_path / folder).rglob("*.json"):
            file.write_text(file.read_text().replace(old, new))
    assert result_tables(collect([tmp_path / "a"])) == []
    (table,) = result_tables(collect([tmp_path]))
    names = [r[0].text for r in table.rows if not r[1].missing]
    assert names == ["SINO, strong scheme", "Coarse grid, strong scheme"]
    assert told(row(table, "SINO, strong scheme")["Decaying Burgers: AVE"]) == ("6.00e-3", "1 seed")
    titles = [setting.title for setting in collect([tmp_path]).settings]
    assert titles == ["Decaying Burgers, 128 cells", "Decaying Burgers, strong scheme"]


def test_bottleneck_table(runs):
    table = bottleneck_table(runs)
    assert [r[0].text for r in table.rows] == ["Decaying NS"]
    cells = row(table, "Decaying NS")
    over = "SINO, both bottlenecks"
    assert told(cells[f"{over}: n = 2"]) == ("6.00e-2", "paper 5.99e-2", "1 seed")
    assert told(cells[f"{over}: n = 8"]) == ("5.00e-2", "paper 4.98e-2", "1 seed") and cells[f"{over}: n = 8"].best
    assert told(cells[f"{over}: n = 32"]) == ("not run", "paper 4.08e-2")
    finer = [told(cells[f"No closure: {title}"]) for title in ("coarse", "2 × finer", "4 × finer")]
    assert finer == [("4.00e-1", "paper 4.04e-1"), ("1.87e-1", "paper 1.88e-1"), ("5.46e-2", "paper 5.64e-2")]
    assert bottleneck_table(collect([FOLDER / "burgers-decaying"])) is None
    alone = row(bottleneck_table(collect([FOLDER / "ns-decaying" / "sino-8"])), "Decaying NS")
    assert told(alone["No closure: 2 × finer"]) == ("run sino analyze", "paper 1.88e-1")


def test_measures(runs):
    burgers, ns = measure_tables(runs)
    sino = row(burgers, "SINO")
    assert told(sino["Error"]) == ("5.50e-3", "0.0044 to 0.0066") and sino["Error"].best  # the range over seeds
    assert told(row(burgers, "Coarse grid")["Error"]) == ("1.70e-1", "0.136 to 0.204")  # the interval
    assert told(sino["NRMSE"])[0] == "7.39e-2" and told(sino["Blown up"]) == ("0 of 12",)
    assert told(row(burgers, "FNO")["Blown up"]) == ("2 of 8",) and told(row(burgers, "FNO")["Error"])[0][:4] == "blew"
    assert told(row(burgers, "SINO, paper's schedule")["Error"]) == ("run sino evaluate",)
    assert told(row(burgers, "U-Net")["Median"]) == ("unfinished",)
    assert told(row(ns, "SINO")["Divergence"]) == ("2.00e-7",)
    assert told(row(ns, "SINO")["Correlated until"]) == ("1.51", "1 to 2", "1 never")
    assert "Divergence" not in row(burgers, "SINO")


def test_checkpoints_are_told_apart(runs):
    table = checkpoint_table(runs)
    last = row(table, "SINO", "Decaying Burgers", "last")
    best = row(table, "SINO", "Decaying Burgers", "best on validation")
    assert [last[f"{over} trajectories: AVE"].text for over in ("Training", "Unseen")] == ["6.00e-3", "6.60e-3"]
    assert [best[f"{over} trajectories: Best"].text for over in ("Training", "Unseen")] == ["4.00e-3", "4.40e-3"]


def test_transfer(runs):
    cells = row(transfer_table(runs), "SINO")
    assert [told(cells[title])[0] for title in ("Tried on", "Coarse grid", "Closure", "Factor")] == [
        "Decaying Burgers, 128 cells",
        "1.70e-1",
        "5.00e-2",
        "3.4 ×",
    ]
    assert transfer_table(collect([FOLDER / "ns-decaying"])) is None


def test_kernels_scaling_and_cost(runs):
    kernels = row(kernel_table(runs), "SINO, n = 8", "Decaying NS", "4", "spatial")
    assert [kernels[title].text for title in ("n", "Rank", "at most")] == ["8", "9", "9"]
    assert kernels["Variance in components: 3"].text == "93.0 %" and kernels["Operator norm: bound"].text == "6"
    assert [kernels[f"Holds: {who}"].text for who in ("our bounds", "the paper's")] == ["yes", "yes"]
    assert row(kernel_table(runs), "SINO", "Decaying NS", "1", "frequency")["Holds: the paper's"].text == "no"
    law = row(scaling_table(runs), "SINO")
    assert [law[title].text for title in ("Exponent", "95 % interval", "Paper")] == ["0.500", "0.450 to 0.550", "0.868"]
    assert row(scaling_table(runs), "FNO")["Paper"].text == "–"  # the paper has none against seconds
    (cost,) = cost_tables(runs)
    assert row(cost, "fine-256")["Error against: the dataset"].text == "0.0546"
    assert cost.notes[1:3] == (
        "At equal error against the dataset, the closure is 18 times faster than its own solver on a finer grid, 1.4 "
        "times slower than the better classical scheme.",
        "At equal error against a spectral solution, the closure is not comparable, since the closure blew up.",
    )
    assert any("52,000 simulated time units" in note for note in cost.notes)
    bare = collect([FOLDER / "burgers-decaying" / "fno"])
    assert kernel_table(bare) is None and scaling_table(bare) is None and cost_tables(bare) == []


def test_bounds_of_a_network_without_hypernetworks(tmp_path):
    shutil.copytree(FOLDER / "burgers-decaying" / "fno", tmp_path / "fno")
    bound = {"block": 0, "branch": "frequency", "lipschitz_bound": None, "largest_slope": None}
    bound |= {"norm_bound": 3.0, "norm": 2.0, "holds": True}
    record = {"format_version": 1, "kind": "analysis", "kernels": [], "bounds": [bound]}
    (tmp_path / "fno" / "seed-1" / "analysis.json").write_text(json.dumps(record))
    cells = row(kernel_table(collect([tmp_path])), "FNO")
    assert [cells[title].text for title in ("Rank", "Lipschitz constant: bound", "Operator norm: found")] == [
        "–",
        "–",
        "2",
    ]
    assert cells["Holds: the paper's"].text == "–"


def test_what_was_run(runs):
    flows = row(benchmark_table(runs), "Decaying NS")
    assert flows["Grid"].text == "512² → 64²" and flows["Seeds: train, validation, test"].text == "0-63, 64-79, 80-111"
    table = run_table(runs)
    assert len(table.rows) == len(runs.runs) == 12
    cells = row(table, "AM-FNO")
    assert cells["State"].text == "stopped: not finite at update 240" and cells["Device"].text == "NVIDIA H200"
    assert row(table, "U-Net")["Training"].text == "–"
    assert row(table, "Hyperviscosity")["Training"].text == "2 min"
    assert cells["Commit"].text == "0123456789+" and cells["Data"].text == "5126c03d1f"


@pytest.mark.parametrize("seconds, text", [(3.2, "3 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(tmp_path, seconds, text):
    shutil.copytree(FOLDER / "burgers-decaying" / "hyperviscosity", tmp_path / "h")
    file = tmp_path / "h" / "seed-1" / "results.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"train_seconds": seconds}))
    assert row(run_table(collect([tmp_path])), "Hyperviscosity")["Training"].text == text
