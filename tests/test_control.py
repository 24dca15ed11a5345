"""Default steps are right in time: near rest, at fields that vanish for a while, at any scale.

Expected values are exact where a formula exists, else those of a run in fine steps.
"""

import numpy as np
import pytest

from meshes import icosphere
from pde import (
    Equation,
    FiniteVolume,
    Measure,
    ParticleSystem,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    initial,
)
from pde.field import Field
from pde.fields.one_body import Drift
from pde.simulation import run_to
from pde.time.control import StepControl
from pde.time.steppers import EXPLICIT

I3 = np.eye(3)
MESH = icosphere(10)


def attention(normalized=True):
    return SelfAttention(I3, I3, 4.0, normalized=normalized)


def turning(speed):
    return PrescribedVelocity(lambda x, t: speed(t) * np.cross([0.0, 0.0, 1.0], x))


def pulling(speed):
    """Towards the north pole."""
    return PrescribedVelocity(lambda x, t: speed(t) * (np.array([0.0, 0.0, 1.0]) - x[:, 2:] * x))


def longitude(mesh, rho):
    mean = Measure.from_mesh(mesh, rho).mean()
    return np.arctan2(mean[1], mean[0])


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize(
    ("normalized", "amplitude", "diffusion", "until"),
    [(True, 0.01, 0.0, 8.0), (False, 1e-3, 0.0, 1.0), (True, 1e-3, 0.01, 12.0)],
    ids=["SA", "USA", "noise"],
)
def test_growth_from_near_rest(normalized, amplitude, diffusion, until, order):
    """The L1 distance to uniform after a growth by e^4 to e^7, against fine steps: 2 percent."""
    system = FiniteVolume(MESH, Equation(attention(normalized), diffusion), order=order)
    law = initial.random_band_limited(1, 2, amplitude)
    uniform = 1.0 / MESH.total_area
    fine = until / {1: 800, 2: 300, 4: 60}[order]
    found, expected = (
        system.norm(run_to(system, law, until, max_step=longest) - uniform)
        for longest in (None, fine)
    )
    assert expected > 0.03
    assert found == pytest.approx(expected, rel=0.01)


def test_small_perturbations_grow_like_large_ones():
    """Before anything is nonlinear the amplitude is a factor, however small."""
    system = FiniteVolume(MESH, Equation(attention()), order=4)
    uniform, shape = 1.0 / MESH.total_area, MESH.average(lambda x: x[:, 2] ** 2 - 1.0 / 3.0)
    grown = [
        (run_to(system, uniform + a * shape, 2.0) - run_to(system, uniform - a * shape, 2.0)) / a
        for a in (1e-3, 1e-6)
    ]
    assert np.abs(grown[1] - grown[0]).max() < 1e-3 * np.abs(grown[0]).max()
    # Degree 2 grows at .6555 (formula: l (l + 1) i_l / (beta i_0)).
    rate = 0.5 * np.log(system.norm(grown[1]) / system.norm(2.0 * shape))
    assert rate == pytest.approx(0.6555, rel=2e-3)


SPEEDS = {
    "2 sin^2(pi t)": (lambda t: 2.0 * np.sin(np.pi * t) ** 2, 1.0, 1.0),
    "sin(2 pi t)": (lambda t: np.sin(2.0 * np.pi * t), 0.5, 1.0 / np.pi),
    "t": (lambda t: t, 0.7, 0.245),
    "pulse": (lambda t: 50.0 * (0.6 < t < 0.62), 1.0, 1.0),
    "there and back": (
        lambda t: np.sin(2.0 * np.pi * t),
        1.3,
        (1 - np.cos(2.6 * np.pi)) / 2 / np.pi,
    ),
}


