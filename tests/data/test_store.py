"""Datasets that cannot lie: what was written comes back, and damage is named."""

import json

import h5py
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.data.store import as_ranges, open_dataset, shard_file, write_manifest
from sino.data.well import Labels, Trajectories, read_labels, read_shard, write_shard


def labels(**changes):
    base = {
        "benchmark": "ks",
        "length": 64.0,
        "offsets": ((0.0,),),
        "parameters": {"viscosity": 0.1},
        "configuration": {"benchmark": "ks"},
        "provenance": {"jax": "0"},
    }
    return Labels(**base | changes)


def trajectories(seeds, components=1, n=8, frames=5):
    rng = np.random.default_rng(seeds[0])
    shape = (len(seeds), frames, components) + (n,) * components
    return Trajectories(
        frames=rng.normal(size=shape).astype(np.float32),
        seeds=tuple(seeds),
        times=2.0 + 0.1 * np.arange(frames),
        forcing={"amplitude": rng.normal(size=(len(seeds), 3))},
    )


def make_dataset(path, shards=((0, 1), (2, 3)), excluded=()):
    entries = []
    for seeds in shards:
        file = shard_file(8, seeds[0])
        digest = write_shard(path / file, trajectories(seeds), labels())
        entries.append({"file": file, "resolution": "8", "seeds": list(seeds), "sha256": digest})
    write_manifest(path, {"benchmark": "ks"}, entries, list(excluded))
    return path


@pytest.mark.parametrize("components", [1, 2])
def test_a_shard_comes_back_as_it_was(tmp_path, components):
    data = trajectories([4, 5, 9], components)
    write_shard(tmp_path / "a.h5", data, labels(offsets=((1.0, 0.5), (0.5, 1.0))[:components]))
    back = read_shard(tmp_path / "a.h5")
    np.testing.assert_array_equal(back.frames, data.frames)
    np.testing.assert_array_equal(back.times, data.times)
    np.testing.assert_array_equal(back.forcing["amplitude"], data.forcing["amplitude"])
    assert back.seeds == (4, 5, 9)


def test_non_contiguous_arrays_are_stored_right(tmp_path):
    data = trajectories([0, 1], 2)
    turned = np.asfortranarray(data.frames)
    write_shard(tmp_path / "a.h5", Trajectories(turned, data.seeds, data.times, data.forcing), labels())
    np.testing.assert_array_equal(read_shard(tmp_path / "a.h5").frames, data.frames)


@pytest.mark.parametrize("components", [1, 2])
def test_the_layout_is_the_wells(tmp_path, components):
    """What The Well's format checker asserts of a file, and our additions."""
    data = trajectories([4, 5, 9], components)
    write_shard(tmp_path / "a.h5", data, labels(offsets=((0.5,),) if components == 1 else ((1.0, 0.5), (0.5, 1.0))))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["dataset_name"] == "ks"
        assert file.attrs["grid_type"] == "cartesian"
        assert file.attrs["n_spatial_dims"] == components
        assert file.attrs["n_trajectories"] == 3
        assert [file.attrs[name] for name in file.attrs["simulation_parameters"]] == [0.1]
        axes = list(file["dimensions"].attrs["spatial_dims"])
        assert axes == ["x", "y"][:components]
        for axis in axes:
            assert file[f"dimensions/{axis}"].shape == (8,)
            assert not file[f"dimensions/{axis}"].attrs["time_varying"]
            wall = file[f"boundary_conditions/{axis}_periodic"]
            assert wall.attrs["bc_type"] == "PERIODIC"
            assert list(wall.attrs["associated_dims"]) == [axis]
            assert wall["mask"].shape == (8,)
        for order, names in enumerate((["u"], [], []) if components == 1 else ([], ["velocity"], [])):
            group = file[f"t{order}_fields"]
            assert list(group.attrs["field_names"]) == names
            for name in names:
                field = group[name]
                assert field.dtype == np.float32
                assert field.shape == (3, 5) + (8,) * components + ((2,) if components == 2 else ())
                assert field.attrs["dim_varying"].tolist() == [True] * components
                assert field.attrs["sample_varying"] and field.attrs["time_varying"]
                assert field.attrs["offset"].shape == (components, components)
        assert list(file["scalars"].attrs["field_names"]) == ["seed"]
        assert file["scalars/seed"][()].tolist() == [4, 5, 9]
        assert file["dimensions/time"][0] == 2.0


def test_loading_joins_shards_in_order_and_picks_seeds(tmp_path):
    dataset = open_dataset(make_dataset(tmp_path, shards=((2, 3), (0, 1))))
    assert dataset.seeds == [0, 1, 2, 3]
    assert dataset.resolutions == ["8"]
    assert dataset.load(8).seeds == (0, 1, 2, 3)
    picked = dataset.load("8", [3, 1])
    assert picked.seeds == (1, 3)
    np.testing.assert_array_equal(picked.frames[1], trajectories((2, 3)).frames[1])
    np.testing.assert_array_equal(picked.forcing["amplitude"][0], trajectories((0, 1)).forcing["amplitude"][1])


def test_excluded_seeds_are_known_and_never_loaded(tmp_path):
    make_dataset(tmp_path, excluded=[{"seed": 7, "reason": "not finite at frame 3"}])
    dataset = open_dataset(tmp_path)
    assert dataset.excluded == {7: "not finite at frame 3"}
    assert dataset.load(8, [3, 7]).seeds == (3,)


