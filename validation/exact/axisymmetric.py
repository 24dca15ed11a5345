"""Axisymmetric solutions on S^2: the nonlocal equation at finite beta reduced to one variable.

With V = diag(v1, v1, v3), B = diag(b1, b1, b3) and u = x_3 the density f(u) (with respect to the
uniform probability) solves d_t f + d_u (U f) = 0,

    U(u) = (1-u^2) v3 Mz - u s(u) v1 Mr,   s(u) = (1-u^2)^{1/2},
    Mz = <k I0(z) v>/D,   Mr = <k I1(z) s(v)>/D,   D = <k I0(z)>  (D = 1: unnormalised),
    k = e^{beta b3 u v},  z = beta b1 s(u) s(v),  <.> = (1/2) int_{-1}^{1} . f(v) dv.

It is solved along characteristics from Gauss-Legendre nodes, with d/dt log f = -U'(u) beside
du/dt = U(u). In the starting heights u0 every integrand is as smooth as f0, so the integrals, and
the polynomials in u0 through heights and log-densities, converge faster than any power of the
number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Legendre
from numpy.polynomial.legendre import leggauss, legvander
from scipy.special import i0e, i1e

from pde.arguments import Array, non_negative, one_of, positive, real_array, unit_points


@dataclass(frozen=True, eq=False)
class AxisymmetricState:
    """The solution at one time.

    heights : (n,) where the characteristics are; masses : (n,) what they carry
    map, log_density : u0 -> u and u0 -> log f(u), polynomials
    """

    heights: Array
    masses: Array
    map: Legendre
    log_density: Legendre

    @property
    def unresolved(self) -> float:
        """Largest of the last four coefficients of both polynomials: what the nodes miss."""
        return float(max(np.abs(f.coef[-4:]).max() for f in (self.map, self.log_density)))

    def moment(self, k: int) -> float:
        """int x_3^k d rho."""
        return float(self.masses @ self.heights**k)

    def profile(self, u: Any) -> Array:
        """f(u), the density with respect to the uniform probability, at heights u (m,)."""
        return np.exp(self.log_density(self._origin(real_array("u", u, ndim=1))))

    def __call__(self, points: Any) -> Array:
        """(m,) density with respect to area at unit points (m, 3)."""
        points = unit_points("points", points, 3)
        return self.profile(np.clip(points[:, 2], -1.0, 1.0)) / (4.0 * np.pi)

    def _origin(self, u: Array) -> Array:
        """u0 with u_t(u0) = u: from a table, then Newton's method."""
        grid = np.cos(np.linspace(np.pi, 0.0, 8 * len(self.heights)))
        u0 = np.interp(u, np.maximum.accumulate(self.map(grid)), grid)
        slope = self.map.deriv()
        for _ in range(6):
            u0 = np.clip(u0 - (self.map(u0) - u) / slope(u0), -1.0, 1.0)
        return u0


