"""Particles: closed forms of the token dynamics, symmetry, errors."""

import numpy as np
import pytest

from pde import Equation, Measure, ParticleSystem, SelfAttention, Simulation, initial
from pde.simulation import run_to


def attention(d, beta, normalized=True):
    return Equation(SelfAttention(np.eye(d), np.eye(d), beta=beta, normalized=normalized))


def random_points(n, d, seed=1):
    points = np.random.default_rng(seed).normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_two_tokens_on_the_circle_at_beta_zero():
    # half the angle between them: d phi/dt = -sin(2 phi)/2, so tan(phi) decays like e^{-t}
    phi = 1.2
    start = np.array([[np.cos(phi), np.sin(phi)], [np.cos(phi), -np.sin(phi)]])
    end = run_to(ParticleSystem(attention(2, 0.0)), start, 2.0)
    assert np.arctan2(end[0, 1], end[0, 0]) == pytest.approx(
        np.arctan(np.tan(phi) * np.exp(-2.0)), abs=1e-7
    )


@pytest.mark.parametrize(("beta", "time"), [(0.0, 5.186), (1.0, 5.270), (4.0, 6.954)])
def test_orthogonal_tokens_reach_product_999_at_the_known_times(beta, time):
    # formulas of the equiangular reduction, n = 32; near the end the product grows by 2e-3 a unit
    # of time, so times given to half a thousandth fix it to 1e-6
    end = run_to(ParticleSystem(attention(32, beta)), np.eye(32), time)
    products = (end @ end.T)[np.triu_indices(32, 1)]
    assert np.ptp(products) < 1e-10
    assert products.mean() == pytest.approx(0.999, abs=1.5e-6)


def test_usa_speed_of_equiangular_tokens():
    n, beta, g = 6, 2.0, 0.3
    gram = np.full((n, n), g) + (1 - g) * np.eye(n)
    points = np.linalg.cholesky(gram)
    velocity = ParticleSystem(attention(n, beta, normalized=False)).rhs(0.0, points)
    rate = velocity[0] @ points[1] + points[0] @ velocity[1]
    assert rate == pytest.approx(2 / n * np.exp(beta * g) * (1 - g) * ((n - 1) * g + 1), rel=1e-12)


def test_rotating_everything_rotates_the_result():
    rng = np.random.default_rng(3)
    V, B = rng.normal(size=(2, 4, 4))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    points = random_points(30, 4)
    plain = run_to(ParticleSystem(Equation(SelfAttention(V, B, beta=3.0))), points, 0.5)
    turned_field = SelfAttention(turn @ V @ turn.T, turn @ B @ turn.T, beta=3.0)
    turned = run_to(ParticleSystem(Equation(turned_field)), points @ turn.T, 0.5)
    np.testing.assert_allclose(turned, plain @ turn.T, atol=1e-7)


def test_a_doubled_weight_is_two_tokens_at_one_place():
    points = random_points(5, 3)
    twice = np.vstack([points, points[:1]])
    double = ParticleSystem(attention(3, 2.0), weights=[2, 1, 1, 1, 1])
    velocity = ParticleSystem(attention(3, 2.0), weights=np.ones(6)).rhs(0.0, twice)
    np.testing.assert_allclose(double.rhs(0.0, points), velocity[:5], atol=1e-14)


def test_points_stay_on_the_sphere_and_time_is_of_fourth_order():
    points = random_points(20, 5)
    system = ParticleSystem(attention(5, 2.0))
    fine = run_to(system, points, 1.0, tolerance=None, max_step=1 / 256)
    errors = []
    for n in (8, 16):
        end = run_to(system, points, 1.0, tolerance=None, max_step=1 / n)
        assert np.abs(np.linalg.norm(end, axis=1) - 1).max() < 1e-15
        errors.append(system.norm(end - fine))
    assert abs(np.log2(errors[0] / errors[1]) - 4) < 0.25
    assert errors[1] < 1e-6


def test_sampled_clouds_feed_a_simulation():
    cloud = initial.sample(initial.von_mises_fisher([0, 0, 1.0], 4.0), 200, seed=5)
    sim = Simulation(ParticleSystem(attention(3, 5.0)), cloud)
    solution = sim.run(until=1.0, save_at=[0.0, 0.5, 1.0])
    assert [mu.n for mu in solution.measures] == [200] * 3
    lengths = solution.diagnostics["mean_length"]
    assert (np.diff(lengths) > 0).all()
    np.testing.assert_allclose(solution.diagnostics["mass"], 1.0, rtol=1e-14)


def test_mesh_cells_as_weighted_particles():
    mu = Measure(random_points(10, 3), np.arange(10.0))
    system = ParticleSystem(attention(3, 1.0), weights=mu.weights)
    assert system.measure(system.initial_state(mu.points)).total == mu.total


def test_bad_arguments():
    equation = attention(3, 1.0)
    with pytest.raises(ValueError, match=r"weights must have shape \(4,\)"):
        Simulation(ParticleSystem(equation, weights=[1.0]), random_points(4, 3))
    with pytest.raises(TypeError, match="starts from points"):
        Simulation(ParticleSystem(equation), initial.uniform())
    with pytest.raises(ValueError, match="at least one point"):
        Simulation(ParticleSystem(equation), np.empty((0, 3)))
