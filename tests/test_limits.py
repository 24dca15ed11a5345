"""Limit spaces, projections, exact distances to limits, assumptions in words."""

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

from meshes import icosphere
from pde import limits
from pde.measure import Measure

PHI = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))[0]


def unit_cloud(n, d=3):
    x = np.random.default_rng([n, d]).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def same_space(E, F):
    return E.shape == F.shape and np.abs(E @ E.T - F @ F.T).max() < 1e-12


def test_spaces_of_the_known_cases():
    # The cases of arXiv:2605.10931 for the terminal phase, d = 3.
    e = np.eye(3)
    for v, b, E, F, F_abs in [
        ([2, 1, 0.5], [1, 4, 1], e[:, [1]], e[:, [0]], e[:, [0]]),
        ([-3, -1, -0.5], [-1, -4, -1], e[:, [1]], e[:, [2]], e[:, [0]]),
        ([-3, 1, 0.5], [-1, 4, 1], e[:, [1]], e[:, [1]], e[:, [0]]),
    ]:
        V, B = PHI @ np.diag(v) @ PHI.T, PHI @ np.diag(b) @ PHI.T
        assert same_space(limits.limit_space(V, B), PHI @ E)
        assert same_space(limits.terminal_space(V), PHI @ F)
        assert same_space(limits.terminal_space(V, by="magnitude"), PHI @ F_abs)


def test_multiple_eigenvalues_within_the_tolerance():
    A = PHI @ np.diag([2.0, 2.0 - 1e-10, -2.0]) @ PHI.T
    A = 0.5 * (A + A.T)
    assert same_space(limits.dominant_eigenspace(A), np.linalg.qr(PHI[:, :2])[0])
    assert limits.dominant_eigenspace(A, by="magnitude").shape == (3, 3)
    assert limits.dominant_eigenspace(A, tolerance=1e-12).shape == (3, 1)
    assert limits.spectral_gap(A) == pytest.approx(4.0, rel=1e-9)
    assert limits.spectral_gap(np.eye(3)) == np.inf
    assert limits.spectral_gap(np.diag([0.9, 0.4, -0.6])) == pytest.approx(0.5)


def test_columns_are_orthonormal_and_their_sign_is_fixed():
    E = limits.dominant_eigenspace(-np.diag([2.0, 1.0, 1.0]))
    np.testing.assert_allclose(E.T @ E, np.eye(2), atol=1e-15)
    np.testing.assert_array_equal(
        limits.dominant_eigenspace(np.diag([0.0, 5.0, 1.0])), [[0.0], [1.0], [0.0]]
    )


