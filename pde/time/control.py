"""Error control: how long a step may be so that it resolves in time what moves the mass.

The positivity bound says that mass moves by less than a cell, not that the velocity is known over
the step: near rest, where it grows from almost nothing, and where it depends on time by itself, a
step of the bound sees nothing of its change. So each step is judged by the velocities at its
stages. Their defect, the difference of two estimates of the velocity's mean over the step, is c z^q
of the velocity itself where that grows like e^{z s} over the step, s from 0 to 1. A method of order
p misses that growth by about z^p / (p + 1)! of it, and the step is accepted while

    z^p / (p + 1)!  <=  accuracy + (sigma h)^p / (p + 1)!

with the `accuracy` of the system (see `pde.time.contracts.MovingStage`) and, where mass moves by
sigma cells of width h in the step, what the error of the transport in time is then anyway. All
sizes are means over the mass and relative to the velocity at hand, so that neither the scale of the
density nor the distance from rest plays a part.

A velocity that may depend on time by itself is also looked at between the stages, at points that
no period hits all together: there a straight line through the stages has to agree with it.

An estimate of the state's own error (embedded methods, implicit steps) is kept below `tolerance`
times the size of the state, where there is a tolerance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pde.arguments import Array
from pde.time.contracts import Stage, System
from pde.time.steppers import OneStep, Step

SAFETY = 0.9
"""Fraction of the step that the last error estimate, or the failed stage's bound, would allow."""

FLOOR = 1e-12
"""Displacement, in radians, below which a step's defect is rounding."""

SURPRISE = 0.1
"""Deviation of a velocity from the line through the stages' beyond order 2, as a share of z."""

FADING = {True: 0.5, False: 0.999}
"""Velocities are compared with those of the step before, lowered by this factor: one that passes
through zero would else ask for ever shorter steps. Where it may depend on time by itself, False,
what is small there does not grow by its own, and need not be known as well."""

LOOKS = 5
"""Times at which a long step looks at a velocity that may depend on time."""

LONGEST_SHARE = 0.125
"""Longest step, as a share of the way between two landings, where the velocity may depend on
time."""

GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
"""Fractional parts of its multiples fill the step evenly, and no period hits all of them."""


