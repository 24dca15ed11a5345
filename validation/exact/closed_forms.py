"""Distances, growth rates and energies that are known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ellipe, ellipkm1, iv, ive

from pde.arguments import Array, non_negative, one_of, positive


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


def uniform_energy(beta: float) -> float:
    """E = 1/(2 beta) int int e^{beta <x,y>} of the uniform law, d = 3: sinh(beta) / (2 beta^2)."""
    return float(np.sinh(positive("beta", beta)) / (2.0 * beta**2))


def dirac_energy(beta: float) -> float:
    """E = 1/(2 beta) int int e^{beta <x,y>} of a Dirac: e^beta / (2 beta), the largest there is."""
    return float(np.exp(positive("beta", beta)) / (2.0 * beta))


def bessel_ratio(beta: float) -> float:
    """i_1(beta) / i_2(beta) of the modified spherical Bessel functions.

    >>> round(bessel_ratio(1.0), 4)
    5.1406
    """
    from scipy.special import spherical_in

    return float(spherical_in(1, beta) / spherical_in(2, beta))
