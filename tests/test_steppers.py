"""Runge-Kutta methods: order conditions, SSP coefficients, observed orders, embedded errors."""

from dataclasses import dataclass

import numpy as np
import pytest

from pde.simulation import Simulation, run_to, stepper_named
from pde.time.steppers import EXPLICIT, Stepper, StepTooLarge, explicit_for, ssprk3, ssprk54


@dataclass
class Rotation:
    """A nonlinear, non-autonomous planar system with a known solution, as a `System`.

    z' = i (1 + |z|^2) z + (a'(t)/a(t)) z with z(0) = 1 has |z| = a(t) and
    arg z = t + int_0^t a^2: with a = 1 + sin(t)/2 everything is in closed form.
    """

    bound: float = np.inf
    order: int = 4
    tolerance: float | None = None
    default_stepper: str = "ssprk54"
    noise: None = None

    @staticmethod
    def exact(t):
        radius = 1 + np.sin(t) / 2
        angle = t + t + (1 - np.cos(t)) + (t - np.sin(2 * t) / 2) / 8
        return radius * np.array([np.cos(angle), np.sin(angle)])

    def stage(self, t, state):
        x, y = state
        spin = 1 + x**2 + y**2
        growth = np.cos(t) / 2 / (1 + np.sin(t) / 2)
        return _Given(np.array([growth * x - spin * y, growth * y + spin * x]), self.bound)

    def initial_state(self, given):
        return np.array(given, dtype=float)

    def project(self, state):
        return state

    def norm(self, difference):
        return float(np.linalg.norm(difference))

    def measure(self, state):
        raise AssertionError("no measure is needed to advance")

    def diagnostics(self, t, state):
        return {"radius": float(np.linalg.norm(state))}


@dataclass
class _Given:
    tendency: np.ndarray
    bound: float

    @property
    def stable_step(self):
        return 0.8 * self.bound

    def rhs(self, dt=None):
        return self.tendency


@pytest.mark.parametrize("stepper", EXPLICIT.values(), ids=lambda s: s.name)
def test_observed_order(stepper):
    steps = 64 if stepper.order < 4 else 32
    errors = []
    for n in (steps, 2 * steps, 4 * steps):
        end = run_to(Rotation(), [1.0, 0.0], 1.0, stepper=stepper, max_step=1.0 / n)
        errors.append(np.linalg.norm(end - Rotation.exact(1.0)))
    observed = np.log2(errors[-2] / errors[-1])
    assert abs(observed - stepper.order) < 0.15
    assert errors[-1] < {1: 3e-2, 2: 3e-4, 3: 2e-6, 4: 1e-7}[stepper.order]


def test_ssp_coefficients_of_the_literature():
    known = {"euler": 1.0, "ssprk2": 1.0, "ssprk3": 1.0, "ssprk54": 1.508180049189838}
    for name, value in known.items():
        assert EXPLICIT[name].ssp_coefficient == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("stepper", EXPLICIT.values(), ids=lambda s: s.name)
def test_rows_are_convex_to_the_last_bit(stepper):
    # exact in float64 because all entries are multiples of 2^-50
    np.testing.assert_array_equal(stepper.alpha.sum(axis=1), 1.0)
    assert stepper.alpha.min() >= 0 and stepper.beta.min() >= 0


@pytest.mark.parametrize(
    "stepper", [s for s in EXPLICIT.values() if s.order > 1], ids=lambda s: s.name
)
def test_embedded_error_has_the_order_below(stepper):
    system, errors = Rotation(), []
    start = np.array([1.0, 0.0])
    for dt in (0.02, 0.01):
        errors.append(
            np.linalg.norm(stepper.step(system, 0.0, start, dt, system.stage(0.0, start)).error)
        )
    assert abs(np.log2(errors[0] / errors[1]) - stepper.order) < 0.15


def test_the_embedded_estimate_is_no_smaller_than_the_error():
    system, start = Rotation(), np.array([1.0, 0.0])
    for stepper in (EXPLICIT["ssprk2"], ssprk3, ssprk54):
        step = stepper.step(system, 0.0, start, 0.05, system.stage(0.0, start))
        assert np.linalg.norm(step.error) > np.linalg.norm(step.state - Rotation.exact(0.05))


def test_a_wrong_coefficient_is_noticed():
    alpha = ssprk3.alpha.copy()
    alpha[2, 0], alpha[2, 2] = 0.3, 0.7
    with pytest.raises(ValueError, match="misses order 3"):
        Stepper("damaged", 3, alpha, ssprk3.beta)
    with pytest.raises(ValueError, match=">= 0"):
        Stepper("negative", 3, -ssprk3.alpha, ssprk3.beta)


def test_a_stage_beyond_its_bound_ends_the_step():
    system = Rotation(bound=0.01)
    state = np.array([1.0, 0.0])
    with pytest.raises(StepTooLarge) as failed:
        ssprk3.step(system, 0.0, state, 0.02, system.stage(0.0, state))
    assert failed.value.bound == 0.01


def test_defaults_and_unknown_names():
    names = ["euler", "ssprk2", "ssprk3", "ssprk54", "ssprk54"]
    assert [explicit_for(order) for order in (1, 2, 3, 4, 8)] == names
    with pytest.raises(ValueError, match="stepper must be one of 'euler', .* got 'rk4'"):
        stepper_named("rk4")


def test_error_control_meets_its_tolerance_with_the_fewest_decades_of_steps():
    errors, steps = [], []
    for tolerance in (1e-6, 1e-9):
        sim = Simulation(Rotation(), [1.0, 0.0], stepper="ssprk54", tolerance=tolerance)
        sim.run(until=5.0, save_at=[])
        errors.append(np.linalg.norm(sim.state - Rotation.exact(5.0)))
        steps.append(sim.steps)
        assert sim.limited_by["error"] > 0.8 * sim.steps
    # the sum of local errors, amplified by the shear of the rotation
    assert errors[0] < 100 * 1e-6 and errors[1] < 100 * 1e-9
    # local errors of order dt^4: 1000^(1/4) = 5.6 times the steps for a thousandth
    assert 4.0 < steps[1] / steps[0] < 7.5
