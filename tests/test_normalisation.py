"""Normalisation schemes: the equations, what they keep, exact changes of time, contraction laws."""

import numpy as np
import pytest

from pde import (
    Measure,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    Solution,
    ZeroTemperatureAttention,
)
from pde.callbacks import AtTimes
from pde.restart import Checkpoint
from pde.simulation import run_to
from pde.tokens.normalisation import SCHEMES, NormalisedTokens
from validation import exact
from validation.exact.equiangular_tokens import tokens
from validation.normalisation import reduction

OPTIONS = {"ngpt": {"alpha": 0.7}, "mix_ln": {"tau": 1.0}}


def system(scheme, d=3, beta=2.0, V=None, B=None, **options):
    field = SelfAttention(np.eye(d) if V is None else V, np.eye(d) if B is None else B, beta)
    return NormalisedTokens(field, scheme, **(OPTIONS.get(scheme, {}) | options))


def cloud(n, d, seed=0, spread=0.5):
    x = np.eye(d)[0] + spread * np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("t", [0.5, 3.0])
def test_the_equations_of_direction_and_radius(scheme, t):
    rng = np.random.default_rng(1)
    V, B = rng.standard_normal((2, 4, 4))
    theta = cloud(6, 4)
    r = rng.uniform(0.5, 2.0, 6) if scheme in ("pre_ln", "mix_ln", "peri_ln") else np.ones(6)
    weights = np.exp(2.0 * theta @ B @ theta.T)
    A = (weights / weights.sum(axis=1, keepdims=True)) @ theta @ V.T
    length, radial = np.linalg.norm(A, axis=1), np.sum(theta * A, axis=1)
    post = scheme == "mix_ln" and t < 1.0
    s = {
        "post_ln": np.ones(6),
        "sqrt": np.full(6, np.sqrt(t + 1.0)),
        "ngpt": length / 0.7,
        "pre_ln": r,
        "peri_ln": r * length,
        "mix_ln": np.ones(6) if post else r,
    }[scheme]
    growth = {"pre_ln": radial, "peri_ln": radial / length, "mix_ln": 0.0 if post else radial}
    v = system(scheme, V=V, B=B).rhs(t, r[:, None] * theta)
    drdt = np.sum(theta * v, axis=1)
    dtheta = (v - drdt[:, None] * theta) / r[:, None]
    np.testing.assert_allclose(drdt, growth.get(scheme, 0.0) * np.ones(6), atol=1e-13)
    np.testing.assert_allclose(dtheta, (A - radial[:, None] * theta) / s[:, None], atol=1e-13)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rotating_everything_rotates_the_result(scheme):
    rng = np.random.default_rng(2)
    V, B = rng.standard_normal((2, 3, 3))
    R = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    x = cloud(5, 3)
    plain = run_to(system(scheme, V=V, B=B), x, 2.0)
    turned = run_to(system(scheme, V=R @ V @ R.T, B=R @ B @ R.T), x @ R.T, 2.0)
    np.testing.assert_allclose(turned, plain @ R.T, atol=1e-9)


@pytest.mark.parametrize("scheme", ["pre_ln", "peri_ln"])
def test_without_temperature_differences_are_kept(scheme):
    """beta = 0: every token adds the same, so x_i - x_j stays, whatever V."""
    x = cloud(6, 5) * np.linspace(0.5, 3.0, 6)[:, None]
    V = np.diag([1.0, 0.5, -0.3, 0.2, 2.0])
    later = run_to(system(scheme, 5, beta=0.0, V=V), x, 20.0)
    np.testing.assert_allclose(later - later[0], x - x[0], atol=1e-12)
    assert np.linalg.norm(later[0] - x[0]) > 5.0


def test_sqrt_scaling_is_another_time():
    x, t = cloud(7, 3), 5.0
    post = run_to(system("post_ln"), x, 2.0 * (np.sqrt(t + 1.0) - 1.0), tolerance=1e-11)
    np.testing.assert_allclose(run_to(system("sqrt"), x, t, tolerance=1e-11), post, atol=1e-9)


def test_alpha_of_time_is_another_time():
    x = cloud(7, 3)
    varying = run_to(system("ngpt", alpha=lambda t: 1.0 / (1.0 + t)), x, 3.0, tolerance=1e-11)
    steady = run_to(system("ngpt", alpha=0.5), x, 2.0 * np.log(4.0), tolerance=1e-11)
    np.testing.assert_allclose(varying, steady, atol=1e-9)


