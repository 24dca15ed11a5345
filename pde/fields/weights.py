"""Key, query and value matrices of one attention head, read from a file of trained weights.

A head of a transformer computes, for tokens x_j in R^d and matrices K, Q (k, d), V (k, d) and
O (d, k) of the head dimension k,

    O sum_j V x_j e^{<Q x, K x_j> / sqrt(k)} / sum_j e^{<Q x, K x_j> / sqrt(k)}

(Vaswani et al., arXiv:1706.03762). In the notation of this project B = Q^T K, the value matrix is
the product O V, and beta = 1 / sqrt(k) for tokens on the unit sphere. Layer normalisation leaves
tokens of length sqrt(d) instead: their directions follow the same equation with beta = d / sqrt(k).

What is left out: biases, the gains of layer normalisation and the subtraction of the mean,
positions, the perceptron and all other heads.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pde.arguments import Array, real_array, shown
from pde.fields.attention import SelfAttention
from pde.results.files import reason

SHOWN = 4
"""Names of arrays that an error lists."""


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """One head's matrices.

    K, Q : (k, d) keys and queries; the head dimension k may be d
    V : (k', d) values with O : (d, k'), or (d, d) without O

    Raises ValueError or TypeError for shapes that do not fit.

    >>> head = HeadWeights(K=np.eye(3)[:2], Q=np.eye(3)[:2], V=np.eye(3))
    >>> head.dim, head.head_dim, round(head.beta(), 3)
    (3, 2, 0.707)
    >>> head.field()
    SelfAttention(d=3, beta=0.707107)
    """

    K: Array
    Q: Array
    V: Array
    O: Array | None = None  # noqa: E741 - the literature's name of the output matrix

    def __post_init__(self) -> None:
        for name in ("K", "Q", "V"):
            object.__setattr__(self, name, real_array(name, getattr(self, name), ndim=2))
        if self.K.shape != self.Q.shape or self.K.shape[0] < 1 or self.K.shape[1] < 2:
            raise ValueError(
                "K and Q must have one shape (k, d) with d >= 2, "
                f"got {self.K.shape} and {self.Q.shape}"
            )
        d = self.dim
        if self.O is None:
            if self.V.shape != (d, d):
                raise ValueError(
                    f"V must have shape ({d}, {d}) unless the output matrix O (d, k) is given too, "
                    f"got {self.V.shape}"
                )
            return
        object.__setattr__(self, "O", real_array("O", self.O, ndim=2))
        if self.V.shape[1] != d or self.O.shape != self.V.shape[::-1]:
            raise ValueError(
                f"V and O must have shapes (k, {d}) and ({d}, k), "
                f"got {self.V.shape} and {self.O.shape}"
            )

    @property
    def dim(self) -> int:
        """Dimension d of the tokens."""
        return self.K.shape[1]

    @property
    def head_dim(self) -> int:
        """Head dimension k, the number of rows of keys and queries."""
        return self.K.shape[0]

    @cached_property
    def B(self) -> Array:
        """(d, d) bilinear form Q^T K, of rank at most k."""
        return self.Q.T @ self.K

    @cached_property
    def value(self) -> Array:
        """(d, d) value matrix O V, or V where it is square."""
        return self.V if self.O is None else self.O @ self.V

    def beta(self, layer_norm: bool = False) -> float:
        """1 / sqrt(k), as trained; times d for tokens of length sqrt(d) (`layer_norm`)."""
        return (self.dim if layer_norm else 1.0) / float(np.sqrt(self.head_dim))

    def field(
        self, beta: float | None = None, layer_norm: bool = False, **options: Any
    ) -> SelfAttention:
        """The head as a field on the unit sphere; options as for SelfAttention.

        beta : inverse temperature for unit tokens; None: `beta(layer_norm)`
        """
        if beta is None:
            beta = self.beta(layer_norm)
        elif layer_norm:
            raise ValueError(f"layer_norm sets beta; give one of the two, got beta = {beta}")
        return SelfAttention(self.value, self.B, beta, **options)


def read_head(
    path: str | Path,
    key: str = "K",
    query: str = "Q",
    value: str = "V",
    output: str | None = None,
    head: int = 0,
    heads: int = 1,
) -> HeadWeights:
    """One head from a .npz or .safetensors file.

    key, query, value, output : names of the arrays, stored as layers store them that compute W x:
        (n k, d) for keys, queries and values, (d, n k) for the output
    head, heads : the file's arrays hold `heads` heads one after the other (n above); `head` counts
        from 0

    Raises FileNotFoundError, ImportError where .safetensors needs its package, ValueError for names
    that the file lacks, for shapes that do not fit and for a head that there is not.
    """
    names = {"key": key, "query": query, "value": value, "output": output}
    if not isinstance(heads, int | np.integer) or heads < 1:
        raise ValueError(f"heads must be a whole number >= 1, got {shown(heads)}")
    if not isinstance(head, int | np.integer) or not 0 <= head < heads:
        raise ValueError(
            f"head must be one of 0 to {heads - 1} for heads = {heads}, got {shown(head)}"
        )
    if heads > 1 and output is None:
        raise ValueError(
            f"output must be given for heads = {heads}: each head's values need their columns of it"
        )
    arrays = _read(Path(path), [name for name in names.values() if name is not None])
    rows = {
        part: _part(name, arrays[name], head, heads)
        for part, name in names.items()
        if name is not None and part != "output"
    }
    if rows["key"].shape != rows["query"].shape:
        raise ValueError(
            f"key and query must have one shape, got {arrays[key].shape} for {key!r} "
            f"and {arrays[query].shape} for {query!r}"
        )
    columns = None if output is None else _part(output, arrays[output].T, head, heads).T
    return HeadWeights(rows["key"], rows["query"], rows["value"], columns)


def array_names(path: str | Path) -> list[str]:
    """Names of the arrays in a .npz or .safetensors file; errors as for `read_head`."""
    path = Path(path)
    with _opened(path) as (names, _):
        return list(names)


def _part(name: str, array: Array, head: int, heads: int) -> Array:
    """The rows of one head."""
    if len(array) % heads:
        raise ValueError(
            f"heads must divide the head side of {name!r}, {len(array)}, got heads = {heads}"
        )
    size = len(array) // heads
    return array[head * size : (head + 1) * size]


def _read(path: Path, wanted: Sequence[str]) -> dict[str, Array]:
    """The arrays of these names as float64 matrices."""
    with _opened(path) as (names, load):
        for name in wanted:
            if name not in names:
                raise ValueError(f"{path} holds no array {name!r}; it holds {_list(name, names)}")
        return {name: real_array(name, _loaded(path, name, load), ndim=2) for name in wanted}


def _loaded(path: Path, name: str, load: Callable[[str], Any]) -> Any:
    """One array; an archive may open and still be damaged inside.

    Whole numbers are codes of a quantised model, which mean nothing without their scales.
    """
    try:
        array = load(name)
        if array.dtype.kind in "iub":
            raise ValueError(
                f"array {name!r} of {path} is stored as {array.dtype}, the codes of quantised or "
                "masked numbers; save the numbers themselves, as float32"
            )
        return array
    except ValueError:
        raise
    except Exception as damage:  # zip and zlib raise kinds of their own
        raise ValueError(f"{path} is damaged in array {name!r} ({reason(damage)})") from damage


def _list(wanted: str, names: Sequence[str]) -> str:
    """Some of the names, those like `wanted` first."""
    near = difflib.get_close_matches(wanted, names, SHOWN, cutoff=0.0)
    more = len(names) - len(near)
    return ", ".join(map(repr, near)) + (f" and {more} more" if more else "") if near else "none"


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Sequence[str], Callable[[str], Any]]]:
    """(names, load(name)) of a file of arrays, open meanwhile."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix not in OPENERS:
        raise ValueError(f"weights must come as {' or '.join(OPENERS)}, got {path}")
    try:
        file, names, load = OPENERS[path.suffix](path)
    except ImportError:
        raise
    except Exception as damage:  # numpy, zip and safetensors raise many kinds
        raise ValueError(
            f"{path} is damaged or no {path.suffix} file ({reason(damage)})"
        ) from damage
    with file:
        yield names, load


def _open_npz(path: Path) -> tuple[Any, Sequence[str], Callable[[str], Any]]:
    archive = np.load(path, allow_pickle=False)
    return archive, archive.files, archive.__getitem__


def _open_safetensors(path: Path) -> tuple[Any, Sequence[str], Callable[[str], Any]]:
    try:
        safetensors = importlib.import_module("safetensors")
    except ImportError as missing:
        raise ImportError(
            "reading .safetensors needs the package safetensors: python -m pip install safetensors"
        ) from missing
    file = safetensors.safe_open(path, framework="numpy")

    def load(name: str) -> Any:
        try:
            return file.get_tensor(name)
        except TypeError as unknown:  # bfloat16 and the float8 kinds
            kind = file.get_slice(name).get_dtype()
            raise ValueError(
                f"array {name!r} of {path} is stored as {kind}, which numpy does not know; "
                "save it as float32"
            ) from unknown

    return file, list(file.keys()), load


OPENERS = {".npz": _open_npz, ".safetensors": _open_safetensors}
