"""The study of the distance to zero temperature: its fits, its verdicts, its files."""

from dataclasses import replace

import numpy as np
import pytest

from validation import temperature


def test_growth_recovers_the_exponents_that_made_it():
    t = np.linspace(0.25, 2.0, 8)
    c1, c0, misfit = temperature.growth(t, np.exp(0.9 * t) - np.exp(-0.4 * t))
    assert (c1, c0) == (pytest.approx(0.9, abs=1e-5), pytest.approx(-0.4, abs=1e-5))
    assert misfit < 1e-6


def test_exponents_of_exact_powers():
    case = replace(temperature.CASES[0], betas=(10.0, 100.0, 1000.0))
    eps = temperature.scale(np.array(case.betas))
    powers = np.repeat(eps[:, None] ** 1.5, 3, axis=1)
    paired = np.repeat(powers[:, :1], len(temperature.TIMES), axis=1)
    result = temperature.Result(case, 0.5 * powers[1, 0], paired, powers, powers, 0.0)
    assert result.exponent("particles") == pytest.approx(1.5)
    assert result.exponent("grid") == pytest.approx(1.5)  # from the two above the cell width
    slow = temperature.Result(case, 0.0, paired, powers**0.5, powers**0.5, 1e-3)
    assert [finding.agrees for finding in temperature.findings(slow)] == [False, False]
    assert [bar.met for bar in temperature.promised(slow)] == [False, False]
    coarse = temperature.Result(case, 2.0, paired, powers, powers, 0.0)
    assert [finding.agrees for finding in temperature.findings(coarse)] == [True]
