"""Attention with a common axis of V and B, from one smooth bump: finite beta with a reference."""

from __future__ import annotations

import numpy as np

from pde import SelfAttention
from validation import exact


def axisymmetric_solution(
    beta: float, normalized: bool = True
) -> tuple[SelfAttention, exact.AxisymmetricAttention]:
    """A field with a common axis of V and B, and its solution from one smooth bump."""
    v, b, kappa = (0.8, 1.3), (1.5, 1.0), 1.0
    profile = lambda u: kappa * np.exp(kappa * u) / np.sinh(kappa)  # noqa: E731
    V, B = np.diag([v[0], v[0], v[1]]), np.diag([b[0], b[0], b[1]])
    solution = exact.AxisymmetricAttention(v, b, beta, profile, normalized)
    return SelfAttention(V, B, beta, normalized), solution
