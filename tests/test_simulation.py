"""The time loop: exact landing, bounds checked at every stage, interruption, continuation."""

import numpy as np
import pytest
from test_steppers import Rotation

from meshes import icosphere
from pde import Equation, FiniteVolume, Solution
from pde.callbacks import AtTimes, Callback, Every, EverySteps, Monitor, Save, SteadyState
from pde.fields.one_body import Drift
from pde.simulation import Simulation


class Decay(Rotation):
    """u' = -rate(t) u: forward Euler stays positive while dt <= 1/rate."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate if callable(rate) else lambda t: rate

    def stage(self, t, state):
        given = super().stage(t, np.array([1.0, 0.0]))
        given.tendency = -self.rate(t) * state
        given.bound = 1.0 / self.rate(t)
        return given


def test_lands_exactly_on_every_scheduled_time():
    wanted = [0.0, 0.1, 1 / 3, 0.7, 1.0]
    monitor = Monitor(Every(0.3), function=lambda t, u: t)
    sim = Simulation(Decay(7.0), [1.0, 2.0], stepper="ssprk3", max_step=0.02)
    solution = sim.run(until=1.0, save_at=wanted, callbacks=[monitor])
    assert solution.times.tolist() == wanted
    assert monitor.times == [0.0, 0.3, 0.6, 0.9]
    assert sim.t == 1.0
    np.testing.assert_allclose(solution.states[-1], np.exp(-7.0) * np.array([1, 2]), rtol=1e-3)


def test_every_is_exact_over_many_multiples():
    """To the bit the decimals that one would write: k / 10 is rounded once, k * 0.1 twice."""
    schedule, t = Every(0.1), 0.0
    for k in range(1, 5000):
        t = schedule.next_time(t)
        assert t == k / 10


def test_without_times_start_and_end_are_saved():
    solution = Simulation(Decay(1.0), [1.0]).run(until=0.5)
    assert solution.times.tolist() == [0.0, 0.5]
    assert solution.states.shape == (2, 1)


def test_a_second_run_continues_the_first_to_the_bit():
    whole = Simulation(Decay(3.0), [1.0, 0.5])
    whole.run(until=2.0, save_at=[1.0, 2.0])
    parts = Simulation(Decay(3.0), [1.0, 0.5])
    parts.run(until=1.0)
    parts.run(until=2.0)
    np.testing.assert_array_equal(parts.state, whole.state)
    assert parts.steps == whole.steps


def test_the_bound_rules_the_step():
    sim = Simulation(Decay(10.0), [1.0], stepper="ssprk54")
    sim.run(until=2.0, save_at=[])
    # 0.8 / 10 * 1.508 a step
    assert sim.steps == pytest.approx(2.0 / (0.08 * 1.50818), abs=2)
    assert sim.limited_by["bound"] >= sim.steps - 2


def test_a_step_whose_later_stage_exceeds_the_bound_is_redone_smaller():
    jump = Decay(lambda t: 1.0 if t < 0.5 else 100.0)
    sim = Simulation(jump, [1.0], stepper="ssprk3")
    solution = sim.run(until=1.0, save_at=np.linspace(0, 1, 11))
    assert sim.rejected["bound"] > 0
    assert (solution.states >= 0).all()


def test_interruption_keeps_what_was_saved():
    class Interrupt(Callback):
        def act(self, sim):
            if sim.t >= 0.5:
                raise KeyboardInterrupt

    sim = Simulation(Decay(1.0), [1.0])
    with pytest.raises(KeyboardInterrupt):
        sim.run(until=1.0, save_at=[0, 0.25, 0.5, 0.75], callbacks=[Interrupt(AtTimes([0.5]))])
    assert sim.solution.times.tolist() == [0, 0.25, 0.5]
    resumed = sim.run(until=1.0)
    assert resumed.times.tolist() == [0.5, 1.0]


def test_steady_state_ends_the_run_and_says_so():
    sim = Simulation(Decay(5.0), [1.0], stepper="ssprk3", max_step=0.05)
    sim.run(until=100.0, callbacks=[SteadyState(EverySteps(5), tolerance=1e-6)])
    assert sim.t < 5.0
    assert "steady" in sim.stopped


def test_a_state_that_is_no_longer_finite_is_an_error():
    broken = Decay(lambda t: np.nan if t > 0.5 else 1.0)
    with pytest.raises(FloatingPointError, match="no longer finite"):
        Simulation(broken, [1.0]).run(until=3.0)


def test_bad_arguments_name_themselves():
    sim = Simulation(Decay(1.0), [1.0], t=1.0)
    with pytest.raises(ValueError, match="until must be >= the current time 1, got 0.5"):
        sim.run(until=0.5)
    with pytest.raises(ValueError, match=r"save_at must lie in \[1, 2\], got 3"):
        sim.run(until=2.0, save_at=[1.5, 3.0])
    with pytest.raises(ValueError, match="tolerance must be > 0, got -1"):
        Simulation(Decay(1.0), [1.0], tolerance=-1)
    with pytest.raises(ValueError, match="tolerance needs a stepper with an error estimate"):
        Simulation(Decay(1.0), [1.0], stepper="euler", tolerance=1e-3)
    with pytest.raises(ValueError, match="interval must be > 0"):
        Every(0.0)
    with pytest.raises(RuntimeError, match="nothing was saved yet"):
        _ = sim.__class__(Decay(1.0), [1.0]).solution


def test_diagnostics_are_computed_once_for_all_that_ask(tmp_path):
    system, asked = FiniteVolume(icosphere(2), Equation(Drift(np.eye(3)))), []
    measure = system.diagnostics
    system.diagnostics = lambda t, state: asked.append(t) or measure(t, state)
    sim = Simulation(system, np.ones(42))
    solution = sim.run(
        0.2, save_at=[0.0, 0.1, 0.2], callbacks=[Save(Every(0.1), tmp_path / "a.nc")]
    )
    assert asked == [0.0, 0.1, 0.2]
    np.testing.assert_array_equal(
        Solution.open(tmp_path / "a.nc").diagnostics["entropy"], solution.diagnostics["entropy"]
    )
    sim.state[3] += 1.0
    assert sim.diagnostics()["maximum"] > solution.diagnostics["maximum"][-1] + 0.5
