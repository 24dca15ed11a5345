"""The study of matrices that are not symmetric: projectors, flows, verdicts, files."""

import numpy as np
import pytest

from pde import Measure
from validation import non_symmetric, side_by_side


@pytest.mark.parametrize("case", non_symmetric.CASES[:3], ids=lambda case: case.name)
def test_the_spectral_projector_commutes_and_projects(case):
    P = non_symmetric.spectral_projector(case.V)
    np.testing.assert_allclose(P @ P, P, atol=1e-13)
    np.testing.assert_allclose(P @ case.V, case.V @ P, atol=1e-13)
    assert np.trace(P) == pytest.approx(2.0 if case.kind == "complex" else 1.0)


@pytest.mark.parametrize("case", non_symmetric.CASES[:2], ids=lambda case: case.name)
def test_the_moving_law_has_the_period(case):
    x = Measure(np.eye(3)[:, [1, 2, 0]]).points
    now = non_symmetric.replacement(case.V, 1.3)(x)
    np.testing.assert_allclose(non_symmetric.replacement(case.V, 1.3 + case.period)(x), now)
    # Half a period turns every point into its opposite.
    half = non_symmetric.replacement(case.V, 1.3 + 0.5 * case.period)(x)
    np.testing.assert_allclose(half, -now, atol=1e-12)
    late = non_symmetric.replacement(case.V, 30.0)(x)
    np.testing.assert_allclose(non_symmetric.flow(case.V, 30.0)(x), late, atol=1e-9)
    assert case.period == pytest.approx(np.pi)


def test_the_angle_of_the_mean_is_continuous():
    angles = np.linspace(0.0, 9.0, 40)
    points = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
    found = non_symmetric.turning([Measure(p[None]) for p in points], np.eye(3)[:, :2])
    np.testing.assert_allclose(found, angles, atol=1e-12)


def test_a_law_that_never_moves_shows_nothing():
    case = non_symmetric.CASES[2]
    start = Measure(np.eye(3))
    frozen = side_by_side.SideBySide(np.zeros(1), [start], [start], 0.1)
    result = non_symmetric.real_pair(case, frozen)
    assert not any(finding.agrees for finding in result.findings)
