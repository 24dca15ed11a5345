"""The study of long contexts: exact formula, its limits, random tokens, errors, verdicts, files."""

import numpy as np
import pytest
from scipy.special import gammaln, ive

from pde import initial
from validation import long_context
from validation.exact import equiangular_tokens
from validation.long_context import (
    annealed_outputs,
    critical_gamma,
    critical_product,
    equiangular_outputs,
    limit_product,
    temperature,
)
from validation.study import Bar


@pytest.mark.parametrize(("n", "g"), [(2, -0.9), (2, 0.3), (7, -0.16), (40, 0.0), (40, 0.6)])
@pytest.mark.parametrize("gamma", [0.2, 1.0, 3.0])
def test_formula_is_attention_over_vectors(n, g, gamma):
    x = equiangular_tokens.tokens(n, g, d=n + 3)
    weights = np.exp(gamma * np.log(n) * (x @ x.T))
    y = (weights / weights.sum(axis=1, keepdims=True)) @ x
    outputs = equiangular_outputs(n, gamma, g)
    gram = y @ y.T
    np.testing.assert_allclose(np.diag(gram), outputs.length2, rtol=1e-12)
    pairs = gram[np.triu_indices(n, 1)]
    np.testing.assert_allclose(pairs, outputs.inner, atol=1e-14)
    np.testing.assert_allclose(pairs / outputs.length2, outputs.product, atol=1e-12)
    # The study's own evaluation says the same.
    one = long_context.summary(long_context.layer_outputs(x, gamma * np.log(n)))
    for name in ("length2", "inner", "gap", "product"):
        assert getattr(one, name) == pytest.approx(getattr(outputs, name), abs=1e-12)


@pytest.mark.parametrize("g", [0.1, 0.5, 0.9])
def test_three_regimes(g):
    critical = 1.0 / (1.0 - g)
    assert critical_gamma(g) == critical
    cases = [(0.5, 1.0), (1.0, 4.0 * g / (1.0 + 3.0 * g)), (1.5, g)]
    for share, limit in cases:
        assert limit_product(share * critical, g) == pytest.approx(limit, rel=1e-15)
        far = equiangular_outputs(1e30, share * critical, g)
        assert far.product == pytest.approx(limit, abs=1e-12)
        # Outputs that keep their lengths have the product g in every regime.
        assert far.inner == pytest.approx(g, abs=1e-12)
    assert equiangular_outputs(1e30, critical, g).length2 == pytest.approx((1 + 3 * g) / 4)


def test_orthogonal_tokens_are_a_case_apart():
    assert critical_gamma(0.0) == critical_product(0.0) == 0.5
    for gamma, limit in ((0.3, 1.0), (0.5, 0.5), (0.8, 0.0)):
        assert limit_product(gamma, 0.0) == limit
        assert equiangular_outputs(1e40, gamma, 0.0).product == pytest.approx(limit, abs=1e-9)
    # In between: with g = n^-1/2 both n lambda^2 and the common part count.
    n, gamma = 1e40, 0.75
    product = equiangular_outputs(n, gamma, n**-0.5).product
    assert product == pytest.approx(0.5, abs=1e-8)


def test_small_gaps_and_huge_n_are_exact():
    # 1 - product far below rounding, from the exponents: 2 (1 - gamma (1-g)) = 1.8
    outputs = equiangular_outputs(1e100, 0.2, 0.5)
    r = 1e-10
    contrast = (1.0 - r) / (1.0 + 1e90)
    assert outputs.gap == pytest.approx(contrast**2 * 0.5 / 0.5, rel=1e-12)
    assert outputs.product == 1.0
    assert np.isfinite(equiangular_outputs(1e300, 3.0, -1e-301).gap)
    assert equiangular_outputs(2, 1e5, 0.2).product == pytest.approx(0.2, abs=1e-15)


def test_rates_and_the_critical_gamma():
    for g in (0.3, 0.7):
        gammas = np.array([0.5, 1.4]) / (1.0 - g)
        found = [long_context.exponent(gamma, g, (1e8, 1e10)) for gamma in gammas]
        np.testing.assert_allclose(found, [-1.0, -0.4], atol=2e-3)
        assert long_context.extrapolated_gamma(g, (1e8, 1e12)) == pytest.approx(
            1.0 / (1.0 - g), rel=1e-3
        )
        errors = [long_context.crossing_gamma(n, g) * (1.0 - g) - 1.0 for n in (1e3, 1e5)]
        # lambda = N/(2n-1) at the critical gamma: 1/2 up to 1/n, over the width 1/log n
        assert errors[0] / errors[1] == pytest.approx(100.0 * 5.0 / 3.0, rel=0.02)


