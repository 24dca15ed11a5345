"""Explicit strong-stability-preserving Runge-Kutta methods, stored in Shu-Osher form.

    u_0 = u^n,   u_i = sum_{k<i} alpha_ik u_k + dt beta_ik L(u_k),   u^{n+1} = u_s

With alpha, beta >= 0 every stage is a convex combination of forward-Euler steps of length
dt beta_ik / alpha_ik <= dt / C, so whatever such a step preserves (positivity, bounds), the method
preserves too while dt <= C times the Euler bound. The form shows it; the Butcher form would not.

Sources: Gottlieb, Shu, Tadmor, SIAM Review 43 (2001) for ssprk2 and ssprk3; Spiteri, Ruuth, SIAM
J. Numer. Anal. 40 (2002) for ssprk54.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, cast

import numpy as np

from pde.arguments import Array
from pde.time.contracts import MovingStage, Stage, System


class StepTooLarge(ArithmeticError):
    """A stage's Euler bound fell below the step in progress; `bound` is that stage's."""

    def __init__(self, bound: float) -> None:
        super().__init__(f"the step exceeds the bound {bound:.3g} of one of its stages")
        self.bound = bound


@dataclass(frozen=True)
class Step:
    """What one step gives: the new state and what tells of its error.

    error : embedded estimate of the state's error; None: the method has none
    times, velocities : of its stages, times in units of the step; empty where stages have none
    """

    state: Array
    error: Array | None
    times: tuple[float, ...] = ()
    velocities: tuple[Array, ...] = ()


def velocities_of(*stages: Stage) -> tuple[Array, ...]:
    """The velocities of stages that have them (see `pde.time.control`), else none."""
    if not all(hasattr(stage, "velocity") for stage in stages):
        return ()
    return tuple(cast(MovingStage, stage).velocity for stage in stages)


class OneStep(Protocol):
    """A method that advances a system from one time to the next."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def order(self) -> int:
        """Of accuracy in time; the error estimates of its steps scale like dt^order."""

    @property
    def ssp_coefficient(self) -> float:
        """Its step may be this many times the forward-Euler bound; inf: no bound."""

    @property
    def estimates_error(self) -> bool:
        """Whether its steps come with an estimate of their error."""

    def step(self, system: System, t: float, state: Array, dt: float, first: Stage) -> Step:
        """The state after a step `dt`; `first` is `system.stage(t, state)`."""


