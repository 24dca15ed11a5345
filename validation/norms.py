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
    # In units of the largest entry, of which no square leaves the range of float64.
    scale = max(size.max(), np.abs(a).max())
    size, difference, areas = size / scale, np.abs(a / scale - b / scale), mesh.areas
    return {
        "l1": float(areas @ difference / (areas @ size)),
        "l2": float(np.sqrt(areas @ difference**2 / (areas @ size**2))),
        "linf": float(difference.max() / size.max()),
    }
