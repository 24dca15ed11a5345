"""Velocity fields: tangency, symmetries, derivatives, closed forms, errors."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde.field import Field, UndefinedQuantity
from pde.fields.attention import SelfAttention, ZeroTemperatureAttention
from pde.fields.prescribed import PrescribedVelocity, StreamFunction
from pde.measure import Measure


def unit_cloud(n, d=3):
    x = np.random.default_rng([n, d]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def masses(n):
    return np.random.default_rng(n).uniform(0.2, 1.0, n) / n


def random_matrices(d):
    return np.random.default_rng(d).normal(size=(2, d, d))


def random_rotation(d=3):
    return np.linalg.qr(np.random.default_rng(d + 10).normal(size=(d, d)))[0]


def numpy_velocity(x, mu, V, B, beta, normalized):
    """The defining sums as they stand on paper."""
    kernel = mu.weights * np.exp(beta * x @ B @ mu.points.T)
    sums = kernel @ mu.points
    if normalized:
        sums /= kernel.sum(axis=1, keepdims=True)
    attention = sums @ V.T
    return attention - np.sum(x * attention, axis=1, keepdims=True) * x


def directional(f, x, e, h=1e-3):
    """Derivative of f at x along the unit tangent e, sixth order on the great circle."""
    at = lambda s: f(np.cos(s) * x + np.sin(s) * e)  # noqa: E731
    return sum(w * (at(k * h) - at(-k * h)) for k, w in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))) / h


def tangents(x):
    """d - 1 orthonormal tangents at every point, from the QR factors of [x, I]."""
    d = x.shape[1]
    frames = np.stack([np.linalg.qr(np.column_stack([p, np.eye(d)]))[0][:, 1:d] for p in x])
    return [frames[:, :, i] for i in range(d - 1)]


def surface_divergence(velocity, x):
    return sum(np.sum(e * directional(velocity, x, e), axis=1) for e in tangents(x))


V3, B3 = random_matrices(3)
MU = Measure(unit_cloud(40), masses(40))
ATTENTION = [
    SelfAttention(V3, B3, 2.0, tolerance=None),
    SelfAttention(V3, B3, 2.0, normalized=False, tolerance=None),
    SelfAttention(V3, B3, 0.0),
    SelfAttention(V3, B3, 0.0, normalized=False),
    ZeroTemperatureAttention(V3, B3),
]
PRESCRIBED = [
    PrescribedVelocity(lambda x, t: np.cross([1.0, t, 0.5], x) + x[:, :1] * x),
    StreamFunction(lambda x, t: np.sin(2 * x[:, 0]) * x[:, 1] + t * x[:, 2]),
]


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_velocity_is_the_defining_sum(normalized, d):
    V, B = random_matrices(d)
    mu = Measure(unit_cloud(30, d), masses(30))
    x = unit_cloud(20, d)
    expected = numpy_velocity(x, mu, V, B, 1.7, normalized)
    for tolerance in (None, 1e-10):
        field = SelfAttention(V, B, 1.7, normalized, tolerance)
        np.testing.assert_allclose(
            field.velocity(x, mu), expected, rtol=0, atol=1e-9 if tolerance else 1e-12
        )


@pytest.mark.parametrize("field", [*ATTENTION, *PRESCRIBED], ids=repr)
def test_velocity_is_tangent(field):
    x = unit_cloud(50)
    v = field.velocity(x, MU, t=0.3)
    assert np.abs(np.sum(v * x, axis=1)).max() < 1e-14 * (1.0 + np.abs(v).max()) * 10


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("kind", ["SA", "USA", "zero temperature"])
def test_rotating_everything_rotates_the_velocity(kind, d):
    V, B = random_matrices(d)
    R = random_rotation(d)
    mu = Measure(unit_cloud(25, d), masses(25))
    x = unit_cloud(10, d)

    def field(V, B):
        if kind == "zero temperature":
            return ZeroTemperatureAttention(V, B)
        return SelfAttention(V, B, 3.0, normalized=kind == "SA", tolerance=None)

    v = field(V, B).velocity(x, mu)
    turned = field(R @ V @ R.T, R @ B @ R.T).velocity(x @ R.T, mu.push(lambda y: y @ R.T))
    np.testing.assert_allclose(turned, v @ R.T, rtol=0, atol=1e-12 * np.abs(v).max())


def test_from_qkv_multiplies_query_and_key():
    Q, K = np.random.default_rng(1).normal(size=(2, 2, 3))
    field = SelfAttention.from_qkv(Q, K, V3, 1.0, normalized=False)
    np.testing.assert_array_equal(field.B, Q.T @ K)
    assert not field.normalized


def test_uniform_data_stay_put_up_to_the_quadrature_error():
    # The exact velocity of uniform data is 0 (V = B = I); centroids integrate to second order.
    speeds = []
    for frequency in (8, 16):
        mesh = icosphere(frequency)
        mu = Measure.from_mesh(mesh, np.full(mesh.n_cells, 0.25 / np.pi))
        field = SelfAttention(np.eye(3), np.eye(3), 4.0)
        speeds.append(np.abs(field.velocity(mesh.centroids, mu)).max())
    assert speeds[1] < 2e-5
    assert 3.0 < speeds[0] / speeds[1] < 5.0


def test_large_beta_approaches_zero_temperature():
    # Uniform data on the circle: m = I1(s)/I0(s) B^T x / |B^T x| with s = beta |B^T x|, and equal
    # spacing integrates e^{s cos} to rounding.
    from scipy.special import i0e, i1e

    V, B = np.diag([2.0, 0.5]), np.array([[1.0, 0.3], [0.0, 2.0]])
    mesh = circle(400)
    mu = Measure(mesh.centers)
    x = unit_cloud(10, 2)
    for beta in (5.0, 50.0):
        s = beta * np.linalg.norm(x @ B, axis=1)
        ratio = (i1e(s) / i0e(s))[:, None]
        exact = ratio * ZeroTemperatureAttention(V, B).velocity(x)
        v = SelfAttention(V, B, beta).velocity(x, mu)
        np.testing.assert_allclose(v, exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize("field", [*ATTENTION, *PRESCRIBED], ids=repr)
def test_divergence_against_differences(field):
    x = unit_cloud(15)
    expected = surface_divergence(lambda y: field.velocity(y, MU, 0.3), x)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(field.divergence(x, MU, 0.3), expected, rtol=0, atol=1e-10 * scale)


@pytest.mark.parametrize("d", [2, 4])
def test_divergence_in_other_dimensions(d):
    V, B = random_matrices(d)
    mu, x = Measure(unit_cloud(20, d)), unit_cloud(8, d)
    for field in (
        SelfAttention(V, B, 1.5, tolerance=None),
        SelfAttention(V, B, 1.5, normalized=False, tolerance=None),
        ZeroTemperatureAttention(V, B),
    ):
        expected = surface_divergence(lambda y, f=field: f.velocity(y, mu), x)
        atol = 1e-10 * (1.0 + np.abs(expected).max())
        np.testing.assert_allclose(field.divergence(x, mu), expected, rtol=0, atol=atol)


SYMMETRIC = V3 + V3.T
GRADIENTS = [
    SelfAttention(-1.5 * B3, B3, 2.0, tolerance=None),
    SelfAttention(-1.5 * B3, B3, 2.0, normalized=False, tolerance=None),
    SelfAttention(V3, B3, 0.0),
    SelfAttention(V3, B3, 0.0, normalized=False),
    ZeroTemperatureAttention(0.7 * B3, B3),
    ZeroTemperatureAttention(SYMMETRIC @ (R := random_rotation()), 2.0 * R),
    2.0 * SelfAttention(B3, B3, 1.0, tolerance=None) - ZeroTemperatureAttention(B3, B3),
]


@pytest.mark.parametrize("field", GRADIENTS, ids=repr)
def test_velocity_is_the_gradient_of_the_potential(field):
    x = unit_cloud(15)
    v = field.velocity(x, MU)
    for e in tangents(x):
        slope = directional(lambda y: field.potential(y, MU), x, e)
        np.testing.assert_allclose(
            np.sum(v * e, axis=1), slope, rtol=0, atol=1e-11 * (1.0 + np.abs(v).max())
        )


@pytest.mark.parametrize("normalized", [True, False])
def test_potential_is_continuous_at_infinite_temperature(normalized):
    x = unit_cloud(10)
    small, zero = (
        SelfAttention(B3, B3, beta, normalized, tolerance=None).potential(x, MU)
        for beta in (1e-6, 0.0)
    )
    np.testing.assert_allclose(small, zero, rtol=0, atol=1e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("normalized", [True, False])
def test_energy_changes_at_the_rate_of_the_gradient_flow(sign, normalized):
    B, beta = SYMMETRIC, 0.7
    field = SelfAttention(sign * B, B, beta, normalized, tolerance=None)
    v = field.velocity(MU.points, MU)

    def energy(s):
        moved = MU.points + s * v
        return field.energy(Measure(moved / np.linalg.norm(moved, axis=1)[:, None], MU.weights))

    h = 1e-3
    rate = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    partition = np.exp(beta * MU.points @ B @ MU.points.T) @ MU.weights
    dissipation = np.sum(v**2, axis=1) * (partition if normalized else 1.0)
    assert rate == pytest.approx(sign * MU.weights @ dissipation, rel=1e-8)


def test_energies_in_closed_form():
    beta = 1.5
    field = SelfAttention(np.eye(3), np.eye(3), beta, normalized=False)
    dirac = Measure([[0.0, 0.6, 0.8]])
    assert field.energy(dirac) == pytest.approx(np.exp(beta) / (2 * beta), rel=1e-12)
    nodes = icosphere(2).quadrature(8)
    uniform = Measure(nodes.points, nodes.weights / (4 * np.pi))
    assert field.energy(uniform) == pytest.approx(np.sinh(beta) / (2 * beta**2), rel=1e-8)


def test_fields_add_and_scale():
    x = unit_cloud(10)
    a, b = ATTENTION[0], ATTENTION[-1]
    combined = 2 * a + b * 0.5 - a
    assert combined.is_nonlocal and combined.dim == 3
    expected = a.velocity(x, MU) + 0.5 * b.velocity(x)
    np.testing.assert_allclose(combined.velocity(x, MU), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        combined.divergence(x, MU),
        a.divergence(x, MU) + 0.5 * b.divergence(x),
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_allclose(sum([a, a]).velocity(x, MU), 2 * a.velocity(x, MU))
    np.testing.assert_array_equal((-b).velocity(x), -b.velocity(x))
    assert not (b + b).is_nonlocal


def test_a_field_of_ones_own_needs_a_velocity_only():
    class Rotation(Field):
        def velocity(self, x, mu=None, t=0.0):
            return np.cross([0.0, 0.0, 1.0], x)

    edges = icosphere(2).edge_quadrature(2)
    expected = np.einsum("end,ed->en", np.cross([0.0, 0.0, 1.0], edges.points), edges.normals)
    np.testing.assert_allclose(Rotation().normal_velocity(edges), expected, atol=1e-15)
    with pytest.raises(UndefinedQuantity, match="no divergence"):
        Rotation().divergence(edges.points[:, 0])
    with pytest.raises(NotImplementedError, match="velocity"):
        Field().velocity(edges.points[:, 0])


# Stream functions


def transport_psi(x, t):
    """The non-divergent flow of Lauritzen et al. 2012 at R = 1, T = 5."""
    longitude = np.arctan2(x[:, 1], x[:, 0]) - 2 * np.pi * t / 5
    across = 2 * np.sin(longitude) ** 2 * (x[:, 0] ** 2 + x[:, 1] ** 2)
    return across * np.cos(np.pi * t / 5) - 2 * np.pi / 5 * x[:, 2]


def transport_velocity(x, t):
    longitude = np.arctan2(x[:, 1], x[:, 0])
    latitude = np.arctan2(x[:, 2], np.hypot(x[:, 0], x[:, 1]))
    moving, c = longitude - 2 * np.pi * t / 5, np.cos(np.pi * t / 5)
    u = 2 * np.sin(moving) ** 2 * np.sin(2 * latitude) * c + 2 * np.pi / 5 * np.cos(latitude)
    v = 2 * np.sin(2 * moving) * np.cos(latitude) * c
    east = np.stack([-np.sin(longitude), np.cos(longitude), 0 * longitude], axis=1)
    return u[:, None] * east + v[:, None] * np.cross(x, east)


def test_stream_function_gives_the_velocity_to_near_rounding():
    x, field = unit_cloud(200), StreamFunction(transport_psi)
    np.testing.assert_allclose(
        field.velocity(x, t=0.7), transport_velocity(x, 0.7), rtol=0, atol=1e-11
    )
    omega = np.array([0.3, -1.0, 0.5])
    spin = StreamFunction(lambda x, t: -x @ omega)
    np.testing.assert_allclose(spin.velocity(x), np.cross(omega, x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_edge_fluxes_are_differences_of_the_stream_function(n):
    edges = icosphere(6).edge_quadrature(n)
    u = StreamFunction(transport_psi).normal_velocity(edges, t=0.7)
    flux = transport_psi(edges.ends[:, 1], 0.7) - transport_psi(edges.ends[:, 0], 0.7)
    np.testing.assert_allclose(np.sum(u * edges.weights, axis=1), flux, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_edge_velocities_converge_at_the_order_of_the_edge_quadrature(n):
    errors = []
    for frequency in (8, 16):
        edges = icosphere(frequency).edge_quadrature(n)
        u = StreamFunction(transport_psi).normal_velocity(edges, t=0.7)
        v = transport_velocity(edges.points.reshape(-1, 3), 0.7).reshape(edges.points.shape)
        errors.append(np.abs(u - np.einsum("end,ed->en", v, edges.normals)).max())
    assert abs(np.log2(errors[0] / errors[1]) - 2 * n) < 0.35
    assert errors[1] < {1: 3e-3, 2: 2e-5, 3: 1e-7}[n]


def test_sums_keep_fluxes_exact():
    edges = icosphere(3).edge_quadrature(2)
    field = StreamFunction(transport_psi)
    double = (field + 1.0 * field).normal_velocity(edges)
    np.testing.assert_allclose(double, 2 * field.normal_velocity(edges), rtol=1e-15)


# Errors


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.eye(3)[:2], np.eye(3), 1.0), ValueError, r"V must be a square.*\(2, 3\)"),
        ((np.eye(3), np.eye(2), 1.0), ValueError, r"B must be a square matrix \(3, 3\)"),
        ((np.eye(3), np.diag([1, np.nan, 1]), 1.0), ValueError, "B must be finite, got nan"),
        ((1j * np.eye(3), np.eye(3), 1.0), TypeError, "V must hold real numbers"),
        ((np.eye(3), np.eye(3), -1.0), ValueError, "beta must be >= 0, got -1"),
        ((np.eye(3), np.eye(3), np.inf), ValueError, "beta must be finite"),
        ((np.eye(3), np.eye(3), 1.0, True, 0.0), ValueError, "tolerance must be > 0"),
    ],
)
def test_bad_arguments_of_attention(arguments, error, message):
    with pytest.raises(error, match=message):
        SelfAttention(*arguments)


def test_singular_B_has_no_zero_temperature_limit():
    with pytest.raises(ValueError, match=r"B must be invertible.*condition number inf"):
        ZeroTemperatureAttention(np.eye(3), np.zeros((3, 3)))
    with pytest.raises(ValueError, match="condition number 1e"):
        ZeroTemperatureAttention(np.eye(2), np.diag([1.0, 1e-14]))


def test_undefined_quantities_say_what_they_need():
    x = unit_cloud(3)
    with pytest.raises(UndefinedQuantity, match="V = c B"):
        SelfAttention(V3, B3, 1.0).potential(x, MU)
    with pytest.raises(UndefinedQuantity, match="B symmetric"):
        SelfAttention(B3, B3, 1.0).energy(MU)
    with pytest.raises(UndefinedQuantity, match="beta > 0"):
        SelfAttention(np.eye(3), np.eye(3), 0.0).energy(MU)
    with pytest.raises(UndefinedQuantity, match="orthogonal"):
        ZeroTemperatureAttention(V3, B3).potential(x)
    with pytest.raises(ValueError, match="no energy"):
        ZeroTemperatureAttention(V3, B3).energy(MU)


def test_unnormalised_overflow_is_an_error_not_an_infinity():
    field = SelfAttention(np.eye(3), np.eye(3), 2000.0, normalized=False)
    with pytest.raises(ValueError, match=r"beta is too large.*allowed is 700"):
        field.velocity(MU.points, MU)
    with pytest.raises(ValueError, match="beta is too large"):
        field.energy(MU)
    SelfAttention(np.eye(3), np.eye(3), 2000.0).velocity(MU.points, MU)


def test_measures_and_points_are_checked():
    field = SelfAttention(np.eye(3), np.eye(3), 1.0)
    with pytest.raises(TypeError, match="mu must be a Measure"):
        field.velocity(MU.points, None)
    with pytest.raises(ValueError, match="dimension 3 like x, got 2"):
        field.velocity(MU.points, Measure([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="must have mass"):
        field.velocity(MU.points, Measure(MU.points, np.zeros(MU.n)))
    with pytest.raises(ValueError, match="unit vectors"):
        field.velocity(2 * MU.points, MU)
    with pytest.raises(ValueError, match="one dimension to be added"):
        field + SelfAttention(np.eye(2), np.eye(2), 1.0)
    with pytest.raises(ValueError, match="shape of x"):
        PrescribedVelocity(lambda x, t: x[:, 0]).velocity(MU.points)
    with pytest.raises(ValueError, match=r"psi\(x, t\) must have shape"):
        StreamFunction(lambda x, t: x).velocity(MU.points)
    with pytest.raises(TypeError, match="must be a function"):
        PrescribedVelocity(3.0)
