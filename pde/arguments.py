"""Arguments checked once, at the door: what comes out is float64, C-contiguous, finite.

Kernels compile one machine code per array layout, so everything that reaches them passes here;
and every error is one sentence that names the argument, what was given and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNIT_TOLERANCE = 1e-8
"""Points may miss the unit sphere by this much: the rounding of long products, not a mistake."""


def real_array(name: str, value: Any, ndim: int | None = None, finite: bool = True) -> Array:
    """`value` as a float64, C-contiguous array of `ndim` dimensions.

    Raises TypeError for what is not real numbers, ValueError for a wrong number of dimensions
    and, unless `finite` is false, for NaN and infinities.
    """
    try:
        given = np.asarray(value)
    except ValueError as ragged:
        raise ValueError(
            f"{name} must be an array of numbers, its rows are of unequal length"
        ) from ragged
    if given.dtype.kind not in "fiub":
        what = "complex numbers" if given.dtype.kind == "c" else f"dtype {given.dtype}"
        raise TypeError(f"{name} must hold real numbers, got {what}")
    array = np.ascontiguousarray(given, dtype=np.float64).reshape(given.shape)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if finite and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}")
    return array


def unit_points(name: str, value: Any, dim: int | None = None) -> Array:
    """`value` as an (n, d) array of unit vectors, d >= 2 (d = `dim` where given)."""
    points = real_array(name, value, ndim=2)
    d = points.shape[1]
    if d < 2 or (dim is not None and d != dim):
        wanted = "d >= 2" if dim is None else f"d = {dim}"
        raise ValueError(f"{name} must have shape (n, d) with {wanted}, got {points.shape}")
    if len(points):
        off = np.abs(np.einsum("nd,nd->n", points, points) - 1.0)
        worst = int(np.argmax(off))
        if off[worst] > 2.0 * UNIT_TOLERANCE:
            raise ValueError(
                f"{name} must be unit vectors, row {worst} has length "
                f"{np.linalg.norm(points[worst]):.6g}; divide by the lengths"
            )
    return points


def square_matrix(name: str, value: Any, dim: int | None = None) -> Array:
    """`value` as a finite real (d, d) matrix, d >= 2 (d = `dim` where given)."""
    matrix = real_array(name, value, ndim=2)
    rows, columns = matrix.shape
    if rows != columns or rows < 2 or (dim is not None and rows != dim):
        wanted = "(d, d) with d >= 2" if dim is None else f"({dim}, {dim})"
        raise ValueError(f"{name} must be a square matrix {wanted}, got shape {matrix.shape}")
    return matrix


def number(name: str, value: Any) -> float:
    """`value` as a finite real number."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) != 0:
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        result = float(value)
    except TypeError as wrong:
        raise TypeError(f"{name} must be a real number, got {value!r}") from wrong
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result}")
    return result


def positive(name: str, value: Any) -> float:
    """`value` as a number > 0."""
    result = number(name, value)
    if result <= 0.0:
        raise ValueError(f"{name} must be > 0, got {result}")
    return result


def non_negative(name: str, value: Any) -> float:
    """`value` as a number >= 0."""
    result = number(name, value)
    if result < 0.0:
        raise ValueError(f"{name} must be >= 0, got {result}")
    return result


def natural(name: str, value: Any, least: int = 0) -> int:
    """`value` as an integer >= `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
    return int(value)


def one_of(name: str, value: Any, allowed: Collection[Any]) -> Any:
    """`value` if it is among `allowed`; otherwise a ValueError that lists them."""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")
    return value
