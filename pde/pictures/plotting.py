"""Pictures: densities and particles on the sphere and the circle, and time series.

`solution_figure` draws a solution at a few of its times; the others draw one kind of panel each.
All return a matplotlib Figure that belongs to no window (no pyplot): they work everywhere and leave
no state behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meshes import SphereMesh
from pde.analysis.clusters import Cluster, clusters
from pde.arguments import Array, real_array
from pde.cells.nodes import cell_measure
from pde.measure import Measure
from pde.pictures.panels import (
    COLOURS,
    DECADES,
    INK,
    Flow,
    Marks,
    Row,
    Sheet,
    density_norm,
    draw_clusters,
    draw_density,
    draw_flow,
    draw_marks,
    draw_outline,
    draw_points,
    is_concentrated,
    refuse_infinite,
    style,
    wrapped,
)
from pde.pictures.projections import CellRaster, Flat, Mollweide, Orthographic
from pde.results.files import path_of, whole_file
from pde.solution import Solution, directions

if TYPE_CHECKING:
    from pde.field import Field

VIEW = (1.0, 1.0, 0.6)
"""Where the observer of the front stands: e1 on the left, e2 on the right, e3 above."""

MIDDLE = 0.25 * np.pi
"""Longitude in the middle of a map, the observer's: no axis of coordinates lies on the rim."""

DPI = 220

DOTS = 60
"""So many groups of particles are shown on the circle, at least, where there are as many."""

OVERSAMPLING = 1.5
"""Pixels of a raster for one of the picture's: the edges of cells come out smooth."""


def solution_figure(
    solution: Solution,
    times: Sequence[float] | None = None,
    marks: Marks | None = None,
    title: str = "",
    field: Field | None = None,
    show_clusters: bool = False,
) -> Any:
    """The states nearest to `times` side by side (None: up to four, evenly chosen).

    Densities on the sphere are shown from the front, from the back and as a map, densities on the
    circle over the angle, particles (d = 2, 3) as dots.

    field : its streamlines are drawn over densities on the sphere
    show_clusters : clusters are marked with their shares of the mass (see `pde.analysis.clusters`)
    """
    count = len(solution.times)
    if times is None:
        shown = np.unique(np.linspace(0, count - 1, min(count, 4)).round().astype(int)).tolist()
    else:
        shown = [solution.index(t) for t in times]
    if not shown:
        raise ValueError("there is no state to draw: the solution or `times` is empty")
    labels = [f"$t = {solution.times[i]:.4g}$" for i in shown]
    states, mesh = [solution.states[i] for i in shown], solution.mesh
    refuse_infinite(states)
    if mesh is None:
        states = [directions(state) for state in states]
        found = _clusters([Measure(x, solution.weights) for x in states]) if show_clusters else None
        return cloud_figure(states, labels, solution.weights, marks, title, found=found)
    states = [state if state.ndim == 1 else state[:, 0] for state in states]
    if mesh.ambient_dim == 2:
        return circle_figure(mesh, states, labels, title)
    measures = [cell_measure(mesh, state, None) for state in states]
    return _density_figure(
        mesh,
        states,
        labels,
        [*_both_sides(VIEW), Row("map", Mollweide(MIDDLE))],
        marks,
        title,
        flows=flows(field, measures, solution.times[shown]) if field is not None else None,
        found=_clusters(measures) if show_clusters else None,
    )


def flows(field: Field, measures: Sequence[Measure], times: Sequence[float] | Array) -> list[Flow]:
    """The velocity of `field` for each of the measures at its time, as pictures take it."""

    def flow(mu: Measure, t: float) -> Flow:
        return lambda x: field.velocity(x, mu, t)

    return [flow(mu, float(t)) for mu, t in zip(measures, times, strict=True)]


def _clusters(measures: Sequence[Measure]) -> list[list[Cluster]]:
    return [clusters(mu) for mu in measures]


def sphere_figure(
    mesh: SphereMesh,
    states: Sequence[Array],
    labels: Sequence[str],
    marks: Marks | None = None,
    title: str = "",
    toward: Any = VIEW,
    flows: Sequence[Flow] | None = None,
    found: Sequence[Sequence[Cluster]] | None = None,
) -> Any:
    """Densities (N,) seen from `toward` and from the opposite side, a column for each.

    flows : a tangent field for each, whose streamlines are drawn (see `flows`)
    found : clusters of each, which are marked (see `pde.analysis.clusters`)
    """
    rows = _both_sides(toward)
    return _density_figure(mesh, states, labels, rows, marks, title, flows=flows, found=found)


def map_figure(
    mesh: SphereMesh,
    states: Sequence[Array],
    labels: Sequence[str],
    marks: Marks | None = None,
    title: str = "",
    flows: Sequence[Flow] | None = None,
    found: Sequence[Sequence[Cluster]] | None = None,
) -> Any:
    """Densities (N,) on maps of the whole sphere, areas true to scale; as in `sphere_figure`."""
    rows = [Row("", Mollweide(MIDDLE))]
    return _density_figure(
        mesh, states, labels, rows, marks, title, panel=2.5, columns=3, flows=flows, found=found
    )


