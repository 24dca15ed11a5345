"""Mean shift: attention as the slope of a density, fields of a frozen measure, modes."""

import numpy as np
import pytest

from meshes import icosphere
from pde import Equation, FiniteVolume, Measure, ParticleSystem, SelfAttention, Simulation
from pde.analysis.modes import find_modes
from pde.field import UndefinedQuantity
from pde.fields.consensus import ConsensusDrift
from pde.fields.frozen import Frozen
from pde.fields.prescribed import PrescribedVelocity
from pde.simulation import run_to
from validation import mean_shift


def cloud(n, d=3, seed=0):
    x = np.random.default_rng([n, d, seed]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def rotation(d=3):
    return np.linalg.qr(np.random.default_rng(d + 10).normal(size=(d, d)))[0]


def attention(d, beta, tolerance=None):
    return SelfAttention(np.eye(d), np.eye(d), beta, tolerance=tolerance)


@pytest.mark.parametrize("d", [2, 3, 8, 50])
@pytest.mark.parametrize("beta", [0.3, 7.0, 200.0])
def test_the_velocity_is_the_slope_of_the_log_kernel_density(d, beta):
    """v = (1/beta) P_x grad log(K * mu), K the Gaussian of variance 1/beta in R^d, to rounding."""
    mu = Measure(cloud(80, d), np.random.default_rng(d).uniform(0.1, 1.0, 80))
    x = np.concatenate([mu.points, cloud(60, d, seed=1)])
    squares = np.square(x[:, None] - mu.points[None]).sum(axis=2)
    kernel = mu.weights * np.exp(-0.5 * beta * squares) * (beta / (2.0 * np.pi)) ** (0.5 * d)
    toward = mu.points[None] - x[:, None]
    slope = beta * np.einsum("mn,mnd->md", kernel, toward) / kernel.sum(axis=1, keepdims=True)
    tangential = slope - np.sum(slope * x, axis=1, keepdims=True) * x
    assert attention(d, beta).velocity(x, mu) == pytest.approx(tangential / beta, abs=2e-13)
    # The study's own formula agrees, and the slope is that of the density.
    assert mean_shift.kernel_slope(x, mu, beta) == pytest.approx(slope, abs=1e-12 * beta)


def test_the_slope_is_that_of_the_density():
    """Central differences of log(K * mu) in R^d."""
    mu, beta, h = Measure(cloud(30)), 5.0, 1e-5
    x = cloud(10, seed=1)

    def log_density(y):
        squares = np.square(y[:, None] - mu.points[None]).sum(axis=2)
        return np.log(np.exp(-0.5 * beta * squares).mean(axis=1))

    differences = [(log_density(x + h * e) - log_density(x - h * e)) / (2.0 * h) for e in np.eye(3)]
    slope = mean_shift.kernel_slope(x, mu, beta)
    assert slope == pytest.approx(np.transpose(differences), abs=1e-8)


def test_frozen_fields_do_not_see_what_moves():
    mu, other, x = Measure(cloud(20)), Measure(cloud(30, seed=1)), cloud(10, seed=2)
    field = attention(3, 4.0)
    frozen = Frozen(field, mu)
    assert not frozen.is_nonlocal and frozen.dim == 3
    for name in ("velocity", "output", "divergence", "potential"):
        wanted = getattr(field, name)(x, mu)
        assert np.array_equal(getattr(frozen, name)(x), wanted)
        assert np.array_equal(getattr(frozen, name)(x, other, 3.0), wanted)
    # A local field's energy is int phi dmu.
    assert frozen.driving_energy(other) == pytest.approx(
        other.weights @ field.potential(other.points, mu)
    )
    double = 2.0 * frozen + frozen
    assert double.velocity(x) == pytest.approx(3.0 * field.velocity(x, mu), rel=1e-14)


def test_frozen_fields_pass_the_time_on():
    spin = PrescribedVelocity(lambda x, t: np.cross([0.0, 0.0, t], x))
    frozen = Frozen(spin, Measure(np.eye(3)))
    x = cloud(5)
    assert np.array_equal(frozen.velocity(x, None, 2.0), spin.velocity(x, None, 2.0))
    with pytest.raises(UndefinedQuantity):
        frozen.potential(x)


def test_frozen_fields_move_cells():
    """Cells without a measure of their own: mass climbs the density of the frozen cloud."""
    mu = Measure([[0.0, 0.0, 1.0]])
    mesh = icosphere(8)
    system = FiniteVolume(mesh, Equation(Frozen(attention(3, 3.0), mu)))
    start = np.full(mesh.n_cells, 1.0 / mesh.total_area)
    solution = Simulation(system, start).run(until=1.0)
    # v = P_x e for a single atom e, as in linear transport: u = tanh(t + artanh u0) moves the mean
    # of the uniform law to coth(t) - t / sinh(t)^2.
    mean = solution.measures[-1].mean()
    assert mean == pytest.approx([0.0, 0.0, 1.0 / np.tanh(1.0) - 1.0 / np.sinh(1.0) ** 2], abs=4e-3)


def test_what_cannot_be_frozen():
    with pytest.raises(TypeError, match="field must be a Field"):
        Frozen(3.0, Measure(np.eye(3)))
    with pytest.raises(TypeError, match="mu must be a Measure"):
        Frozen(attention(3, 1.0), np.eye(3))
    with pytest.raises(ValueError, match="mu must live in dimension 3"):
        Frozen(attention(3, 1.0), Measure(np.eye(4)))
    assert Frozen(ConsensusDrift(lambda x: x[:, 0], 1.0), Measure(np.eye(4))).dim == 4


def test_queries_never_descend_and_a_single_atom_draws_all():
    mu, x = Measure(cloud(40)), cloud(60, seed=1)
    system = ParticleSystem(Equation(Frozen(attention(3, 12.0), mu)))
    solution = Simulation(system, x, tolerance=1e-7).run(until=8.0, save_at=np.linspace(0, 8, 17))
    heights = [attention(3, 12.0).potential(y, mu) for y in solution.states]
    assert np.diff(heights, axis=0).min() > -1e-9
    e = np.array([0.0, 0.6, 0.8])
    alone = ParticleSystem(Equation(Frozen(attention(3, 12.0), Measure(e[None]))))
    end = run_to(alone, x, 1.0)
    assert end @ e == pytest.approx(np.tanh(1.0 + np.arctanh(x @ e)), abs=1e-7)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_modes_of_well_separated_atoms_are_the_atoms(d):
    mu = Measure(np.concatenate([np.eye(d), -np.eye(d)]))
    modes = find_modes(mu, beta=60.0)
    assert len(modes) == 2 * d
    assert sorted(modes.reached) == list(range(2 * d))
    cosines = (modes.centers @ mu.points.T).max(axis=1)
    assert cosines == pytest.approx(1.0, abs=1e-14)
    assert modes.residual.max() < 1e-14


def test_two_atoms_have_two_modes_from_a_known_beta_on():
    """At the midpoint of atoms 2a apart the tangential curvature is beta sin^2 a - cos a."""
    a = 0.4
    mu = Measure([[np.cos(a), np.sin(a)], [np.cos(a), -np.sin(a)]])
    threshold = np.cos(a) / np.sin(a) ** 2
    below, above = (find_modes(mu, factor * threshold) for factor in (0.98, 1.02))
    assert len(below) == 1 and len(above) == 2
    assert below.centers[0] == pytest.approx([1.0, 0.0], abs=1e-9)
    expected = 0.98 * threshold * np.sin(a) ** 2 - np.cos(a)
    assert below.curvature[0] == pytest.approx(expected, rel=1e-9)
    # A start on the axis of symmetry stays at the saddle, which is no mode.
    stuck = find_modes(mu, 2.0 * threshold, starts=[[1.0, 0.0], [0.0, 1.0]])
    assert len(stuck) == 1 and list(stuck.reached) == [-1, 0]


def test_modes_turn_with_the_cloud_and_come_in_order():
    mu = mean_shift.cloud_of(150)
    modes = find_modes(mu, 30.0)
    R = rotation()
    turned = find_modes(Measure(mu.points @ R.T), 30.0)
    assert len(turned) == len(modes) > 3
    assert turned.centers == pytest.approx(modes.centers @ R.T, abs=1e-10)
    assert np.array_equal(turned.reached, modes.reached)
    assert (np.diff(modes.log_density) <= 0.0).all()
    assert modes.curvature.max() < 0.0


def test_modes_are_the_maxima_that_scipy_finds():
    mu = mean_shift.cloud_of(150)
    maxima = mean_shift.scipy_maxima(mu, 25.0, icosphere(48))
    modes = find_modes(mu, 25.0, icosphere(16).centers)
    assert len(modes) == len(maxima)
    assert modes.centers == pytest.approx(maxima, abs=1e-6)


def test_the_cloud_without_mass_has_no_say():
    mu = Measure(cloud(30), np.r_[np.zeros(10), np.ones(20)])
    rest = Measure(mu.points[10:], np.ones(20))
    assert find_modes(mu, 15.0).centers == pytest.approx(find_modes(rest, 15.0).centers, abs=1e-12)


def test_errors_at_the_door():
    mu = Measure(np.eye(3))
    with pytest.raises(ValueError, match="beta must be > 0, got 0"):
        find_modes(mu, 0.0)
    with pytest.raises(ValueError, match="apart must be > 0"):
        find_modes(mu, 1.0, apart=-1.0)
    with pytest.raises(ValueError, match="starts must have shape"):
        find_modes(mu, 1.0, starts=np.eye(2))
