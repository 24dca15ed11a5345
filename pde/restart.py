"""Restart files: a run that was stopped, or killed, goes on to the bit as if it never had been.

    sim.run(until=4.0, callbacks=[Save(..., "run.nc"), Checkpoint(path="restart.npz")])

and, in another process that has built the same simulation,

    sim.run(until=4.0, callbacks=[Save(..., "run.nc"), ...], resume="restart.npz")

A restart file holds what changes during a run: what `Simulation.snapshot` tells (time, state, the
step that the error control has found, counters) and what each callback remembers (the number of
records saved, particles that follow the grid, generators of random numbers). What does not change
is built again; that it is the same is checked by the names and versions in the file, by the
parameters of the system, its field and its functions (`pde.results.parameters`), by the right-hand
side at the restart point, and by the field at later times: they must come out equal.

It is an npz archive of arrays beside one JSON text, replaced as a whole (`pde.results.files`).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pde.arguments import Array
from pde.callbacks import Callback, EverySeconds, Schedule, about
from pde.results.files import path_of, reason, whole_file
from pde.results.parameters import described, parameters, probes, relative_difference

if TYPE_CHECKING:
    from pde.simulation import Simulation

FORMAT = 1
"""Version of the layout; a reader refuses others."""

ROUNDING = 1e-9
"""Right-hand sides that differ by less, relative to their largest entry, differ by rounding."""

SHARES = tuple((k * 0.6180339887498949) % 1.0 for k in range(1, 13))
"""Of the time ahead, at which fields are compared: at multiples of no period."""

SHOWN = 4
"""Differences that a message names."""

PACKAGES = ("sphere-attention", "numpy", "scipy", "numba")
"""What the bits of a result depend on, beside Python and the code itself."""


class RestartError(ValueError):
    """A restart file that cannot be continued from; one sentence."""


@dataclass(frozen=True, eq=False)
class Restart:
    """What a restart file holds.

    metadata : as it was given to `Checkpoint`
    versions : of what computed it
    simulation : of `Simulation.snapshot`
    callbacks : what each remembers, by its name
    identity : the system, its discretisation and the stepper in words
    parameters : of the system, by name (see `pde.results.parameters`)
    tendency : the right-hand side at the restart point
    later : times, and the field's probes at each (see `pde.results.parameters.probes`)
    """

    path: Path
    metadata: dict[str, Any]
    versions: dict[str, str]
    simulation: dict[str, Any]
    callbacks: dict[str, dict[str, Any]]
    identity: dict[str, Any]
    parameters: dict[str, Any]
    tendency: Array
    later: dict[str, Any]


@dataclass(eq=False)
class Checkpoint(Callback):
    """Writes a restart file; acts after all other callbacks.

    metadata : kept in the file; numbers, text, lists, dicts and arrays
    """

    schedule: Schedule = field(default_factory=lambda: EverySeconds(300.0))
    path: str | Path = "restart.npz"
    metadata: dict[str, Any] = field(default_factory=dict)

    def files(self) -> list[str | Path]:
        """The restart file."""
        return [self.path]

    def act(self, sim: Simulation) -> None:
        """Replace the file by one of the present moment."""
        write_restart(self.path, sim, self.metadata)


def write_restart(path: str | Path, sim: Simulation, metadata: Mapping[str, Any]) -> None:
    """Write what `sim` and the callbacks of its run need to go on from here.

    Raises TypeError where a callback remembers what no file can hold.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "metadata": dict(metadata),
        "versions": versions(),
        "simulation": sim.snapshot(),
        "callbacks": {name: c.snapshot() for name, c in named(sim.callbacks).items()},
        "identity": _identity(sim),
        "parameters": parameters(sim.system),
        "tendency": sim.system.rhs(sim.t, sim.state),
        "later": _later(sim),
    }
    # What an evaluation changes, a count or a cache, is no parameter.
    now = parameters(sim.system)
    content["parameters"] = {
        name: value
        for name, value in content["parameters"].items()
        if relative_difference(value, now.get(name)) == 0.0
    }
    arrays: list[np.ndarray] = []
    text = json.dumps(_packed(content, arrays))
    parts: dict[str, Any] = {f"a{i}": array for i, array in enumerate(arrays)}
    with whole_file(path_of("path", path)) as file:
        np.savez(file, content=np.frombuffer(text.encode(), np.uint8), **parts)


