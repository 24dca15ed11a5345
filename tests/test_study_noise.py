"""The study of noise: runs as a command, verdicts can be negative."""

import numpy as np

from validation import noise


def test_verdicts_can_be_negative():
    series = [noise.Decay(1, f, 1.0 / f, 0.1 / f, 10, 0.4) for f in (4, 8)]
    times = np.array([0.0, 1.0, 2.0])
    rising = noise.Flow(times, np.array([1.0, 1.5, 0.5]), np.array([0.0, 1.0, 2.0]))
    apart = noise.Moments(times, np.zeros((3, 12)), np.full((3, 12), 0.1), 0.01)
    bars = noise.promised({1: series}, 1e-6, rising, apart)
    assert [bar.met for bar in bars] == [False, True, False, False, False, False, False]
