"""A solution on one mesh seen from another: reconstructed values at points, averages over cells.

The meshes of a study are not nested, so two solutions are compared through the finer one's
polynomials: they are evaluated at the quadrature nodes of the coarser mesh's cells.
"""

from __future__ import annotations

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array, real_array, unit_points
from pde.cells.reconstruction import Reconstruction


def evaluate(reconstruction: Reconstruction, rho: Array, points: Array) -> Array:
    """(m,) values at the (m, d) points of the polynomials with cell averages rho (N,).

    Each point is given its cell's polynomial: the value is accurate to the reconstruction's order
    and jumps by its error from cell to cell.
    """
    mesh = reconstruction.mesh
    rho, points = real_array("rho", rho, ndim=1), unit_points("points", points, mesh.ambient_dim)
    cells = mesh.locate(points)
    by_cell = np.argsort(cells, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=mesh.n_cells))])
    rows = reconstruction.weights(points[by_cell], offsets.astype(np.int32))
    cells = cells[by_cell]
    differences = rho[reconstruction.stencils[0][cells]] - rho[cells, None]
    values = np.empty(len(points))
    values[by_cell] = rho[cells] + np.einsum("ms,ms->m", rows, differences)
    return values


def transfer(rho: Array, source: SphereMesh, target: SphereMesh, order: int) -> Array:
    """(N',) averages over the cells of `target` of the density with averages rho on `source`.

    order : of the reconstruction, as accurate at least as rho itself
    """
    reconstruction = Reconstruction(source, order)
    return target.average(lambda x: evaluate(reconstruction, rho, x))
