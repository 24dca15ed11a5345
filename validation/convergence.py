"""Observed orders of convergence: errors on a sequence of resolutions, as a table and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pde.arguments import Array, function, positive, real_array, shown
from validation.study import Curve, Panel, Table, draw


@dataclass(frozen=True, eq=False)
class Study:
    """Errors at falling widths h; `str` is the table.

    resolutions : (k,) what the error was asked for, e.g. mesh frequencies
    h : (k,) widths, falling
    error : (k,) errors
    """

    resolutions: Sequence[Any]
    h: Array
    error: Array
    name: str = field(default="error")

    @property
    def order(self) -> Array:
        """(k,) log(e_{i-1} / e_i) / log(h_{i-1} / h_i), nan for the first.

        nan too where an error is 0: nothing is left to measure an order with.
        """
        order = np.full(len(self.h), np.nan)
        measurable = (self.error[:-1] > 0.0) & (self.error[1:] > 0.0)
        ratio = np.divide(
            self.error[:-1], self.error[1:], where=measurable, out=np.ones(len(order) - 1)
        )
        order[1:] = np.where(measurable, np.log(ratio) / np.log(self.h[:-1] / self.h[1:]), np.nan)
        return order

    def table(self, title: str = "") -> Table:
        """Errors and observed orders, coarse to fine."""
        rows = zip(self.resolutions, self.h, self.error, self.order, strict=True)
        columns = ["resolution", "h:.4g", f"{self.name}:.3e", "order:.2f"]
        return Table(title, columns, [(*row, None if np.isnan(p) else p) for *row, p in rows])

    def __str__(self) -> str:
        return str(self.table())

    def plot(self, path: str | Path) -> Path:
        """A log-log picture of the error with the slope of its last order; returns the path."""
        return plot({self.name: self}, path)


def study(
    error_of: Callable[[Any], float],
    resolutions: Sequence[Any],
    spacing: Callable[[Any], float] | None = None,
    name: str = "error",
) -> Study:
    """Call error_of(resolution) for each resolution, coarse to fine, and collect the errors.

    spacing : resolution -> h; None: h = 1 / resolution
    name : heads the errors' column

    Raises ValueError unless h falls and errors are finite and >= 0.

    >>> print(study(lambda n: 1.0 / n**2, [10, 20]))
    resolution     h      error  order
            10   0.1  1.000e-02
            20  0.05  2.500e-03   2.00
    """
    function("error_of", error_of, "of a resolution")
    if not isinstance(resolutions, Sequence | np.ndarray) or isinstance(resolutions, str):
        raise TypeError(f"resolutions must be a sequence, got {shown(resolutions)}")
    resolutions = list(resolutions)
    if not resolutions:
        raise ValueError("resolutions must hold at least one value, got none")
    if spacing is None:
        h = 1.0 / np.array([positive("resolutions", r) for r in resolutions])
    else:
        h = real_array("spacing(resolution)", [spacing(r) for r in resolutions], ndim=1)
    if not (h > 0).all() or not (np.diff(h) < 0).all():
        raise ValueError(f"resolutions must go from coarse to fine, their widths are {h.tolist()}")
    errors = real_array("errors", [error_of(r) for r in resolutions], ndim=1, finite=False)
    if not (np.isfinite(errors) & (errors >= 0.0)).all():
        raise ValueError(f"errors must be finite and >= 0, got {errors.tolist()}")
    return Study(resolutions, h, errors, name)


def panel(studies: Mapping[str, Study], title: str = "") -> Panel:
    """Errors over widths on logarithmic axes, each labelled with its last observed order."""
    curves = []
    for i, (label, one) in enumerate(studies.items()):
        last = one.order[-1]
        order = "" if np.isnan(last) else f" (order {last:.2f})"
        # After ten, the colours begin again.
        form = ("o-", "s--", "^:")[i // 10 % 3]
        curves.append(Curve(one.h, one.error, form, i, f"{label}{order}"))
    return Panel(title, "h", "error", curves, log="xy")


def plot(studies: Mapping[str, Study], path: str | Path, title: str = "") -> Path:
    """Log-log picture of several studies, each labelled with its last observed order."""
    draw([panel(studies, title)], Path(path))
    return Path(path)
