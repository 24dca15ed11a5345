"""Tokens with one product for all pairs, V = B = I: their making, their product over time.

n = N + 1 tokens whose pairwise products all equal g keep that symmetry (Rigollet, arXiv:2512.01868;
Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794), and

    dg/dt = 2 (1-g) (N g + 1) / (e^{beta (1-g)} + N)    (SA)
    dg/dt = (2/n) e^{beta g} (1-g) (N g + 1)            (USA)

Times. The variable u = log((N g + 1) / (1 - g)) takes both equations apart, for
du = n dg / ((1-g) (N g + 1)) and 1-g = n / (e^u + N):

    dt = (e^{beta (1-g)} + N) / (2 n) du   (SA),     dt = e^{-beta g} / 2 du   (USA).

So the time from one product to another is an integral of a smooth function; for beta = 0 it is
half the difference of u. For large beta SA waits about e^{beta (1-g)} / (2 beta) near its start,
a time exponential in beta, while USA becomes faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshes.geometry import norm
from pde.arguments import Array, natural, non_negative, number

REACHED = 0.999
"""The product at which tokens count as one cluster."""


def check_product(n: int, product: float) -> float:
    """The product as a number that n >= 2 tokens can share: in (-1/(n-1), 1]; else ValueError."""
    product = number("product", product)
    if n < 2:
        raise ValueError(f"n must be at least 2 tokens, got {n}")
    if not -1.0 / (n - 1) < product <= 1.0:
        raise ValueError(
            f"product must lie in (-1/(n-1), 1] for n tokens to share it, got {product}, n = {n}"
        )
    return product


def tokens(n: int, product: float, d: int | None = None, seed: int = 0) -> Array:
    """(n, d) unit vectors with all pairwise products equal, turned at random.

    d >= n (None: n); ValueError for products that n vectors cannot share and for d < n.

    >>> x = tokens(3, 0.25, d=5)
    >>> (x @ x.T).round(12)
    array([[1.  , 0.25, 0.25],
           [0.25, 1.  , 0.25],
           [0.25, 0.25, 1.  ]])
    """
    product = check_product(n, product)
    d = n if d is None else d
    if d < n:
        raise ValueError(f"d must be at least n for linearly independent tokens, got {d} < {n}")
    # The symmetric root of the Gram matrix, of eigenvalues 1 + N g (once) and 1 - g.
    x = np.full((n, n), (np.sqrt(1.0 + (n - 1) * product) - np.sqrt(1.0 - product)) / n)
    x[np.diag_indices(n)] += np.sqrt(1.0 - product)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    x = x @ turn[:n]
    return x / norm(x)[:, None]


def progress(n: int, product: float) -> float:
    """u = log((N g + 1) / (1 - g)), infinite at g = 1."""
    if product == 1.0:
        return np.inf
    return float(np.log1p((n - 1) * product) - np.log1p(-product))


def time_to(
    product: float, n: int, beta: float, start: float = 0.0, normalized: bool = True
) -> float:
    """The time that n equiangular tokens take from the product `start` to `product` < 1.

    beta >= 0; normalized: SA, else USA. An integral over u (see the module), to 1e-12 relative.
    Raises ValueError for n < 2 and for products out of range or not increasing.

    >>> round(time_to(0.999, n=32, beta=4.0), 3)
    6.954
    """
    from scipy.integrate import quad

    beta = non_negative("beta", beta)
    start, product = check_product(n, start), check_product(n, product)
    if not start <= product < 1.0:
        raise ValueError(f"product must lie in [start, 1) = [{start:g}, 1), got {product:g}")

    def pace(u: float) -> float:
        """dt/du."""
        gap = n / (np.exp(u) + n - 1.0)
        if normalized:
            return float((np.exp(beta * gap) + n - 1.0) / (2.0 * n))
        return float(0.5 * np.exp(-beta * (1.0 - gap)))

    first, last = progress(n, start), progress(n, product)
    # A start above the slow place leaves a narrow peak at u = first: shown to the quadrature.
    inner = first + np.array([1e-2, 1e-1, 1.0]) * n / (n + beta)
    points = inner[inner < last]
    return float(quad(pace, first, last, epsabs=0.0, epsrel=1e-12, limit=500, points=points)[0])


def gaps(x: Array) -> Array:
    """1 - <x_i, x_j> of all pairs of the (n, d) unit vectors x, exact also near 0."""
    i, j = np.triu_indices(len(x), 1)
    return 0.5 * np.square(x[i] - x[j]).sum(axis=1)


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