class StepControl:
    """Judges the steps of one simulation and proposes how long the next may be.

    tolerance : largest error of a step relative to the state, in the system's norm; None: none
    is_blind : no control at all; the bound decides alone
    """

    def __init__(
        self, system: System, stepper: OneStep, tolerance: float | None, is_blind: bool = False
    ) -> None:
        self.system, self.stepper, self.tolerance = system, stepper, tolerance
        self.sees = not is_blind and hasattr(stepper, "defect")
        self.step: float | None = None
        self.speed = 0.0
        self._ahead: tuple[float, Array, Stage] | None = None

    def stage(self, t: float, state: Array) -> Stage:
        """The system at (t, state), evaluated again only where the last step did not end there."""
        if self._ahead is not None:
            then, there, stage = self._ahead
            if then == t and np.array_equal(there, state):
                return stage
        return self.system.stage(t, state)

    def proposal(self, first: Stage, state: Array, landing: float) -> float:
        """The longest step now; `landing` is the way between two landings of the loop."""
        if self.step is None and self.tolerance is not None:
            change, size = self.system.norm(first.rhs()), self.system.norm(state)
            share = self.tolerance ** (1.0 / self.stepper.order)
            self.step = share * size / change if size > 0.0 < change else None
        proposed = math.inf if self.step is None else self.step
        if self.sees and not _is_autonomous(self.system) and hasattr(first, "velocity"):
            proposed = min(proposed, LONGEST_SHARE * landing)
        return proposed

    def shorter(
        self, t: float, end: float, state: Array, limit: str, first: Stage, step: Step
    ) -> float | None:
        """None where the step from t to `end` is accurate, else the step to try instead."""
        dt = end - t
        allowed = self._factor_of_state(state, step)
        last, speed = None, self.speed
        if allowed >= 1.0 and self.sees and step.velocities:
            found, speed, last = self._factor_of_velocity(t, end, state, first, step)
            allowed = min(allowed, found)
        if allowed < 1.0:
            return max(0.2, SAFETY * allowed) * dt
        # A step that something else kept short says nothing against longer ones.
        before = 0.0 if limit == "error" or self.step is None else self.step
        growth = min(5.0, SAFETY * allowed)
        self.step, self.speed = max(before, growth * dt), speed
        self._ahead = None if last is None else (end, step.state.copy(), last)
        return None

    def _factor_of_state(self, state: Array, step: Step) -> float:
        """By which the step could be longer for the error of the state."""
        if self.tolerance is None or step.error is None:
            return math.inf
        size = self.tolerance * max(self.system.norm(state), self.system.norm(step.state))
        error = self.system.norm(step.error)
        if not math.isfinite(error):
            return 0.0
        return (size / error) ** (1.0 / self.stepper.order) if error > 0.0 else math.inf

    def _factor_of_velocity(
        self, t: float, end: float, state: Array, first: Any, step: Step
    ) -> tuple[float, float, Stage | None]:
        """(by which the step could be longer, its speed, the stage at its end if evaluated)."""
        stepper: Any = self.stepper
        times, velocities = [*step.times], [*step.velocities]
        last: Any = None
        if stepper.needs_end:
            last = self.system.stage(end, step.state)
            times, velocities = [*times, 1.0], [*velocities, last.velocity]
        defect = first.speed(stepper.defect(velocities))
        looks = self._looks(t, end, state, first, step)
        speeds = [first.speed(v) for v in (*velocities, *looks.values())]
        if not np.isfinite([defect, *speeds]).all():
            return 0.0, self.speed, None
        speed = max(*speeds, FADING[_is_autonomous(self.system)] * self.speed)
        surprise = max(
            (first.speed(v - _on_line(s, times, velocities)) for s, v in looks.items()), default=0.0
        )
        dt, resolution = end - t, self._resolution(end - t, first)
        factor = math.inf
        if dt * defect > FLOOR:
            growth = (defect / speed / stepper.defect_constant) ** (1.0 / stepper.defect_order)
            factor = resolution / growth
        if dt * surprise > FLOOR:
            factor = min(factor, math.sqrt(self._surprise(resolution) * speed / surprise))
        return factor, speed, last

    def _resolution(self, dt: float, first: Any) -> float:
        """The largest z."""
        p = self.stepper.order
        moved = min(dt / first.bound, 1.0) * first.width
        return float((math.factorial(p + 1) * first.accuracy(p) + moved**p) ** (1.0 / p))

    def _surprise(self, resolution: float) -> float:
        """How far a velocity may lie off the line through the stages', as a share of it.

        Up to order 2 that is the error of the velocity's mean itself.
        """
        p = self.stepper.order
        return resolution**p / math.factorial(p + 1) if p <= 2 else SURPRISE * resolution

    def _looks(
        self, t: float, end: float, state: Array, first: Stage, step: Step
    ) -> dict[float, Array]:
        """Velocities between the stages, by their times in the step, 0 to 1."""
        if _is_autonomous(self.system):
            return {}
        # Where the bound is near, mass moves by a cell, and many stages look often enough.
        near = end - t > 0.25 * self.stepper.ssp_coefficient * first.bound
        count = (1 if len(step.times) < 3 else 0) if near else LOOKS
        found = {}
        for k in range(count):
            s = math.fmod((k + 1) * GOLDEN, 1.0)
            between = self.system.project((1.0 - s) * state + s * step.state)
            stage: Any = self.system.stage(t + s * (end - t), between)
            found[s] = stage.velocity
        return found


def _is_autonomous(system: System) -> bool:
    return bool(getattr(system, "is_autonomous", False))


def _on_line(s: float, times: list[float], values: list[Array]) -> Array:
    """The values at `times`, joined by lines and the last one prolonged, at the time s."""
    # Of two values at one time the later is the more accurate.
    known = sorted(dict(zip(times, values, strict=True)).items(), key=lambda pair: pair[0])
    if len(known) == 1:
        return known[0][1]
    upper = next((i for i in range(1, len(known)) if known[i][0] >= s), len(known) - 1)
    (a, before), (b, after) = known[upper - 1], known[upper]
    share = (s - a) / (b - a)
    return (1.0 - share) * before + share * after