def test_mix_ln_is_post_ln_and_then_pre_ln():
    x = cloud(7, 3)
    post = run_to(system("post_ln"), x, 2.0)
    simulation = Simulation(system("mix_ln", tau=2.0), x)
    states = simulation.run(until=4.0, save_at=[2.0, 4.0]).states
    np.testing.assert_allclose(states[0], post, atol=1e-7)
    then = run_to(system("pre_ln"), states[0], 2.0)
    np.testing.assert_allclose(states[1], then, atol=1e-7)
    # A step across tau costs accuracy of the order of its tolerance, no more.
    np.testing.assert_allclose(run_to(system("mix_ln", tau=2.0), x, 4.0), states[1], atol=1e-6)
    lengths = system("mix_ln").radii(run_to(system("mix_ln", tau=9.0), 1.5 * x, 4.0))
    np.testing.assert_allclose(lengths, 1.5, atol=1e-7)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("n", "beta", "product"), [(2, 3.0, -0.5), (9, 0.5, 0.0)])
def test_equiangular_tokens_follow_the_reduction(scheme, n, beta, product):
    options = OPTIONS.get(scheme, {})
    times = np.array([0.0, 0.4, 1.0, 3.0, 8.0])
    gap, r = reduction(scheme, n, beta, product, times, **options)
    simulation = Simulation(system(scheme, n, beta), tokens(n, product), tolerance=1e-10)
    states = simulation.run(until=8.0, save_at=times).states
    for state, gap_then, r_then in zip(states, gap, r, strict=True):
        theta = simulation.system.directions(state)
        pairs = 0.5 * np.square(theta[:, None] - theta).sum(axis=2)[~np.eye(n, dtype=bool)]
        np.testing.assert_allclose(pairs, gap_then, rtol=1e-6)
        np.testing.assert_allclose(simulation.system.radii(state), r_then, rtol=1e-8)


def test_the_reduction_against_what_is_known():
    times = np.linspace(0.0, 4.0, 5)
    gap, r = reduction("post_ln", 8, 2.0, -0.1, times)
    np.testing.assert_allclose(1.0 - gap, exact.equiangular(8, 2.0, -0.1, times), atol=1e-10)
    np.testing.assert_array_equal(r, 1.0)
    # beta = 0: |x_i - x_j|^2 = 2 r^2 (1-g) is kept; two tokens, Pre-LN: r r' = r (1+g)/2.
    gap, r = reduction("pre_ln", 2, 0.0, 0.0, times)
    np.testing.assert_allclose(gap * r**2, 1.0, rtol=1e-10)
    # with r^2 (1-g) = 1: r' = 1 - 1/(2 r^2), so that t = r - 1 + ... in closed form
    q = np.sqrt(0.5)
    t = (r - 1.0) + 0.5 * q * np.log((r - q) / (r + q) * (1.0 + q) / (1.0 - q))
    np.testing.assert_allclose(t, times, atol=1e-9)


@pytest.mark.parametrize(
    ("scheme", "clock", "rate"),
    [
        ("post_ln", lambda t, r: t, 2.0),
        ("ngpt", lambda t, r: t, 1.4),
        ("sqrt", lambda t, r: np.sqrt(t + 1.0), 4.0),
        ("pre_ln", lambda t, r: np.log(t), 2.0),
        ("peri_ln", lambda t, r: np.log(t), 2.0),
        ("mix_ln", lambda t, r: np.log(t), 2.0),
    ],
)
def test_contraction_laws_far_out(scheme, clock, rate):
    """Where t^{-2} has left its start behind: the reduction at times that no particles reach."""
    times = np.array([20.0, 30.0]) if scheme in ("post_ln", "ngpt") else np.array([1e4, 2e4])
    if scheme == "sqrt":
        times = np.array([100.0, 200.0])
    gap, r = reduction(scheme, 5, 1.0, 0.1, times, **OPTIONS.get(scheme, {}))
    measured = -np.diff(np.log(gap))[0] / np.diff(clock(times, r))[0]
    assert measured == pytest.approx(rate, rel=1e-3)


