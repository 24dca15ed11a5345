"""Bad and extreme input for property tests, and what counts as a clear answer to it.

A refusal is clear when a `raise` statement of this project made it: one sentence that names the
argument. What numpy, scipy or Python say of an input that nobody looked at is none.
"""

import linecache
import signal
import traceback
import warnings
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]

OURS = tuple(str(ROOT / name) for name in ("meshes", "pde", "validation", "scripts"))

CLEAR = (ValueError, TypeError, ArithmeticError, OSError, ImportError)
"""Types of errors that callers are told to expect."""

UNCLEAR = (OverflowError, ZeroDivisionError, UnicodeError, RuntimeWarning)


def fault(error, *names):
    """What is unclear about an error, in words; None where nothing is. It has to say the names."""
    text = str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno).strip()
    if not isinstance(error, CLEAR) or isinstance(error, UNCLEAR):
        return f"{type(error).__name__} is no kind of error that is expected: {text}"
    if not last.filename.startswith(OURS) or not line.startswith("raise"):
        return f"nobody looked at the input: {line!r} gave {type(error).__name__}: {text}"
    if "\n" in text or not 15 <= len(text) <= 500:
        return f"not one sentence: {text!r}"
    missing = [name for name in names if name not in text]
    return f"does not name {missing}: {text!r}" if missing else None


def attempt(call):
    """(what a call gives, None) or (None, its error); warnings of numpy are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return call(), None
        except Exception as error:
            return None, error


def refused(call, *names):
    """Assert that the call is refused clearly; gives the error's text."""
    answer, error = attempt(call)
    assert error is not None, f"accepted, and gave {answer!r}"
    unclear = fault(error, *names)
    assert unclear is None, unclear
    return str(error)


def answered_or_refused(call, *names):
    """What the call gives, or None where it is refused clearly."""
    answer, error = attempt(call)
    if error is not None:
        unclear = fault(error, *names)
        assert unclear is None, unclear
        return None
    return answer


def table(rows):
    """Parametrize a test by rows (id, name, call, values)."""
    return pytest.mark.parametrize(
        ("name", "call", "values"), [pytest.param(*row[1:], id=row[0]) for row in rows]
    )


def refuses_all(name, call, values):
    """Assert that the call refuses each of the values and names the argument."""
    for value in values:
        refused(lambda: call(value), name)  # noqa: B023 - called at once


# --- what is bad whatever it is for ----------------------------------------------------------

BAD_NUMBERS = [
    np.nan, np.inf, -np.inf, 10**400, None, "1", b"1", True, 1j, np.complex128(1 + 2j), [1.0],
    [[1.0], [2.0, 3.0]], np.ones(1), np.ones(2), {}, object(), Decimal("NaN"), np.float32("inf"),
    np.array("a"), np.datetime64("2020-01-01"),
]  # fmt: skip
"""What is no finite real number."""

BAD_INTEGERS = [*BAD_NUMBERS, 2.5, np.float64(3.0), -1]
"""What is no integer >= 0."""

BAD_ARRAYS = [
    None, "points", object(), {}, 1j * np.ones((2, 3)), np.array([["a", "b", "c"]]),
    [[1.0, 0.0, 0.0], [1.0]], np.array([[None, 1.0, 0.0]]), np.ma.masked_invalid([[np.nan, 1, 0]]),
    np.array([["2020-01-01"] * 3], dtype="datetime64[D]"),
]  # fmt: skip
"""What is no array of real numbers."""


