"""What happens on the way, apart from when.

A *schedule* says when: it names the next time the loop has to land on, and whether now is due.
A *callback* says what. Any callback takes any schedule.

Times that differ by rounding are one (`pde.time.instants`): the loop lands once for all that name
it.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pde.arguments import Array, function, natural, positive, real_array, shown
from pde.results.files import path_of
from pde.results.storage import ResultWriter
from pde.solution import Solution
from pde.time.instants import multiple, resolution

if TYPE_CHECKING:
    from pde.simulation import Simulation


class Schedule(Protocol):
    """When a callback acts."""

    def next_time(self, t: float) -> float:
        """The first time after t that the loop must land on exactly; inf: none."""

    def due(self, sim: Simulation) -> bool:
        """Whether the callback acts in the simulation's present state."""


class Times:
    """Base of schedules that name times: now is due where one of them is now, to rounding."""

    def next_time(self, t: float) -> float:
        """The first time after t; inf: none."""
        raise NotImplementedError

    def due(self, sim: Simulation) -> bool:
        """Whether one of the times is the simulation's, to rounding."""
        before = math.nextafter(sim.t - sim.resolution, -math.inf)
        return self.next_time(before) <= sim.t + sim.resolution


@dataclass(frozen=True, eq=False)
class AtTimes(Times):
    """At the given times."""

    times: Sequence[float] | Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", np.unique(real_array("times", self.times, ndim=1)))

    def next_time(self, t: float) -> float:
        """The next of the times."""
        times = np.asarray(self.times)
        later = int(np.searchsorted(times, t, side="right"))
        return float(times[later]) if later < len(times) else math.inf


@dataclass(frozen=True)
class Every(Times):
    """Every `interval` units of time, at the multiples of the number as it is written.

    Every(0.1) acts at 0.1, 0.2, 0.3, to the bit. Raises ValueError, where the run starts, for an
    interval so short that rounding would swallow it before the end.
    """

    interval: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", positive("interval", self.interval))

    def next_time(self, t: float) -> float:
        """The next multiple."""
        self._check(t)
        k = math.floor(t / self.interval)
        while multiple(k, self.interval) > t:
            k -= 1
        while multiple(k, self.interval) <= t:
            k += 1
        return multiple(k, self.interval)

    def due(self, sim: Simulation) -> bool:
        """At a multiple."""
        self._check(sim.until)
        return super().due(sim)

    def _check(self, t: float) -> None:
        if self.interval <= resolution(t):
            raise ValueError(
                f"interval must be > {resolution(t):.3g}, the rounding of times like {t:.6g}, "
                f"got {self.interval:.3g}"
            )


@dataclass(frozen=True)
class EverySteps:
    """After every `n` steps; no time is landed on."""

    n: int = 1

    def __post_init__(self) -> None:
        natural("n", self.n, 1)

    def next_time(self, t: float) -> float:
        """Infinity."""
        return math.inf

    def due(self, sim: Simulation) -> bool:
        """After each n steps."""
        return sim.steps % self.n == 0


@dataclass(eq=False)
class EverySeconds:
    """Once so many seconds have passed on the clock; no time is landed on."""

    seconds: float
    _last: float = field(default_factory=time.monotonic, init=False, repr=False)

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)

    def next_time(self, t: float) -> float:
        """Infinity."""
        return math.inf

    def due(self, sim: Simulation) -> bool:
        """Whether the seconds have passed since the last time that it was."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return False
        self._last = now
        return True


@dataclass(frozen=True)
class Either:
    """Whenever one of two schedules is due."""

    first: Schedule
    second: Schedule

    def __post_init__(self) -> None:
        _check_schedule("first", self.first)
        _check_schedule("second", self.second)

    def next_time(self, t: float) -> float:
        """The nearer of the two."""
        return min(self.first.next_time(t), self.second.next_time(t))

    def due(self, sim: Simulation) -> bool:
        """When one of them is."""
        return self.first.due(sim) or self.second.due(sim)


@dataclass(eq=False)
class Callback:
    """Base: acts at the start, whenever its schedule is due, and is told of the end.

    A callback that remembers something tells it in `snapshot` and takes it back in `resume`; then
    a run resumed from a restart file goes on as if it had never stopped.
    """

    schedule: Schedule = field(default_factory=EverySteps)
    _seen: tuple[Any, ...] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_schedule("schedule", self.schedule)

    def files(self) -> list[str | Path]:
        """The files that it writes: no two callbacks of a run may write the same."""
        return []

    def next_time(self, t: float) -> float:
        """The next time the loop must land on for this callback."""
        return self.schedule.next_time(t)

    def start(self, sim: Simulation) -> None:
        """Called before the first step: acts, unless it has on this very state in a run before."""
        if self._seen != _moment(sim):
            self.notify(sim)

    def snapshot(self) -> dict[str, Any]:
        """What it remembers: numbers, text, arrays, lists and dicts (see `pde.restart`)."""
        return {}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Called in place of `start` in a resumed run, with what `snapshot` told."""
        self._seen = _moment(sim)

    def notify(self, sim: Simulation) -> None:
        """Called after every step."""
        if self.schedule.due(sim):
            self.act(sim)
            self._seen = _moment(sim)

    def act(self, sim: Simulation) -> None:
        """What the callback does; subclasses override it."""
        raise NotImplementedError

    def finish(self, sim: Simulation) -> None:
        """Called once the run ends, also when it is interrupted."""


