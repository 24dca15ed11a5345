"""When two times are the same: when they differ by rounding alone.

Times that people write and times that programs compute for the same moment differ in their last
digits: 0.3 and 3 * 0.1, 10 and the sum of a hundred tenths. A run takes no step between two such
times; it lands on one of them, and that stands for both. How far they may be apart is said here and
nowhere else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from decimal import Decimal

ROUNDING = 128 * sys.float_info.epsilon
"""Share of a time by which another one may differ and be the same: 3e-14.

It covers the rounding of a sum of some hundred terms. A step that is shorter has no right length
either: between times of fewer than a hundred units in the last place it is off by a percent.
"""


def resolution(*times: float) -> float:
    """How far two times may be apart and be the same; `times` are those that went into them."""
    return ROUNDING * max(map(abs, times))


def same(first: float, second: float) -> bool:
    """Whether two times of a run that starts at 0 differ by rounding alone.

    >>> same(0.3, 3 * 0.1), same(0.0, 1e-300)
    (True, False)
    """
    return abs(first - second) <= resolution(first, second)


def multiple(k: int, interval: float) -> float:
    """k times the interval as it is written, so that multiples are what people write too.

    A run until 0.3 that is made longer has then landed where a longer one would have.

    >>> multiple(3, 0.1), 3 * 0.1
    (0.3, 0.30000000000000004)
    """
    return float(k * Decimal(repr(interval)))


def multiples_until(until: float, interval: float) -> list[float]:
    """The multiples of `interval` from 0 on, and `until` in place of the one that it may be.

    >>> multiples_until(0.3, 0.1), multiples_until(0.35, 0.1)
    ([0.0, 0.1, 0.2, 0.3], [0.0, 0.1, 0.2, 0.3, 0.35])
    """
    count = math.ceil(until / interval * (1.0 - ROUNDING))
    return [*(multiple(k, interval) for k in range(count)), until]


def first_of(times: Sequence[float], apart: float) -> float:
    """Where to land: of the times that are the earliest to within `apart`, the one named first."""
    earliest = min(times)
    return next(t for t in times if t - earliest <= apart)
