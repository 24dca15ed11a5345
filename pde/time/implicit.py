"""A linearly implicit step of second order, for diffusion that would force explicit steps of h^2.

The tendency is Q(v) rho with Q linear once the velocity is known (`Exchange`). Per step of length
dt the velocity is taken from half an implicit Euler step, and Q is kept for the whole step:

    rho_1/2 = (I - dt/2 Q(v[rho_n]))^{-1} rho_n,         Q = Q(v[rho_1/2])
    low     = (I - dt/3 Q)^{-3} rho_n                    three implicit Euler steps
    rho_n+1 = low - (dt^2/6) Q^2 low                     less their error

The stability function (1 - z^2/6) / (1 - z/3)^3 agrees with e^z to second order, is bounded by 1
for Re z <= 0 and vanishes at infinity. Three steps because two would give the trapezoidal rule,
which damps nothing there. Implicit Euler keeps densities >= 0 for any dt; the correction is
limited where it would not. Where Q(v[rho]) rho = 0 nothing moves, to rounding: the states at rest
of the discretisation are those of its steps.

Against what: implicit-explicit Runge-Kutta methods with an explicit drift keep a bound dt ~ h / |v|
and no positivity beyond it; stabilised explicit methods (Runge-Kutta-Legendre; Meyer, Balsara,
Aslam, J. Comput. Phys. 257 (2014)) need no factorisation, but their stability polynomials are not
positive on hexagons, so that the far tails of a density turn negative; splitting drift from
diffusion moves the states at rest by O(dt^2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pde.arguments import Array
from pde.time.contracts import LinearStage, Stage, System
from pde.time.steppers import Step, velocities_of


@dataclass(frozen=True)
class ImplicitMidpoint:
    """The step above, for systems whose stages have a `generator`.

    The error estimate is the correction of second order, that is the error of `low`: cautious.
    """

    name: str = "implicit"
    order: int = 2
    ssp_coefficient: float = math.inf
    estimates_error: bool = True
    needs_end: bool = False
    defect_order: int = 1
    defect_constant: float = 0.5

    def check(self, system: System) -> None:
        """Raise ValueError where the system's stages have no generator."""
        if system.default_stepper != self.name:
            raise ValueError(
                'stepper "implicit" needs finite volumes of order 1 or 2 with diffusion > 0, '
                f"got {system!r}"
            )

    def step(self, system: System, t: float, state: Array, dt: float, first: Stage) -> Step:
        """The state after a step `dt`; `first` is `system.stage(t, state)`.

        Raises ValueError where the system's stages have no generator.
        """
        self.check(system)
        assert isinstance(first, LinearStage)
        middle = system.stage(t + 0.5 * dt, first.generator.implicit_euler(0.5 * dt)(state))
        assert isinstance(middle, LinearStage)
        Q = middle.generator
        solve = Q.implicit_euler(dt / 3.0)
        second = solve(one := solve(state))
        low = solve(second)
        # Since dt Q W = 3 (W - I) for the solver W, differences replace products with dt Q, which
        # would multiply rounding errors by dt times the fastest rate.
        error = -1.5 * (low - 2.0 * second + one)
        new = low + error
        if middle.is_positive and new.min() < 0.0:
            new = Q.corrected(low, -0.5 * dt * (low - second))
        velocities = velocities_of(first, middle)
        return Step(system.project(Q.conserving(new, state)), error, (0.0, 0.5), velocities)

    def defect(self, velocities: Sequence[Array]) -> Array:
        """The velocity's change until the middle."""
        return velocities[1] - velocities[0]


implicit = ImplicitMidpoint()