def _moment(sim: Simulation) -> tuple[Any, ...]:
    """What tells one state of a simulation from all others."""
    return weakref.ref(sim), sim.steps, sim.t


def check_files(callbacks: Sequence[Any]) -> None:
    """Raise ValueError where two callbacks of a run write the same file."""
    taken: set[str] = set()
    for callback in callbacks:
        for path in callback.files() if isinstance(callback, Callback) else ():
            real = os.path.realpath(path_of("path", path))
            if real in taken:
                raise ValueError(f"callbacks must write to files of their own, got {path} twice")
            taken.add(real)


def _check_schedule(name: str, value: Any) -> None:
    if not all(callable(getattr(value, method, None)) for method in ("next_time", "due")):
        raise TypeError(
            f"{name} must be a schedule such as Every(0.1), AtTimes([0, 1]) or EverySteps(10), "
            f"got {shown(value)}"
        )


def about(sim: Simulation) -> dict[str, Any]:
    """What a result says of the way in which it is made."""
    return {
        "system": type(sim.system).__name__,
        "order": sim.system.order,
        "stepper": sim.stepper.name,
    }


def _align(*lists: list[Any]) -> None:
    """Drop what an interruption between the parts of a record left behind."""
    count = min(map(len, lists))
    for values in lists:
        del values[count:]


def _counts(sim: Simulation) -> dict[str, Any]:
    """What is known of a run once it is over."""
    return {
        "steps": sim.steps,
        "rejected_steps": sum(sim.rejected.values()),
        "limited_by": dict(sim.limited_by),
    }


@dataclass(eq=False)
class Record(Callback):
    """Keeps times, states and diagnostics in memory; every run has one.

    In a resumed run those since the restart point: the ones before are in the result file.
    """

    times: list[float] = field(default_factory=list)
    states: list[Array] = field(default_factory=list)
    diagnostics: list[dict[str, float]] = field(default_factory=list)

    def act(self, sim: Simulation) -> None:
        """Copy the present state."""
        _align(self.diagnostics, self.states, self.times)
        diagnostics = sim.diagnostics()
        self.times.append(sim.t)
        self.states.append(sim.state.copy())
        self.diagnostics.append(diagnostics)

    def solution(self, sim: Simulation) -> Solution:
        """All that was recorded; a number that some states have and others lack is NaN there."""
        # An interruption may have come between time, state and diagnostics.
        count = len(self.diagnostics)
        names = dict.fromkeys(name for found in self.diagnostics for name in found)
        return Solution(
            times=np.array(self.times[:count]),
            states=np.array(self.states[:count]).reshape(count, *sim.state.shape),
            diagnostics={
                name: np.array([found.get(name, np.nan) for found in self.diagnostics])
                for name in names
            },
            mesh=getattr(sim.system, "mesh", None),
            weights=getattr(sim.system, "weights", None),
            metadata=about(sim) | _counts(sim),
            to_measure=sim.system.measure,
        )


