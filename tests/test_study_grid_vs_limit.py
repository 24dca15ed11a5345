"""The study of the way to the limit law."""

import numpy as np
import pytest

from validation import exact, grid_vs_limit


@pytest.mark.parametrize("dim", [1, 2])
def test_grids_follow_the_closed_form(dim):
    times = np.array([0.0, 1.0, 2.0])
    known = exact.zero_temperature_distance(times, 1.0, dim)
    errors = []
    for frequency in (6, 12):
        h, values = grid_vs_limit.distances(dim, frequency, order=2, times=times)
        errors.append(np.abs(values - known))
        assert errors[-1].max() < 0.1 * h
    assert (errors[1] < errors[0] / 2.0).all()
    assert errors[1].max() < 4e-3


def test_a_grid_that_does_not_arrive_misses_its_bar(capsys, monkeypatch):
    stuck = lambda dim, f, order: (0.1, np.ones(len(grid_vs_limit.TIMES)))  # noqa: E731
    monkeypatch.setattr(grid_vs_limit, "distances", stuck)
    assert grid_vs_limit.main(["--frequencies", "8"]) == 1
    assert "MISSED" in capsys.readouterr().out
