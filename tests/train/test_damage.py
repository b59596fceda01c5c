"""Whatever happens to the files of a run, it is told in one sentence that names the file, and nothing is executed."""

import json
import math
import pickle
import shutil
from pathlib import Path

import equinox as eqx
import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file

from sino.cli import main
from sino.core.errors import UserError
from sino.train import checkpoint
from sino.train.run import load_closure
from tiny_training import (
    EPOCHS,
    arguments,
    arrays,
    assert_same_run,
    assert_same_weights,
    everything_under,
    lines,
)

PREVIOUS = EPOCHS - 10
TRAP = "/tmp/sino-test-trap-that-nothing-may-spring"


class Trap:
    """Unpickled, it would make a file."""

    def __reduce__(self):
        return open, (TRAP, "w")


@pytest.fixture
def runs(trained, tmp_path):
    """Two runs that were killed between their last checkpoint and their results."""
    shutil.copytree(trained.out, tmp_path / "runs")
    for seed in (1, 2):
        (tmp_path / "runs" / f"seed-{seed}" / "results.json").unlink()
    return tmp_path / "runs"


# What may happen to arrays.safetensors


def take_apart(file) -> tuple[dict, bytes]:
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def put_together(file, header, data: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def cut(place):
    def damage(file):
        raw = file.read_bytes()
        file.write_bytes(raw[: place(raw)])

    return damage


def flip(place):
    def damage(file):
        raw = bytearray(file.read_bytes())
        raw[place(raw)] ^= 4
        file.write_bytes(raw)

    return damage


def header_length(raw) -> int:
    return int.from_bytes(raw[:8], "little")


def change_header(change):
    """Change the entry of one array, which holds more than one number."""

    def damage(file):
        header, data = take_apart(file)
        name = max(header, key=lambda name: (math.prod(header[name].get("shape", ())), name))
        change(header, name)
        put_together(file, header, data)

    return damage


def set_entry(**entries):
    return change_header(lambda header, name: header[name].update(entries))


def change_arrays(change):
    def damage(file):
        header, _ = take_apart(file)
        stored = arrays(file.parent.parent.parent, file.parent.name)
        change(stored)
        file.unlink()
        save_file(stored, file)

    return damage


def swap_two_of_the_same_shape(stored) -> None:
    for name, value in stored.items():
        for other, array in stored.items():
            if name < other and value.shape == array.shape and value.size > 1 and not np.array_equal(value, array):
                stored[name], stored[other] = array, value
                return
    raise AssertionError("there are no two")


def largest(stored) -> str:
    return max(stored, key=lambda name: (stored[name].size, name))


def replace_largest(function):
    def change(stored):
        name = largest(stored)
        stored[name] = np.ascontiguousarray(function(stored[name]))

    return change_arrays(change)


def make_folder(file) -> None:
    file.unlink()
    file.mkdir()


def make_loop(file) -> None:
    file.unlink()
    file.symlink_to(file.name)


def write(content: bytes):
    return lambda file: file.write_bytes(content)


ARRAYS = {
    "missing": lambda file: file.unlink(),
    "empty": write(b""),
    "cut in the header's length": cut(lambda raw: 5),
    "cut after the header's length": cut(lambda raw: 8),
    "cut in the header": cut(lambda raw: 8 + header_length(raw) // 2),
    "cut after the header": cut(lambda raw: 8 + header_length(raw)),
    "cut in the data": cut(lambda raw: (8 + header_length(raw) + len(raw)) // 2),
    "the last byte missing": cut(lambda raw: -1),
    "a byte too many": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "a bit of the header's length": flip(lambda raw: 0),
    "a bit of a name": flip(lambda raw: 11),
    "a bit in the middle of the header": flip(lambda raw: 8 + header_length(raw) // 2),
    "a bit of the first number": flip(lambda raw: 8 + header_length(raw)),
    "a bit of the last number": flip(lambda raw: -1),
    "a huge header": lambda file: file.write_bytes((2**63).to_bytes(8, "little") + file.read_bytes()[8:]),
    "a header of a gigabyte": lambda file: file.write_bytes((10**9).to_bytes(8, "little") + file.read_bytes()[8:]),
    "a header that is not JSON": lambda file: put_together(file, b"{'lift': 1}", take_apart(file)[1]),
    "a header that is a list": lambda file: put_together(file, [1, 2], take_apart(file)[1]),
    "a header without end": lambda file: put_together(file, b"[" * 100_000, b""),
    "overlapping arrays": change_header(
        lambda header, name: [entry.update(data_offsets=[0, 16]) for entry in header.values()]
    ),
    "negative offsets": set_entry(data_offsets=[-16, 0]),
    "offsets past the end": set_entry(data_offsets=[10**9, 10**9 + 16]),
    "offsets backwards": set_entry(data_offsets=[16, 0]),
    "a shape of terabytes": set_entry(shape=[10**6, 10**6, 4]),
    "a shape that overflows": set_entry(shape=[2**62, 2**62]),
    "a negative shape": set_entry(shape=[-1, 4]),
    "an unknown dtype": set_entry(dtype="PICKLE"),
    "another dtype of the same size": set_entry(dtype="I32"),
    "a dtype that NumPy has not": change_header(
        lambda header, name: header[name].update(dtype="BF16", shape=[2 * math.prod(header[name]["shape"])])
    ),
    "a dtype of eight bits": change_header(
        lambda header, name: header[name].update(dtype="F8_E4M3", shape=[4 * math.prod(header[name]["shape"])])
    ),
    "an array missing": change_arrays(lambda stored: stored.pop(largest(stored))),
    "an array too many": change_arrays(lambda stored: stored.update(more=np.zeros(3, np.float32))),
    "double precision": replace_largest(lambda array: array.astype(np.float64)),
    "another shape": replace_largest(lambda array: array[..., :1]),
    "the same numbers in another shape": replace_largest(lambda array: array.reshape(-1, 1, 1)),
    "two arrays swapped": change_arrays(swap_two_of_the_same_shape),
    "weights not finite": replace_largest(lambda array: np.full_like(array, np.nan)),
    "weights of zero": replace_largest(np.zeros_like),
    "a pickle": write(pickle.dumps(Trap())),
    "a folder": make_folder,
    "a link to itself": make_loop,
}

# What may happen to manifest.json of a checkpoint


def change_json(change):
    def damage(file):
        value = json.loads(file.read_text())
        change(value)
        file.write_text(json.dumps(value))

    return damage


def set_key(**entries):
    return change_json(lambda value: value.update(entries))


FILES = {
    "missing": lambda file: file.unlink(),
    "empty": write(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "not JSON": write(b"format_version: 1"),
    "a list": write(b"[1, 2, 3]"),
    "a number": write(b"1"),
    "null": write(b"null"),
    "brackets without end": write(b"[" * 100_000),
    "objects without end": write(b'{"a":' * 100_000),
    "binary": write(bytes(range(256))),
    "another encoding": write(b"\xff\xfe{\x00}\x00\x00"),
    "a number without end": write(b'{"format_version": ' + b"1" * 10_000 + b"}"),
    "a pickle": write(pickle.dumps(Trap())),
    "a folder": make_folder,
    "a link to itself": make_loop,
    "a newer format": set_key(format_version=2),
    "a format that is a word": set_key(format_version="1"),
    "a format that is no number": set_key(format_version=math.nan),
    "no format": change_json(lambda value: value.pop("format_version")),
}
MANIFEST = FILES | {
    "no hash": change_json(lambda value: value.pop("sha256")),
    "another hash": set_key(sha256="0" * 64),
    "a hash that is a number": set_key(sha256=7),
    "a hash that is a list": set_key(sha256=["0" * 64]),
    "a hash that is null": set_key(sha256=None),
}
LAST = MANIFEST | {
    "no update": change_json(lambda value: value.pop("update")),
    "an update that is a word": set_key(update="last"),
    "an update that is a number in quotes": set_key(update="12"),
    "an update before the first": set_key(update=-5),
    "an update after the last": set_key(update=10**6),
    "another update": set_key(update=EPOCHS - 3),
    "an update that is no number": set_key(update=math.nan),
    "an update that is infinite": set_key(update=math.inf),
    "an update that is a list": set_key(update=[1]),
    "no tally": change_json(lambda value: value.pop("tally")),
    "a tally that is a list": set_key(tally=[]),
    "a tally with another key": change_json(lambda value: value["tally"].update(more=1)),
    "a tally of words": change_json(lambda value: value["tally"].update(train_seconds="long", chosen="best")),
}


def assert_one_sentence(complaint: str, *names) -> None:
    assert complaint.startswith("sino: ") and complaint.count("\n") == 1 and len(complaint) < 1000, complaint
    for name in names:
        assert str(name) in complaint


@pytest.fixture(autouse=True)
def nothing_is_executed():
    Path(TRAP).unlink(missing_ok=True)
    yield
    assert not Path(TRAP).exists()


@pytest.mark.parametrize("kind", ARRAYS)
def test_damaged_arrays_are_not_loaded(runs, kind):
    folder = runs / "seed-1" / "checkpoints" / "best"
    ARRAYS[kind](folder / "arrays.safetensors")
    with pytest.raises(UserError) as caught:
        load_closure(runs / "seed-1")
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_not_loaded_though_their_hash_is_right(runs):
    folder = runs / "seed-1" / "checkpoints" / "best"
    closure = eqx.tree_at(lambda c: c.model.out.bias, load_closure(runs / "seed-1"), replace_fn=lambda b: b + np.inf)
    checkpoint.save(folder, closure, {"update": 3})
    with pytest.raises(UserError, match=f"{folder} holds weights that are not finite"):
        load_closure(runs / "seed-1")


@pytest.mark.parametrize("kind", MANIFEST)
def test_a_damaged_manifest_is_not_believed(runs, kind):
    folder = runs / "seed-1" / "checkpoints" / "best"
    MANIFEST[kind](folder / "manifest.json")
    with pytest.raises(UserError) as caught:
        load_closure(runs / "seed-1")
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["a bit of the last number", "cut in the data", "missing", "two arrays swapped"])
def test_after_damage_to_the_last_arrays_one_goes_on_from_those_before(trained, runs, quick, capsys, kind):
    folder = runs / "seed-2" / "checkpoints" / "last"
    ARRAYS[kind](folder / "arrays.safetensors")
    before = everything_under(runs / "seed-2" / "checkpoints")
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, folder, "delete that folder", f"at update {PREVIOUS}")
    assert everything_under(runs / "seed-2" / "checkpoints") == before
    shutil.rmtree(folder)
    assert main(arguments(trained.data, runs)) == 0
    assert f"going on from update {PREVIOUS}" in capsys.readouterr().out
    for seed in (1, 2):
        assert_same_run(runs / f"seed-{seed}", trained.run(seed))


@pytest.mark.parametrize("kind", [kind for kind in ARRAYS if kind not in ("weights of zero", "weights not finite")])
def test_damaged_arrays_are_not_gone_on_from(trained, runs, quick, capsys, kind):
    folder = runs / "seed-2" / "checkpoints" / "last"
    ARRAYS[kind](folder / "arrays.safetensors")
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, folder, "delete that folder", f"at update {PREVIOUS}")


@pytest.mark.parametrize("kind", LAST)
def test_a_damaged_manifest_is_not_gone_on_from(trained, runs, quick, capsys, kind):
    folder = runs / "seed-2" / "checkpoints" / "last"
    LAST[kind](folder / "manifest.json")
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, folder, "delete that folder", f"at update {PREVIOUS}")


def test_when_both_checkpoints_are_damaged_one_begins_again(trained, runs, quick, capsys):
    for name in ("last", "previous"):
        (runs / "seed-2" / "checkpoints" / name / "manifest.json").write_bytes(b"{")
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, runs / "seed-2", f"delete {runs / 'seed-2'} to begin again")
    shutil.rmtree(runs / "seed-1"), shutil.rmtree(runs / "seed-2")
    assert main(arguments(trained.data, runs)) == 0
    assert_same_weights(runs / "seed-2", trained.run(2))


