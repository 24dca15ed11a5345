"""The study of the clustering phases: spans, shares, transition times, verdicts, files."""

import numpy as np
import pytest

from meshes.geometry import unit
from validation import clustering_phase
from validation.clustering_phase import Map, clustered, course
from validation.exact import equiangular_tokens
from validation.problems.tokens import in_their_span, random_tokens


def test_tokens_are_run_in_their_span():
    """The same tokens in R^20 and in the five coordinates of their span follow the same path."""
    x = unit(np.random.default_rng(1).standard_normal((5, 20)))
    basis = np.linalg.qr(x.T)[0]
    inside = in_their_span(x)
    assert inside.shape == (5, 5)
    np.testing.assert_allclose(inside @ inside.T, x @ x.T, atol=1e-14)
    times = np.array([0.0, 1.0, 4.0])
    for small, large in zip(
        course(inside, 3.0, times, 1e-9), course(x, 3.0, times, 1e-9), strict=True
    ):
        np.testing.assert_allclose(small @ small.T, large @ large.T, atol=1e-7)
        np.testing.assert_allclose(large @ basis @ basis.T, large, atol=1e-9)
    many = unit(np.random.default_rng(1).standard_normal((9, 4)))
    assert in_their_span(many) is many


def test_shares_of_pairs():
    angle = np.array([0.0, 0.01, 2.0, 2.04])
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # cos(0.04) = 0.9992, cos(0.01) beyond it: two pairs of six
    assert clustered(x) == pytest.approx(1.0 / 3.0)
    assert clustered(np.repeat(x[:1], 3, axis=0)) == 1.0


def test_half_times_of_equiangular_tokens():
    """Orthogonal tokens reach REACHED all at once, at the time of the reduction."""
    betas, times = np.array([0.0, 2.0]), np.linspace(0.0, 8.0, 161)
    n = clustering_phase.TOKENS
    rows = []
    for beta in betas:
        states = course(equiangular_tokens.tokens(n, 0.0), beta, times, 1e-8)
        gap = [np.median(equiangular_tokens.gaps(x)) for x in states]
        rows.append(np.log(gap))
    one = Map(n, betas, times, np.zeros((2, 161)), np.array(rows), 0.0)
    expected = [equiangular_tokens.time_to(0.999, n, beta) for beta in betas]
    np.testing.assert_allclose(one.half(), expected, atol=1e-3)
    assert one.delay(2.0) < 1e-3
    never = Map(n, betas, times, np.zeros((2, 161)), np.zeros((2, 161)), 0.0)
    assert np.isnan(never.half()).all()


def test_maps_of_few_dimensions(monkeypatch):
    monkeypatch.setattr(clustering_phase, "TOKENS", 8)
    betas, times = np.array([0.0, 1.0, 9.0]), np.geomspace(1.0, 12.0, 13)
    found = clustering_phase.phase_map(2, betas, times, seeds=2)
    assert found.share.shape == found.median.shape == (3, 13)
    assert (found.share[:2, -1] == 1.0).all() and found.share[2, -1] < 1.0
    assert found.climb > -1e-6
    # Two draws are averaged.
    assert set(np.unique(np.round(found.share * 2 * 28))) <= set(range(57))


def test_high_dimension_is_the_reduction(monkeypatch):
    monkeypatch.setattr(clustering_phase, "TOKENS", 6)
    far = clustering_phase.distance_to_equiangular(200, 1.0, seeds=2)
    near = clustering_phase.distance_to_equiangular(20_000, 1.0, seeds=2)
    assert near < 0.02
    assert far / near == pytest.approx(10.0, rel=0.6)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="n and d must be at least 2, got n = 1, d = 3"):
        random_tokens(1, 3, 0)
    with pytest.raises(ValueError, match="n and d must be at least 2, got n = 4, d = 1"):
        random_tokens(4, 1, 0)


def test_verdicts_can_be_negative():
    betas, times = np.array([0.0, 1.0]), np.array([1.0, 10.0])
    late = np.array([[0.0, -8.0], [0.0, -7.0]])
    maps = [Map(d, betas, times, np.full((2, 2), 0.95), late, -1.0) for d in (2, 8)]
    near = [(10, 0.1), (100, 0.1)]
    assert not any(finding.agrees for finding in clustering_phase.findings(maps, near))
    assert not any(bar.met for bar in clustering_phase.promised(maps))
