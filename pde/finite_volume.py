"""Finite volumes: the equation for cell averages of the density.

    A_i d rho_i/dt = - sum_e int_e rho u.n ds  (+ two-point diffusion),

with rho on an edge taken from the polynomials of its two cells (`reconstruction`), the upwind one
most or alone, u the field's velocity, and the integral by Gauss points. A right-hand side is:
measure, velocity, fluxes, divergence.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array, one_of, real_array
from pde.equation import Equation
from pde.field import UndefinedQuantity
from pde.kernels import fluxes as kernels
from pde.limiters import LIMITERS, Transport
from pde.measure import Measure
from pde.nodes import Nodes
from pde.reconstruction import ORDERS, Indices, Reconstruction
from pde.system import Initial

COURANT = 0.8
"""Fraction of the upwind bound taken as step: outflow limiting then leaves smooth data alone."""

FINE_COURANT = 0.5
"""The same for order 8, whose error would otherwise be the time step's alone."""

VELOCITY_AT = ("centroids", "edges")


@dataclass(frozen=True, eq=False)
class FiniteVolumeStage:
    """Edge velocities at one time and state.

    fluxes : (E, n) integrated normal velocities; bound : the upwind positivity bound
    """

    system: FiniteVolume
    state: Array
    fluxes: Array
    bound: float

    @property
    def stable_step(self) -> float:
        """The Courant fraction of the bound."""
        return self.system.courant * self.bound

    def rhs(self, dt: float | None = None) -> Array:
        """The tendency, like the state (N,) or (N, k), limited for an Euler step `dt`."""
        system = self.system
        # Writeable like every other array of a state: kernels compile for one kind.
        fields = np.require(self.state.reshape(system.mesh.n_cells, -1).T, requirements=["C", "W"])
        tendency = system.transport.tendency(fields, self.fluxes, dt, system.limiter)
        return np.ascontiguousarray(tendency.T).reshape(self.state.shape)


