"""The figures of `benchmark.py fast`: the fast kernel against direct sums."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Measure, log_partition

B = np.array([[0.9, 0.3, -0.2], [-0.1, 0.7, 0.4], [0.2, -0.3, 0.5]])  # not symmetric
LAWS = {
    "smooth": lambda x: 1.0 + 0.5 * x[:, 0] * x[:, 1],
    "spot": lambda x: np.maximum(np.exp(-400.0 * (1.0 - x[:, 2])), 1e-280),
}
HEADER = ["cells", "beta", "law", "direct s", "fast s", "speed-up", "log Z", "mean", "growth"]


def fast_figures(
    quick: bool, tolerance: float = 1e-8, frequencies: Sequence[int] | None = None
) -> tuple[str, list[str], list[tuple[object, ...]]]:
    """All cells against all cells; timings include the building of the patches.

    Errors are the largest at 2,000 random cells. The time of direct sums is that of 8,192 cells as
    targets, scaled to all of them. Growth is the exponent in the number of cells against the next
    smaller mesh. Returns title, header and rows of the table.
    """
    rows: list[tuple[object, ...]] = []
    previous: dict[tuple[float, str], tuple[int, float]] = {}
    for frequency in frequencies or ((12, 20) if quick else (64, 128, 256)):
        mesh = icosphere(frequency)
        for beta in (10.0, 100.0, 1000.0):
            for law in LAWS:
                row, duration = _row(mesh, beta, law, tolerance)
                growth: object = ""
                if (beta, law) in previous:
                    n, before = previous[beta, law]
                    growth = float(np.log(duration / before) / np.log(mesh.n_cells / n))
                previous[beta, law] = mesh.n_cells, duration
                rows.append((*row, growth))
    return f"tolerance {tolerance:g}; largest errors of log Z and of the mean", HEADER, rows


def _row(
    mesh: SphereMesh, beta: float, law: str, tolerance: float
) -> tuple[tuple[object, ...], float]:
    """One line of the table, and the time of the fast kernel."""
    x, n = mesh.centers, mesh.n_cells
    mu, xi = Measure(x, mesh.areas * LAWS[law](x)), beta * x @ B
    result = log_partition(xi, mu, tolerance)
    some = xi[:8192]
    log_partition(some, mu)
    direct_time, duration = np.inf, np.inf
    for _ in range(2):  # in turn, so that both see the same machine
        start = time.perf_counter()
        log_partition(some, mu)
        middle = time.perf_counter()
        log_partition(xi, mu, tolerance)
        direct_time = min(direct_time, (middle - start) * n / len(some))
        duration = min(duration, time.perf_counter() - middle)
    chosen = np.random.default_rng(0).permutation(n)[:2000]
    exact = log_partition(xi[chosen], mu)
    errors = [float(np.abs(a[chosen] - b).max()) for a, b in zip(result, exact, strict=True)]
    return (n, beta, law, direct_time, duration, direct_time / duration, *errors), duration
