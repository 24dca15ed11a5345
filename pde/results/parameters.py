"""What a simulation is made of, as far as it can be told from the outside.

`parameters` walks through a system, its equation, field and functions, and gives every number, text
and array there under its name; functions count by their code and all that it refers to. `probes`
are values of the field on a few points. A restart file holds both, and a run that does not find
them again is another one (`pde.restart`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from meshes import SphereMesh
from pde.arguments import Array, shown
from pde.equation import Equation
from pde.field import Field, velocity_of
from pde.measure import Measure

DEPTH = 12
"""Objects within objects that are looked into."""

PROBES = 16
"""Points, and atoms of the measure, at which a field is evaluated."""

OURS = (Field, Equation, Measure)
"""Objects of this project with parameters; others are derived from them, or are a system."""


def parameters(system: Any) -> dict[str, Any]:
    """{name: number, text or summary of an array} of all that `system` is built from.

    >>> from pde import Equation, ParticleSystem
    >>> from pde.fields.one_body import Drift
    >>> found = parameters(ParticleSystem(Equation(2.0 * Drift(np.eye(3))), seed=4))
    >>> found["system.seed"], found["system.equation.field.factor"]
    (4, 2.0)
    """
    return dict(_walk("system", system, DEPTH, {}))


def _walk(name: str, value: Any, depth: int, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """The parameters in `value`, each object once."""
    if isinstance(value, list | tuple) and value and all(type(v) in (int, float) for v in value):
        value = np.array(value, dtype=float)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubc":
        yield name, _summary(value)
    elif value is None or isinstance(value, bool | int | float | str | np.generic):
        yield name, value.item() if isinstance(value, np.generic) else value
    elif isinstance(value, SphereMesh):
        yield f"{name}.centers", _summary(value.centers)
    elif depth and id(value) not in seen:
        seen[id(value)] = value
        yield f"{name}.kind", type(value).__qualname__
        for part, inner in _parts(value, outermost=depth == DEPTH):
            yield from _walk(f"{name}.{part}", inner, depth - 1, seen)


def _parts(value: Any, outermost: bool) -> Iterator[tuple[str, Any]]:
    """What an object consists of, by name."""
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple):
        yield "length", len(value)
        yield from ((str(i), inner) for i, inner in enumerate(value))
    elif isinstance(value, MethodType):
        yield from (("function", value.__func__), ("self", value.__self__))
    elif isinstance(value, partial):
        yield from (("function", value.func), ("args", value.args), ("options", value.keywords))
    elif isinstance(function := getattr(value, "py_func", value), FunctionType):
        yield from _function(function)
    elif not isinstance(value, type) and hasattr(value, "__dict__"):
        yield from _attributes(value, outermost)


def _attributes(value: Any, outermost: bool) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    ours = kind.__module__.partition(".")[0] in ("pde", "meshes")
    if ours and not outermost and not isinstance(value, OURS):
        return
    for name, inner in vars(value).items():
        derived = isinstance(getattr(kind, name, None), cached_property)
        if not derived and not (ours and name.startswith("_")):
            yield name, inner


def _function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """A function's code, and the values that it finds where it was defined."""
    code = function.__code__
    yield "code", hashlib.sha256(repr(_code(code)).encode()).hexdigest()[:12]
    yield "defaults", function.__defaults__
    yield "options", function.__kwdefaults__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet bound
            continue
    for name in sorted(_names(code)):
        if name in function.__globals__:
            value = function.__globals__[name]
            elsewhere = getattr(value, "__globals__", None) not in (None, function.__globals__)
            if not (isinstance(value, type) or elsewhere or hasattr(value, "__spec__")):
                yield name, value


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does, without where it stands."""
    constants: list[Any] = []
    for value in code.co_consts:
        if isinstance(value, CodeType):
            constants.append(_code(value))
        else:
            constants.append(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
    return code.co_code, code.co_names, tuple(constants)


def _names(code: CodeType) -> set[str]:
    inner = (_names(value) for value in code.co_consts if isinstance(value, CodeType))
    return set(code.co_names).union(*inner)


def _summary(array: np.ndarray) -> dict[str, Any]:
    """A hash, to tell arrays that are equal, and sums that tell those which differ by rounding."""
    flat = np.ascontiguousarray(array).reshape(-1)
    found = {"shape": list(array.shape), "hash": hashlib.sha256(flat.tobytes()).hexdigest()[:12]}
    if array.dtype.kind in "iub":
        return found
    numbers = flat.view(flat.real.dtype)
    size = float(np.abs(numbers).max(initial=0.0))
    angles = np.arange(len(numbers)) * 0.6180339887498949
    scaled = numbers / size if 0.0 < size < math.inf else numbers
    weights = (np.ones(len(numbers)), np.cos(angles), np.cos(angles**2 % math.tau))
    return found | {"size": size, "sums": np.array([w @ scaled for w in weights])}


def probes(system: Any, times: Sequence[float], state: Array) -> list[Array | None]:
    """Velocity, and diffusion where it is a function, on a few points at each time.

    None where the system has no field, or where the field is not defined at that time: fields may
    end with the run.
    """
    equation = getattr(system, "equation", None)
    field = getattr(equation or system, "field", None)
    if not isinstance(field, Field):
        return [None for _ in times]
    mesh = getattr(system, "mesh", None)
    dim = state.shape[-1] if mesh is None else mesh.ambient_dim
    points = np.random.default_rng(1).standard_normal((PROBES, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    mu = Measure(points[::-1], np.linspace(0.5, 1.5, PROBES) / PROBES)

    def probe(t: float) -> Array | None:
        try:
            with np.errstate(all="ignore"):
                velocity = velocity_of(field, points, mu, t)
                if equation is None or not callable(equation.diffusion):
                    return velocity
                return np.column_stack([velocity, equation.diffusion_at(points, mu, t)])
        except Exception:  # the field may be of anyone's making
            return None

    return [probe(t) for t in times]


def relative_difference(then: Any, now: Any) -> float:
    """How far two values, arrays or summaries differ, relative to their size; inf: in kind."""
    if isinstance(then, dict) and isinstance(now, dict):
        if then["shape"] == now["shape"] and then["hash"] == now["hash"]:
            return 0.0
        if then["shape"] != now["shape"] or "sums" not in then or "sums" not in now:
            return math.inf
        return max(relative_difference(then[key], now[key]) for key in ("size", "sums"))
    if isinstance(then, np.ndarray | float) and isinstance(now, np.ndarray | float):
        before, after = np.asarray(then), np.asarray(now)
        if before.shape != after.shape:
            return math.inf
        if np.array_equal(before, after, equal_nan=True):
            return 0.0
        size = np.abs(before).max(initial=0.0)
        change = np.abs(after - before).max(initial=0.0)
        return float(change / size) if change < size < math.inf else math.inf
    return 0.0 if type(then) is type(now) and then == now else math.inf


def described(then: Any, now: Any) -> str:
    """How a parameter changed, in words."""
    if isinstance(then, dict) or isinstance(now, dict):
        return "is another array"
    return f"was {shown(then)} and is {shown(now)}"
