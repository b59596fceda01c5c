"""SINO: all forms are one function, kernels of low rank, real output, any grid, and a start with no dead unit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sino.core.errors import UserError
from sino.core.fourier import irfft, rfft
from sino.models import build_model, count_parameters
from sino.models.generated import DenseFilter, DenseKernel, Factorised
from sino.models.hypernetwork import Hypernetwork, box, frequency_coordinates, make_live, offset_coordinates
from sino.models.prepared import HartleySINO, MergedSINO, PreparedSINO
from sino.models.sino import SINO

GRIDS = [(32,), (33,), (16, 18), (15, 16), (12, 13), (8, 6, 10)]


def double(model):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), model)


def pair(dim, key, forms=("factorised", "dense"), **sizes):
    """The same network in several forms."""
    sizes = {"width": 4, "depth": 2, "kernel": 5 if dim == 3 else 9} | sizes
    return tuple(SINO(dim, key=key, form=form, **sizes) for form in forms)


def relative(a, b):
    return float(jnp.abs(a - b).max() / jnp.abs(b).max())


def quickly(function):
    """Compile without optimising: these functions run once."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def assert_equal_in_value_and_gradient(getkey, n, forms, **sizes):
    dim = len(n)
    models = [double(model) for model in pair(dim, getkey(), forms, **sizes)]
    x, w = jax.random.normal(getkey(), (dim, *n)), jax.random.normal(getkey(), (dim, *n))

    @quickly
    def values_and_gradients(model, x):
        y, pull = jax.vjp(lambda model, x: model(x), model, x)
        return y, pull(w)

    results = [jax.tree.leaves(values_and_gradients(model, x)) for model in models]
    for mine, other in zip(*results, strict=True):
        assert relative(mine, other) < 1e-12


@pytest.mark.parametrize("n, branch", [(n, "both") for n in GRIDS] + [((32,), "frequency"), ((15, 16), "spatial")])
def test_factorised_equals_dense_in_value_and_gradient(getkey, n, branch):
    assert_equal_in_value_and_gradient(getkey, n, ("factorised", "dense"), branch=branch)


@pytest.mark.parametrize(
    "n, sizes",
    [
        ((32,), {"depth": 1}),
        ((33,), {"depth": 2}),
        ((16,), {"depth": 3}),
        ((32,), {"clip": 80.0, "depth": 3, "residual": 0.7}),
        ((33,), {"branch": "frequency", "depth": 3}),
        ((17,), {"branch": "spatial", "depth": 3}),
        ((15, 16), {"depth": 3}),
        ((8, 6, 10), {"depth": 2}),
    ],
    ids=str,
)
def test_merged_equals_dense_in_value_and_gradient(getkey, n, sizes):
    assert_equal_in_value_and_gradient(getkey, n, ("merged", "dense"), **sizes)


@pytest.mark.parametrize("n, branch", [((33,), "both"), ((15, 16), "both"), ((16,), "frequency"), ((17,), "spatial")])
def test_filters_equal_dense_in_value_and_gradient(getkey, n, branch):
    assert_equal_in_value_and_gradient(getkey, n, ("filters", "dense"), branch=branch, depth=3)


@pytest.mark.parametrize(
    "n, sizes",
    [
        ((16, 16), {"depth": 1}),
        ((9, 8), {"depth": 2}),
        ((12, 10), {"depth": 3, "residual": 0.7}),
        ((7, 9), {"branch": "frequency", "depth": 3}),
        ((8, 8), {"branch": "spatial", "depth": 3}),
        ((8, 8), {"clip": 80.0, "depth": 3}),
    ],
    ids=str,
)
def test_hartley_equals_dense_in_value_and_gradient(getkey, n, sizes):
    assert_equal_in_value_and_gradient(getkey, n, ("hartley", "dense"), **sizes)


@pytest.mark.parametrize("form, n", [("merged", (16,)), ("hartley", (8, 6))])
def test_forms_take_other_numbers_of_channels(getkey, form, n):
    key, x = getkey(), jax.random.normal(getkey(), (3, *n))
    merged, dense = map(double, pair(len(n), key, (form, "dense"), channels_in=3, channels_out=2))
    apply = quickly(lambda model, x: model(x))
    assert apply(merged, x).shape == (2, *n) and relative(apply(merged, x), apply(dense, x)) < 1e-12


def test_hartley_is_refused_where_it_cannot_be(getkey):
    with pytest.raises(UserError, match="two dimensions"):
        SINO(1, key=getkey(), width=4, depth=3, form="hartley").prepare((8,))


