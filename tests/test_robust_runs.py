"""Runs that are interrupted, that fail, that are long: nothing is lost and nothing drifts."""

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from strategies import refused

from meshes import icosphere
from pde import (
    Equation,
    FiniteVolume,
    ParticleSystem,
    SelfAttention,
    Simulation,
    Solution,
    StreamFunction,
    ZeroTemperatureAttention,
    initial,
)
from pde import simulation as module
from pde.callbacks import AtTimes, Callback, EverySteps, Monitor, Progress, Save, SteadyState
from pde.fields.one_body import Drift
from pde.fields.time_dependent import TimeDependent
from pde.restart import Checkpoint

STATM = Path("/proc/self/statm")

V, B = np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 4.0, 1.0])
LAW = initial.random_band_limited(seed=1)


def cells(diffusion=0.0, order=2):
    return FiniteVolume(icosphere(3), Equation(SelfAttention(V, B, 5.0), diffusion), order=order)


def particles(diffusion=0.0):
    return ParticleSystem(Equation(SelfAttention(V, B, 5.0), diffusion), seed=4)


STARTS = {
    "cells": (cells, LAW),
    "cells with noise": (lambda: cells(0.1), LAW),
    "particles": (particles, initial.sample(LAW, 5, 1)),
    "particles with noise": (lambda: particles(0.1), initial.sample(LAW, 5, 1)),
    "two densities": (cells, np.column_stack([np.ones(92), np.arange(92.0)])),
}


class Places(Callback):
    """(t, steps, bytes of the state) after every step."""

    def __init__(self):
        super().__init__(EverySteps(1))
        self.found = []

    def act(self, sim):
        self.found.append((sim.t, sim.steps, sim.state.tobytes()))


def interrupt_at(wanted):
    """A tracer that raises KeyboardInterrupt at the `wanted`-th line of pde/simulation.py."""
    count = [0]

    def line(frame, event, argument):
        if event == "line":
            count[0] += 1
            if count[0] == wanted:
                raise KeyboardInterrupt
        return line

    def call(frame, event, argument):
        return line if frame.f_code.co_filename == module.__file__ else None

    return call


@pytest.mark.parametrize("start", STARTS)
def test_an_interrupt_at_any_line_leaves_a_whole_state(start):
    make, state = STARTS[start]
    places = Places()
    options = {"max_step": 0.05, "save_at": [0.0, 0.1, 0.2]}
    max_step = options.pop("max_step")
    Simulation(make(), state, max_step=max_step).run(0.2, **options, callbacks=[places])
    whole = set(places.found)
    wanted, interrupted = 1, True
    while interrupted:
        # A system goes on with new random numbers: each run has its own.
        sim = Simulation(make(), state, max_step=max_step)
        sys.settrace(interrupt_at(wanted))
        try:
            sim.run(0.2, **options)
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert (sim.t, sim.steps, sim.state.tobytes()) in whole
        if sim._record is not None:
            solution = sim.solution
            assert len(solution.times) == len(solution.states) == len(solution.measures)
            assert set(solution.times) <= {0.0, 0.1, 0.2}
        wanted += 11
    assert wanted > 150
    sim.run(0.3)
    assert sim.t == 0.3


class Fails(Callback):
    """Raises in one of its methods: in `act` at the third step, in others whenever called."""

    def __init__(self, where, error):
        super().__init__(EverySteps(1))
        self.error = error
        if where != "act":
            setattr(self, where, self.fail)

    def fail(self, *arguments):
        raise self.error

    def act(self, sim):
        if sim.steps == 3:
            self.fail()


class Ended(Callback):
    """Remembers that it was told of the end."""

    ended = False

    def act(self, sim):
        pass

    def finish(self, sim):
        self.ended = True


@pytest.mark.parametrize("where", ["act", "next_time", "finish", "start", "notify"])
@pytest.mark.parametrize("error", [KeyError("k"), KeyboardInterrupt(), MemoryError()], ids=type)
def test_a_callback_that_raises_costs_no_other_one_its_end(tmp_path, where, error):
    first, last = Ended(), Ended()
    save = Save(EverySteps(1), tmp_path / "r.nc")
    sim = Simulation(cells(), LAW, max_step=0.01)
    callbacks = [first, save, Fails(where, error), last]
    with pytest.raises(type(error)):
        sim.run(0.1, [0.0, 0.1], callbacks)
    assert first.ended and last.ended
    saved = Solution.open(tmp_path / "r.nc")
    assert len(saved.times) >= 1 and np.isfinite(saved.states).all()
    assert saved.times[-1] <= sim.t
    if where == "act":
        assert len(saved.times) == 4 and saved.times[-1] == sim.t
        np.testing.assert_array_equal(saved.states[-1], sim.state)
    # The simulation goes on.
    assert sim.run(0.2).times[-1] == 0.2


def test_diagnostics_that_fail_leave_time_and_state_unrecorded():
    """A state without its numbers would be a record of another shape."""
    system = cells()
    numbers = system.diagnostics

    def failing(t, state):
        if t > 0.0:
            raise ValueError("no number")
        return numbers(t, state)

    system.diagnostics = failing
    sim = Simulation(system, LAW)
    with pytest.raises(ValueError, match="no number"):
        sim.run(0.1, save_at=[0.0, 0.1])
    assert sim.solution.times.tolist() == [0.0]


