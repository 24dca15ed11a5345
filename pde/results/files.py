"""Files that are whole at every moment: written beside their place, synced, and moved into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pde.arguments import shown


def path_of(name: str, value: Any) -> Path:
    """`value` as a path; otherwise a TypeError or ValueError that names it."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, text or Path, got {shown(value)}")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} must be a path without null characters, got {shown(value)}")
    return Path(value)


def reason(error: BaseException) -> str:
    """What an error of somebody else's says, as part of a sentence: one line, not too long."""
    text = " ".join(str(error).partition("\n")[0].split()) or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def partial_path(path: Path) -> Path:
    """The temporary neighbour through which `path` is written."""
    return path.with_name(path.name + ".part")


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """The temporary neighbour to write, which then takes the place of `path`.

    Whatever goes wrong, an older file stays and the neighbour goes.
    """
    part = partial_path(path)
    try:
        yield part
        replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_file(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """A file to write `path` with: it takes the place of an older one once it is complete.

    Raises OSError where it cannot be written; whatever goes wrong, the older file stays.
    """
    encoding = None if "b" in mode else "utf-8"
    with written_beside(path) as part, open(part, mode, encoding=encoding) as file:
        yield file
        file.flush()
        sync(file)


def sync(file: IO[Any]) -> None:
    """Wait until what was written to `file` is on the disk."""
    os.fsync(file.fileno())


def replace(part: Path, path: Path) -> None:
    """Move the finished temporary file into place, and make the move durable."""
    os.replace(part, path)
    # A folder cannot be synced on every system; the file itself is.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
