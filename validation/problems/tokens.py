"""Random tokens in any dimension, run in the space that they span, and the groups that they form.

Tokens never leave the space that they span, and the equation does not see a rotation: n tokens in
R^d, d > n, are run as n tokens in R^n, whatever d is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshes.geometry import unit
from pde import initial
from pde.arguments import Array


def in_their_span(x: Array) -> Array:
    """(n, min(n, d)) coordinates of n tokens in R^d in an orthonormal basis of their span.

    >>> x = unit(np.random.default_rng(0).standard_normal((3, 50)))
    >>> y = in_their_span(x)
    >>> y.shape, bool(np.allclose(y @ y.T, x @ x.T))
    ((3, 3), True)
    """
    if len(x) >= x.shape[1]:
        return x
    return unit(np.ascontiguousarray(np.linalg.qr(x.T)[1].T))


def random_tokens(n: int, d: int, seed: int) -> Array:
    """n independent uniform tokens in R^d, d >= 2, in the coordinates of their span."""
    if n < 2 or d < 2:
        raise ValueError(f"n and d must be at least 2, got n = {n}, d = {d}")
    return in_their_span(initial.sample(initial.uniform(d), n, seed))


def groups(x: Array, angle: float) -> NDArray[np.int64]:
    """(n,) labels 0, 1, ... of the groups of the (n, d) unit vectors x.

    Tokens belong together where a chain of tokens leads over, each within `angle` of the next.

    >>> groups(np.array([[1.0, 0.0], [0.0, 1.0], [0.05, 1.0]]), 0.1).tolist()
    [0, 1, 1]
    """
    from scipy.sparse.csgraph import connected_components

    # Angles between directions of nearly unit length, to rounding of the product.
    return connected_components(x @ x.T > np.cos(angle), directed=False)[1].astype(np.int64)
