"""Animations: the saved states of a solution one after the other, as .gif or .mp4.

GIF needs nothing but matplotlib (with Pillow); MP4 needs the program ffmpeg.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pde.arguments import positive
from pde.pictures.panels import (
    Marks,
    Row,
    Sheet,
    density_norm,
    draw_density,
    draw_marks,
    draw_outline,
    draw_points,
    raster_values,
    style,
)
from pde.pictures.plotting import VIEW, circle_figure, unrolled
from pde.pictures.projections import CellRaster, Flat, Orthographic
from pde.results.files import path_of, replace

if TYPE_CHECKING:
    from pde.solution import Solution

PANEL, DPI = 2.4, 150
"""Width of a panel in inches, and pixels per inch."""

SLOWEST, FASTEST = 0.01, 1000.0
"""Frames a second that the formats know."""

Frames = tuple[Any, Callable[[int], Any]]
"""A figure, and what puts the i-th state into it."""


def animate(
    solution: Solution,
    path: str | Path,
    marks: Marks | None = None,
    title: str = "",
    frames_per_second: float = 10.0,
    toward: Any = VIEW,
) -> None:
    """Write the states as frames: the sphere from `toward` and from behind, or the circle.

    path : .gif, or .mp4 where the program ffmpeg is installed

    Raises ValueError for other endings and for what cannot be drawn, RuntimeError without ffmpeg.
    """
    path = path_of("path", path)
    rate = positive("frames_per_second", frames_per_second)
    if not SLOWEST <= rate <= FASTEST:
        raise ValueError(
            f"frames_per_second must be from {SLOWEST:g} to {FASTEST:g}, got {rate:.3g}"
        )
    writer = _writer(path, rate)
    if not len(solution.times):
        raise ValueError(f"the solution holds no states, so nothing was written to {path}")
    # The writers go by the ending.
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    with style():
        figure, show = _frames(solution, marks or {}, title, toward)
        try:
            with writer.saving(figure, str(part), DPI):
                for i in range(len(solution.times)):
                    show(i)
                    writer.grab_frame()
            replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def _writer(path: Path, rate: Any) -> Any:
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if path.suffix == ".gif":
        return PillowWriter(fps=rate)
    if path.suffix != ".mp4":
        raise ValueError(f"path must end in .gif or .mp4, got {path}")
    if not FFMpegWriter.isAvailable():
        raise RuntimeError(
            f"{path}: .mp4 needs the program ffmpeg, which is not installed; .gif needs none"
        )
    # Players and browsers want even sizes and this colour format.
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p"]
    return FFMpegWriter(fps=rate, extra_args=even)


def _frames(solution: Solution, marks: Marks, title: str, toward: Any) -> Frames:
    if solution.mesh is None:
        return _particles(solution, marks, title, toward)
    if solution.mesh.ambient_dim == 2:
        return _circle(solution, title)
    return _cells(solution, marks, title, toward)


def _sides(toward: Any) -> list[Row]:
    """Both sides, next to each other."""
    front = Orthographic(toward)
    return [Row("", front), Row("", front.opposite)]


def _label(solution: Solution, i: int) -> str:
    return f"$t = {solution.times[i]:.4g}$"


def _cells(solution: Solution, marks: Marks, title: str, toward: Any) -> Frames:
    mesh = solution.mesh
    assert mesh is not None
    states = solution.states if solution.states.ndim == 2 else solution.states[:, :, 0]
    norm = density_norm(mesh, list(states))
    front, back = _sides(toward)
    sheet = Sheet([front], 2, PANEL, columns=2, title=title, bar=True)
    rasters = [CellRaster(mesh, row.projection, round(PANEL * DPI)) for row in (front, back)]
    images = []
    for k, raster in enumerate(rasters):
        (axes,) = sheet.panels(k, "")
        images.append(draw_density(axes, raster, states[0], norm))
        draw_marks(axes, raster.projection, marks)
    sheet.bar(norm, "density")

    def show(i: int) -> None:
        sheet.labels[0].set_text(f"{_label(solution, i)},  front")
        sheet.labels[1].set_text("back")
        for raster, image in zip(rasters, images, strict=True):
            image.set_data(raster_values(raster, states[i], norm))

    return sheet.figure, show


def _particles(solution: Solution, marks: Marks, title: str, toward: Any) -> Frames:
    d = solution.states.shape[2]
    if d not in (2, 3):
        raise ValueError(f"particles can be drawn for d = 2 and 3, got d = {d}; project them first")
    rows = _sides(toward) if d == 3 else [Row("", Flat())]
    sheet = Sheet(rows[:1], len(rows), PANEL, columns=2, title=title, bar=False)
    panels = [sheet.panels(k, "")[0] for k in range(len(rows))]
    for row, axes in zip(rows, panels, strict=True):
        draw_outline(axes, row.projection, fill="0.97", graticule=d == 3)
        draw_marks(axes, row.projection, marks, colour="0.1", halo="w")
    dots: list[Any] = []
    points = solution.directions

    def show(i: int) -> None:
        sheet.labels[0].set_text(_label(solution, i) + (",  front" if d == 3 else ""))
        sheet.labels[-1].set_text("back" if d == 3 else sheet.labels[0].get_text())
        while dots:
            dots.pop().remove()
        for row, axes in zip(rows, panels, strict=True):
            dots.append(draw_points(axes, row.projection, points[i], solution.weights))

    return sheet.figure, show


def _circle(solution: Solution, title: str) -> Frames:
    mesh = solution.mesh
    assert mesh is not None
    states = solution.states if solution.states.ndim == 2 else solution.states[:, :, 0]
    # Drawn with the highest, whose scale suits all; then filled with one at a time.
    highest = int(np.argmax(states.max(axis=1)))
    figure = circle_figure(mesh, [states[highest]], [_label(solution, highest)], title)
    axes = figure.axes[0]
    (curve,) = axes.patches
    text = axes.get_legend().get_texts()[0]
    order, _ = unrolled(mesh)

    def show(i: int) -> None:
        text.set_text(_label(solution, i))
        curve.set_data(values=states[i][order])

    return figure, show
