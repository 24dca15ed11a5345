"""Finite volumes: the equation for cell averages of the density.

    A_i d rho_i/dt = - sum_e int_e rho u.n ds  + sum_e (l_e / d_e) (D_j rho_j - D_i rho_i),

with rho on an edge taken from the polynomials of its two cells (`reconstruction`), the upwind one
most or alone, u the field's velocity, and the integral by Gauss points. Diffusion goes through
edges of length l_e between centres d_e apart, which the Voronoi cells' edges cut at right angles.
A right-hand side is: measure, velocity, fluxes, divergence.

With diffusion and up to order 2 both go through an edge together (`drift_diffusion`), and steps are
implicit: where diffusion would bound the step, at v h < D, that is second order, and where it is
not, diffusion bounds no step and a higher order with explicit steps is the better choice.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import LARGEST_ENTRY, Array, instance, number, one_of, real_array
from pde.cells.nodes import Nodes, cell_measure
from pde.cells.reconstruction import ORDERS, Indices, Reconstruction, finest_fit
from pde.cells.scharfetter_gummel import Exchange, fields_of, state_of
from pde.cells.upwind import LIMITERS, Transport
from pde.equation import Equation
from pde.field import UndefinedQuantity, normal_velocity_of, potential_of, velocity_of
from pde.kernels import fluxes as kernels
from pde.measure import Measure
from pde.time.contracts import Initial
from pde.time.steppers import explicit_for

COURANT = 0.8
"""Fraction of the upwind bound taken as step: outflow limiting then leaves smooth data alone."""

FINE_COURANT = 0.5
"""The same for order 8, whose error would otherwise be the time step's alone."""

IMPLICIT_TOLERANCE = 1e-4
"""Largest estimated error of an implicit step, as a share of the mass; the estimate is that of
first order. The error in time is then below that in space up to about 160,000 cells.
"""

ACCURACY = {1: 4e-3, 2: 1.2e-3, 3: 2.4e-4, 4: 3e-6, 6: 1e-6, 8: 5e-7}
"""Relative error in time of a velocity that grows, for each factor e, on 1,002 cells, by the order
in space, or in time where that is lower. On finer meshes it falls with the error in space (order 1:
near rest that is none)."""

REFERENCE_WIDTH = 0.12
"""h of those 1,002 cells, in radians."""

WORST_ACCURACY = 4e-3
"""However coarse the mesh."""

VELOCITY_AT = ("centroids", "edges")


@dataclass(frozen=True, eq=False)
class FiniteVolumeStage:
    """Edge velocities at one time and state.

    fluxes : (E, n) integrated normal velocities; diffusion : (N,) D at the cells' centres
    """

    system: FiniteVolume
    state: Array
    fluxes: Array
    diffusion: Array

    @cached_property
    def bound(self) -> float:
        """The positivity bound of a forward-Euler upwind step."""
        return _inverse(self.system.transport.rates(self.fluxes, self.diffusion).max())

    @property
    def stable_step(self) -> float:
        """The Courant fraction of the bound."""
        return self.system.courant * self.bound

    def rhs(self, dt: float | None = None) -> Array:
        """The tendency, like the state (N,) or (N, k), limited for an Euler step `dt`."""
        system = self.system
        tendency = system.transport.tendency(
            fields_of(self.state), self.fluxes, self.diffusion, dt, system.limiter
        )
        return state_of(tendency, self.state)

    @cached_property
    def velocity(self) -> Array:
        """(E,) integrated normal velocities; with a D that varies (2, E), the exchange below."""
        system, flux = self.system, self.fluxes.sum(axis=1)
        if not callable(system.equation.diffusion):
            return flux
        mean = self.diffusion[system.mesh.edge_cells].mean(axis=1)
        return np.stack([flux, system.transport.exchange * mean])

    def accuracy(self, order: int) -> float:
        """The system's."""
        return self.system.accuracy(order)

    @property
    def width(self) -> float:
        """The cells'."""
        return self.system.mesh.spacing

    def speed(self, velocity: Array) -> float:
        """Mean over the mass."""
        # Not by a product of BLAS, whose rounding depends on the number of its threads.
        return float(np.sum(np.abs(velocity) * self._moments))

    @cached_property
    def _moments(self) -> Array:
        """(E,) mass and distance that a flux of volume through each edge moves."""
        mesh = self.system.mesh
        rho = np.abs(fields_of(self.state)).sum(axis=0)
        return mesh.edge_distances * rho[mesh.edge_cells].mean(axis=1) / np.sum(mesh.areas * rho)


