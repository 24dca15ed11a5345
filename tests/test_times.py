"""Times that differ by rounding are one: no save is lost or doubled, no step is a sliver."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import Decay

from pde.callbacks import AtTimes, Callback, Either, Every, Monitor
from pde.simulation import Simulation
from pde.time.instants import ROUNDING, first_of, multiple, multiples_until, same
from sphere_attention_scripts.case_tree import CaseError, Time
from sphere_attention_scripts.run_folder import go_the_same_way


class Steps(Callback):
    """The length of each step."""

    def __init__(self):
        super().__init__()
        self.times = []

    def act(self, sim):
        self.times.append(sim.t)

    @property
    def shortest(self):
        return np.diff(self.times).min(initial=np.inf)


def simulation(t=0.0, rate=1e-3):
    return Simulation(Decay(rate), [1.0], stepper="euler", t=t)


def clock(schedule):
    return Monitor(schedule, function=lambda t, state: t)


decimals = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places),
    st.integers(1, 99_999),
    st.integers(0, 8),
)
counts = st.integers(1, 60)


@settings(deadline=None, max_examples=300)
@given(interval=decimals, count=counts)
def test_an_end_that_is_a_multiple_is_the_last_save(interval, count):
    """As typed: `Every(0.1)` until 0.3 gives four saves, whatever 3 * 0.1 is in binary."""
    until = float(interval * count)
    monitor, steps = clock(Every(float(interval))), Steps()
    solution = simulation(rate=1e-3 / until).run(until, callbacks=[monitor, steps])
    assert len(monitor.times) == count + 1
    assert monitor.times[-1] == until == solution.times[-1]
    assert monitor.times == [float(interval * k) for k in range(count + 1)]
    assert steps.shortest > 0.9 * float(interval)


@settings(deadline=None, max_examples=200)
@given(
    interval=decimals,
    count=counts,
    begin=st.integers(-50, 50),
    shift=st.sampled_from([-2, -1, 0, 1, 2]),
    kind=st.sampled_from(["product", "sum", "linspace", "arange"]),
)
def test_times_computed_in_other_ways_are_the_same_ones(interval, count, begin, shift, kind):
    """Beside `Every`: multiples in floating point, running sums, linspace, some ulps off."""
    h, start, until = float(interval), float(interval * begin), float(interval * (begin + count))
    steps = {
        "product": lambda: [(begin + k) * h for k in range(count + 1)],
        "sum": lambda: start + np.concatenate([[0.0], np.cumsum(np.full(count, h))]),
        "linspace": lambda: np.linspace(start, until, count + 1),
        "arange": lambda: np.arange(start, until + 0.5 * h, h),
    }[kind]
    times = np.array(steps(), dtype=float)
    times += shift * np.spacing(times)
    monitor, steps, both = clock(Every(h)), Steps(), clock(Either(AtTimes(times), Every(h)))
    sim = simulation(t=start, rate=1e-3 / h)
    solution = sim.run(until, save_at=times, callbacks=[monitor, steps, both])
    for found in (solution.times, monitor.times, both.times):
        assert len(found) == count + 1
    assert solution.times[-1] == until
    # The times of save_at are those that are stored, but for the start's and the end's.
    np.testing.assert_array_equal(solution.times[1:-1], times[1:-1])
    assert steps.shortest > 0.9 * h


@pytest.mark.parametrize("t", [0.0, -1.0, 1e6, -1e6, 1e-9])
def test_near_any_time(t):
    """Around 0 what counts is where the run began: -1 + 10 * 0.1 misses 0 by 2e-16."""
    times = [t, *np.arange(t, t + 2.0, 0.1)[1:], t + 2.0]
    steps, monitor = Steps(), clock(Every(0.1))
    solution = simulation(t=t).run(t + 2.0, save_at=times, callbacks=[steps, monitor])
    assert len(solution.times) == 21
    assert steps.shortest > (0.02 if t != 1e-9 else 5e-10)
    assert len(monitor.times) == (20 if t == 1e-9 else 21)


def test_times_of_all_sizes_stay_apart():
    """Differences far below the rounding of the end, where the start is 0: initial layers."""
    times = [0.0, *np.geomspace(1e-15, 1e12, 28)]
    assert simulation(rate=1e-20).run(1e12, save_at=times).times.tolist() == times


def test_a_time_that_no_step_leads_to_is_the_start():
    solution = simulation().run(1.0, save_at=[0, 1e-300, 1])
    assert solution.times.tolist() == [0.0, 1.0]


def test_the_end_goes_before_save_at_and_that_before_multiples():
    third = 0.1 + 0.2
    assert third != 0.3
    solution = simulation().run(0.3, save_at=[0.1, third])
    assert solution.times.tolist() == [0.1, 0.3]
    monitor = clock(Every(0.1))
    assert simulation().run(1.0, [third], [monitor]).times.tolist() == [third]
    assert monitor.times[3] == third and len(monitor.times) == 11
    assert first_of([1.0, third, 0.3], 1e-15) == third


def test_a_run_to_the_present_time_takes_no_step():
    sim = simulation()
    sim.run(0.3)
    for until in (0.1 + 0.2, 0.3, 0.3 - 5e-17):
        steps = sim.steps
        assert sim.run(until).times.tolist() == [0.3]
        assert sim.steps == steps and sim.t == 0.3
    with pytest.raises(ValueError, match="until must be >= the current time"):
        sim.run(0.3 - 1e-12)
    with pytest.raises(ValueError, match="save_at must lie in"):
        sim.run(0.4, save_at=[0.3 - 1e-12])
    assert len(sim.run(0.4, save_at=[0.1 + 0.2, 0.4]).times) == 2


def test_a_run_in_many_pieces_meets_the_multiples():
    """Ends that add up drift away from the multiples, and back to rounding they are the same."""
    sim, monitor, steps = simulation(), clock(Every(0.1)), Steps()
    for _ in range(100):
        sim.run(sim.t + 0.1, callbacks=[monitor, steps])
    assert len(monitor.times) == 101
    assert steps.shortest > 0.04


@pytest.mark.parametrize(("interval", "until"), [(1e-300, 1.0), (1e-14, 1.0), (1e-9, 1e6)])
def test_intervals_below_the_rounding_are_refused(interval, until):
    with pytest.raises(ValueError, match=r"interval must be > .*, the rounding of times like"):
        simulation().run(until, callbacks=[clock(Every(interval))])
    assert len(simulation(t=until).run(until, callbacks=[clock(Every(until))]).times) == 1


def test_multiples():
    assert [multiple(k, 0.1) for k in (-3, 0, 7)] == [-0.3, 0.0, 0.7]
    assert Every(np.float64(0.1)).next_time(0.2) == 0.3
    assert Every(0.1).next_time(-0.35) == -0.3 and Every(0.1).next_time(-0.3) == -0.2
    assert same(0.3, 0.1 + 0.2) and not same(1.0, 1.0 + 2 * ROUNDING)


# --- cases -----------------------------------------------------------------------------------


@settings(deadline=None)
@given(interval=decimals, count=counts)
def test_a_case_saves_at_the_multiples_that_one_would_write(interval, count):
    until = float(interval * count)
    saves = Time(until=until, save_every=float(interval)).saves
    assert saves == [float(interval * k) for k in range(count + 1)]
    longer = Time(until=float(interval * (count + 3)), save_every=float(interval)).saves
    assert longer[: count + 1] == saves
    assert go_the_same_way(saves, longer, until)


def test_ends_of_cases():
    assert multiples_until(0.35, 0.1) == [0.0, 0.1, 0.2, 0.3, 0.35]
    assert Time(until=0.3, save_at=[0.1, 0.1 + 0.2]).saves == [0.0, 0.1, 0.3]
    with pytest.raises(CaseError, match="must lie between 0 and time.until = 0.3, got 0.4"):
        Time(until=0.3, save_at=[0.4])
    assert go_the_same_way([0.0, 0.1, 0.3], [0.0, 0.1, 0.1 + 0.2, 0.4], 0.3)
    assert not go_the_same_way([0, 1, 2], [0, 1], 1.5)
