"""Measures multiplied by e^a for exponents a(y) of any size: e^{-beta J} mu at any beta.

    L(xi) = log int e^{<xi,y> + a(y)} dmu(y),   grad L(xi) the mean y under these weights.

Exponents are shifted by their maximum over the points with mass, and what underflows is dropped:
it is nothing beside the largest term. With xi the largest term depends on xi, so only points are
dropped that no xi in question can lift; where the rest needs more than the range of float64, masses
are passed to the direct sums as mantissas and exponents.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pde.arguments import Array, real_array
from pde.measure import Measure
from pde.partition.direct import direct_covariance, direct_sums
from pde.partition.softmax import log_partition

UNDERFLOW = 745.2
"""e^{-a} is 0 in float64 for larger a."""

NORMAL = 690.0
"""e^{-a} keeps its full accuracy, with room for sums, for smaller a."""


def tilted(mu: Measure, exponents: Array) -> Measure:
    """The probability measure e^a mu / int e^a dmu, on the points that are left with mass.

    exponents : (n,) values of a at the points of mu, of any size; -inf stands for no mass

    Raises ValueError for shapes that do not fit, NaN, and where no point has mass.

    >>> tilted(Measure([[1.0, 0.0], [0.0, 1.0]]), np.array([5000.0, 5000.0 + np.log(3.0)])).weights
    array([0.25, 0.75])
    """
    held, a = _held(mu, exponents)
    weights = mu.weights[held] * np.exp(a[held] - a[held].max())
    kept = weights > 0.0
    return Measure(mu.points[held][kept], weights[kept] / weights.sum())


def tilted_log_partition(
    xi: Array, mu: Measure, exponents: Array, tolerance: float | None = None
) -> tuple[Array, Array]:
    """L(xi) (m,) and its gradient (m, d), the mean; see the module's docstring.

    xi : (m, d); exponents : (n,); tolerance : as for `log_partition`, where the masses e^a mu
    are within the range of float64; otherwise the sums are direct
    """
    plain = _plain(xi, mu, exponents)
    if plain is not None:
        scaled, shift = plain
        log_z, mean = log_partition(xi, scaled, tolerance)
        return log_z + shift, mean
    points, mantissa, exponent, shift = _binary(xi, mu, exponents)
    log_z, mean = direct_sums(xi, points, mantissa, exponent)
    return log_z + shift, mean


def tilted_covariance(xi: Array, mu: Measure, exponents: Array) -> tuple[Array, Array]:
    """Mean (m, d) and covariance (m, d, d) of y under e^{<xi,y> + a(y)} mu, by direct sums."""
    points, mantissa, exponent, _ = _binary(xi, mu, exponents)
    _, mean = direct_sums(xi, points, mantissa, exponent)
    return mean, direct_covariance(xi, points, mantissa, exponent, mean)


def _held(mu: Measure, exponents: Array) -> tuple[NDArray[np.bool_], Array]:
    """Which points have mass after all, (n,), and the exponents, checked."""
    a = real_array("exponents", exponents, ndim=1, finite=False)
    if len(a) != mu.n or np.isnan(a).any() or (a == np.inf).any():
        raise ValueError(
            f"exponents must be {mu.n} numbers below infinity, one for each point of mu, "
            f"got shape {a.shape} with largest {a.max(initial=-np.inf)}"
        )
    held = (mu.weights > 0.0) & (a > -np.inf)
    if not held.any():
        raise ValueError(f"mu must have mass to be multiplied by e^a, got total {mu.total:.6g}")
    return held, a


def _relevant(xi: Array, mu: Measure, exponents: Array) -> tuple[NDArray[np.bool_], Array]:
    """Which points count at any xi, (n,), and log(weight) + a, (n,)."""
    held, a = _held(mu, exponents)
    logs = np.full(mu.n, -np.inf)
    logs[held] = np.log(mu.weights[held]) + a[held]
    # <xi,y> varies by at most 2 |xi| over the sphere.
    reach = 2.0 * float(np.sqrt(np.max(np.einsum("md,md->m", xi, xi), initial=0.0)))
    return logs >= logs.max() - (reach + UNDERFLOW), logs


def _plain(xi: Array, mu: Measure, exponents: Array) -> tuple[Measure, float] | None:
    """(e^{a - shift} mu, shift) on the relevant points, or None where float64 cannot hold it."""
    kept, logs = _relevant(xi, mu, exponents)
    a = exponents[kept]
    shift = float(a.max())
    if logs[kept].min() - shift < -NORMAL:
        return None
    return Measure(mu.points[kept], mu.weights[kept] * np.exp(a - shift)), shift


def _binary(xi: Array, mu: Measure, exponents: Array) -> tuple[Array, Array, NDArray, float]:
    """(points, mantissas, exponents, shift): masses e^shift mantissa 2^exponent."""
    plain = _plain(xi, mu, exponents)
    if plain is not None:
        scaled, shift = plain
        return scaled.points, *np.frexp(scaled.weights), shift
    kept, logs = _relevant(xi, mu, exponents)
    shift = float(logs[kept].max())
    binary = (logs[kept] - shift) * np.log2(math.e)
    exponent = np.floor(binary) + 1.0
    return mu.points[kept], np.exp2(binary - exponent), exponent.astype(np.int64), shift
