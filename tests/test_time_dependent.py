"""Parameters that depend on time: exact non-autonomous solutions keep the steppers' orders."""

import numpy as np
import pytest
from scipy.linalg import expm

from meshes import circle, icosphere
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, StreamFunction
from pde.field import UndefinedQuantity
from pde.fields.heads import Heads
from pde.fields.one_body import Drift
from pde.fields.time_dependent import TimeDependent
from pde.simulation import run_to
from pde.time.steppers import EXPLICIT
from validation import norms
from validation.exact import InfiniteTemperature, ZeroTemperature

A3 = np.array([[0.8, 0.3, -0.2], [0.1, -0.5, 0.4], [-0.6, 0.2, 0.3]])


def rate(t):
    """a(t), which changes within every step of the tests."""
    return 0.6 + np.cos(5.0 * t)


def travelled(t):
    """int_0^t a."""
    return 0.6 * t + np.sin(5.0 * t) / 5.0


def cloud(n=12, d=3):
    x = np.random.default_rng([n, d]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("stepper", EXPLICIT.values(), ids=lambda s: s.name)
def test_particles_keep_the_order_of_the_stepper(stepper):
    """dx/dt = a(t) P_x A x has the flow of A after the time int a."""
    system = ParticleSystem(Equation(TimeDependent(lambda t: Drift(rate(t) * A3))))
    x = cloud()
    exact = x @ expm(travelled(1.0) * A3).T
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    errors = []
    for n in (20, 40, 80) if stepper.order > 1 else (80, 160, 320):
        end = run_to(system, x, 1.0, stepper=stepper, tolerance=None, max_step=1.0 / n)
        errors.append(system.norm(end - exact))
    assert abs(np.log2(errors[1] / errors[2]) - stepper.order) < 0.15
    assert errors[2] < {1: 1e-2, 2: 3e-4, 3: 1e-5, 4: 1e-6}[stepper.order]


@pytest.mark.parametrize("stepper", ["ssprk2", "ssprk3", "ssprk54"])
def test_cells_keep_the_order_of_the_stepper(stepper):
    """On one mesh the error in time alone, against a step of a sixteenth."""
    mesh = circle(24)
    field = TimeDependent(lambda t: SelfAttention(rate(t) * np.eye(2), np.eye(2), 0.0))
    system = FiniteVolume(mesh, Equation(field), order=4, limiter=None)
    rho = mesh.average(InfiniteTemperature(np.eye(2), [0.1, 0.2]).density(0.0))

    def end(n):
        return run_to(system, rho, 1.0, stepper=stepper, tolerance=None, max_step=1.0 / n)

    reference = end(640)
    errors = [system.norm(end(n) - reference) for n in (20, 40)]
    order = EXPLICIT[stepper].order
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.2
    assert errors[1] < {2: 1e-3, 3: 1e-4, 4: 1e-5}[order]


def test_cells_with_a_factor_of_time_are_the_same_cells_at_another_time():
    """Where a(t) > 0, d rho/dt = a(t) L(rho) runs through the states of d rho/dt = L(rho)."""
    mesh = icosphere(4)
    rho = mesh.average(ZeroTemperature(A3, np.eye(3)).density(0.3))
    positive = lambda t: 1.0 + 0.8 * np.cos(5.0 * t)  # noqa: E731
    until = 0.25 + 0.16 * np.sin(1.25)
    for fixed, moving in (
        (Drift(A3), lambda t: Drift(positive(t) * A3)),
        (SelfAttention(A3, A3, 2.0), lambda t: SelfAttention(positive(t) * A3, A3, 2.0)),
    ):
        ends = [
            run_to(FiniteVolume(mesh, Equation(field), order=4), rho, t, tolerance=1e-10)
            for field, t in ((fixed, until), (TimeDependent(moving), 0.25))
        ]
        assert np.abs(ends[0] - rho).max() > 0.01
        np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e-8)


def test_cells_converge_to_the_exact_solutions():
    """A drift a(t) P_x A x from uniform data, and attention at beta = 0 with V = a(t) A."""
    A = A3[:2, :2]
    drift = TimeDependent(lambda t: Drift(rate(t) * A))
    attention = TimeDependent(lambda t: SelfAttention(rate(t) * A, np.eye(2), 0.0))
    linear, mean_field = ZeroTemperature(A, np.eye(2)), InfiniteTemperature(A, [0.1, 0.2])
    for field, exact in ((drift, linear), (attention, mean_field)):
        # a(t) vanishes on the way, where the velocity bounds no step. By default the error in time
        # is there too, and no larger than that in space.
        for tolerance, bound in ((1e-11, 5e-8), ("default", 1e-7)):
            errors = []
            for n in (128, 256):
                mesh = circle(n)
                system = FiniteVolume(mesh, Equation(field), order=4)
                start = mesh.average(exact.density(0.0))
                end = run_to(system, start, 1.0, tolerance=tolerance)
                expected = mesh.average(exact.density(travelled(1.0)))
                errors.append(norms.relative(mesh, end, expected)["l2"])
            assert np.log2(errors[0] / errors[1]) > 4 - 0.35
            assert errors[1] < bound


