"""The log-partition function of a measure: the one nonlocal kernel of this project.

    L[mu](xi) = log Z(xi),  Z(xi) = int e^{<xi, y>} dmu(y),
    grad L[mu](xi) = int y e^{<xi, y>} dmu(y) / Z(xi),  Hess L[mu](xi) = the covariance.

The softmax mean of self-attention is grad L[rho](beta B^T x) ([A], transformer continuity
equation), its unnormalised version e^L grad L, the interaction energy int e^L drho, and the
entropic c-transform of chordal W2 is L once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pde.arguments import Array, real_array
from pde.kernels import direct

if TYPE_CHECKING:
    from pde.measure import Measure

BITS = 25  # grid of the high parts; products of two of them and their sums are exact in 53 bits
LOG2_E_HIGH = float(np.rint(np.log2(np.e) * 2.0**BITS) / 2.0**BITS)
LOG2_E_LOW = -1.0542692476429138e-08  # the rest of log2(e)


def log_partition(xi: Any, mu: Measure, tolerance: float | None = None) -> tuple[Array, Array]:
    """log Z and the mean y under the weights e^{<xi, y>} dmu(y), at many xi.

    Parameters
    ----------
    xi : (m, d) array, of any size (for SelfAttention beta B^T x)
    mu : the measure, n points in R^d
    tolerance : None for direct summation

    Returns
    -------
    log_z : (m,) log int e^{<xi, y>} dmu(y), to 1e-13 max(1, |log Z|)
    mean : (m, d) gradient of log Z, in the unit ball, to 1e-12

    Both are right also where Z lies far outside the range of float64, for masses of any size
    (zero and denormal ones among them), for xi = 0 and up to |xi| = 1e5 and beyond.

    Raises ValueError for shapes that do not fit, numbers that are not finite and a measure
    without mass.

    >>> from pde import Measure
    >>> log_z, mean = log_partition([[0.0, 1e4]], Measure([[0.0, 1.0], [0.0, -1.0]]))
    >>> log_z + np.log(2.0), mean
    (array([10000.]), array([[0., 1.]]))
    """
    zeta, sources = _prepare(xi, mu)
    n_targets, dim = zeta[0].shape
    log_z, mean = np.empty(n_targets), np.empty((n_targets, max(dim, 3)))
    if dim <= 3:
        direct.sums_3(*_padded(zeta, axis=1), *_padded(sources[:2], axis=0), sources[2],
                      log_z, mean)  # fmt: skip
    else:
        direct.sums(*zeta, *sources, log_z, mean)
    return log_z, np.ascontiguousarray(mean[:, :dim])


def log_partition_covariance(xi: Any, mu: Measure) -> tuple[Array, Array, Array]:
    """log Z (m,), mean (m, d) and covariance (m, d, d) of y under e^{<xi, y>} dmu(y) / Z(xi).

    The covariance is the second derivative of log Z in xi. Arguments and errors as for
    `log_partition`, by direct summation; its error is about 1e-12 times its trace.
    """
    log_z, mean = log_partition(xi, mu)
    zeta, sources = _prepare(xi, mu)
    covariance = np.empty((*mean.shape, mean.shape[1]))
    direct.covariances(*zeta, *sources, mean, covariance)
    return log_z, mean, covariance


def _prepare(xi: Any, mu: Measure) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
    """Targets (high, low) and sources (high, low, masses) as pde/kernels/direct.py wants them."""
    xi = real_array("xi", xi, ndim=2)
    points, weights = np.asarray(mu.points), np.asarray(mu.weights)
    if xi.shape[1] != points.shape[1]:
        raise ValueError(
            f"xi must have shape (m, {points.shape[1]}) for a measure in dimension "
            f"{points.shape[1]}, got {xi.shape}"
        )
    massive = weights > 0.0
    if not massive.any():
        raise ValueError(
            f"mu must have mass for log Z to be finite, got {len(weights)} points of total mass 0"
        )
    if not massive.all():
        points, weights = points[massive], weights[massive]
    mantissa, exponent = np.frexp(weights)
    sources = split(np.ascontiguousarray(points.T), np.zeros(1, dtype=np.int32))
    return _binary(xi), (*sources, np.stack([exponent.astype(float), mantissa]))


def split(x: Array, exponent: Array) -> tuple[Array, Array]:
    """x = high + low, exactly, with high on the grid of spacing 2^(exponent - BITS)."""
    high = np.ldexp(np.rint(np.ldexp(x, BITS - exponent)), exponent - BITS)
    return high, x - high


def _binary(xi: Array) -> tuple[Array, Array]:
    """zeta = xi log2(e) as high + low, each row's high part on a grid 2^-25 of its length."""
    length = np.abs(xi).max(axis=1, keepdims=True) * np.sqrt(xi.shape[1])  # or a little more
    exponent = np.frexp(length * LOG2_E_HIGH)[1]
    x_high, x_low = split(xi, exponent)
    product = x_high * LOG2_E_HIGH  # exact: 26 bits each
    high, low = split(product, exponent)
    return high, low + (x_high * LOG2_E_LOW + x_low * np.log2(np.e))


def _padded(parts: tuple[Array, ...], axis: int) -> list[Array]:
    """The same arrays with zeros appended along an axis up to length 3."""
    missing = 3 - parts[0].shape[axis]
    width = [(0, 0), (0, 0)]
    width[axis] = (0, missing)
    return [np.pad(part, width) for part in parts]
