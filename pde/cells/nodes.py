"""The density as a measure: positive quadrature nodes with the reconstruction's values.

Masses at the cells' centroids are a second-order quadrature of the kernel, whatever the order of
the averages. Taylor corrections with the cells' moments get worse than that where the kernel is
narrow (beta h >> 1), nodes do not: the kernel is evaluated where mass is, and weights are positive.

Averages below zero, which schemes without limiter give, are no masses. A measure then is that of
the positive part, scaled to the mass of all cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshes import SphereMesh
from meshes.geometry import tangent_frame
from pde.arguments import Array
from pde.cells.reconstruction import Reconstruction
from pde.kernels import nodes as kernels
from pde.measure import Measure


def cell_measure(mesh: SphereMesh, rho: Array, nodes: Nodes | None) -> Measure:
    """The measure of cell averages rho (N,), of their mass.

    nodes : of the scheme's reconstruction; None: masses at the cells' centroids, of second order

    Raises ValueError where averages are negative and their total is not > 0.
    """
    if rho.min() < 0.0:
        positive = np.maximum(rho, 0.0)
        total, held = float(mesh.areas @ rho), float(mesh.areas @ positive)
        if not total > 0.0:
            raise ValueError(f"state must have mass > 0 to be a measure, got {total:.3g}")
        rho = positive * (total / held)
    if nodes is None:
        return Measure(mesh.centroids, rho * mesh.areas)
    points = nodes.points.reshape(-1, mesh.ambient_dim)
    return Measure(points, nodes.masses(rho).reshape(-1))


def nodes_of(mesh: SphereMesh, order: int) -> Nodes | None:
    """The nodes of a scheme of that order; None up to order 2, where centroids do."""
    return Nodes(Reconstruction(mesh, order)) if order > 2 else None


@dataclass(frozen=True, eq=False)
class Nodes:
    """Quadrature nodes of a reconstruction: exact for polynomials of its degree in each cell.

    reconstruction : Reconstruction, of degree k

    Each cell keeps as many nodes as there are polynomials (10, 21, 36 for degree 3, 5, 7), chosen
    among those of the mesh's rule (Tchakaloff's theorem: positive weights suffice).
    """

    reconstruction: Reconstruction

    @cached_property
    def _quadrature(self) -> tuple[Array, Array]:
        """Nodes (N, q, d) and weights (N, q)."""
        mesh, k = self.reconstruction.mesh, self.reconstruction.choice.degree
        full = mesh.quadrature(k)
        if mesh.ambient_dim == 2:  # Gauss points of arcs are as few as can be
            shape = (mesh.n_cells, -1)
            # Copies are writeable, like the nodes below: kernels compile for one kind of array.
            return full.points.reshape(*shape, 2).copy(), full.weights.reshape(shape).copy()
        size = self.reconstruction.n_monomials + 1
        points, weights = np.empty((mesh.n_cells, size, 3)), np.empty((mesh.n_cells, size))
        kernels.compressed(
            k,
            tangent_frame(mesh.centroids),
            1.0 / mesh.cell_radii,
            full.points,
            full.weights,
            full.offsets,
            points,
            weights,
        )
        return points, weights

    @property
    def points(self) -> Array:
        """(N, q, d) unit vectors in the cells."""
        return self._quadrature[0]

    @property
    def weights(self) -> Array:
        """(N, q) weights >= 0, summing to the areas."""
        return self._quadrature[1]

    @cached_property
    def _rows(self) -> Array:
        """(N, q, S) rows of the reconstruction at the nodes, means removed.

        The polynomial's mean by the nodes misses the cell's average by the error of the rule;
        without that the masses add up to the cell's mass to rounding.
        """
        n, q, d = self.points.shape
        offsets = (q * np.arange(n + 1)).astype(np.int32)
        rows = self.reconstruction.weights(self.points.reshape(-1, d), offsets).reshape(n, q, -1)
        shares = self.weights / self.weights.sum(axis=1, keepdims=True)
        rows -= np.einsum("nq,nqs->ns", shares, rows)[:, None]
        return rows

    def masses(self, rho: Array) -> Array:
        """(N, q) masses >= 0 at the nodes, summing to rho * areas in each cell."""
        out = np.empty(self.weights.shape)
        kernels.node_masses(rho, self.reconstruction.stencils[0], self._rows, self.weights, out)
        return out