def test_symmetric_matrices_do_not_warn_and_others_do():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limits.dominant_eigenspace(np.diag([1.0, 2.0]))
    with pytest.warns(UserWarning, match="not symmetric"):
        E = limits.dominant_eigenspace([[2.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(np.abs(E), [[1.0], [0.0]], atol=1e-15)
    with pytest.warns(UserWarning, match="not symmetric"):
        jordan = limits.dominant_eigenspace([[2.0, 1.0, 0], [0.0, 2.0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(np.abs(jordan), [[1.0], [0.0], [0.0]], atol=1e-7)


@pytest.mark.filterwarnings("ignore:the matrix is not symmetric")
def test_complex_dominant_eigenvalues_have_no_limit():
    spiral = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.5]])
    with pytest.raises(ValueError, match="real dominant eigenvalues"):
        limits.dominant_eigenspace(spiral)
    spiral[2, 2] = 1.2  # real and largest by value, not by magnitude (sqrt 2)
    assert same_space(limits.dominant_eigenspace(spiral), np.eye(3)[:, [2]])
    with pytest.raises(ValueError, match="real dominant eigenvalues"):
        limits.dominant_eigenspace(spiral, by="magnitude")


def test_bad_arguments():
    with pytest.raises(ValueError, match="by must be one of 'value', 'magnitude', got 'size'"):
        limits.dominant_eigenspace(np.eye(3), by="size")
    with pytest.raises(ValueError, match="A must be a square"):
        limits.dominant_eigenspace(np.ones((2, 3)))
    with pytest.raises(ValueError, match="orthonormal"):
        limits.Projection([1.0, 1.0])
    with pytest.raises(ValueError, match="shape"):
        limits.Projection(np.ones((2, 3)))


def test_projection_is_the_nearest_point():
    E = PHI[:, :2]
    x = unit_cloud(50)
    image = limits.Projection(E)(x)
    np.testing.assert_allclose(np.linalg.norm(image, axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(image @ PHI[:, 2], 0.0, atol=1e-15)
    angles = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ E.T
    nearest = np.max(x @ ring.T, axis=1)
    assert np.all(np.sum(x * image, axis=1) >= nearest - 1e-15)
    assert np.all(np.sum(x * image, axis=1) <= nearest + 1e-5)


def test_projection_is_odd_on_the_complement_too():
    Pi = limits.Projection([0.0, 0.0, 1.0])
    equator = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1, 0], [0, -0.6, 0], [0.6, -0.8, 1e-17]])
    equator /= np.linalg.norm(equator, axis=1)[:, None]
    np.testing.assert_array_equal(Pi(equator), -Pi(-equator))
    np.testing.assert_array_equal(Pi(equator)[:, 2], [1, -1, 1, -1, 1])
    mesh = icosphere(4)
    pushed = Measure.from_mesh(mesh, np.full(mesh.n_cells, 0.25 / np.pi)).push(Pi)
    assert abs(pushed.mean()[2]) < 1e-15


@pytest.mark.parametrize("k", [1, 2, 3])
def test_distance_to_a_space(k):
    E, mu = PHI[:, :k], Measure(unit_cloud(30))
    image = limits.Projection(E)(mu.points)
    expected = np.sqrt(np.mean(np.sum((mu.points - image) ** 2, axis=1)))
    assert limits.distance_to_space(mu, E) == pytest.approx(expected, rel=1e-13, abs=1e-14)


def test_distance_to_a_space_keeps_its_digits_near_the_limit():
    s = 1e-9
    mu = Measure([[np.cos(s), np.sin(s), 0.0]])
    exact = 2 * np.sin(s / 2)
    assert limits.distance_to_space(mu, [1.0, 0.0, 0.0]) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("mass", [0.0, 0.37, 1.0])
def test_distance_to_a_pair_against_the_linear_programme(mass):
    weights = np.random.default_rng(3).uniform(size=12)
    mu = Measure(unit_cloud(12), weights / weights.sum())
    e = PHI[:, 0]
    cost = np.stack([np.sum((mu.points - s * e) ** 2, axis=1) for s in (1, -1)], axis=1)
    rows = np.kron(np.eye(12), np.ones(2))
    columns = np.kron(np.ones(12), np.eye(2))
    plan = linprog(
        cost.ravel(),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([mu.weights, [mass, 1 - mass]]),
    )
    assert limits.distance_to_pair(mu, e, mass) ** 2 == pytest.approx(plan.fun, rel=1e-9)


def test_distance_to_a_pair_is_that_to_the_limit_when_the_masses_agree():
    mu = Measure(unit_cloud(40))
    e = PHI[:, 0]
    above = mu.weights[mu.points @ e > 0].sum()
    assert limits.distance_to_pair(mu, e, above) == pytest.approx(
        limits.distance_to_space(mu, e), rel=1e-13
    )
    with pytest.raises(ValueError, match="at most mu's total 1, got 1.5"):
        limits.distance_to_pair(mu, e, 1.5)


def test_assumption_1_in_words():
    good = limits.assumption_1(np.diag([2.0, 1.0]), np.diag([1.0, 4.0]))
    assert good.holds and "invertible (condition number 4)" in good.text
    singular = limits.assumption_1(np.eye(2), np.zeros((2, 2)))
    assert not singular.holds and "singular" in str(singular)
    skew = limits.assumption_1([[1.0, 1.0], [0.0, 1.0]], np.eye(2))
    assert not skew.holds and "not symmetric" in skew.text


@pytest.mark.parametrize("k", [1, 2])
def test_assumption_2_holds_iff_p_is_below_the_dimension(k):
    # The integral over r > eps of the uniform law grows without bound iff p >= k.
    E = np.eye(3)[:, :k]
    uniform = lambda x: np.full(len(x), 0.25 / np.pi)  # noqa: E731
    for p in (0.5, 1.0, 1.5, 2.0, 2.5):
        assert limits.assumption_2(E, uniform, p).holds == (p < k)
    nodes = icosphere(8).quadrature(6)
    mu = Measure(nodes.points, nodes.weights / (4 * np.pi))
    # E|P_E x|^-p of the uniform law: 1/(1-p) for k = 1, B(1 - p/2, 1/2)/2 = pi/2 for k = 2, p = 1
    exact = {1: 2.0, 2: np.pi / 2}[k]
    report = limits.assumption_2(PHI[:, :k], mu, {1: 0.5, 2: 1.0}[k])
    assert report.holds
    assert float(report.text.split("= ")[1].split()[0]) == pytest.approx(exact, rel=0.02)


def test_assumption_2_for_other_laws():
    e3 = np.array([0.0, 0.0, 1.0])
    on_equator = Measure([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert "mass 0.5 lies" in limits.assumption_2(e3, on_equator).text
    cap = lambda x: (x[:, 2] > 0.5) * 1.0  # noqa: E731
    assert "not decided" in limits.assumption_2(e3, cap, p=1.0).text
    assert limits.assumption_2(np.eye(3), cap, p=5.0).holds


def test_assumption_3_in_words():
    assert limits.assumption_3(lambda x: 1.0 + 0.5 * x[:, 0]).holds
    gap = limits.assumption_3(lambda x: np.maximum(x[:, 0], 0.0))
    assert not gap.holds and "<= 0 in" in gap.text
    assert limits.assumption_3(np.array([0.5, 0.1])).text == "the density is at least 0.1"
    assert limits.assumption_3(lambda x: 1.0 + 0.5 * x[:, 0], dim=2).holds