def test_on_an_accelerator_auto_is_hartley_in_two_dimensions(getkey, monkeypatch):
    def prepared():
        return eqx.filter_eval_shape(lambda: SINO(2, key=key, width=4, depth=3).prepare((16, 16)))

    key = getkey()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert isinstance(prepared(), HartleySINO)
    monkeypatch.setenv("SINO_FAST", "0")
    assert isinstance(prepared(), PreparedSINO)


def test_auto_is_merged_and_on_an_accelerator_filters(getkey, monkeypatch):
    key = getkey()
    prepare = lambda: eqx.filter_eval_shape(lambda: SINO(1, key=key, width=4, depth=3).prepare((16,)))  # noqa: E731
    prepared = prepare()
    assert isinstance(prepared, MergedSINO) and isinstance(prepared.middle[0].frequency, Factorised)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    (block,) = prepare().middle
    assert isinstance(block.frequency, DenseFilter) and block.frequency.kernel.shape == (8, 4, 9)
    assert block.spatial is None


@pytest.mark.parametrize("n", [(64,), (32, 32), (8, 6, 10)], ids=str)
def test_the_forms_are_equal_in_float32(getkey, n):
    forms = ("dense", "factorised", "merged", "filters") + (("hartley",) if len(n) == 2 else ())
    dense, *others = pair(len(n), getkey(), forms, width=16, depth=3)
    x = jax.random.normal(getkey(), (len(n), *n), jnp.float32)
    apply = quickly(lambda model, x: model(x))
    expected = apply(dense, x)
    for model in others:
        assert apply(model, x).dtype == jnp.float32
        assert relative(apply(model, x), expected) < 1e-5


def test_the_form_of_the_blocks_between_is_chosen_by_size(getkey):
    def forms(dim, n, **sizes):
        key = getkey()
        prepared = eqx.filter_eval_shape(lambda: SINO(dim, key=key, width=4, depth=3, **sizes).prepare(n))
        (block,) = prepared.middle
        return type(block.frequency), type(block.spatial)

    assert forms(2, (16, 16)) == (Factorised, Factorised)
    assert forms(2, (16, 16), frequency_bottleneck=32, spatial_bottleneck=48) == (DenseFilter, DenseKernel)
    assert forms(1, (16,), spatial_bottleneck=8) == (Factorised, DenseKernel)


def full_complex(block, h, n):
    """The frequency branch by a full complex transform, the filter evaluated at every signed mode."""
    dim = len(n)
    stored = np.asarray(raw_filter(block, n))
    full = np.zeros((*stored.shape[:2], *n), complex)
    for index in np.ndindex(*n):
        mirror = tuple(-i % m for i, m in zip(index, n, strict=True))
        both = []
        if index[-1] <= n[-1] // 2:
            both.append(stored[(..., *index)])
        if mirror[-1] <= n[-1] // 2:
            both.append(stored[(..., *mirror)].conj())
        full[(..., *index)] = np.mean(both, axis=0)
    axes = tuple(range(1, dim + 1))
    y = np.fft.ifftn(np.einsum("oi...,i...->o...", full, np.fft.fftn(np.asarray(h), axes=axes)), axes=axes)
    assert np.abs(y.imag).max() < 1e-12
    return y.real


def raw_filter(block, n):
    """`m(xi)` straight from the hypernetwork, without any symmetry imposed."""
    net = block.frequency
    z = net.features(jnp.asarray(frequency_coordinates(n)))
    parts = (jnp.tensordot(jnp.moveaxis(net.matrices(head), 0, -1), z, axes=1) for head in (0, 1))
    return np.asarray(jax.lax.complex(*parts)) / np.sqrt(net.matrices(0).shape[-1])


@pytest.mark.parametrize("n", [(8,), (9,), (8, 6), (7, 8), (6, 5, 4)], ids=str)
def test_the_output_is_that_of_a_full_complex_transform(getkey, n):
    """On the zero and Nyquist columns a half spectrum need not belong to a real field; libraries then disagree."""
    block = double(SINO(len(n), key=getkey(), width=4, branch="frequency")).blocks[0]
    h = jax.random.normal(getkey(), (4, *n))
    got = irfft(DenseFilter(block.frequency_filter(n))(rfft(h)), n)
    np.testing.assert_allclose(got, full_complex(block, h, n), atol=1e-12)


def test_the_filter_can_tell_positive_from_negative_wavenumbers(getkey):
    """With |k_y| as coordinate the kernel would be symmetric in y; a closure must be able to be skew."""
    xi = frequency_coordinates((8, 8))
    np.testing.assert_allclose(xi[0, :, 0], [0, 0.25, 0.5, 0.75, -1, -0.75, -0.5, -0.25])
    np.testing.assert_allclose(xi[1, 0], [-1, -0.5, 0, 0.5, 1])
    m = double(SINO(2, key=getkey(), width=4)).blocks[0].frequency_filter((8, 8))
    assert relative(m[:, :, 1, 2], m[:, :, -1, 2]) > 1e-3


