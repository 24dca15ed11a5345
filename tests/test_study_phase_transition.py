"""The study of the phase transition: thresholds, branches in closed form, verdicts, files."""

import numpy as np
import pytest

from meshes import circle, icosphere
from validation import phase_transition


def test_thresholds_are_those_of_the_formula_sheet():
    # beta / i_1(beta) (USA) and beta i_0 / i_1 (SA) for d = 3, with i_1 written out.
    for beta in (1.0, 2.0, 5.0):
        i0 = np.sinh(beta) / beta
        i1 = (beta * np.cosh(beta) - np.sinh(beta)) / beta**2
        assert phase_transition.threshold(beta, 3, False) == pytest.approx(beta / i1, rel=1e-12)
        assert phase_transition.threshold(beta, 3, True) == pytest.approx(beta * i0 / i1, rel=1e-12)
    assert phase_transition.threshold(0.0, 3, True) == 3.0


def test_the_branch_at_beta_0_is_the_closed_form():
    errors = []
    for frequency in (4, 8):
        m = np.array([0.3, 0.6, 0.85])
        found = phase_transition.branch(icosphere(frequency), 0.0, True, m)
        errors.append(
            max(abs(phase_transition.langevin(k) - a) for k, a in zip(found.kappa, m, strict=True))
        )
    assert errors[1] < 5e-4 and errors[1] < 0.35 * errors[0]


def test_the_transition_turns_discontinuous_at_the_critical_beta():
    mesh = circle(96)
    assert phase_transition.critical_beta(mesh, 2.447) == pytest.approx(2.447, rel=1e-3)
    small = phase_transition.AMPLITUDES[:3]
    assert phase_transition.branch(mesh, 2.0, False, small).expansion[1] > 0.1
    assert phase_transition.branch(mesh, 3.0, False, small).expansion[1] < -0.1


def test_verdicts_can_be_negative():
    m = np.array([0.05, 0.1, 0.15, 0.5])
    off = phase_transition.Branch(3, 5.0, False, m, 0.5 + 0.1 * m**2)
    rate = phase_transition.Growth("run", 1.25, 0.2, 0.1)
    missed = phase_transition.promised([off], [rate], {3: 2.0})
    assert [bar.met for bar in missed] == [False, False, False]
    two = phase_transition.Bistability(0.4, 0.9, 0.9, 0.9)
    assert not any(finding.agrees for finding in phase_transition.findings([off], two))
