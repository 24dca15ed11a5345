"""k-exact reconstruction: polynomials from cell averages, values as weighted differences.

On each cell i the average-preserving polynomial p_i of degree k = order - 1 minimises

    sum_j (<p_i>_j - rho_j)^2 / d_ij^(2 q)        over the cells j of the stencil,

with <.>_j the average over cell j (exact moments, by quadrature) and d_ij the distance of the
cells' centroids, q the order's `decay`. It lives in the cell's tangent plane: two variables on
the sphere, one on the circle. A polynomial of degree k is reproduced: values are of order k + 1.

A value at a point is rho_i + sum_j w_j (rho_j - rho_i): a constant comes out exactly, and one row
of weights for each point is all that a time step reads.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh
from meshes.geometry import tangent_frame
from meshes.quadrature import CellQuadrature
from meshes.sphere_mesh import read_only
from pde.arguments import Array, one_of
from pde.kernels import reconstruction as kernels

Indices = NDArray[np.int32]


class Choice(NamedTuple):
    """What an order means: degree, stencil, quadrature, and two numbers found by measuring.

    `decay` and `downwind_share` minimise the errors of `validation.transport_suite` (Gaussian
    hills, order 4, 10,242 cells: l2 0.098 with decay 2 and share 0, 0.043 with 4 and 0.4).
    """

    degree: int
    rings: int
    """The stencil is all cells within this many edges: 6, 18, 36, 60 neighbours in a hexagonal
    mesh. Whole rings keep the symmetry of the mesh, and cannot tie."""
    gauss_points: int
    """Points on each edge of the sphere's cells; the circle's edges are points."""
    moments: int
    """Degree of the quadrature of the cells' moments."""
    decay: float
    """Residuals are weighted by distance to the power -decay."""
    downwind_share: float
    """Weight of the downwind cell's value in what an edge carries, the upwind one's is the rest:
    1/2 would be centred. The upwind excess 1 - 2 share damps what the mesh does not resolve, and
    a fifth of it does so: from 492 cells on (48 on the circle), eigenvalues of rotation keep real
    parts <= 1e-5 / Euler bound. After Skamarock, Gassmann, Mon. Weather Rev. 139 (2011), who blend
    likewise."""
    reach: float
    """Largest angle, in degrees, between a cell and the cells of its stencil. Polynomials of the
    tangent plane see the sphere up to a quarter turn; on stencils that come near it an order is no
    better than the one below (measured: order 6 at 77 degrees, order 8 at 57)."""


CHOICES = {
    1: Choice(
        degree=0, rings=0, gauss_points=1, moments=1, decay=2.0, downwind_share=0.0, reach=75.0
    ),
    2: Choice(
        degree=1, rings=1, gauss_points=1, moments=2, decay=2.0, downwind_share=0.0, reach=91.0
    ),
    3: Choice(
        degree=2, rings=1, gauss_points=2, moments=2, decay=2.0, downwind_share=0.4, reach=75.0
    ),
    4: Choice(
        degree=3, rings=2, gauss_points=2, moments=4, decay=4.0, downwind_share=0.4, reach=75.0
    ),
    6: Choice(
        degree=5, rings=3, gauss_points=2, moments=6, decay=3.0, downwind_share=0.4, reach=71.5
    ),
    8: Choice(
        degree=7, rings=4, gauss_points=3, moments=8, decay=2.0, downwind_share=0.4, reach=56.0
    ),
}
ORDERS = tuple(CHOICES)

DEGENERATE = 1e-9
"""Smallest sine of the angle between a column of a fit and those before it."""


def ring_stencils(mesh: SphereMesh, rings: int) -> tuple[Indices, Indices]:
    """The cells within `rings` edges of each cell, itself left out.

    Returns (N, S) neighbours, rows padded with the cell itself, and (N,) how many are used.
    """
    counts = np.empty(mesh.n_cells, np.int32)
    offsets, neighbours = mesh.cell_edge_offsets, mesh.cell_neighbours
    most_edges = int(np.diff(offsets).max())
    most = 1 + most_edges * rings * max(most_edges - 1, 1) ** max(rings - 1, 0)
    most = min(most, mesh.n_cells)
    nothing = np.empty((mesh.n_cells, 0), np.int32)
    kernels.ring_stencils(rings, offsets, neighbours, most, nothing, counts)
    stencils = np.empty((mesh.n_cells, int(counts.max())), np.int32)
    kernels.ring_stencils(rings, offsets, neighbours, most, stencils, counts)
    return stencils, counts