def test_everything_is_that_of_the_field_at_the_time():
    mu = Measure(cloud(), np.arange(1.0, 13.0))
    field = TimeDependent(
        lambda t: SelfAttention(np.cos(t) * np.eye(3), np.eye(3), 1.0 + t, False, None)
    )
    then = SelfAttention(np.cos(0.4) * np.eye(3), np.eye(3), 1.4, False, None)
    x = cloud(5)
    for quantity in ("velocity", "output", "divergence", "potential"):
        found = getattr(field, quantity)(x, mu, 0.4)
        np.testing.assert_array_equal(found, getattr(then, quantity)(x, mu))
    assert field.energy(mu, 0.4) == then.energy(mu)
    assert field.driving_energy(mu, 0.4) == then.driving_energy(mu)
    assert (2 * field + field).driving_energy(mu, 0.4) == pytest.approx(3 * then.driving_energy(mu))
    # No time, no energy: that at t = 0 would pass for it unnoticed.
    for quantity in ("energy", "driving_energy"):
        with pytest.raises(UndefinedQuantity, match=f"{quantity} of a TimeDependent.*the time"):
            getattr(field, quantity)(mu)
    with pytest.raises(UndefinedQuantity, match="the time"):
        (2 * field).driving_energy(mu)


def test_it_combines_with_other_fields_and_keeps_exact_fluxes():
    spin = TimeDependent(lambda t: StreamFunction(lambda x, _: -t * x[:, 2]), at=1.0)
    assert not spin.is_nonlocal and spin.dim == 3
    edges = icosphere(3).edge_quadrature(2)
    flux = np.sum(spin.normal_velocity(edges, None, 2.0) * edges.weights, axis=1)
    expected = -2.0 * (edges.ends[:, 1, 2] - edges.ends[:, 0, 2])
    np.testing.assert_allclose(flux, expected, rtol=0, atol=1e-14)
    both = Heads([spin, 0.5 * TimeDependent(lambda t: SelfAttention(A3, A3, t))])
    assert both.is_nonlocal
    mu = Measure(cloud())
    total = spin.velocity(mu.points, mu, 2.0)
    total = total + 0.5 * SelfAttention(A3, A3, 2.0).velocity(mu.points, mu)
    np.testing.assert_allclose(both.velocity(mu.points, mu, 2.0), total, atol=1e-14)


def test_cells_record_no_energy_of_the_wrong_time():
    mesh = circle(16)
    field = TimeDependent(lambda t: SelfAttention(np.eye(2), np.eye(2), 1.0 + t, False))
    system = FiniteVolume(mesh, Equation(field))
    rho = np.full(16, 1.0 / mesh.total_area)
    found = system.diagnostics(0.5, rho)
    if "energy" in found:
        expected = field.energy(system.measure(rho), 0.5)
        assert found["energy"] == pytest.approx(expected, rel=1e-12)


def test_bad_arguments():
    x, mu = cloud(), Measure(cloud())
    with pytest.raises(TypeError, match="field_at must be a function"):
        TimeDependent(Drift(A3))
    with pytest.raises(TypeError, match=r"must give a Field, got 0.0 at t = 0"):
        TimeDependent(lambda t: t)
    with pytest.raises(TypeError, match=r"must give a Field, got None at t = 1"):
        TimeDependent(lambda t: None if t else Drift(A3)).velocity(x, mu, 1.0)
    with pytest.raises(ValueError, match=r"got d = 3 and, at t = 1, d = 2"):
        TimeDependent(lambda t: Drift(np.eye(2) if t else A3)).velocity(x, mu, 1.0)
    switched = lambda t: SelfAttention(A3, A3, 1.0) if t else Drift(A3)  # noqa: E731
    with pytest.raises(ValueError, match="depends on the measure at t = 2"):
        TimeDependent(switched).velocity(x, mu, 2.0)
    assert TimeDependent(switched, at=1.0).velocity(x, mu, 0.0).shape == x.shape
    with pytest.raises(ValueError, match="t must be finite"):
        TimeDependent(switched).velocity(x, mu, np.inf)


def test_cells_record_the_energy_of_the_time():
    """Of the uniform law, sinh(beta) / (2 beta^2), with beta = 1 + t."""
    field = TimeDependent(lambda t: SelfAttention(np.eye(3), np.eye(3), 1.0 + t, normalized=False))
    fv = FiniteVolume(icosphere(8), Equation(field))
    rho = np.full(fv.mesh.n_cells, 1.0 / fv.mesh.total_area)
    for t in (0.0, 0.5):
        expected = np.sinh(1.0 + t) / (2.0 * (1.0 + t) ** 2)
        assert fv.diagnostics(t, rho)["energy"] == pytest.approx(expected, rel=2e-3)
