"""beta = 0, solved exactly: the equation stays in a family of conformal images of the uniform law.

On S^{d-1}, d = 2 or 3, the densities ((1-|w|^2) / |x-w|^2)^{d-1} (with respect to the uniform
probability) follow the ordinary differential equation

    dw/dt = (1+|w|^2) c/2 - <c,w> w,   c = V m,   m = h(|w|) w/|w| the mean,

h(r) = r for d = 2 (the Kuramoto model; the densities are Poisson kernels) and for d = 3
h(r) = (1+r^2)/(2r) - ((1-r^2)^2 / (4r^2)) log((1+r)/(1-r)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshes.geometry import norm
from pde.arguments import Array, non_negative, real_array, square_matrix, unit_points
from pde.initial.laws import sphere_area

SERIES = 0.3
"""Radius below which h is summed as a series: its closed form cancels to 4r/3 there."""


class InfiniteTemperature:
    """The solution at beta = 0 from the density of parameter w0.

    V : (d, d), d = 2 or 3; w0 : (d,), |w0| < 1

    >>> solution = InfiniteTemperature(np.eye(3), [0.0, 0.0, 0.2])
    >>> solution.parameter(3.0).round(6)
    array([0.      , 0.      , 0.802138])
    """

    def __init__(self, V: Any, w0: Any) -> None:
        self.V = square_matrix("V", V)
        self.dim = len(self.V)
        if self.dim not in (2, 3):
            raise ValueError(f"V must be (2, 2) or (3, 3), got {self.V.shape}")
        self.w0 = real_array("w0", w0, ndim=1)
        if len(self.w0) != self.dim or not np.linalg.norm(self.w0) < 1.0:
            raise ValueError(f"w0 must have {self.dim} entries and a length < 1, got {w0}")

    def parameter(self, t: float) -> Array:
        """(d,) w at time t, integrated to 1e-13."""
        from scipy.integrate import solve_ivp

        t = non_negative("t", t)
        if t == 0.0:
            return self.w0.copy()
        solved = solve_ivp(self._slope, (0.0, t), self.w0, "DOP853", rtol=1e-13, atol=1e-15)
        return solved.y[:, -1]

    def mean(self, t: float) -> Array:
        """(d,) the mean at time t."""
        return self._mean(self.parameter(t))

    def density(self, t: float) -> Callable[[Array], Array]:
        """The density at time t with respect to area, a function of points (m, d) -> (m,)."""
        w = self.parameter(t)

        def rho(points: Array) -> Array:
            x = unit_points("points", points, self.dim)
            ratio = (1.0 - w @ w) / norm(x - w) ** 2
            return ratio ** (self.dim - 1) / sphere_area(self.dim)

        return rho

    def _slope(self, _: float, w: Array) -> Array:
        c = self.V @ self._mean(w)
        return 0.5 * (1.0 + w @ w) * c - (c @ w) * w

    def _mean(self, w: Array) -> Array:
        if self.dim == 2:
            return w
        r = float(np.linalg.norm(w))
        return mean_length(r) / r * w if r > 0.0 else np.zeros(3)


def mean_length(r: float) -> float:
    """h(r), the length of the mean for d = 3, to rounding."""
    if r < SERIES:
        k = np.arange(1, 25)
        return float(np.sum(-4.0 * r ** (2 * k - 1) / ((2 * k + 1) * (2 * k - 1) * (2 * k - 3))))
    logarithm = np.log((1.0 + r) / (1.0 - r))
    return (1.0 + r * r) / (2.0 * r) - (1.0 - r * r) ** 2 / (4.0 * r * r) * logarithm
