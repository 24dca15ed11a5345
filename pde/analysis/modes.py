"""Modes of kernel densities on the sphere: where attention to a fixed cloud comes to rest.

The Gaussian kernel density of a measure, of variance 1/beta and read on the sphere, is up to a
factor the mixture of von Mises-Fisher laws f(x) = int e^{beta <x,y>} dmu(y) = e^{L(beta x)}, and
with m(x) = grad L(beta x)

    (1/beta) P_x grad log f = P_x m,

the velocity of self-attention with Q = K = V = I (Rigollet, arXiv:2512.01868). Mean shift climbs f
by x <- m/|m| (Cheng, IEEE PAMI 17, 1995; on the sphere Kobayashi and Otsu, ICPR 2010). Its steps
never lower f, but close to a flat mode they become small; Newton steps then take over:

    Hess log f = beta^2 P_x Cov P_x - beta <x,m> P_x,   Cov the covariance of y under the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshes.geometry import dot, norm, tangent_projection, unit
from pde.arguments import Array, instance, positive, unit_points
from pde.measure import Measure
from pde.partition.softmax import log_partition, log_partition_covariance

SHIFTS = 4000
"""Mean-shift steps, at most."""

SMALL = 1e-5
"""Length of a step from which Newton takes over."""

NEWTON_STEPS = 30
RESIDUAL = 1e-11
"""|P_x m| of a point at rest."""


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes of a kernel density, the highest first, and which start leads where.

    centers : (k, d) unit vectors
    log_density : (k,) log int e^{beta <x,y>} dmu(y) at the centers
    curvature : (k,) largest eigenvalue of Hess log f / beta in the tangent space, < 0
    residual : (k,) |P_x m|, 0 at a stationary point
    reached : (s,) index of the mode that each start leads to; -1 where it came to rest at none
    """

    centers: Array
    log_density: Array
    curvature: Array
    residual: Array
    reached: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.centers)


def find_modes(mu: Measure, beta: float, starts: Any = None, apart: float = 1e-4) -> Modes:
    """The modes of f(x) = int e^{beta <x,y>} dmu(y) on the sphere that mean shift reaches.

    beta : > 0, the kernel's variance is 1/beta
    starts : (s, d) unit points; None: the points of mu with mass
    apart : ends of searches within this angle, in radians, are one mode

    Raises ValueError for beta <= 0 and for starts that do not fit.

    >>> modes = find_modes(Measure([[1.0, 0.0], [0.0, 1.0]]), beta=8.0)
    >>> len(modes), modes.reached
    (2, array([0, 1]))
    """
    instance("mu", mu, Measure)
    beta, apart = positive("beta", beta), positive("apart", apart)
    if starts is None:
        starts = mu.points[mu.weights > 0.0]
    x = _shifted(mu, beta, unit_points("starts", starts, mu.dim))
    place, labels = _distinct(x, apart)
    for _ in range(NEWTON_STEPS):
        place, length = _newton_step(mu, beta, place)
        if length < RESIDUAL:
            break
    place, merged = _distinct(place, apart)
    log_f, residual, curvature = _at_rest(mu, beta, place)
    is_mode = (residual < RESIDUAL) & (curvature < 0.0)
    order = np.argsort(-log_f, kind="stable")
    order = order[is_mode[order]]
    number = np.full(len(place), -1)
    number[order] = np.arange(len(order))
    return Modes(
        place[order], log_f[order], curvature[order], residual[order], number[merged[labels]]
    )


def _shifted(mu: Measure, beta: float, x: Array) -> Array:
    """x <- m/|m| for each point until its step is small."""
    x = x.copy()
    moving = np.arange(len(x))
    for _ in range(SHIFTS):
        if not len(moving):
            break
        _, m = log_partition(beta * x[moving], mu)
        # Where all pulls cancel there is no direction, and the point stays.
        length = norm(m)[:, None]
        after = np.where(length > 0.0, m / np.where(length > 0.0, length, 1.0), x[moving])
        step = norm(after - x[moving])
        x[moving] = after
        moving = moving[step > SMALL]
    return x


def _tangent_terms(mu: Measure, beta: float, x: Array) -> tuple[Array, Array, Array]:
    """(log f (n,), P_x m (n, d), (1/beta) Hess log f (n, d, d), 0 along x)."""
    log_f, m, covariance = log_partition_covariance(beta * x, mu)
    P = np.eye(x.shape[1]) - x[:, :, None] * x[:, None, :]
    return log_f, tangent_projection(x, m), beta * P @ covariance @ P - dot(x, m)[:, None, None] * P


def _newton_step(mu: Measure, beta: float, x: Array) -> tuple[Array, float]:
    """x after a step towards the maximum, and the longest step.

    A Hessian that is not negative definite is made so: the step climbs in any case.
    """
    _, slope, hessian = _tangent_terms(mu, beta, x)
    values, vectors = np.linalg.eigh(hessian)
    steep = np.maximum(np.abs(values), 1e-8)
    step = np.einsum("nij,nj,nkj,nk->ni", vectors, 1.0 / steep, vectors, slope)
    step = tangent_projection(x, step)
    length = norm(step)
    step *= np.minimum(1.0, 0.1 / np.maximum(length, 0.1))[:, None]
    return unit(x + step), float(length.max(initial=0.0))


def _at_rest(mu: Measure, beta: float, x: Array) -> tuple[Array, Array, Array]:
    """log f, |P_x m| and the largest tangential eigenvalue of (1/beta) Hess log f, (n,) each."""
    log_f, slope, hessian = _tangent_terms(mu, beta, x)
    # The normal direction, of eigenvalue 0, is put below all others.
    below = 1.0 + np.abs(hessian).sum(axis=(1, 2))
    hessian = hessian - below[:, None, None] * x[:, :, None] * x[:, None, :]
    return log_f, norm(slope), np.linalg.eigvalsh(hessian)[:, -1]


def _distinct(x: Array, apart: float) -> tuple[Array, NDArray[np.int64]]:
    """The (k, d) points among x no two of which are within `apart`, and (n,) the one for each."""
    kept: list[int] = []
    labels = np.full(len(x), -1)
    for i in range(len(x)):
        if labels[i] < 0:
            near = (labels < 0) & (norm(x - x[i]) < apart)
            labels[near] = len(kept)
            kept.append(i)
    return x[kept], labels
