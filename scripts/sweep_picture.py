"""The picture of a sweep over one or two keys: curves over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sphere_attention_scripts.comparison import COLUMNS

if TYPE_CHECKING:
    import xarray

LINES = ("-", "--", ":", "-.")
"""Styles of lines: the second key may have so many values."""

DRAWN = ("w2_to_limit", "w2_to_limit_at_least", "entropy", "mean_length", "second_moments")
"""Columns of a run's table that are drawn, the first four of those there are."""


def draw_sweep(data: xarray.Dataset, labels: list[str], path: Path) -> str:
    """Draw the curves of all finished runs; why there is no picture, or nothing where there is.

    The key with more values goes by colour, the other one by the style of the line. An older
    picture goes in any case.
    """
    from pde.pictures import plotting

    path.unlink(missing_ok=True)

    if len(labels) > 2:
        return f"no picture: {len(labels)} keys are varied, and it shows two at the most"
    by_colour, *others = sorted(labels, key=lambda name: -data.sizes[name])
    by_line = others[0] if others else None
    if by_line is not None and data.sizes[by_line] > len(LINES):
        return f"no picture: both keys have more than {len(LINES)} values"
    names = [name for name in DRAWN if name in data and np.isfinite(data[name]).any()][:4]
    if not names:
        return "no picture: there is nothing to draw"
    plotting.save_figure(_figure(data, names, by_colour, by_line), path)
    return ""


def _figure(data: xarray.Dataset, names: list[str], by_colour: str, by_line: str | None) -> Any:
    """A panel for each quantity, legends beside them."""
    import matplotlib
    from matplotlib.figure import Figure

    from pde.pictures.plotting import COLOURS, style

    count = data.sizes[by_colour]
    colours = matplotlib.colormaps[COLOURS](np.linspace(0.0, 0.85, count))
    rows = 1 if len(names) < 4 else 2
    columns = -(-len(names) // rows)
    with style():
        figure = Figure(figsize=(3.3 * columns + 1.2, 2.4 * rows + 0.3), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, name in zip(panels, names, strict=False):
            for i in range(count):
                for j in range(data.sizes[by_line] if by_line else 1):
                    one = data.isel({by_colour: i} | ({by_line: j} if by_line else {}))
                    times = one["time"] if "time" in one.coords else one["t"]
                    axes.plot(times, one[name], LINES[j], color=colours[i], lw=1.2)
            axes.set_title(COLUMNS[name].title, loc="left", pad=3)
            _scale(axes, data[name].values)
        for axes in panels[len(names) :]:
            axes.set_axis_off()
        figure.supxlabel("$t$")
        figure.suptitle(data.attrs["title"], x=0.01, ha="left", fontsize=9)
        _legend(figure, data, by_colour, by_line, colours)
        return figure


def _scale(axes: Any, values: Any) -> None:
    """A logarithm where positive values span more than a decade."""
    values = values[np.isfinite(values) & (values != 0.0)]
    if len(values) and values.min() > 0.0 and values.max() > 10.0 * values.min():
        axes.set_yscale("log")


def _legend(
    figure: Any, data: xarray.Dataset, by_colour: str, by_line: str | None, colours: Any
) -> None:
    """One legend on the right: colours, then lines."""
    from matplotlib.lines import Line2D

    def text(name: str, value: Any) -> str:
        number = np.issubdtype(type(value), np.number)
        return f"{name} = {value:g}" if number else f"{name} = {value}"

    pairs = zip(data[by_colour].values, colours, strict=True)
    handles = [Line2D([], [], color=c, label=text(by_colour, v)) for v, c in pairs]
    if by_line is not None:
        styles = zip(data[by_line].values, LINES, strict=False)
        handles += [Line2D([], [], color="0.3", ls=s, label=text(by_line, v)) for v, s in styles]
    figure.legend(handles=handles, loc="outside right upper")
