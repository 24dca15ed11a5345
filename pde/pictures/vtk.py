"""Results for ParaView and other VTK programs: one state as .vtu, a whole solution as .pvd.

Cells are written as VTK polygons (sphere) or lines (circle), particles as vertices, with density,
mass or weight on them. Needs the package meshio.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array
from pde.results.files import path_of, whole_file, written_beside
from pde.solution import Solution, directions


def export_vtk(solution: Solution, path: str | Path, time: float | None = None) -> list[Path]:
    """Write a solution for VTK; the files written, `path` first.

    path : .vtu for one state, .pvd for all: then the states lie in a folder beside it
    time : of the state for .vtu, the nearest saved one; None: the last

    Raises ValueError for other endings and for what has no place in space (particles of d > 3),
    ImportError without the package meshio.
    """
    path = path_of("path", path)
    if path.suffix not in (".vtu", ".pvd"):
        raise ValueError(f"path must end in .vtu (one state) or .pvd (all of them), got {path}")
    if not len(solution.times):
        raise ValueError(f"the solution holds no states, so nothing was written to {path}")
    if path.suffix == ".vtu":
        _write_state(
            solution, len(solution.times) - 1 if time is None else solution.index(time), path
        )
        return [path]
    folder = path.with_name(path.stem + "_states")
    folder.mkdir(exist_ok=True)
    states = [folder / f"{i:05d}.vtu" for i in range(len(solution.times))]
    for i, state in enumerate(states):
        _write_state(solution, i, state)
    with whole_file(path, "w") as file:
        file.write(_collection(solution.times, [f"{folder.name}/{s.name}" for s in states]))
    return [path, *states]


def _collection(times: Array, names: list[str]) -> str:
    """ParaView's list of the files of each time."""
    entries = [
        f"    <DataSet timestep={quoteattr(repr(float(t)))} file={quoteattr(name)}/>"
        for t, name in zip(times, names, strict=True)
    ]
    head = '<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1">\n  <Collection>\n'
    return head + "\n".join(entries) + "\n  </Collection>\n</VTKFile>\n"


def _write_state(solution: Solution, i: int, path: Path) -> None:
    try:
        import meshio
    except ImportError as missing:
        raise ImportError(
            "writing for VTK needs the package meshio (python -m pip install meshio)"
        ) from missing
    state = solution.states[i]
    if solution.mesh is not None:
        points, blocks, data = _cells(solution.mesh, state)
    else:
        points, blocks, data = _particles(directions(state), solution.weights)
    grid = meshio.Mesh(points, blocks, cell_data=data)
    with written_beside(path) as part:
        meshio.write(part, grid, file_format="vtu")


Blocks = list[tuple[str, np.ndarray]]
Data = dict[str, list[np.ndarray]]


def _cells(mesh: SphereMesh, state: Array) -> tuple[Array, Blocks, Data]:
    """Corners, cells in blocks of equally many corners, and what is known on each block."""
    counts = np.diff(mesh.cell_offsets)
    groups = [np.flatnonzero(counts == count) for count in np.unique(counts)]
    kind = "polygon" if mesh.ambient_dim == 3 else "line"
    blocks = [
        (kind, mesh.cell_vertices[mesh.cell_offsets[cells][:, None] + np.arange(counts[cells[0]])])
        for cells in groups
    ]
    fields = state[:, None] if state.ndim == 1 else state
    names = ["density"] if state.ndim == 1 else [f"density_{j + 1}" for j in range(state.shape[1])]
    known: dict[str, Any] = {"cell": np.arange(mesh.n_cells), "area": mesh.areas}
    known |= {name: fields[:, j] for j, name in enumerate(names)}
    return (
        _in_space(mesh.vertices),
        blocks,
        {name: [values[cells] for cells in groups] for name, values in known.items()},
    )


def _particles(state: Array, weights: Array | None) -> tuple[Array, Blocks, Data]:
    n = len(state)
    masses = np.full(n, 1.0 / n) if weights is None else weights
    return _in_space(state), [("vertex", np.arange(n)[:, None])], {"weight": [masses]}


def _in_space(points: Array) -> Array:
    """(n, 3) coordinates."""
    d = points.shape[1]
    if d > 3:
        raise ValueError(f"VTK knows up to 3 dimensions, got d = {d}; project the particles first")
    return np.pad(points, ((0, 0), (0, 3 - d)))