@pytest.mark.parametrize("gained", [True, False])
def test_an_energy_that_comes_or_goes_with_time(tmp_path, gained):
    """V = B has an energy, another V has none."""

    def field_at(t):
        return SelfAttention(B if (t > 0.05) == gained else V, B, 1.0)

    system = FiniteVolume(icosphere(3), Equation(TimeDependent(field_at)))
    save = Save(AtTimes([0.0, 0.1]), tmp_path / "r.nc")
    found = Simulation(system, LAW).run(0.1, [0.0, 0.1], [save]).diagnostics
    assert np.isnan(found["energy"]).tolist() == [gained, not gained]
    saved = Solution.open(tmp_path / "r.nc").diagnostics
    assert ("energy" in saved) != gained
    assert np.isfinite(saved["mass"]).all()


def test_times_of_saving_in_any_order_and_number():
    sim = Simulation(cells(), LAW)
    solution = sim.run(0.1, save_at=[0.1, 0.0, 0.05, 0.05, 0.1, np.float32(0.0625)])
    assert solution.times.tolist() == [0.0, 0.05, 0.0625, 0.1]
    assert len(Simulation(cells(), LAW).run(0.1, save_at=[]).times) == 0
    assert len(Simulation(cells(), LAW).run(0.0).times) == 1
    tiny = Simulation(cells(), LAW, max_step=1e-300)
    refused(lambda: tiny.run(1.0), "max_step")
    assert tiny.run(1e-299).times[-1] == 1e-299
    fast = FiniteVolume(icosphere(3), Equation(ZeroTemperatureAttention(1e99 * V, B)))
    refused(lambda: Simulation(fast, LAW).run(1.0), "the step underflowed at t = 0")


# --- long runs -------------------------------------------------------------------------------


def rotation():
    field = StreamFunction(lambda x, t: -x[:, 2])
    return FiniteVolume(icosphere(4), Equation(field), order=1), LAW, 0.002


def concentration():
    """Mass gathers in two cells while all others empty."""
    field = ZeroTemperatureAttention(V, B)
    return FiniteVolume(icosphere(4), Equation(field), order=2), LAW, 0.002


def noise():
    """Implicit steps of a bump that turns for ever."""
    turning = Drift([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    field = SelfAttention(np.eye(3), np.eye(3), 1.0) + turning
    law = initial.von_mises_fisher([0.0, 1.0, 0.0], 2.0)
    return FiniteVolume(icosphere(2), Equation(field, 0.3)), law, 0.002


def cloud():
    return particles(), initial.sample(LAW, 8, seed=1), 0.002


LONG = {"rotation": rotation, "concentration": concentration, "noise": noise, "cloud": cloud}

STEPS = {"rotation": 5000, "concentration": 5000, "noise": 1000, "cloud": 1000}

BLOCKS = 500
"""Objects that may come to stay between a tenth of a long run and its end: 1 in 10 steps."""

BYTES = 2_000_000
"""The same in memory of the whole process, libraries included, over 100,000 steps."""


class Memory(Callback):
    """Blocks and bytes in use, masses and how far lengths are off, at some steps."""

    def __init__(self, every):
        super().__init__(EverySteps(every))
        self.blocks, self.bytes = [], []
        self.mass, self.least, self.length = [], [], []

    def act(self, sim):
        gc.collect()
        self.blocks.append(sys.getallocatedblocks())
        self.bytes.append(resident())
        mu = sim.system.measure(sim.state)
        self.mass.append(mu.total)
        self.least.append(mu.weights.min())
        self.length.append(np.abs(np.linalg.norm(mu.points, axis=1) - 1.0).max())


def resident():
    """Bytes of memory of this process; 0 where the system does not tell."""
    if not STATM.exists():
        return 0
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def long_run(tmp_path, name, steps):
    """A run with every kind of callback attached."""
    system, state, dt = LONG[name]()
    memory, before = Memory(steps // 10), 20
    sim = Simulation(system, state, tolerance=None, max_step=dt)
    # What is made once, compiled code and stencils, is made before.
    sim.run(before * dt)
    few = EverySteps(steps // 20)
    callbacks = [
        memory,
        Save(few, tmp_path / "r.nc"),
        Checkpoint(few, tmp_path / "restart.npz"),
        SteadyState(EverySteps(1), tolerance=1e-300),
        Monitor(few, function=lambda t, state: float(state.max())),
        Progress(EverySteps(100)),
    ]
    sim.run((before + steps) * dt, save_at=[], callbacks=callbacks)
    blocks, size = (max(some[2:]) - some[1] for some in (memory.blocks, memory.bytes))
    drift = np.abs(np.array(memory.mass) / memory.mass[0] - 1.0).max()
    print(f"{name}: {sim.steps} steps, {blocks} objects, {size} bytes more, mass by {drift:.1e}")
    assert sim.steps >= steps
    assert blocks < BLOCKS
    assert size < BYTES
    # A hundredth of a digit a step, and 2e-13 after 100,000: what is lost is no trend.
    assert drift < 2e-15 + 2e-18 * steps
    assert min(memory.least) >= 0.0
    assert max(memory.length) < 4 * np.finfo(float).eps
    saved = Solution.open(tmp_path / "r.nc")
    assert len(saved.times) >= 20 and np.isfinite(saved.states).all()


@pytest.mark.parametrize("name", LONG)
def test_memory_and_mass_over_thousands_of_steps(tmp_path, name):
    long_run(tmp_path, name, STEPS[name])


@pytest.mark.full
@pytest.mark.parametrize("name", LONG)
def test_memory_and_mass_over_a_hundred_thousand_steps(tmp_path, name):
    long_run(tmp_path, name, 100_000)