@dataclass(frozen=True, eq=False)
class DriftDiffusionStage:
    """The Scharfetter-Gummel operator at one time and state."""

    system: FiniteVolume
    state: Array
    generator: Exchange

    @cached_property
    def bound(self) -> float:
        """The positivity bound of a forward-Euler step; implicit steps have none."""
        return _inverse(self.generator.rates().max())

    @property
    def stable_step(self) -> float:
        """The Courant fraction of the bound."""
        return self.system.courant * self.bound

    @property
    def is_positive(self) -> bool:
        """Whether implicit steps are limited to keep the state >= 0; explicit ones do anyway."""
        return self.system.limiter is not None

    def rhs(self, dt: float | None = None) -> Array:
        """The tendency, like the state (N,) or (N, k)."""
        return self.generator.apply(self.state)

    @cached_property
    def velocity(self) -> Array:
        """(k, E) net flows of mass through the edges, for drift and diffusion together."""
        return np.stack([self.generator.net_flows(rho) for rho in fields_of(self.state)])

    def accuracy(self, order: int) -> float:
        """The system's."""
        return self.system.accuracy(order)

    @property
    def width(self) -> float:
        """0: implicit steps are not measured by cells."""
        return 0.0

    def speed(self, velocity: Array) -> float:
        """Mean over the mass."""
        mesh = self.system.mesh
        mass = np.sum(mesh.areas * np.abs(fields_of(self.state)).sum(axis=0))
        return float(np.sum(np.abs(velocity) * mesh.edge_distances) / mass)


