"""Exact solutions: against each other, the equation itself, and published numbers."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import initial, limits
from pde.fields.attention import SelfAttention, ZeroTemperatureAttention
from pde.measure import Measure
from validation import exact
from validation.exact.infinite_temperature import mean_length

E3 = np.eye(3)
RANDOM = np.random.default_rng(31)
ROTATION = np.linalg.qr(RANDOM.normal(size=(3, 3)))[0]
GENERAL_V, GENERAL_B = RANDOM.normal(size=(3, 3)), RANDOM.normal(size=(3, 3)) + 2 * E3


def unit_cloud(n, d=3):
    x = np.random.default_rng([n, d]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def residual(density, field, x, t, mu=None, h=2e-3):
    """d_t log rho + <v, grad log rho> + div v at x: 0 for a solution; fourth-order differences."""
    v = field.velocity(x, mu)

    def along(s):  # log rho at time t + s, where the straight path of velocity v is then
        y = x + s * v
        return np.log(density(t + s)(y / np.linalg.norm(y, axis=1)[:, None]))

    rate = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    return rate + field.divergence(x, mu)


# Zero temperature


@pytest.mark.parametrize(
    ("V", "B"),
    [
        (np.diag([0.9, 0.4, -0.6]), E3),
        (np.array([[0.5, -1.0, 0.0], [1.0, 0.5, 0.2], [0.0, 0.0, 0.3]]), np.diag([1.0, 2.0, 0.5])),
        (GENERAL_V, 2.0 * ROTATION),
        (np.diag([0.9, 0.4, -0.6]), np.diag([1.0, 2.0, 0.5])),
        (GENERAL_V, GENERAL_B),
    ],
    ids=["B = I", "spiral", "B orthogonal", "diagonal", "general"],
)
def test_zero_temperature_solves_its_equation(V, B):
    rho0 = initial.random_band_limited(1, degree=3)
    solution = exact.ZeroTemperature(V, B, rho0)
    field, x = ZeroTemperatureAttention(V, B), unit_cloud(20)
    scale = 1.0 + np.abs(field.divergence(x)).max()
    assert np.abs(residual(solution.density, field, x, 0.4)).max() < 1e-8 * scale
    mesh = icosphere(8)
    mass = mesh.average(solution.density(0.1)) @ mesh.areas
    assert mass == pytest.approx(1.0, abs=2e-6)
    np.testing.assert_allclose(solution.density(0.0)(x), rho0(x), rtol=1e-13)


def test_zero_temperature_flow_follows_the_velocity_and_returns():
    solution = exact.ZeroTemperature(GENERAL_V, GENERAL_B)
    field, x = ZeroTemperatureAttention(GENERAL_V, GENERAL_B), unit_cloud(20)
    h = 1e-3
    slope = (8 * (solution.flow(h)(x) - solution.flow(-h)(x))
             - (solution.flow(2 * h)(x) - solution.flow(-2 * h)(x))) / (12 * h)  # fmt: skip
    np.testing.assert_allclose(slope, field.velocity(x), rtol=0, atol=1e-9)
    there = solution.flow(1.0)(x)
    np.testing.assert_allclose(solution.flow(-1.0)(there), x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.flow(0.7)(solution.flow(0.3)(x)), there, atol=1e-12)


def test_uniform_data_become_angular_central_gaussian():
    A = np.diag([0.9, 0.4, -0.6])
    solution = exact.ZeroTemperature(A @ ROTATION, ROTATION)
    law = initial.angular_central_gaussian(np.diag(np.exp(1.6 * np.diag(A))))
    x = unit_cloud(50)
    np.testing.assert_allclose(solution.density(0.8)(x), law(x), rtol=1e-13)


def test_zero_temperature_on_the_circle():
    V, B = np.array([[1.0, 0.3], [-0.2, 0.5]]), np.array([[1.0, 0.4], [0.0, 2.0]])
    solution = exact.ZeroTemperature(V, B)
    x = unit_cloud(20, 2)
    field = ZeroTemperatureAttention(V, B)
    assert np.abs(residual(solution.density, field, x, 0.5)).max() < 1e-8
    mesh = circle(200)
    assert mesh.average(solution.density(1.0)) @ mesh.areas == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("dim", [1, 2])
def test_distance_to_the_limit_in_closed_form(dim):
    # Uniaxial V B^T and B = I, against the exact density integrated over the sphere.
    A = np.diag([1.0, 1.0, 0.0] if dim == 2 else [0.0, 0.0, 1.0])
    E = limits.dominant_eigenspace(A)
    gap = limits.spectral_gap(A)
    nodes = icosphere(16).quadrature(8)
    for t in (0.0, 0.3, 1.0):
        masses = nodes.weights * exact.ZeroTemperature(A, E3).density(t)(nodes.points)
        numeric = limits.distance_to_space(Measure(nodes.points, masses), E)
        closed = exact.zero_temperature_distance(t, gap, dim)
        assert closed == pytest.approx(numeric, rel={1: 2e-4, 2: 1e-6}[dim])
    late = exact.zero_temperature_distance([10.0, 11.0], 1.0, dim)
    assert np.log(late[0] / late[1]) == pytest.approx({1: 0.5, 2: 1.0}[dim], abs=0.05)
    near = exact.zero_temperature_distance([4.9e-5, 5.1e-5], 1.0, dim)  # both sides of the switch
    assert abs(near[0] - near[1]) < 1e-5


# beta = 0


@pytest.mark.parametrize("d", [2, 3])
def test_infinite_temperature_solves_its_equation(d):
    V = GENERAL_V[:d, :d]
    w0 = np.array([0.3, -0.2, 0.1])[:d]
    solution = exact.InfiniteTemperature(V, w0)
    mesh = icosphere(12) if d == 3 else circle(200)
    nodes = mesh.quadrature(8)
    mu = Measure(nodes.points, nodes.weights * solution.density(0.5)(nodes.points))
    assert mu.total == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(solution.mean(0.5), mu.mean(), atol=1e-8)
    field = SelfAttention(V, np.eye(d), beta=0.0)
    assert np.abs(residual(solution.density, field, unit_cloud(20, d), 0.5, mu)).max() < 1e-7


def test_infinite_temperature_reaches_the_published_radius():
    solution = exact.InfiniteTemperature(E3, [0.2, 0.0, 0.0])
    assert solution.parameter(3.0)[0] == pytest.approx(0.802138, abs=5e-7)


def test_mean_length_is_smooth_across_its_switch():
    assert mean_length(0.3 - 1e-12) == pytest.approx(mean_length(0.3), rel=1e-11)
    assert mean_length(1e-9) == pytest.approx(4e-9 / 3, rel=1e-14)
    assert mean_length(1.0 - 1e-12) == pytest.approx(1.0, abs=1e-10)


# Growth rates and the axisymmetric reduction


def test_growth_rates_of_the_table():
    sa = exact.growth_rate(4.0, [1, 2, 3, 4])
    usa = exact.growth_rate(4.0, [1, 2, 3, 4], normalized=False)
    np.testing.assert_allclose(sa, [0.3753, 0.6555, 0.6133, 0.3963], atol=5e-5)
    np.testing.assert_allclose(usa, [2.5607, 4.4721, 4.1841, 2.7035], atol=5e-5)
    noisy = exact.growth_rate(4.0, 2, diffusion=0.1)
    assert noisy == pytest.approx(sa[1] - 0.6, rel=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_axisymmetric_solutions_grow_at_the_linear_rate(degree, normalized):
    # d/dt of the amplitude of a perturbation eps P_l, with eps^2 corrections removed by +- eps.
    legendre = np.polynomial.Legendre.basis(degree)
    eps, h = 1e-5, 1e-2

    def amplitude(sign, t):
        solution = exact.AxisymmetricAttention(
            (1, 1), (1, 1), 4.0, lambda u: 1 + sign * eps * legendre(u), normalized, n=48
        )
        state = solution.density(t)
        return (2 * degree + 1) * state.masses @ legendre(state.heights)

    growth = (amplitude(1, h) - amplitude(-1, h)) / (2 * eps)
    rate = exact.growth_rate(4.0, degree, normalized=normalized)
    assert np.log(growth) / h == pytest.approx(rate, rel=1e-6)


def profile(u):
    return 1.0 + 0.6 * u + 0.3 * (3 * u**2 - 1)


AXIAL = [
    dict(v=(1.0, 1.0), b=(1.0, 1.0), beta=4.0),
    dict(v=(0.5, 1.5), b=(2.0, 1.0), beta=3.0),
    dict(v=(-0.5, 1.0), b=(1.0, -1.0), beta=2.0, normalized=False),
    dict(v=(1.0, 1.0), b=(0.0, 1.0), beta=6.0),
]


@pytest.mark.parametrize("data", AXIAL, ids=str)
def test_axisymmetric_solution_converges_to_1e_10(data):
    data = dict(data)
    u = np.linspace(-1, 1, 41)
    t = 0.3 if data["b"][0] else 0.15
    coarse, fine = (
        exact.AxisymmetricAttention(f0=profile, n=n, **data).density(t) for n in (120, 180)
    )
    np.testing.assert_allclose(coarse.profile(u), fine.profile(u), rtol=1e-10)
    assert coarse.moment(1) == pytest.approx(fine.moment(1), abs=1e-13)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    assert 0.5 * weights @ fine.profile(nodes) == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize("data", AXIAL, ids=str)
def test_axisymmetric_velocity_is_that_of_the_field(data):
    data = dict(data)
    V, B = (np.diag([first, first, third]) for first, third in (data["v"], data["b"]))
    field = SelfAttention(V, B, data["beta"], data.get("normalized", True), tolerance=None)
    solution = exact.AxisymmetricAttention(f0=profile, n=40, **data)
    nodes = icosphere(6).quadrature(8)
    mu = Measure(nodes.points, nodes.weights * solution.initial(nodes.points))
    s = np.sqrt(1 - solution.nodes**2)
    x = np.stack([0.6 * s, 0.8 * s, solution.nodes], axis=1)
    v = field.velocity(x, mu)
    np.testing.assert_allclose(
        v[:, 2], solution._slopes(solution.nodes)[0], rtol=0, atol=1e-6 * np.abs(v).max()
    )


def test_axisymmetric_solution_says_when_it_is_not_resolved():
    steep = exact.AxisymmetricAttention((1, 2), (0, 1), 10.0, profile, n=64)
    with pytest.raises(ValueError, match=r"n = 64 nodes resolve the solution at t = 0.6 to"):
        steep.density(0.6)


def test_axisymmetric_profiles_need_mass_one():
    with pytest.raises(ValueError, match=r"got mass 2"):
        exact.AxisymmetricAttention((1, 1), (1, 1), 1.0, lambda u: 2.0 + 0 * u)


# Along characteristics


def test_characteristics_agree_with_the_axisymmetric_solution():
    solution = exact.AxisymmetricAttention((0.5, 1.5), (2.0, 1.0), 3.0, profile)
    V, B = np.diag([0.5, 0.5, 1.5]), np.diag([2.0, 2.0, 1.0])
    nodes = icosphere(2).quadrature(6)
    result = exact.along_characteristics(
        SelfAttention(V, B, 3.0, tolerance=None), solution.initial, nodes.points, nodes.weights, 0.5
    )
    np.testing.assert_allclose(result.density, solution.density(0.5)(result.points), rtol=1e-4)
    assert result.measure.total == pytest.approx(1.0, abs=1e-6)


def test_characteristics_agree_with_zero_temperature():
    solution = exact.ZeroTemperature(GENERAL_V, GENERAL_B, initial.random_band_limited(2))
    nodes = icosphere(2).quadrature(2)
    field = ZeroTemperatureAttention(GENERAL_V, GENERAL_B)
    result = exact.along_characteristics(
        field, solution.rho0, nodes.points, nodes.weights, 1.0, tolerance=1e-11
    )
    np.testing.assert_allclose(result.points, solution.flow(1.0)(nodes.points), atol=1e-9)
    np.testing.assert_allclose(result.density, solution.density(1.0)(result.points), rtol=1e-8)


# Particles, energies, transport


@pytest.mark.parametrize("normalized", [True, False])
def test_equiangular_particles(normalized):
    n, beta = 3, 1.5
    x = np.eye(3)  # equal products 0
    field = SelfAttention(np.eye(3), np.eye(3), beta, normalized, tolerance=None)
    v = field.velocity(x, Measure(x))
    slope = v[0] @ x[1] + x[0] @ v[1]
    h = 1e-4
    g = exact.equiangular(n, beta, 0.0, [0.0, h, 2 * h], normalized)
    assert (4 * g[1] - g[2] - 3 * g[0]) / (2 * h) == pytest.approx(slope, rel=1e-6)
    rate = {True: 2.0, False: 2.0 * np.exp(beta)}[normalized]
    late = 1 - exact.equiangular(n, beta, 0.9, [6.0 / rate, 7.0 / rate], normalized)
    assert np.log(late[0] / late[1]) == pytest.approx(1.0, abs=0.01)
    with pytest.raises(ValueError, match="product must lie in"):
        exact.equiangular(3, 1.0, -0.6, [1.0])


def test_energies_in_closed_form_bound_all_others():
    beta = 2.0
    mu = Measure(unit_cloud(50))
    energy = SelfAttention(E3, E3, beta, normalized=False).energy(mu)
    assert exact.uniform_energy(beta) < energy < exact.dirac_energy(beta)
    assert exact.uniform_energy(beta) == pytest.approx(np.sinh(2.0) / 8.0)


def test_transport_of_laws_with_a_common_axis():
    uniform, gaussian = exact.axial_quantile(1, 1), exact.axial_quantile(np.exp(2), 1)
    assert exact.axial_distance(uniform, gaussian) == pytest.approx(0.31873, abs=5e-6)
    coarse, fine = (exact.axial_distance(uniform, gaussian, "geodesic", n) for n in (100, 200))
    assert coarse == pytest.approx(fine, rel=1e-12)
    assert fine > exact.axial_distance(uniform, gaussian)


def test_bad_data():
    with pytest.raises(ValueError, match="B must be invertible"):
        exact.ZeroTemperature(E3, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="basis of eigenvectors"):
        exact.ZeroTemperature([[1.0, 1.0], [0.0, 1.0]], np.eye(2))
    with pytest.raises(ValueError, match="w0 must have 3 entries"):
        exact.InfiniteTemperature(E3, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="dim must be one of 1, 2"):
        exact.zero_temperature_distance(1.0, 1.0, 3)
