"""Random initial states and forcings, one per seed.

Each is drawn from `jax.random.PRNGKey(seed)` with 64-bit numbers (the velocity fields with 32-bit ones) whatever the
working precision, so a seed names the same flow everywhere. They run on the host, one seed at a time, and return NumPy.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sino.core.fourier import irfft, rfft
from sino.core.grid import Grid
from sino.physics.forcing import SineForcing
from sino.physics.staggered import project


def zero(seed: int, grid: Grid) -> Float[np.ndarray, "1 n"]:
    """A state at rest."""
    return np.zeros((1, *grid.n))


def sine_modes(seed: int, grid: Grid) -> Float[np.ndarray, "1 n"]:
    """`sum_i A_i sin(2 pi l_i x / length + phi_i)`: ten modes, `A` in (-1/2, 1/2), `l` in {1, 2, 3}, at `x = i dx`."""
    with jax.enable_x64(True):
        amplitude_key, phase_key, mode_key = jax.random.split(jax.random.PRNGKey(seed), 3)
        amplitude = jax.random.uniform(amplitude_key, (10,), minval=-0.5, maxval=0.5)
        phase = jax.random.uniform(phase_key, (10,), maxval=2 * np.pi)
        mode = jax.random.randint(mode_key, (10,), 1, 4)
        amplitude, phase, mode = np.asarray(amplitude), np.asarray(phase), np.asarray(mode)
    x = 2 * np.pi * grid.axis(0) / grid.length[0]
    return (amplitude[:, None] * np.sin(mode[:, None] * x[None, :] + phase[:, None])).sum(axis=0, keepdims=True)


def random_phases(seed: int, grid: Grid, peak: float = 10.0) -> Float[np.ndarray, "1 n"]:
    """Broadband field with energy `E(k) = 2/(3 sqrt(pi)) peak^-5 k^4 exp(-(k/peak)^2)` and random phases at `i dx`.

    `u = sum_{k=1}^{n/2-1} 2 sqrt(2 E(k)) cos(kx + phi_k)` on a box of length 2 pi: standard deviation about 1.
    Maulik & San, J. Turbul. 19 (2018), 1, whose FFT factor is written out here.
    """
    (n,) = grid.n
    count = n // 2 - 1
    with jax.enable_x64(True):
        phase = np.asarray(jax.random.uniform(jax.random.PRNGKey(seed), (count,), maxval=2 * np.pi))
    k = np.arange(1, count + 1)
    energy = 2 / (3 * np.sqrt(np.pi)) * peak**-5.0 * k**4 * np.exp(-((k / peak) ** 2))
    spectrum = np.zeros(n // 2 + 1, complex)
    spectrum[1 : count + 1] = n * np.sqrt(2 * energy) * np.exp(1j * phase)
    return np.fft.irfft(spectrum, n)[None]


def sine_forcing(seed: int, length: float, cell_average: bool = False) -> SineForcing:
    """Twenty travelling waves: `A` in (-1/2, 1/2), `omega` in (-2/5, 2/5), `l` in {3, 4, 5, 6}, any phase."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.PRNGKey(seed), 4)
        draws = (
            jax.random.uniform(keys[0], (20,), minval=-0.5, maxval=0.5),
            jax.random.uniform(keys[1], (20,), minval=-0.4, maxval=0.4),
            jax.random.randint(keys[2], (20,), 3, 7).astype(float),
            jax.random.uniform(keys[3], (20,), maxval=2 * np.pi),
        )
        return SineForcing(*(np.asarray(d) for d in draws), length=length, cell_average=cell_average)


def filtered_velocity(seed: int, grid: Grid, max_speed: float, peak: float = 3.0) -> Float[np.ndarray, "2 x y"]:
    """White noise filtered to a log-normal band around `|k| = peak`, projected, with a given largest speed.

    The filter is `p(k)/k`, `p(k) = exp(-(ln peak + 1/4 - ln k)^2 / (1/2)) / k`. Projecting and scaling are done
    three times, in float32.
    """
    keys = jax.random.split(jax.random.PRNGKey(seed))
    noise = jnp.stack([jax.random.normal(key, grid.n, jnp.float32) for key in keys])
    k = np.sqrt(sum(component**2 for component in grid.wavenumbers()))
    k[0, 0] = 1.0
    band = np.exp(-((np.log(peak) + 0.25 - np.log(k)) ** 2) / 0.5 - 2 * np.log(k))
    band[0, 0] = 0.0
    v = irfft(rfft(noise) * jnp.asarray(band, jnp.complex64)[None], grid.n)
    for _ in range(3):
        v = project(v, grid)
        v = v * (max_speed / jnp.sqrt((v**2).sum(axis=0)).max())
    return np.asarray(v)
