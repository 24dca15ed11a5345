"""The nonlocal equation converges at the order of the scheme: small meshes of the study."""

import numpy as np
import pytest

from meshes import circle, icosphere
from validation import finite_temperature as study


def test_spectral_quadrature_integrates_polynomials():
    points, weights = study.spectral_quadrature(6)
    assert weights.sum() == pytest.approx(4 * np.pi, rel=1e-14)
    # int x^4 y^2 z^4 = 4 pi 3!! 1!! 3!! / 11!!, degree 10 < 12
    x, y, z = points.T
    assert weights @ (x**4 * y**2 * z**4) == pytest.approx(4 * np.pi * 9 / 10395, rel=1e-12)


def test_axisymmetric_attention_at_fourth_order():
    error = study.axisymmetric(2.0, True, 0.1)
    coarse, fine = error(icosphere(5), 4), error(icosphere(10), 4)
    assert 3.4 < np.log2(coarse / fine) < 4.6
    assert fine < 2e-6


def test_beta_zero_on_the_circle_at_sixth_order():
    error = study.infinite_temperature(study.GENERAL_V[:2, :2], [0.3, -0.1], 0.5)
    coarse, fine = error(circle(24), 6), error(circle(48), 6)
    assert 4.8 < np.log2(coarse / fine) < 6.8
    assert fine < 1e-6


def test_a_rate_about_the_uniform_law():
    error = study.growth(4.0, 3, 3, False)
    coarse, fine = error(icosphere(5), 4), error(icosphere(10), 4)
    assert 3.2 < np.log2(coarse / fine) < 4.8
    assert fine < 5e-6