def comparison_figure(
    mesh: SphereMesh,
    states: Sequence[Array],
    clouds: Sequence[Array],
    labels: Sequence[str],
    weights: Array | None = None,
    marks: Marks | None = None,
    title: str = "",
    toward: Any = VIEW,
) -> Any:
    """Densities (N,) above the particles (n, 3) at the same times, from both sides."""
    states = [real_array("state", state, ndim=1) for state in states]
    norm, front = density_norm(mesh, states), Orthographic(toward)
    views = [front, front.opposite]
    rows = [
        Row(f"{what}, {side}", view)
        for side, view in zip(("front", "back"), views, strict=True)
        for what in ("cells", "particles")
    ]
    rasters = [CellRaster(mesh, view, round(OVERSAMPLING * DPI * 1.7)) for view in views]
    with style():
        sheet = Sheet(rows, len(states), panel=1.7, columns=5, title=title, bar=True)
        for k, (state, cloud) in enumerate(zip(states, clouds, strict=True)):
            panels = sheet.panels(k, labels[k])
            for raster, above, below in zip(rasters, panels[::2], panels[1::2], strict=True):
                draw_density(above, raster, state, norm)
                draw_marks(above, raster.projection, marks or {})
                draw_outline(below, raster.projection, fill="0.97")
                draw_points(below, raster.projection, cloud, weights)
                draw_marks(below, raster.projection, marks or {}, colour="0.1", halo="w")
        sheet.bar(norm, "density")
        return sheet.figure


def cloud_figure(
    clouds: Sequence[Array],
    labels: Sequence[str],
    weights: Array | None = None,
    marks: Marks | None = None,
    title: str = "",
    toward: Any = VIEW,
    found: Sequence[Sequence[Cluster]] | None = None,
) -> Any:
    """Particles (n, d) as dots with areas in proportion to their weights, d = 2 or 3.

    found : clusters of each, which are marked (see `pde.analysis.clusters`)
    """
    d = clouds[0].shape[1]
    if d not in (2, 3):
        raise ValueError(f"particles can be drawn for d = 2 and 3, got d = {d}; project them first")
    rows = _both_sides(toward) if d == 3 else [Row("", Flat())]
    with style():
        sheet = Sheet(rows, len(clouds), panel=1.7, columns=5, title=title, bar=False)
        for k, cloud in enumerate(clouds):
            for row, axes in zip(rows, sheet.panels(k, labels[k]), strict=True):
                draw_outline(axes, row.projection, fill="0.97", graticule=d == 3)
                draw_points(axes, row.projection, cloud, weights)
                draw_marks(axes, row.projection, marks or {}, colour="0.1", halo="w")
                if found is not None:
                    draw_clusters(axes, row.projection, found[k], colour="0.1", halo="w")
        return sheet.figure


def circle_figure(
    mesh: SphereMesh,
    states: Sequence[Array],
    labels: Sequence[str],
    title: str = "",
    clouds: Sequence[Array] | None = None,
    weights: Array | None = None,
) -> Any:
    """Densities (N,) on the circle over the angle, one curve for each.

    clouds : particles (n, 2) at the same times; dots are mass per arc of groups of neighbours
    """
    import matplotlib
    from matplotlib.figure import Figure

    order, edges = unrolled(mesh)
    colours = matplotlib.colormaps[COLOURS](np.linspace(0.0, 0.85, len(states)))
    with style():
        figure = Figure(figsize=(4.8, 2.8), layout="constrained")
        axes = figure.subplots()
        for state, label, colour in zip(states, labels, colours, strict=True):
            values = real_array("state", state, ndim=1)[order]
            axes.stairs(values, edges, baseline=None, color=colour, label=label)
        for cloud, colour in zip(clouds if clouds is not None else (), colours, strict=False):
            places, density = _arcs(cloud, weights)
            axes.plot(places, density, "o", ms=2.5, mec="w", mew=0.3, color=colour, zorder=3)
        if is_concentrated(mesh, states):
            peak = max(state.max() for state in states)
            axes.set_yscale("log")
            axes.set_ylim(peak * 10.0**-DECADES, 2.0 * peak)
        else:
            axes.set_ylim(bottom=0.0)
        axes.set_xlim(-np.pi, np.pi)
        names = [r"$-\pi$", r"$-\pi/2$", "$0$", r"$\pi/2$", r"$\pi$"]
        axes.set_xticks(np.pi * np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), names)
        axes.set_xlabel("angle")
        axes.set_ylabel("density")
        axes.set_title(wrapped(title, 4.8), loc="left", fontsize=9)
        if clouds is not None:
            axes.plot([], [], "o", ms=2.5, color="0.4", label="particles")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure


