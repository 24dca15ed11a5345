"""The study of causal attention: bound, counts, verdicts that can be negative, files."""

import dataclasses

import numpy as np
import pytest

from validation import causal


def test_times_of_the_second_token():
    # beta = 0: c = tanh(t/2 + artanh c_0)
    time = 2.0 * (np.arctanh(causal.END) - np.arctanh(causal.START))
    assert causal.second_time(0.0) == pytest.approx(time, rel=1e-10)


def test_centres_and_clusters_are_counted():
    angles = np.array([0.0, 1.0, 0.4, 2.0, 1.6, -3.0])
    held = causal.Waiting(np.array([0.0, 1.0]), np.array([angles, 0.0 * angles]))
    # 0.4 is within 0.5 of 0, 1.6 of 2
    assert held.centres() == [0, 1, 3, 5]
    assert held.clusters() == 1
    np.testing.assert_allclose(held.moved(), np.abs(angles))
    assert held.speed_ratio() <= 1.0
    assert not causal.findings(held)[0].agrees and not causal.findings(held)[1].agrees


def test_bars_can_be_missed():
    t = np.linspace(0.0, causal.UNTIL, 89)
    states = np.tile(causal.spread_tokens(4), (89, 1, 1)) + t[:, None, None]
    gaps = np.exp(-t)[:, None] * [0.0, 1.0, 1.0, 1.0] + 1e-4
    found = causal.Approach(t, states, gaps, np.exp(-t))
    held = causal.waiting(5, until=0.1)
    wrong = causal.promised(found, [(0.0, 1.0, 0.5)], held)
    # the first token, the second, rates and lags; e^{-t} is the rate 2 without mask
    assert [bar.met for bar in wrong] == [False, True, False, False, True, False, False, True]
    slower = dataclasses.replace(found, full=np.exp(-0.4 * t))
    assert not causal.promised(slower, [(0.0, 1.0, 0.99)], held)[4].met
