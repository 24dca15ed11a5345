"""Stationary states of noisy equations on cells: fixed points of rho -> law at rest of v[rho].

With the velocity frozen at v[rho] the equation is linear, d sigma/dt = Q(v[rho]) sigma, and has one
law at rest of each mass, G(rho) > 0. A stationary state is a fixed point of G. For a velocity that
is the gradient of a potential phi[rho] and a number D it solves

    rho = G(rho) = e^{phi[rho] / D} / Z

(formulas of Gibbs type; Rigollet, arXiv:2512.01868), else G(rho) is the positive null vector of Q,
found directly: its shares are right also where clusters exchange next to no mass.

A few damped steps w <- w + (log G(e^w) - w)/2 of the logarithm w = log rho lead into the basin of
a stationary state; Newton's method with Krylov steps (`scipy.optimize.newton_krylov`) then finds
it, stable or not. In logarithms densities stay positive and tails keep their relative accuracy.

Where the equation does not mind rotations (V = B = I), laws about any axis are at rest. A mesh
shares that up to its own error: it keeps the laws about some axes of its own, such as a pole, and
from any other the law turns slowly towards one of these, with a residual of the mesh's error, until
the solver gives up. Start about an axis of the mesh, or ask for a tolerance above that error (1e-2
on 642 cells) to get the law up to its axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import LARGEST_ENTRY, Array, instance, natural, number, positive
from pde.cells.finite_volume import DriftDiffusionStage, FiniteVolume
from pde.field import UndefinedQuantity
from pde.kernels import elimination
from pde.time.contracts import Initial

KRYLOV = 60
"""Dimension of the Krylov spaces: one for each direction in which G is far from constant."""

STEEPEST = 690.0
"""Largest Peclet number between two cells; fluxes are cut at 700, where e^p leaves float64."""


class NoStationaryState(ArithmeticError):
    """The iteration for a stationary state did not converge; one sentence."""


@dataclass(frozen=True, eq=False)
class StationaryState:
    """A fixed point.

    state : (N,) cell averages
    residual : largest |log G(rho) - log rho|
    iterations : evaluations of G
    """

    state: Array
    residual: float
    iterations: int


def stationary_state(
    system: FiniteVolume,
    guess: Initial,
    tolerance: float = 1e-10,
    relaxations: int = 20,
    max_newton: int = 50,
    t: float = 0.0,
) -> StationaryState:
    """The stationary state near `guess`, of the same mass.

    system : FiniteVolume of order 1 or 2 with diffusion > 0
    guess : (N,) cell averages > 0 or a function of points
    tolerance : for the largest |log G(rho) - log rho|
    relaxations : damped steps taken first; 0 for a state that is not stable, near its guess
    max_newton : Newton steps at the most
    t : time at which a field or diffusion that depends on it is taken

    Raises NoStationaryState where the residual stays above the tolerance, ValueError for a system
    without diffusion, with too little of it for the mesh, and for a guess that is not positive.

    >>> from meshes import circle
    >>> from pde import Equation
    >>> from pde.fields.one_body import Drift
    >>> system = FiniteVolume(circle(64), Equation(Drift([[1.0, 0.0], [0.0, 0.0]]), diffusion=0.5))
    >>> rho = stationary_state(system, np.ones(64)).state
    >>> bool(np.ptp(np.log(rho) - system.mesh.centers[:, 0] ** 2) < 1e-9)
    True
    """
    instance("system", system, FiniteVolume)
    tolerance, t = positive("tolerance", tolerance), number("t", t)
    natural("relaxations", relaxations)
    natural("max_newton", max_newton)
    iteration = _Iteration(system, system.initial_state(guess), t)
    w = iteration.start
    residual = iteration(w)
    for _ in range(relaxations):
        if np.abs(residual).max() < tolerance:
            break
        # A velocity that does not depend on the law has one law at rest, found at once.
        w = w + (0.5 if system.equation.is_nonlocal else 1.0) * residual
        residual = iteration(w)
    if np.abs(residual).max() < tolerance:
        return iteration.result(w, residual)
    return iteration.newton(w, tolerance, max_newton)


def law_at_rest(system: FiniteVolume, rho: Array, t: float = 0.0) -> Array:
    """(N,) log G(rho): the logarithm of the law at rest under the velocity of rho, of its mass."""
    areas, D = system.mesh.areas, system.equation.diffusion
    w = None
    if not callable(D):
        try:
            phi = system.equation.field.potential(system.mesh.centers, system.measure(rho), t)
            with np.errstate(over="ignore"):
                w = phi / D
        except UndefinedQuantity:
            pass
    if w is not None and not np.abs(w).max() <= LARGEST_ENTRY:
        raise ValueError(f"diffusion must be larger for a stationary state, got {D:.3g}")
    if w is None:
        w = _null_vector(system, rho, t)
    w = w - w.max()
    return np.asarray(w - np.log(areas @ np.exp(w)) + np.log(areas @ rho))


def _null_vector(system: FiniteVolume, rho: Array, t: float) -> Array:
    """(N,) logarithm of the density at rest of the generator, by elimination of cells.

    Directly, since iterations miss what decays slowly: two wells that exchange next to nothing
    have a residual of next to nothing at any shares.
    """
    stage = system.stage(t, rho)
    assert isinstance(stage, DriftDiffusionStage)
    generator, mesh = stage.generator, system.mesh
    per_mass = 1.0 / mesh.areas[mesh.edge_cells]
    rates = np.stack([generator.forth * per_mass[:, 0], generator.back * per_mass[:, 1]])
    if _steepest(rates, callable(system.equation.diffusion)) > STEEPEST:
        raise ValueError(
            "diffusion must be larger for a stationary state, or the mesh finer: between two cells "
            f"drift exceeds diffusion more than {STEEPEST:g} times (their Peclet number)"
        )
    found = np.empty(mesh.n_cells)
    found[mesh.dissection] = _eliminated(mesh, rates / max(rates.max(), np.finfo(float).tiny))
    found -= np.log(mesh.areas)
    return np.maximum(found - found.max(), -700.0)


def _steepest(rates: Array, one_way: bool) -> float:
    """Largest |log(forth / back)| of edges; one_way: those without a way back are meant so."""
    both = rates.min(axis=0) > 0.0 if one_way else rates.max(axis=0) > 0.0
    with np.errstate(divide="ignore"):
        return float(np.abs(np.subtract(*np.log(rates[:, both]))).max(initial=0.0))


def _eliminated(mesh: SphereMesh, rates: Array) -> Array:
    """(N,) logarithms of masses at rest, in the order of dissection, from rates (2, E) <= 1."""
    offsets, rows, places, forth_is_down = elimination_pattern(mesh)
    start = np.zeros((2, len(rows)))
    start[:, places] = np.where(forth_is_down, rates, rates[::-1])
    left, masses = np.ones(mesh.n_cells), np.empty(mesh.n_cells)
    down, up = start.copy()
    with np.errstate(divide="ignore"):
        if elimination.eliminate(offsets, rows, down, up, left):
            up, left = np.log(up), np.log(left)
        else:
            down, up = np.log(start)
            closed = elimination.eliminate_logarithms(offsets, rows, down, up, left)
            if closed >= 0:
                raise NoStationaryState(
                    "there is no single law at rest: mass that has come to cell "
                    f"{mesh.dissection[closed]} and its neighbours stays there; take a diffusion "
                    "> 0 everywhere"
                )
    elimination.law(offsets, rows, up, left, masses)
    return masses


@lru_cache(maxsize=4)
def elimination_pattern(mesh: SphereMesh) -> tuple[Any, Any, Any, Any]:
    """What cells exchange once those before them in the mesh's dissection are left out.

    Returns (N + 1,) offsets and the later cells, by their places in the order, of each; (E,) where
    each edge is among them, and whether its first cell is the earlier one.
    """
    n = mesh.n_cells
    place = np.empty(n, np.int64)
    place[mesh.dissection] = np.arange(n)
    ends = place[mesh.edge_cells]
    early, late = ends.min(axis=1), ends.max(axis=1)
    by_early = np.argsort(early, kind="stable")
    starts = np.searchsorted(early[by_early], np.arange(n + 1))
    columns: list[Array] = []
    children: list[list[Array]] = [[] for _ in range(n)]
    for k in range(n):
        direct = late[by_early[starts[k] : starts[k + 1]]]
        column = (
            np.unique(np.concatenate([direct, *children[k]])) if children[k] else np.sort(direct)
        )
        columns.append(column)
        if len(column) > 1:
            children[column[0]].append(column[1:])
    offsets = np.concatenate([[0], np.cumsum([len(column) for column in columns])])
    rows = np.concatenate(columns)
    keys = np.repeat(np.arange(n), np.diff(offsets)) * n + rows
    return offsets, rows, np.searchsorted(keys, early * n + late), ends[:, 0] < ends[:, 1]


class _Iteration:
    """The map w -> log G(e^w) - w, which counts its calls."""

    def __init__(self, system: FiniteVolume, guess: Array, t: float) -> None:
        if not system.is_drift_diffusion:
            raise ValueError(
                "system must be finite volumes of order 1 or 2 with diffusion > 0 for a "
                f"stationary state, got {system!r}"
            )
        if guess.ndim != 1 or guess.min() <= 0.0:
            raise ValueError("guess must be one density > 0 on all cells")
        self.system, self.t = system, t
        self.mass = float(system.mesh.areas @ guess)
        self.start = np.log(guess)
        self.calls = 0

    def density(self, w: Any) -> Array:
        """(N,) e^w, scaled to the mass."""
        rho = np.exp(w - np.max(w))
        return np.asarray(rho * (self.mass / (self.system.mesh.areas @ rho)))

    def __call__(self, w: Any) -> Array:
        self.calls += 1
        rho = self.density(w)
        return law_at_rest(self.system, rho, self.t) - w

    def result(self, w: Array, residual: Array) -> StationaryState:
        return StationaryState(self.density(w), float(np.abs(residual).max()), self.calls)

    def newton(self, w: Array, tolerance: float, steps: int) -> StationaryState:
        from scipy.optimize import NoConvergence, newton_krylov

        try:
            # Unknown is what is added to w: the differences that stand for the Jacobian are scaled
            # by the size of the unknown, and have to resolve a stiff map.
            found = newton_krylov(
                lambda change: self(w + change),
                np.zeros_like(w),
                f_tol=tolerance,
                maxiter=steps,
                method="lgmres",
                inner_maxiter=KRYLOV,
            )
        except (NoConvergence, ValueError) as failed:
            # scipy's only error of its own: the Krylov space holds no step.
            if not isinstance(failed, NoConvergence) and "Jacobian inversion" not in str(failed):
                raise
            change = failed.args[0] if isinstance(failed, NoConvergence) else np.zeros_like(w)
            reached = np.abs(self(w + np.asarray(change))).max()
            raise NoStationaryState(
                f"no stationary state within {steps} Newton steps of the guess: the residual "
                f"stayed at {reached:.3g}, tolerance {tolerance:.3g}; give a nearer guess, such as "
                "the state at a larger diffusion or a law about an axis of the mesh, more "
                "relaxations, or a larger tolerance"
            ) from failed
        w = w + found
        return self.result(w, self(w))