@dataclass(eq=False)
class Save(Callback):
    """Appends to a result file; what was appended survives whatever happens later.

    The first record replaces an older file at `path`. A file of an earlier run of this `Save`, or
    of this simulation, is gone on with: a run in pieces gives one file.

    Raises ValueError where the run to append begins before that file's last state, or does not fit.
    """

    path: str | Path = "result.nc"
    metadata: dict[str, Any] = field(default_factory=dict)
    _writer: ResultWriter | None = field(default=None, init=False, repr=False)
    _written: Path | None = field(default=None, init=False, repr=False)

    def files(self) -> list[str | Path]:
        """The result file."""
        return [self.path]

    def start(self, sim: Simulation) -> None:
        """Create the file, or go on with it."""
        path = path_of("path", self.path).absolute()
        earlier = path == self._written or path in sim.written
        self._open(sim, keep=None if earlier else 0)
        assert self._writer is not None
        last = self._writer.last
        if last is not None and sim.t < last and not sim.is_now(last):
            raise ValueError(
                f"path {self.path} holds what an earlier run saved, until t = {last:.6g}: one that "
                f"starts at t = {sim.t:.6g} cannot be appended; give it a Save with another path"
            )
        super().start(sim)

    def snapshot(self) -> dict[str, Any]:
        """The number of records saved."""
        return {"records": 0 if self._writer is None else self._writer.saved}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Open the file again; records that were saved after the restart point are dropped."""
        self._open(sim, keep=remembered["records"])
        if remembered["records"]:
            self._own(sim)
        super().resume(sim, remembered)

    def _own(self, sim: Simulation) -> None:
        """Remember that the file holds what was acknowledged."""
        self._written = path_of("path", self.path).absolute()
        sim.written.add(self._written)

    def _open(self, sim: Simulation, keep: int | None) -> None:
        self._writer = ResultWriter(
            self.path,
            mesh=getattr(sim.system, "mesh", None),
            weights=getattr(sim.system, "weights", None),
            state_shape=sim.state.shape,
            metadata={**about(sim), **self.metadata},
            keep=keep,
        )

    def act(self, sim: Simulation) -> None:
        """Append the present state and its diagnostics: those that the first record has."""
        assert self._writer is not None
        if self._writer.last is not None and sim.is_now(self._writer.last):
            return  # in an earlier run, or before an interruption
        diagnostics, names = sim.diagnostics(), self._writer.names
        if names is not None:
            # Fields that depend on time may gain an energy; a file's columns stay.
            diagnostics = {name: diagnostics[name] for name in names if name in diagnostics}
        self._writer.append(sim.t, sim.state, diagnostics)
        self._own(sim)

    def finish(self, sim: Simulation) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@dataclass(eq=False)
class Monitor(Callback):
    """Collects `function(t, state)` over the run in `.times` and `.values`."""

    function: Callable[[float, Array], Any] = field(kw_only=True)
    times: list[float] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        function("function", self.function, "function(t, state)")

    def act(self, sim: Simulation) -> None:
        """Evaluate the function on the present state."""
        _align(self.times, self.values)
        self.values.append(self.function(sim.t, sim.state))
        self.times.append(sim.t)

    def snapshot(self) -> dict[str, Any]:
        """All that was collected."""
        return {"times": self.times, "values": self.values}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Go on collecting."""
        self.times, self.values = remembered["times"], remembered["values"]
        super().resume(sim, remembered)


@dataclass(eq=False)
class SteadyState(Callback):
    """Ends the run once the state changes by less than `tolerance` per unit of time."""

    tolerance: float = 1e-8
    _before: tuple[float, Array] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("tolerance", self.tolerance)

    def start(self, sim: Simulation) -> None:
        """Forget what an earlier run saw, unless this one goes on from there."""
        if self._seen != _moment(sim):
            self._before = None
        super().start(sim)

    def act(self, sim: Simulation) -> None:
        """Compare with the state seen last."""
        if self._before is not None and sim.t > self._before[0]:
            t, state = self._before
            rate = sim.system.norm(sim.state - state) / (sim.t - t)
            if rate < self.tolerance:
                sim.stop(f"steady to {rate:.2g} per unit of time at t = {sim.t:.6g}")
        self._before = (sim.t, sim.state.copy())

    def snapshot(self) -> dict[str, Any]:
        """The state seen last."""
        return {"before": self._before}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Go on comparing."""
        before = remembered["before"]
        self._before = None if before is None else (before[0], before[1])
        super().resume(sim, remembered)


@dataclass(eq=False)
class Progress(Callback):
    """A bar with the time left, on standard error."""

    _bar: Any = field(default=None, init=False, repr=False)

    def start(self, sim: Simulation) -> None:
        """Open the bar over the run's time span."""
        from tqdm import tqdm

        self._bar = tqdm(
            total=sim.until - sim.t,
            bar_format="t = {desc} |{bar}| {percentage:3.0f}%  {elapsed} gone, {remaining} left",
        )
        self._begin = sim.t
        super().start(sim)

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Open the bar over what is left."""
        self.start(sim)

    def act(self, sim: Simulation) -> None:
        """Move the bar to the present time."""
        self._bar.set_description_str(f"{sim.t:.4g}, step {sim.steps}", refresh=False)
        self._bar.update(sim.t - self._begin - self._bar.n)

    def finish(self, sim: Simulation) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
