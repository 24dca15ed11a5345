"""Measures and the checks at the door."""

import numpy as np
import pytest

from meshes import icosphere
from pde import Measure
from pde.arguments import non_negative, one_of, positive, real_array, square_matrix, unit_points


def random_measure(n=20, d=3, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    return Measure(points / np.linalg.norm(points, axis=1, keepdims=True), rng.random(n))


def test_moments_are_sums_over_atoms():
    mu = random_measure()
    np.testing.assert_allclose(
        mu.mean(), sum(w * x for w, x in zip(mu.weights, mu.points, strict=True))
    )
    np.testing.assert_allclose(np.trace(mu.second_moment()), mu.total)
    assert mu.integrate(lambda x: x[:, 0]) == pytest.approx(mu.mean()[0])
    np.testing.assert_allclose(mu.integrate(lambda x: x), mu.mean())


def test_push_forward_keeps_masses_and_integrals():
    mu = random_measure()
    turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
    nu = mu.push(lambda x: x @ turn.T)
    np.testing.assert_array_equal(nu.weights, mu.weights)
    np.testing.assert_allclose(nu.mean(), turn @ mu.mean())


def test_mesh_measures_carry_the_cells_masses():
    mesh = icosphere(4)
    rho = 1.0 + mesh.average(lambda x: x[:, 2])
    mu = Measure.from_mesh(mesh, rho)
    assert mu.total == pytest.approx(4 * np.pi, rel=1e-13)
    # int z (1 + z) dx = 4 pi / 3, up to the centroid rule
    assert mu.mean()[2] == pytest.approx(4 * np.pi / 3, rel=2e-2)


def test_masses_are_kept_as_given():
    assert Measure([[1.0, 0.0]], [3.0]).total == 3.0
    assert Measure(np.eye(4)).weights.tolist() == [0.25] * 4
    assert Measure(np.empty((0, 3))).total == 0.0


@pytest.mark.parametrize(
    ("points", "weights", "message"),
    [
        ([[1.0, 1.0]], None, "points must be unit vectors, row 0 has length 1.41421"),
        ([1.0, 0.0], None, r"points must have 2 dimension\(s\), got shape \(2,\)"),
        ([[1.0]], None, r"points must have shape \(n, d\) with d >= 2"),
        ([[np.nan, 0.0]], None, r"points must be finite, got nan at index \(0, 0\)"),
        ([[1.0, 0.0]], [-1e-9], "weights must be >= 0, got -1e-09 at index 0"),
        ([[1.0, 0.0]], [1.0, 2.0], r"weights must have shape \(1,\)"),
        ([[1.0, 0.0]], [np.inf], "weights must be finite"),
    ],
)
def test_bad_measures_give_one_clear_sentence(points, weights, message):
    with pytest.raises(ValueError, match=message):
        Measure(points, weights)


def test_arrays_are_normalised_once():
    for given in (np.eye(3, dtype=np.float32), np.eye(3)[::-1], np.asfortranarray(np.eye(3))):
        array = unit_points("x", given)
        assert array.dtype == np.float64 and array.flags.c_contiguous


@pytest.mark.parametrize("value", [np.ones((2, 3)), np.ones((1, 1)), np.ones(4), [[1, 2], [3]]])
def test_matrices_must_be_square(value):
    with pytest.raises(ValueError, match="V must"):
        square_matrix("V", value)


def test_numbers_are_checked():
    with pytest.raises(TypeError, match="V must hold real numbers, got complex numbers"):
        real_array("V", [[1j]])
    with pytest.raises(TypeError, match="V must hold real numbers"):
        real_array("V", ["a"])
    with pytest.raises(TypeError, match="beta must be a real number, got '3'"):
        positive("beta", "3")
    with pytest.raises(ValueError, match=r"beta must be > 0, got 0\.0"):
        positive("beta", 0)
    with pytest.raises(ValueError, match=r"beta must be >= 0, got -1\.0"):
        non_negative("beta", -1)
    with pytest.raises(ValueError, match="beta must be finite, got nan"):
        non_negative("beta", float("nan"))
    with pytest.raises(ValueError, match="cost must be one of 'a', 'b', got 'c'"):
        one_of("cost", "c", ("a", "b"))
