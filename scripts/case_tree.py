"""A case as a tree of dataclasses, one for each table of the file, checked where they meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sphere_attention_scripts.case_values import (
    Choice,
    Numbers,
    Real,
    Rows,
    Square,
    Text,
    Truth,
    Whole,
)


class CaseError(ValueError):
    """A case that cannot be run as it stands; one sentence."""


MOST_SAVES = 1_000_000
"""Of a run."""

NotNegative = Annotated[float, Real(at_least=0.0)]
Positive = Annotated[float, Real(above=0.0)]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """[model] kind = "attention": softmax attention from V and B, or from Q, K and V."""

    V: Annotated[list, Square()]
    B: Annotated[list | None, Square()] = None
    Q: Annotated[list | None, Rows()] = None
    K: Annotated[list | None, Rows()] = None
    beta: NotNegative
    normalized: Annotated[bool, Truth()] = True
    tolerance: NotNegative = 1e-10
    diffusion: NotNegative = 0.0

    def __post_init__(self) -> None:
        given = [name for name in ("B", "Q", "K") if getattr(self, name) is not None]
        if given not in (["B"], ["Q", "K"]):
            raise CaseError(
                "[model] takes either B, or Q and K (then B = Q^T K), "
                f"got {' and '.join(given) or 'none of them'}"
            )


@dataclass(frozen=True, kw_only=True)
class ZeroTemperature:
    """[model] kind = "zero_temperature": the limit beta -> infinity."""

    V: Annotated[list, Square()]
    B: Annotated[list, Square()]
    diffusion: NotNegative = 0.0


@dataclass(frozen=True, kw_only=True)
class Icosphere:
    """[mesh] kind = "icosphere": the sphere with 10 frequency^2 + 2 cells."""

    frequency: Annotated[int, Whole(1)] = 20
    relax: Annotated[int, Whole(0)] = 0


@dataclass(frozen=True, kw_only=True)
class Circle:
    """[mesh] kind = "circle": the circle with equal cells."""

    cells: Annotated[int, Whole(3)] = 256


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """[initial] law = "uniform": constant density."""


@dataclass(frozen=True, kw_only=True)
class VonMisesFisher:
    """[initial] law = "von_mises_fisher": one smooth bump."""

    mean: Annotated[list, Numbers()]
    kappa: NotNegative


@dataclass(frozen=True, kw_only=True)
class Bumps:
    """[initial] law = "bumps": smooth bumps over a floor."""

    centers: Annotated[list, Rows()]
    widths: Annotated[Any, Numbers(Real(above=0.0), or_one=True)]
    heights: Annotated[Any, Numbers(Real(at_least=0.0), or_one=True)] = 1.0
    floor: NotNegative = 0.0


@dataclass(frozen=True, kw_only=True)
class Spot:
    """[initial] law = "spot": uniform on a cap; a small radius stands for a Dirac."""

    center: Annotated[list, Numbers()]
    radius: Annotated[float, Real(above=0.0, below=math.pi)]


@dataclass(frozen=True, kw_only=True)
class AngularCentralGaussian:
    """[initial] law = "angular_central_gaussian": directions of a Gaussian."""

    Lambda: Annotated[list, Square()]


@dataclass(frozen=True, kw_only=True)
class RandomBandLimited:
    """[initial] law = "random_band_limited": a random smooth law, drawn with the case's seed."""

    degree: Annotated[int, Whole(1)] = 4
    amplitude: Annotated[float, Real(at_least=0.0, below=1.0)] = 0.5


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """[scheme]: the discretisation."""

    order: Annotated[int, Choice((1, 2, 3, 4, 6, 8))] = 2
    limiter: Annotated[str, Choice(("positivity", "monotone", "none"))] = "positivity"
    stepper: Annotated[
        str, Choice(("default", "euler", "ssprk2", "ssprk3", "ssprk54", "implicit"))
    ] = "default"


