"""Results on disk: CF and UGRID NetCDF files, complete at every moment of a run.

`ResultWriter` appends while a simulation runs and turns the file into compressed NetCDF-4 at the
end; `read_result` gives back what was written, to the bit. What a file holds:

    time                       the saved times
    density, or density_1...   (time, cell) averages with respect to surface area, or
    position                   (time, particle, axis) unit vectors, with `weight` per particle
    diagnostic_NAME            (time,) one number for each saved state
    mesh_...                   the mesh as UGRID (see `pde.results.ugrid`)
    metadata                   attribute of the file: the run's description as JSON
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array, number, real_array
from pde.results import netcdf, ugrid
from pde.results.files import path_of, reason
from pde.results.netcdf import UNLIMITED, RecordFile, Variable

FORMAT = 1
"""Version of the layout above; a reader refuses later ones."""

DIAGNOSTIC = "diagnostic_"
"""Prefix of the diagnostics' variables."""


@dataclass(frozen=True, eq=False)
class StoredResult:
    """What a result file holds; fields as in `Solution`."""

    times: Array
    states: Array
    diagnostics: dict[str, Array]
    mesh: SphereMesh | None
    weights: Array | None
    metadata: dict[str, Any]


class ResultWriter:
    """Appends states to a result file, none of which is lost whatever happens later.

    path : the file; an existing one is replaced by the first `append`
    mesh : of the cells whose averages are the states, (N,) or (N, k); None: the states are
        particles, (n, d)
    weights : (n,) masses of the particles; None: equal
    state_shape : shape of a state; None: the first one's
    metadata : what the file says of the run, kept as JSON
    keep : so many of the records that the file at `path` holds stay, None: all: states of
        `state_shape` on the same mesh, particles of the same weights; the file is replaced at
        once, by one that holds just these

    Raises ValueError for a folder that does not exist, for states that do not fit and once it is
    closed, OSError where the disk is full; then the records before are intact.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with ResultWriter(folder.name + "/cloud.nc", state_shape=(1, 2)) as writer:
    ...     writer.append(0.0, [[1.0, 0.0]], {"mass": 1.0})
    >>> read_result(folder.name + "/cloud.nc").diagnostics["mass"]
    array([1.])
    """

    def __init__(
        self,
        path: str | Path,
        mesh: SphereMesh | None = None,
        weights: Any = None,
        state_shape: tuple[int, ...] | None = None,
        metadata: Mapping[str, Any] | None = None,
        keep: int | None = 0,
    ) -> None:
        self.path = place(path)
        self.mesh = mesh
        self.weights = None if weights is None else real_array("weights", weights, ndim=1)
        self.state_shape = None if state_shape is None else self._checked(tuple(state_shape))
        self._metadata = json.dumps(dict(metadata or {}), default=_plain)
        self._names: tuple[str, ...] = ()
        self._file: RecordFile | None = None
        self._closed = False
        self.last: float | None = None
        if keep != 0:
            self._reopen(keep)

    @property
    def saved(self) -> int:
        """The number of records on the disk."""
        return 0 if self._file is None else self._file.count

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the diagnostics; None before the first record."""
        return None if self._file is None else self._names

    def append(self, t: float, state: Any, diagnostics: Mapping[str, float] | None = None) -> None:
        """Write one state; when this returns, it is safe.

        diagnostics : named numbers. The first record settles the names: later ones may lack
            some, which become NaN, and may bring no new ones.
        """
        if self._closed:
            raise ValueError(f"path {self.path} is closed: a new ResultWriter with keep goes on")
        state, t = real_array("state", state, finite=False), number("t", t)
        diagnostics = dict(diagnostics or {})
        if self.state_shape is None:
            self.state_shape = self._checked(state.shape)
        if state.shape != self.state_shape:
            raise ValueError(f"state must have shape {self.state_shape}, got {state.shape}")
        if self._file is None:
            self._names = tuple(diagnostics)
            self._file = RecordFile(self.path, self._fixed(), self._pattern(), self._attributes())
        unknown = [name for name in diagnostics if name not in self._names]
        if unknown:
            raise ValueError(
                f"diagnostics must be among those of the first record, "
                f"{', '.join(self._names)}; got {unknown[0]!r}"
            )
        record = {UNLIMITED: np.array(t), **self._split(state)}
        for name in self._names:
            record[DIAGNOSTIC + name] = np.array(float(diagnostics.get(name, np.nan)))
        self._file.append(record)
        self.last = t

    def _reopen(self, keep: int | None) -> None:
        """Go on with a file that may be finished or not, after its first `keep` records."""
        variables = netcdf.read(self.path)[0]
        stored = {name: v.data for name, v in variables.items() if v.is_record}
        keep = len(stored.get(UNLIMITED, ())) if keep is None else keep
        self._names = tuple(
            name.removeprefix(DIAGNOSTIC) for name in stored if name.startswith(DIAGNOSTIC)
        )
        pattern = self._pattern()
        same = {v.name: v.data.shape for v in pattern} == {
            n: a.shape[1:] for n, a in stored.items()
        }
        if not same or len(stored[UNLIMITED]) < keep:
            raise ValueError(
                f"{self.path} is not the file to go on with: it does not hold {keep} records "
                f"of states of shape {self.state_shape}"
            )
        fixed = {name: v.data for name, v in variables.items() if not v.is_record}
        now = {v.name: v.data for v in self._fixed()}
        if fixed.keys() != now.keys() or not all(_alike(fixed[n], now[n]) for n in fixed):
            raise ValueError(
                f"{self.path} is not the file to go on with: it is of another mesh, or of "
                "particles with other weights"
            )
        kept = ({name: values[i] for name, values in stored.items()} for i in range(keep))
        self._file = RecordFile(self.path, self._fixed(), pattern, self._attributes(), kept)
        self.last = float(stored[UNLIMITED][keep - 1]) if keep else None

    def close(self) -> None:
        """Finish the file, as compressed NetCDF-4 where netCDF4 is installed."""
        self._closed = True
        if self._file is None:
            return
        self._file.close()
        self._file = None
        try:
            netcdf.compress(self.path)
        except OSError as failed:
            warnings.warn(
                f"{self.path} stays NetCDF-3: compressing failed ({failed})", stacklevel=2
            )

    def __enter__(self) -> ResultWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _checked(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` if a state on the mesh, or of the particles, may have it."""
        if self.mesh is not None:
            fits = len(shape) in (1, 2) and shape[0] == self.mesh.n_cells
            wanted = f"({self.mesh.n_cells},) or ({self.mesh.n_cells}, k)"
        else:
            n = "n" if self.weights is None else len(self.weights)
            fits = len(shape) == 2 and (self.weights is None or shape[0] == n)
            wanted = f"({n}, d)"
        if not fits:
            raise ValueError(f"state must have shape {wanted}, got {shape}")
        return shape

    def _fixed(self) -> list[Variable]:
        if self.mesh is not None:
            return ugrid.variables(self.mesh)
        if self.weights is not None:
            about = {"long_name": "mass of the particle", "units": "1"}
            return [Variable("weight", ("particle",), self.weights, about)]
        return []

    def _pattern(self) -> list[Variable]:
        """The variables that grow, each with one record's shape."""
        assert self.state_shape is not None
        scalar = np.zeros(())
        time = {"long_name": "time in the equation's own unit", "units": "1", "axis": "T"}
        parts = self._split(np.zeros(self.state_shape))
        if self.mesh is None:
            dimensions: tuple[str, ...] = (UNLIMITED, "particle", "axis")
            about = {"long_name": "position on the unit sphere", "units": "1"}
        else:
            dimensions = (UNLIMITED, ugrid.CELL_DIMENSION[self.mesh.ambient_dim])
            about = {
                "long_name": "density with respect to surface area, average over the cell",
                "units": "1",
                **ugrid.data_attributes(self.mesh),
            }
        return [
            Variable(UNLIMITED, (UNLIMITED,), scalar, time),
            *(Variable(name, dimensions, part, about) for name, part in parts.items()),
            *(Variable(DIAGNOSTIC + name, (UNLIMITED,), scalar) for name in self._names),
        ]

    def _split(self, state: Array) -> dict[str, Array]:
        """The state as named arrays, one for each field advected."""
        if self.mesh is None:
            return {"position": state}
        if state.ndim == 1:
            return {"density": state}
        return {f"density_{j + 1}": state[:, j] for j in range(state.shape[1])}

    def _attributes(self) -> dict[str, Any]:
        return {
            "Conventions": "CF-1.11 UGRID-1.0",
            "title": "mean-field transformer on the sphere",
            "source": f"sphere-attention {_version()}",
            "sphere_attention_format": np.int32(FORMAT),
            "metadata": self._metadata,
        }


