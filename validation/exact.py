"""Exact and semi-exact references, and what is known about the equation in closed form.

Solutions are objects made once from the data; `density(t)` gives a function of points, with respect
to surface area, so that `mesh.average(solution.density(t))` are exact cell averages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ellipe, ellipkm1, iv, ive

from pde.arguments import Array, natural, non_negative, one_of, positive
from validation.axisymmetric import AxisymmetricAttention, axial_distance, axial_quantile
from validation.characteristics import Characteristics, along_characteristics
from validation.infinite_temperature import InfiniteTemperature
from validation.local_flows import ZeroTemperature

__all__ = [
    "AxisymmetricAttention",
    "Characteristics",
    "InfiniteTemperature",
    "ZeroTemperature",
    "along_characteristics",
    "axial_distance",
    "axial_quantile",
    "dirac_energy",
    "equiangular",
    "growth_rate",
    "uniform_energy",
    "zero_temperature_distance",
]


def zero_temperature_distance(t: Any, gap: float, dim: int) -> Array:
    """W2 between the zero-temperature solution from uniform data and its limit, d = 3.

    t : times; gap : g > 0, with V B^T symmetric, B = I and eigenvalues lam (on E) and lam - g only;
    dim : dim E, 1 or 2. Chordal cost. With q = e^{-2gt}, k^2 = 1 - q and the complete elliptic
    integrals of first and second kind:

        W2^2 = 2 e^{-gt} / (1 + e^{-gt})                   (dim E = 1)
        W2^2 = 2 - 2 (Ell(k) - q K(k)) / (1 - q)           (dim E = 2)
    """
    t, gap = np.asarray(t, dtype=float), positive("gap", gap)
    one_of("dim", dim, (1, 2))
    if dim == 1:
        return np.sqrt(2.0 / (1.0 + np.exp(gap * t)))
    q, m = np.exp(-2.0 * gap * t), -np.expm1(-2.0 * gap * t)
    early = m < 1e-4  # 0/0 at t = 0
    series = 0.25 * np.pi * (1.0 + m / 8.0 + 3.0 * m**2 / 64.0)
    q, m = np.where(early, 0.5, q), np.where(early, 0.5, m)
    mean = np.where(early, series, (ellipe(m) - q * ellipkm1(q)) / m)
    return np.sqrt(2.0 - 2.0 * mean)


def growth_rate(
    beta: float, degree: Any, d: int = 3, normalized: bool = True, diffusion: float = 0.0
) -> Array:
    """Exponential growth rates of small harmonics about the uniform law, V = B = I.

    degree : l >= 1; with a_l = Gamma(d/2) (2/beta)^{d/2-1} I_{l+d/2-1}(beta), for d = 3 the
    modified spherical Bessel functions,

        l (l+d-2) a_l / (beta a_0)  (SA),    l (l+d-2) a_l / beta  (USA),

    less l (l+d-2) times the diffusion. V = -I changes the sign of the first term.
    """
    from scipy.special import gamma

    beta, l = positive("beta", beta), np.asarray(degree)  # noqa: E741
    half = 0.5 * d
    # Exponentially scaled functions: their ratio is that of the functions.
    top, bottom = ive(l + half - 1.0, beta), ive(half - 1.0, beta)
    if normalized:
        strength = top / bottom
    else:
        strength = gamma(half) * (2.0 / beta) ** (half - 1.0) * iv(l + half - 1.0, beta)
    return l * (l + d - 2) * (strength / beta - non_negative("diffusion", diffusion))


def equiangular(n: int, beta: float, product: float, times: Any, normalized: bool = True) -> Array:
    """Common inner product g(t) of n particles that start with equal pairwise products, V = B = I.

    product : g(0) in (-1/(n-1), 1]; times : (k,) increasing, >= 0. With N = n - 1

        dg/dt = 2 e^{beta g} (1-g) (N g + 1) / (e^beta + N e^{beta g})   (SA)
        dg/dt = (2/n) e^{beta g} (1-g) (N g + 1)                         (USA)

    (Rigollet, arXiv:2512.01868), integrated to 1e-12.
    """
    from scipy.integrate import solve_ivp

    N = natural("n", n, least=2) - 1
    if not -1.0 / N < product <= 1.0:
        raise ValueError(
            f"product must lie in (-1/(n-1), 1] for n particles, got {product}, n = {n}"
        )

    def slope(_: float, g: Array) -> Array:
        shape = 2.0 * (1.0 - g) * (N * g + 1.0)
        if normalized:
            return shape / (np.exp(beta * (1.0 - g)) + N)
        return shape * np.exp(beta * g) / n

    times = np.asarray(times, dtype=float)
    solved = solve_ivp(slope, (0.0, times[-1]), [product], "DOP853", times, rtol=1e-12, atol=1e-14)
    return solved.y[0]


def uniform_energy(beta: float) -> float:
    """E = 1/(2 beta) int int e^{beta <x,y>} of the uniform law, d = 3: sinh(beta) / (2 beta^2)."""
    return float(np.sinh(positive("beta", beta)) / (2.0 * beta**2))


def dirac_energy(beta: float) -> float:
    """E = 1/(2 beta) int int e^{beta <x,y>} of a Dirac: e^beta / (2 beta), the largest there is."""
    return float(np.exp(positive("beta", beta)) / (2.0 * beta))