@dataclass(frozen=True, kw_only=True)
class Time:
    """[time]: how far, and when states are saved on the way."""

    until: Positive
    save_every: Annotated[float | None, Real(above=0.0)] = None
    save_at: Annotated[list | None, Numbers(Real(at_least=0.0))] = None

    def __post_init__(self) -> None:
        if self.save_every is not None and self.save_at is not None:
            raise CaseError("[time] takes save_every or save_at, got both")
        if self.save_every is not None and self.until / MOST_SAVES > self.save_every:
            raise CaseError(
                f"'time.save_every' must leave at most {MOST_SAVES:,} saves until "
                f"time.until = {self.until:g}, got {self.save_every:g}"
            )
        late = [t for t in self.save_at or [] if t > self.until]
        if late and not _same(max(late), self.until):
            raise CaseError(
                f"'time.save_at' must lie between 0 and time.until = {self.until:g}, "
                f"got {late[0]:g}"
            )

    @property
    def saves(self) -> list[float]:
        """The times at which the state is saved, 0 and `until` among them."""
        from pde.time.instants import multiples_until

        if self.save_at is not None:
            given = sorted({0.0, *map(float, self.save_at)})
            return [*(t for t in given if not _same(t, self.until)), self.until]
        every = self.until / 8 if self.save_every is None else self.save_every
        return multiples_until(self.until, every)


def _same(first: float, second: float) -> bool:
    from pde.time.instants import same  # here: `--help` does without pde

    return same(first, second)


@dataclass(frozen=True, kw_only=True)
class Compare:
    """[compare]: what the solution is held against."""

    particles: Annotated[bool, Truth()] = True
    particle_tolerance: Positive = 1e-6


@dataclass(frozen=True)
class Tagged:
    """A table whose further keys depend on one of them, the tag."""

    tag: str
    variants: Mapping[str, type]


TABLES: Mapping[str, type | Tagged] = {
    "model": Tagged("kind", {"attention": Attention, "zero_temperature": ZeroTemperature}),
    "mesh": Tagged("kind", {"icosphere": Icosphere, "circle": Circle}),
    "initial": Tagged(
        "law",
        {
            "uniform": Uniform,
            "von_mises_fisher": VonMisesFisher,
            "bumps": Bumps,
            "spot": Spot,
            "angular_central_gaussian": AngularCentralGaussian,
            "random_band_limited": RandomBandLimited,
        },
    ),
    "scheme": Scheme,
    "time": Time,
    "compare": Compare,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything a run depends on."""

    title: Annotated[str, Text()] = ""
    seed: Annotated[int, Whole(0)] = 1
    model: Any
    mesh: Any
    initial: Any
    scheme: Scheme
    time: Time
    compare: Compare

    @property
    def dim(self) -> int:
        """The d of R^d."""
        return 3 if isinstance(self.mesh, Icosphere) else 2

    def __post_init__(self) -> None:
        where = f'mesh.kind = "{tag_of("mesh", self.mesh)}"'
        for name, width in self._widths():
            if width != self.dim:
                raise CaseError(
                    f"{name!r} must be of dimension {self.dim} for {where}, got {width}"
                )
        directions = [getattr(self.initial, name, None) for name in ("mean", "center")]
        for direction in [*directions, *getattr(self.initial, "centers", [])]:
            if direction is not None and not any(direction):
                raise CaseError("directions in [initial] must not be zero vectors")
        heights, floor = (getattr(self.initial, name, 1.0) for name in ("heights", "floor"))
        if not floor and not any(heights if isinstance(heights, list) else [heights]):
            raise CaseError("[initial] must hold some mass, got heights and floor 0")

    def _widths(self) -> list[tuple[str, int]]:
        """Keys that hold vectors or matrices, with the dimension they are of."""
        found = []
        for table in ("model", "initial"):
            part = getattr(self, table)
            for name in ("V", "B", "Q", "K", "mean", "center", "centers", "Lambda"):
                value = getattr(part, name, None)
                if value is not None:
                    rows = isinstance(value[0], list)
                    found.append((f"{table}.{name}", len(value[0] if rows else value)))
        return found


def tag_of(table: str, part: Any) -> str:
    """The tag ("attention", "icosphere", ...) that stands for the type of `part`."""
    spec = TABLES[table]
    assert isinstance(spec, Tagged)
    return next(tag for tag, variant in spec.variants.items() if type(part) is variant)