def place(path: str | Path) -> Path:
    """The path of a file to be written, in a folder that there is and that can be written."""
    path = path_of("path", path)
    if not os.path.isdir(path.parent):
        raise ValueError(f"path {path} lies in a folder that does not exist or is hidden")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"path {path} lies in a folder that cannot be written")
    return path


def _alike(then: np.ndarray, now: np.ndarray) -> bool:
    """Whether two arrays differ by the rounding of different machines at most."""
    return then.shape == now.shape and np.allclose(then, now, rtol=1e-9, atol=1e-12)


def read_result(path: str | Path) -> StoredResult:
    """Read a file that `ResultWriter` wrote, while it is written or afterwards.

    Raises FileNotFoundError, or ValueError in one sentence for a file that is damaged, comes from
    elsewhere or from a later version; ImportError for NetCDF-4 without the package netCDF4.
    """
    path = path_of("path", path)
    stored, attributes = netcdf.read(path)
    version = attributes.get("sphere_attention_format")
    if not isinstance(version, int | np.integer):
        raise ValueError(f"{path} is a NetCDF file, but not a result of sphere-attention")
    if version > FORMAT:
        raise ValueError(
            f"{path} was written in layout {version} by a later version "
            f"({attributes.get('source')}); this one reads up to {FORMAT}"
        )
    try:
        return _restored(stored, attributes)
    except Exception as missing:  # damage may hit any name, size or type
        what = f"{reason(missing)} is missing" if isinstance(missing, KeyError) else reason(missing)
        raise ValueError(f"{path} is damaged: {what}") from missing


