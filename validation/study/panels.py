"""Pictures as data: panels of curves, images and maps of the sphere, drawn by one function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array

WIDTH, HEIGHT = 4.3, 3.4
"""Of a panel, in inches."""


class Curve(NamedTuple):
    """y over x in a matplotlib format, in a colour (a number of the cycle, or a name).

    label : in the legend; empty: not in it
    error : half the length of bars about the points
    """

    x: Any
    y: Any
    form: str = "-"
    colour: int | str = 0
    label: str = ""
    error: Any = None

    @classmethod
    def through(cls, points: Any, *look: Any) -> Curve:
        """Of pairs (x, y), with form, colour and label."""
        x, y = np.transpose(points)
        return cls(x, y, *look)

    def draw(self, axes: Any) -> None:
        """Needs no colour bar."""
        colour = self.colour if isinstance(self.colour, str) else f"C{self.colour}"
        look = {"color": colour, "ms": 3, "lw": 1.2, "label": self.label}
        if self.error is None:
            axes.plot(self.x, self.y, self.form, **look)
        else:
            axes.errorbar(self.x, self.y, self.error, fmt=self.form, **look)


class Image(NamedTuple):
    """values (len(y), len(x)) as colours, from limits[0] to limits[1], under a colour bar.

    Images with one label in a picture share their bar.
    """

    x: Any
    y: Any
    values: Any
    label: str
    limits: tuple[float, float]
    log: bool = False

    def draw(self, axes: Any) -> Any:
        """What a colour bar is for."""
        from matplotlib.colors import LogNorm, Normalize

        norm = (LogNorm if self.log else Normalize)(*self.limits)
        return axes.pcolormesh(self.x, self.y, self.values, norm=norm, shading="nearest")


class SphereMap(NamedTuple):
    """Values on the cells of a sphere's mesh as a map of equal areas, and what lies on it.

    limits : of the colours; None: as for densities
    dots, crosses, stars (k, 3) : points; paths (K, k, 3) : their ways
    longitude : of the middle; label : of a colour bar, none without
    """

    mesh: SphereMesh
    values: Array
    limits: tuple[float, float] | None = None
    dots: Array | None = None
    crosses: Array | None = None
    stars: Array | None = None
    paths: Array | None = None
    longitude: float = 0.0
    label: str = ""

    def draw(self, axes: Any) -> Any:
        """What a colour bar is for; above it paths, dots, crosses and stars."""
        from matplotlib.colors import Normalize
        from matplotlib.patheffects import withStroke

        from pde.pictures.panels import density_norm, draw_density
        from pde.pictures.projections import CellRaster, Mollweide

        projection = Mollweide(self.longitude)
        norm = density_norm(self.mesh, [self.values])
        if self.limits is not None:
            norm = Normalize(*self.limits)
        image = draw_density(axes, CellRaster(self.mesh, projection, 400), self.values, norm)
        for path in () if self.paths is None else np.moveaxis(self.paths, 1, 0):
            x, y = projection.project(path)[0].T
            x = np.where(np.abs(np.diff(x, prepend=x[0])) > projection.half_width, np.nan, x)
            axes.plot(x, y, color="w", lw=0.5, alpha=0.7, zorder=4)
        halo = {"path_effects": [withStroke(linewidth=2.0, foreground="0.15")]}
        for points, form, look in (
            (self.dots, "o", {"ms": 2.5, "mfc": "w", "mec": "0.2", "mew": 0.3}),
            (self.crosses, "x", {"ms": 5, "color": "w", **halo}),
            (self.stars, "*", {"ms": 11, "mfc": "#e8452c", "mec": "w", "mew": 0.7}),
        ):
            if points is not None:
                axes.plot(*projection.project(points)[0].T, form, zorder=5, **look)
        axes.set_xlim(-1.02 * projection.half_width, 1.02 * projection.half_width)
        axes.set_ylim(-1.02 * projection.half_height, 1.02 * projection.half_height)
        axes.set_aspect("equal")
        axes.set_axis_off()
        return image


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes of a picture.

    log : which axes are logarithmic, "x", "y" or "xy"
    xticks, yticks : where numbers stand, and no others
    """

    title: str
    xlabel: str
    ylabel: str
    content: Sequence[Curve | Image | SphereMap]
    log: str = ""
    xlim: tuple[float | None, float | None] | None = None
    ylim: tuple[float | None, float | None] | None = None
    xticks: Sequence[float] = ()
    yticks: Sequence[float] = ()

    @property
    def crowded(self) -> bool:
        """Whether the legend is too long to stand on the curves: it goes beside them."""
        return len([one for one in self.content if isinstance(one, Curve) and one.label]) > 8


def draw(panels: Iterable[Panel], path: Path, columns: int = 3) -> None:
    """A picture of all panels, in rows of `columns`, in a folder that is made."""
    from matplotlib.figure import Figure

    panels = list(panels)
    rows, columns = -(-len(panels) // columns), min(columns, len(panels))
    width = WIDTH * columns * (2.0 if any(panel.crowded for panel in panels) else 1.0)
    figure = Figure(figsize=(width, HEIGHT * rows), layout="constrained")
    bars: dict[str, list[Any]] = {}
    for i, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, i)
        for one in panel.content:
            image = one.draw(axes)
            if image is not None and one.label:
                bars.setdefault(one.label, []).append(image)
        _label(axes, panel)
    for label, images in bars.items():
        figure.colorbar(images[0], ax=[image.axes for image in images], label=label)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _label(axes: Any, panel: Panel) -> None:
    """Titles, scales, ticks, legend."""
    axes.set_title(panel.title, fontsize="medium")
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    for which, limits, ticks in (("x", panel.xlim, panel.xticks), ("y", panel.ylim, panel.yticks)):
        if which in panel.log:
            axes.set(**{f"{which}scale": "log"})
        if limits is not None:
            axes.set(**{f"{which}lim": limits})
        if ticks:
            getattr(axes, f"set_{which}ticks")(ticks, [f"{tick:g}" for tick in ticks])
            getattr(axes, f"{which}axis").minorticks_off()
    if not any(isinstance(one, Image | SphereMap) for one in panel.content):
        axes.grid(alpha=0.3)
    if panel.crowded:
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.02, 1.0))
    elif any(isinstance(one, Curve) and one.label for one in panel.content):
        axes.legend(fontsize="x-small")
