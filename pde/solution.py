"""What a simulation gives back: times, states and what was measured on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import UNIT_TOLERANCE, Array, instance, number, real_array
from pde.cells.nodes import Nodes, cell_measure, nodes_of
from pde.cells.reconstruction import ORDERS
from pde.measure import Measure
from pde.results.files import written_beside
from pde.results.storage import ResultWriter, place, read_result


@dataclass(eq=False)
class Solution:
    """The saved states of a run.

    times : (K,) the saved times
    states : (K, N) or (K, N, k) cell averages on `mesh`; without mesh (K, n, d) particles, where
        tokens with lengths (Pre-, Peri-LN) count by their directions
    diagnostics : named (K,) arrays, one number for each saved state: mass, minimum, ...
    mesh : of the cells; None for particles
    weights : (n,) masses of the particles; None: equal, total 1
    metadata : what is known of the run; survives `save` where JSON can hold it
    to_measure : the measure a state stands for; None: the scheme's own where `metadata` tells its
        order, else masses at the cells' centroids, or the particles with their weights

    Raises ValueError where the shapes do not fit.

    >>> solution = Solution([0.0, 1.0], [[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> solution
    Solution(2 states of 1 particles, t = 0 ... 1)
    >>> solution.measures[1].points
    array([[0., 1.]])
    """

    times: Array
    states: Array
    diagnostics: dict[str, Array] = field(default_factory=dict)
    mesh: SphereMesh | None = None
    weights: Array | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    to_measure: Callable[[Array], Measure] | None = None

    def __post_init__(self) -> None:
        self.times = real_array("times", self.times, ndim=1)
        self.states = real_array("states", self.states, finite=False)
        if self.weights is not None:
            self.weights = real_array("weights", self.weights, ndim=1)
        count = len(self.times)
        shape = self.states.shape
        if shape[:1] != (count,):
            got = shape[0] if shape else "a number"
            raise ValueError(f"states must hold {count} states, as times, got {got}")
        if self.mesh is not None:
            n = instance("mesh", self.mesh, SphereMesh).n_cells
            fits, wanted = len(shape) in (2, 3), f"({count}, {n}) or ({count}, {n}, k)"
        elif self.weights is not None:
            n = len(self.weights)
            fits, wanted = len(shape) == 3, f"({count}, {n}, d)"
        else:
            n, fits, wanted = 0, True, ""
        if count and wanted and not (fits and shape[1] == n):
            raise ValueError(f"states must have shape {wanted}, got {shape}")
        for name, values in self.diagnostics.items():
            if len(values) != count:
                raise ValueError(f"diagnostics[{name!r}] must hold {count}, got {len(values)}")

    def __repr__(self) -> str:
        what = "particles" if self.mesh is None else "cells"
        span = f", t = {self.times[0]:.6g} ... {self.times[-1]:.6g}" if len(self.times) else ""
        size = self.states.shape[1] if self.states.ndim > 1 else 0
        return f"Solution({len(self.times)} states of {size} {what}{span})"

    @property
    def measures(self) -> list[Measure]:
        """The measure of each saved state; its total is the state's mass, 1 for a law."""
        return [self._measure(state) for state in self.states]

    def _measure(self, state: Array) -> Measure:
        if self.to_measure is not None:
            return self.to_measure(state)
        if self.mesh is None:
            return Measure(directions(state), self.weights)
        rho = np.ascontiguousarray(state if state.ndim == 1 else state[:, 0])
        return cell_measure(self.mesh, rho, self._nodes)

    @cached_property
    def _nodes(self) -> Nodes | None:
        """Those of the scheme that computed the states, where the metadata tell its order."""
        assert self.mesh is not None
        if self.metadata.get("system") != "FiniteVolume":
            return None
        order = int(self.metadata.get("order", 1))
        return nodes_of(self.mesh, order) if order in ORDERS else None

    @property
    def directions(self) -> Array:
        """(K, n, d) unit vectors of the particles: what pictures show of tokens with lengths."""
        return directions(self.states)

    def index(self, t: float) -> int:
        """The number of the saved state nearest to time t."""
        t = number("t", t)
        if not len(self.times):
            raise ValueError("the solution holds no states")
        return int(np.argmin(np.abs(self.times - t)))

    def plot(
        self, path: str | Path | None = None, times: Sequence[float] | None = None, **options: Any
    ) -> Any:
        """Draw the states at `times` (the nearest saved ones; None: up to four of them).

        path : written there (.png, .pdf, .svg) where given
        options : of `pde.pictures.plotting.solution_figure`: marks, title, field, show_clusters

        Returns the matplotlib Figure.
        """
        from pde.pictures.plotting import save_figure, solution_figure

        figure = solution_figure(self, times=times, **options)
        if path is not None:
            save_figure(figure, path)
        return figure

    def save(self, path: str | Path) -> None:
        """Write everything to a NetCDF file that other programs read as well.

        An older file of that name, perhaps the one that this was opened from, stays until the new
        one is complete. Raises ValueError where nothing was saved or the folder does not exist.
        """
        if not len(self.times):
            raise ValueError(f"the solution holds no states, so nothing was written to {path}")
        with (
            written_beside(place(path)) as part,
            ResultWriter(
                part, self.mesh, self.weights, self.states.shape[1:], self.metadata
            ) as out,
        ):
            for i, (t, state) in enumerate(zip(self.times, self.states, strict=True)):
                out.append(t, state, {name: v[i] for name, v in self.diagnostics.items()})

    @classmethod
    def open(cls, path: str | Path) -> Solution:
        """Read a result file, also one whose run is still going on.

        Raises FileNotFoundError, or ValueError for files that are damaged or from elsewhere.
        """
        stored = read_result(path)
        try:
            return cls(
                times=stored.times,
                states=stored.states,
                diagnostics=stored.diagnostics,
                mesh=stored.mesh,
                weights=stored.weights,
                metadata=stored.metadata,
            )
        except (ValueError, TypeError) as wrong:
            raise ValueError(f"{path} is damaged: {wrong}") from wrong


def directions(points: Array) -> Array:
    """Points (..., d) as unit vectors: to the bit as they are where they are that already."""
    lengths = np.linalg.norm(points, axis=-1, keepdims=True)
    off = np.abs(lengths - 1.0) > UNIT_TOLERANCE
    return np.asarray(np.divide(points, lengths, out=points.copy(), where=off & (lengths > 0.0)))