@pytest.mark.parametrize("name", SPEEDS)
@pytest.mark.parametrize("order", [1, 2, 4])
def test_rotations_that_vanish_for_a_while(name, order):
    """The law turns by the integral of the speed, exactly."""
    speed, until, angle = SPEEDS[name]
    system = FiniteVolume(MESH, Equation(turning(speed)), order=order)
    end = run_to(system, initial.von_mises_fisher([1.0, 0.0, 0.0], 5.0), until)
    assert longitude(MESH, end) == pytest.approx(angle, rel={1: 0.02, 2: 0.02, 4: 2e-3}[order])


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_tolerances_see_them_too(tolerance):
    system = FiniteVolume(icosphere(6), Equation(turning(SPEEDS["2 sin^2(pi t)"][0])))
    law = initial.von_mises_fisher([1.0, 0.0, 0.0], 5.0)
    end = run_to(system, law, 1.0, tolerance=tolerance)
    assert longitude(system.mesh, end) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("speed", [lambda t: 2 * np.sin(np.pi * t) ** 2, lambda t: 4 * t**3])
def test_implicit_steps_from_the_uniform_law(speed):
    system = FiniteVolume(icosphere(6), Equation(pulling(speed), diffusion=0.02))
    found, fine = (
        Measure.from_mesh(system.mesh, run_to(system, initial.uniform(), 1.0, max_step=longest))
        for longest in (None, 2e-3)
    )
    assert found.mean()[2] == pytest.approx(fine.mean()[2], rel=2e-3)
    assert fine.mean()[2] > 0.4


@pytest.mark.parametrize("order", [2, 4])
def test_diffusion_that_grows_from_nothing(order):
    """Heat with D = .4 t^3 until 1 shrinks the mean by e^{-2 * .1}."""
    equation = Equation(turning(lambda t: 0.0), lambda x, mu, t: np.full(len(x), 0.4 * t**3))
    system = FiniteVolume(MESH, equation, order=order)
    rho = system.initial_state(initial.von_mises_fisher([0.0, 0.0, 1.0], 3.0))
    means = [system.measure(state).mean()[2] for state in (rho, run_to(system, rho, 1.0))]
    assert means[1] / means[0] == pytest.approx(np.exp(-0.2), rel=2e-3)


def test_particle_noise_that_grows_from_nothing():
    """E z = e^{-2 int D} from the pole, D = t^3: e^{-1/2} within three standard errors."""
    equation = Equation(turning(lambda t: 0.0), lambda x, mu, t: np.full(len(x), t**3))
    start = np.tile([0.0, 0.0, 1.0], (20_000, 1))
    end = run_to(ParticleSystem(equation, seed=3), start, 1.0)
    assert end[:, 2].mean() == pytest.approx(np.exp(-0.5), abs=3 * 0.45 / np.sqrt(20_000))


@pytest.mark.parametrize("name", SPEEDS)
def test_particles_turn_as_far(name):
    speed, until, angle = SPEEDS[name]
    end = run_to(ParticleSystem(Equation(turning(speed))), [[1.0, 0.0, 0.0]], until)
    assert np.arctan2(end[0, 1], end[0, 0]) == pytest.approx(angle, rel=1e-6)


@pytest.mark.parametrize("apart", [1e-3, 1e-6])
def test_two_tokens_leave_their_rest_as_fast_as_they_do(apart):
    """beta = 0 on the circle: tan(delta / 2) falls like e^{-t}, from almost opposite places."""
    start = [[1.0, 0.0], [-np.cos(apart), np.sin(apart)]]
    system = ParticleSystem(Equation(SelfAttention(np.eye(2), np.eye(2), 0.0)))
    x, y = run_to(system, start, 5.0)
    found = np.pi - np.arctan2(x[0] * y[1] - x[1] * y[0], x @ y)
    expected = 2.0 * np.arctan(np.tan(0.5 * apart) * np.exp(5.0))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e-200])
@pytest.mark.parametrize("diffusion", [0.0, 0.05])
def test_the_scale_of_the_density_plays_no_part(diffusion, scale):
    """Of linear equations and of attention, whose softmax knows shares only."""
    for field in (Drift(np.diag([3.0, 0.0, -2.0])), attention()):
        system = FiniteVolume(icosphere(6), Equation(field, diffusion))
        rho = system.initial_state(initial.von_mises_fisher([0.6, 0.0, 0.8], 4.0))
        runs = [Simulation(system, factor * rho) for factor in (1.0, scale)]
        for run in runs:
            run.run(0.5, save_at=[])
        assert runs[0].steps == runs[1].steps
        np.testing.assert_allclose(runs[1].state, scale * runs[0].state, rtol=1e-9, atol=0)


