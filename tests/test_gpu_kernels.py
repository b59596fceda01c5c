"""Every kernel for GPUs translates to Triton: what there is no GPU to run, a machine without one can still refuse."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from sino.core.grid import Grid
from sino.core.hartley import transform
from sino.models.factors import Factors, Term, factor_kernel
from sino.models.mode_kernels import correlate_kernel, mix_kernel
from sino.physics.staggered import advanced_by_kernel
from sino.physics.transport import by_kernel

GPU = jax.sharding.AbstractDevice("NVIDIA H200", num_cores=132, platform="gpu")
N, BATCH, WIDTH, ORBITS = (64, 64), 8, 32, 33 * 33
FINE = Grid((512, 512), (6.28, 6.28))
TERMS = (Term(0, 0, (0, 3)), Term(0, 0, (1, 2)), Term(0, 1, (0, 1, 2, 3)))


def array(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def factors(fields, matrices, h):
    return factor_kernel(Factors(fields, matrices, TERMS), h)


KERNELS = {
    "Hartley": (transform, array(WIDTH, *N)),
    "Hartley, few channels": (transform, array(2, *N)),
    "Hartley, activated": (lambda x, bias: transform(x, bias=bias), array(WIDTH, *N), array(WIDTH)),
    "Hartley, masked": (lambda x, mask: transform(x, mask=mask), array(WIDTH, *N), array(WIDTH, *N)),
    "Hartley, added": (lambda x, onto: transform(x, onto=onto), array(WIDTH, *N), array(WIDTH, *N)),
    "modes": (mix_kernel, array(BATCH, WIDTH, *N), array(2, 2, 2 * WIDTH, WIDTH, ORBITS)),
    "modes, few of the result": (mix_kernel, array(BATCH, WIDTH, *N), array(2, 2, 2, WIDTH, ORBITS)),
    "modes, few inputs": (mix_kernel, array(BATCH, 2, *N), array(2, 2, WIDTH, 2, ORBITS)),
    "modes, back": (
        partial(mix_kernel, transposed=True),
        array(BATCH, 2 * WIDTH, *N),
        array(2, 2, 2 * WIDTH, 2, ORBITS),
    ),
    "gradient of modes": (correlate_kernel, array(320, WIDTH, *N), array(320, 2 * WIDTH, *N)),
    "factors": (factors, array(3, 4, *N), array(3, WIDTH, WIDTH), array(WIDTH, *N)),
    "convection": (partial(by_kernel, grid=FINE, dt=1e-3, viscosity=1e-3), array(2, *FINE.n)),
    "end of a step": (
        partial(advanced_by_kernel, grid=FINE),
        *(array(2, *FINE.n), array(*FINE.n), array(2, 1, 1)),
    ),
}


# From jax 0.12 on; the bounds of the dependencies keep to versions that have it.
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits allowed"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_translates(name, wide, monkeypatch):
    monkeypatch.setattr("sino.core.fast.kernels", lambda dtype: True)
    kernel, *arguments = KERNELS[name]
    mesh = jax.sharding.AbstractMesh((1,), ("any",), abstract_device=GPU)
    with jax.enable_x64(wide), jax.sharding.use_abstract_mesh(mesh):
        text = (
            jax.jit(jax.vmap(kernel))
            .trace(*(array(1, *a.shape) for a in arguments))
            .lower(lowering_platforms=("cuda",))
        )
    assert "triton" in text.as_text()