class AxisymmetricAttention:
    """The transformer continuity equation for data symmetric about the third axis.

    v, b : (v1, v3) and (b1, b3), the entries of V = diag(v1, v1, v3) and B likewise
    beta : inverse temperature >= 0
    f0 : profile f0(u) > 0 with respect to the uniform probability, (1/2) int f0 du = 1, smooth
    n : Gauss-Legendre nodes

    Raises ValueError for a profile of another mass.
    """

    def __init__(
        self,
        v: tuple[float, float],
        b: tuple[float, float],
        beta: float,
        f0: Callable[[Array], Array],
        normalized: bool = True,
        n: int = 200,
    ) -> None:
        self.v1, self.v3 = map(float, v)
        self.b1, self.b3 = map(float, b)
        self.beta, self.normalized, self.f0 = non_negative("beta", beta), normalized, f0
        self.nodes, self.weights = leggauss(n)
        start = real_array("f0(u)", f0(self.nodes), ndim=1)
        self.masses = 0.5 * self.weights * start
        if start.min() <= 0.0 or abs(self.masses.sum() - 1.0) > 1e-9:
            raise ValueError(
                f"f0 must be > 0 with (1/2) int f0 du = 1, got mass {self.masses.sum():.12g} "
                f"and minimum {start.min():.3g}"
            )

    def initial(self, points: Any) -> Array:
        """(m,) initial density with respect to area at unit points (m, 3)."""
        return self.f0(unit_points("points", points, 3)[:, 2]) / (4.0 * np.pi)

    def density(self, t: float, tolerance: float = 1e-13) -> AxisymmetricState:
        """The solution at time t >= 0, a function of points, integrated to `tolerance` a step.

        Raises ValueError where n nodes do not resolve it to 1e-8.
        """
        from scipy.integrate import solve_ivp

        t, n = non_negative("t", t), len(self.nodes)
        state = np.concatenate([self.nodes, np.log(self.f0(self.nodes))])
        if t > 0.0:
            solved = solve_ivp(
                lambda _, y: np.concatenate(self._slopes(y[:n])),
                (0.0, t),
                state,
                "DOP853",
                rtol=tolerance,
                atol=tolerance,
            )
            state = solved.y[:, -1]
        heights, logarithms = state[:n], state[n:]
        result = AxisymmetricState(
            heights, self.masses, self._polynomial(heights), self._polynomial(logarithms)
        )
        if result.unresolved > 1e-8:
            raise ValueError(
                f"n = {n} nodes resolve the solution at t = {t:g} to {result.unresolved:.1g} only; "
                "take more"
            )
        return result

    def _polynomial(self, values: Array) -> Legendre:
        """The polynomial of degree n - 1 through values at the starting nodes."""
        n = len(self.nodes)
        basis = legvander(self.nodes, n - 1)
        return Legendre((np.arange(n) + 0.5) * ((self.weights * values) @ basis))

    def _slopes(self, u: Array) -> tuple[Array, Array]:
        """U and -U' at the characteristics' heights u (n,).

        U' is the surface divergence tr(P V S B^T) beta - 2 <x, V m> of pde.fields.attention at
        x = (s, 0, u). Around a ring cos^2 averages to I0 - I1/z and sin^2 to I1/z.
        """
        s = np.sqrt(np.maximum((1.0 - u) * (1.0 + u), 0.0))
        z = self.beta * self.b1 * np.outer(s, s)
        even, odd, sine_square = self._kernels(u, z)
        mean_r, mean_z = odd @ s, even @ u
        rr, tt = (even - sine_square) @ s**2, sine_square @ s**2
        rz, zz = odd @ (s * u), even @ u**2
        if self.normalized:
            rr, rz, zz = rr - mean_r**2, rz - mean_r * mean_z, zz - mean_z**2
        v1, v3, b1, b3 = self.v1, self.v3, self.b1, self.b3
        trace = v1 * b1 * (rr + tt) + v3 * b3 * zz
        radial = s * s * v1 * b1 * rr + u * u * v3 * b3 * zz + s * u * (v1 * b3 + v3 * b1) * rz
        divergence = self.beta * (trace - radial) - 2.0 * (s * v1 * mean_r + u * v3 * mean_z)
        return s * s * v3 * mean_z - u * s * v1 * mean_r, -divergence

    def _kernels(self, u: Array, z: Array) -> tuple[Array, Array, Array]:
        """(n, n) masses times k I0(z) / D, k I1(z) / D and k I1(z) / (z D)."""
        exponent = self.beta * self.b3 * np.outer(u, u) + np.abs(z)
        if not self.normalized and exponent.max() > 700.0:
            raise ValueError(f"beta is too large for unnormalised attention, got {self.beta}")
        shift = exponent.max(axis=1, keepdims=True) if self.normalized else 0.0
        k = self.masses * np.exp(exponent - shift)
        even, odd = k * i0e(z), k * i1e(z)
        small = np.abs(z) < 1e-5  # I1(z)/z = 1/2 + z^2/16
        sine_square = np.where(small, 0.5 * k * np.exp(-np.abs(z)), odd / np.where(small, 1.0, z))
        total = even.sum(axis=1, keepdims=True) if self.normalized else 1.0
        return even / total, odd / total, sine_square / total


def axial_quantile(equatorial: float, polar: float) -> Callable[[Array], Array]:
    """Quantile function q -> u of the height under the angular central Gaussian.

    Lambda = diag(equatorial, equatorial, polar), both > 0; equal: the uniform law.
    """
    a, b = positive("equatorial", equatorial), positive("polar", polar)

    def quantile(q: Array) -> Array:
        u = 2.0 * q - 1.0
        return np.sqrt(b) * u / np.sqrt(a * (1.0 - u * u) + b * u * u)

    return quantile


def axial_distance(
    first: Callable[[Array], Array],
    second: Callable[[Array], Array],
    cost: str = "chordal",
    n: int = 200,
) -> float:
    """W2 between two laws on S^2 symmetric about one axis, from the quantiles of their heights.

    The optimal map is the monotone rearrangement along meridians: with the angles a(q), b(q) to
    the axis, W2^2 = int (2 - 2 cos(a - b)) dq (chordal) or int (a - b)^2 dq (geodesic).
    """
    one_of("cost", cost, ("chordal", "geodesic"))
    nodes, weights = leggauss(n)
    a, b = (np.arccos(np.clip(f(0.5 * (nodes + 1.0)), -1.0, 1.0)) for f in (first, second))
    square = 4.0 * np.sin(0.5 * (a - b)) ** 2 if cost == "chordal" else (a - b) ** 2
    return float(np.sqrt(0.5 * weights @ square))
