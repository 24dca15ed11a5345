"""Causal tokens: each sees those before it alone; first and second in closed form; modes."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.special import comb

from pde import Measure, PrescribedVelocity, SelfAttention, Simulation, ZeroTemperatureAttention
from pde.field import UndefinedQuantity
from pde.fields.time_dependent import TimeDependent
from pde.simulation import run_to
from pde.tokens import causal
from pde.tokens.causal import CausalTokens, causal_output
from pde.tokens.normalisation import SCHEMES, NormalisedTokens


def cloud(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def matrices(d, seed=3):
    return np.random.default_rng(seed).standard_normal((2, d, d))


def one_by_one(field, x):
    """Each token alone against the measure of those up to it."""
    return np.concatenate([field.output(x[k : k + 1], Measure(x[: k + 1])) for k in range(len(x))])


@pytest.mark.parametrize("beta", [0.0, 2.0, 1e3, 1e6])
@pytest.mark.parametrize("entries", [1 << 21, 150, 1])
def test_output_is_that_of_the_measure_seen(beta, entries, monkeypatch):
    monkeypatch.setattr(causal, "BLOCK_ENTRIES", entries)
    V, B = matrices(4)
    x, field = cloud(23, 4), SelfAttention(V, B, beta)
    np.testing.assert_allclose(causal_output(field, x), one_by_one(field, x), atol=1e-12)
    # the last token sees all, as without a mask
    last = field.output(x[-1:], Measure(x))
    np.testing.assert_allclose(causal_output(field, x)[-1:], last, atol=1e-12)


def test_the_defining_sum():
    V, B = matrices(3)
    x = cloud(4, 3)
    weights = np.tril(np.exp(1.5 * x @ B @ x.T))
    means = weights @ x / weights.sum(axis=1, keepdims=True)
    field = SelfAttention(V, B, 1.5)
    np.testing.assert_allclose(causal_output(field, x), means @ V.T, atol=1e-13)
    # USA: the plain integral against (1/k) sum_{j<=k} delta_j
    plain = weights @ x / np.arange(1, 5)[:, None] @ V.T
    usa = SelfAttention(V, B, 1.5, normalized=False)
    np.testing.assert_allclose(causal_output(usa, x), plain, atol=1e-12)


def test_any_field_can_be_causal():
    V, B = matrices(3)
    x = cloud(6, 3)
    head, other = SelfAttention(V, B, 1.0), SelfAttention(B, V, 2.0, normalized=False)
    local = ZeroTemperatureAttention(V, B)
    total = causal_output(head + 0.5 * other - local, x)
    parts = causal_output(head, x) + 0.5 * causal_output(other, x) - local.output(x)
    np.testing.assert_allclose(total, parts, atol=1e-13)
    np.testing.assert_allclose(causal_output(other, x), one_by_one(other, x), atol=1e-13)
    turned_up = TimeDependent(lambda t: SelfAttention(V, B, 1.0 + t))
    expected = one_by_one(SelfAttention(V, B, 3.0), x)
    np.testing.assert_allclose(causal_output(turned_up, x, 2.0), expected, atol=1e-13)
    with pytest.raises(UndefinedQuantity, match="PrescribedVelocity defines no output"):
        CausalTokens(PrescribedVelocity(lambda x, t: 0.0 * x)).rhs(0.0, x)


@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_what_comes_later_changes_nothing(beta):
    V, B = matrices(3)
    x, tokens = cloud(9, 3), CausalTokens(SelfAttention(V, B, beta))
    changed = x.copy()
    changed[5:] = cloud(4, 3, seed=8)
    np.testing.assert_array_equal(tokens.rhs(0.0, x)[:5], tokens.rhs(0.0, changed)[:5])
    assert not np.allclose(tokens.rhs(0.0, x)[5:], tokens.rhs(0.0, changed)[5:])
    # the order of those before does not matter
    swapped = x[[2, 0, 3, 1, 4, 5, 6, 7, 8]]
    np.testing.assert_allclose(tokens.rhs(0.0, swapped)[4:], tokens.rhs(0.0, x)[4:], atol=1e-14)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rotating_everything_rotates_the_result(scheme):
    V, B = matrices(3)
    R = np.linalg.qr(matrices(3, seed=4)[0])[0]
    x, options = cloud(5, 3), {"tau": 0.5} if scheme == "mix_ln" else {}
    plain = run_to(CausalTokens(SelfAttention(V, B, 2.0), scheme, **options), x, 1.0)
    field = SelfAttention(R @ V @ R.T, R @ B @ R.T, 2.0)
    turned = run_to(CausalTokens(field, scheme, **options), x @ R.T, 1.0)
    np.testing.assert_allclose(turned, plain @ R.T, atol=1e-9)


def test_the_first_token_follows_its_matrix():
    V, B = matrices(4)
    x, t = cloud(5, 4), 1.7
    moved = expm(t * V) @ x[0]
    then = run_to(CausalTokens(SelfAttention(V, B, 2.0)), x, t)
    np.testing.assert_allclose(then[0], moved / np.linalg.norm(moved), atol=1e-7)
    stays = run_to(CausalTokens(SelfAttention(np.eye(4), B, 0.5)), x, 40.0)
    np.testing.assert_allclose(stays[0], x[0], atol=1e-15)
    # V = I: all come to it
    assert np.abs(stays - x[0]).max() < 1e-3
    # under Pre-LN too, and its radius grows at the rate 1
    pre = CausalTokens(SelfAttention(np.eye(4), B, 2.0), "pre_ln")
    np.testing.assert_allclose(run_to(pre, x, 3.0)[0], 4.0 * x[0], atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1.0, 6.0])
def test_the_second_token_in_closed_form(beta):
    x = np.array([[1.0, 0.0, 0.0], [-0.6, 0.8, 0.0]])
    t = 4.0
    c = run_to(CausalTokens(SelfAttention(np.eye(3), np.eye(3), beta)), x, t)[1, 0]
    time = quad(lambda c: (1.0 + np.exp(beta * (1.0 - c))) / (1.0 - c**2), -0.6, c)[0]
    assert time == pytest.approx(t, abs=1e-6)
    if beta == 0.0:
        assert c == pytest.approx(np.tanh(0.5 * t + np.arctanh(-0.6)), abs=1e-8)


def cesaro_modes(deviations, t):
    """sum_m C(k-1, m-1) Delta^{m-1} delta_1 e^{-(1 - 1/m) t}, the formula of the module."""
    n = len(deviations)
    m = np.arange(1, n + 1)
    differences = np.array([np.diff(deviations, k, axis=0)[0] for k in range(n)])
    binomials = comb(m[:, None] - 1, m - 1)
    return binomials @ (np.exp(-(1.0 - 1.0 / m) * t)[:, None] * differences)


def test_the_modes_solve_the_linear_equation():
    n, t = 7, 1.3
    cesaro = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    start = np.random.default_rng(5).standard_normal((n, 2))
    exact = expm(t * (cesaro - np.eye(n))) @ start
    np.testing.assert_allclose(cesaro_modes(start, t), exact, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_near_consensus_tokens_follow_the_modes(beta):
    """At second order in the deviations, for any B: the error falls with their square."""
    B = matrices(3)[1]
    deviations = 0.5 * np.random.default_rng(6).standard_normal((6, 3)) * [0.0, 1.0, 1.0]
    tokens = CausalTokens(SelfAttention(np.eye(3), B, beta))
    errors = []
    for eps in (2e-3, 1e-3):
        x = [1.0, 0.0, 0.0] + eps * deviations
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        then = run_to(tokens, x, 2.0, tolerance=1e-12)
        errors.append(np.abs(then[:, 1:] - eps * cesaro_modes(deviations, 2.0)[:, 1:]).max())
    assert errors[1] < 3e-6
    # without temperature the even order vanishes by reflection, and the error is of third order
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0 if beta == 0.0 else 2.0, abs=0.1)


def test_without_temperature_the_cost_is_linear():
    """A mask for all pairs of these tokens would take 40 GB."""
    x = cloud(200_000, 3)
    v = CausalTokens(SelfAttention(np.eye(3), np.eye(3), 0.0)).rhs(0.0, x)
    k = 123_456
    mean = x[: k + 1].mean(axis=0)
    np.testing.assert_allclose(v[k], mean - (mean @ x[k]) * x[k], atol=1e-14)


def test_simulation_saves_and_measures():
    tokens = CausalTokens(SelfAttention(np.eye(3), np.eye(3), 1.0))
    assert isinstance(tokens, NormalisedTokens)
    solution = Simulation(tokens, cloud(4, 3)).run(until=1.0, save_at=[0.0, 0.5, 1.0])
    assert solution.diagnostics["spread"][-1] < solution.diagnostics["spread"][0]
    assert solution.measures[-1].n == 4