def with_entry(array, value, index=None):
    """A copy of the array with one entry replaced."""
    copy = np.array(array, dtype=float)
    copy[index if index is not None else tuple(np.array(copy.shape) // 2)] = value
    return copy


def not_finite(array):
    """Copies of an array with one NaN or infinity."""
    return [with_entry(array, value) for value in (np.nan, np.inf, -np.inf)]


def wrong_shapes(array):
    """Copies of an array with other numbers of dimensions, rows or columns."""
    array = np.asarray(array, dtype=float)
    shapes = [array[..., None], array[None], array[:-1], np.concatenate([array, array[:1]])]
    if array.ndim > 1:
        shapes += [array[0], array[:, :-1], np.concatenate([array, array[:, :1]], axis=1)]
    return [*shapes, np.float64(0.5), np.empty((0,)), np.empty((0, 0))]


def layouts(array):
    """The same numbers in every layout and type in which they may come; float32 where exact."""
    array = np.array(array, dtype=float)
    frozen = array.copy()
    frozen.flags.writeable = False
    spread = np.repeat(array, 2, axis=-1)[..., ::2]
    forms = {
        "read-only": frozen,
        "reversed": array[::-1].copy()[::-1],
        "Fortran order": np.asfortranarray(array),
        "with gaps": spread,
        "list": array.tolist(),
        "big-endian": array.astype(">f8"),
        "long double": array.astype(np.longdouble),
        "matrix of the buffer protocol": memoryview(array.copy()),
    }
    if (array == array.astype(np.float32)).all():
        forms["float32"] = array.astype(np.float32)
    return forms


# --- strategies ------------------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)
magnitudes = st.floats(-300.0, 300.0).map(lambda e: 10.0**e)
"""Sizes over the whole range of float64."""

extreme = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-308, 1e-200, 1e-16, 1.0, 1e6, 1e100, 1e150, 1e200, 1e308]),
    magnitudes,
)
"""Numbers >= 0 of any size."""


@st.composite
def unit_clouds(draw, d=3, most=6):
    """(n, d) unit points, n >= 1: random ones, axes, equal and antipodal ones."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(1, most))
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    kind = draw(st.sampled_from(["random", "axes", "equal", "antipodal"]))
    if kind == "axes":
        x = np.eye(d)[rng.integers(0, d, n)] * rng.choice([-1.0, 1.0], n)[:, None]
    elif kind == "equal":
        x = np.repeat(x[:1], n, axis=0)
    elif kind == "antipodal":
        x[n // 2 :] = -x[: n - n // 2]
    return np.ascontiguousarray(x)


@st.composite
def masses(draw, n):
    """(n,) weights >= 0 with mass: equal, of all sizes, or mostly zero."""
    rng = np.random.default_rng(draw(seeds))
    kind = draw(st.sampled_from(["equal", "sizes", "sparse"]))
    if kind == "equal":
        return np.full(n, 1.0 / n)
    if kind == "sizes":
        return 10.0 ** rng.uniform(-300.0, 2.0, n)
    weights = np.zeros(n)
    weights[rng.integers(0, n)] = 1.0
    return weights


@st.composite
def extreme_matrices(draw, d=3):
    """(d, d) matrices: any rank, any condition, any size from 0 to 1e300."""
    rng = np.random.default_rng(draw(seeds))
    kind = draw(
        st.sampled_from(["zero", "identity", "random", "symmetric", "singular", "stiff", "jordan"])
    )
    A = rng.standard_normal((d, d))
    if kind == "zero":
        A = np.zeros((d, d))
    elif kind == "identity":
        A = np.eye(d)
    elif kind == "symmetric":
        A = A + A.T
    elif kind == "singular":
        A = A[:, :1] @ A[:1]
    elif kind == "stiff":
        A = A @ np.diag(10.0 ** np.linspace(-150.0, 0.0, d))
    elif kind == "jordan":
        A = np.eye(d) + np.diag(np.ones(d - 1), 1)
    return A * draw(st.sampled_from([1.0, -1.0, 1e-300, 1e-150, 1e6, 1e99, 1e150, 1e300]))


# --- the command line ------------------------------------------------------------------------

SMALL = [
    "mesh.kind=circle", "mesh.cells=12", "model.V=[1.0, 0.5]", "model.B=[1.0, 1.0]",
    "time.until=0.2", "time.save_every=0.1",
]  # fmt: skip


def run(out, *more):
    """The arguments of a small run."""
    changes = [word for text in [*SMALL, *more] for word in ("--set", text)]
    return ["run", *changes, "--quiet", "--out", str(out)]


@contextmanager
def at_most(seconds):
    """Fail what takes longer: a damaged length must not be counted to its end."""

    def late(number, frame):
        raise AssertionError(f"still going on after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
