"""Arguments checked once, at the door: what comes out is float64, C-contiguous, finite.

Kernels compile one machine code per array layout, so everything that reaches them passes here;
and every error is one sentence that names the argument, what was given and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNIT_TOLERANCE = 1e-8
"""Points may miss the unit sphere by this much: the rounding of long products, not a mistake."""

SINGLE_PRECISION = 1e-6
"""Unit vectors and totals that were computed in float32 miss 1 by less: rounding, 6e-8, of lengths
that are sums themselves."""

LARGEST_ENTRY = 1e100
"""Of matrices and factors: products of three of them stay in the range of float64."""

SHOWN = 80
"""Characters of a wrong value that an error shows."""

T = TypeVar("T")


def real_array(name: str, value: Any, ndim: int | None = None, finite: bool = True) -> Array:
    """`value` as a float64, C-contiguous array of `ndim` dimensions.

    Raises TypeError for what is not real numbers, or is partly masked, ValueError for a wrong
    number of dimensions and, unless `finite` is false, for NaN and infinities.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{name} must hold numbers everywhere, got an array with masked entries")
    try:
        given = np.asarray(value)
    except ValueError as ragged:
        raise ValueError(
            f"{name} must be an array of numbers, its rows are of unequal length"
        ) from ragged
    if given.dtype.kind not in "fiub":
        what = "complex numbers" if given.dtype.kind == "c" else f"dtype {given.dtype}"
        raise TypeError(f"{name} must hold real numbers, got {what}")
    with np.errstate(over="ignore"):  # of longer types; then it is infinite here
        array = np.ascontiguousarray(given, dtype=np.float64).reshape(given.shape)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if finite and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}")
    return array


def unit_points(name: str, value: Any, dim: int | None = None) -> Array:
    """`value` as an (n, d) array of unit vectors, d >= 2 (d = `dim` where given).

    Vectors that are unit in single precision alone are divided by their lengths; others stay as
    they are, to the bit.
    """
    points = real_array(name, value, ndim=2)
    d = points.shape[1]
    if d < 2 or (dim is not None and d != dim):
        wanted = "d >= 2" if dim is None else f"d = {dim}"
        raise ValueError(f"{name} must have shape (n, d) with {wanted}, got {points.shape}")
    if len(points):
        with np.errstate(over="ignore"):
            off = np.abs(np.einsum("nd,nd->n", points, points) - 1.0)
        worst = int(np.argmax(off))
        if off[worst] > 2.0 * SINGLE_PRECISION:
            raise ValueError(
                f"{name} must be unit vectors, row {worst} has length "
                f"{unlike_one(math.hypot(*points[worst]))}; divide by the lengths"
            )
        if off[worst] > 2.0 * UNIT_TOLERANCE:
            rows = off > UNIT_TOLERANCE
            points = points.copy()
            points[rows] /= np.sqrt(np.einsum("nd,nd->n", points[rows], points[rows]))[:, None]
    return points


def unlike_one(length: float) -> str:
    """A length as an error shows it: with as many digits as tell it from 1.

    >>> unlike_one(2.0), unlike_one(1.0000021)
    ('2', '1.0000021')
    """
    texts = [f"{length:.{digits}g}" for digits in (6, 9, 12, 17)]
    return next((text for text in texts if text != "1"), texts[-1])


def moving_points(value: Any, dim: int | None = None) -> Array:
    """`value` as a state of (n, d) vectors of any lengths > 0, d >= 2 (d = `dim` where given)."""
    points = real_array("state", value, ndim=2)
    n, d = points.shape
    if n == 0 or d < 2 or (dim is not None and d != dim):
        wanted = "d >= 2" if dim is None else f"d = {dim}"
        raise ValueError(f"state must have shape (n, d) with n >= 1 and {wanted}, got {(n, d)}")
    with np.errstate(over="ignore"):
        square = np.einsum("nd,nd->n", points, points)
    wrong = ~((square > 0.0) & (square < np.inf))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            "state must hold vectors of length > 0, not beyond the range of float64, "
            f"row {row} has {math.hypot(*points[row]):.3g}"
        )
    return points


