"""The time loop: steps as long as stability and accuracy allow, landing exactly on scheduled times.

A simulation knows nothing of cells, particles or attention: it advances a `System` with a
`Stepper` and calls back. Two limits rule a step: the stepper's SSP coefficient times the Euler
bound of the state (positivity), and its error in time (`pde.time.control`).
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pde import restart
from pde.arguments import Array, number, one_of, positive, real_array, shown
from pde.callbacks import AtTimes, Callback, Record, check_files
from pde.solution import Solution
from pde.time.contracts import Initial, Stage, System
from pde.time.control import SAFETY, StepControl
from pde.time.implicit import ImplicitMidpoint, implicit
from pde.time.instants import first_of, resolution
from pde.time.steppers import EXPLICIT, OneStep, StepTooLarge

STEPPERS: dict[str, OneStep] = {**EXPLICIT, implicit.name: implicit}

VANISHING = 1e-30
"""A step of less than this share of the time to go does not get there."""

MOST_STEPS = 1e15
"""So many steps of the longest length do not end."""


class Simulation:
    """`system` advanced in time from `state`.

    system : FiniteVolume or ParticleSystem
    state : the array that the system takes; cells also take a density (m, d) -> (m,), a law or a
        function of your own. Its mass is kept as it is, of arrays and functions alike
    stepper : "euler", "ssprk2", "ssprk3", "ssprk54", "implicit" (finite volumes of order 1 or 2
        with diffusion); None: the default of the system
    tolerance : largest error of a step in the system's norm, relative to the state; "default": the
        system's own, where it has one. In both cases steps resolve the velocity's change in time
        (`pde.time.control`). None: no error control, the Euler bound decides alone
    t : time at the start
    max_step : no step is longer

    `t`, `state`, `steps`, `rejected` tell where it stands, `begin` where it started, `written` the
    result files that its runs have written to; `limited_by` counts what limited the
    accepted steps ("bound", "error", "schedule", "max_step").
    """

    def __init__(
        self,
        system: System,
        state: Initial,
        stepper: str | OneStep | None = None,
        tolerance: float | str | None = "default",
        t: float = 0.0,
        max_step: float | None = None,
    ) -> None:
        if not all(callable(getattr(system, name, None)) for name in ("stage", "initial_state")):
            raise TypeError(f"system must be a FiniteVolume or ParticleSystem, got {shown(system)}")
        self.system = system
        self.state = system.initial_state(state)
        self.stepper = stepper_named(system.default_stepper if stepper is None else stepper)
        if isinstance(self.stepper, ImplicitMidpoint):
            self.stepper.check(system)
        is_blind = tolerance is None
        if isinstance(tolerance, str) and tolerance == "default":
            tolerance = system.tolerance if self.stepper.estimates_error else None
        self.tolerance = None if tolerance is None else positive("tolerance", tolerance)
        if self.tolerance is not None and not self.stepper.estimates_error:
            raise ValueError(
                f"tolerance needs a stepper with an error estimate, {self.stepper.name!r} has none"
            )
        self.t = number("t", t)
        self.max_step = math.inf if max_step is None else positive("max_step", max_step)
        self.steps = 0
        self.rejected: Counter[str] = Counter()
        self.limited_by: Counter[str] = Counter()
        self.last_step = math.nan
        self.until = self.t
        self.stopped: str | None = None
        self.callbacks: tuple[Callback, ...] = ()
        self.written: set[Path] = set()
        self.begin = self.t
        self._record: Record | None = None
        self._control = StepControl(system, self.stepper, self.tolerance, is_blind)
        self._leg = (self.t, self.t)
        self._measured: tuple[float, Array, dict[str, float]] | None = None

    def __repr__(self) -> str:
        return (
            f"Simulation(t={self.t:.6g}, steps={self.steps}, "
            f"{type(self.system).__name__}, {self.stepper.name})"
        )

    def run(
        self,
        until: float,
        save_at: Sequence[float] | Array | None = None,
        callbacks: Sequence[Callback] = (),
        resume: str | Path | None = None,
    ) -> Solution:
        """Advance to time `until` and return what was saved on the way.

        save_at : times in [t, until]; None: now and `until`. Times that differ by rounding (see
            `pde.time.instants`) are one: `until`, then those of `save_at`, stand for others
        callbacks : see `pde.callbacks`
        resume : a restart file that a `Checkpoint` of the same run wrote: simulation and callbacks
            go on from there to the bit, and what was saved is what is saved from there on

        A second call continues where the first stopped. After an interruption (KeyboardInterrupt,
        an error in the system) `solution` still holds what had been saved.

        Raises ValueError for times out of range and for a restart file of another run,
        FloatingPointError where the state stops being finite or the step underflows.
        """
        self.stopped = None
        callbacks, until = _checked(callbacks), number("until", until)
        remembered = {} if resume is None else restart.resume(self, resume).callbacks
        self.until = until
        if self.is_now(until):
            self.until = self.t
        if self.until < self.t:
            raise ValueError(f"until must be >= the current time {self.t:.6g}, got {self.until}")
        if self.max_step * MOST_STEPS < self.until - self.t:
            raise ValueError(
                f"max_step must be larger to come from {self.t:.6g} to {self.until:.6g}, "
                f"got {self.max_step:.3g}"
            )
        self._record = Record(AtTimes(self._save_times(save_at, resumed=resume is not None)))
        # A restart file tells what the others have done.
        ordered = sorted(callbacks, key=lambda callback: isinstance(callback, restart.Checkpoint))
        check_files(ordered)
        self.callbacks = (self._record, *ordered)
        observers = self.callbacks
        with contextlib.ExitStack() as ends:
            # All of them, whatever one of them raises; the first one first.
            for observer in reversed(observers):
                ends.callback(observer.finish, self)
            self._start(remembered)
            while self.t < self.until and self.stopped is None:
                self._advance(self._landing())
                for observer in observers:
                    observer.notify(self)
        return self.solution

    def _start(self, remembered: Mapping[str, dict[str, Any]]) -> None:
        """Start all callbacks; those of a run that is resumed take up what they remembered."""
        observers = restart.named(self.callbacks)
        for name, memory in remembered.items():
            if memory and name not in observers:
                raise restart.RestartError(
                    f"the run to resume had a callback {name} that is missing now"
                )
        for name, observer in observers.items():
            if name not in remembered:
                observer.start(self)
                continue
            try:
                observer.resume(self, remembered[name])
            except (ValueError, FileNotFoundError) as wrong:
                raise restart.RestartError(f"{name} cannot go on: {wrong}") from wrong

    def snapshot(self) -> dict[str, Any]:
        """All that changes while it runs: numbers, text and arrays.

        A simulation of the same system, stepper and tolerances that `restore`s it goes on to the
        bit as this one would.
        """
        return {
            "t": self.t,
            "state": self.state.copy(),
            "steps": self.steps,
            "rejected": dict(self.rejected),
            "limited_by": dict(self.limited_by),
            "last_step": self.last_step,
            "error_step": self._control.step,
            "speed": self._control.speed,
            "leg": list(self._leg),
            "kicks": 0 if self.system.noise is None else self.system.noise.drawn,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back, or forward, to where `snapshot` was taken."""
        self.t, self.state = snapshot["t"], np.array(snapshot["state"])
        self.steps, self.last_step = snapshot["steps"], snapshot["last_step"]
        self.rejected = Counter(snapshot["rejected"])
        self.limited_by = Counter(snapshot["limited_by"])
        self._control.step, self._control.speed = snapshot["error_step"], snapshot["speed"]
        self._leg = tuple(snapshot["leg"])
        if self.system.noise is not None:
            self.system.noise.drawn = snapshot["kicks"]

    def diagnostics(self) -> dict[str, float]:
        """Those of the present state, computed once however many callbacks ask for them."""
        then = self._measured
        if then is None or then[0] != self.t or not np.array_equal(then[1], self.state):
            found = self.system.diagnostics(self.t, self.state)
            self._measured = then = self.t, self.state.copy(), found
        return dict(then[2])

    def stop(self, reason: str) -> None:
        """End the run after the current step; called by callbacks."""
        self.stopped = reason

    @property
    def solution(self) -> Solution:
        """What the last (or the interrupted) run saved."""
        if self._record is None:
            raise RuntimeError("nothing was saved yet: call run(until=...) first")
        return self._record.solution(self)

    @property
    def resolution(self) -> float:
        """How far a time may be from `t` and be the same: no step is shorter."""
        return self._resolution_at(self.t)

    def is_now(self, t: float) -> bool:
        """Whether `t` is the present time, to rounding."""
        return abs(t - self.t) <= self.resolution

    def _resolution_at(self, t: float) -> float:
        # Rounding that the start has, the differences to it have; and no step is VANISHING.
        return max(resolution(t, self.begin), 4.0 * VANISHING * abs(self.until - t))

    def _landing(self) -> float:
        """The time to land on next."""
        after = self.t + self.resolution
        times = [self.until, *(observer.next_time(after) for observer in self.callbacks)]
        return first_of(times, self._resolution_at(min(times)))

    def _save_times(self, save_at: Sequence[float] | Array | None, resumed: bool) -> Array:
        if save_at is None:
            return np.array([self.t, self.until])
        times = np.unique(real_array("save_at", save_at, ndim=1))
        if resumed:
            times = times[times > self.t + self.resolution]
        first, last = self.t - self.resolution, self.until + self._resolution_at(self.until)
        outside = times[(times < first) | (times > last)]
        if len(outside):
            raise ValueError(
                f"save_at must lie in [{self.t:.6g}, {self.until:.6g}], got {outside[0]:.6g}"
            )
        return times

    def _advance(self, target: float) -> None:
        """One step, to `target` at the most.

        Noise is split off symmetrically (Strang), at second order: half of it, the flow, the other
        half. With noise the length of the step is fixed before its kicks are drawn, and the flow
        takes as many steps for it as its errors demand: to shorten a step for what it has drawn
        would prefer small kicks, at any tolerance.
        """
        target = min(target, self.until)
        if target != self._leg[1]:
            self._leg = (self.t, target)
        first = self._control.stage(self.t, self.state)
        dt, limit = self._proposed_step(first, target)
        noise = self.system.noise
        counted: Any = noise or _Silence()
        kicks = counted.drawn
        if noise is None:
            state, dt, limit = self._accepted(self.t, self.state, first, dt, limit, target)
        else:
            dt = noise.small_step(self.t, self.state, dt)
            state = noise.kick(self.t, self.state, 0.5 * dt, kicks)
            state = self._flow(state, dt, limit)
            state = noise.kick(self.t + 0.5 * dt, state, 0.5 * dt, kicks + 1)
            kicks += 2
        if not np.isfinite(state).all():
            raise FloatingPointError(f"the state is no longer finite after t = {self.t:.6g}")
        t = _end(self.t, dt, target)
        limited_by = self.limited_by + Counter([limit])
        # At once: Python interrupts between calls, and a time goes with its state.
        self.t, self.state, self.last_step, self.steps, self.limited_by, counted.drawn = (
            t, state, dt, self.steps + 1, limited_by, kicks,
        )  # fmt: skip

    def _flow(self, state: Array, dt: float, limit: str) -> Array:
        """The state after a time `dt` without noise, in one step or several."""
        t, end = self.t, self.t + dt
        while t < end:
            first = self._control.stage(t, state)
            state, taken, _ = self._accepted(t, state, first, end - t, limit, end)
            t = _end(t, taken, end)
        return state

    def _accepted(
        self, t: float, state: Array, first: Stage, dt: float, limit: str, target: float
    ) -> tuple[Array, float, str]:
        """(state after an accepted step, its length <= dt, what limited it)."""
        while True:
            if t + dt == t or dt < VANISHING * (self.until - t):
                raise FloatingPointError(
                    f"the step underflowed at t = {t:.6g} (limited by {limit}); "
                    "the velocity is too large or not smooth enough for the tolerance"
                )
            try:
                step = self.stepper.step(self.system, t, state, dt, first)
            except StepTooLarge as failed:
                allowed = SAFETY * failed.bound * self.stepper.ssp_coefficient
                dt, limit = min(allowed, SAFETY * dt), "bound"
                self.rejected["bound"] += 1
                continue
            shorter = self._control.shorter(t, _end(t, dt, target), state, limit, first, step)
            if shorter is None:
                return step.state, dt, limit
            dt, limit = shorter, "error"
            self.rejected["error"] += 1

    def _proposed_step(self, first: Stage, target: float) -> tuple[float, str]:
        """(dt, what limits it)."""
        limits = {
            "bound": self.stepper.ssp_coefficient * first.stable_step,
            "error": self._control.proposal(first, self.state, self._leg[1] - self._leg[0]),
            "max_step": self.max_step,
        }
        limit = min(limits, key=limits.__getitem__)
        dt, remaining = limits[limit], target - self.t
        if dt >= remaining:
            return remaining, "schedule"
        # Two even steps rather than a full one and a sliver.
        return (0.5 * remaining, "schedule") if 2.0 * dt > remaining else (dt, limit)


