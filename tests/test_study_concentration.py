"""The study of concentration: its rates in closed form, its verdicts, its files."""

from dataclasses import replace

import numpy as np
import pytest

from validation import concentration, exact

CIRCLE = {case.name: case for case in concentration.CASES if len(case.v) == 2}


@pytest.mark.parametrize("case", concentration.CASES, ids=lambda case: case.name)
def test_expected_rates_are_not_below_the_proven_ones(case):
    assert case.expected_rate >= case.proven_rate > 0.0


def test_rates_by_hand():
    gap = {name: case.expected_rate for name, case in CIRCLE.items()}
    # V B^T = diag(2, 4): deviations at e2 fall with (4 - 2) / 4, mass leaves e1 with (4 - 2) / 1.
    assert gap["circle, E and F differ"] == pytest.approx(0.5)
    # V B^T = diag(2, 1): gap 1; half of it for a positive density.
    assert gap["circle, E = F"] == pytest.approx(0.5)
    assert gap["circle, E = F, rho0 = 0 across E"] == pytest.approx(1.0)


def test_the_zero_temperature_flow_follows_its_closed_form():
    flat = replace(concentration.CASES[4], v=(1.0, 0.0, 0.0), b=(1.0, 1.0, 1.0), until=3.0)
    values, resolved = concentration.zero_temperature(flat)
    # The tilt of the law is odd and does not count.
    known = exact.zero_temperature_distance(flat.times, 1.0, 1)
    assert resolved[:8].all()
    np.testing.assert_allclose(values[resolved], known[resolved], rtol=2e-3)


def test_a_law_that_does_not_approach_is_not_shown():
    case = replace(CIRCLE["circle, E and F differ"], betas=(10.0, 100.0))
    flat = {which: np.full(len(case.times), 0.5) for which in ("grid", "particles")}
    curves = {10.0: flat, 100.0: {which: 1.1 * values for which, values in flat.items()}}
    away = np.exp(0.1 * case.times)
    result = concentration.Result(case, 0.02, curves, away, away > 0.0)
    assert not any(finding.agrees for finding in concentration.findings(result))
    assert [bar.met for bar in concentration.promised(result)] == [False, True]
