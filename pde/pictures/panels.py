"""What a picture is made of: panels laid out to the hundredth of an inch, and what goes on them.

`pde.pictures.plotting` puts these together. All drawing functions take matplotlib Axes in the
coordinates of a projection of the sphere (`pde.pictures.projections`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.analysis.clusters import Cluster
from pde.arguments import Array
from pde.pictures.projections import CellRaster, Projection

COLOURS = "viridis"
"""Perceptually uniform, readable in grey and with colour-vision deficiencies."""

INK = "#31688e"
"""The colour of lines and dots, out of the same map."""

LOG_CONTRAST = 12.0
"""A density that peaks at more than this times its mean is drawn on a logarithmic scale."""

DECADES = 4
"""Depth of a logarithmic scale below the peak."""

STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
}

Marks = Mapping[str, Array]
"""Eigenspaces by their label: (d, k) orthonormal columns. k = 1: two points, k = 2: a circle."""

Flow = Callable[[Array], Array]
"""A tangent field: (m, 3) points to (m, 3) velocities."""

FLOW_ROWS = 36
"""The velocity is evaluated on so many rows of a panel, in proportion on columns."""


def style() -> AbstractContextManager[None]:
    """The look of all pictures, for the duration of a `with`."""
    import matplotlib

    return matplotlib.rc_context(STYLE)


def wrapped(title: str, width: float) -> str:
    """A title of 9 points broken into lines that fit `width` inches."""
    return textwrap.fill(title, max(10, int(width / 0.08)))


@dataclass(frozen=True, eq=False)
class Row:
    """One row of panels: what is written beside it and how the sphere is shown."""

    label: str
    projection: Projection

    def height(self, width: float) -> float:
        """Of a panel that is `width` wide."""
        return width * self.projection.half_height / self.projection.half_width


class Sheet:
    """Panels in columns, one for each state, and in rows; blocks of them where they are many.

    All sizes in inches: nothing is left to a layout engine, so nothing is clipped or overlaps.
    """

    LEFT, RIGHT, TOP, GAP, BAR = 0.3, 0.1, 0.1, 0.08, 0.62
    HEAD = 0.22

    def __init__(
        self, rows: Sequence[Row], count: int, panel: float, columns: int, title: str, bar: bool
    ) -> None:
        from matplotlib.figure import Figure

        self.rows, self.panel, self.columns = rows, panel, min(columns, count)
        blocks = -(-count // self.columns)
        self.left = self.LEFT if any(row.label for row in rows) else self.RIGHT
        width = self.left + self.columns * (panel + self.GAP) - self.GAP + self.RIGHT
        # A single narrow column still has to hold its colour bar's labels.
        self.width = max(width, 2.6)
        self.left += 0.5 * (self.width - width)
        title = wrapped(title, self.width)
        self.title_height = 0.2 * len(title.splitlines())
        self.bar_height = self.BAR if bar else self.TOP
        self.block = self.HEAD + sum(row.height(panel) + self.GAP for row in rows)
        self.height = self.TOP + self.title_height + blocks * self.block + self.bar_height
        self.figure = Figure(figsize=(self.width, self.height))
        self.labels: list[Any] = []
        x, y = self.RIGHT / self.width, 1.0 - self.TOP / self.height
        self.figure.text(x, y, title, ha="left", va="top", fontsize=9, linespacing=1.3)

    def panels(self, k: int, label: str) -> list[Any]:
        """The axes of the k-th state, one for each row, under its label."""
        block, column = divmod(k, self.columns)
        x = self.left + column * (self.panel + self.GAP)
        y = self.height - self.TOP - self.title_height - block * self.block
        self.labels.append(self._text(x + 0.5 * self.panel, y - 0.5 * self.HEAD, label, 0.0))
        y -= self.HEAD
        panels = []
        for row in self.rows:
            height = row.height(self.panel)
            y -= height + self.GAP
            axes = self._axes(x, y, self.panel, height)
            # A little more than the sphere, so that its outline is not cut.
            axes.set_xlim(-1.015 * row.projection.half_width, 1.015 * row.projection.half_width)
            axes.set_ylim(-1.015 * row.projection.half_height, 1.015 * row.projection.half_height)
            axes.set_axis_off()
            if column == 0 and row.label:
                self._text(x - 0.12, y + 0.5 * height, row.label, 90.0)
            panels.append(axes)
        return panels

    def bar(self, norm: Any, label: str) -> None:
        """The colour bar below all panels."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LogNorm

        length = min(3.0, self.width - 0.6)
        axes = self._axes(0.5 * (self.width - length), self.bar_height - 0.18, length, 0.09)
        self.figure.colorbar(
            ScalarMappable(norm, COLOURS),
            cax=axes,
            orientation="horizontal",
            extend="min" if isinstance(norm, LogNorm) else "neither",
            label=label,
        )

    def _axes(self, x: float, y: float, width: float, height: float) -> Any:
        return self.figure.add_axes(
            (x / self.width, y / self.height, width / self.width, height / self.height)
        )

    def _text(self, x: float, y: float, text: str, rotation: float) -> Any:
        return self.figure.text(
            x / self.width, y / self.height, text, ha="center", va="center", rotation=rotation
        )