def coefficients(name: str, value: Any, ndim: int | None = None) -> Array:
    """`value` as an array of entries up to LARGEST_ENTRY in size."""
    array = real_array(name, value, ndim=ndim)
    largest = np.abs(array).max(initial=0.0)
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"{name} must have entries up to {LARGEST_ENTRY:g} in size, got {largest:.3g}"
        )
    return array


def square_matrix(name: str, value: Any, dim: int | None = None) -> Array:
    """`value` as a real (d, d) matrix of `coefficients`, d >= 2 (d = `dim` where given)."""
    matrix = coefficients(name, value, ndim=2)
    rows, columns = matrix.shape
    if rows != columns or rows < 2 or (dim is not None and rows != dim):
        wanted = "(d, d) with d >= 2" if dim is None else f"({dim}, {dim})"
        raise ValueError(f"{name} must be a square matrix {wanted}, got shape {matrix.shape}")
    return matrix


def number(name: str, value: Any) -> float:
    """`value` as a finite real number."""
    single = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    # Python and numpy make floats of these too, but not of what they say.
    unlike = (bool, np.bool_, str, bytes, np.ndarray, np.complexfloating)
    try:
        if isinstance(single, unlike):
            raise TypeError
        result = float(single)
    except OverflowError:
        raise ValueError(
            f"{name} must be within the range of float64, got {shown(value)}"
        ) from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a real number, got {shown(value)}") from None
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result}")
    return result


def positive(name: str, value: Any) -> float:
    """`value` as a number > 0."""
    result = number(name, value)
    if result <= 0.0:
        raise ValueError(f"{name} must be > 0, got {result}")
    return result


def below_one(name: str, value: Any) -> float:
    """`value` as a number > 0 and < 1, such as a relative error."""
    result = positive(name, value)
    if result >= 1.0:
        raise ValueError(f"{name} must be < 1, a relative error, got {result}")
    return result


def non_negative(name: str, value: Any) -> float:
    """`value` as a number >= 0."""
    result = number(name, value)
    if result < 0.0:
        raise ValueError(f"{name} must be >= 0, got {result}")
    return result


def natural(name: str, value: Any, least: int = 0, below: int = 2**63) -> int:
    """`value` as an integer >= `least` and < `below`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {shown(value)}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {shown(value)}")
    if value >= below:
        raise ValueError(f"{name} must be < {below}, got {shown(value)}")
    return int(value)


def one_of(name: str, value: T, allowed: Collection[T]) -> T:
    """`value` if it is among `allowed`; otherwise a ValueError that lists them.

    Of its type too: True and 2.0 are no 1 and 2.
    """
    for choice in allowed:
        kind = (int, np.integer) if isinstance(choice, int) else type(choice)
        if isinstance(value, kind) and not isinstance(value, bool) and value == choice:
            return choice
    choices = ", ".join(repr(choice) for choice in allowed)
    raise ValueError(f"{name} must be one of {choices}, got {shown(value)}")


def instance(name: str, value: Any, kind: type[T], hint: str = "") -> T:
    """`value` if it is of the class `kind`; otherwise a TypeError, which ends with the hint."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {article} {kind.__name__}, got {shown(value)}{hint}")
    return value


def function(name: str, value: Any, form: str) -> Callable[..., Any]:
    """`value` if it can be called, as `form` says; otherwise a TypeError."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {form}, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """A wrong value as an error shows it: on one line, not longer than SHOWN.

    >>> shown(np.eye(2)), len(shown(10**5000)) <= SHOWN
    ('array([[1., 0.], [0., 1.]])', True)
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no number of so many digits
        text = f"{type(value).__name__} of more digits than are written"
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
