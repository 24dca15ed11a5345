"""Drifts, external potentials and perceptrons: exact flows, derivatives, symmetry, errors."""

import numpy as np
import pytest
from scipy.linalg import expm

from meshes import icosphere
from pde import (
    Equation,
    FiniteVolume,
    Measure,
    ParticleSystem,
    PrescribedVelocity,
    ZeroTemperatureAttention,
)
from pde.field import UndefinedQuantity
from pde.fields.one_body import Drift, PotentialDrift, divergence_by_differences
from pde.fields.perceptron import ACTIVATIONS, Perceptron
from pde.fields.prescribed import along_great_circle
from pde.simulation import run_to

RANDOM = np.random.default_rng(11)
A3 = RANDOM.normal(size=(3, 3))
SYMMETRIC = A3 + A3.T


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def points(n, d=3):
    return unit(np.random.default_rng([n, d]).normal(size=(n, d)))


def cubic(x):
    return x[:, 0] ** 2 * x[:, 1] - x[:, -1]


def cubic_gradient(x):
    found = np.zeros_like(x)
    found[:, 0], found[:, 1] = 2 * x[:, 0] * x[:, 1], x[:, 0] ** 2
    found[:, -1] -= 1.0
    return found


def perceptron(d, activation, width=4, gradient=False):
    random = np.random.default_rng(d)
    A = random.normal(size=(width, d))
    W = -0.7 * A.T if gradient else random.normal(size=(d, width))
    return Perceptron(W, A, random.normal(size=width), activation)


SMOOTH = sorted(ACTIVATIONS.keys() - {"relu"})
LOCAL = [
    Drift(A3),
    Drift(np.diag([1.0, -2.0, 0.5, 3.0])),
    PotentialDrift(cubic, cubic_gradient),
    *(perceptron(3, name) for name in SMOOTH),
    perceptron(5, "gelu"),
    0.5 * Drift(A3) - perceptron(3, "tanh"),
]
GRADIENTS = [
    Drift(SYMMETRIC),
    PotentialDrift(cubic, cubic_gradient),
    *(perceptron(3, name, gradient=True) for name in ACTIVATIONS),
    perceptron(5, "gelu", gradient=True),
    Perceptron(SYMMETRIC @ np.linalg.inv(A3), A3, [1.0, -2.0, 0.5], "identity"),
    Drift(SYMMETRIC) - 2.0 * PotentialDrift(cubic, cubic_gradient),
]


@pytest.mark.parametrize("field", LOCAL, ids=repr)
def test_velocity_is_the_tangential_output_and_divergence_its_derivative(field):
    x = points(30, field.dim or 3)
    v, F = field.velocity(x), field.output(x)
    np.testing.assert_allclose(v, F - np.sum(F * x, axis=1, keepdims=True) * x, atol=1e-14)
    expected = divergence_by_differences(field.velocity, x)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(field.divergence(x), expected, rtol=0, atol=1e-11 * scale)