def test_moments_are_those_of_bessel_functions():
    for d in (2, 3, 10, 500):
        for beta in (0.1, 3.0, 30.0):
            nu = 0.5 * d - 1.0
            log_m, drift = long_context.moments(beta, d)
            if ive(nu, beta) > 1e-250:
                expected = gammaln(0.5 * d) + nu * np.log(2.0 / beta) + np.log(ive(nu, beta)) + beta
                assert log_m == pytest.approx(expected, rel=1e-10, abs=1e-11)
                assert drift == pytest.approx(ive(nu + 1.0, beta) / ive(nu, beta), rel=1e-10)
            step = 1e-4 * beta
            around = [long_context.moments(beta + s, d)[0] for s in (-step, step)]
            assert drift == pytest.approx((around[1] - around[0]) / (2.0 * step), rel=1e-5)


def test_high_dimension_is_the_orthogonal_case():
    for n in (10.0, 1e4, 1e8):
        for gamma in (0.3, 0.5, 1.2):
            one = annealed_outputs(n, temperature(n, gamma), 1e14)
            model = equiangular_outputs(n, gamma, 0.0)
            assert one.length2 == pytest.approx(model.length2, rel=1e-6)
            assert one.inner == pytest.approx(model.inner, rel=1e-6)
            # with a common part: equiangular tokens of that product
            one = annealed_outputs(n, temperature(n, gamma), 1e14, common=0.4)
            assert one.gap == pytest.approx(equiangular_outputs(n, gamma, 0.4).gap, rel=1e-6)


def test_the_average_over_tokens():
    """The annealed formula against a mean over many draws of few tokens in high dimension."""
    n, d, gamma, draws = 40, 30, 0.6, 400
    beta = temperature(n, gamma)
    found = [
        long_context.summary(
            long_context.layer_outputs(initial.sample(initial.uniform(d), n, seed=s), beta)
        )
        for s in range(draws)
    ]
    theory = annealed_outputs(n, beta, d)
    for name, relative in (("length2", 0.01), ("inner", 0.03)):
        values = np.array([getattr(f, name) for f in found])
        error = values.std() / np.sqrt(draws)
        assert abs(values.mean() - getattr(theory, name)) < 4.0 * error + relative * theory.inner


def test_random_tokens():
    x = long_context.random_tokens(2000, 20, 0.3, seed=1)
    assert x.shape == (2000, 21)
    products = (x[:1000] * x[1000:]).sum(axis=1)
    assert products.mean() == pytest.approx(0.3, abs=4.0 * 0.7 / np.sqrt(20 * 1000))
    assert long_context.random_tokens(5, 4, 0.0, seed=1).shape == (5, 4)


def test_outputs_turn_with_the_tokens():
    x = long_context.random_tokens(50, 5, 0.0, seed=3)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    y = long_context.layer_outputs(x, 2.0)
    np.testing.assert_allclose(long_context.layer_outputs(x @ turn, 2.0), y @ turn, atol=1e-13)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="n must be at least 2 tokens, got 1"):
        equiangular_outputs(1, 1.0, 0.5)
    with pytest.raises(ValueError, match="gamma must be > 0, got 0"):
        equiangular_outputs(10, 0.0, 0.5)
    for g in (-1.0 / 9.0, 1.0, -2.0):
        with pytest.raises(ValueError, match=r"g must lie in \(-1/\(n-1\), 1\).*n = 10"):
            equiangular_outputs(10, 1.0, g)
    with pytest.raises(ValueError, match=r"g must lie in \[0, 1\) .* got -0.1"):
        limit_product(1.0, -0.1)
    with pytest.raises(ValueError, match="d must be at least 2, got 1"):
        long_context.random_tokens(10, 1, 0.0, 0)


def test_verdicts_can_be_negative():
    one = long_context.sample(60, 64, 0.5, 0.0, 2)
    shifted = long_context.Outputs(1.0, 0.9, 0.1)
    wrong = long_context.Sample(60, 64, 0.5, 0.0, 2, shifted, 0.0, one.theory)
    assert one.off < 4.0 < wrong.off
    kept = long_context.promised([wrong], (1e8, 1e12))
    assert [bar.met for bar in kept] == [True, True, True, True, False]
    assert isinstance(kept[0], Bar)
    far = long_context.sample(60, 4, 0.25, 0.0, 2)
    near = long_context.Sample(60, 64, 0.25, 0.0, 2, far.measured, 0.0, one.theory)
    assert not long_context.high_dimension([far, near]).agrees