def is_concentrated(mesh: SphereMesh, states: Sequence[Array]) -> bool:
    """Whether densities (N,) peak so high above their mean that a linear scale hides the rest."""
    return any(
        state.max() > LOG_CONTRAST * (state @ mesh.areas) / mesh.total_area for state in states
    )


def refuse_infinite(states: Sequence[Array]) -> None:
    """Raise ValueError where a state that is to be shown is not finite: nothing else would be."""
    for number, state in enumerate(states, 1):
        if not np.isfinite(state).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(state))[0])
            raise ValueError(
                f"states must be finite to be shown, state {number} of {len(states)} is "
                f"{state[where]} at index {where[0] if len(where) == 1 else where}"
            )


def density_norm(mesh: SphereMesh, states: Sequence[Array]) -> Any:
    """One colour scale for all states: linear from 0, logarithmic where mass concentrates.

    Raises ValueError for states that are not finite.
    """
    from matplotlib.colors import LogNorm, Normalize

    refuse_infinite(states)
    peak = max(float(state.max()) for state in states)
    if is_concentrated(mesh, states):
        return LogNorm(peak * 10.0**-DECADES, peak)
    return Normalize(0.0, peak if peak > 0.0 else 1.0)


def raster_values(raster: CellRaster, state: Array, norm: Any) -> Array:
    """The density behind each pixel; zero, which has no logarithm, takes the lowest colour."""
    return np.maximum(state, norm.vmin)[raster.cells]


def draw_density(axes: Any, raster: CellRaster, state: Array, norm: Any) -> Any:
    """The cells in their colours, cut at the outline; the image."""
    image = axes.imshow(
        raster_values(raster, state, norm),
        cmap=COLOURS,
        norm=norm,
        extent=raster.extent,
        origin="lower",
        interpolation="antialiased",
        interpolation_stage="rgba",
    )
    image.set_clip_path(draw_outline(axes, raster.projection))
    return image


def draw_outline(
    axes: Any, projection: Projection, fill: str = "none", graticule: bool = True
) -> Any:
    """The sphere's outline, and faint meridians and parallels every 30 degrees."""
    from matplotlib.patches import Ellipse

    size = 2.0 * projection.half_width, 2.0 * projection.half_height
    axes.add_patch(Ellipse((0.0, 0.0), *size, facecolor=fill, edgecolor="none", zorder=0))
    edge = Ellipse((0.0, 0.0), *size, facecolor="none", edgecolor="0.3", lw=0.6, zorder=3)
    axes.add_patch(edge)
    for curve in _graticule() if graticule else []:
        _draw_curve(axes, projection, curve, color="0.7", lw=0.35, alpha=0.5, zorder=2)
    return edge


def draw_points(axes: Any, projection: Projection, points: Array, weights: Array | None) -> Any:
    """Particles as dots, a dot's area is its share of the mass; the collection of dots."""
    places, seen = projection.project(points)
    share = np.ones(len(points)) if weights is None else weights / np.mean(weights)
    # Many particles: smaller dots, but still dots that print.
    size = np.clip(1500.0 / len(points), 1.5, 14.0) * share
    return axes.scatter(
        *places[seen].T,
        s=size[seen],
        color=INK,
        alpha=0.75,
        linewidths=0.2,
        edgecolors="w",
        zorder=4,
        clip_on=False,
    )


def draw_marks(
    axes: Any, projection: Projection, marks: Marks, colour: str = "w", halo: str = "0.15"
) -> None:
    """Eigenspaces: crosses at the two points of a line, a dashed circle for a plane."""
    from matplotlib.patheffects import withStroke

    look = {"color": colour, "path_effects": [withStroke(linewidth=1.6, foreground=halo)]}
    for label, space in marks.items():
        if space.shape[1] == 1:
            ends = np.array([space[:, 0], -space[:, 0]])
            places, seen = projection.project(ends)
            anchors = places[seen]
            axes.plot(*anchors.T, "x", ms=4, mew=1.0, zorder=5, clip_on=False, **look)
        elif space.shape[1] == 2 and space.shape[0] == 3:
            angle = np.linspace(0.0, 2.0 * np.pi, 361)
            circle = np.column_stack([np.cos(angle), np.sin(angle)]) @ space.T
            _draw_curve(axes, projection, circle, lw=0.9, ls="--", zorder=5, **look)
            places, seen = projection.project(circle)
            # Labelled once, left of the middle.
            away = np.where(seen, np.abs(places[:, 0] + 0.5 * projection.half_width), np.inf)
            anchors = places[[np.argmin(away)]]
        else:
            continue  # the whole space: nothing to mark
        for anchor in anchors:
            # Towards the middle of the panel, so that the label stays on it.
            side = -1.0 if anchor[0] > 0 else 1.0
            axes.annotate(
                label,
                anchor,
                xytext=(4.0 * side, 3.0),
                textcoords="offset points",
                ha="right" if side < 0 else "left",
                fontsize=7.5,
                zorder=6,
                **look,
            )


