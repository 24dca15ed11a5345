"""Tokens with one product for all pairs: their making, times in closed form, the study."""

import numpy as np
import pytest
from scipy.special import exp1, expi

from validation import equiangular_tokens, exact
from validation.exact.equiangular_tokens import time_to, tokens


@pytest.mark.parametrize(
    ("n", "product", "d"), [(2, -0.9, 2), (3, -0.499, 7), (32, 0.0, 32), (50, 0.999, 60)]
)
def test_tokens_share_the_product_and_are_turned(n, product, d):
    x = tokens(n, product, d)
    expected = np.full((n, n), product) + (1.0 - product) * np.eye(n)
    np.testing.assert_allclose(x @ x.T, expected, atol=1e-14)
    other = tokens(n, product, d, seed=1)
    assert not np.allclose(x, other)
    assert x.shape == (n, d)


@pytest.mark.parametrize("beta", [0.3, 2.0, 9.0])
@pytest.mark.parametrize(("n", "start", "end"), [(2, -0.9, 0.5), (32, 0.0, 0.999), (5, 0.4, 0.41)])
def test_times_in_closed_form(beta, n, start, end):
    """With w = 1-g and z = n/N - w the integral over u consists of exponential integrals."""
    N = n - 1
    w0, w1 = 1.0 - start, 1.0 - end
    z0, z1 = n / N - w0, n / N - w1
    du = np.log(z1 / z0 * w0 / w1)
    plain = expi(beta * w0) - expi(beta * w1)
    rest = np.exp(beta * n / N) * (exp1(beta * z0) - exp1(beta * z1))
    closed = (N * du + plain + rest) / (2.0 * n)
    assert time_to(end, n, beta, start) == pytest.approx(closed, rel=1e-10)
    # USA: e^{-beta g} / 2 du
    plain = expi(beta * w0) - expi(beta * w1)
    closed = 0.5 * np.exp(-beta) * (plain + rest)
    assert time_to(end, n, beta, start, normalized=False) == pytest.approx(closed, rel=1e-10)


def test_times_at_infinite_temperature():
    for n, start, end in [(2, -0.9, 0.5), (32, 0.0, 0.999), (10**6, 0.0, 1.0 - 1e-9)]:
        u = [np.log((1.0 + (n - 1) * g) / (1.0 - g)) for g in (start, end)]
        for normalized in (True, False):
            assert time_to(end, n, 0.0, start, normalized) == pytest.approx(0.5 * (u[1] - u[0]))


@pytest.mark.parametrize("normalized", [True, False])
def test_times_are_those_of_the_equation(normalized):
    for n, beta, start in [(32, 6.0, 0.0), (3, 2.0, -0.45), (1000, 3.0, 0.5)]:
        time = time_to(0.99, n, beta, start, normalized)
        g = exact.equiangular(n, beta, start, [0.5 * time, time], normalized)
        assert g[-1] == pytest.approx(0.99, abs=1e-10)
        # Times add up over what lies in between.
        assert time_to(g[0], n, beta, start, normalized) == pytest.approx(0.5 * time, rel=1e-8)


def test_the_known_times():
    for beta, time in equiangular_tokens.KNOWN.items():
        digits = 2 if beta == 9.0 else 3
        assert round(time_to(0.999, 32, beta), digits) == time


def test_waiting_is_exponential_in_beta():
    # Two tokens: e^beta / (2 beta) from orthogonal, by Laplace's method.
    for beta in (40.0, 80.0):
        leading = np.exp(beta) / (2.0 * beta)
        assert time_to(0.9, 2, beta) == pytest.approx(leading, rel=2.0 / beta)
    # The narrow peak at the start, for many tokens too.
    assert time_to(0.9, 1000, 300.0) == pytest.approx(
        time_to(0.05, 1000, 300.0) + time_to(0.9, 1000, 300.0, 0.05), rel=1e-10
    )


@pytest.mark.parametrize("normalized", [True, False])
def test_particles_keep_the_symmetry_and_follow(normalized):
    course = equiangular_tokens.course((4, 6, 1.0, -0.3, normalized))
    assert course.error < 1e-7
    assert course.spread.max() < 1e-12
    assert course.particles[-1] == pytest.approx(0.999, abs=1e-7)


def test_the_final_rate():
    measured, expected = equiangular_tokens.final_rate(1.0, False, n=4)
    assert measured == pytest.approx(expected, rel=1e-5)
    assert measured == pytest.approx(2.0 * np.e, rel=1e-3)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="n must be at least 2 tokens, got 1"):
        time_to(0.9, 1, 1.0)
    with pytest.raises(ValueError, match=r"product must lie in \(-1/.* got -0.5, n = 3"):
        tokens(3, -0.5)
    with pytest.raises(ValueError, match="product must lie in"):
        tokens(3, 1.01)
    with pytest.raises(ValueError, match="d must be at least n .* got 3 < 4"):
        tokens(4, 0.0, d=3)
    with pytest.raises(ValueError, match="beta must be >= 0, got -1"):
        time_to(0.9, 4, -1.0)
    with pytest.raises(ValueError, match=r"product must lie in \[start, 1\)"):
        time_to(0.1, 4, 1.0, start=0.2)
    with pytest.raises(ValueError, match=r"product must lie in \[start, 1\)"):
        time_to(1.0, 4, 1.0)


def test_missed_bars_are_seen():
    clock = equiangular_tokens.Clock(2.0, True, 5.46, 1e-4, 0.0)
    course = equiangular_tokens.course((3, 3, 1.0, 0.0, True))
    wrong = equiangular_tokens.Course(
        course.case, course.times, course.reduction, course.particles + 1e-6, course.spread + 1.0
    )
    rates = [("SA", 0.0, 2.0, 2.0, 2.1)]
    kept = equiangular_tokens.promised([clock], [wrong], rates)
    assert not any(bar.met for bar in kept)
