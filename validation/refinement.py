"""Any problem under refinement: observed orders, and which part of the method makes the error.

Where no exact solution is known, the reference is the highest order on a mesh finer than all
others, seen from each mesh through its polynomials (`transfer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from meshes import SphereMesh
from pde import Equation, FiniteVolume, Measure, SelfAttention
from pde.arguments import Array
from pde.cells.reconstruction import Reconstruction
from pde.simulation import run_to
from validation import norms
from validation.convergence import Study, study
from validation.study import Table
from validation.transfer import transfer

NODES_DEGREE = 6
"""Degree of the quadrature that stands for an exact one."""

FINER_STEPS = 4.0
"""Factor by which steps are cut to see the error in time."""


@dataclass(frozen=True)
class Problem:
    """An equation, its initial law (a function of points), the final time, its meshes.

    mesh_of : resolution -> SphereMesh
    """

    equation: Equation
    law: Callable[[Array], Array]
    until: float
    mesh_of: Callable[[int], SphereMesh]


@dataclass(frozen=True, eq=False)
class Final:
    """A mesh and the cell averages on it at the final time."""

    mesh: SphereMesh
    rho: Array
    order: int

    def error(self, reference: Final) -> dict[str, float]:
        """Relative l1, l2, linf of the difference to a finer solution."""
        exact = transfer(reference.rho, reference.mesh, self.mesh, reference.order)
        return norms.relative(self.mesh, self.rho, exact)


def solve(
    problem: Problem, order: int, resolution: int, finer_steps: float = 1.0, **options: Any
) -> Final:
    """The solution at the final time with default stepper and steps.

    finer_steps : the default step is divided by it; options : of FiniteVolume
    """
    system = FiniteVolume(problem.mesh_of(resolution), problem.equation, order=order, **options)
    return _run(problem, system, finer_steps)


def _run(problem: Problem, system: FiniteVolume, finer_steps: float = 1.0) -> Final:
    system.courant = system.courant / finer_steps
    return Final(system.mesh, run_to(system, problem.law, problem.until), system.order)


def observed_orders(
    problem: Problem,
    orders: Sequence[int],
    resolutions: Sequence[int],
    reference: Final,
    norm: str = "l1",
    finer_steps: float = 1.0,
) -> dict[str, Study]:
    """A study for each order: errors against the reference, observed orders.

    finer_steps : as for `solve`; 4 leaves little but the errors in space
    """
    return {
        f"order {order}": study(
            lambda n, k=order: solve(problem, k, n, finer_steps).error(reference)[norm],  # type: ignore[misc]
            resolutions,
            spacing=lambda n: problem.mesh_of(n).spacing,
            name=f"{norm} error",
        )
        for order in orders
    }


@dataclass(frozen=True)
class Budget:
    """Relative l1 errors of one run, part by part; `str` is the table.

    space : reconstruction and fluxes, everything else refined
    time : steps
    velocity : interpolation of the velocity from the centroids to the edges
    nodes : quadrature of the kernel, i.e. of the measure that the density stands for
    tolerance : of the kernel's fast evaluation
    total : everything together, against the reference
    """

    space: float
    time: float
    velocity: float
    nodes: float
    tolerance: float
    total: float

    def __str__(self) -> str:
        return str(Table("", ["part", "l1 error:.2e"], list(vars(self).items())))


def budget(problem: Problem, order: int, resolution: int, reference: Final) -> Budget:
    """What each part of the method adds to the error at one order and resolution.

    Each part but space is the difference between the default run and one in which that part alone
    is refined until it no longer counts: steps cut by 4, the field evaluated at the edges' Gauss
    points, quadrature of degree 6, direct sums.
    """
    default = solve(problem, order, resolution)
    exact_sums = replace(problem, equation=_with_direct_sums(problem.equation))

    def part(final: Final) -> float:
        return norms.relative(default.mesh, default.rho, final.rho)["l1"]

    refined = _WithFineNodes(default.mesh, problem.equation, order=order, velocity_at="edges")
    nodes = _WithFineNodes(default.mesh, problem.equation, order=order)
    return Budget(
        space=_run(problem, refined, FINER_STEPS).error(reference)["l1"],
        time=part(solve(problem, order, resolution, FINER_STEPS)),
        velocity=part(solve(problem, order, resolution, velocity_at="edges")),
        nodes=part(_run(problem, nodes)),
        tolerance=part(solve(exact_sums, order, resolution)),
        total=default.error(reference)["l1"],
    )


def _with_direct_sums(equation: Equation) -> Equation:
    field = equation.field
    if not isinstance(field, SelfAttention):
        return equation
    direct = SelfAttention(field.V, field.B, field.beta, field.normalized, tolerance=None)
    return replace(equation, field=direct)


class _WithFineNodes(FiniteVolume):
    """Finite volumes whose density enters the kernel by quadrature of degree 6."""

    @cached_property
    def _fine(self) -> tuple[Array, Array, Any]:
        return _fine_nodes(self.mesh, self.order)

    def measure(self, state: Array) -> Measure:
        points, weights, operator = self._fine
        rho = state if state.ndim == 1 else state[:, 0]
        return Measure(points, np.maximum(weights * (operator @ rho), 0.0))


def _fine_nodes(mesh: SphereMesh, order: int) -> tuple[Array, Array, Any]:
    """Points (Q, d), weights (Q,) and the (Q, N) matrix from averages to values there.

    The density is reconstructed with at least a line in each cell: constants in the cells would
    not be better at more points than at the centroid.
    """
    reconstruction = Reconstruction(mesh, max(order, 2))
    rule = mesh.quadrature(NODES_DEGREE)
    rows = reconstruction.weights(rule.points, rule.offsets)
    cells = np.repeat(np.arange(mesh.n_cells), np.diff(rule.offsets))
    node = np.arange(len(cells))
    shape = (len(cells), mesh.n_cells)
    neighbours = scipy.sparse.csr_matrix(
        (
            rows.ravel(),
            reconstruction.stencils[0][cells].ravel(),
            rows.shape[1] * np.arange(len(cells) + 1),
        ),
        shape,
    )
    own = scipy.sparse.csr_matrix((1.0 - rows.sum(axis=1), (node, cells)), shape)
    return rule.points, rule.weights, neighbours + own