class FiniteVolume:
    """`equation` on the cells of `mesh`.

    mesh : SphereMesh, on the sphere (d = 3) or the circle (d = 2)
    equation : Equation; its diffusion must be a number
    order : 1, 2, 3, 4, 6 or 8 in space
    limiter : "positivity" keeps densities >= 0 at every step; "monotone" keeps them within the
        range of their neighbours, for non-divergent flow; None
    velocity_at : "edges" evaluates the field at the edges' Gauss points; "centroids" at the
        centroids and interpolates to the edges, with a third (order 2) to a ninth (order 8) of
        the evaluations. None: centroids for nonlocal fields up to order 2, where the error is
        the same at half the time; edges otherwise: where beta h > 1 interpolation costs accuracy

    A state is (N,) cell averages of the density with respect to surface area, or (N, k) for k
    densities that ride the velocity of the first one together.
    """

    tolerance = None

    def __init__(
        self,
        mesh: SphereMesh,
        equation: Equation,
        order: int = 2,
        limiter: str | None = "positivity",
        velocity_at: str | None = None,
    ) -> None:
        if callable(equation.diffusion):
            raise ValueError(
                "equation.diffusion must be a number for finite volumes, got a function"
            )
        self.mesh = mesh
        self.equation = equation
        self.order = one_of("order", order, ORDERS)
        self.courant = FINE_COURANT if order == 8 else COURANT
        self.limiter = one_of("limiter", limiter, LIMITERS)
        if velocity_at is None:
            coarse = order <= 2 and equation.field.is_nonlocal
            velocity_at = "centroids" if coarse else "edges"
        self.velocity_at = one_of("velocity_at", velocity_at, VELOCITY_AT)
        self.reconstruction = Reconstruction(mesh, order)
        self.transport = Transport(
            mesh,
            self.reconstruction.stencils[0],
            self.reconstruction.edge_weights,
            self.reconstruction.choice.downwind_share,
            equation.diffusion * mesh.edge_lengths / mesh.edge_distances,
        )

    @cached_property
    def edges(self) -> Any:
        """Gauss points of the edges."""
        return self.mesh.edge_quadrature(self.reconstruction.choice.gauss_points)

    def fluxes(self, t: float, state: Array) -> Array:
        """(E, n) integrated normal velocities at the edges' Gauss points."""
        field, edges = self.equation.field, self.edges
        mu = self.measure(state) if field.is_nonlocal else None
        if self.velocity_at == "edges":
            return edges.weights * field.normal_velocity(edges, mu, t)
        out = np.empty(edges.weights.shape)
        stencils, weights = self._interpolation
        kernels.edge_fluxes(
            field.velocity(self.mesh.centroids, mu, t),
            stencils,
            weights,
            self.mesh.edge_cells,
            self.edge_sides,
            edges.normals,
            edges.weights,
            out,
        )
        return out

    @cached_property
    def nodes(self) -> Nodes:
        """Quadrature nodes of the cells that carry the reconstruction, for nonlocal fields."""
        return Nodes(self.reconstruction)

    @cached_property
    def _interpolation(self) -> tuple[Indices, Array]:
        """Stencils and rows for the velocity at the edges, from its values at the centroids.

        One order above the scheme's: there is no upwind side, and values cost more than weights.
        """
        order = {1: 2, 2: 4, 3: 4, 4: 6}.get(self.order, 8)
        polynomials = Reconstruction(self.mesh, order, of_points=True)
        rows = polynomials.at_edges(self.reconstruction.choice.gauss_points)
        return polynomials.stencils[0], rows

    @cached_property
    def edge_sides(self) -> Indices:
        """(E, 2) positions of each edge in `cell_edges`: its first and its second cell's."""
        mesh = self.mesh
        sides = np.empty((mesh.n_edges, 2), np.int32)
        position = np.arange(len(mesh.cell_edges), dtype=np.int32)
        sides[mesh.cell_edges, np.where(mesh.cell_edge_signs > 0, 0, 1)] = position
        return sides

    def stage(self, t: float, state: Array) -> FiniteVolumeStage:
        """Velocity and bound at (t, state)."""
        fluxes = self.fluxes(t, state)
        fastest = float(self.transport.rates(fluxes).max())
        return FiniteVolumeStage(self, state, fluxes, 1.0 / fastest if fastest > 0 else np.inf)

    def rhs(self, t: float, state: Any) -> Array:
        """Tendency of the cell averages, not limited by any step."""
        return self.stage(t, self._shaped(state)).rhs()

    def stable_step(self, t: float, state: Any) -> float:
        """The step taken by default: COURANT times the upwind positivity bound."""
        return self.stage(t, self._shaped(state)).stable_step

    def project(self, state: Array) -> Array:
        """The state itself: cell averages have no constraint to return to."""
        return state

    def norm(self, difference: Array) -> float:
        """Integral of |difference|, the largest of the fields."""
        return float(np.max(self.mesh.areas @ np.abs(difference)))

    def measure(self, state: Any) -> Measure:
        """The density (the first of k) as a measure whose quadrature has the scheme's order.

        Order 1 and 2: the cells' masses at their centroids. Beyond: nodes in each cell with the
        limited reconstruction's values, see `Nodes`; the masses of a cell's nodes sum to its own.
        """
        state = self._shaped(state)
        rho = np.array(state if state.ndim == 1 else state[:, 0])
        if self.order <= 2:
            return Measure(self.mesh.centroids, rho * self.mesh.areas)
        points = self.nodes.points.reshape(-1, self.mesh.ambient_dim)
        return Measure(points, self.nodes.masses(rho).reshape(-1))

    def _shaped(self, state: Any) -> Array:
        rho = real_array("state", state)
        if rho.ndim not in (1, 2) or len(rho) != self.mesh.n_cells or rho.size == 0:
            raise ValueError(
                f"state must have shape ({self.mesh.n_cells},) or ({self.mesh.n_cells}, k), "
                f"one average for each cell, got {rho.shape}"
            )
        return rho

    def initial_state(self, given: Initial) -> Array:
        """Cell averages >= 0 from an array of them or from a function of points.

        Raises ValueError for wrong shapes, NaN, negative densities and densities without mass.
        """
        if callable(given):
            given = self.mesh.average(given)
        rho = self._shaped(given)
        if rho.min() < 0.0:
            where = tuple(int(i) for i in np.argwhere(rho == rho.min())[0])
            raise ValueError(f"state must be >= 0, got {rho.min():.6g} at index {where}")
        if not (self.mesh.areas @ rho > 0.0).all():
            raise ValueError("state must have mass, got a density that is 0 on all cells")
        return rho.copy()

    def diagnostics(self, t: float, state: Array) -> dict[str, float]:
        """mass, entropy int rho log(rho |S|) and energy of the first density, minimum, maximum.

        energy is there where the field defines one; it costs a sum over all pairs of nodes.
        """
        areas = self.mesh.areas
        rho = state if state.ndim == 1 else state[:, 0]
        held = rho > 0
        logs = np.log(rho[held] * self.mesh.total_area)
        found = {
            "mass": float(areas @ rho),
            "minimum": float(state.min()),
            "maximum": float(state.max()),
            "entropy": float((areas[held] * rho[held]) @ logs),
        }
        with contextlib.suppress(UndefinedQuantity):
            found["energy"] = self.equation.field.energy(self.measure(state))
        return found
