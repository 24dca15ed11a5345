"""The log-partition function of a measure: the one nonlocal kernel of this project.

    L[mu](xi) = log Z(xi),  Z(xi) = int e^{<xi, y>} dmu(y),
    grad L[mu](xi) = int y e^{<xi, y>} dmu(y) / Z(xi),  Hess L[mu](xi) = the covariance.

The softmax mean of self-attention is grad L[rho](beta B^T x) (Rigollet, arXiv:2512.01868; Alcalde,
Bungert, Riedl and Roith, arXiv:2605.10931), its unnormalised version e^L grad L, the interaction
energy int e^L drho, and the entropic c-transform of chordal W2 is L once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshes.geometry import dot
from meshes.quadrature import gauss_legendre
from pde.arguments import Array, below_one, instance, real_array
from pde.measure import Measure
from pde.partition.direct import direct_covariance, direct_sums
from pde.partition.fast import fast_log_partition

SMALL_XI = 1e-2
"""Entries of xi up to which `log_ratio` integrates."""


def log_partition(xi: Any, mu: Measure, tolerance: float | None = None) -> tuple[Array, Array]:
    """log Z and the mean y under the weights e^{<xi, y>} dmu(y), at many xi.

    Parameters
    ----------
    xi : (m, d) array, of any size (for SelfAttention beta B^T x)
    mu : the measure, n points on the unit sphere of R^d
    tolerance : relative error of Z that is allowed, > 0 and < 1; None: direct sums, to rounding.
        For d = 2, 3 the cost is then O(m + n) instead of O(m n), where that is less.

    Returns
    -------
    log_z : (m,) log int e^{<xi, y>} dmu(y), to 1e-13 max(1, |log Z|), or to the tolerance
    mean : (m, d) gradient of log Z, in the unit ball, to 1e-12, or to 3 times the tolerance

    Both are right also where Z lies far outside the range of float64, for masses of any size
    (zero and denormal ones among them), for xi = 0 and up to |xi| = 1e5 and beyond. The error
    bound is derived in pde/partition/fast.py.

    Raises ValueError for shapes that do not fit, numbers that are not finite and a measure
    without mass.

    >>> from pde import Measure
    >>> log_z, mean = log_partition([[0.0, 1e4]], Measure([[0.0, 1.0], [0.0, -1.0]]))
    >>> log_z + np.log(2.0), mean
    (array([10000.]), array([[0., 1.]]))
    """
    if tolerance is not None:
        tolerance = below_one("tolerance", tolerance)
    xi, points, weights = _arguments(xi, mu)
    if tolerance is not None and points.shape[1] <= 3 and len(xi):
        result = fast_log_partition(xi, points, weights, tolerance)
        if result is not None:
            return result
    return direct_sums(xi, points, *np.frexp(weights))


def log_partition_covariance(xi: Any, mu: Measure) -> tuple[Array, Array, Array]:
    """log Z (m,), mean (m, d) and covariance (m, d, d) of y under e^{<xi, y>} dmu(y) / Z(xi).

    The covariance is the second derivative of log Z in xi. Arguments and errors as for
    `log_partition`, by direct summation; its error is about 1e-12 times its trace.
    """
    xi, points, weights = _arguments(xi, mu)
    masses = np.frexp(weights)
    log_z, mean = direct_sums(xi, points, *masses)
    return log_z, mean, direct_covariance(xi, points, *masses, mean)


def log_ratio(xi: Array, solve: Callable[[Array], tuple[Array, Array]], log_total: float) -> Array:
    """(m,) L(xi) - L(0) at xi (m, d), to its own accuracy also where xi is small.

    solve : xi -> (L(xi), grad L(xi)), with L(0) = log_total

    Near 0 the difference would be rounding: there it is int_0^1 <xi, grad L(s xi)> ds by three
    Gauss points, to 1e-6 |xi|^7.
    """
    if np.abs(xi).max(initial=0.0) > SMALL_XI:
        return solve(xi)[0] - log_total
    nodes, weights = gauss_legendre(3)
    ratio = np.zeros(len(xi))
    for node, weight in zip(nodes, weights, strict=True):
        ratio += 0.5 * weight * dot(xi, solve(0.5 * (1.0 + node) * xi)[1])
    return ratio


def _arguments(xi: Any, mu: Measure) -> tuple[Array, Array, Array]:
    """xi, and the points and weights of the points with mass."""
    instance("mu", mu, Measure)
    xi = real_array("xi", xi, ndim=2)
    points, weights = mu.points, mu.weights
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
    return xi, points, weights