def test_divergence_by_differences_knows_a_closed_form():
    # x^T C x less its mean is a harmonic of degree 2: Laplace-Beltrami gives -2 (2 + d - 2) of it.
    for d in (2, 3, 6):
        C = RANDOM.normal(size=(d, d))
        x = np.concatenate([points(20, d), np.eye(d), -np.eye(d)])
        found = divergence_by_differences(Drift(C + C.T).velocity, x)
        exact = -2 * d * (np.einsum("nd,de,ne->n", x, C, x) - np.trace(C) / d)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-11)
    y = points(20)
    field = PrescribedVelocity(lambda x, t: np.sin(x @ A3.T))
    np.testing.assert_allclose(
        divergence_by_differences(field.velocity, y), field.divergence(y), rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("field", GRADIENTS, ids=repr)
def test_velocity_is_the_gradient_of_the_potential(field):
    x = points(25, field.dim or 3)
    if "relu" in repr(field):  # differences must not cross the kinks
        x = x[np.abs(x @ field.A.T + field.b).min(axis=1) > 0.2]
        assert len(x) >= 5
    for _ in range(3):
        e = RANDOM.normal(size=x.shape)
        e = unit(e - np.sum(e * x, axis=1, keepdims=True) * x)
        slope = along_great_circle(field.potential, x, e)
        np.testing.assert_allclose(np.sum(field.velocity(x) * e, axis=1), slope, atol=1e-11)


@pytest.mark.parametrize("field", GRADIENTS, ids=repr)
def test_the_driving_energy_is_the_integral_of_the_potential(field):
    mu = Measure(points(6, field.dim or 3), np.arange(1.0, 7.0))
    expected = np.arange(1.0, 7.0) @ field.potential(mu.points)
    assert field.driving_energy(mu) == pytest.approx(expected, rel=1e-13)


def test_the_linear_flow_is_the_exponential():
    x = points(8)
    end = run_to(ParticleSystem(Equation(Drift(A3))), x, 0.7, tolerance=1e-11)
    np.testing.assert_allclose(end, unit(x @ expm(0.7 * A3).T), rtol=0, atol=1e-9)


def test_a_drift_is_zero_temperature_attention_with_B_orthogonal():
    R = np.linalg.qr(RANDOM.normal(size=(3, 3)))[0]
    attention, drift = ZeroTemperatureAttention(A3, R), Drift(A3 @ R.T)
    x = points(10)
    np.testing.assert_allclose(drift.velocity(x), attention.velocity(x), atol=1e-13)
    np.testing.assert_allclose(drift.divergence(x), attention.divergence(x), atol=1e-13)


def test_with_noise_the_gibbs_law_of_the_potential_stays():
    """rho = e^{psi / D}, for psi of several terms together."""
    mesh, D = icosphere(4), 0.4
    terms = [PotentialDrift(cubic, cubic_gradient), Drift(SYMMETRIC)]
    field = terms[0] + 0.5 * terms[1] + perceptron(3, "tanh", gradient=True)
    system = FiniteVolume(mesh, Equation(field, diffusion=D))
    rho = np.exp(field.potential(mesh.centers) / D)
    rho /= rho @ mesh.areas
    end = run_to(system, rho, 1.0)
    np.testing.assert_allclose(end, rho, rtol=0, atol=1e-12 * rho.max())
    flat = run_to(system, np.full(mesh.n_cells, 1.0 / mesh.total_area), 1.0)
    assert np.abs(flat - 1.0 / mesh.total_area).max() > 0.01


def test_perceptrons_that_are_linear_drifts():
    """identity: W A x + W b; relu with the rows +-A and the columns +-W: W A x."""
    x, W, A, b = points(10), *RANDOM.normal(size=(2, 3, 3)), RANDOM.normal(size=3)
    constant = PotentialDrift(lambda x: x @ (W @ b), lambda x: np.tile(W @ b, (len(x), 1)))
    identity, both = Perceptron(W, A, b, "identity"), Drift(W @ A) + constant
    np.testing.assert_allclose(identity.velocity(x), both.velocity(x), atol=1e-13)
    np.testing.assert_allclose(identity.divergence(x), both.divergence(x), atol=1e-11)
    folded = Perceptron(np.hstack([W, -W]), np.vstack([A, -A]), activation="relu")
    np.testing.assert_allclose(folded.velocity(x), Drift(W @ A).velocity(x), atol=1e-14)
    np.testing.assert_allclose(folded.divergence(x), Drift(W @ A).divergence(x), atol=1e-13)


def test_activations_at_known_values():
    z = np.array([-2.0, 0.0, 1.0])
    known = {
        "identity": z,
        "relu": [0.0, 0.0, 1.0],
        "gelu": [-0.04550026, 0.0, 0.84134475],  # z Phi(z)
        "tanh": np.tanh(z),
        "sigmoid": [0.11920292, 0.5, 0.73105858],
    }
    for name, values in known.items():
        np.testing.assert_allclose(ACTIVATIONS[name].value(z), values, rtol=0, atol=1e-8)


def test_an_activation_of_ones_own():
    W, A = RANDOM.normal(size=(3, 5)), RANDOM.normal(size=(5, 3))
    x = points(10)
    own = Perceptron(W, A, activation=np.sin, derivative=np.cos)
    np.testing.assert_allclose(own.output(x), np.sin(x @ A.T) @ W.T, atol=1e-14)
    expected = divergence_by_differences(own.velocity, x)
    np.testing.assert_allclose(own.divergence(x), expected, atol=1e-10)
    assert repr(own) == "Perceptron(d=3, width=5, activation='sin')"
    with pytest.raises(UndefinedQuantity, match="derivative of sin"):
        Perceptron(W, A, activation=np.sin).divergence(x)
    with pytest.raises(UndefinedQuantity, match="known by name"):
        Perceptron(A.T, A, activation=np.sin).potential(x)
    with pytest.raises(ValueError, match="must act entry by entry"):
        Perceptron(W, A, activation=lambda z: z[:, :2]).velocity(x)


@pytest.mark.parametrize("d", [2, 5])
def test_rotating_everything_rotates_the_velocity(d):
    R = np.linalg.qr(RANDOM.normal(size=(d, d)))[0]
    A, W = RANDOM.normal(size=(d, d)), RANDOM.normal(size=(d, 3))
    H, b, x = RANDOM.normal(size=(3, d)), RANDOM.normal(size=3), points(9, d)
    pairs = [
        (Drift(A), Drift(R @ A @ R.T)),
        (Perceptron(W, H, b, "gelu"), Perceptron(R @ W, H @ R.T, b, "gelu")),
        (
            PotentialDrift(cubic, cubic_gradient),
            PotentialDrift(lambda x: cubic(x @ R), lambda x: cubic_gradient(x @ R) @ R.T),
        ),
    ]
    for field, turned in pairs:
        np.testing.assert_allclose(turned.velocity(x @ R.T), field.velocity(x) @ R.T, atol=1e-13)
        np.testing.assert_allclose(turned.divergence(x @ R.T), field.divergence(x), atol=1e-11)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Drift(np.ones((2, 3))), ValueError, r"A must be a square.*\(2, 3\)"),
        (lambda: Drift([[np.nan, 0.0], [0.0, 1.0]]), ValueError, "A must be finite"),
        (lambda: PotentialDrift(1.0, cubic_gradient), TypeError, "psi must be a function"),
        (lambda: PotentialDrift(cubic, None), TypeError, "gradient must be a function"),
        (lambda: Perceptron(np.eye(3), np.eye(2)), ValueError, r"got \(3, 3\) and \(2, 2\)"),
        (lambda: Perceptron(np.eye(3), np.eye(3), [1.0]), ValueError, r"b must have shape \(3,\)"),
        (
            lambda: Perceptron(np.eye(3), np.eye(3), activation="swish"),
            ValueError,
            "activation must be one of 'identity', 'relu'.*got 'swish'",
        ),
        (lambda: Perceptron(np.eye(3), np.eye(3), activation=2), TypeError, "name or a function"),
        (
            lambda: Perceptron(np.eye(3), np.eye(3), derivative=np.cos),
            ValueError,
            "derivative must be None for the known activation 'relu'",
        ),
        (
            lambda: Perceptron(np.eye(3), np.eye(3), activation=np.sin, derivative=1.0),
            TypeError,
            "derivative must be a function",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_values_and_what_is_undefined():
    x = points(4)
    with pytest.raises(ValueError, match=r"gradient\(x\) must have the shape of x"):
        PotentialDrift(cubic, cubic).velocity(x)
    with pytest.raises(ValueError, match=r"psi\(x\) must have shape \(4,\)"):
        PotentialDrift(cubic_gradient, cubic_gradient).potential(x)
    with pytest.raises(ValueError, match=r"gradient\(x\) must be finite, got nan"):
        PotentialDrift(cubic, lambda x: np.nan * x).velocity(x)
    with pytest.raises(UndefinedQuantity, match="A symmetric"):
        Drift(A3).potential(x)
    with pytest.raises(UndefinedQuantity, match="W = c A"):
        perceptron(3, "relu").potential(x)
    with pytest.raises(ValueError, match="d = 3"):
        Drift(A3).velocity(points(4, 2))
