"""What the studies share: cells and particles from one law, fits, shares, crossings."""

import numpy as np
import pytest

from meshes import circle
from pde import Measure, SelfAttention, initial
from validation import fits, side_by_side
from validation.problems.axes import AXES, symmetric


def test_both_start_from_one_measure_and_stay_together():
    field = SelfAttention(symmetric([2.0, 1.0]), np.eye(2), beta=2.0)
    law = initial.von_mises_fisher([0.6, 0.8], 1.0)
    both = side_by_side.run(field, law, circle(96), [0.0, 0.25, 0.5])
    np.testing.assert_array_equal(both.grid[0].points, both.particles[0].points)
    np.testing.assert_allclose(both.grid[0].weights, both.particles[0].weights, rtol=1e-15)
    means = both.of_both(lambda mu: float(np.linalg.norm(mu.mean())))
    assert np.abs(means["grid"] - means["particles"]).max() < both.width**2
    assert means["grid"][-1] > means["grid"][0] + 0.05
    assert all(mu.total == pytest.approx(1.0, abs=1e-12) for mu in (*both.grid, *both.particles))


def test_matrices_have_their_eigenvalues_on_the_axes():
    A = symmetric([3.0, -1.0, 0.5])
    R = AXES[3]
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_allclose(A @ R, R * [3.0, -1.0, 0.5], atol=1e-14)


def test_rates_minima_and_crossings_are_exact_where_the_model_is():
    t = np.linspace(0.0, 4.0, 41)
    assert fits.rate(t, 3.0 * np.exp(-0.7 * t), t > 1.0) == pytest.approx(0.7, abs=1e-12)
    # log of the values is a parabola
    time, value = fits.minimum(t, 0.2 * np.exp(1.5 * (t - 1.234) ** 2))
    assert time == pytest.approx(1.234, abs=1e-12)
    assert value == pytest.approx(0.2, rel=1e-12)
    assert fits.minimum(t, np.exp(-t)) == (4.0, pytest.approx(np.exp(-4.0)))
    assert fits.crossing(t, 0.3 * t, 0.5) == pytest.approx(0.5 / 0.3, rel=1e-12)
    assert np.isnan(fits.crossing(t, 0.3 * t, 2.0))
    assert np.isnan(fits.slope([1.0], [1.0]))


@pytest.mark.parametrize("d", [2, 3])
def test_the_mass_of_half_a_sphere(d):
    e, u = AXES[d][:, 1], np.eye(d)[0]
    # The mean of <x, e> over the half sphere: 2 / pi on the circle, 1 / 2 on the sphere.
    mean = {2: 2.0 / np.pi, 3: 0.5}[d]
    found = side_by_side.half_mass(lambda x: 1.0 + 0.6 * x @ u, e)
    assert found == pytest.approx(0.5 + 0.3 * mean * (u @ e), abs=1e-12)
    assert side_by_side.half_mass(lambda x: np.exp(x @ u), -e) == pytest.approx(
        1.0 - side_by_side.half_mass(lambda x: np.exp(x @ u), e), abs=1e-12
    )


def test_the_coupling_needs_one_cloud():
    mu = Measure(np.eye(3), [0.5, 0.25, 0.25])
    nu = mu.push(lambda x: -x)
    assert side_by_side.coupling_cost(mu, nu) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="the same weights"):
        side_by_side.coupling_cost(mu, Measure(np.eye(3)))
