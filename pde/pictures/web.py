"""A solution as one web page: a sphere to turn and a slider for the time, without any network.

The page (`viewer.html`) holds its data: cell corners to 16 bits, for each time one of 256 colours
a cell, deflated and in base64. 40,962 cells at 50 times take 1 to 3 MB.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array
from pde.pictures.panels import COLOURS, Marks, density_norm, refuse_infinite
from pde.pictures.plotting import VIEW
from pde.results.files import path_of, whole_file

if TYPE_CHECKING:
    from pde.solution import Solution

PAGE = Path(__file__).with_name("viewer.html")

PLACE_FOR_DATA = "/*DATA*/null"

UNIT = 32767
"""A unit vector's coordinate 1, as a 16-bit integer."""


def export_html(
    solution: Solution, path: str | Path, marks: Marks | None = None, title: str = ""
) -> None:
    """Write a solution on the sphere, cells or particles, as a page of its own.

    marks : eigenspaces by their label, as in pictures

    Raises ValueError for solutions without states, with states that are not finite or not on the
    sphere in R^3.
    """
    path = path_of("path", path)
    if not len(solution.times):
        raise ValueError(f"the solution holds no states, so nothing was written to {path}")
    mesh = solution.mesh
    dim = solution.states.shape[-1] if mesh is None else mesh.ambient_dim
    if dim != 3:
        raise ValueError(f"a page shows the sphere in R^3, the solution is of d = {dim}")
    count = len(solution.times)
    things = f"{mesh.n_cells:,} cells" if mesh else f"{solution.states.shape[1]:,} particles"
    content: dict[str, Any] = {
        "title": title or "Density on the sphere",
        "what": f"{things}, {count} time{'s' if count > 1 else ''}; drag to turn, scroll to zoom",
        "times": solution.times.tolist(),
        "view": VIEW,
        "marks": [
            {"label": label, "vectors": space.T.tolist()}
            for label, space in (marks or {}).items()
            if space.shape[1] < 3
        ],
        "colours": _packed(_colour_table()),
    }
    if mesh is None:
        refuse_infinite(list(solution.states))
        places = np.round(UNIT * solution.directions).astype("<i2")
        content["particles"] = {"n": places.shape[1], "positions": _packed(places)}
    else:
        states = solution.states if solution.states.ndim == 2 else solution.states[:, :, 0]
        content |= _cells(mesh, states)
    # "<" could end the script element early.
    text = json.dumps(content).replace("<", "\\u003c")
    page = PAGE.read_text(encoding="utf-8").replace(PLACE_FOR_DATA, text)
    with whole_file(path, "w") as file:
        file.write(page)


def _cells(mesh: SphereMesh, states: Array) -> dict[str, Any]:
    """The cells and, for each time, their colours; the scale that these stand for."""
    norm = density_norm(mesh, list(states))
    levels = np.round(255.0 * np.clip(norm(np.maximum(states, norm.vmin)), 0.0, 1.0))
    return {
        "scale": {
            "low": norm.vmin,
            "high": norm.vmax,
            "log": type(norm).__name__ == "LogNorm",
        },
        "cells": {
            "n": mesh.n_cells,
            "corners": _packed(np.round(UNIT * mesh.vertices).astype("<i2")),
            "counts": _packed(np.diff(mesh.cell_offsets).astype(np.uint8)),
            "cell_corners": _packed(mesh.cell_vertices.astype("<u4")),
            "values": _packed(levels.filled(0.0).astype(np.uint8)),
        },
    }


def _colour_table() -> np.ndarray:
    """(256, 3) bytes."""
    import matplotlib

    table = matplotlib.colormaps[COLOURS](np.arange(256), bytes=True)
    return np.ascontiguousarray(table[:, :3])


def _packed(array: np.ndarray) -> Mapping[str, str]:
    """An array for the page: its type, and its bytes (little-endian), deflated, in base64."""
    data = zlib.compress(np.ascontiguousarray(array).tobytes(), 9)
    return {"type": array.dtype.name, "base64": base64.b64encode(data).decode()}