class FiniteVolume:
    """`equation` on the cells of `mesh`.

    mesh : SphereMesh, on the sphere (d = 3) or the circle (d = 2)
    equation : Equation; with diffusion, orders 1 and 2 are the Scharfetter-Gummel scheme, and
        higher orders reconstruct the drift and add the two-point diffusion, itself second order
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

    noise = None

    def __init__(
        self,
        mesh: SphereMesh,
        equation: Equation,
        order: int = 2,
        limiter: str | None = "positivity",
        velocity_at: str | None = None,
    ) -> None:
        self.mesh = instance("mesh", mesh, SphereMesh)
        self.equation = instance("equation", equation, Equation)
        if equation.field.dim not in (None, mesh.ambient_dim):
            raise ValueError(
                f"equation must be of dimension {mesh.ambient_dim} like mesh, "
                f"got a field of d = {equation.field.dim}"
            )
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
            mesh.edge_lengths / mesh.edge_distances,
        )

    def __repr__(self) -> str:
        return f"FiniteVolume({self.mesh!r}, {self.equation!r}, order={self.order})"

    @property
    def is_drift_diffusion(self) -> bool:
        """Whether drift and diffusion go through edges together, and steps are implicit."""
        return self.order <= 2 and self.equation.diffusion != 0.0

    @property
    def default_stepper(self) -> str:
        """ "implicit" for drift and diffusion together, else the explicit one of the order."""
        return "implicit" if self.is_drift_diffusion else explicit_for(self.order)

    @property
    def tolerance(self) -> float | None:
        """Of implicit steps; the state of explicit ones is limited by the bound."""
        return IMPLICIT_TOLERANCE if self.is_drift_diffusion else None

    def accuracy(self, order: int) -> float:
        """Of velocities in time, with a stepper of that order; see ACCURACY."""
        order = 2 if self.is_drift_diffusion else min(self.order, order if order < 4 else 8)
        finer = self.mesh.spacing / REFERENCE_WIDTH if order > 1 else 1.0
        return float(min(ACCURACY[order] * finer**order, WORST_ACCURACY))

    @property
    def is_autonomous(self) -> bool:
        """Whether the equation is known not to depend on time by itself."""
        return self.equation.is_autonomous

    @cached_property
    def edges(self) -> Any:
        """Gauss points of the edges."""
        return self.mesh.edge_quadrature(self.reconstruction.choice.gauss_points)

    def fluxes(self, t: float, mu: Measure | None) -> Array:
        """(E, n) integrated normal velocities at the edges' Gauss points."""
        field, edges = self.equation.field, self.edges
        if self.velocity_at == "edges":
            return edges.weights * normal_velocity_of(field, edges, mu, t)
        out = np.empty(edges.weights.shape)
        stencils, weights = self._interpolation
        kernels.edge_fluxes(
            velocity_of(field, self.mesh.centroids, mu, t),
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
    def nodes(self) -> Nodes | None:
        """Quadrature nodes of the cells that carry the reconstruction; None up to order 2."""
        return Nodes(self.reconstruction) if self.order > 2 else None

    @cached_property
    def _interpolation(self) -> tuple[Indices, Array]:
        """Stencils and rows for the velocity at the edges, from its values at the centroids.

        One order above the scheme's, where the mesh is fine enough: there is no upwind side, and
        values cost more than weights.
        """
        order = {1: 2, 2: 4, 3: 4, 4: 6}.get(self.order, 8)
        polynomials = finest_fit(self.mesh, order, of_points=True)
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

    def drift(self, t: float, mu: Measure | None) -> Array:
        """(E,) integrated normal velocities, from differences of the potential where it has one."""
        try:
            potential = potential_of(self.equation.field, self.mesh.centers, mu, t)
        except UndefinedQuantity:
            return self.fluxes(t, mu).sum(axis=1)
        first, second = self.mesh.edge_cells.T
        return self.transport.exchange * (potential[second] - potential[first])

    def stage(self, t: float, state: Array) -> FiniteVolumeStage | DriftDiffusionStage:
        """Velocity and bound at (t, state)."""
        equation = self.equation
        mu = self.measure(state) if equation.is_nonlocal else None
        diffusion = equation.diffusion_at(self.mesh.centers, mu, t)
        if not self.is_drift_diffusion:
            return FiniteVolumeStage(self, state, self.fluxes(t, mu), diffusion)
        generator = Exchange.scharfetter_gummel(self.mesh, self.drift(t, mu), diffusion)
        return DriftDiffusionStage(self, state, generator)

    def rhs(self, t: float, state: Any) -> Array:
        """Tendency of the cell averages, not limited by any step."""
        return self.stage(number("t", t), self._shaped(state)).rhs()

    def stable_step(self, t: float, state: Any) -> float:
        """The step of explicit steppers: COURANT times the upwind positivity bound."""
        return self.stage(number("t", t), self._shaped(state)).stable_step

    def project(self, state: Array) -> Array:
        """The state itself: cell averages have no constraint to return to."""
        return state

    def norm(self, difference: Array) -> float:
        """Integral of |difference|, the largest of the fields."""
        sizes = np.abs(difference.reshape(len(difference), -1).T)
        return float(np.max(np.sum(self.mesh.areas * sizes, axis=1)))

    def measure(self, state: Any) -> Measure:
        """The density (the first of k) as a measure whose quadrature has the scheme's order.

        Order 1 and 2: the cells' masses at their centroids. Beyond: nodes in each cell with the
        limited reconstruction's values, see `Nodes`; the masses of a cell's nodes sum to its own.
        Where averages are negative, that of their positive part, scaled to the mass of all.
        """
        state = self._shaped(state)
        rho = np.array(state if state.ndim == 1 else state[:, 0])
        return cell_measure(self.mesh, rho, self.nodes)

    def _shaped(self, state: Any) -> Array:
        rho = real_array("state", state)
        if rho.ndim not in (1, 2) or len(rho) != self.mesh.n_cells or rho.size == 0:
            raise ValueError(
                f"state must have shape ({self.mesh.n_cells},) or ({self.mesh.n_cells}, k), "
                f"one average for each cell, got {rho.shape}"
            )
        largest = max(rho.max(), -rho.min())
        if largest > LARGEST_ENTRY:
            raise ValueError(
                f"state must hold averages up to {LARGEST_ENTRY:g} in size, got {largest:.3g}"
            )
        return rho

    def initial_state(self, given: Initial) -> Array:
        """Cell averages >= 0 from an array of them or from a function of points, its averages.

        Mass is kept as given, of functions too: nothing is scaled to 1.

        Raises ValueError for wrong shapes, NaN, negative densities and densities without mass, and
        for functions that the cells do not resolve or that give several numbers at a point.
        """
        if callable(given):
            given = self.mesh.average(given)
            if given.ndim != 1:
                raise ValueError(
                    f"state as a function must give one density (m,) at points (m, "
                    f"{self.mesh.ambient_dim}), got (m, {', '.join(map(str, given.shape[1:]))}); "
                    "for k densities give the array mesh.average(f)"
                )
        rho = self._shaped(given)
        if rho.min() < 0.0:
            where = tuple(int(i) for i in np.argwhere(rho == rho.min())[0])
            raise ValueError(f"state must be >= 0, got {rho.min():.6g} at index {where}")
        if not (self.mesh.areas @ rho > 0.0).all():
            raise ValueError("state must have mass, got a density that is 0 on all cells")
        return rho.copy()

    def diagnostics(self, t: float, state: Array) -> dict[str, float]:
        """mass, entropy int rho log(rho |S|) and energy of the first density, minimum, maximum.

        energy is there where the field defines one; it costs a sum over all pairs of nodes. So are,
        with a number D > 0, free_energy = D entropy - E for the energy E whose gradient drives the
        field, and dissipation = int rho |v - D grad log rho|^2 = -d free_energy / dt.
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
            found["energy"] = self.equation.field.energy(self.measure(state), t)
        if self.is_drift_diffusion and not callable(self.equation.diffusion):
            with contextlib.suppress(UndefinedQuantity):
                driving = self.equation.field.driving_energy(self.measure(state), t)
                found["free_energy"] = self.equation.diffusion * found["entropy"] - driving
                found["dissipation"] = self._dissipation(t, rho)
        return found

    def _dissipation(self, t: float, rho: Array) -> float:
        """Sum over the edges of flux times difference of the chemical potential D log rho - phi."""
        D = self.equation.diffusion
        assert not callable(D)
        drift = self.drift(t, self.measure(rho))
        Q = Exchange.scharfetter_gummel(self.mesh, drift, np.full(self.mesh.n_cells, D))
        first, second = self.mesh.edge_cells.T
        # Nothing flows through an edge of length 0.
        held = (rho[first] > 0.0) & (rho[second] > 0.0) & (self.transport.exchange > 0.0)
        # The drift is the potential's rise from the first to the second cell.
        rise = drift[held] / self.transport.exchange[held]
        fall = D * np.log(rho[first[held]] / rho[second[held]])
        return float(Q.net_flows(rho)[held] @ (fall + rise))


def _inverse(rate: float) -> float:
    """1 / rate; inf for rate 0."""
    return 1.0 / float(rate) if rate > 0.0 else np.inf
