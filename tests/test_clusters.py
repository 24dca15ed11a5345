"""Clusters: found where they were put, with their masses, and none where there are none."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde.analysis.clusters import clusters
from pde.initial import sample, uniform, von_mises_fisher
from pde.measure import Measure

PLACES = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0, -1.0, 0.0]])
SHARES = np.array([0.5, 0.3, 0.2])


def spots(x, kappa=400.0):
    """Three narrow bumps of the given shares."""
    return sum(
        share * von_mises_fisher(place, kappa)(x)
        for place, share in zip(PLACES, SHARES, strict=True)
    )


def test_bumps_on_the_sphere_are_found_with_their_masses():
    mesh = icosphere(32)
    found = clusters(Measure.from_mesh(mesh, mesh.average(spots)))
    assert len(found) == 3
    # The share of a bump within the angle r: 1 - e^{-kappa (1 - cos r)} = 0.99965 at r = 0.2.
    np.testing.assert_allclose([c.share for c in found], SHARES, rtol=1e-3)
    np.testing.assert_allclose([c.center for c in found], PLACES, atol=2e-3)


def test_the_same_for_particles():
    cloud = np.concatenate(
        [
            sample(von_mises_fisher(place, 400.0), round(600 * share), seed=3)
            for place, share in zip(PLACES, SHARES, strict=True)
        ]
    )
    found = clusters(Measure(cloud))
    np.testing.assert_allclose([c.share for c in found], SHARES, atol=0.01)
    np.testing.assert_allclose([c.center for c in found], PLACES, atol=0.02)


def test_atoms_on_the_circle():
    angle = np.array([0.0, 0.05, 2.0, 3.0])
    mu = Measure(np.column_stack([np.cos(angle), np.sin(angle)]), [1.0, 1.0, 4.0, 0.01])
    found = clusters(mu, radius=0.15)
    np.testing.assert_allclose([c.share for c in found], np.array([4.0, 2.0]) / 6.01)
    np.testing.assert_allclose(found[1].center, [np.cos(0.025), np.sin(0.025)], atol=1e-12)


@pytest.mark.parametrize("kappa", [0.0, 3.0])
def test_what_is_spread_has_none(kappa):
    mesh = icosphere(12)
    law = uniform() if kappa == 0.0 else von_mises_fisher([0.0, 0.0, 1.0], kappa)
    assert clusters(Measure.from_mesh(mesh, mesh.average(law))) == []
    ring = circle(50)
    assert clusters(Measure.from_mesh(ring, np.ones(50))) == []


def test_caps_are_disjoint_and_shares_add_up():
    rng = np.random.default_rng(1)
    points = rng.standard_normal((300, 3)) * np.array([3.0, 1.0, 0.2])
    mu = Measure(points / np.linalg.norm(points, axis=1, keepdims=True), rng.random(300))
    found = clusters(mu, radius=0.1, least=0.01)
    assert sum(c.share for c in found) <= 1.0
    for i, first in enumerate(found):
        assert np.linalg.norm(first.center) == pytest.approx(1.0)
        assert all(first.center @ other.center < np.cos(0.2) for other in found[:i])
    assert len(found) > 3


def test_what_trails_from_a_cluster_is_no_second_one():
    """A fading arc: one cluster at its dense end."""
    angle = np.linspace(0.0, 1.5, 400)
    arc = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(400)])
    found = clusters(Measure(arc, np.exp(-4.0 * angle)), least=0.05)
    assert len(found) == 1 and found[0].share > 0.6


def test_wrong_arguments():
    mu = Measure(np.eye(3))
    with pytest.raises(ValueError, match="radius must be below pi/2, got 2"):
        clusters(mu, radius=2.0)
    with pytest.raises(ValueError, match="got d = 5"):
        clusters(Measure(np.eye(5)))
