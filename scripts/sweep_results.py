"""All runs of a sweep together: a table, and a dataset with the varied keys as dimensions."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pde.arguments import Array
from pde.results.files import sync, whole_file, written_beside
from sphere_attention_scripts.case_file import case_tables
from sphere_attention_scripts.comparison import COLUMNS
from sphere_attention_scripts.sweep_cases import Run, Sweep, shown
from sphere_attention_scripts.sweep_folder import DONE, FINISHED, folder_of, record, standing

if TYPE_CHECKING:
    import xarray

FAILED, UNFINISHED = "failed", "unfinished"
STATUS = (FINISHED, FAILED, UNFINISHED)
"""What a run may be; in the dataset, its place in this list."""


@dataclass
class Result:
    """What is known of a run; series : columns of its table over the saved times."""

    run: Run
    status: str
    message: str = ""
    done: dict[str, Any] = field(default_factory=dict)
    series: dict[str, Array] = field(default_factory=dict)


def collect(sweep: Sweep, out: Path, failures: Mapping[str, str]) -> list[Result]:
    """The results of all runs, in the order of the sweep.

    failures : why runs failed, by name
    """
    results = []
    for run in sweep.runs:
        folder = folder_of(out, run.name)
        if run.name in failures:
            results.append(Result(run, FAILED, failures[run.name]))
        elif standing(folder, run.case).kind != FINISHED:
            results.append(Result(run, UNFINISHED))
        else:
            results.append(_finished(run, folder))
    return results


def _finished(run: Run, folder: Path) -> Result:
    """A run that says it is finished."""
    done, path = record(folder / DONE), folder / "table.csv"
    try:
        return Result(run, FINISHED, done.get("said", ""), done, read_table(path))
    except (OSError, ValueError, IndexError, TypeError) as damaged:
        again = "remove its folder to run it again"
        return Result(run, FAILED, f"{path} is damaged ({damaged}); {again}")


def read_table(path: Path) -> dict[str, Array]:
    """The columns of a run's table.csv."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def table_rows(sweep: Sweep, results: Sequence[Result]) -> list[dict[str, Any]]:
    """A dictionary for each run: varied keys, status, cost, the last row of its table."""
    rows = []
    for result in results:
        row: dict[str, Any] = {"run": result.run.name}
        values = zip(sweep.axes, result.run.values, strict=True)
        row |= {axis.key: shown(value) for axis, value in values}
        row |= {"status": result.status}
        row |= {name: result.done.get(name, "") for name in ("seconds", "steps", "redone_steps")}
        row |= {name: result.series[name][-1] if result.series else "" for name in _names(results)}
        rows.append({**row, "message": result.message})
    return rows


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the table as CSV, numbers with all their digits."""
    with whole_file(path, "w") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: float(v) if isinstance(v, np.floating) else v for name, v in row.items()}
            for row in rows
        )


def _names(results: Sequence[Result]) -> list[str]:
    """The columns that any of the runs has, in the order of a run's table."""
    return [name for name in COLUMNS if any(name in result.series for result in results)]


def dataset(sweep: Sweep, results: Sequence[Result], out: Path, states: bool) -> xarray.Dataset:
    """The varied keys as dimensions, what the runs' tables hold as variables over time.

    The dimension `time` carries the saved times where all runs have the same; otherwise there is a
    dimension `save`, and the times are the variable `t`. Runs that are not finished hold NaN.

    states : with the final densities on the mesh (UGRID); ValueError where the meshes differ
    """
    import xarray

    labels, shape = [axis.label for axis in sweep.axes], sweep.shape
    case, keys = sweep.runs[0].case, ", ".join(axis.key for axis in sweep.axes)
    data = xarray.Dataset(
        coords={axis.label: (axis.label, _coordinate(axis.values)) for axis in sweep.axes},
        attrs={
            "Conventions": "CF-1.11 UGRID-1.0" if states else "CF-1.11",
            "title": f"{case.title}: {keys}" if case.title else keys,
            "first_case": json.dumps(case_tables(case)),
        },
    )
    for axis in sweep.axes:
        data[axis.label].attrs["long_name"] = axis.key
    codes = np.array([STATUS.index(result.status) for result in results], np.int8)
    flags = {"flag_values": np.arange(3, dtype=np.int8), "flag_meanings": " ".join(STATUS)}
    data["status"] = (labels, codes.reshape(shape), flags)
    for name, about in (("seconds", "wall time of the run"), ("steps", "steps taken")):
        values = [float(result.done.get(name, np.nan)) for result in results]
        data[name] = (labels, np.reshape(values, shape), {"long_name": about})
    _add_series(data, labels, shape, results)
    if states:
        _add_states(data, labels, shape, results, out)
    return data


def _add_series(
    data: xarray.Dataset, labels: list[str], shape: tuple[int, ...], results: Sequence[Result]
) -> None:
    """The tables of the runs, over `time` or `save`."""
    times = [result.series["t"] for result in results if result.series]
    if not times:
        return
    common = all(np.array_equal(t, times[0]) for t in times)
    along = "time" if common else "save"
    count = max(map(len, times))
    if common:
        about = {"long_name": "time in the equation's own unit", "axis": "T"}
        data.coords["time"] = ("time", times[0], about)
    for name in _names(results):
        if name == "t" and common:
            continue
        values = np.full((len(results), count), np.nan)
        for row, result in zip(values, results, strict=True):
            column = result.series.get(name, np.empty(0))
            row[: len(column)] = column
        about = {"long_name": COLUMNS[name].title.replace("$", "")}
        data[name] = ([*labels, along], values.reshape(*shape, count), about)


def _add_states(
    data: xarray.Dataset,
    labels: list[str],
    shape: tuple[int, ...],
    results: Sequence[Result],
    out: Path,
) -> None:
    """The last saved density of each run, and the mesh that all of them are on."""
    import xarray

    from pde.results import ugrid
    from sphere_attention_scripts.case_setup import mesh_of

    specs = [result.run.case.mesh for result in results]
    if any(spec != specs[0] for spec in specs):
        raise ValueError("final states go into one dataset where all runs have the same mesh")
    mesh = mesh_of(specs[0])
    for variable in ugrid.variables(mesh):
        data[variable.name] = (variable.dimensions, variable.data, dict(variable.attributes))
    final = np.full((len(results), mesh.n_cells), np.nan)
    for row, result in zip(final, results, strict=True):
        if result.status == FINISHED:
            path = folder_of(out, result.run.name) / "result.nc"
            try:
                with xarray.open_dataset(path, decode_times=False) as stored:
                    row[:] = stored["density"].isel(time=-1).values
            except (OSError, ValueError, KeyError, IndexError) as damaged:
                result.message = f"{path} is damaged ({damaged})"
    about = {"long_name": "density at the end of the run", "units": "1"}
    about |= ugrid.data_attributes(mesh)
    dimensions = [*labels, ugrid.CELL_DIMENSION[mesh.ambient_dim]]
    data["density"] = (dimensions, final.reshape(*shape, mesh.n_cells), about)


def write_dataset(path: Path, data: xarray.Dataset) -> None:
    """Write the dataset as NetCDF, whole or not at all."""
    compressed = {"density": {"zlib": True, "complevel": 4}} if "density" in data else {}
    with written_beside(path) as part:
        data.to_netcdf(part, engine="netcdf4", encoding=compressed)
        with open(part, "r+b") as file:
            sync(file)


def _coordinate(values: Sequence[Any]) -> Any:
    """Values of an axis as numbers where they are, else as text."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return np.array(values) if numbers else [shown(value) for value in values]
