"""The pictures of a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pde import Solution, limits
from pde.analysis.clusters import clusters
from pde.arguments import Array
from pde.cells.nodes import cell_measure
from pde.field import Field
from pde.pictures import plotting
from sphere_attention_scripts.comparison import COLUMNS, LimitLaw

MOST_PICTURES = 10
"""States in one picture; of more saved ones, as many are chosen evenly."""


MOST_COMPARED = 5
"""States beside particles: four panels each, so one row of them."""


def draw_run(
    solution: Solution,
    particles: Solution | None,
    field: Field,
    series: dict[str, Array],
    limit: LimitLaw | None,
    title: str,
    out: Path,
) -> None:
    """Pictures of the saved states, of the particles beside them, and of the table's columns."""
    chosen = _evenly(len(solution.times), MOST_PICTURES)
    mesh, times = solution.mesh, solution.times[chosen]
    states = [solution.states[i] for i in chosen]
    labels = [f"$t = {t:.4g}$" for t in times]
    clouds = None if particles is None else [particles.states[i] for i in chosen]
    weights = None if particles is None else particles.weights
    figures: dict[str, Any] = {}
    assert mesh is not None
    if mesh.ambient_dim == 2:
        figures["density"] = plotting.circle_figure(mesh, states, labels, title, clouds, weights)
    else:
        marks = marks_of(field, limit)
        measures = [cell_measure(mesh, state, None) for state in states]
        found = [clusters(mu) for mu in measures]
        flows = plotting.flows(field, measures, times)
        figures["sphere"] = plotting.sphere_figure(mesh, states, labels, marks, title, found=found)
        figures["map"] = plotting.map_figure(mesh, states, labels, marks, title, flows=flows)
        if clouds is not None:
            few = _evenly(len(states), MOST_COMPARED)
            figures["comparison"] = plotting.comparison_figure(
                mesh,
                [states[i] for i in few],
                [clouds[i] for i in few],
                [labels[i] for i in few],
                weights,
                marks,
                title,
            )
    named = {COLUMNS[name].title: values for name, values in series.items() if name != "t"}
    figures["series"] = plotting.series_figure(series["t"], named, title)
    for name, figure in figures.items():
        plotting.save_figure(figure, out / f"{name}.png")


def _evenly(count: int, most: int) -> NDArray[np.intp]:
    """At most so many of the numbers 0 ... count - 1, the first and the last among them."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)


def marks_of(field: Any, limit: LimitLaw | None) -> dict[str, Array]:
    """The limit space E and the terminal space F, where they are and are not everything."""
    if limit is None:
        return {}
    V = field.V
    with contextlib.suppress(ValueError):
        F = limits.terminal_space(V) if np.allclose(V, V.T) else np.eye(len(V))
        if F.shape == limit.E.shape and np.allclose(np.abs(F.T @ limit.E), np.eye(F.shape[1])):
            return {"E = F": limit.E}
        return {"E": limit.E, "F": F}
    return {"E": limit.E}
