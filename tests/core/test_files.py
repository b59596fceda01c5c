import json

import numpy as np
import pytest

from sino.core.files import hash_arrays, write_atomically, write_json


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})

    def fail(temporary):
        temporary.write_text("half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_atomically(path, fail)
    assert json.loads(path.read_text()) == {"x": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_the_hash_sees_names_values_dtypes_and_shapes_but_not_layout():
    a = np.arange(6.0).reshape(2, 3)
    base = hash_arrays({"a": a, "b": a})
    assert base == hash_arrays({"b": np.asfortranarray(a), "a": a[::1]})
    changed = a.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], 10)
    for other in ({"a": a, "c": a}, {"a": changed, "b": a}, {"a": a.astype(np.float32), "b": a}, {"a": a.T, "b": a}):
        assert hash_arrays(other) != base
