"""NetCDF files that grow record by record and stay readable whatever happens to the writer.

HDF5-based files (NetCDF-4) and Zarr lose acknowledged records when the process dies between two
writes. The classic NetCDF-3 layout does not, if its record count is written last:

    header | fixed arrays | record 0 | record 1 | ...        the count of records: bytes 4 to 7

`RecordFile.append` writes the record behind the end, syncs, and then replaces the 4 bytes of the
count, all of them in one sector: at every moment the file is valid and holds all records
acknowledged so far. `compress` turns the finished file into NetCDF-4 through a temporary file.

Layout: NetCDF classic format specification, 64-bit offset variant (Unidata).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pde.results import files

UNLIMITED = "time"
"""Name of the dimension along which records are appended."""

COUNT_OFFSET = 4
"""Where the number of records stands in a NetCDF-3 file, four bytes, big-endian."""

COMPRESSION_LEVEL = 4

ROOM = 1_000_000
"""Bytes that a compressed file may take beyond the size of its data."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A named array with its dimensions and attributes.

    data : the array; for a variable whose first dimension is `time`, one record or all of them,
        as the function that takes or gives it says
    """

    name: str
    dimensions: tuple[str, ...]
    data: np.ndarray
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_record(self) -> bool:
        """True where the variable grows along `time`."""
        return self.dimensions[:1] == (UNLIMITED,)


class RecordFile:
    """A NetCDF-3 (64-bit offset) file that grows by whole records, safe against kills.

    path : created through a temporary file, so that it is complete from its first moment
    fixed : variables that do not grow
    record : variables that do; `data` is one record, as a pattern of shape and type (float64)
    attributes : of the file
    records : those that it starts with

    Raises OSError where the file cannot be written; an older file of that name is then untouched.
    """

    def __init__(
        self,
        path: Path,
        fixed: Sequence[Variable],
        record: Sequence[Variable],
        attributes: Mapping[str, Any],
        records: Iterable[Mapping[str, np.ndarray]] = (),
    ) -> None:
        self.path = path
        self.count = 0
        self._names = [variable.name for variable in record]
        self._record_size = sum(variable.data.nbytes for variable in record)
        with files.written_beside(path) as part:
            _write_classic(part, [*fixed, *record], attributes)
            # The header needs one record to know the sizes; that record is now taken back.
            self._start = part.stat().st_size - self._record_size
            with open(part, "r+b", buffering=0) as file:
                file.truncate(self._start)
                for values in records:
                    self._write_record(file, values)
                    self.count += 1
                _write_at(file, COUNT_OFFSET, _big_endian(self.count))
                files.sync(file)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115 - closed in close()

    def append(self, record: Mapping[str, np.ndarray]) -> None:
        """Write one record; when this returns, the record is on the disk and counted."""
        self._write_record(self._file, record)
        files.sync(self._file)
        _write_at(self._file, COUNT_OFFSET, _big_endian(self.count + 1))
        files.sync(self._file)
        self.count += 1

    def _write_record(self, file: Any, record: Mapping[str, np.ndarray]) -> None:
        """Put one record behind the counted ones."""
        data = b"".join(np.asarray(record[name], dtype=">f8").tobytes() for name in self._names)
        if len(data) != self._record_size:
            raise ValueError(
                f"a record of {self.path} has {self._record_size} bytes, got {len(data)}"
            )
        _write_at(file, self._start + self.count * self._record_size, data)

    def close(self) -> None:
        """Close the file; twice does no harm."""
        self._file.close()

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read(path: Path) -> tuple[dict[str, Variable], dict[str, Any]]:
    """All variables (with all records, in native byte order) and attributes of a NetCDF file.

    Raises ValueError, in one sentence, for what is no NetCDF file, is cut short or damaged;
    FileNotFoundError where there is none; ImportError for NetCDF-4 without the package netCDF4.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the .nc file in it")
    with open(path, "rb") as file:
        magic = file.read(8)
    if magic[:3] == b"CDF":
        reader = _read_classic
    elif magic == b"\x89HDF\r\n\x1a\n":
        reader = _read_netcdf4
    else:
        raise ValueError(f"{path} is not a NetCDF file (it starts with {magic!r})")
    try:
        variables, attributes = reader(path)
        return {name: _unpacked(variable) for name, variable in variables.items()}, attributes
    except ImportError:
        raise
    except Exception as damage:  # the readers trust the file: whatever they trip over is in it
        raise ValueError(
            f"{path} is damaged or cut short and cannot be read ({files.reason(damage)})"
        ) from damage