def test_implicit_steps_are_accurate_in_time():
    system = FiniteVolume(MESH, Equation(Drift(np.diag([3.0, 0.0, -2.0])), 0.05))
    rho = 1e-6 * system.initial_state(initial.von_mises_fisher([0.6, 0.0, 0.8], 4.0))
    error = run_to(system, rho, 0.5) - run_to(system, rho, 0.5, max_step=1e-3)
    assert system.norm(error) < 1e-4 * system.norm(rho)


@pytest.mark.parametrize("order", [2, 4])
def test_where_the_bound_limits_nothing_is_paid(order):
    """The same steps to the bit, one velocity more in the whole run."""
    V, B = np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 4.0, 1.0])
    system = FiniteVolume(MESH, Equation(SelfAttention(V, B, 50.0)), order=order)
    law, counts, states = initial.random_band_limited(1), [], []
    stage = system.stage
    for tolerance in ("default", None):
        counts.append(0)

        def counted(t, state):
            counts[-1] += 1
            return stage(t, state)

        system.stage = counted
        states.append(run_to(system, law, 1.0, tolerance=tolerance))
    np.testing.assert_array_equal(states[0], states[1])
    assert counts[0] <= counts[1] + 1


def test_at_rest_steps_grow():
    system = FiniteVolume(icosphere(6), Equation(turning(lambda t: 0.0)))
    run = Simulation(system, initial.uniform())
    run.run(100.0, save_at=[])
    assert run.steps <= 8
    noisy = FiniteVolume(icosphere(6), Equation(Drift(np.zeros((3, 3))), 0.1))
    run = Simulation(noisy, initial.von_mises_fisher([0.0, 0.0, 1.0], 3.0))
    run.run(1e4, save_at=[])
    assert run.steps < 400 and run.last_step > 100.0


def test_a_field_of_ones_own_is_looked_at_unless_it_says_that_time_plays_no_part():
    class Still(SelfAttention):
        def velocity(self, x, mu=None, t=0.0):
            return super().velocity(x, mu, t)

    class Own(Field):
        is_autonomous = True

    assert attention().is_autonomous and Own().is_autonomous and (2 * Own() + Own()).is_autonomous
    assert not Still(I3, I3, 1.0).is_autonomous
    assert not (Own() + turning(np.sin)).is_autonomous
    assert not Equation(Own(), lambda x, mu, t: np.ones(len(x))).is_autonomous


@pytest.mark.parametrize("stepper", EXPLICIT.values(), ids=EXPLICIT)
def test_the_defect_tells_how_fast_a_velocity_grows(stepper):
    """u' = z u in one step of length 1: the defect is defect_constant z^defect_order of u'."""
    for z in (1e-2, 1e-3):
        stages = [1.0]
        for i in range(1, stepper.stages):
            stages.append(1.0 + z * stepper.a[i, :i] @ np.array(stages[:i]))
        if stepper.needs_end:
            stages.append(1.0 + z * stepper.b @ np.array(stages))
        found = abs(stepper.defect([np.array(u) for u in stages]))
        told = (found / stepper.defect_constant) ** (1.0 / stepper.defect_order)
        assert told == pytest.approx(z, rel=3 * z)


def test_a_stage_ahead_is_taken_only_where_nothing_was_changed():
    system = FiniteVolume(icosphere(4), Equation(attention()))
    run = Simulation(system, initial.random_band_limited(1))
    run.run(0.1, save_at=[])
    ahead = run._control.stage(run.t, run.state)
    assert ahead is run._control.stage(run.t, run.state)
    run.state[0] *= 2.0
    assert run._control.stage(run.t, run.state) is not ahead
    assert isinstance(run._control, StepControl)