@dataclass(frozen=True)
class Stepper:
    """One explicit method: s stages, order p, coefficients alpha and beta of shape (s, s).

    Raises ValueError where the coefficients are not convex or do not have the stated order.

    >>> ssprk3.order, ssprk3.ssp_coefficient
    (3, 1.0)
    """

    name: str
    order: int
    alpha: Array = field(repr=False)
    beta: Array = field(repr=False)

    def __post_init__(self) -> None:
        alpha, beta = np.tril(self.alpha), np.tril(self.beta)
        if alpha.shape != beta.shape or (alpha < 0).any() or (beta < 0).any():
            raise ValueError(f"{self.name}: alpha and beta must be square, alike and >= 0")
        # Rows that sum to 1 only up to rounding would create mass in every stage: on multiples of
        # 2^-50 the sums are exact, and the coefficients stay within 1e-15 of their sources.
        alpha = np.round(alpha * 2.0**50) / 2.0**50
        largest = np.argmax(alpha, axis=1)
        rows = np.arange(len(alpha))
        alpha[rows, largest] += 1.0 - alpha.sum(axis=1)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)
        defect = np.abs(
            self._order_conditions(self.order) @ self.b - self._order_values(self.order)
        )
        if defect.max() > 1e-12:
            raise ValueError(f"{self.name}: misses order {self.order} by {defect.max():.1e}")

    @property
    def stages(self) -> int:
        """Number of evaluations of the right-hand side in a step."""
        return len(self.alpha)

    @cached_property
    def ssp_coefficient(self) -> float:
        """C = min alpha_ik / beta_ik: the step may be C times the forward-Euler bound."""
        used = self.beta > 0
        with np.errstate(divide="ignore"):
            return float(np.min(self.alpha[used] / self.beta[used]))

    @cached_property
    def _butcher(self) -> tuple[Array, Array]:
        """(A, b) with u_i = u^n + dt sum_k A_ik L(u_k): the Shu-Osher recursion written out."""
        s = self.stages
        rows = np.zeros((s + 1, s))
        for i in range(s):
            rows[i + 1] = self.alpha[i, : i + 1] @ rows[: i + 1] + self.beta[i]
        return rows[:-1], rows[-1]

    @property
    def a(self) -> Array:
        """(s, s) Butcher matrix."""
        return self._butcher[0]

    @property
    def b(self) -> Array:
        """(s,) Butcher weights."""
        return self._butcher[1]

    @cached_property
    def c(self) -> Array:
        """(s,) the stages' times in units of dt."""
        return self.a.sum(axis=1)

    def _order_conditions(self, order: int) -> Array:
        """Rows r with r.b = value for every rooted tree up to `order` (at most 4)."""
        a, c = self.a, self.c
        trees = [np.ones_like(c), c, c**2, a @ c, c**3, c * (a @ c), a @ c**2, a @ a @ c]
        return np.array(trees[: (0, 1, 2, 4, 8)[order]])

    def _order_values(self, order: int) -> Array:
        values = [1, 1 / 2, 1 / 3, 1 / 6, 1 / 4, 1 / 8, 1 / 12, 1 / 24]
        return np.array(values[: (0, 1, 2, 4, 8)[order]])

    @cached_property
    def error_weights(self) -> Array | None:
        """(s,) e with dt sum e_k L(u_k) the difference to an embedded method of order p - 1.

        The embedded weights b - e satisfy the conditions of order p - 1 and no more: e spans their
        kernel, which is one-dimensional for the methods here. It is scaled to half the largest
        entry of b, which makes the estimate a cautious one. None for order 1.
        """
        if self.order == 1:
            return None
        kernel = np.linalg.svd(self._order_conditions(self.order - 1))[2][-1]
        return kernel * (0.5 * self.b.max() / np.abs(kernel).max())

    @property
    def estimates_error(self) -> bool:
        """Whether its steps come with an estimate of their error."""
        return self.error_weights is not None

    def step(self, system: System, t: float, state: Array, dt: float, first: Stage) -> Step:
        """The state after a step `dt`; `first` is `system.stage(t, state)`.

        Raises StepTooLarge where a later stage's Euler bound does not cover the step: the
        velocity changes within a step, and with it the bound.
        """
        euler = dt / self.ssp_coefficient
        states, stages, tendencies = [state], [first], [first.rhs(euler)]
        for i in range(self.stages):
            new = np.zeros_like(state)
            for k in range(i + 1):
                if self.alpha[i, k]:
                    new += self.alpha[i, k] * states[k]
                if self.beta[i, k]:
                    new += (dt * self.beta[i, k]) * tendencies[k]
            states.append(new)
            if i + 1 < self.stages:
                stage = system.stage(t + self.c[i + 1] * dt, new)
                if euler > stage.bound:
                    raise StepTooLarge(stage.bound)
                stages.append(stage)
                tendencies.append(stage.rhs(euler))
        error = None
        if self.error_weights is not None:
            error = dt * np.tensordot(self.error_weights, np.array(tendencies), axes=1)
        velocities = velocities_of(*stages)
        return Step(system.project(states[-1]), error, tuple(self.c), velocities)

    @property
    def needs_end(self) -> bool:
        """Whether the defect takes the velocity at the step's end too, which the next one needs."""
        return self.order <= 2

    def defect(self, velocities: Sequence[Array]) -> Array:
        """The difference of two estimates of the velocity's mean over a step.

        velocities : of the stages, and at the step's end where `needs_end`

        Up to order 2 the trapezoidal mean less the method's own, beyond that the difference of the
        embedded methods.
        """
        weights = self._defect_weights
        return sum(w * v for w, v in zip(weights, velocities, strict=True) if w)

    @cached_property
    def _defect_weights(self) -> Array:
        if not self.needs_end:
            assert self.error_weights is not None
            return self.error_weights
        weights = np.append(-self.b, 0.5)
        weights[0] += 0.5
        return weights

    @property
    def defect_order(self) -> int:
        """q in the defect c z^q of a velocity that grows like e^{z s}."""
        return self.order if self.needs_end else self.order - 1

    @cached_property
    def defect_constant(self) -> float:
        """c > 0 in it."""
        grown = np.ones(self.stages)
        for _ in range(self.defect_order):
            grown = self.a @ grown
        if not self.needs_end:
            return float(abs(self._defect_weights @ grown))
        last = 1.0 / math.factorial(self.defect_order)
        return float(abs(self._defect_weights @ np.append(grown, last)))


def _lower(rows: list[list[float]]) -> Array:
    """The square lower-triangular matrix with these rows."""
    matrix = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix


euler = Stepper("euler", 1, alpha=_lower([[1]]), beta=_lower([[1]]))
ssprk2 = Stepper("ssprk2", 2, alpha=_lower([[1], [1 / 2, 1 / 2]]), beta=_lower([[1], [0, 1 / 2]]))
ssprk3 = Stepper(
    "ssprk3",
    3,
    alpha=_lower([[1], [3 / 4, 1 / 4], [1 / 3, 0, 2 / 3]]),
    beta=_lower([[1], [0, 1 / 4], [0, 0, 2 / 3]]),
)
ssprk54 = Stepper(
    "ssprk54",
    4,
    alpha=_lower(
        [
            [1],
            [0.444370493651235, 0.555629506348765],
            [0.620101851488403, 0, 0.379898148511597],
            [0.178079954393132, 0, 0, 0.821920045606868],
            [0, 0, 0.517231671970585, 0.096059710526147, 0.386708617503269],
        ]
    ),
    beta=_lower(
        [
            [0.391752226571890],
            [0, 0.368410593050371],
            [0, 0, 0.251891774271694],
            [0, 0, 0, 0.544974750228521],
            [0, 0, 0, 0.063692468666290, 0.226007483236906],
        ]
    ),
)

EXPLICIT = {stepper.name: stepper for stepper in (euler, ssprk2, ssprk3, ssprk54)}


def explicit_for(order: int) -> str:
    """Name of the explicit stepper for a system of that order in space.

    From order 4 on a third-order method would cap the accuracy at the steps that positivity
    allows, hence ssprk54 there.
    """
    return {1: "euler", 2: "ssprk2", 3: "ssprk3"}.get(order, "ssprk54")