def _unpacked(variable: Variable) -> Variable:
    """The numbers that packed ones stand for: scale_factor x + add_offset, NaN where none is (CF).

    Programs that make files smaller pack them so.
    """
    about = dict(variable.attributes)
    scale, offset = about.pop("scale_factor", None), about.pop("add_offset", None)
    if scale is None and offset is None:
        return variable
    data = variable.data * np.float64(1.0 if scale is None else scale)
    data += np.float64(0.0 if offset is None else offset)
    for name in ("_FillValue", "missing_value"):
        if name in about:
            data[variable.data == about.pop(name)] = np.nan
    return Variable(variable.name, variable.dimensions, data, about)


def compress(path: Path) -> bool:
    """Replace the NetCDF-3 file `path` by the same content as compressed NetCDF-4.

    Returns False, and changes nothing, where the package netCDF4 is not installed. Records are
    copied one at a time, so the memory needed is one record's; check sums make later damage known.

    Raises OSError where it cannot be written; the file then stays as it was.
    """
    try:
        import netCDF4
    except ImportError:
        return False
    # Asked before: where a disk fills up, the HDF5 library holds its broken file until the process
    # ends, and with it the rest of the disk.
    needed = int(1.2 * path.stat().st_size) + ROOM
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(f"there is no room for {needed:,} bytes more on its disk")
    try:
        with files.written_beside(path) as part:
            with netCDF4.Dataset(path) as source, netCDF4.Dataset(part, "w") as target:
                source.set_auto_maskandscale(False)
                target.set_auto_maskandscale(False)
                _copy(source, target)
            with open(part, "r+b") as file:
                files.sync(file)
    except RuntimeError as failed:  # what a full disk is to the HDF5 library
        raise OSError(f"{part} cannot be written ({failed})") from failed
    return True


def _copy(source: Any, target: Any) -> None:
    """Copy a netCDF4 dataset, its arrays compressed and chunked by record."""
    target.setncatts({name: source.getncattr(name) for name in source.ncattrs()})
    for name, dimension in source.dimensions.items():
        target.createDimension(name, None if dimension.isunlimited() else dimension.size)
    for name, old in source.variables.items():
        attributes = {key: old.getncattr(key) for key in old.ncattrs()}
        grows = old.dimensions[:1] == (UNLIMITED,)
        wide = old.ndim - grows > 0
        new = target.createVariable(
            name,
            old.dtype,
            old.dimensions,
            zlib=wide,
            complevel=COMPRESSION_LEVEL,
            shuffle=True,
            fletcher32=wide,
            chunksizes=(1, *old.shape[1:]) if grows and wide else None,
            fill_value=attributes.pop("_FillValue", None),
        )
        new.setncatts(attributes)
        if grows and wide:
            for i in range(old.shape[0]):
                new[i] = old[i]
        else:
            new[...] = old[...]


def _write_classic(
    path: Path, variables: Sequence[Variable], attributes: Mapping[str, Any]
) -> None:
    """Write fixed variables and exactly one record."""
    from scipy.io import netcdf_file

    sizes: dict[str, int | None] = {UNLIMITED: None}
    for variable in variables:
        fixed = variable.dimensions[1:] if variable.is_record else variable.dimensions
        sizes.update(zip(fixed, variable.data.shape, strict=True))
    with netcdf_file(path, "w", version=2) as file:
        for name, size in sizes.items():
            file.createDimension(name, size)
        for key, value in attributes.items():
            setattr(file, key, value)
        for variable in variables:
            stored = file.createVariable(variable.name, variable.data.dtype, variable.dimensions)
            stored[0 if variable.is_record else slice(None)] = variable.data
            for key, value in variable.attributes.items():
                setattr(stored, key, value)


def _read_classic(path: Path) -> tuple[dict[str, Variable], dict[str, Any]]:
    from scipy.io import netcdf_file

    with netcdf_file(path, "r", mmap=False) as file:
        variables = {
            name: Variable(
                name,
                tuple(stored.dimensions),
                np.array(stored.data, dtype=stored.data.dtype.newbyteorder("=")),
                {key: _text(value) for key, value in stored._attributes.items()},
            )
            for name, stored in file.variables.items()
        }
        return variables, {key: _text(value) for key, value in file._attributes.items()}


def _read_netcdf4(path: Path) -> tuple[dict[str, Variable], dict[str, Any]]:
    try:
        import netCDF4
    except ImportError as missing:
        raise ImportError(
            f"{path} is NetCDF-4; reading it needs the package netCDF4 "
            "(python -m pip install netCDF4)"
        ) from missing
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        variables = {
            name: Variable(
                name,
                tuple(stored.dimensions),
                np.asarray(stored[...]),
                {key: stored.getncattr(key) for key in stored.ncattrs()},
            )
            for name, stored in file.variables.items()
        }
        return variables, {key: file.getncattr(key) for key in file.ncattrs()}


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _big_endian(count: int) -> bytes:
    return count.to_bytes(4, "big")


def _write_at(file: Any, offset: int, data: bytes) -> None:
    """Write all of `data` at `offset`; an unbuffered file may take it in pieces."""
    file.seek(offset)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
