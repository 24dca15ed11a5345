"""The study of the terminal phase: the stability criteria, its verdicts, its files."""

import numpy as np
import pytest

from pde import Equation, ParticleSystem, SelfAttention
from validation import terminal_phase


@pytest.mark.parametrize(("lam", "v", "b"), [(1.0, -0.4, 0.7), (-0.8, 1.1, -0.5), (0.6, 0.9, 1.2)])
def test_all_rates_are_eigenvalues_of_the_jacobian(lam, v, b):
    beta = 1.3
    system = ParticleSystem(Equation(SelfAttention(np.diag([lam, v]), np.diag([b, -0.9]), beta)))
    plus, minus, inner = terminal_phase.pair_rates(lam, v, b, beta)
    found = np.linalg.eigvals(terminal_phase.jacobian(system, terminal_phase.clusters(True)))
    np.testing.assert_allclose(np.sort(found.real), np.sort([plus, minus, inner, inner]), atol=1e-8)
    mean, inner = terminal_phase.consensus_rates(lam, v)
    found = np.linalg.eigvals(terminal_phase.jacobian(system, terminal_phase.clusters(False)))
    np.testing.assert_allclose(np.sort(found.real), np.sort([mean, *[inner] * 3]), atol=1e-8)


def test_the_cases_are_stable_where_they_end():
    beta = 4.0
    for case in terminal_phase.CASES:
        for axis in {case.first, case.last}:
            others = [v for k, v in enumerate(case.v) if k != axis]
            rates = [
                rate
                for v in others
                for rate in terminal_phase.pair_rates(case.v[axis], v, case.b[axis], beta)
            ]
            # An equal pair at E leaves it unless E is also where the mass ends.
            if axis != case.last or case.first == case.last:
                assert (max(rates) < 0.0) == (axis == case.last)


@pytest.mark.parametrize(
    ("pair", "lam", "v", "stays"),
    [(False, 1.0, 0.2, True), (False, 1.0, 1.5, False), (True, -1.0, 0.3, False)],
)
def test_particles_obey_the_criteria(pair, lam, v, stays):
    point = terminal_phase.stability(pair, lam, v, 0.8)
    assert (point.criterion < 0.0) == (point.measured < 0.0) == stays
    assert point.linearised == pytest.approx(point.criterion, abs=1e-8)


def test_mass_that_stays_away_is_not_shown():
    case, times = terminal_phase.CASES[0], np.linspace(0.0, 1.0, 3)
    idle = terminal_phase.Shares(times, np.full((3, 3), 0.1), np.full((3, 3), 0.1))
    found = list(terminal_phase.findings(case, {1.0: idle, 2.0: idle}))
    assert len(found) == 4 and not any(finding.agrees for finding in found)
    wrong = terminal_phase.Point(True, 1.0, 0.2, 1.0, -0.5, -0.4, 0.1)
    assert [bar.met for bar in terminal_phase.promised([wrong])] == [False, False]


def test_transition_times_are_crossings():
    times = np.linspace(0.0, 4.0, 5)
    ramp = np.stack([0.2 * times, 1.0 - 0.2 * times, 0.0 * times], axis=1)
    found = terminal_phase.Shares(times, ramp, ramp)
    assert found.transition("grid", 0) == pytest.approx(2.5)
    assert np.isnan(found.transition("particles", 2))
