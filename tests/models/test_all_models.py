"""What holds for every network: counts, gradients, blocks that matter, files, golden values."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.core.files import load_arrays, named_leaves, save_arrays
from sino.models import MODELS, PAPER_COUNTS, build_model, count_parameters, model_sizes

GOLDEN = Path(__file__).parent / "golden.json"
GRIDS = {1: (32,), 2: (16, 24)}
EVERY = [(name, dim) for name in MODELS for dim in (1, 2)]


@pytest.fixture(scope="module")
def networks():
    """Each network once, compiled as one program and at the paper's size."""
    made = {}

    def get(name, dim):
        if (name, dim) not in made:
            made[name, dim] = build(name, dim)
        return made[name, dim]

    return get


def build(name, dim, **sizes):
    return build_model(name, dim=dim, key=jax.random.PRNGKey(7), **sizes)


def field(dim, channels=None):
    """A smooth, asymmetric field: the same on every machine."""
    axes = np.meshgrid(*(2 * np.pi * np.arange(m) / m for m in GRIDS[dim]), indexing="ij")
    waves = [np.sin((c + 1) * sum(axes) + c) + 0.3 * np.cos(3 * axes[0] - c) for c in range(channels or dim)]
    return jnp.asarray(np.stack(waves), jnp.float32)


def quickly(function):
    """Compile without optimising: these functions run once or twice."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@pytest.mark.parametrize("name, dim", EVERY)
def test_the_count_is_the_papers(name, dim):
    shapes = eqx.filter_eval_shape(lambda: build(name, dim))
    assert count_parameters(shapes) == PAPER_COUNTS[name][dim - 1]


@pytest.mark.parametrize("name, dim", EVERY)
def test_shapes_gradients_and_blocks(networks, name, dim):
    """One sample in, one out; every parameter gets a gradient; leaving out any block changes the output."""
    model = networks(name, dim)
    x = field(dim)
    w = jax.random.normal(jax.random.PRNGKey(1), x.shape, jnp.float32)

    @quickly
    def run(model):
        y, pull = jax.vjp(lambda model: model(x), model)
        return y, pull(w)[0]

    y, gradient = run(model)
    assert y.shape == x.shape and y.dtype == jnp.float32
    assert jnp.isfinite(y).all() and jnp.abs(y).max() > 0
    for path, leaf in named_leaves(gradient).items():
        assert jnp.abs(leaf).sum() > 0, f"{path} gets no gradient"
    leaves = named_leaves(model)
    for block in {".".join(path.split(".")[:2]) for path in leaves if ".0." in path or ".1." in path}:
        silenced = [jnp.zeros_like(leaf) if path.startswith(f"{block}.") else leaf for path, leaf in leaves.items()]
        without, _ = run(jax.tree.unflatten(jax.tree.structure(model), silenced))
        assert jnp.abs(without - y).max() > 1e-6 * jnp.abs(y).max(), f"{block} does nothing"


@pytest.mark.parametrize("name", MODELS)
def test_batches_by_vmap_and_unequal_channels(name):
    model = build(name, 1, channels_in=3, channels_out=2)
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 3, 32), jnp.float32)
    batch = quickly(jax.vmap(model))(x)
    assert batch.shape == (2, 2, 32)
    np.testing.assert_allclose(batch[1], quickly(lambda x: model(x))(x[1]), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name, dim", EVERY)
def test_saved_and_loaded_it_is_the_same_bit_for_bit(networks, tmp_path, name, dim):
    model = networks(name, dim)
    save_arrays(tmp_path / "weights.safetensors", model)
    back = load_arrays(tmp_path / "weights.safetensors", eqx.filter_eval_shape(lambda: build(name, dim)))
    assert jax.tree.structure(back) == jax.tree.structure(model)
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(back), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name, dim", EVERY)
def test_golden_values(networks, name, dim):
    """A fixed key gives the same network, and the same output to 1e-4, whatever the version of JAX."""
    model = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), networks(name, dim))
    x = field(dim).astype(jnp.float64)
    y = np.asarray(quickly(lambda model, x: model(x))(model, x)).ravel()
    golden = json.loads(GOLDEN.read_text())[f"{name}-{dim}d"]
    picked = y[[0, len(y) // 3, -1]].tolist() + [float(np.sqrt(np.mean(y**2)))]
    np.testing.assert_allclose(picked, golden, rtol=1e-4, atol=1e-4 * golden[-1])


def test_non_contiguous_arrays_and_odd_shapes_survive(tmp_path):
    tree = {"a": np.arange(12.0).reshape(3, 4).T, "b": (np.float32(3.0) * np.ones(()), jnp.zeros((0, 2)))}
    save_arrays(tmp_path / "x.safetensors", tree)
    back = load_arrays(tmp_path / "x.safetensors", tree)
    np.testing.assert_array_equal(back["a"], tree["a"])
    assert back["b"][0].shape == () and back["b"][1].shape == (0, 2)


def test_files_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    save_arrays(path, {"a": np.zeros(3), "b": np.zeros(2)})
    for like, sentence in (
        ({"a": np.zeros(3)}, "unknown"),
        ({"a": np.zeros(3), "b": np.zeros(2), "c": np.zeros(1)}, "missing"),
        ({"a": np.zeros(3), "b": np.zeros(3)}, r"b is float64\[2\], not float64\[3\]"),
        ({"a": np.zeros(3, np.float32), "b": np.zeros(2)}, "not float32"),
    ):
        with pytest.raises(UserError, match=sentence):
            load_arrays(path, like)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="not a whole safetensors file"):
        load_arrays(path, {"a": np.zeros(3), "b": np.zeros(2)})
    with pytest.raises(UserError, match="cannot read"):
        load_arrays(tmp_path / "nowhere", {})


def test_unknown_names_and_sizes_get_a_sentence():
    with pytest.raises(UserError, match="did you mean 'unet'"):
        build("u-net", 1)
    with pytest.raises(UserError, match="sino has no size 'widht'; its sizes are .*width"):
        build("sino", 1, widht=3)
    assert "branch" not in model_sizes("sino-spe") and "branch" in model_sizes("sino")
    for name in MODELS:
        with pytest.raises(UserError):
            build(name, 4)


def test_the_list_shows_both_columns(capsys):
    from sino.cli.listing import list_models

    list_models()
    printed = capsys.readouterr().out
    for name, counts in PAPER_COUNTS.items():
        line = next(line.split() for line in printed.splitlines() if line.split()[0] == name)
        assert line[1:] == [f"{count:,}" for count in counts for _ in range(2)]