def test_damage_to_the_checkpoint_before_costs_no_more_than_that_one(trained, runs, quick, capsys):
    folder = runs / "seed-2" / "checkpoints" / "previous"
    (folder / "manifest.json").write_bytes(b"{")
    if main(arguments(trained.data, runs)):  # it may be ignored, or its own folder may have to be deleted
        assert_one_sentence(capsys.readouterr().err, folder, "delete that folder")
        shutil.rmtree(folder)
        assert main(arguments(trained.data, runs)) == 0
    assert_same_run(runs / "seed-2", trained.run(2))


@pytest.mark.parametrize("name", ["best", "selected"])
def test_damage_to_chosen_weights_is_named(trained, runs, quick, capsys, name):
    folder = runs / "seed-1" / "checkpoints" / name
    ARRAYS["a bit of the first number"](folder / "arrays.safetensors")
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, folder)


# What may happen to config.json

CONFIG = {
    "no configuration": change_json(lambda value: value.pop("configuration")),
    "a configuration that is a list": set_key(configuration=[]),
}


def set_option(**entries):
    return change_json(lambda value: value["configuration"].update(entries))


ASKED = {
    "another seed": (set_option(seed=7), "seed is 7 there and 1 here"),
    "another learning rate": (
        change_json(lambda value: value["configuration"]["recipe"].update(learning_rate=0.5)),
        "recipe.learning_rate is 0.5 there and 0.01 here",
    ),
    "an unknown benchmark": (set_option(benchmark="kz"), "benchmark is 'kz' there and 'ks' here"),
    "an unknown network": (set_option(model="simo"), "model is 'simo' there and 'sino' here"),
    "a recipe that is a list": (set_option(recipe=[1]), "recipe is [1] there"),
    "sizes that are a word": (set_option(sizes="small"), "sizes is 'small' there"),
    "other data": (set_option(data={"32/seed-00000.h5": "00"}), "data.32/seed-00000.h5 is '00' there"),
    "an option too many": (set_option(more=1), "more is 1 there and None here"),
    "no options": (change_json(lambda value: value["configuration"].clear()), "benchmark is None there and 'ks' here"),
}