def test_velocities_are_projected_outputs():
    V, B = np.random.default_rng(4).standard_normal((2, 3, 3))
    x = cloud(5, 3)
    mu = Measure(x[:4])
    fields = [SelfAttention(V, B, 1.5), SelfAttention(V, B, 1.5, normalized=False)]
    fields.append(ZeroTemperatureAttention(V, B))
    fields.append(fields[0] + 2.0 * fields[1] - fields[2])
    for field in fields:
        output = field.output(x, mu)
        tangent = output - np.sum(x * output, axis=1, keepdims=True) * x
        np.testing.assert_allclose(field.velocity(x, mu), tangent, atol=1e-13)
        assert np.abs(output - tangent).max() > 0.1
    weights = np.exp(1.5 * x @ B @ x[:4].T) / 4.0
    np.testing.assert_allclose(fields[1].output(x, mu), weights @ x[:4] @ V.T, atol=1e-12)
    with pytest.raises(ValueError, match="PrescribedVelocity defines no output"):
        PrescribedVelocity(lambda x, t: 0.0 * x).output(x)


def test_a_stopped_run_goes_on_to_the_bit(tmp_path):
    whole = Simulation(system("mix_ln"), cloud(5, 3)).run(until=2.0, save_at=[0.5, 1.0, 2.0])
    part = Simulation(system("mix_ln"), cloud(5, 3))
    checkpoint = Checkpoint(AtTimes([0.5]), tmp_path / "restart.npz")
    part.run(until=1.0, save_at=[0.5], callbacks=[checkpoint])
    again = Simulation(system("mix_ln"), cloud(5, 3))
    solution = again.run(until=2.0, save_at=[1.0, 2.0], resume=tmp_path / "restart.npz")
    np.testing.assert_array_equal(solution.states[-1], whole.states[-1])


def test_results_are_stored(tmp_path):
    tokens_of = system("pre_ln", 4)
    solution = Simulation(tokens_of, cloud(5, 4)).run(until=2.0, save_at=[0.0, 1.0, 2.0])
    assert isinstance(solution.measures[-1], Measure)
    assert solution.diagnostics["radius"][-1] > solution.diagnostics["radius"][0] == 1.0
    solution.save(tmp_path / "tokens.nc")
    again = Solution.open(tmp_path / "tokens.nc")
    np.testing.assert_array_equal(again.states, solution.states)
    np.testing.assert_array_equal(
        tokens_of.measure(again.states[-1]).points, solution.measures[-1].points
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheme": "layer"}, "scheme must be one of 'post_ln'"),
        ({"scheme": "ngpt", "alpha": 0.0}, "alpha must be > 0, got 0.0"),
        ({"scheme": "ngpt", "alpha": -1}, "alpha must be > 0"),
        ({"scheme": "mix_ln", "tau": -0.1}, "tau must be >= 0"),
        ({"scheme": "mix_ln"}, "tau must be given"),
        ({"scheme": "pre_ln", "alpha": 1.0}, "alpha belongs to scheme 'ngpt'"),
        ({"scheme": "post_ln", "tau": 1.0}, "tau to 'mix_ln'"),
    ],
)
def test_bad_parameters_give_one_sentence(options, said):
    with pytest.raises(ValueError, match=said):
        NormalisedTokens(SelfAttention(np.eye(3), np.eye(3), 1.0), **options)


def test_bad_states_give_one_sentence():
    post, pre = system("post_ln"), system("pre_ln")
    with pytest.raises(ValueError, match="state must be unit vectors, row 1"):
        post.initial_state([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    np.testing.assert_array_equal(pre.initial_state([[0.0, 2.0, 0.0]]), [[0.0, 2.0, 0.0]])
    with pytest.raises(ValueError, match="length > 0.*row 1 has 0"):
        pre.initial_state([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="d = 3"):
        pre.initial_state(np.eye(4))
    with pytest.raises(ValueError, match="n >= 1"):
        pre.initial_state(np.empty((0, 3)))
    with pytest.raises(TypeError, match="got a function"):
        pre.initial_state(lambda x: x[:, 0])
    with pytest.raises(TypeError, match="field must be a Field"):
        NormalisedTokens("attention")
    with pytest.raises(ValueError, match="n must be at least 2"):
        reduction("post_ln", 1, 1.0, 0.0, [0.0, 1.0])
    opposite = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="0 at token 0 and t = 0"):
        system("peri_ln", beta=0.0).rhs(0.0, opposite)
    with pytest.raises(ValueError, match=r"alpha\(2\) must be > 0, got -1"):
        system("ngpt", alpha=lambda t: 1.0 - t).rhs(2.0, np.eye(3))