@pytest.mark.parametrize(
    "ask, sentence",
    [
        (lambda d: d.load(16), "holds no grid of 16; it has 8"),
        (lambda d: d.load(8, [0, 11]), "holds no trajectory of seed 11; it has 0-3"),
        (lambda d: d.load(8, []), "none of the trajectories"),
    ],
)
def test_asking_for_what_is_not_there(tmp_path, ask, sentence):
    with pytest.raises(UserError, match=sentence):
        ask(open_dataset(make_dataset(tmp_path)))


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(bytes(data))


def rewrite(path, name, change):
    with h5py.File(path, "r+") as file:
        file[name][...] = change(file[name][()])


SHARD_DAMAGE = {
    "missing": lambda p: p.unlink(),
    "empty": lambda p: p.write_bytes(b""),
    "truncated to half": lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]),
    "truncated by one byte": lambda p: p.write_bytes(p.read_bytes()[:-1]),
    "text": lambda p: p.write_text("not HDF5"),
    "flipped signature": lambda p: flip(p, 1),
    "one value": lambda p: rewrite(p, "t0_fields/u", lambda a: np.where(np.arange(a.size).reshape(a.shape) == 7, 0, a)),
    "one value not a number": lambda p: rewrite(p, "t0_fields/u", lambda a: np.where(a == a.max(), np.nan, a)),
    "another seed": lambda p: rewrite(p, "scalars/seed", lambda a: a + 1),
    "another time": lambda p: rewrite(p, "dimensions/time", lambda a: a + 1e-9),
    "another forcing": lambda p: rewrite(p, "forcing/amplitude", lambda a: -a),
    "an array taken away": lambda p: h5py.File(p, "r+").__delitem__("dimensions/time"),
    "an array added": lambda p: h5py.File(p, "r+").create_dataset("scalars/other", data=1.0),
    "swapped with another shard": lambda p: p.write_bytes(p.with_name("seed-00002.h5").read_bytes()),
}


@pytest.mark.parametrize("damage", SHARD_DAMAGE.values(), ids=SHARD_DAMAGE.keys())
def test_damage_to_a_shard_is_named(tmp_path, damage):
    path = make_dataset(tmp_path) / shard_file(8, 0)
    open_dataset(tmp_path).verify()
    damage(path)
    for read in (lambda: open_dataset(tmp_path).verify(), lambda: open_dataset(tmp_path).load(8, [0])):
        with pytest.raises(UserError, match="seed-00000.h5"):
            read()


def test_flipped_bits_anywhere_in_the_data_are_found(tmp_path):
    path = make_dataset(tmp_path) / shard_file(8, 0)
    with h5py.File(path) as file:
        start, size = file["t0_fields/u"].id.get_offset(), file["t0_fields/u"].id.get_storage_size()
    for position in np.random.default_rng(0).integers(start, start + size, 20):
        flip(path, position)
        with pytest.raises(UserError, match="seed-00000.h5"):
            open_dataset(tmp_path).verify()
        flip(path, position)
    open_dataset(tmp_path).verify()


def edit(path, change):
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


MANIFEST_DAMAGE = {
    "truncated": lambda p: p.write_text(p.read_text()[:-20]),
    "binary": lambda p: p.write_bytes(b"\xff\xfe\x00"),
    "a list": lambda p: p.write_text("[]"),
    "no shards": lambda p: edit(p, lambda m: m.pop("shards")),
    "no hash": lambda p: edit(p, lambda m: m["shards"][0].pop("sha256")),
    "no configuration": lambda p: edit(p, lambda m: m.pop("configuration")),
    "no version": lambda p: edit(p, lambda m: m.pop("format_version")),
    "a shard above the folder": lambda p: edit(p, lambda m: m["shards"][0].update(file="../x.h5")),
    "an absolute shard": lambda p: edit(p, lambda m: m["shards"][0].update(file="/etc/passwd")),
    "a newer format": lambda p: edit(p, lambda m: m.update(format_version=99)),
}


@pytest.mark.parametrize("damage", MANIFEST_DAMAGE.values(), ids=MANIFEST_DAMAGE.keys())
def test_damage_to_the_manifest_is_named(tmp_path, damage):
    damage(make_dataset(tmp_path) / "manifest.json")
    with pytest.raises(UserError, match="manifest.json"):
        open_dataset(tmp_path)


def test_a_folder_without_a_manifest_is_not_a_dataset(tmp_path):
    (make_dataset(tmp_path) / "manifest.json").unlink()
    with pytest.raises(UserError, match="not a finished dataset"):
        open_dataset(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        open_dataset(tmp_path / "nowhere")


def test_a_shard_tells_what_it_is(tmp_path):
    gone = ({"seed": 6, "reason": "not finite"},)
    digest = write_shard(tmp_path / "a.h5", trajectories([4, 5]), labels(excluded=gone, max_speed=3.5))
    told = read_labels(tmp_path / "a.h5")
    assert told == {
        "configuration": {"benchmark": "ks"},
        "provenance": {"jax": "0"},
        "excluded": [{"seed": 6, "reason": "not finite"}],
        "seeds": [4, 5],
        "sha256": digest,
        "max_speed": 3.5,
    }


def test_ranges_for_people():
    assert as_ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert as_ranges([]) == ""
