"""The zero-temperature equation, solved exactly: linear flows projected on the sphere.

    d_t rho + div(rho P_x A x / |B^T x|) = 0,   A = V B^T.

The orbits are s -> e^{sA} x0 / |e^{sA} x0|, run through in the time ds/dt = 1 / |B^T x(s)|. The map
x0 -> e^{sA} x0 / |.| stretches areas by det(e^{sA}) / |e^{sA} x0|^d, and a change of speed by
g(x) = 1 / |B^T x| multiplies that by g(x) / g(x0), since dx/g is what g times a divergence-free
field preserves. So, backwards from x with y = e^{-sA} x and x0 = y / |y|,

    rho_t(x) = rho0(x0) det(e^{-sA}) / |y|^d  |B^T x| / |B^T x0|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshes.geometry import norm, unit
from meshes.quadrature import gauss_legendre
from pde.arguments import Array, non_negative, square_matrix, unit_points
from pde.fields.attention import LARGEST_CONDITION, is_symmetric
from pde.initial import uniform

Density = Callable[[Array], Array]

PANEL = 1.5
"""Length of a quadrature panel times the spread of A's eigenvalues: 16 Gauss points reach 1e-15."""

BLOCK = 8192
"""Points whose travel times are solved for together."""


class ZeroTemperature:
    """The solution of the zero-temperature equation from rho0.

    V, B : (d, d), B invertible and V B^T diagonalisable
    rho0 : density with respect to area; None: uniform

    Raises ValueError where B is singular or V B^T has no basis of eigenvectors.

    >>> solution = ZeroTemperature(np.diag([2.0, 1.0, 0.0]), np.eye(3))
    >>> solution.flow(0.5)([[0.0, 0.6, 0.8]]).round(4)
    array([[0.    , 0.7776, 0.6288]])
    """

    def __init__(self, V: Any, B: Any, rho0: Density | None = None) -> None:
        V = square_matrix("V", V)
        self.dim = len(V)
        self.B = square_matrix("B", B, self.dim)
        if not np.linalg.cond(self.B) < LARGEST_CONDITION:
            raise ValueError(
                f"B must be invertible, its condition number is {np.linalg.cond(self.B):.3g}"
            )
        self.A = V @ self.B.T
        self.rho0 = uniform(self.dim) if rho0 is None else rho0
        self.eigenvalues, self.eigenvectors = (
            np.linalg.eigh(self.A) if is_symmetric(self.A) else np.linalg.eig(self.A)
        )
        condition = float(np.linalg.cond(self.eigenvectors))
        if condition > 1e8:
            raise ValueError(
                f"V B^T must have a basis of eigenvectors, got condition number {condition:.3g}"
            )
        self.inverse = np.linalg.inv(self.eigenvectors)
        values = self.eigenvalues
        self.spread = float(np.ptp(values.real) + 2.0 * np.abs(values.imag).max())

    def flow(self, t: float) -> Callable[[Any], Array]:
        """x0 (m, d) -> where the flow takes it in the time t (negative: where it came from)."""

        def move(points: Any) -> Array:
            x = unit_points("points", points, self.dim)
            c = x @ self.inverse.T
            return unit(self._linear(c, self._parameters(c, float(t))))

        return move

    def density(self, t: float) -> Density:
        """The density at time t >= 0 with respect to area, a function of points (m, d) -> (m,)."""
        t = non_negative("t", t)

        def rho(points: Array) -> Array:
            x = unit_points("points", points, self.dim)
            c = x @ self.inverse.T
            s = self._parameters(c, -t)
            y = self._linear(c, s)
            x0 = unit(y)
            # s <= 0 here: det(e^{sA}) = e^{s tr A}
            stretch = np.exp(s * np.trace(self.A)) / norm(y) ** self.dim
            return self.rho0(x0) * stretch * norm(x @ self.B) / norm(x0 @ self.B)

        return rho

    def _linear(self, c: Array, s: Array) -> Array:
        """e^{sA} x, (m, d), a different s (m,) for every x = `eigenvectors` c."""
        return ((c * np.exp(s[:, None] * self.eigenvalues)) @ self.eigenvectors.T).real

    def _parameters(self, c: Array, t: float) -> Array:
        """s (m,) with int_0^s |B^T x(sigma)| dsigma = t, by Newton's method.

        The integral grows at least like the smallest singular value of B, so s is unique.
        """
        square = self.B @ self.B.T
        scale = np.trace(square) / self.dim
        if np.abs(square - scale * np.eye(self.dim)).max() < 1e-13 * scale:
            return np.full(len(c), t / np.sqrt(scale))
        # Blocks that stay in the processor's cache: ten times as fast.
        blocks = [self._solve_block(c[i : i + BLOCK], t) for i in range(0, len(c), BLOCK)]
        return np.concatenate([np.empty(0), *blocks])

    def _solve_block(self, c: Array, t: float) -> Array:
        s, elapsed = np.zeros(len(c)), np.zeros(len(c))
        step = t / self._speed(c, s)
        for _ in range(50):
            elapsed += self._time(c, s, step)
            s = s + step
            step = (t - elapsed) / self._speed(c, s)
            if np.abs(step).max(initial=0.0) <= 1e-13 * (1.0 + np.abs(s).max(initial=0.0)):
                return s + step
        raise RuntimeError("the travel times along the orbits did not converge")

    def _time(self, c: Array, start: Array, length: Array) -> Array:
        """int_start^{start+length} |B^T x(s)| ds (m,), by Gauss quadrature."""
        angle = self.spread * np.abs(length).max(initial=0.0)
        panels, points = 1 + int(angle / PANEL), 16 if angle > 0.1 else 6
        nodes, weights = gauss_legendre(points)
        total = np.zeros(len(c))
        for panel in range(panels):
            for node, weight in zip(nodes, weights, strict=True):
                fraction = (panel + 0.5 + 0.5 * node) / panels
                total += 0.5 * weight * self._speed(c, start + fraction * length)
        return total * length / panels

    def _speed(self, c: Array, s: Array) -> Array:
        """dt/ds = |B^T x(s)| (m,) on the orbits through the points of coordinates c."""
        y = self._linear(c, s)
        return norm(y @ self.B) / norm(y)
