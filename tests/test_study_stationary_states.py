"""The study of stationary states: minimisers, thresholds of clusters, verdicts, files."""

import numpy as np
import pytest

from meshes import icosphere
from validation import stationary_states as study


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_coefficient_of_the_minimiser(beta):
    """Within 0.1%: eps is 0.01, and its second order is even smaller in the coefficient."""
    found = study.minimiser(beta, 8)
    assert found.error < 1e-3
    assert (np.diff(found.coefficient) > 0.0).all()


def test_growth_rates_of_pairs():
    # D = I knows no axis.
    assert study.growth_of_pair(1.0, 1) == pytest.approx(study.growth_of_pair(1.0, 2), abs=1e-8)
    assert study.growth_of_pair(0.5, 2) < 0.0 < study.growth_of_pair(0.9, 2)
    assert study.growth_of_pair(1.4, 1) < 0.0 < study.growth_of_pair(1.1, 1)
    # The pair itself is at rest.
    angles = np.array([0.5, 0.5, 1.5, 1.5]) * np.pi
    assert np.abs(study.velocity_of_angles(angles, 0.7)).max() < 1e-15


def test_four_particles_at_rest():
    phi, speed = study.four_at_rest(1.0, 1.0)
    assert phi == pytest.approx(0.25 * np.pi, abs=1e-12) and speed < 1e-14
    phi, speed = study.four_at_rest(2.0, 1.7)
    x2, y2 = np.cos(phi) ** 2, np.sin(phi) ** 2
    assert np.tanh(2.0 * x2) / np.tanh(1.7 * y2) == pytest.approx(1.7 / 2.0, rel=1e-12)
    assert speed < 1e-14


def test_verdicts_can_be_negative():
    mesh = icosphere(4)
    off = study.Minimiser(1.0, np.array([10.0, 100.0]), np.array([2.0, 3.0]), mesh, mesh.areas)
    bars = study.promised([off], {1: 1.3, 2: 0.7}, [1e-3])
    assert not any(bar.met for bar in bars)