def _arcs(cloud: Array, weights: Array | None) -> tuple[Array, Array]:
    """Particles (n, 2) in groups of neighbours: angles in (-pi, pi] and densities there.

    A group has the arc between the middles of the gaps to the next groups.
    """
    angle = np.arctan2(cloud[:, 1], cloud[:, 0])
    share = np.full(len(cloud), 1.0 / len(cloud)) if weights is None else weights
    order = np.argsort(angle)
    first = np.arange(0, len(order), max(1, len(order) // DOTS))
    mass = np.add.reduceat(share[order], first)
    angle = angle[order]
    gaps = 0.5 * (angle[first] + np.concatenate([[angle[-1] - 2.0 * np.pi], angle[first[1:] - 1]]))
    ends = np.append(gaps[1:], gaps[0] + 2.0 * np.pi)
    with np.errstate(divide="ignore"):  # particles on one point
        density = mass / (ends - gaps)
    return 0.5 * (gaps + ends), density


def unrolled(mesh: SphereMesh) -> tuple[NDArray[np.intp], Array]:
    """The cells of a circle from the angle -pi on, and the angles (n + 2,) between them.

    The cell across -pi comes twice, on both sides of the picture.
    """
    start = mesh.vertices[mesh.cell_vertices[mesh.cell_offsets[:-1]]]
    angle = np.arctan2(start[:, 1], start[:, 0])
    order = np.argsort(angle)
    edges = np.concatenate(
        [angle[order][-1:] - 2.0 * np.pi, angle[order], [angle[order][0] + 2.0 * np.pi]]
    )
    return np.concatenate([order[-1:], order]), edges


def series_figure(times: Array, series: Mapping[str, Array], title: str = "") -> Any:
    """Named (K,) arrays over time, a panel for each; those without numbers are left out.

    Positive ones that span more than a decade are drawn on a logarithmic scale.
    """
    from matplotlib.figure import Figure

    series = {name: np.asarray(v) for name, v in series.items() if np.isfinite(v).any()}
    if not series:
        raise ValueError("there is no series with finite numbers to draw")
    columns = 1 if len(series) < 4 else 2
    rows = -(-len(series) // columns)
    width = 3.6 * columns
    with style():
        figure = Figure(figsize=(width, 0.5 + 1.25 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (name, values) in zip(panels, series.items(), strict=False):
            axes.plot(times, values, color=INK, marker="o", ms=2.5)
            axes.set_title(name, loc="left", pad=3)
            _scale_series(axes, values[np.isfinite(values)])
        for axes in panels[len(series) :]:
            axes.set_axis_off()
        figure.supxlabel("$t$")
        figure.suptitle(wrapped(title, width), x=0.01, ha="left", fontsize=9)
        return figure


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in the format that the ending names (.png, .pdf, .svg).

    Raises ValueError for other endings, OSError where it cannot be written; an older file stays.
    """
    path = path_of("path", path)
    known = figure.canvas.get_supported_filetypes()
    ending = path.suffix.removeprefix(".").lower()
    if ending not in known:
        raise ValueError(f"path must end in .png, .pdf or .svg, got {path}")
    with style(), whole_file(path) as file:
        figure.savefig(file, format=ending, dpi=DPI)


def _both_sides(toward: Any) -> list[Row]:
    front = Orthographic(toward)
    return [Row("front", front), Row("back", front.opposite)]


def _density_figure(
    mesh: SphereMesh,
    states: Sequence[Array],
    labels: Sequence[str],
    rows: Sequence[Row],
    marks: Marks | None,
    title: str,
    panel: float = 1.7,
    columns: int = 5,
    flows: Sequence[Flow] | None = None,
    found: Sequence[Sequence[Cluster]] | None = None,
) -> Any:
    """A column of panels for each state, one colour scale for all."""
    states = [real_array("state", state, ndim=1) for state in states]
    norm = density_norm(mesh, states)
    rasters = [
        CellRaster(mesh, row.projection, round(OVERSAMPLING * DPI * row.height(panel)))
        for row in rows
    ]
    with style():
        sheet = Sheet(rows, len(states), panel, columns, title, bar=True)
        for k, state in enumerate(states):
            for raster, axes in zip(rasters, sheet.panels(k, labels[k]), strict=True):
                draw_density(axes, raster, state, norm)
                if flows is not None:
                    draw_flow(axes, raster.projection, flows[k])
                draw_marks(axes, raster.projection, marks or {})
                if found is not None:
                    draw_clusters(axes, raster.projection, found[k])
        sheet.bar(norm, "density")
        return sheet.figure


def _scale_series(axes: Any, values: Array) -> None:
    """A range in which a constant looks constant, and a logarithm where decades are spanned."""
    low, high = values.min(), values.max()
    size = max(abs(low), abs(high))
    if low > 0.0 and high > 10.0 * low:
        axes.set_yscale("log")
        return
    if high - low <= 1e-9 * size or size == 0.0:
        half = 0.05 * size if size > 0.0 else 1.0
        axes.set_ylim(low - half, high + half)
    axes.ticklabel_format(axis="y", scilimits=(-3, 4), useOffset=False, useMathText=True)
