"""Formulas of spherical geometry and quadrature against closed forms, also for tiny figures."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from meshes import geometry as g
from meshes import quadrature as q

SIZES = [1.0, 1e-2, 1e-4, 1e-6, 1e-8]


def random_units(n, d, seed=0):
    return g.unit(np.random.default_rng(seed).normal(size=(n, d)))


def rectangle(alpha, beta):
    """Corners, counter-clockwise, of the rectangle |x| <= alpha, |y| <= beta of the plane z = 1."""
    signs = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    flat = np.column_stack([signs * [alpha, beta], np.ones(4)])
    return g.unit(flat), 4.0 * np.arctan(alpha * beta / np.sqrt(1 + alpha**2 + beta**2))


# ---------------------------------------------------------------- arcs and tangent planes


@pytest.mark.parametrize("angle", [1e-9, 1e-4, 1.0, np.pi / 2, 3.0, np.pi - 1e-9])
def test_arc_length_keeps_its_digits_near_0_and_pi(angle):
    a, b = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
    assert_allclose(g.arc_length(a, b), angle, rtol=4e-16, atol=0)


def test_pole_points_left_and_is_orthogonal_to_the_arc():
    a, b = random_units(100, 3, 1), random_units(100, 3, 2)
    pole = g.arc_pole(a, b)
    assert_allclose(
        pole, np.cross(a, b) / np.linalg.norm(np.cross(a, b), axis=1)[:, None], atol=1e-13
    )
    left = np.cross(a, g.tangent_projection(a, b))
    assert (g.dot(pole, left) > 0).all()


@pytest.mark.parametrize("h", SIZES)
def test_pole_of_a_short_arc_is_accurate(h):
    a, b = g.unit(np.array([h, 0.5 * h, 1.0])), g.unit(np.array([-h, -0.5 * h, 1.0]))
    assert_allclose(g.arc_pole(a, b), np.array([0.5, -1.0, 0.0]) / np.hypot(0.5, 1.0), atol=1e-15)


def test_projection_is_tangent_idempotent_and_kills_the_normal():
    x, y = random_units(50, 4), np.random.default_rng(3).normal(size=(50, 4))
    p = g.tangent_projection(x, y)
    assert_allclose(g.dot(p, x), 0, atol=1e-15)
    assert_allclose(g.tangent_projection(x, p), p, atol=1e-15)
    assert_allclose(g.tangent_projection(x, 3.0 * x), 0, atol=1e-15)


@given(st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: np.linalg.norm(v) > 1e-3))
def test_frame_is_orthonormal_and_right_handed(v):
    x = g.unit(np.array(v))
    e = g.tangent_frame(x)
    assert_allclose(e @ e.T, np.eye(2), atol=1e-15)
    assert_allclose(np.cross(e[0], e[1]), x, atol=1e-15)


def test_frame_at_both_poles_and_on_the_circle():
    for x in np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [0.0, 0.0, -0.0 + 1.0]]):
        e = g.tangent_frame(x)
        assert_allclose(np.cross(e[0], e[1]), x, atol=0)
    assert_allclose(g.tangent_frame(np.array([[1.0, 0.0], [0.0, 1.0]]))[:, 0], [[0, 1], [-1, 0]])


# ---------------------------------------------------------------- areas and centroids


def test_area_of_the_octant_and_of_its_mirror_image():
    a, b, c = np.eye(3)
    assert_allclose(g.triangle_area(a, b, c), np.pi / 2, rtol=1e-15)
    assert_allclose(g.triangle_area(a, c, b), -np.pi / 2, rtol=1e-15)


@pytest.mark.parametrize("h", SIZES)
def test_area_of_rectangles_keeps_full_relative_accuracy(h):
    (p0, p1, p2, p3), area = rectangle(h, 0.3 * h)
    parts = g.triangle_area(p0, p1, p2), g.triangle_area(p0, p2, p3)
    assert_allclose(parts, 0.5 * area, rtol=2e-15)


def test_area_is_the_angle_excess():
    a, b, c = random_units(200, 3, 4), random_units(200, 3, 5), random_units(200, 3, 6)

    def angle(at, to, fro):
        u, v = g.tangent_projection(at, to), g.tangent_projection(at, fro)
        return np.arctan2(np.linalg.norm(np.cross(u, v), axis=1), g.dot(u, v))

    excess = angle(a, b, c) + angle(b, c, a) + angle(c, a, b) - np.pi
    assert_allclose(np.abs(g.triangle_area(a, b, c)), excess, atol=2e-13)


def test_moment_of_the_octant():
    corners = np.eye(3)
    offsets = np.array([0, 3], dtype=np.int32)
    moment = g.polygon_moment(corners, np.roll(corners, -1, axis=0), offsets)
    assert_allclose(moment, np.full((1, 3), np.pi / 4), rtol=1e-15)


@pytest.mark.parametrize("h", [1e-1, 1e-2, 1e-3, 1e-4])
def test_centroid_of_a_lopsided_polygon_against_quadrature(h):
    """The sum of theta_k n_k cancels to O(h^2): off by rounding / h, which quadrature is not."""
    angles = np.array([0.0, 0.9, 2.0, 3.5, 5.0])
    radii = h * np.array([1.0, 0.6, 1.1, 0.4, 0.8])
    a = g.unit(np.column_stack([radii * np.cos(angles), radii * np.sin(angles), np.ones(5)]))
    b, c = np.roll(a, -1, axis=0), np.array([0.0, 0.0, 1.0])
    centroid = g.unit(g.polygon_moment(a, b, np.array([0, 5], dtype=np.int32)))[0]
    points, weights = q.triangle_quadrature(np.broadcast_to(c, a.shape), a, b, 10)
    expected = g.unit(np.einsum("nq,nqd->d", weights, points))
    assert_allclose(expected, c, atol=0.2 * h)
    assert g.norm(expected - c) > 0.05 * h
    assert_allclose(centroid, expected, rtol=0, atol=1e-16 + 4e-16 / h)


def test_circumcenter_is_equally_far_from_the_corners():
    a, b, c = random_units(50, 3, 1), random_units(50, 3, 2), random_units(50, 3, 3)
    center = g.circumcenter(a, b, c)
    assert_allclose(g.dot(center, a), g.dot(center, b), atol=1e-14)
    assert_allclose(g.dot(center, a), g.dot(center, c), atol=1e-14)


def test_segment_sum_of_vectors():
    values = np.arange(12.0).reshape(6, 2)
    sums = g.segment_sum(values, np.array([0, 1, 4, 6], dtype=np.int32))
    assert_allclose(sums, [values[0], values[1:4].sum(axis=0), values[4:].sum(axis=0)])


# ---------------------------------------------------------------- quadrature


@pytest.mark.parametrize("degree", range(1, q.MAX_DEGREE + 1))
def test_triangle_rule_is_positive_inside_and_exact_up_to_its_degree(degree):
    points, weights = q.triangle_rule(degree)
    assert (points > 0).all()
    assert (weights > 0).all()
    assert_allclose(points.sum(axis=1), 1, atol=3e-16)
    for i in range(degree + 1):
        for j in range(degree + 1 - i):
            mean = weights @ (points[:, 0] ** i * points[:, 1] ** j)
            exact = 2 * factorial(i) * factorial(j) / factorial(i + j + 2)
            assert_allclose(mean, exact, rtol=1e-14, atol=2e-17)


@pytest.mark.parametrize("degree", [1, 2, 4, 5, 6, 8, 9, 10])
def test_triangle_rule_is_not_exact_beyond_its_degree(degree):
    points, weights = q.triangle_rule(degree)
    error = [
        weights @ (points[:, 0] ** i * points[:, 1] ** (degree + 1 - i))
        * factorial(degree + 3) / (2 * factorial(i) * factorial(degree + 1 - i)) - 1
        for i in range(degree + 2)
    ]  # fmt: skip
    assert np.abs(error).max() > 1e-8


@pytest.mark.parametrize("degree", [0, 11, -1, 2.5, None])
def test_unknown_degrees_are_refused(degree):
    kind = ValueError if isinstance(degree, int) else TypeError
    with pytest.raises(kind, match=r"degree must be an integer from 1 to 10, got"):
        q.triangle_rule(degree)


def subdivide(a, b, c):
    """The four triangles between the corners and the sides' midpoints, (n, 3) -> (4n, 3) each."""
    ab, bc, ca = g.arc_midpoint(a, b), g.arc_midpoint(b, c), g.arc_midpoint(c, a)
    parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return tuple(np.concatenate(corner) for corner in zip(*parts, strict=True))


