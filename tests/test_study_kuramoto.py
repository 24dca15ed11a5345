"""The study of the circle: Kuramoto in closed form, growth rates, counts, verdicts, files."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from pde import Measure
from validation import convergence, exact, kuramoto


def test_order_parameter_in_closed_form():
    solved = solve_ivp(
        lambda _, r: 0.5 * r * (1.0 - r * r), (0.0, 9.0), [0.3], rtol=1e-12, atol=1e-14
    )
    assert kuramoto.order_parameter(9.0, 0.3) == pytest.approx(solved.y[0, -1], abs=1e-11)
    # The conformal family says the same.
    family = exact.InfiniteTemperature(np.eye(2), [0.0, 0.3])
    r = kuramoto.order_parameter([0.0, 1.0, 4.0], 0.3)
    lengths = [np.linalg.norm(family.mean(t)) for t in (0.0, 1.0, 4.0)]
    np.testing.assert_allclose(r, lengths, rtol=1e-12)
    assert kuramoto.order_parameter(50.0, 0.0) == 0.0
    for r0 in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r"r0 must lie in \[0, 1\)"):
            kuramoto.order_parameter(1.0, r0)


def test_moebius_points_are_a_quadrature_of_the_poisson_kernel():
    w = np.array([0.4, 0.3])
    x = kuramoto.moebius(60, w)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, atol=1e-14)
    mu = Measure(x)
    # Fourier coefficients of the kernel are powers of its parameter.
    for degree in range(4):
        expected = (w[0] - 1j * w[1]) ** degree
        assert abs(kuramoto.mode(mu, degree) - expected) < 2.0 * 0.5 ** (60 - degree) + 1e-14


def test_fastest_harmonics():
    assert [kuramoto.fastest(beta) for beta in (0.5, 2.0, 5.0, 7.0, 60.0)] == [1, 2, 3, 4, 11]


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("degree", [1, 4])
def test_growth_rates(normalized, degree):
    theory = float(exact.growth_rate(3.0, degree, d=2, normalized=normalized))
    assert kuramoto.grid_rate(3.0, degree, normalized, 4, cells=128) == pytest.approx(
        theory, rel=1e-5
    )
    assert kuramoto.particle_rate(3.0, degree, normalized, n=48) == pytest.approx(theory, rel=1e-6)
    # Order 2 shows an error of (l h)^2, and no more.
    coarse = [kuramoto.grid_rate(3.0, degree, normalized, 2, cells) for cells in (64, 128)]
    errors = np.abs(np.array(coarse) / theory - 1.0)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)


def test_clusters_emerge_at_the_linear_rate_first():
    run = kuramoto.emerge(5.0, 120, 1e-3, seed=0)
    assert run.final == 3 == kuramoto.fastest(5.0)
    assert run.linear_error(3) < 0.02
    np.testing.assert_allclose(run.density.sum(axis=1) * 2.0 * np.pi / 120, 1.0, rtol=1e-12)
    assert run.clusters[0] == 0 and (run.density >= 0.0).all()
    assert (np.diff(run.angles) > 0).all()


def test_counting_draws_is_deterministic(monkeypatch):
    monkeypatch.setattr(kuramoto, "DRAW_CELLS", 60)
    assert kuramoto.draws(5.0, 1e-2, 2) == kuramoto.draws(5.0, 1e-2, 2)


def test_verdicts_can_be_negative():
    cells, h = (64, 128), np.array([0.1, 0.05])
    poor = {f"order {p}": convergence.Study(cells, h, np.array([0.2, 0.1])) for p in (2, 4)}
    result = kuramoto.Kuramoto(poor, poor, np.zeros(1), {}, 1.0)
    rate = kuramoto.Rate("SA", 7.0, 4, 0.69, 0.6, 0.68, 0.689)
    assert rate.error("order4") == pytest.approx(0.01 / 0.69)
    t = np.linspace(0.0, 4.0, 9)
    modes = np.tile(1e-6 * np.exp(0.5 * t)[:, None], (1, 6))
    run = kuramoto.Emergence(7.0, t, np.zeros(1), np.zeros((9, 1)), modes, np.full(9, 3))
    assert run.linear_error(4) == pytest.approx(1.0 - 0.5 / 0.691484, abs=1e-5)
    assert not any(bar.met for bar in kuramoto.promised(result, [rate], [run]))
    counts = {(7.0, 1e-3): [4, 4], (7.0, 1e-6): [3, 4]}
    assert [f.agrees for f in kuramoto.findings([run], 100, counts)] == [False, False]
