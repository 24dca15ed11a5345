"""Discrete layers: their formula, first order towards the flow, exact maps, large steps."""

import numpy as np
import pytest

from pde import PrescribedVelocity, SelfAttention
from pde.simulation import run_to
from pde.tokens.causal import CausalTokens
from pde.tokens.layers import through_layers
from pde.tokens.normalisation import SCHEMES, NormalisedTokens
from validation import convergence
from validation.discrete_layers import layer_map
from validation.exact.equiangular_tokens import gaps, tokens

OPTIONS = {"ngpt": {"alpha": 0.7}, "mix_ln": {"tau": 0.5}}


def cloud(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def attention(d, beta=1.0, seed=3):
    V, B = 0.5 * np.random.default_rng(seed).standard_normal((2, d, d)) / np.sqrt(d)
    return SelfAttention(np.eye(d) + V, np.eye(d) + B, beta)


def test_one_layer_is_the_formula():
    field, x, h = attention(5), cloud(7, 5), 0.3
    weights = np.exp(x @ field.B @ x.T)
    A = weights @ x / weights.sum(axis=1, keepdims=True) @ field.V.T
    moved = x + h * A
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    states = through_layers(field, x, 2, h)
    np.testing.assert_array_equal(states[0], x)
    np.testing.assert_allclose(states[1], moved, atol=1e-14)
    np.testing.assert_allclose(states[2], through_layers(field, moved, 1, h)[1], atol=1e-14)
    pre = through_layers(NormalisedTokens(field, "pre_ln"), 2.0 * x, 1, h)[1]
    np.testing.assert_allclose(pre, 2.0 * x + h * A, atol=1e-14)
    causal = np.tril(weights) @ x / np.tril(weights).sum(axis=1, keepdims=True) @ field.V.T
    causal = x + causal
    causal /= np.linalg.norm(causal, axis=1, keepdims=True)
    one = through_layers(CausalTokens(field), x, 1)[1]
    np.testing.assert_allclose(one, causal, atol=1e-14)


def test_layers_of_mix_ln_normalise_until_tau():
    x = cloud(4, 3)
    mixed = NormalisedTokens(attention(3), "mix_ln", tau=2.0)
    states = through_layers(mixed, x, 4)
    post = through_layers(attention(3), x, 2)
    np.testing.assert_allclose(states[:3], post, atol=1e-14)
    pre = through_layers(NormalisedTokens(attention(3), "pre_ln"), states[2], 2)
    np.testing.assert_allclose(states[2:], pre, atol=1e-14)
    late = through_layers(mixed, x, 1, t=2.0)
    np.testing.assert_allclose(
        late[1], through_layers(NormalisedTokens(attention(3), "pre_ln"), x, 1)[1], atol=1e-14
    )


@pytest.mark.parametrize("kind", [NormalisedTokens, CausalTokens])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_layers_tend_to_the_flow_at_first_order(scheme, kind):
    system = kind(attention(6, beta=2.0), scheme, **OPTIONS.get(scheme, {}))
    x = cloud(8, 6)
    flow = run_to(system, x, 1.0, tolerance=1e-10)
    study = convergence.study(
        lambda n: float(np.abs(through_layers(system, x, n, 1.0 / n)[-1] - flow).max()),
        [64, 128, 256],
    )
    assert study.order[-1] == pytest.approx(1.0, abs=0.05)
    assert study.error[-1] < 5e-3


@pytest.mark.parametrize("scheme", ["post_ln", "pre_ln"])
@pytest.mark.parametrize(("n", "beta", "h"), [(2, 0.0, 1.0), (8, 1.0, 1.0), (8, 3.0, 0.2)])
def test_equiangular_tokens_in_closed_form(scheme, n, beta, h):
    system = NormalisedTokens(SelfAttention(np.eye(n), np.eye(n), beta), scheme)
    gap, r = 0.9, 1.0
    for state in through_layers(system, tokens(n, 0.1), 6, h):
        np.testing.assert_allclose(gaps(system.directions(state)), gap, rtol=1e-12)
        np.testing.assert_allclose(system.radii(state), r, rtol=1e-13)
        gap, r = layer_map(gap, r, n, beta, h, scheme)


def test_pre_ln_without_temperature_keeps_its_law_at_any_step():
    """Differences are kept, so r^2 (1-g) is, in layers as in the flow."""
    system = NormalisedTokens(SelfAttention(np.eye(6), np.eye(6), 0.0), "pre_ln")
    states = through_layers(system, tokens(6, 0.0), 50, 2.5)
    kept = [gaps(system.directions(x)).mean() * system.radii(x).mean() ** 2 for x in states]
    np.testing.assert_allclose(kept, 1.0, rtol=1e-11)


@pytest.mark.parametrize("scaled", [-5.0, -3.0, -2.5, -1.5, -0.5, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_contraction_of_a_layer_near_consensus(scaled, step):
    lam = scaled / step
    V = np.diag([lam, 0.3, -0.2])
    B = np.random.default_rng(7).standard_normal((3, 3))
    x = np.array([1.0, 0.0, 0.0]) + 1e-6 * cloud(5, 3) * [0.0, 1.0, 1.0]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    before, after = through_layers(SelfAttention(V, B, 2.0), x, 1, step)
    np.testing.assert_allclose(gaps(after) * (1.0 + scaled) ** 2, gaps(before), rtol=1e-4)
    assert np.all(after[:, 0] * (1.0 + scaled) > 0.0)


def test_large_steps_draw_together_what_the_flow_drives_apart():
    """V = diag(-3, .5, .2): layers of size 1 end at +-e1, turning; small ones, the flow at e2."""
    x, field = cloud(40, 3), SelfAttention(np.diag([-3.0, 0.5, 0.2]), np.eye(3), 1.0)
    large = through_layers(field, x, 60)
    np.testing.assert_allclose(np.abs(large[-1][:, 0]), 1.0, atol=1e-12)
    assert gaps(large[-1]).max() < 1e-12
    np.testing.assert_allclose(large[-2], -large[-1], atol=1e-6)
    for end in (through_layers(field, x, 240, 0.25)[-1], run_to(NormalisedTokens(field), x, 60.0)):
        np.testing.assert_allclose(np.abs(end[:, 1]), 1.0, atol=1e-6)


def test_bad_arguments_give_one_sentence():
    field, x = attention(3), cloud(2, 3)
    with pytest.raises(ValueError, match="step must be > 0, got 0"):
        through_layers(field, x, 3, 0.0)
    with pytest.raises(ValueError, match="n_layers must be >= 0, got -1"):
        through_layers(field, x, -1)
    with pytest.raises(TypeError, match="n_layers must be an integer"):
        through_layers(field, x, 2.5)
    with pytest.raises(TypeError, match="tokens must be NormalisedTokens or a Field"):
        through_layers("attention", x, 1)
    with pytest.raises(ValueError, match="unit vectors"):
        through_layers(field, 2.0 * x, 1)
    with pytest.raises(ValueError, match="defines no output"):
        through_layers(PrescribedVelocity(lambda x, t: 0.0 * x), x, 1)
