"""Polynomials in place of exponentials, with a bound on their relative error.

For a patch of targets xi = xi_c + eta and a patch of sources y = c + delta,

    e^{<xi, y>} = e^{<xi_c, y>} e^{<eta, c>} e^{<eta, delta>},

and only the last factor couples the two. Where |<eta, delta>| <= rho it is replaced by
P(<eta, delta>) with a polynomial P(z) = sum_k a_k z^k of degree q that satisfies

    |P(z) - e^z| <= eps e^z,   |P'(z) - e^z| <= eps' e^z   for |z| <= rho.

Expanding the powers, <eta, delta>^k = sum_{|alpha| = k} (k! / alpha!) eta^alpha delta^alpha,
separates sources from targets: moments of the sources, then a polynomial in eta.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from pde.arguments import Array

MAX_DEGREE = 18
RADII = 2.0 ** (np.arange(-48, 9) / 4)  # values of rho with a polynomial: 2^-12 to 4
SLOPE_WEIGHT = 0.1  # of the error of P' against that of P in the fit


class Polynomials(NamedTuple):
    """P for every rho in RADII (g) and degree (q).

    coefficients : (g, q, MAX_DEGREE + 1) k! a_k
    value_error, slope_error : (g, q) eps and eps'
    """

    coefficients: Array
    value_error: Array
    slope_error: Array


class Monomials(NamedTuple):
    """The multi-indices alpha of d variables, |alpha| <= MAX_DEGREE, by rising degree.

    Any initial segment of degrees is a prefix. A third variable that is absent (d = 2) has
    exponent 0. Used as e_alpha = eta^alpha / alpha!, whose derivatives are e_{alpha - e_k}.

    parent, axis : (p,) e_alpha = e_parent * eta_axis * inverse
    inverse : (p,) 1 / alpha_axis
    raised : (p, 3) position of alpha + e_k; 0 where d = 2 lacks it or the degree is the last
    counts : (MAX_DEGREE + 1,) number of multi-indices up to each degree
    chain : (r, MAX_DEGREE + 1) position of alpha + k e_3, where r numbers the alpha with
        alpha_3 = 0: by degree, within it by falling alpha_1
    """

    parent: np.ndarray
    axis: np.ndarray
    inverse: Array
    raised: np.ndarray
    counts: np.ndarray
    chain: np.ndarray


@cache
def polynomials() -> Polynomials:
    """Least squares for P e^{-z} = 1 and P' e^{-z} = 1 on Chebyshev points of [-rho, rho].

    Everything is done for the difference of P and the truncated Chebyshev series
    e^z = I_0(rho) + 2 sum_k I_k(rho) T_k(z / rho), so that small errors are not lost in rounding.
    The errors stored are maxima over points much denser than the polynomials oscillate, raised by
    a twentieth for what lies between them and by the rounding of evaluating P.
    """
    n_terms = MAX_DEGREE + 22
    points = np.cos(np.pi * np.arange(121) / 120)
    values = chebyshev.chebvander(points, n_terms - 1)
    slopes = np.stack([chebyshev.chebval(points, chebyshev.chebder(e)) for e in np.eye(n_terms)], 1)
    to_powers = np.array([_padded(chebyshev.cheb2poly(e)) for e in np.eye(MAX_DEGREE + 1)])
    shape = (RADII.size, MAX_DEGREE + 1)
    scale = np.array([float(factorial(k)) for k in range(MAX_DEGREE + 1)])
    coefficients = np.zeros((*shape, MAX_DEGREE + 1))
    errors = np.zeros((2, *shape))
    for g, rho in enumerate(RADII):
        decay = np.exp(-rho * points)[:, None]
        relative = np.concatenate([values * decay, slopes * (decay / rho)])
        weight = np.repeat([1.0, SLOPE_WEIGHT], points.size)[:, None]
        basis, triangle = np.linalg.qr(weight * relative[:, : MAX_DEGREE + 1])
        series = _exponential_series(rho, n_terms)
        for q in range(MAX_DEGREE + 1):
            n = q + 1
            tail = relative[:, n:] @ series[n:]
            correction = np.linalg.solve(triangle[:n, :n], basis[:, :n].T @ (weight[:, 0] * tail))
            difference = relative[:, :n] @ correction - tail
            errors[:, g, q] = np.abs(difference).reshape(2, -1).max(axis=1)
            powers = (series[:n] + correction) @ to_powers[:n]
            coefficients[g, q] = powers * scale / rho ** np.arange(MAX_DEGREE + 1)
    errors = 1.05 * errors + 4e-16 * np.exp(2.0 * RADII)[:, None]
    return Polynomials(coefficients, errors[0], errors[1])


def _exponential_series(rho: float, n: int) -> Array:
    """Chebyshev coefficients of e^{rho x}: I_0, 2 I_1, 2 I_2, ... (power series of I_k)."""
    half = 0.5 * rho
    modified_bessel = [
        sum(half ** (2 * m + k) / (factorial(m) * factorial(m + k)) for m in range(25))
        for k in range(n)
    ]
    return np.array([modified_bessel[0], *(2.0 * i for i in modified_bessel[1:])])


def _padded(powers: np.ndarray) -> Array:
    return np.pad(powers, (0, MAX_DEGREE + 1 - powers.size))


@cache
def monomials(dim: int) -> Monomials:
    """The table of multi-indices of `dim` (2 or 3) variables."""
    degrees = range(MAX_DEGREE + 1)
    axes = [a for q in degrees for a in combinations_with_replacement(range(dim), q)]
    position = {a: i for i, a in enumerate(axes)}

    def find(a: tuple[int, ...]) -> int:
        return position.get(tuple(sorted(a)), 0)

    flat = [a for a in axes if 2 not in a]
    return Monomials(
        parent=np.array([find(a[:-1]) for a in axes], dtype=np.int32),
        axis=np.array([a[-1] if a else 0 for a in axes], dtype=np.int32),
        inverse=np.array([1.0 / a.count(a[-1]) if a else 1.0 for a in axes]),
        raised=np.array([[find((*a, k)) for k in range(3)] for a in axes], dtype=np.int32),
        counts=np.array([sum(len(a) <= q for a in axes) for q in degrees], dtype=np.int32),
        chain=np.array([[find(a + (2,) * k) for k in degrees] for a in flat], dtype=np.int32),
    )
