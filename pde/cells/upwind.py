"""Tendencies from edge fluxes: unlimited, positive, monotone.

Positivity (`positivity`): values at edges are cut at zero, and the outflow of a cell is scaled to
what it holds where an Euler step of length dt would take more. Cutting brings a value closer to
any density >= 0, and neither acts on smooth positive data, so no order is lost; and nothing is
done about maxima, which grow legitimately where mass concentrates. The share of the downwind side
in an edge value (orders 3 and up) fades where the two sides disagree: there it would cost more
than it brings (W2 to the exact solution at late times, order 4: 0.73 widths without fading, 0.58
with it, `python -m validation.late_times`; Gaussian hills lose 4% at 10,242 cells).

Monotonicity (`monotone`): flux-corrected transport, Zalesak, J. Comput. Phys. 31 (1979). The
high-order flux is the upwind flux plus a correction, and of each correction the share is taken
that keeps both cells within bounds: the range of the whole field, and the range of their
neighbours before and after an upwind step, widened by a quarter. Without the widening smooth
ridges are flattened, for the true maximum lies between cells.

Both are properties of a forward-Euler step no longer than the upwind bound; strong-stability
preserving steppers inherit them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh
from pde.arguments import Array
from pde.cells.reconstruction import Indices
from pde.kernels import fluxes as kernels

WIDENING = 0.25
"""Share of its range by which a neighbourhood may be left, within that of the whole field."""

LIMITERS = ("positivity", "monotone", None)


def cell_tables(mesh: SphereMesh) -> tuple[Indices, Indices, NDArray[np.int8]]:
    """Where each cell's edges begin, which they are and how they point, as kernels take them."""
    return mesh.cell_edge_offsets, mesh.cell_edges, mesh.cell_edge_signs


def gathered(mesh: SphereMesh, flows: Array) -> Array:
    """(k, N) what enters less what leaves each cell, per area.

    flows : (k, E, 2) what leaves the first and the second cell of each edge
    """
    out = np.empty((len(flows), mesh.n_cells))
    kernels.divergence(flows, *cell_tables(mesh), mesh.areas, out)
    return out


@dataclass(frozen=True, eq=False)
class Transport:
    """Fluxes of one mesh and reconstruction: densities and edge velocities to tendencies.

    mesh : SphereMesh
    stencils : (N, S) neighbours; edge_weights : (2E * n, S), see `Reconstruction`
    downwind_share : of the downwind cell's value in what an edge carries, 0 to 1/2
    exchange : (E,) edge_lengths / edge_distances of the two-point diffusion

    In what follows `fluxes` are the (E, n) integrated normal velocities at the edges' Gauss
    points, and `diffusion` the (N,) values D_i of cells: D_i rho_i - D_j rho_j is exchanged.
    """

    mesh: SphereMesh
    stencils: Indices
    edge_weights: Array
    downwind_share: float
    exchange: Array

    def rates(self, fluxes: Array, diffusion: Array) -> Array:
        """(N,) outflow rate of each cell at unit density."""
        out = np.empty(self.mesh.n_cells)
        kernels.outflow_rates(fluxes, self.exchange, diffusion, *self._cells, self.mesh.areas, out)
        return out

    def tendency(
        self, rho: Array, fluxes: Array, diffusion: Array, dt: float | None, limiter: str | None
    ) -> Array:
        """(k, N) tendency of the averages rho (k, N).

        dt : length of the Euler step that has to stay admissible; None: no limit from it
        """
        if limiter == "monotone" and dt is not None:
            return self._divergence(self._corrected(rho, fluxes, diffusion, dt))
        positive = limiter == "positivity"
        return self._divergence(self._outflows(rho, fluxes, diffusion, dt or 0.0, positive))

    @property
    def _cells(self) -> tuple[Indices, Indices, NDArray[np.int8]]:
        return cell_tables(self.mesh)

    @cached_property
    def across(self) -> Indices:
        """(2E,) for each local edge (cell, edge) the position of the other cell's."""
        first_and_second = np.argsort(self.mesh.cell_edges, kind="stable").reshape(-1, 2)
        out = np.empty(len(self.mesh.cell_edges), np.int32)
        out[first_and_second] = first_and_second[:, ::-1]
        return out

    def _outflows(
        self, rho: Array, fluxes: Array, diffusion: Array, dt: float, positive: bool
    ) -> Array:
        share = self.downwind_share
        sides = np.empty((len(rho), len(self.edge_weights)))
        kernels.side_values(
            rho, fluxes, self.stencils, self.edge_weights, *self._cells, share > 0.0, sides
        )
        out = np.empty((len(rho), self.mesh.n_edges, 2))
        kernels.outflows(
            rho,
            sides,
            self.across,
            fluxes,
            self.exchange,
            diffusion,
            *self._cells,
            self.mesh.areas,
            share,
            positive,
            dt,
            out,
        )
        return out

    def _divergence(self, flows: Array) -> Array:
        return gathered(self.mesh, flows)

    def _corrected(self, rho: Array, fluxes: Array, diffusion: Array, dt: float) -> Array:
        """Upwind outflows plus the admissible share of the corrections."""
        mesh = self.mesh
        flows = np.empty((len(rho), mesh.n_edges, 2))
        kernels.upwind_flows(rho, fluxes, self.exchange, diffusion, mesh.edge_cells, flows)
        low = rho + dt * self._divergence(flows)
        high = self._outflows(rho, fluxes, diffusion, 0.0, False)
        corrections = (high[..., 0] - high[..., 1]) - (flows[..., 0] - flows[..., 1])
        ranges = np.stack(
            [np.minimum(rho, low).min(axis=1), np.maximum(rho, low).max(axis=1)], axis=1
        )
        raise_by, lower_by = np.empty_like(rho), np.empty_like(rho)
        kernels.transport_factors(
            rho,
            low,
            corrections,
            ranges,
            WIDENING,
            *self._cells,
            mesh.cell_neighbours,
            mesh.areas,
            dt,
            raise_by,
            lower_by,
        )
        first, second = mesh.edge_cells.T
        share = np.where(
            corrections > 0.0,
            np.minimum(lower_by[:, first], raise_by[:, second]),
            np.minimum(raise_by[:, first], lower_by[:, second]),
        )
        flows[..., 0] += share * corrections
        return flows
