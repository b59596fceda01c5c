"""Scaling laws: how an error falls with what was spent on it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from sino.core.errors import UserError


@dataclass(frozen=True)
class PowerLaw:
    """`error = prefactor x^-exponent`, with an interval for the exponent."""

    exponent: float
    interval: tuple[float, float]
    prefactor: float

    def __call__(self, x: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The error that the law gives."""
        return self.prefactor * x**-self.exponent


def fit_power_law(x: Float[np.ndarray, " p"], error: Float[np.ndarray, " p"], level: float = 0.95) -> PowerLaw:
    """Fit `log error = log prefactor - exponent log x` by least squares.

    The interval is `exponent ± t s / sqrt(sum (log x - mean)^2)`, `s^2` the mean square residual and `t` Student's
    quantile, both with `p - 2` degrees of freedom. It covers the true exponent in the share `level` of all cases if

    - the law holds over the whole range: no floor at large `x`, no plateau at small `x`;
    - the deviations of `log error` are independent and normal, with the same spread at every `x`;
    - `x` is known exactly (parameters are; wall clock nearly so).

    Several seeds at one size are several points. They share data and sizes, so the interval speaks of other seeds on
    the same data, not of other data. Two sizes fix a line but cannot show that it is one.
    """
    if len(x) < 3 or len(np.unique(x)) < 2:
        raise UserError(f"a power law needs three points or more, at two sizes or more; there are {len(x)}")
    if not (np.isfinite(x) & np.isfinite(error) & (x > 0) & (error > 0)).all():
        raise UserError("a power law needs sizes and errors that are finite and above zero")
    log_x, log_error = np.log(x), np.log(error)
    spread = log_x - log_x.mean()
    slope = (spread * log_error).sum() / (spread**2).sum()
    residual = log_error - log_error.mean() - slope * spread
    freedom = len(x) - 2
    deviation = np.sqrt((residual**2).sum() / freedom / (spread**2).sum())
    margin = float(stdtrit(freedom, 0.5 + level / 2) * deviation)
    prefactor = float(np.exp(log_error.mean() - slope * log_x.mean()))
    return PowerLaw(float(-slope), (float(-slope - margin), float(-slope + margin)), prefactor)
