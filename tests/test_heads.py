"""Several heads: a sum inside the projection, checked against the sums on paper."""

import numpy as np
import pytest

from pde import Equation, Measure, ParticleSystem, SelfAttention, StreamFunction
from pde.field import Field, Sum, UndefinedQuantity
from pde.fields.heads import Heads
from pde.simulation import run_to

RANDOM = np.random.default_rng(8)


def cloud(n, d=3, seed=1):
    x = np.random.default_rng([seed, n, d]).normal(size=(n, d))
    return Measure(x / np.linalg.norm(x, axis=1, keepdims=True))


def random_heads(d, count=3, beta=1.3, normalized=True):
    V, B = np.random.default_rng(d).normal(size=(2, count, d, d))
    heads = [
        SelfAttention(V[h], B[h], beta / (h + 1), normalized, tolerance=None) for h in range(count)
    ]
    return Heads(heads), V, B


@pytest.mark.parametrize("d", [2, 3, 6])
def test_the_velocity_is_the_projected_sum_over_heads(d):
    heads, V, B = random_heads(d)
    mu, x = cloud(20, d), cloud(7, d, seed=2).points
    total = np.zeros_like(x)
    for h in range(3):
        kernel = np.exp(1.3 / (h + 1) * x @ B[h] @ mu.points.T)
        total += (kernel @ mu.points) / kernel.sum(axis=1, keepdims=True) @ V[h].T
    np.testing.assert_allclose(heads.output(x, mu), total, rtol=0, atol=1e-12)
    total -= np.sum(x * total, axis=1, keepdims=True) * x
    np.testing.assert_allclose(heads.velocity(x, mu), total, rtol=0, atol=1e-12)


def test_rotating_everything_rotates_the_result():
    heads, V, B = random_heads(4)
    R = np.linalg.qr(RANDOM.normal(size=(4, 4)))[0]
    turned = Heads([SelfAttention(R @ V[h] @ R.T, R @ B[h] @ R.T, 1.3 / (h + 1)) for h in range(3)])
    points = cloud(12, 4).points
    plain = run_to(ParticleSystem(Equation(heads)), points, 0.5)
    other = run_to(ParticleSystem(Equation(turned)), points @ R.T, 0.5)
    np.testing.assert_allclose(other, plain @ R.T, rtol=0, atol=1e-7)


@pytest.mark.parametrize("normalized", [True, False])
def test_heads_at_infinite_temperature_are_one_head(normalized):
    V = RANDOM.normal(size=(2, 3, 3))
    V = V + np.swapaxes(V, 1, 2)
    B = RANDOM.normal(size=(2, 3, 3))
    heads = Heads([SelfAttention(V[h], B[h], 0.0, normalized) for h in range(2)])
    one = SelfAttention(V[0] + V[1], B[0], 0.0, normalized)
    mu, x = cloud(15), cloud(9, seed=2).points
    for quantity in ("velocity", "output", "divergence", "potential"):
        found, expected = (getattr(field, quantity)(x, mu) for field in (heads, one))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert heads.driving_energy(mu) == pytest.approx(one.driving_energy(mu), rel=1e-12)


def test_equal_heads_are_one_head_scaled():
    V, B = RANDOM.normal(size=(2, 3, 3))
    head = SelfAttention(V, B, 2.0, tolerance=None)
    mu = cloud(15)
    found = Heads([head] * 4).velocity(mu.points, mu)
    np.testing.assert_allclose(found, 4.0 * head.velocity(mu.points, mu), rtol=0, atol=1e-13)


def test_heads_add_scale_and_keep_exact_fluxes():
    heads, *_ = random_heads(3, 2)
    spin = StreamFunction(lambda x, t: -x[:, 2])
    total = 0.5 * heads + spin
    assert total.is_nonlocal and total.dim == 3
    mu = cloud(10)
    expected = 0.5 * heads.velocity(mu.points, mu) + spin.velocity(mu.points)
    np.testing.assert_allclose(total.velocity(mu.points, mu), expected, rtol=0, atol=1e-14)
    assert isinstance(heads + spin, Sum)
    assert not Heads([spin]).is_nonlocal
    nested = Heads([heads, spin + spin, 2.0 * spin])
    assert len(nested.heads) == 3 and len(nested.terms) == 5
    assert repr(heads).startswith("Heads([SelfAttention(d=3, beta=1.3), SelfAttention")


def test_what_one_head_lacks_the_sum_lacks():
    heads, *_ = random_heads(3, 2)
    mu = cloud(10)
    with pytest.raises(UndefinedQuantity, match="potential needs V = c B"):
        heads.potential(mu.points, mu)
    with pytest.raises(UndefinedQuantity, match="gradient flow of no energy"):
        heads.driving_energy(mu)


def test_bad_heads():
    class Own(Field):
        pass

    two, three = (SelfAttention(np.eye(d), np.eye(d), 1.0) for d in (2, 3))
    with pytest.raises(ValueError, match="at least one field, got none"):
        Heads([])
    with pytest.raises(ValueError, match="d = 3 for head 1 and d = 2 for head 2"):
        Heads([Own(), three, two])
    with pytest.raises(TypeError, match="got 1.0 as head 1"):
        Heads([three, 1.0])
    with pytest.raises(TypeError, match="heads must be a sequence of fields, got SelfAttention"):
        Heads(three)
    with pytest.raises(TypeError, match="sequence of fields, got 3"):
        Heads(3)
    with pytest.raises(ValueError, match="terms must hold at least one field"):
        Sum([])
    with pytest.raises(TypeError, match="terms must be fields, got None"):
        Sum([three, None])