@pytest.mark.parametrize("kind", FILES | CONFIG)
def test_a_damaged_configuration_is_named(trained, runs, quick, capsys, kind):
    file = runs / "seed-1" / "config.json"
    (FILES | CONFIG)[kind](file)
    with pytest.raises(UserError) as caught:
        load_closure(runs / "seed-1")
    assert str(runs / "seed-1") in str(caught.value) and "\n" not in str(caught.value)
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, runs / "seed-1")


@pytest.mark.parametrize("kind", ASKED)
def test_a_configuration_that_was_altered_is_another_run(trained, runs, quick, capsys, kind):
    damage, difference = ASKED[kind]
    damage(runs / "seed-1" / "config.json")
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, runs / "seed-1", difference)


@pytest.mark.parametrize(
    "option, value",
    [
        ("benchmark", "kz"),
        ("benchmark", ["ks"]),
        ("benchmark", None),
        ("benchmark", "ns-forced-re1000"),
        ("preset", "huge"),
        ("preset", 3),
        ("model", "simo"),
        ("model", 5),
        ("model", ["sino"]),
        ("model", "fno"),
        ("model", "hyperviscosity"),
        ("precision", "float99"),
        ("precision", 32),
        ("precision", "float64"),
        ("precision", "int32"),
        ("recipe", None),
        ("recipe", {}),
        ("recipe", "ours"),
        ("sizes", None),
        ("sizes", "small"),
        ("sizes", [4]),
        ("sizes", {}),
        ("sizes", {"girth": 4}),
        ("sizes", {"width": 10**6}),
        ("sizes", {"width": 10**12}),
        ("sizes", {"width": -4}),
        ("sizes", {"width": 0}),
        ("sizes", {"width": 4.5}),
        ("sizes", {"width": "wide"}),
        ("sizes", {"width": [4]}),
        ("sizes", {"width": True}),
        ("sizes", {"kernel": 10**12 + 1}),
        ("sizes", {"depth": -1}),
        ("sizes", {"dim": 2}),
        ("sizes", {"key": 0}),
    ],
)
def test_a_hostile_configuration_loads_nothing(runs, option, value):
    set_option(**{option: value})(runs / "seed-1" / "config.json")
    with pytest.raises(UserError) as caught:
        load_closure(runs / "seed-1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["benchmark", "preset", "model", "precision", "recipe", "sizes"])
def test_a_configuration_without_an_option_loads_nothing(runs, option):
    change_json(lambda value: value["configuration"].pop(option))(runs / "seed-1" / "config.json")
    with pytest.raises(UserError, match="config.json is damaged"):
        load_closure(runs / "seed-1")


def test_folders_that_are_no_runs_load_nothing(trained, runs, tmp_path):
    for path, complaint in ((tmp_path / "nowhere", "no such folder"), (tmp_path, "no config.json")):
        with pytest.raises(UserError, match=complaint):
            load_closure(path)
    with pytest.raises(UserError, match="no finished weights"):
        load_closure(runs / "seed-1", "penultimate")
    shutil.rmtree(runs / "seed-1" / "checkpoints")
    with pytest.raises(UserError, match="no finished weights"):
        load_closure(runs / "seed-1")


# What may happen to metrics.jsonl and results.json


@pytest.mark.parametrize("end", [b'{"kind": "upda', b'{"kind": "update", "update": 41', b"\xc3", b"{}"])
def test_a_last_line_that_was_cut_short_is_dropped(trained, runs, quick, end):
    file = runs / "seed-1" / "metrics.jsonl"
    file.write_bytes(file.read_bytes() + end)
    assert main(arguments(trained.data, runs)) == 0
    assert_same_run(runs / "seed-1", trained.run(1))


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"",
        b"[1]",
        b"null",
        b'"update"',
        b'{"kind": "update"}',
        b'{"update": "soon"}',
        b'{"update": Infinity}',
        b'{"update": null}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
    ids=lambda line: line[:20].decode("latin1"),
)
def test_a_damaged_line_is_named(trained, runs, quick, capsys, line):
    file = runs / "seed-1" / "metrics.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*whole[:5], line, b"\n", *whole[5:]]))
    before = file.read_bytes()
    assert main(arguments(trained.data, runs)) == 2
    assert_one_sentence(capsys.readouterr().err, file, "line 6")
    assert file.read_bytes() == before


