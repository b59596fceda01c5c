"""`sino train`: what it prints and writes, and one sentence for every mistake."""

import io
import json
import os
import sys
from dataclasses import fields, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from commands import status
from sino import load_closure
from sino.benchmarks import benchmark
from sino.cli import live, main, training
from sino.cli.training_plan import make_training_plan
from sino.cli.verbs import Train
from sino.train.curriculum import OURS, Recipe, Stage
from sino.train.loop import Step
from sino.train.session import Progress
from tiny_training import OPTIONS, arguments, assert_same_run, assert_same_weights, everything_under


@pytest.fixture
def no_training(quick, monkeypatch):
    """A request that should have been refused does not go on for hours."""

    def fail(*arguments):
        raise AssertionError("it went on")

    monkeypatch.setattr(training, "_prepare", fail)
    monkeypatch.setattr(training, "_fit", fail)


@pytest.fixture(scope="module")
def flow_data(tmp_path_factory):
    """Two-dimensional data, made once."""
    out = tmp_path_factory.mktemp("flow") / "data"
    assert status("generate", "ns-decaying", "--preset", "tiny", "--out", out) == 0
    return out


def test_without_folders_data_are_generated_and_runs_go_where_they_belong(
    trained, tmp_path, quick, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert status("train", *OPTIONS, "--seeds", 1, 2) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("data/ks-tiny is not there yet: generating it")
    assert (tmp_path / "data" / "ks-tiny" / "manifest.json").is_file()
    assert printed.splitlines()[-1] == "wrote runs/ks-tiny/sino/seed-1, runs/ks-tiny/sino/seed-2"
    for seed in (1, 2):
        run = tmp_path / "runs" / "ks-tiny" / "sino" / f"seed-{seed}"
        assert {path.name for path in run.iterdir()} == {"config.json", "metrics.jsonl", "checkpoints", "results.json"}
        kept = {path.name for path in (run / "checkpoints").iterdir()}
        assert kept == {"last", "previous", "best", "selected", "final"}
    assert status("train", *OPTIONS, "--seeds", 1, 2) == 0
    assert "generating" not in capsys.readouterr().out


def test_a_dry_run_says_what_it_would_cost_and_writes_nothing(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments(trained.data, tmp_path / "runs", "--dry-run")) == 0
    printed = capsys.readouterr().out
    assert "sino on ks: 2 seeds on" in printed and "rollouts of 5 frames" in printed and "keeping all steps" in printed
    assert "the longest rollout runs" in printed and "for 40 updates" in printed
    assert printed.endswith("dry run: nothing was written\n")
    assert list(tmp_path.iterdir()) == []


def test_a_log_has_plain_lines_and_a_table(trained, tmp_path, quick, capsys):
    assert main(arguments(trained.data, tmp_path)) == 0
    printed = capsys.readouterr().out
    log = [line for line in printed.splitlines() if line.startswith("seed 1: update 40/40, K 5, loss ")]
    assert len(log) == 1
    for word in ("gradient ", "live 4 of 4", "steps/s", "left"):
        assert word in log[0]
    table = printed[printed.index("mean squared error over frames 11..20 (median in brackets)") :].splitlines()
    assert all(word in table[1] for word in ("training trajectories", "validation", "unseen trajectories"))
    assert table[2].startswith("coarse grid alone ")
    names = [f"seed-{seed} {weights}" for seed in (1, 2) for weights in ("final", "best", "selected")]
    assert [row[:22].strip() for row in table[3:9]] == names
    assert table[9] == f"wrote {tmp_path / 'seed-1'}, {tmp_path / 'seed-2'}"
    result = json.loads((tmp_path / "seed-1" / "results.json").read_text())
    score = result["errors"]["final"]["test"]
    assert f"{score['mean']:.3e} ({score['median']:.2e})" in table[3]
    assert score["trajectories"] == 2 and score["blown_up"] == 0
    assert set(result["chosen_at"]) == {"best", "selected"}


def test_fewer_trajectories_are_trained_and_judged_on(trained, tmp_path, quick):
    assert main(arguments(trained.data, tmp_path, "--trajectories", 1, seeds=(1,))) == 0
    run = tmp_path / "seed-1"
    assert json.loads((run / "config.json").read_text())["configuration"]["trajectories"] == 1
    errors = json.loads((run / "results.json").read_text())["errors"]["final"]
    assert [errors[judge]["trajectories"] for judge in ("paper", "validation", "test")] == [1, 2, 2]
    assert status("evaluate", run, "--data", trained.data, "--weights", "final") == 0
    scores = json.loads((run / "evaluation.json").read_text())["scores"]["final"]
    assert (scores["paper"]["seeds"], scores["test"]["seeds"]) == ([0], [6, 7])
    assert scores["paper"]["mse"]["mean"] == pytest.approx(errors["paper"]["mean"], rel=1e-3)
    with pytest.raises(AssertionError):
        assert_same_weights(run, trained.run(1), ("final",))


def test_a_trained_closure_works_on_a_grid_of_another_size(trained):
    u = jnp.sin(2 * jnp.pi * jnp.arange(48, dtype=jnp.float32) / 48)[None]
    apply = jax.jit(lambda closure, u: closure(u))
    final, best = (apply(load_closure(trained.run(2), name), u) for name in ("final", None))
    for tendency in (final, best):
        assert tendency.shape == (1, 48) and tendency.dtype == jnp.float32
        assert np.isfinite(tendency).all() and np.abs(tendency).max() > 0
    assert not np.array_equal(final, best)


@pytest.mark.parametrize(
    "given, complaint",
    [
        (("kz",), "'kz'"),
        (("ks", "--model", "simo"), "did you mean 'sino'"),
        (("ks", "--model", "smagorinsky"), "two-dimensional"),
        (("ks", "--scheme", "weno"), "is for decaying Burgers, not for ks"),
        (("ks", "--trajectories", "65"), "between 1 and 4, not 65"),
        (("ks", "--model", "hyperviscosity", "--sizes", "width", 4), "has no sizes"),
        (("ks", "--sizes", "girth", 4), "no size 'girth'"),
        (("ks", "--sizes", "width", "wide"), "wide"),
        (("ks", "--sizes", "width", -4), "width"),
        (("ks", "--seeds", 1, 2, 1), "each only once"),
        (("ks", "--batch", 0), "--batch"),
        (("ks", "--batch", -8), "--batch"),
        (("ks", "--passes", 0), "--passes"),
        (("ks", "--learning-rate", -0.1), "--learning-rate"),
        (("ks", "--learning-rate", "nan"), "--learning-rate"),
        (("ks", "--learning-rate", "inf"), "--learning-rate"),
        (("ks", "--warmup", 1), "--warmup"),
        (("ks", "--kernel-rate", -1), "--kernel-rate"),
        (("ks", "--kernel-rate", "nan"), "--kernel-rate"),
        (("ks", "--weight-decay", -1), "--weight-decay"),
        (("ks", "--clip", -1), "--clip"),
        (("ks", "--noise", -1), "--noise"),
        (("ks", "--average", 1), "--average"),
        (("ks", "--data-seed", -1), "--data-seed"),
        (("ks", "--epochs-scale", 0), "--epochs-scale"),
        (("ks", "--epochs-scale", "nan"), "--epochs-scale"),
        (("ks", "--epochs-scale", "inf"), "--epochs-scale"),
        (("ks", "--evaluate-every", 0), "--evaluate-every"),
        (("ks", "--memory", -1), "--memory"),
        (("ks", "--memory", "nan"), "--memory"),
        (("ks", "--coarse", 16), "no grid of 16"),
        (("ks", "--coarse", 0), "0"),
        (("ks", "--coarse", -8), "-8"),
        (("ks", "--stages", 0, 5), "stage"),
        (("ks", "--stages", 5, 0), "stage"),
        (("ks", "--stages", 5, -3), "stage"),
        (("ks", "--stages", 11, 1), "does not fit the training window of 10"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_sentence(trained, tmp_path, no_training, capsys, given, complaint):
    assert status("train", *given, "--preset", "tiny", "--data", trained.data, "--out", tmp_path / "runs") == 2
    told = capsys.readouterr().err
    assert told.startswith("sino: ") and told.count("\n") == 1 and complaint in told, told
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("given", [("--stages", 5), ("--seeds",), ("--precision", "half"), ("--nonsense", 1)])
def test_what_the_parser_rejects_writes_nothing(no_training, trained, tmp_path, capsys, given):
    assert status("train", "ks", *given, "--preset", "tiny", "--data", trained.data, "--out", tmp_path / "runs") == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_given_data_are_never_generated(tmp_path, capsys):
    assert main(arguments(tmp_path / "data", tmp_path / "runs")) == 2
    assert f"{tmp_path / 'data'} is not a dataset: there is no such folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_data_of_another_flow_are_refused(flow_data, tmp_path, capsys):
    assert main(arguments(flow_data, tmp_path / "runs")) == 2
    told = capsys.readouterr().err
    assert "is another dataset: " in told and "'ns-decaying' there and 'ks' here" in told
    assert told.count("\n") == 1


def test_a_folder_with_other_things_is_left_alone(trained, tmp_path, no_training, capsys):
    (tmp_path / "seed-2").mkdir()
    (tmp_path / "seed-2" / "thesis.tex").write_text("years of work")
    assert main(arguments(trained.data, tmp_path)) == 2
    assert "is not empty and holds no run" in capsys.readouterr().err
    assert everything_under(tmp_path) == {"seed-2/thesis.tex": b"years of work"}


VALUES = {float: 0.25, int: 3, bool: True}
WORDS = {
    "optimiser": "soap",
    "loss": "log",
    "gradient": "stopped",
    "windows": "random",
    "coupling": "after",
    "out_scale": "defect",
}


@pytest.mark.parametrize("name", [field.name for field in fields(Recipe) if field.name != "stages"])
def test_every_field_of_a_recipe_is_an_option(trained, name):
    option = {field.name: field for field in fields(Train)}[name]
    assert option.default is None, "not given must mean: as the schedule says"
    before = make_training_plan(Train("ks", preset="tiny", schedule="paper", data=trained.data)).recipe
    value = WORDS[name] if name in WORDS else VALUES[type(getattr(before, name))]
    assert getattr(before, name) != value
    options = Train("ks", preset="tiny", schedule="paper", data=trained.data, **{name: value})
    assert make_training_plan(options).recipe == replace(before, **{name: value})


def test_schedules_and_their_folders(trained):
    def plan(**options):
        return make_training_plan(Train("ks", preset="tiny", data=trained.data, **options))

    ours, paper = plan(), plan(schedule="paper", epochs_scale=0.1, model="fno")
    assert str(ours.out) == "runs/ks-tiny/sino" and str(paper.out) == "runs/ks-tiny/fno-paper"
    assert paper.recipe.stages == (Stage(10, 30),)
    longest = benchmark("ks", "tiny").sizes.train_frames
    assert ours.recipe.stages == tuple(Stage(min(k, longest), epochs) for k, epochs in OURS.stages)
    assert plan(stages=((5, 3), (10, 2)), epochs_scale=2.0).recipe.stages == (Stage(5, 6), Stage(10, 4))


def test_a_file_may_hold_the_options(trained, tmp_path, quick, capsys):
    file = tmp_path / "train.toml"
    file.write_text(
        f"""
        benchmark = "ks"
        preset = "tiny"
        seeds = [1, 2]
        stages = [[5, 40]]
        passes = 1
        evaluate_every = 5
        learning_rate = 0.01
        data = "{trained.data}"
        [sizes]
        width = 4
        depth = 1
        frequency_hidden = 4
        spatial_hidden = 4
        """
    )
    command = ("train", "ks", "--config", file, "--out", tmp_path / "runs", "--evaluate-every", 1)
    assert status(*command) == 0, capsys.readouterr().err
    assert_same_run(tmp_path / "runs" / "seed-1", trained.run(1))
    assert_same_run(tmp_path / "runs" / "seed-2", trained.run(2))


@pytest.mark.parametrize(
    "text, complaint",
    [
        ('colour = "blue"', "colour"),
        ("seeds = [1,", "not TOML"),
        ('batch = "many"', "batch"),
        ("stages = 5", "stages"),
        ("stages = [[5]]", "stages"),
        ('stages = [["a", "b"]]', "stages"),
        ("sizes = [4]", "sizes"),
        ("learning_rate = true", "learning_rate"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(trained, tmp_path, no_training, capsys, text, complaint):
    file = tmp_path / "train.toml"
    file.write_text(f'benchmark = "ks"\n{text}\n')
    given = ("--config", file, "--preset", "tiny", "--data", trained.data, "--out", tmp_path / "runs")
    assert status("train", "ks", *given) == 2
    told = capsys.readouterr().err
    assert complaint in told.replace("-", "_") and "Traceback" not in told
    assert not (tmp_path / "runs").exists()


def test_hyperviscosity_gets_a_coefficient_with_either_scheme(trained, tmp_path, capsys):
    coarse = {}
    for scheme in ("paper", "strong"):
        out = tmp_path / scheme
        given = ("--preset", "tiny", "--model", "hyperviscosity", "--data", trained.data, "--out", out)
        assert status("train", "ks", *given, "--scheme", scheme, "--seeds", 1, 2) == 0
        printed = capsys.readouterr().out
        coarse[scheme] = next(line for line in printed.splitlines() if line.startswith("coarse grid alone"))
        assert "hyperviscosity on ks: 39/39 rollouts" in printed and "seed-1 final" in printed
        results = [json.loads((out / f"seed-{seed}" / "results.json").read_text()) for seed in (1, 2)]
        assert results[0]["coefficient"] == results[1]["coefficient"] > 0
        assert results[0]["configuration"]["scheme"] == scheme
        closure = load_closure(out / "seed-1")
        np.testing.assert_allclose(closure.model.coefficient, results[0]["coefficient"], rtol=1e-6)
        u = jnp.sin(jnp.arange(40, dtype=jnp.float32))[None]
        assert float((u * closure(u)).sum()) < 0  # it damps
        assert status("train", "ks", *given, "--scheme", scheme) == 0
        assert "has ended already" in capsys.readouterr().out
    assert coarse["paper"] != coarse["strong"]


def test_smagorinsky_gets_a_coefficient(flow_data, tmp_path, capsys):
    given = ("--preset", "tiny", "--model", "smagorinsky", "--data", flow_data, "--out", tmp_path)
    assert status("train", "ns-decaying", *given) == 0
    result = json.loads((tmp_path / "seed-1" / "results.json").read_text())
    assert result["coefficient"] > 0 and np.isfinite(result["errors"]["final"]["test"]["mean"])
    assert "seed-1 final" in capsys.readouterr().out
    u = jnp.asarray(np.random.default_rng(0).normal(size=(2, 12, 12)), jnp.float32)
    tendency = load_closure(tmp_path / "seed-1")(u)
    assert tendency.shape == u.shape and float((u * tendency).sum()) < 0


# What one sees


def seen(update: int, lines=(), live=((3, 4), (4, 4))) -> Progress:
    step = Step(update, 2000, 1, True, 30, 1e-3, None, None)
    return Progress(step, np.array([0.125, np.nan]), np.array([2.5, np.inf]), list(live), list(lines), 600)


EVENT = {
    "kind": "event",
    "event": "went back",
    "update": 1000,
    "frames": 30,
    "trajectory": 7,
    "frame": 3,
    "rate_factor": 0.5,
    "run": 1,
}
EVALUATION = {"kind": "evaluation", "run": 0, "validation": {"mean": 1.5e-3}, "paper": {"mean": None}}


def test_the_table_on_a_terminal(monkeypatch):
    console = Console(record=True, width=140, file=io.StringIO())
    monkeypatch.setattr(live.Pace, "per_second", 1234.0)
    console.print(live._table("sino on ks", [5, 9], seen(1000), live.Pace(), [EVALUATION, {}]))
    text = console.export_text()
    assert "sino on ks: update 1,000 of 2,000" in text and "1,234 steps/s, 0.0 s left" in text
    header, five, nine = (
        next(line for line in text.splitlines() if word in line) for word in ("gradient", " 5 ", " 9 ")
    )
    for word in ("seed", "K", "loss", "live units", "validation", "paper's window"):
        assert word in header
    assert [cell.strip() for cell in five.strip("│ ").split("│")] == [
        *("5", "30", "0.125", "2.5", "3 of 4", "1.500e-03", "blew up")
    ]
    assert [cell.strip() for cell in nine.strip("│ ").split("│")][:5] == ["9", "30", "nan", "inf", "4 of 4"]


def test_a_terminal_shows_the_table_and_what_happened(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(live, "Console", lambda: Console(file=shown, force_terminal=True, width=140, color_system=None))
    with live.live_view("sino on ks", [5, 9], [], tensorboard=False) as watch:
        watch(seen(999, [EVALUATION]))
        watch(seen(1000, [EVENT], live=()))
    text = shown.getvalue()
    assert "update 1,000 of 2,000" in text and "1.500e-03" in text and "blew up" in text
    assert "seed 9 went back at update 1000: not finite in a rollout of 30 frames, trajectory of seed 7" in text


def test_a_log_shows_what_happened_at_once_and_the_rest_now_and_then(capsys, monkeypatch):
    with live.live_view("sino on ks", [5, 9], [], tensorboard=False) as watch:
        watch(seen(999, [EVALUATION]))
        assert capsys.readouterr().out == ""
        watch(seen(1000, [EVENT]))
        assert "seed 9 went back at update 1000" in capsys.readouterr().out
        monkeypatch.setattr(live, "LOG_INTERVAL", 0.0)
        watch(seen(1001, live=()))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("seed 5: update 1,001/2,000, K 30, loss 0.125, gradient 2.5, live -, ")
    assert second.startswith("seed 9: update 1,001/2,000, K 30, loss nan, gradient inf, live -, ")


def test_the_time_that_is_left_follows_the_pace(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    pace = live.Pace()
    for _ in range(16):
        now[0] += 0.125
        pace.count(seen(1000))
    assert pace.per_second == 240.0 and pace.remaining == "2.5 s"


def test_tensorboard_that_is_not_installed_is_one_sentence(trained, tmp_path, quick, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert main(arguments(trained.data, tmp_path, "--tensorboard")) == 2
    told = capsys.readouterr().err
    assert told == "sino: --tensorboard needs the extra: pip install 'sino[track]'\n"


def test_tensorboard_gets_what_the_table_shows(trained, tmp_path, quick, monkeypatch):
    written: dict[str, list] = {}

    class SummaryWriter:
        def __init__(self, folder):
            self.lines = written.setdefault(folder, [])

        def add_scalar(self, *line):
            self.lines.append(line)

        def close(self):
            self.lines.append("closed")

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=SummaryWriter))
    assert main(arguments(trained.data, tmp_path, "--tensorboard")) == 0
    assert set(written) == {os.path.join(tmp_path, f"seed-{seed}", "tensorboard") for seed in (1, 2)}
    for lines in written.values():
        assert lines[-1] == "closed"
        names = [line[0] for line in lines[:-1]]
        wanted = {"loss", "gradient norm", "rollout frames", "learning rate", "error/validation", "error/paper"}
        assert set(names) == wanted
        assert names.count("loss") == 40
