"""What a large run costs: set-up, memory, each part of a step, each part of a save.

Times are wall seconds and, beside them, processor seconds of all threads: where both are equal a
part runs on one core, and on a busy machine only the latter say what a part costs.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meshes import icosphere
from pde import Equation, FiniteVolume, SelfAttention, Simulation, initial, limits
from pde.arguments import Array
from pde.restart import write_restart
from pde.results.storage import ResultWriter


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, and of all cores together."""

    wall: float
    cores: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cores - other.cores)

    def __truediv__(self, number: float) -> Cost:
        return Cost(self.wall / number, self.cores / number)


Row = tuple[str, str, Cost | float]
V, B, BETA = np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 4.0, 1.0]), 50.0
"""The default case; its matrices send the mass to +-e2 first."""

COARSE = 1e-6
"""A tolerance of the softmax sums far below the error of the scheme, not below rounding."""

COMPILES_ALL = 32
"""A mesh large enough for the fast softmax sums."""

STEPS = 3


def large_figures(
    quick: bool, frequencies: Sequence[int] | None = None
) -> tuple[str, Sequence[str], list[tuple[object, ...]]]:
    """Title, header and rows of the table: a column for each mesh.

    Each mesh has a process of its own, so that the peak of memory is its own.
    """
    sizes = list(frequencies or ((2, 4) if quick else (128, 256)))
    columns = [figures(n) if quick else _apart(n) for n in sizes]
    rows: list[tuple[object, ...]] = []
    for i, (what, unit, _) in enumerate(columns[0]):
        cells: list[object] = []
        for column in columns:
            value = column[i][2]
            cells += [value.wall, value.cores] if isinstance(value, Cost) else [value, ""]
        rows.append((what, unit, *cells))
    header = ["what", "unit"]
    for n in sizes:
        header += [f"{10 * n**2 + 2:,} cells", "all cores"]
    import numba

    return f"order 2, beta = {BETA:g}, {numba.get_num_threads()} thread(s)", header, rows


def _apart(frequency: int) -> list[Row]:
    """The figures of one mesh, from a new process."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(figures, frequency).result()


def figures(frequency: int) -> list[Row]:
    """What is measured on one mesh, each part after kernels have been compiled or loaded."""
    _parts(min(frequency, COMPILES_ALL))
    return _parts(frequency)


def _parts(frequency: int) -> list[Row]:
    field = SelfAttention(V, B, BETA)
    mesh, seconds = _timed(lambda: icosphere(frequency))
    rows: list[Row] = [("mesh", "s", seconds), ("memory with the mesh", "GB", peak_memory())]
    law = initial.random_band_limited(seed=1)
    system, seconds = _timed(lambda: FiniteVolume(mesh, Equation(field), order=2))
    rows.append(("reconstruction", "s", seconds))
    rho, seconds = _timed(lambda: system.initial_state(law))
    rows.append(("initial averages", "s", seconds))
    stage, first = _timed(lambda: system.stage(0.0, rho))
    _, again = _timed(lambda: system.stage(0.0, rho))
    rows.append(("interpolation of the velocity", "s", first - again))
    rows.append(("memory after the set-up", "GB", peak_memory()))
    mu, dt = system.measure(rho), stage.stable_step
    velocity = _best(lambda: field.velocity(mesh.centroids, mu))
    spots = system.measure(system.initial_state(two_spots))
    concentrated = _best(lambda: field.velocity(mesh.centroids, spots))
    coarse = SelfAttention(V, B, BETA, tolerance=COARSE)
    tolerant = _best(lambda: coarse.velocity(mesh.centroids, mu))
    whole = _best(lambda: system.stage(0.0, rho))
    fluxes = _best(lambda: stage.rhs(dt))
    rows += [
        ("velocity at the cells", "s", velocity),
        (f"the same, tolerance {COARSE:g}", "s", tolerant),
        ("the same, mass in two spots", "s", concentrated),
        ("velocity to the edges, bound", "s", whole - velocity),
        ("fluxes, limiter, divergence", "s", fluxes),
    ]
    simulation = Simulation(system, rho)
    _, seconds = _timed(lambda: simulation.run(STEPS * dt, save_at=[]))
    rows.append(("one step", "s", seconds / simulation.steps))
    rows.append(("step length at t = 0", "1e-3", 1e3 * dt))
    rows += _saving(simulation)
    rows += [
        ("peak memory", "GB", peak_memory()),
        ("peak memory", "kB a cell", 1e6 * peak_memory() / mesh.n_cells),
    ]
    return rows


def two_spots(x: Array) -> Array:
    """A density like that of later times: nearly all mass within 0.05 of +-e2."""
    return np.exp(1000.0 * (x[:, 1] ** 2 - 1.0)) + 1e-30


def _saving(simulation: Simulation) -> list[Row]:
    """What happens at each saved time, and at the end."""
    system, state = simulation.system, simulation.state
    assert isinstance(system, FiniteVolume)
    e = limits.limit_space(V, B)[:, 0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.nc"
        writer = ResultWriter(path, system.mesh, state_shape=state.shape)
        _, start = _timed(lambda: writer.append(0.0, state, {"mass": 1.0}))
        _, save = _timed(lambda: writer.append(1.0, state, {"mass": 1.0}))
        size = path.stat().st_size
        _, close = _timed(writer.close)
        _, restart = _timed(lambda: write_restart(Path(folder) / "restart.npz", simulation, {}))
    _, diagnostics = _timed(lambda: system.diagnostics(0.0, state))
    measure = system.measure(state)
    _, distance = _timed(lambda: limits.distance_to_pair(measure, e, 0.5))
    per_save = 8e-6 * len(state)
    return [
        ("start of the result file", "s", start),
        ("one save, synced", "s", save),
        ("restart file, synced", "s", restart),
        ("diagnostics", "s", diagnostics),
        ("W2 to the limit law", "s", distance),
        ("closing, 2 states", "s", close),
        ("file: mesh", "MB", size / 1e6 - 2.0 * per_save),
        ("file: each state", "MB", per_save),
    ]


def peak_memory() -> float:
    """The most memory that this process has held so far, in GB; NaN on Windows."""
    try:
        import resource
    except ImportError:
        return np.nan
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _timed(call: Callable[[], Any]) -> tuple[Any, Cost]:
    """What a call returns, and what it costs."""
    wall, cores = time.perf_counter(), time.process_time()
    result = call()
    return result, Cost(time.perf_counter() - wall, time.process_time() - cores)


def _best(call: Callable[[], Any]) -> Cost:
    """The cost of the faster of two calls, each number by itself."""
    costs = [_timed(call)[1] for _ in range(2)]
    return Cost(min(c.wall for c in costs), min(c.cores for c in costs))