def finest_fit(mesh: SphereMesh, order: int, of_points: bool = False) -> Reconstruction:
    """The reconstruction of that order, or of the largest below it that the mesh allows.

    For what helps a scheme, such as velocities between the centroids; schemes have their own order.
    """
    for lower in sorted((o for o in ORDERS if o <= order), reverse=True):
        with contextlib.suppress(ValueError):
            return Reconstruction(mesh, lower, of_points)
    return Reconstruction(mesh, 1, of_points)


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The polynomials of one order on a mesh.

    mesh : SphereMesh
    order : 1, 2, 3, 4, 6 or 8
    of_points : the given numbers are values at the centroids instead of cell averages

    Raises ValueError for other orders and for meshes too small for the order's stencils.
    """

    mesh: SphereMesh
    order: int
    of_points: bool = False

    def __post_init__(self) -> None:
        one_of("order", self.order, ORDERS)
        if wrong := self._misfit():
            raise ValueError(
                f"order {self.order} needs {wrong}; take a finer mesh or a lower order"
            )

    def _misfit(self) -> str:
        """What the mesh, too small for the order, lacks; "" where it is fine enough."""
        mesh, (stencils, counts) = self.mesh, self.stencils
        if counts.min() < self.n_monomials:
            return (
                f"{self.n_monomials} neighbours within {self.choice.rings} rings of each cell, "
                f"the mesh of {mesh.n_cells} cells has {counts.min()}"
            )
        nearness = [np.einsum("nd,nd->n", mesh.centroids, mesh.centroids[j]) for j in stencils.T]
        reach = float(np.degrees(np.arccos(np.clip(np.min(nearness, initial=1.0), -1.0, 1.0))))
        if reach > self.choice.reach:
            return (
                f"cells within {self.choice.rings} rings to be within {self.choice.reach:g} "
                f"degrees, on the mesh of {mesh.n_cells} cells they reach round the sphere to "
                f"{reach:.0f}"
            )
        return ""

    @property
    def choice(self) -> Choice:
        """Degree, stencil and quadrature of this order."""
        return CHOICES[self.order]

    @property
    def n_monomials(self) -> int:
        """Number of monomials of a polynomial, the constant left out."""
        k = self.choice.degree
        return k if self.mesh.ambient_dim == 2 else (k + 1) * (k + 2) // 2 - 1

    @cached_property
    def stencils(self) -> tuple[Indices, Indices]:
        """(N, S) neighbours, padded with the cell itself, and (N,) their numbers."""
        return ring_stencils(self.mesh, self.choice.rings)

    @property
    def _nodes(self) -> CellQuadrature:
        """Quadrature of the averages; a single node in each cell for point values."""
        mesh = self.mesh
        if not self.of_points:
            return mesh.quadrature(self.choice.moments)
        offsets = np.arange(mesh.n_cells + 1, dtype=np.int32)
        return CellQuadrature(mesh.centroids, mesh.areas, read_only(offsets))

    def weights(self, targets: Array, offsets: Indices) -> Array:
        """Rows of weights: p_i at a target is rho_i + row . (rho[stencil_i] - rho_i).

        targets : (T, d) points, those of cell i in offsets[i] : offsets[i + 1]
        Returns (T, S). Raises ValueError where a cell's fit is degenerate.
        """
        mesh, (stencils, counts) = self.mesh, self.stencils
        out = np.empty((len(targets), stencils.shape[1]))
        if out.size == 0:
            return out
        nodes = self._nodes
        quality = np.empty(mesh.n_cells)
        kernels.value_weights(
            self.choice.degree,
            self.n_monomials,
            self.choice.decay,
            tangent_frame(mesh.centroids),
            mesh.centroids,
            stencils,
            counts,
            nodes.points,
            nodes.weights,
            nodes.offsets,
            targets,
            offsets,
            out,
            quality,
        )
        worst = int(np.argmin(quality))
        if quality[worst] < DEGENERATE:
            raise ValueError(
                f"the mesh does not determine polynomials of order {self.order}: "
                f"the fit on cell {worst} is degenerate ({quality[worst]:.1e})"
            )
        return out

    @cached_property
    def edge_weights(self) -> Array:
        """(2E * n, S) rows for the n Gauss points of each local edge, in `cell_edges` order."""
        return self.at_edges(self.choice.gauss_points)

    def at_edges(self, gauss_points: int) -> Array:
        """`edge_weights` for another number of Gauss points."""
        mesh = self.mesh
        gauss = mesh.edge_quadrature(gauss_points).points
        n = gauss.shape[1]
        targets = gauss[mesh.cell_edges].reshape(-1, mesh.ambient_dim)
        return self.weights(targets, (n * mesh.cell_edge_offsets).astype(np.int32))