class _Silence:
    """Stands for the noise of a system that has none."""

    drawn = 0


def _end(t: float, dt: float, target: float) -> float:
    """The time after a step, on the target where it leads there."""
    return target if dt >= target - t else t + dt


def stepper_named(name: str | OneStep) -> OneStep:
    """The stepper of that name, or the one given."""
    if isinstance(name, str):
        return STEPPERS[one_of("stepper", name, STEPPERS)]
    if not callable(getattr(name, "step", None)) or not hasattr(name, "ssp_coefficient"):
        raise TypeError(
            f"stepper must be one of {', '.join(map(repr, STEPPERS))} or a Stepper, "
            f"got {shown(name)}"
        )
    return name


def _checked(callbacks: Any) -> list[Callback]:
    """The callbacks of a run, each of which is one."""
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"callbacks must be a list of callbacks, got {shown(callbacks)}")
    for callback in callbacks:
        if not all(callable(getattr(callback, name, None)) for name in ("notify", "finish")):
            raise TypeError(f"callbacks must be a list of callbacks, got {shown(callback)} in it")
    return list(callbacks)


def run_to(system: System, state: Any, until: float, **options: Any) -> Array:
    """The state at time `until`: `Simulation(system, state, **options)` run without saving."""
    simulation = Simulation(system, state, **options)
    simulation.run(until=until, save_at=[])
    return simulation.state