def read_restart(path: str | Path) -> Restart:
    """Read a restart file.

    Raises FileNotFoundError, or RestartError (a ValueError) for what is damaged, from elsewhere or
    of another layout.
    """
    path = path_of("path", path)
    if not path.exists():
        raise FileNotFoundError(f"there is no restart file {path}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        content = _unpacked(json.loads(arrays["content"].tobytes()), arrays)
        layout = content.pop("format")
        if layout == FORMAT:
            return Restart(path=path, **content)
    except Exception as damage:  # numpy, zip and JSON raise many kinds
        raise RestartError(f"{path} is damaged or no restart file ({reason(damage)})") from damage
    raise RestartError(f"{path} is of layout {layout}, this version writes and reads {FORMAT}")


def resume(sim: Simulation, path: str | Path) -> Restart:
    """Put `sim` where the restart file at `path` was written; its callbacks are resumed by the run.

    Raises FileNotFoundError, or RestartError where the file is damaged or `sim` is another
    simulation than the one that wrote it. Warns where the two differ by rounding only, as they do
    between different processors.
    """
    restart = read_restart(path)
    differing = differences(
        {"versions": restart.versions, **restart.identity},
        {"versions": versions(), **_identity(sim)},
    )
    if differing:
        raise RestartError(f"{path} cannot be continued: {'; '.join(differing)}")
    change, found = _change(sim, restart)
    if change > ROUNDING:
        raise RestartError(f"{path} cannot be continued: {'; '.join(found)}")
    if change > 0.0:
        warnings.warn(
            f"this machine rounds differently from the one that wrote {path}: the run goes on, "
            "but not to the bit",
            stacklevel=3,
        )
    sim.restore(restart.simulation)
    return restart


def _change(sim: Simulation, restart: Restart) -> tuple[float, list[str]]:
    """(the largest relative difference of `sim` to the simulation then, what differs in words)."""
    state, t = restart.simulation["state"], restart.simulation["t"]
    defined = [k for k, probe in enumerate(restart.later["probes"]) if probe is not None]
    times = [restart.later["times"][k] for k in defined]
    again = probes(sim.system, times, state)
    pairs = {
        f"right-hand side at t = {t:.6g}": (restart.tendency, sim.system.rhs(t, state)),
        "field at later times": (
            np.array([restart.later["probes"][k] for k in defined]),
            math.inf if any(probe is None for probe in again) else np.array(again),
        ),
    }
    now = parameters(sim.system)
    largest, found = 0.0, []
    for name, then in restart.parameters.items():
        if name not in now:
            continue  # of a cache; what objects are, and how many in a list, has a name of its own
        largest = max(largest, difference := relative_difference(then, now[name]))
        if difference > ROUNDING:
            found.append(f"{name} {described(then, now[name])}")
    del found[SHOWN:]
    for name, pair in pairs.items():
        largest = max(largest, difference := relative_difference(*pair))
        if difference > ROUNDING:
            found.append(
                f"the {name} differs from the one then, so the field, the mesh or the scheme is "
                "another one"
            )
            break
    return largest, found


def _later(sim: Simulation) -> dict[str, Any]:
    """Probes of the field until the end of the run, and as far again: it may be made longer."""
    span = 2.0 * (sim.until - min(sim.t, sim.begin))
    times = [sim.t + span * share for share in SHARES]
    return {"times": times, "probes": probes(sim.system, times, sim.state)}


def named(callbacks: Any) -> dict[str, Callback]:
    """Callbacks by the name under which a restart file knows them: their class, numbered.

    >>> list(named([Checkpoint(), Callback(), Checkpoint()]))
    ['Checkpoint', 'Callback', 'Checkpoint 2']
    """
    names: dict[str, Callback] = {}
    for callback in callbacks:
        name = type(callback).__name__
        count = sum(type(other).__name__ == name for other in names.values())
        names[f"{name} {count + 1}" if count else name] = callback
    return names


def differences(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two nested dictionaries, one text for each entry.

    >>> differences({"model": {"beta": 1.0}, "seed": 1}, {"model": {"beta": 2.0}, "seed": 1})
    ['model.beta was 1.0 and is 2.0']
    """
    found = []
    for key in dict.fromkeys([*then, *now]):
        before, after = then.get(key), now.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key} was {_shown(before)} and is {_shown(after)}")
    return found


@cache
def versions() -> dict[str, str]:
    """Versions of all that the bits of a result depend on, and a hash of this code."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for source in sorted([*root.glob("pde/**/*.py"), *root.glob("meshes/**/*.py")]):
        digest.update(source.name.encode() + source.read_bytes())
    return found | {"code of pde and meshes": digest.hexdigest()[:12]}


def _identity(sim: Simulation) -> dict[str, Any]:
    mesh = getattr(sim.system, "mesh", None)
    return {
        **about(sim),
        "tolerance": sim.tolerance,
        "max_step": sim.max_step,
        "shape of the state": list(sim.state.shape),
        "mesh": None if mesh is None else repr(mesh),
        "seed of the noise": None if sim.system.noise is None else sim.system.noise.seed,
    }


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    """`value` as JSON knows it, its arrays moved into `arrays`."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        arrays.append(value)
        return {"array": f"a{len(arrays) - 1}"}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {"dict": {str(key): _packed(part, arrays) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_packed(part, arrays) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"a restart file holds numbers, text, arrays, lists and dicts, got {type(value).__name__}"
    )


def _unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return {key: _unpacked(part, arrays) for key, part in value["dict"].items()}
    return [_unpacked(part, arrays) for part in value] if isinstance(value, list) else value
