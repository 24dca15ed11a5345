"""The energy that a flow climbs: its first variation is the potential, its growth int |v|^2 dmu."""

import numpy as np
import pytest

from meshes import icosphere
from pde import (
    Equation,
    FiniteVolume,
    Measure,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    ZeroTemperatureAttention,
    initial,
)
from pde.field import Field, UndefinedQuantity

RANDOM = np.random.default_rng(3)
V3 = RANDOM.normal(size=(3, 3))
SYMMETRIC = V3 + V3.T


def cloud(seed, n=20):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 3))
    weights = random.uniform(0.2, 1.0, n)
    # Total mass 1.7: an energy must not count on probabilities.
    return Measure(x / np.linalg.norm(x, axis=1, keepdims=True), 1.7 * weights / weights.sum())


def attention(V, B, beta, normalized=False):
    return SelfAttention(V, B, beta, normalized, tolerance=None)


FIELDS = [
    attention(0.7 * SYMMETRIC, SYMMETRIC, 0.9),
    attention(-SYMMETRIC, SYMMETRIC, 0.9),
    attention(SYMMETRIC, V3, 0.0),
    attention(SYMMETRIC, V3, 0.0, normalized=True),
    attention(SYMMETRIC, np.zeros((3, 3)), 2.0, normalized=True),
    ZeroTemperatureAttention(0.7 * V3, V3),
    2.0 * attention(SYMMETRIC, SYMMETRIC, 0.5) - ZeroTemperatureAttention(SYMMETRIC, np.eye(3)),
]


@pytest.mark.parametrize("field", FIELDS, ids=repr)
def test_its_first_variation_is_the_potential(field):
    mu, nu = cloud(1), cloud(2)

    def energy(s):
        points = np.concatenate([mu.points, nu.points])
        return field.driving_energy(Measure(points, [*(1 - s) * mu.weights, *s * nu.weights]))

    # All energies here are at most quadratic in the measure: one-sided parabola, no truncation.
    h = 0.25
    slope = (4 * energy(h) - energy(2 * h) - 3 * energy(0.0)) / (2 * h)
    expected = nu.weights @ field.potential(nu.points, mu)
    expected -= mu.weights @ field.potential(mu.points, mu)
    assert abs(expected) > 1e-3
    assert slope == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("field", FIELDS, ids=repr)
def test_it_grows_by_the_square_of_the_velocity(field):
    mu = cloud(1)
    v = field.velocity(mu.points, mu)

    def energy(s):
        return field.driving_energy(mu.push(lambda y: unit(y + s * v)))

    h = 2e-3 / np.abs(v).max()  # the same small angle for fast and slow fields
    rate = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    assert rate == pytest.approx(mu.weights @ np.sum(v**2, axis=1), rel=1e-7)


def unit(y):
    return y / np.linalg.norm(y, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "field",
    [
        attention(SYMMETRIC, SYMMETRIC, 1.0, normalized=True),
        attention(V3, V3, 1.0),
        attention(SYMMETRIC, np.eye(3), 1.0),
        attention(V3, V3, 0.0),
        ZeroTemperatureAttention(V3, SYMMETRIC),
        PrescribedVelocity(lambda x, t: 0.0 * x),
        attention(SYMMETRIC, SYMMETRIC, 1.0) + attention(V3, V3, 1.0),
    ],
    ids=repr,
)
def test_there_is_none_where_the_flow_is_no_gradient_flow(field):
    with pytest.raises(UndefinedQuantity):
        field.driving_energy(cloud(1))


def test_a_nonlocal_field_of_ones_own_has_none_unless_it_says_so():
    class Attraction(Field):
        is_nonlocal = True

    with pytest.raises(UndefinedQuantity, match="Attraction defines no driving energy"):
        Attraction().driving_energy(cloud(1))


def test_runs_go_on_where_the_energy_leaves_float64():
    """e^1000 has no number: normalised attention runs all the same, and records no energy."""
    field = SelfAttention(np.eye(3), np.eye(3), beta=1000.0)
    fv = FiniteVolume(icosphere(4), Equation(field))
    found = Simulation(fv, initial.uniform()).run(0.1).diagnostics
    assert "energy" not in found and found["mass"][-1] == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(UndefinedQuantity, match="energy leaves the range of float64"):
        field.energy(fv.measure(np.ones(fv.mesh.n_cells)))