def test_metrics_that_were_lost_are_not_missed(trained, runs, quick):
    (runs / "seed-1" / "metrics.jsonl").unlink()
    assert main(arguments(trained.data, runs)) == 0
    assert_same_weights(runs / "seed-1", trained.run(1))
    assert lines(runs / "seed-2") == lines(trained.run(2))


@pytest.mark.parametrize(
    "kind", [*(k for k in FILES if k not in ("missing", "a folder", "a link to itself")), "errors"]
)
def test_damaged_results_are_named(trained, tmp_path, quick, capsys, kind):
    shutil.copytree(trained.out, tmp_path / "runs")
    file = tmp_path / "runs" / "seed-1" / "results.json"
    (FILES | {"errors": set_key(errors={"final": {"test": 1}})})[kind](file)
    assert main(arguments(trained.data, tmp_path / "runs")) == 2
    assert_one_sentence(capsys.readouterr().err, file)


# What may happen to the data


def damage_shard(change):
    def damage(data):
        file = data / "32" / "seed-00000.h5"
        change(file)
        return file

    return damage


def damage_manifest(change):
    def damage(data):
        change(data / "manifest.json")
        return data

    return damage


def set_shard(**entries):
    return damage_manifest(change_json(lambda value: value["shards"][0].update(entries)))