def draw_clusters(
    axes: Any,
    projection: Projection,
    found: Sequence[Cluster],
    colour: str = "w",
    halo: str = "0.15",
) -> None:
    """Rings around clusters, with their shares of the mass."""
    from matplotlib.patheffects import withStroke

    look = {"color": colour, "path_effects": [withStroke(linewidth=1.6, foreground=halo)]}
    for cluster in found:
        places, seen = projection.project(cluster.center[None, :])
        if not seen[0]:
            continue
        axes.plot(*places.T, "o", ms=11, mfc="none", mew=0.9, zorder=5, clip_on=False, **look)
        side = -1.0 if places[0, 0] > 0 else 1.0
        axes.annotate(
            f"{100.0 * cluster.share:.0f} %",
            places[0],
            xytext=(7.0 * side, -4.0),
            textcoords="offset points",
            ha="right" if side < 0 else "left",
            va="top",
            fontsize=7.0,
            zorder=6,
            **look,
        )


def draw_flow(axes: Any, projection: Projection, flow: Flow, colour: str = "w") -> Any:
    """Streamlines of a tangent field, thicker where it is faster; None where it vanishes.

    The field is carried over by the projection's differential, taken as a small difference.
    """
    width, height = projection.half_width, projection.half_height
    x = np.linspace(-width, width, round(FLOW_ROWS * width / height))
    y = np.linspace(-height, height, FLOW_ROWS)
    places = np.stack(np.meshgrid(x, y), axis=-1)
    inside = (places[..., 0] / width) ** 2 + (places[..., 1] / height) ** 2 < 0.985
    points = projection.unproject(places[inside])
    velocity = flow(points)
    speed = np.linalg.norm(velocity, axis=1)
    fastest = speed.max()
    if not fastest > 0.0:
        return None
    moved = points + 1e-4 * velocity / fastest
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    shift = projection.project(moved)[0] - projection.project(points)[0]
    shift[np.abs(shift[:, 0]) > width] = 0.0  # across the seam of a map
    across, up, thickness = np.zeros((3, *inside.shape))
    across[inside], up[inside] = 1e4 * shift.T
    thickness[inside] = np.sqrt(speed / fastest)
    # As many lines to the inch in every panel.
    density = 0.45 * axes.bbox.height / axes.figure.dpi
    lines = axes.streamplot(
        x,
        y,
        np.ma.array(across, mask=~inside),
        np.ma.array(up, mask=~inside),
        density=(density * width / height, density),
        color=colour,
        linewidth=0.25 + 0.75 * thickness,
        arrowsize=0.5,
        arrowstyle="-|>",
        zorder=2.5,
        broken_streamlines=True,
    )
    lines.lines.set_alpha(0.75)
    return lines


def _graticule() -> list[Array]:
    """Meridians and parallels every 30 degrees as (m, 3) curves."""
    fine = np.linspace(-np.pi, np.pi, 241)
    curves = []
    for latitude in np.radians([-60, -30, 0, 30, 60]):
        ring = np.column_stack([np.cos(fine), np.sin(fine), np.full_like(fine, np.tan(latitude))])
        curves.append(ring / np.linalg.norm(ring, axis=1, keepdims=True))
    arc = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 121)
    for longitude in np.radians(np.arange(0, 360, 30)):
        curves.append(
            np.column_stack(
                [np.cos(arc) * np.cos(longitude), np.cos(arc) * np.sin(longitude), np.sin(arc)]
            )
        )
    return curves


def _draw_curve(axes: Any, projection: Projection, curve: Array, **look: Any) -> None:
    """A curve on the sphere, broken where it leaves the sight or jumps across a map."""
    places, seen = projection.project(curve)
    places = np.where(seen[:, None], places, np.nan)
    jumps = np.flatnonzero(np.abs(np.diff(places[:, 0])) > projection.half_width) + 1
    axes.plot(*np.insert(places, jumps, np.nan, axis=0).T, **look)
