"""Stationary states of noisy equations on cells: fixed points of rho -> law at rest of v[rho].

With the velocity frozen at v[rho] the equation is linear, d sigma/dt = Q(v[rho]) sigma, and has one
law at rest of each mass, G(rho) > 0. A stationary state is a fixed point of G. For a velocity that
is the gradient of a potential phi[rho] and a number D it solves

    rho = G(rho) = e^{phi[rho] / D} / Z

(formulas of Gibbs type; Rigollet, arXiv:2512.01868), else G(rho) is the positive null vector of Q.

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
from typing import Any

import numpy as np

from pde.arguments import LARGEST_ENTRY, Array, instance, natural, number, positive
from pde.field import UndefinedQuantity
from pde.finite_volume import DriftDiffusionStage, FiniteVolume
from pde.system import Initial

LONG = 1e10
"""Length of an implicit step, times the fastest rate, that leaves nothing but the law at rest."""


KRYLOV = 60
"""Dimension of the Krylov spaces: one for each direction in which G is far from constant."""


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
    without diffusion and for a guess that is not positive.

    >>> from meshes import circle
    >>> from pde import Equation
    >>> from pde.one_body import Drift
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
        w = w + 0.5 * residual
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
    """(N,) logarithm of the law at rest, by inverse iteration from the uniform one."""
    stage = system.stage(t, rho)
    assert isinstance(stage, DriftDiffusionStage)
    solve = stage.generator.implicit_euler(LONG / float(stage.generator.rates().max()))
    law = np.ones(len(rho))
    for _ in range(3):
        law = solve(law)
        law /= law.max()
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(law), -700.0)


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