DATA = {
    "a shard missing": damage_shard(lambda file: file.unlink()),
    "a shard empty": damage_shard(write(b"")),
    "a shard cut": damage_shard(cut(lambda raw: len(raw) // 2)),
    "a shard of text": damage_shard(write(b"0.1 0.2 0.3")),
    "a shard that is a pickle": damage_shard(write(pickle.dumps(Trap()))),
    "a shard that is a folder": damage_shard(make_folder),
    "a shard that is another": damage_shard(lambda file: shutil.copy(file.with_name("seed-00002.h5"), file)),
    "the validation shard missing": lambda data: (data / "32" / "seed-00004.h5").rename(data / "moved") and data,
    "a hash in the manifest": set_shard(sha256="0" * 64),
    "a hash that is a number": set_shard(sha256=5),
    "a shard outside the folder": set_shard(file="../runs/seed-1/config.json"),
    "a shard anywhere": set_shard(file="/etc/passwd"),
    "a shard without a name": set_shard(file=None),
    "seeds that are words": set_shard(seeds=["one"]),
    "seeds that are a number": set_shard(seeds=7),
    "a grid that is a number": set_shard(resolution=32),
    "another grid only": damage_manifest(
        change_json(lambda value: [shard.update(resolution="16") for shard in value["shards"]])
    ),
    "no shards": damage_manifest(set_key(shards=[])),
    "shards that are a word": damage_manifest(set_key(shards="none")),
    "no manifest": damage_manifest(lambda file: file.unlink()),
    "a manifest cut": damage_manifest(FILES["cut"]),
    "a manifest without end": damage_manifest(FILES["brackets without end"]),
    "a manifest in binary": damage_manifest(FILES["binary"]),
    "a manifest that is a list": damage_manifest(FILES["a list"]),
    "a newer format": damage_manifest(set_key(format_version=99)),
    "no configuration": damage_manifest(change_json(lambda value: value.pop("configuration"))),
    "another flow": damage_manifest(change_json(lambda value: value["configuration"].update(benchmark="burgers"))),
    "fewer frames": damage_manifest(change_json(lambda value: value["configuration"].update(frames=10))),
    "excluded words": damage_manifest(set_key(excluded="none")),
    "no such folder": lambda data: shutil.rmtree(data) or data,
}


def flipped_number(file) -> None:
    """Flip a bit of a stored number: the file is whole, its content is not."""
    raw = bytearray(file.read_bytes())
    with h5py.File(file) as opened:
        at = opened["t0_fields/u"].id.get_offset()
    raw[at + 5] ^= 1
    file.write_bytes(raw)


DATA["a bit of a number"] = damage_shard(flipped_number)


@pytest.mark.parametrize("kind", DATA)
def test_damaged_data_are_named_before_anything_is_written(trained, tmp_path, capsys, kind):
    shutil.copytree(trained.data, tmp_path / "data")
    named = DATA[kind](tmp_path / "data")
    assert main(arguments(tmp_path / "data", tmp_path / "runs")) == 2
    assert_one_sentence(capsys.readouterr().err, named)
    assert not (tmp_path / "runs").exists()


def test_data_that_were_made_anew_in_another_way_are_not_gone_on_with(trained, runs, tmp_path, capsys):
    again = ["generate", "ks", "--preset", "tiny", "--precision", "float32", "--out", str(tmp_path / "data")]
    assert main(again) == 0
    capsys.readouterr()
    before = everything_under(runs)
    assert main(arguments(tmp_path / "data", runs)) == 2
    assert_one_sentence(capsys.readouterr().err, runs / "seed-1", "data.32/seed-00000.h5 is ")
    assert everything_under(runs) == before
