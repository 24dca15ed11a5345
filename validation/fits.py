"""Numbers read off curves: slopes, rates of decay, minima, crossings."""

from __future__ import annotations

from typing import Any

import numpy as np

from pde.arguments import Array


def slope(x: Any, y: Any) -> float:
    """Slope of the line of least squares through the points (x, y); nan for fewer than two.

    >>> slope([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    2.0
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 2:
        return np.nan
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def rate(times: Array, values: Array, window: Any) -> float:
    """c where values behave like e^{-ct} in the window, a mask (K,); nan for too few times."""
    return -slope(times[window], np.log(values[window]))


def minimum(times: Array, values: Array) -> tuple[float, float]:
    """(time, value) of the least of positive values: of a parabola through three logarithms.

    The least value itself at either end of the times, which must be evenly spaced.
    """
    i = int(np.argmin(values))
    if i in (0, len(values) - 1):
        return float(times[i]), float(values[i])
    before, here, after = np.log(values[i - 1 : i + 2])
    curvature = before - 2.0 * here + after
    if curvature <= 0.0:
        return float(times[i]), float(values[i])
    shift = 0.5 * (before - after) / curvature
    time = times[i] + shift * (times[i + 1] - times[i])
    return float(time), float(np.exp(here - 0.125 * (before - after) ** 2 / curvature))


def crossing(times: Array, values: Array, level: float) -> float:
    """The first time at which values reach `level` from below, linear in between; nan: never."""
    reached = np.flatnonzero(values >= level)
    if len(reached) == 0:
        return np.nan
    i = int(reached[0])
    if i == 0:
        return float(times[0])
    share = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(times[i - 1] + share * (times[i] - times[i - 1]))