def _restored(stored: Mapping[str, Variable], attributes: Mapping[str, Any]) -> StoredResult:
    """The result that a file's variables and attributes stand for."""
    times, states = stored[UNLIMITED].data, _joined_states(stored)
    if ("position" in stored) == ("mesh" in stored):
        raise ValueError("it holds neither densities on a mesh nor particles")
    if times.ndim != 1 or len(states) != len(times):
        raise ValueError("its variables differ in the number of records")
    return StoredResult(
        times=times,
        states=states,
        diagnostics={
            name.removeprefix(DIAGNOSTIC): variable.data
            for name, variable in stored.items()
            if name.startswith(DIAGNOSTIC)
        },
        mesh=ugrid.restore(stored) if "mesh" in stored else None,
        weights=stored["weight"].data if "weight" in stored else None,
        metadata=_description(attributes["metadata"]),
    )


def _description(text: str) -> dict[str, Any]:
    """What the file says of its run."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("its metadata is no table")
    return found


def _joined_states(stored: Mapping[str, Variable]) -> Array:
    """(K, N), (K, N, k) or (K, n, d), as they were appended."""
    for whole in ("position", "density"):
        if whole in stored:
            return stored[whole].data
    parts: list[Array] = []
    while (name := f"density_{len(parts) + 1}") in stored:
        parts.append(stored[name].data)
    if not parts:
        raise KeyError("density")
    return np.stack(parts, axis=-1)


def _plain(value: Any) -> Any:
    """What JSON does not know: arrays, numpy's numbers, paths."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"metadata must hold numbers, text, lists and dicts, got {value!r}")


def _version() -> str:
    try:
        return importlib.metadata.version("sphere-attention")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
