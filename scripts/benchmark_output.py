"""What results and pictures cost: size on the disk, time per save, time per picture."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, PrescribedVelocity, Simulation, Solution
from pde.pictures import plotting
from pde.pictures.web import export_html
from pde.restart import write_restart
from pde.results.storage import ResultWriter

Row = Sequence[object]


def concentrating_states(mesh: SphereMesh, count: int) -> list[np.ndarray]:
    """Densities that move from nearly uniform to a narrow spot, with all digits in use."""
    height = mesh.centers @ np.array([0.6, 0.0, 0.8])
    states = [np.exp(kappa * (height - 1.0)) for kappa in np.geomspace(0.1, 200.0, count)]
    return [state / (state @ mesh.areas) for state in states]


def output_figures(quick: bool) -> tuple[str, Sequence[str], list[Row]]:
    """Title, header and rows of the table."""
    frequency, saves = (4, 5) if quick else (128, 100)
    mesh = icosphere(frequency)
    states = concentrating_states(mesh, saves)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.nc"
        writer = ResultWriter(path, mesh=mesh, state_shape=states[0].shape)
        begin = time.perf_counter()
        for k, state in enumerate(states):
            writer.append(float(k), state, {"mass": 1.0})
        rows.append(("one save, synced to disk", "s", (time.perf_counter() - begin) / saves))
        rows.append(("file while running", "MB", path.stat().st_size / 1e6))
        begin = time.perf_counter()
        writer.close()
        rows.append(("closing (compression)", "s", time.perf_counter() - begin))
        rows.append(("file at the end", "MB", path.stat().st_size / 1e6))
        begin = time.perf_counter()
        Solution.open(path)
        rows.append(("opening", "s", time.perf_counter() - begin))
        rows += restart_figures(mesh, states[-1], Path(folder) / "restart.npz")
        shown = icosphere(4 if quick else 64)
        states = concentrating_states(shown, 4)
        solution = Solution(np.arange(4.0), np.array(states), mesh=shown)
        begin = time.perf_counter()
        plotting.save_figure(plotting.solution_figure(solution), Path(folder) / "picture.png")
        picture = f"picture of 4 states, 12 panels, {shown.n_cells} cells"
        rows.append((picture, "s", time.perf_counter() - begin))
        rows += page_figures(shown, 3 if quick else 50, Path(folder) / "page.html")
    return f"{saves} saves of {mesh.n_cells} cells", ("what", "unit", "measured"), rows


def restart_figures(mesh: SphereMesh, state: np.ndarray, path: Path) -> list[Row]:
    """A restart file; the right-hand side that goes into it is cheap here."""
    rotation = PrescribedVelocity(lambda x, t: np.cross([0.0, 0.0, 1.0], x))
    sim = Simulation(FiniteVolume(mesh, Equation(rotation), order=1), state)
    write_restart(path, sim, {})
    begin = time.perf_counter()
    write_restart(path, sim, {})
    return [
        ("restart file, synced to disk", "s", time.perf_counter() - begin),
        ("restart file", "MB", path.stat().st_size / 1e6),
    ]


def page_figures(mesh: SphereMesh, count: int, path: Path) -> list[Row]:
    """A web page."""
    states = np.array(concentrating_states(mesh, count))
    solution = Solution(np.arange(float(count)), states, mesh=mesh)
    begin = time.perf_counter()
    export_html(solution, path)
    what = f"web page of {count} states, {mesh.n_cells} cells"
    return [(what, "s", time.perf_counter() - begin), (what, "MB", path.stat().st_size / 1e6)]