@pytest.mark.parametrize(
    ("degree", "finest"), [(1, 2e-2), (2, 3e-5), (4, 1e-7), (5, 3e-8), (6, 3e-10), (8, 2e-13)]
)
def test_mean_over_a_shrinking_triangle_has_error_h_to_degree_plus_one(degree, finest):
    def mean(h, degree, refinements=0):
        corners = g.unit(np.array([[0, 0, 1], [h, 0.2 * h, 1], [0.1 * h, 0.9 * h, 1.0]]))
        triangles = tuple(corner[None] for corner in corners)
        for _ in range(refinements):
            triangles = subdivide(*triangles)
        x, weights = q.triangle_quadrature(*triangles, degree)
        values = np.exp(np.einsum("nqd,kd->knq", x, wave_vectors))
        return (weights * values).sum(axis=(1, 2)) / weights.sum()

    wave_vectors = 2.0 * random_units(40, 3, 9)
    errors = [np.linalg.norm(mean(h, degree) - mean(h, 10, refinements=3)) for h in (0.2, 0.1)]
    assert errors[1] < finest
    assert abs(np.log2(errors[0] / errors[1]) - (degree + 1)) < 0.35


def test_arc_quadrature_is_gauss_on_the_great_circle():
    a, b = random_units(20, 3, 1), random_units(20, 3, 2)
    points, weights = q.arc_quadrature(a, b, 4)
    assert_allclose(weights.sum(axis=1), g.arc_length(a, b), rtol=1e-14)
    assert_allclose(g.dot(points, g.arc_pole(a, b)[:, None]), 0, atol=1e-15)
    assert_allclose(g.norm(points), 1, atol=1e-15)
    along = g.arc_length(points, a[:, None])
    nodes = 0.5 * (1 + np.polynomial.legendre.leggauss(4)[0])
    assert_allclose(along, g.arc_length(a, b)[:, None] * nodes, rtol=1e-13)


def test_gauss_points_need_a_positive_number():
    with pytest.raises(ValueError, match="n must be an integer from 1 to 100, got 0"):
        q.gauss_legendre(0)