@pytest.mark.parametrize("n, bottleneck", [((64,), 2), ((16, 16), 2), ((16, 16), 5)])
def test_kernels_lie_in_the_span_of_the_bottleneck_plus_one(getkey, n, bottleneck):
    sizes = {"frequency_bottleneck": bottleneck, "spatial_bottleneck": bottleneck, "width": 8}
    block = double(SINO(len(n), key=getkey(), kernel=9, **sizes)).blocks[0]
    interior = block.frequency_filter(n).reshape(64, -1, n[-1] // 2 + 1)[..., 1:-1]  # without the columns of symmetry
    for kernel in (interior, block.spatial_kernel()):
        singular = np.linalg.svd(np.asarray(kernel).reshape(64, -1), compute_uv=False)
        assert singular[bottleneck + 1] < 1e-12 * singular[0]
        assert singular[bottleneck] > 1e-4 * singular[0]


def test_the_kernel_at_twice_the_resolution_is_the_same_kernel(getkey):
    block = double(SINO(1, key=getkey(), width=4)).blocks[0]
    coarse, fine = block.frequency_filter((32,)), block.frequency_filter((64,))
    np.testing.assert_allclose(coarse[..., 1:-1], fine[..., 2:-1:2], atol=1e-13)  # equal xi = equal k/n
    block = double(SINO(2, key=getkey(), width=4)).blocks[0]
    coarse, fine = block.frequency_filter((8, 8)), block.frequency_filter((16, 16))
    np.testing.assert_allclose(coarse[..., :4, 1:-1], fine[..., 0:8:2, 2:-1:2], atol=1e-13)


@pytest.mark.parametrize("n", GRIDS, ids=str)
def test_translation_equivariance(getkey, n):
    model = double(SINO(len(n), key=getkey(), width=4, kernel=3, depth=2))
    x = jax.random.normal(getkey(), (len(n), *n))
    shift = tuple(range(1, len(n) + 1))
    axes = tuple(range(1, len(n) + 1))
    prepared = model.prepare(n)
    apply = quickly(lambda x: prepared(x))
    np.testing.assert_allclose(apply(jnp.roll(x, shift, axes)), jnp.roll(apply(x), shift, axes), atol=1e-13)


def test_a_kernel_larger_than_the_grid_wraps(getkey):
    factorised, dense = map(double, pair(1, getkey(), branch="spatial"))
    x = jax.random.normal(getkey(), (1, 4))
    by_hand = np.zeros((4, 4))
    block = factorised.blocks[0]
    h = np.asarray(factorised.lift(x))
    kernel = np.asarray(block.spatial_kernel())
    for i in range(4):
        for j in range(-4, 5):
            by_hand[:, i] += kernel[:, :, j + 4] @ h[:, (i - j) % 4]
    np.testing.assert_allclose(block.prepare((4,))(jnp.asarray(h)), np.maximum(by_hand, 0), atol=1e-13)


def test_prepare_is_the_same_function(getkey):
    model = SINO(2, key=getkey(), width=4, depth=2)
    x = jax.random.normal(getkey(), (3, 2, 12, 16), jnp.float32)
    prepared = model.prepare((12, 16))
    one_by_one = jnp.stack([model(sample) for sample in x])
    np.testing.assert_allclose(jax.vmap(prepared)(x), one_by_one, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("branch", ["frequency", "spatial"])
@pytest.mark.parametrize(
    "dim, width, kernel, depth", [(1, 4, 9, 2), (1, 32, 3, 3), (2, 8, 9, 2), (2, 32, 5, 2), (3, 6, 3, 2)]
)
def test_each_branch_keeps_the_mean_square(branch, dim, width, kernel, depth):
    """White noise in, the same mean square out, after the activation where there is one; mean over 20 networks."""
    n = {1: (64,), 2: (24, 24), 3: (12, 12, 12)}[dim]

    ratios = []
    for seed in range(8):
        model_key, noise_key = jax.random.split(jax.random.PRNGKey(seed))
        model = SINO(dim, key=model_key, width=width, kernel=kernel, depth=depth, branch=branch)
        h = jax.random.normal(noise_key, (width, *n), jnp.float32)
        ratios.append([float((block.prepare(n)(h) ** 2).mean()) for block in model.blocks])
    mean = np.mean(ratios, axis=0)
    assert ((mean > 0.75) & (mean < 1.3)).all(), mean


def dead_share(dim, initialisation, seeds=100):
    """Share of bottleneck units that are zero on the whole box, over many hypernetworks of the paper's size."""
    live = 0
    for seed in range(seeds):
        net = Hypernetwork(dim, 8 if dim == 1 else 32, 2, 4, 1, key=jax.random.PRNGKey(seed))
        if initialisation == "live":
            net = make_live(net, 1.0, box(dim), key=jax.random.PRNGKey(seed + seeds))
        live += net.live_units()
    return 1 - live / (2 * seeds)


@pytest.mark.parametrize("dim", [1, 2])
def test_no_bottleneck_unit_is_dead_at_the_start(dim):
    assert dead_share(dim, "live") == 0
    plain = dead_share(dim, "plain")
    assert 0.1 < plain < 0.7  # why the plain start is not the default


def test_live_units_are_counted(getkey):
    net = SINO(1, key=getkey()).blocks[0].frequency
    assert net.live_units() == 2
    dead = eqx.tree_at(lambda n: n.layers[2].bias, net, net.layers[2].bias.at[0].set(-1e3))
    assert dead.live_units() == 1


@pytest.mark.parametrize("branch", ["both", "frequency", "spatial"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_every_parameter_gets_a_gradient(getkey, dim, branch):
    model = double(SINO(dim, key=getkey(), width=4, depth=2, kernel=3, branch=branch))
    x, w = (jax.random.normal(getkey(), (dim, *(8,) * dim)) for _ in range(2))
    for leaf in jax.tree.leaves(quickly(jax.grad(lambda m: (w * m(x)).sum()))(model)):
        assert jnp.abs(leaf).sum() > 0


def test_the_last_block_is_linear_and_the_others_are_not(getkey):
    model = double(SINO(1, key=getkey()))
    a, b = (jax.random.normal(getkey(), (16, 32)) for _ in range(2))
    first, last = (block.prepare((32,)) for block in model.blocks)
    zero = jnp.zeros_like(a)
    for block, linear in ((last, True), (first, False)):
        defect = block(a + b) - block(a) - block(b) + block(zero)
        assert (jnp.abs(defect).max() < 1e-12) == linear


def test_clipping_limits_the_filter_and_says_how_often_it_fires(getkey):
    key = getkey()
    free, clipped = (double(SINO(1, key=key, clip=clip)).blocks[0] for clip in (None, 90.0))
    m, limited = free.frequency_filter((64,)), clipped.frequency_filter((64,))
    limit = np.percentile(np.abs(m), 90)
    assert np.abs(limited).max() <= limit * (1 + 1e-12)
    inside = np.abs(m) < limit
    np.testing.assert_array_equal(np.asarray(limited)[inside], np.asarray(m)[inside])
    assert clipped.clipped_fraction((64,)) == pytest.approx(0.1, abs=0.01)
    assert free.clipped_fraction((64,)) == 0
    assert isinstance(clipped.prepare((64,)).frequency, DenseFilter)


def test_the_start_is_small_and_the_residual_is_free(getkey):
    key = getkey()
    x = jax.random.normal(getkey(), (1, 64), jnp.float32)
    assert jnp.abs(SINO(1, key=key)(x)).max() < 0.5
    assert SINO(1, key=key).residual == 1.0 and SINO(2, key=key, width=4).residual == 0.1
    silent = SINO(1, key=key, residual=0.0)
    assert relative(silent(x), silent.out(silent.lift(x))) < 1e-5


def test_offsets_are_normalised():
    np.testing.assert_allclose(offset_coordinates(5, 1), [[-1, -0.5, 0, 0.5, 1]])
    assert offset_coordinates(3, 2).shape == (2, 3, 3)


@pytest.mark.parametrize("sizes, sentence", [({"kernel": 4}, "odd kernel"), ({"dim": 4}, "1, 2 or 3 dimensions")])
def test_wrong_sizes(getkey, sizes, sentence):
    with pytest.raises(UserError, match=sentence):
        SINO(**{"dim": 1, "key": getkey()} | sizes)


def test_counts_follow_the_formula(getkey):
    model = build_model("sino", dim=2, key=getkey(), width=8, depth=3, frequency_bottleneck=5, channels_out=3)
    hyper = 2 * 32 + 32 + 32 * 32 + 32
    frequency = hyper + 32 * 5 + 5 + 2 * (5 * 64 + 64) + 8 * 8 + 8
    spatial = hyper + 32 * 2 + 2 + (2 * 64 + 64)
    assert count_parameters(model) == (2 * 8 + 8) + 3 * (frequency + spatial + 16 * 8 + 8) + (8 * 3 + 3)
