"""The study of consensus: objectives with known minimisers, verdicts, files."""

from types import SimpleNamespace

import numpy as np
import pytest

from meshes import icosphere
from pde import Measure
from validation import consensus
from validation.problems import objectives


@pytest.mark.parametrize("name", ["rastrigin", "ackley"])
@pytest.mark.parametrize("d", [3, 10])
def test_the_minimiser_is_known(name, d):
    best = objectives.minimiser(d)
    assert np.linalg.norm(best) == pytest.approx(1.0, abs=1e-15)
    objective = getattr(objectives, name)(best)
    x = np.random.default_rng(d).normal(size=(5000, d))
    near = best + 0.3 * x[:1000]
    x = np.concatenate([x, near])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert objective(best[None])[0] == pytest.approx(0.0, abs=1e-14)
    assert objective(x).min() > 0.0


def test_there_are_many_minima():
    mesh = icosphere(40)
    best = objectives.minimiser(3)
    for objective in (objectives.rastrigin(best), objectives.ackley(best)):
        lows = objectives.local_minima(objective, mesh)
        values = objective(mesh.centers[lows])
        assert len(lows) > 10
        assert np.linalg.norm(mesh.centers[lows[0]] - best) < mesh.spacing
        # Cells see the minima at the others' distance, the global one by far the lowest.
        assert values[1] > values[0] + 0.2
    six = objectives.local_minima(objectives.axes_quartic(np.eye(3)), mesh)
    assert len(six) == 6
    assert np.abs(mesh.centers[six]).max(axis=1) == pytest.approx(1.0, abs=1e-3)


def solution(*measures):
    return SimpleNamespace(measures=measures, mesh=SimpleNamespace(spacing=0.1))


def test_verdicts_can_be_negative():
    best = objectives.minimiser(3)
    K = len(consensus.TIMES)
    steady = np.full((K, 2), 0.5)
    noise = 0.01 * np.random.default_rng(0).normal(size=(4, K, 2))
    astray = solution(Measure(-best[None]))
    result = consensus.Plain(best, [steady, steady], 0.8 + noise, astray, [astray])
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    even, one = Measure(axes), Measure(axes[:1])
    many = consensus.Polarised(axes, 0.1, solution(one), solution(even), even)
    assert [bar.met for bar in consensus.promised(result, many)] == [False] * 4 + [True]
    assert result.miss(astray) == pytest.approx(2.0)
    rates = {("rastrigin", 10): [0.5, 0.25]}
    assert not any(finding.agrees for finding in consensus.findings(result, many, rates))
    # A difference of one standard error is a third of what is allowed.
    off = consensus.Plain(best, [steady, steady], steady + noise, astray, [astray])
    exact = off.average + off.standard_error
    off = consensus.Plain(best, [exact, exact], steady + noise, astray, [astray])
    assert off.share == pytest.approx(1.0 / 3.0)


def test_moments_are_those_of_the_law():
    mu = Measure(np.eye(3)[:2], [3.0, 1.0])
    along, variance = consensus.moments(mu, np.array([1.0, 0.0, 0.0]))
    assert along == pytest.approx(0.75)
    assert variance == pytest.approx(1.0 - 0.625)
