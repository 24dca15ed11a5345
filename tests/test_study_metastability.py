"""The study of clusters that wait: groups, the law of two clusters, staircases, verdicts."""

import numpy as np
import pytest

from pde import Equation, ParticleSystem, SelfAttention
from pde.simulation import run_to
from validation import metastability, three_phases
from validation.metastability import Case, Staircase, coarse, merged, pair_time, stages
from validation.problems.tokens import groups


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_groups_are_chains_of_neighbours():
    x = on_circle(np.array([0.0, 0.08, 0.16, 1.0, 3.14, -3.14]))
    assert groups(x, metastability.ANGLE).tolist() == [0, 0, 0, 1, 2, 2]
    assert groups(x, 0.05).tolist() == [0, 1, 2, 3, 4, 4]
    # Turned and reordered: the same partition.
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    assert groups(x[::-1] @ turn, metastability.ANGLE).max() == 2


def test_merging_keeps_masses_and_directions():
    x = on_circle(np.array([0.3, 2.0, 0.31, 2.0]))
    points, masses = merged(x, np.array([0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_allclose(masses, [0.4, 0.6])
    angles = np.arctan2(points[:, 1], points[:, 0])
    np.testing.assert_allclose(angles, [0.3075, 2.0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=1e-15)


@pytest.mark.parametrize("share", [0.5, 0.3, 0.05])
@pytest.mark.parametrize("beta", [0.0, 2.0, 6.0])
def test_speed_of_two_clusters_is_the_systems(share, beta):
    phi = 1.3
    half = 0.5 * phi
    system = ParticleSystem(
        Equation(SelfAttention(np.eye(2), np.eye(2), beta, tolerance=None)), [share, 1.0 - share]
    )
    x = on_circle(np.array([half, -half]))
    v = system.rhs(0.0, x)
    across = np.stack([-x[:, 1], x[:, 0]], axis=1)
    turning = np.sum(v * across, axis=1)
    step = 1e-4
    took = pair_time(beta, share, phi + step, phi - step)
    assert turning[1] - turning[0] == pytest.approx(2.0 * step / took, rel=1e-6)


def test_times_of_two_clusters():
    for beta in (0.0, 3.0, 12.0):
        expected = three_phases.merging_time(beta, start=2.0, end=0.1)
        assert pair_time(beta, 0.5, 2.0, 0.1) == pytest.approx(expected, rel=1e-9)
        assert pair_time(beta, 0.2) == pytest.approx(pair_time(beta, 0.8), rel=1e-12)
    # beta = 0: the speed is sin(phi), whatever the masses.
    expected = np.log(np.tan(1.0) / np.tan(0.05))
    assert pair_time(0.0, 0.1) == pytest.approx(expected, rel=1e-10)
    # Large beta: Laplace's method at the start.
    beta, w = 60.0, 0.2
    leading = np.exp(beta * (1 - np.cos(2.0))) / (beta * np.sin(2.0) ** 2 * (w / 0.8 + 0.8 / w))
    assert pair_time(beta, w) == pytest.approx(leading, rel=0.1)
    time = pair_time(4.0, 0.3)
    assert metastability.angle_of_pair(4.0, 0.3, time) == pytest.approx(0.1, rel=1e-5)
    assert pair_time(4.0, 0.3, 1.0, 1.0) == 0.0


def test_stages_of_the_limit():
    # The first two meet in the middle, at 0.3; the masses 2 : 1 share the way as 1 : 4, to 0.58.
    found = stages(np.array([0.0, 0.6, 1.7, 3.3]))
    assert [phi for phi, _ in found] == pytest.approx([0.6, 1.4, 2.72])
    assert [w for _, w in found] == pytest.approx([0.5, 2 / 3, 0.75])
    # Turned: the same, across the cut at 2 pi too.
    turned = stages((np.array([0.0, 0.6, 1.7, 3.3]) + 5.9) % (2 * np.pi))
    np.testing.assert_allclose([phi for phi, _ in turned], [0.6, 1.4, 2.72], atol=1e-12)


def test_where_two_clusters_meet():
    """The way is shared as the squares of the masses, 4 : 1 for 1/3 and 2/3, as beta grows."""
    w, start, shares = np.array([2.0, 1.0]) / 3.0, 1.2, []
    for beta in (0.0, 8.0, 16.0, 32.0):
        system = ParticleSystem(Equation(SelfAttention(np.eye(2), np.eye(2), beta)), w)
        time = pair_time(beta, w[0], start, 0.01)
        x = run_to(system, on_circle(np.array([0.0, start])), time)
        shares.append(np.arctan2(x[0, 1], x[0, 0]) / start)
    assert shares[0] == pytest.approx(1.0 / 3.0, abs=0.01)
    # The rest falls like the angle 1/sqrt(beta) at which the two begin to see each other.
    assert (np.diff(shares) < 0.0).all() and shares[-1] == pytest.approx(0.2, abs=0.03)


def test_clusters_stand_for_their_tokens():
    """Tokens in narrow clusters, and one token each: the same staircase."""
    spread = 1e-3 * np.array([-1.0, 0.0, 1.0])
    angles = (np.array([0.0, 1.0, 2.6])[:, None] + spread).ravel()
    beta, until = 5.0, 200.0
    whole = metastability.full(on_circle(angles), beta, until)
    few = coarse(on_circle(angles), beta, until)
    assert whole.clusters[0] == few.clusters[0] == 3
    for k in (2, 1):
        assert few.reached(k) == pytest.approx(whole.reached(k), rel=0.02)
    assert np.diff(few.energy).min() > -1e-6 and np.diff(whole.energy).min() > -1e-6
    assert few.energy[-1] == 1.0
    assert whole.energy[-1] == pytest.approx(1.0, abs=1e-6)
    weighted = coarse(on_circle(np.array([0.0, 1.0, 2.6])), beta, until, np.full(3, 1.0 / 3.0))
    assert weighted.reached(1) == pytest.approx(few.reached(1), rel=0.01)


def test_foretold_times_are_approached():
    errors = [
        np.abs(np.array(metastability.circle_times(beta)) / metastability.foretold_times(beta) - 1)
        for beta in (8.0, 14.0)
    ]
    assert errors[1].max() < 0.1 and (errors[1] < errors[0]).all()


def test_reading_a_staircase():
    stairs = Staircase(np.arange(6.0), np.array([5, 3, 4, 2, 2, 2]), np.ones(6))
    # From then on: the rise to 4 counts against "at most 3" before it.
    assert [stairs.reached(k) for k in (5, 4, 3, 2)] == [0.0, 1.0, 3.0, 3.0]
    assert np.isnan(stairs.reached(1))


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\), got 1.0"):
        pair_time(1.0, 1.0)
    with pytest.raises(ValueError, match="angles must satisfy 0 < end <= start < pi"):
        pair_time(1.0, 0.5, start=3.2)
    with pytest.raises(ValueError, match="beta must be >= 0, got -1"):
        pair_time(-1.0)


def test_verdicts_can_be_negative():
    t = np.array([0.0, 20.0, 40.0])
    one = Staircase(t, np.array([9.0, 3.0, 1.0]), np.array([0.5, 0.4, 1.0]))
    other = Staircase(t, np.array([9.0, 9.0, 1.0]), np.ones(3))
    wrong = Case(3, 4.0, one, other)
    assert wrong.agreement() == pytest.approx(1.0)
    kept = metastability.promised([wrong], [(0.5, 1.0, 1.0, 0.2)])
    assert not any(bar.met for bar in kept)
    flat = np.array([metastability.foretold_times(b) for b in metastability.CIRCLE_BETAS]) * 2.0
    assert not any(f.agrees for f in metastability.findings([Case(3, 4.0, one, one)], flat))
