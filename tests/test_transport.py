"""The transport suite: its flows, fields and diagnostics against their definitions, its command."""

import numpy as np
import pytest

from meshes import icosphere
from validation import transport_suite as suite
from validation.problems import transport as cases


def points(n=500, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def components(x, velocity):
    """(eastward, northward) velocities and (longitude, latitude)."""
    longitude, latitude = np.arctan2(x[:, 1], x[:, 0]), np.arcsin(x[:, 2])
    east = np.stack([-np.sin(longitude), np.cos(longitude), 0 * longitude], axis=1)
    north = np.cross(x, east)
    np.testing.assert_allclose(np.einsum("nd,nd->n", x, velocity), 0.0, atol=1e-7)
    u, v = (np.einsum("nd,nd->n", e, velocity) for e in (east, north))
    return u, v, longitude, latitude


@pytest.mark.parametrize("t", [0.0, 0.7, 2.5, 4.1])
def test_deforming_flows_are_the_published_ones(t):
    x, T = points(), cases.PERIOD
    c, mean = np.cos(np.pi * t / T), 2 * np.pi / T
    u, v, longitude, latitude = components(x, cases.divergent().velocity(x, None, t))
    moving = longitude - 2 * np.pi * t / T
    expected = -(np.sin(moving / 2) ** 2) * np.sin(2 * latitude) * np.cos(latitude) ** 2 * c
    np.testing.assert_allclose(u, expected + mean * np.cos(latitude), atol=1e-12)
    np.testing.assert_allclose(v, 0.5 * np.sin(moving) * np.cos(latitude) ** 3 * c, atol=1e-12)
    u, v, _, _ = components(x, cases.non_divergent().velocity(x, None, t))
    expected = 2 * np.sin(moving) ** 2 * np.sin(2 * latitude) * c + mean * np.cos(latitude)
    np.testing.assert_allclose(u, expected, atol=1e-6)  # stream functions are differentiated
    np.testing.assert_allclose(v, 2 * np.sin(2 * moving) * np.cos(latitude) * c, atol=1e-6)


@pytest.mark.parametrize("angle", suite.ANGLES)
def test_solid_body_is_the_published_one(angle):
    x, u0 = points(), 2 * np.pi / cases.PERIOD
    u, v, longitude, latitude = components(x, cases.solid_body(angle).velocity(x, None, 1.0))
    tilt = np.sin(latitude) * np.cos(longitude) * np.sin(angle)
    np.testing.assert_allclose(u, u0 * (np.cos(latitude) * np.cos(angle) + tilt), atol=1e-6)
    np.testing.assert_allclose(v, -u0 * np.sin(longitude) * np.sin(angle), atol=1e-6)


def test_initial_fields_at_known_points():
    def at(longitude, latitude):
        x = [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude)]
        return np.array([[*x, np.sin(latitude)]])

    first, second = at(5 * np.pi / 6, 0.0), at(7 * np.pi / 6, 0.0)
    np.testing.assert_allclose(cases.gaussian_hills(first), 0.95 * (1 + np.exp(-5)), rtol=1e-12)
    assert cases.cosine_bells(first) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(cases.cosine_bells(at(5 * np.pi / 6 + 0.25, 0.0)), 0.55, rtol=1e-12)
    np.testing.assert_allclose(cases.correlated_bells(second), 0.1, rtol=1e-12)
    # The first slot is open to the north (a cut from -5/24 up), the second to the south.
    for center, side in ((5 * np.pi / 6, 1.0), (7 * np.pi / 6, -1.0)):
        assert cases.slotted_cylinders(at(center, side * 0.3)) == 0.1
        assert cases.slotted_cylinders(at(center, -side * 0.3)) == 1.0
        assert cases.slotted_cylinders(at(center + 0.1, side * 0.3)) == 1.0
        assert cases.slotted_cylinders(at(center, side * 0.6)) == 0.1
    assert cases.williamson_bell(at(3 * np.pi / 2, 0.0)) == pytest.approx(1.0)
    np.testing.assert_allclose(cases.williamson_bell(at(3 * np.pi / 2, 1 / 6)), 0.5, atol=1e-12)


def test_filaments_and_mixing():
    areas = np.ones(4)
    start = np.array([0.1, 0.5, 0.5, 0.9])
    middle = np.array([0.1, 0.5, 0.3, 0.7])
    left = cases.preserved_filaments(areas, start, middle, np.array([0.1, 0.5, 0.8, 1.0]))
    np.testing.assert_array_equal(left[:3], [100.0, 200.0 / 3.0, 0.0])
    assert np.isnan(left[3])
    on_curve = np.array([0.1, 0.3, 0.6, 1.0])
    unmixed = cases.mixing(areas, on_curve, cases.correlated(on_curve))
    assert max(unmixed.values()) < 1e-6
    # The middle of the chord is inside the hull; above the curve unmixes; beyond the range.
    middle_xi = 0.5 * (cases.correlated(np.array(0.1)) + cases.correlated(np.array(1.0)))
    for chi, xi, kind in ((0.55, middle_xi, "real"), (0.55, 0.8, "unmixing"), (1.1, 0.2, None)):
        found = cases.mixing(np.ones(1), np.array([chi]), np.array([xi]))
        assert max(found, key=found.__getitem__) == (kind or "overshooting")
        assert sum(value > 0 for value in found.values()) == 1
    # The distance of (1.1, 0.1) to the curve's end (1, 0.1), over the range 0.9, is 1/9 at most.
    beyond = cases.mixing(np.ones(1), np.array([1.1]), np.array([0.1]))["overshooting"]
    assert 0.05 < beyond <= 1.0 / 9.0 + 1e-12


def test_minimal_resolution_interpolates():
    degrees = [4.0, 2.0, 1.0]
    l2 = [0.033 * (d / 1.5) ** 3 for d in degrees]
    np.testing.assert_allclose(suite.minimal_resolution(degrees, l2), 1.5)
    assert np.isnan(suite.minimal_resolution(degrees[:2], l2[:2]))


def test_errors_at_a_coarse_mesh():
    """At 1,442 cells, where upwind-biased order 2 has lost most of the hills."""
    fields = [cases.gaussian_hills, cases.cosine_bells]
    found = {}
    for order in (2, 4, 8):
        one = suite.run(cases.non_divergent(), fields, 12, order, "positivity", ratios=False)
        assert one.mass_change < 1e-13 and one.end.min() >= 0.0
        found[order] = [one.errors(column)["l2"] for column in range(2)]
    assert found[2][0] < 0.66 and found[4][0] < 0.36 and found[8][0] < 0.24
    assert found[8][1] < found[4][1] < found[2][1] < 0.6


def test_mixing_ratios_in_divergent_flow():
    one = suite.run(cases.divergent(), [np.ones_like, lambda x: 0 * x[:, 0] + 1.0][1:], 8, 4,
                    "positivity", ratios=True)  # fmt: skip
    np.testing.assert_allclose(one.end, 1.0, rtol=1e-13)  # a constant ratio stays constant
    assert one.mesh.n_cells == icosphere(8).n_cells


def test_bars_are_checked():
    mesh = icosphere(32)
    start = np.stack([mesh.average(f) for f in cases.FIELDS.values()], axis=1)
    bad = suite.Result(32, 4, "positivity", mesh, start, start, 0.8 * start, 0.0)
    verdicts = {bar.what: bar.met for bar in suite.promises([bad])}
    assert verdicts["order 4, positivity: GH l2 at 10242 cells"] is False
    assert verdicts["order 4, positivity: minimum"] is True
