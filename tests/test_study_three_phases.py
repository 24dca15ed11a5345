"""The study of the three phases: merging in closed form, counting of clusters, verdicts, files."""

import numpy as np
import pytest

from pde import Measure
from validation import three_phases


def cloud(angles, masses=None):
    points = np.stack([np.cos(angles), np.sin(angles), 0.0 * np.asarray(angles)], axis=1)
    return Measure(points, masses)


def test_clusters_are_counted():
    E = np.eye(3)[:, :2]
    assert three_phases.arcs(cloud(np.linspace(0.0, 2.0 * np.pi, 720)), E) == 0
    assert three_phases.arcs(cloud([0.1, 0.12, 2.0, 4.0, 4.02]), E) == 3
    # One cluster across the cut at pi; a speck of dust is none.
    assert three_phases.arcs(cloud([np.pi - 0.05, -np.pi + 0.05]), E) == 1
    assert three_phases.arcs(cloud([0.1, 2.0], [0.999, 0.001]), E) == 1


def test_merging_times_in_closed_form():
    # beta = 0: dphi/dt = -sin(phi), so that log tan(phi/2) falls by t.
    half = np.log(np.tan(0.5 * three_phases.APART) / np.tan(0.5 * three_phases.TOGETHER))
    assert three_phases.merging_time(0.0) == pytest.approx(half, rel=1e-9)
    for beta in (0.5, 3.0):
        time = three_phases.merging_time(beta)
        angle = three_phases.pair_angle(beta, time)
        assert angle == pytest.approx(three_phases.TOGETHER, rel=1e-5)
    # The plain exponential rate, less what the integral's factors leave of it at moderate beta.
    slope = np.log(three_phases.merging_time(40.0) / three_phases.merging_time(39.0))
    assert slope == pytest.approx(1.5, abs=0.05)


def test_verdicts_can_be_negative():
    t = np.linspace(0.0, 10.0, 11)
    slow = {"grid": np.exp(-0.1 * t), "particles": np.exp(-0.1 * t)}
    more = {"grid": np.minimum(t, 3.0), "particles": np.minimum(t, 3.0)}
    result = three_phases.Result(8.0, 0.1, t, slow, more)
    assert result.phases("grid") == [(3, pytest.approx(7.0))]
    assert not any(finding.agrees for finding in list(three_phases.findings(result))[:3])
    slow = {"grid": slow["grid"], "particles": slow["grid"] + 0.06}
    result = three_phases.Result(8.0, 0.1, t, slow, more)
    wrong = [(2.0, 8.2, 0.2), (4.0, 9.0, 0.1)]
    assert [bar.met for bar in three_phases.promised([result], wrong)] == [False, False]
    assert not three_phases.merging_finding(wrong).agrees
