"""Drift and diffusion through edges together: Scharfetter-Gummel fluxes.

The flux of d_t rho + div(rho v) = LaplaceBeltrami(D rho) from cell i to cell j, over an edge of
length l between centres d apart, for constant D and with the cell Peclet number p = v d / D:

    F = (D l / d) (B(-p) rho_i - B(p) rho_j),   B(p) = p / (e^p - 1)

(Scharfetter, Gummel, IEEE Trans. Electron Devices 16 (1969)). For small p it is the difference of
the densities and the mean of both times v, second order; for large p it is the upwind flux, first
order. With B(-p) = p + B(p) it reads: upwind, with the diffusion lowered from D to D B(|p|),

    F = l v+ rho_i - l v- rho_j + (l / d) D B(|p|) (rho_i - rho_j).

For D that varies (Ito's form) D_i rho_i - D_j rho_j is exchanged, lowered by as much as the smaller
of both allows, with D_min = min(D_i, D_j) and p = v d / D_min:

    F = l v+ rho_i - l v- rho_j + (l / d) (D_i rho_i - D_j rho_j
                                           - D_min (1 - B(|p|)) (rho_i - rho_j)).

All rates are >= 0, so densities stay >= 0. Where v d is the difference of a potential phi between
the centres and D is a number, the quotient of both rates is e^p: the Gibbs density e^{phi / D} has
no flux, to rounding. Without drift the density 1 / D has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array
from pde.cells.upwind import gathered


def fields_of(state: Array) -> Array:
    """(k, N) C-contiguous, writeable fields of a state (N,) or (N, k): what kernels compile for."""
    return np.require(state.reshape(len(state), -1).T, requirements=["C", "W"])


def state_of(fields: Array, like: Array) -> Array:
    """The state with these fields (k, N), shaped like another one."""
    return np.ascontiguousarray(fields.T).reshape(like.shape)


@dataclass(frozen=True, eq=False)
class Exchange:
    """The linear operator d rho/dt = Q rho of an exchange between neighbours.

    mesh : SphereMesh
    forth, back : (E,) rates >= 0: forth rho_i - back rho_j flows from the first cell of an edge to
        its second
    """

    mesh: SphereMesh
    forth: Array
    back: Array

    @classmethod
    def scharfetter_gummel(cls, mesh: SphereMesh, fluxes: Array, diffusion: Array) -> Exchange:
        """From integrated normal velocities (E,) = l v and D at the centres (N,)."""
        both = diffusion[mesh.edge_cells]
        shape = mesh.edge_lengths / mesh.edge_distances
        least = both.min(axis=1)
        lowered = shape * least * _bernoulli(np.abs(fluxes), shape * least)
        above = shape[:, None] * (both - least[:, None])
        forth = np.maximum(fluxes, 0.0) + lowered + above[:, 0]
        return cls(mesh, forth, np.maximum(-fluxes, 0.0) + lowered + above[:, 1])

    def rates(self) -> Array:
        """(N,) what leaves each cell per unit time, as a share of its mass."""
        return self._leaving / self.mesh.areas

    def apply(self, state: Array) -> Array:
        """Q rho for a state (N,) or (N, k)."""
        return state_of(gathered(self.mesh, self._flows(fields_of(state))), state)

    def net_flows(self, rho: Array) -> Array:
        """(E,) mass per unit time through each edge, from its first to its second cell."""
        first, second = self.mesh.edge_cells.T
        return self.forth * rho[first] - self.back * rho[second]

    def implicit_euler(self, dt: float) -> Callable[[Array], Array]:
        """The solver of (I - dt Q) new = old for states, factorised once.

        In masses the matrix is strictly diagonally dominant by columns and its off-diagonal
        entries are <= 0. Elimination without pivoting then keeps the signs, and both substitutions
        add numbers of one sign alone: states >= 0 stay >= 0, and small values keep their relative
        accuracy. The diagonal loses digits where dt times the rates is large, which shows in the
        mass (by 1e-16 dt times the fastest rate) and is mended there, along the solution.
        """
        from scipy.sparse.linalg import splu

        order, areas = self.mesh.dissection, self.mesh.areas[self.mesh.dissection, None]
        factors = splu(
            self._masses_matrix(dt),
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

        def solve(state: Array) -> Array:
            masses = state.reshape(len(state), -1)[order] * areas
            found = factors.solve(masses)
            sizes = np.abs(found)
            total = sizes.sum(axis=0)
            lost = masses.sum(axis=0) - found.sum(axis=0)
            found += sizes * np.divide(lost, total, out=np.zeros_like(lost), where=total > 0.0)
            new = np.empty_like(found)
            new[order] = found / areas
            return new.reshape(state.shape)

        return solve

    def conserving(self, new: Array, old: Array) -> Array:
        """`new` with the mass of `old`.

        What rounding lost is less than a digit of most cells and would add up over many steps; the
        heaviest cell takes it. The difference of two states close by tells it to far below that.
        """
        fields, before, areas = fields_of(new).copy(), fields_of(old), self.mesh.areas
        heaviest = np.argmax(areas * fields, axis=1)
        rows = np.arange(len(fields))
        fields[rows, heaviest] += ((before - fields) @ areas) / areas[heaviest]
        return state_of(fields, new)

    def corrected(self, state: Array, source: Array) -> Array:
        """state + Q source, as fluxes between cells, limited so that a state >= 0 stays >= 0.

        Where these would take more from a cell than it holds, all of them are scaled to that.
        """
        fields = fields_of(state)
        flows = self._flows(fields_of(source))
        net = flows[..., 0] - flows[..., 1]
        net *= self._shares(fields, net)
        flows[..., 0], flows[..., 1] = np.maximum(net, 0.0), np.maximum(-net, 0.0)
        return state_of(fields + gathered(self.mesh, flows), state)

    def _shares(self, fields: Array, net: Array) -> Array:
        """(k, E) the share of each flux that the cell which it leaves can give."""
        first, second = self.mesh.edge_cells.T
        n, areas = self.mesh.n_cells, self.mesh.areas
        shares = np.empty_like(net)
        for rho, flux, share in zip(fields, net, shares, strict=True):
            taken = np.bincount(first, np.maximum(flux, 0.0), n)
            taken += np.bincount(second, np.maximum(-flux, 0.0), n)
            held = (1.0 - 1e-14) * np.maximum(rho, 0.0) * areas
            # Numbers next to 0 are too coarse for the last digits.
            held[held < 1e-300] = 0.0
            factor = np.divide(held, taken, out=np.ones(n), where=taken > held)
            share[:] = factor[np.where(flux > 0.0, first, second)]
        return shares

    def _flows(self, fields: Array) -> Array:
        """(k, E, 2) what leaves the first and the second cell of each edge."""
        first, second = self.mesh.edge_cells.T
        # Filled, not stacked: kernels compile for one layout of memory.
        flows = np.empty((len(fields), self.mesh.n_edges, 2))
        flows[..., 0], flows[..., 1] = self.forth * fields[:, first], self.back * fields[:, second]
        return flows

    @cached_property
    def _leaving(self) -> Array:
        """(N,) rates out of the cells, at unit density."""
        first, second = self.mesh.edge_cells.T
        n = self.mesh.n_cells
        leaving = np.zeros(n)
        leaving += np.bincount(first, self.forth, n)
        leaving += np.bincount(second, self.back, n)
        return leaving

    def _masses_matrix(self, dt: float) -> Any:
        """I - dt Q acting on masses, cells in the mesh's order of dissection: (N, N) by columns."""
        from scipy.sparse import csc_array

        mesh = self.mesh
        position = np.empty(mesh.n_cells, np.int32)
        position[mesh.dissection] = np.arange(mesh.n_cells, dtype=np.int32)
        cells, (first, second) = position, position[mesh.edge_cells.T]
        rows = np.concatenate([cells, second, first])
        columns = np.concatenate([cells, first, second])
        per_mass = dt / mesh.areas
        values = np.concatenate(
            [
                1.0 + per_mass * self._leaving,
                -per_mass[mesh.edge_cells[:, 0]] * self.forth,
                -per_mass[mesh.edge_cells[:, 1]] * self.back,
            ]
        )
        return csc_array((values, (rows, columns)), shape=(mesh.n_cells, mesh.n_cells))


def _bernoulli(drift: Array, whole: Array) -> Array:
    """B(p) = p / (e^p - 1) at p = drift / whole >= 0; 1 where both are 0."""
    with np.errstate(over="ignore"):
        p = np.clip(drift / np.maximum(whole, np.finfo(float).tiny), 1e-300, 700.0)
    bernoulli: Array = p / np.expm1(p)
    return bernoulli
