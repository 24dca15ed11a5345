"""Transport distances against closed forms."""

import numpy as np
import pytest

from meshes import icosphere
from pde import Measure, initial, limits
from validation import exact, wasserstein


def unit_cloud(n, d=3, seed=0):
    x = np.random.default_rng([n, d, seed]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def random_masses(n):
    weights = np.random.default_rng(n).uniform(size=n)
    return weights / weights.sum()


def assert_bracket(result, value, rel):
    assert result.lower <= value * (1 + rel) and value * (1 - rel) <= result.upper
    assert result.upper - result.lower <= 1e-6
    assert result.value == pytest.approx(value, rel=rel)


@pytest.mark.parametrize(("p", "cost"), [(1, "chordal"), (2, "chordal"), (1, "geodesic")])
def test_two_diracs_are_as_far_as_their_points(p, cost):
    x, y = unit_cloud(2)
    chord = np.linalg.norm(x - y)
    value = chord if cost == "chordal" else 2 * np.arcsin(chord / 2)
    assert_bracket(wasserstein.distance(Measure([x]), Measure([y]), p, cost), value, 1e-9)


def test_a_measure_is_at_distance_zero_of_itself():
    mu = Measure(unit_cloud(40), random_masses(40))
    shuffled = np.random.default_rng(0).permutation(40)
    nu = Measure(mu.points[shuffled], mu.weights[shuffled])
    result = wasserstein.distance(mu, nu)
    assert result.lower <= 1e-12 and result.value < 1e-5


@pytest.mark.parametrize("mass", [0.2, 0.5])
def test_an_antipodal_pair_is_reached_by_height(mass):
    mu, e = Measure(unit_cloud(50), random_masses(50)), unit_cloud(1)[0]
    pair = Measure([e, -e], [mass, 1 - mass])
    assert_bracket(wasserstein.distance(mu, pair), limits.distance_to_pair(mu, e, mass), 1e-8)


def test_projections_are_optimal():
    E = np.linalg.qr(unit_cloud(3).T)[0][:, :2]
    mu = Measure(unit_cloud(60), random_masses(60))
    image = mu.push(limits.Projection(E))
    assert_bracket(wasserstein.distance(mu, image), limits.distance_to_space(mu, E), 1e-8)


def test_on_the_circle_rotations_of_regular_polygons():
    # W1 geodesic between n equal atoms and the same turned by less than half a step: the turn.
    angles = 2 * np.pi * np.arange(12) / 12
    mu, nu = (Measure(np.stack([np.cos(a), np.sin(a)], axis=1)) for a in (angles, angles + 0.1))
    assert_bracket(wasserstein.distance(mu, nu, p=1, cost="geodesic"), 0.1, 1e-9)


@pytest.mark.parametrize("cost", ["chordal", "geodesic"])
def test_axial_laws_on_meshes_approach_the_monotone_rearrangement(cost):
    axial = exact.axial_quantile(np.exp(2), 1.0)
    value = exact.axial_distance(exact.axial_quantile(1, 1), axial, cost)
    law = initial.angular_central_gaussian(np.diag([np.exp(2), np.exp(2), 1.0]))
    errors = []
    for frequency in (3, 5):
        mesh = icosphere(frequency)
        measures = []
        for density in (initial.uniform(), law):
            rho = mesh.average(density)
            measures.append(Measure.from_mesh(mesh, rho / (rho @ mesh.areas)))
        errors.append(abs(wasserstein.distance(*measures, cost=cost).value - value))
    assert errors[1] < 0.02
    assert errors[1] < errors[0]


def test_distances_are_symmetric_and_obey_the_triangle_inequality():
    a, b, c = (Measure(unit_cloud(25, seed=s), random_masses(25)) for s in range(3))
    ab, ba, bc, ac = (
        wasserstein.distance(*pair).value for pair in ((a, b), (b, a), (b, c), (a, c))
    )
    assert ab == pytest.approx(ba, rel=1e-8)
    assert ac <= ab + bc


@pytest.mark.parametrize(
    ("mu", "nu", "message"),
    [
        (Measure(np.eye(3)), Measure(np.eye(3), [1.0, 1.0, 1.0]), "equal totals"),
        (Measure(np.eye(3), [0.0, 0.0, 0.0]), Measure(np.eye(3)), "mass"),
        (Measure(np.eye(3)), Measure(np.eye(2)), "dimensions? 3 and 2"),
    ],
)
def test_measures_that_do_not_fit(mu, nu, message):
    with pytest.raises(ValueError, match=message):
        wasserstein.distance(mu, nu)
