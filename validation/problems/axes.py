"""Axes in general position to the meshes, matrices on them, and the law that is tilted on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pde.arguments import Array

AXES: dict[int, Array] = {
    2: np.array([[0.8, -0.6], [0.6, 0.8]]),
    3: np.linalg.qr(np.array([[0.3, 0.5, -0.8], [0.9, -0.1, 0.4], [0.2, 0.7, 0.6]]))[0],
}
"""Orthonormal e_1, ..., e_d in columns, in general position to the meshes."""


def symmetric(eigenvalues: Any) -> Array:
    """(d, d) symmetric matrix with the given eigenvalues on AXES, in their order."""
    R = AXES[len(eigenvalues)]
    A = (R * np.asarray(eigenvalues, dtype=float)) @ R.T
    return 0.5 * (A + A.T)


def on_axes(A: Any) -> Array:
    """(d, d) matrix that is A in the basis of AXES."""
    R = AXES[len(A)]
    return R @ np.asarray(A, dtype=float) @ R.T


def tilted(x: Array) -> Array:
    """(m,) density 1 + 0.6 x_1, up to a factor, at the points (m, d)."""
    return 1.0 + 0.6 * x[:, 0]
