"""Direct evaluation of the log-partition function: what pde/kernels/direct.py needs and gives.

Targets and sources are split into parts with few enough bits that their products are exact.
"""

from __future__ import annotations

import numpy as np

from pde.arguments import Array
from pde.kernels import direct

BITS = 25  # grid of the high parts; products of two of them and their sums are exact in 53 bits
LARGEST_XI = 1e15  # the integer parts of <xi, y> log2(e) are exact
LOG2_E_HIGH = float(np.rint(np.log2(np.e) * 2.0**BITS) / 2.0**BITS)
LOG2_E_LOW = -1.0542692476429138e-08  # the rest of log2(e)


def direct_sums(xi: Array, points: Array, mantissa: Array, exponent: Array) -> tuple[Array, Array]:
    """log Z (m,) and mean (m, d) for masses mantissa * 2^exponent, mantissa in [1/2, 1)."""
    n_targets, dim = xi.shape
    zeta, sources = _binary(xi), split(np.ascontiguousarray(points.T), 0)
    masses = np.stack([exponent.astype(np.float64), mantissa])
    log_z, mean = np.empty(n_targets), np.empty((n_targets, max(dim, 3)))
    if dim <= 3:
        direct.sums_3(*_padded(zeta, axis=1), *_padded(sources, axis=0), masses, log_z, mean)
    else:
        direct.sums(*zeta, *sources, masses, log_z, mean)
    return log_z, np.ascontiguousarray(mean[:, :dim])


def direct_covariance(
    xi: Array, points: Array, mantissa: Array, exponent: Array, mean: Array
) -> Array:
    """Covariance (m, d, d) around the mean (m, d) that `direct_sums` gave."""
    masses = np.stack([exponent.astype(np.float64), mantissa])
    covariance = np.empty((*mean.shape, mean.shape[1]))
    sources = split(np.ascontiguousarray(points.T), 0)
    direct.covariances(*_binary(xi), *sources, masses, mean, covariance)
    return covariance


def split(x: Array, exponent: int | np.ndarray) -> tuple[Array, Array]:
    """x = high + low, exactly, with high on the grid of spacing 2^(exponent - BITS)."""
    high = np.ldexp(np.rint(np.ldexp(x, BITS - exponent)), exponent - BITS)
    return high, x - high


def _binary(xi: Array) -> tuple[Array, Array]:
    """zeta = xi log2(e) as high + low, each row's high part on a grid 2^-25 of its length."""
    length = np.abs(xi).max(axis=1, keepdims=True)
    if length.max(initial=0.0) > LARGEST_XI:
        raise ValueError(
            f"xi must have entries up to {LARGEST_XI:g} in size, got {length.max():.3g}: beyond, "
            "rounding of xi alone decides between the points"
        )
    length = length * np.sqrt(xi.shape[1])  # or a little more
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
