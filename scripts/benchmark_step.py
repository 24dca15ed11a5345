"""What steps cost, part by part.

Explicit ones: a right-hand side, against reading its operator and state once. Implicit ones, with
noise: velocities and factorisations, against an explicit step without noise. And error control,
against runs that the positivity bound alone steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, SelfAttention, ZeroTemperatureAttention, initial
from pde.cells.finite_volume import DriftDiffusionStage, FiniteVolumeStage
from pde.field import Field
from pde.simulation import STEPPERS, Simulation

Row = Sequence[object]
V, B = np.diag([2.0, 1.0, 0.5]), np.diag([1.0, 4.0, 1.0])
FIELDS: dict[str, Field] = {
    "zero temperature": ZeroTemperatureAttention(V, B),
    "attention, beta = 50": SelfAttention(V, B, beta=50.0),
}


def step_figures(
    quick: bool, frequencies: Sequence[int] | None = None
) -> list[tuple[str, Sequence[str], list[Row]]]:
    """Title, header and rows of a table for each mesh, and of one for implicit steps."""
    explicit = [_step_figures(quick, n) for n in frequencies or ((4,) if quick else (128,))]
    implicit = _implicit_figures(frequencies or ((4,) if quick else (32, 64, 128)))
    return [*explicit, implicit, _control_figures({2: 4, 4: 4} if quick else {2: 20, 4: 10})]


def _control_figures(frequencies: dict[int, int]) -> tuple[str, Sequence[str], list[Row]]:
    """Runs like the case `concentration`, with and without error control, for each order."""
    law = initial.random_band_limited(seed=1)
    rows: list[Row] = []
    for order, frequency in frequencies.items():
        mesh = icosphere(frequency)
        system = FiniteVolume(mesh, Equation(FIELDS["attention, beta = 50"]), order=order)

        def run(tolerance: Any, system: FiniteVolume = system) -> int:
            simulation = Simulation(system, law, tolerance=tolerance)
            simulation.run(1.0, save_at=[])
            return simulation.steps

        steps = [run(tolerance) for tolerance in ("default", None)]
        seconds = [best_time(partial(run, tolerance)) for tolerance in ("default", None)]
        rows.append((order, mesh.n_cells, *steps, *seconds, seconds[0] / seconds[1]))
    header = ("order", "cells", "steps", "by the bound", "seconds", "by the bound", "ratio")
    return "runs until 1 with error control, and by the positivity bound alone", header, rows


def _step_figures(quick: bool, frequency: int) -> tuple[str, Sequence[str], list[Row]]:
    mesh = icosphere(frequency)
    law = initial.random_band_limited(seed=1)
    rows: list[Row] = []
    for order in (1, 2, 4) if quick else (1, 2, 4, 6):
        for name, field in FIELDS.items():
            system = FiniteVolume(mesh, Equation(field), order=order)
            rows.append((order, name, *parts(system, system.initial_state(law))))
    header = ("order", "field", "measure", "velocity", "fluxes", "reading", "fluxes/reading")
    return f"seconds of a right-hand side, {mesh.n_cells} cells", header, rows


def _implicit_figures(frequencies: Sequence[int]) -> tuple[str, Sequence[str], list[Row]]:
    rows = [implicit_row(icosphere(n)) for n in frequencies]
    header = ("cells", "velocity", "factorisation", "step", "step/explicit", "dt/explicit bound")
    return "seconds of an implicit step (D = 0.1, dt = 0.05): two of each part", header, rows


def implicit_row(mesh: SphereMesh, dt: float = 0.05) -> Row:
    """Cells, seconds of velocity, factorisation and whole step, ratio to a step of ssprk2 without
    noise, and dt over the longest explicit step with noise."""
    field = SelfAttention(np.eye(3), np.eye(3), beta=2.0)
    noisy, plain = (FiniteVolume(mesh, Equation(field, diffusion=D)) for D in (0.1, 0.0))
    rho = noisy.initial_state(initial.von_mises_fisher([0.0, 0.0, 1.0], 3.0))
    stage, first = noisy.stage(0.0, rho), plain.stage(0.0, rho)
    assert isinstance(stage, DriftDiffusionStage)
    velocity = best_time(lambda: noisy.stage(0.0, rho))
    factorisation = best_time(lambda: stage.generator.implicit_euler(dt / 3.0))
    step = velocity + best_time(lambda: STEPPERS["implicit"].step(noisy, 0.0, rho, dt, stage))
    explicit = best_time(lambda: plain.stage(0.0, rho)) + best_time(
        lambda: STEPPERS["ssprk2"].step(plain, 0.0, rho, first.stable_step, first)
    )
    longer = dt / stage.stable_step
    return mesh.n_cells, velocity, factorisation, step, step / explicit, longer


def parts(system: FiniteVolume, rho: np.ndarray) -> tuple[float, float, float, float, float]:
    """Seconds of the measure, of the velocity at the edges with it, of fluxes and divergence, of
    reading operator and state once, and the ratio of the last two."""
    stage = system.stage(0.0, rho)
    assert isinstance(stage, FiniteVolumeStage), "explicit steps only"
    dt = stage.stable_step
    measure = best_time(lambda: system.measure(rho)) if system.equation.field.is_nonlocal else 0.0
    velocity = best_time(lambda: system.stage(0.0, rho)) - measure
    fluxes = best_time(lambda: stage.rhs(dt))
    operator: list[np.ndarray] = [
        system.reconstruction.edge_weights,
        system.reconstruction.stencils[0],
        stage.fluxes,
        rho,
    ]
    reading = best_time(lambda: read(operator))
    return measure, velocity, fluxes, reading, fluxes / reading


def read(arrays: Sequence[np.ndarray], threads: int = 2) -> None:
    """Read arrays once from memory, on several threads."""
    pieces = [piece for array in arrays for piece in np.array_split(array.reshape(-1), 8 * threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.max, [piece for piece in pieces if len(piece)]))


def best_time(call: Callable[[], Any], repetitions: int = 3) -> float:
    """Seconds of the fastest of some calls, after one that compiles and fills caches."""
    call()
    durations = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        call()
        durations.append(time.perf_counter() - begin)
    return min(durations)
