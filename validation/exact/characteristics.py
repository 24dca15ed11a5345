"""Pointwise densities along characteristics, for any field: d/dt log rho(X_t) = -div v(X_t).

Started from quadrature nodes, the characteristics carry the solution's measure with them, so that
one ordinary differential equation for points and log-densities is a reference for general V, B and
finite beta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes.geometry import unit
from pde.arguments import Array, non_negative, real_array, unit_points
from pde.field import Field
from pde.measure import Measure


@dataclass(frozen=True, eq=False)
class Characteristics:
    """The solution at one time, seen from its characteristics.

    points : (n, d); density : (n,) with respect to area; measure : the points with their masses
    """

    points: Array
    density: Array
    measure: Measure


def along_characteristics(
    field: Field,
    rho0: Callable[[Array], Array],
    nodes: Any,
    weights: Any,
    t: float,
    tolerance: float = 1e-10,
) -> Characteristics:
    """Follow d_t rho + div(rho v[rho]) = 0 from rho0 to time t along the paths of `nodes`.

    rho0 : positive density with respect to area
    nodes, weights : (n, d), (n,) a quadrature of the sphere, e.g. from `mesh.quadrature(8)`
    tolerance : error of points and log-densities, relative and absolute, in each step

    The field's own tolerance counts too. Sums over all pairs: a few thousand nodes.
    """
    from scipy.integrate import solve_ivp

    x0 = unit_points("nodes", nodes)
    weights = real_array("weights", weights, ndim=1)
    start = real_array("rho0(nodes)", rho0(x0), ndim=1)
    if start.min() <= 0.0:
        raise ValueError(f"rho0 must be positive at all nodes, got {start.min():.3g}")
    n, d = x0.shape
    masses = weights * start

    def slope(time: float, state: Array) -> Array:
        # Stages leave the sphere by rounding-size amounts: the field is constant along rays.
        x = unit(state[: n * d].reshape(n, d))
        mu = Measure(x, masses)
        growth = -field.divergence(x, mu, time)
        return np.concatenate([field.velocity(x, mu, time).ravel(), growth])

    state = np.concatenate([x0.ravel(), np.log(start)])
    t = non_negative("t", t)
    if t > 0.0:
        solved = solve_ivp(slope, (0.0, t), state, "DOP853", rtol=tolerance, atol=tolerance)
        state = solved.y[:, -1]
    x = unit(state[: n * d].reshape(n, d))
    return Characteristics(x, np.exp(state[n * d :]), Measure(x, masses))
