"""Relative error norms of cell averages on a mesh."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import instance, real_array


def relative(mesh: SphereMesh, a: Any, b: Any) -> dict[str, float]:
    """Relative distances of cell averages a from reference averages b, both (N,).

    l1 = I|a-b| / I|b|, l2 = (I (a-b)^2 / I b^2)^{1/2}, linf = max|a-b| / max|b|, I the sum over
    cells times areas (Williamson et al., J. Comput. Phys. 102, 1992, eq. 82-84).

    Raises ValueError for arrays of other shapes and for b = 0.

    >>> from meshes import circle
    >>> errors = relative(circle(4), [1.0, 1.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0])
    >>> {name: round(value, 6) for name, value in errors.items()}
    {'l1': 0.5, 'l2': 1.0, 'linf': 2.0}
    """
    instance("mesh", mesh, SphereMesh)
    a, b = real_array("a", a, ndim=1), real_array("b", b, ndim=1)
    for name, values in (("a", a), ("b", b)):
        if len(values) != mesh.n_cells:
            raise ValueError(
                f"{name} must hold one average for each of the mesh's {mesh.n_cells} cells, "
                f"got shape {values.shape}"
            )
    size = np.abs(b)
    if not size.any():
        raise ValueError("b must not vanish everywhere: errors are relative to it")
    # Each in units of a power of two near its largest entry: no square leaves the range of float64.
    difference, ratio = np.abs(0.5 * a - 0.5 * b), 2.0
    for_b, for_difference = (np.frexp(x.max())[1] for x in (size, difference))
    size, difference = np.ldexp(size, -for_b), np.ldexp(difference, -for_difference)
    with np.errstate(over="ignore"):
        ratio = float(np.ldexp(2.0, for_difference - for_b))
    if not ratio < np.inf:
        raise ValueError("a must be comparable to b: their ratio leaves the range of float64")
    areas = mesh.areas
    return {
        "l1": ratio * float(areas @ difference / (areas @ size)),
        "l2": ratio * float(np.sqrt(areas @ difference**2 / (areas @ size**2))),
        "linf": ratio * float(difference.max() / size.max()),
    }
