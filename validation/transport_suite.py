"""The transport tests of Lauritzen et al. (2012) and Williamson et al. (1992), all orders.

Non-divergent flow (Gaussian hills, cosine bells, slotted cylinders, correlated bells advance
together), divergent flow (mixing ratios of the same fields over a density), solid-body rotation at
three angles; l1, l2, linf, minimum, maximum after one period, filament and mixing diagnostics at
half of it, and the minimal resolution: the mean distance of cells at which the cosine bells' l2
falls to 0.033. Next to it, what other schemes reach.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from meshes import SphereMesh, icosphere
from pde import Equation, FiniteVolume, Simulation
from pde.arguments import Array
from pde.field import Field
from validation import norms
from validation.problems import transport as cases
from validation.study import Bar, Command, Curve, Option, Options, Outcome, Panel, Table, each

NAMES = tuple(cases.FIELDS)
SHORT = {"gaussian hills": "GH", "cosine bells": "CB", "slotted cylinders": "SC"}
ANGLES = (0.0, np.pi / 4, np.pi / 2)
SCHEME = ("order", "limiter", "cells")
LEVELS = np.linspace(0.1, 1.0, 10)
LARGEST = {(4, "GH"): 0.115, (6, "GH"): 0.050, (6, "CB"): 0.16, (8, "GH"): 0.026, (8, "CB"): 0.11}
"""Bars at 10,242 cells, non-divergent flow, default limiter."""
LEAST_ORDER = {4: 2.7, 6: 4.2}
"""Bars for the observed order of the Gaussian hills from 10,242 to 40,962 cells."""
MONOTONE = {"GH": 0.150, "CB": 0.298}
"""The monotone Skamarock-Gassmann row at 10,242 cells."""


@dataclass(frozen=True, eq=False)
class Result:
    """One flow on one mesh with one scheme.

    start, middle, end : (N, k) tracers at 0, T/2 and T; mass_change : largest relative change
    """

    frequency: int
    order: int
    limiter: str | None
    mesh: SphereMesh
    start: Array
    middle: Array
    end: Array
    mass_change: float

    @property
    def degrees(self) -> float:
        """Mean distance of cells in degrees."""
        return float(np.degrees(self.mesh.spacing))

    @property
    def scheme(self) -> tuple[int, str, int]:
        """What stands in the columns SCHEME."""
        return self.order, str(self.limiter).lower(), self.mesh.n_cells

    def errors(self, column: int) -> dict[str, float]:
        """Relative l1, l2, linf of a tracer after one period."""
        return norms.relative(self.mesh, self.end[:, column], self.start[:, column])


def run(
    flow: Field, fields: Sequence, frequency: int, order: int, limiter: str | None, ratios: bool
) -> Result:
    """Advance fields by one period; ratios: as mixing ratios over a density that starts as 1."""
    mesh = icosphere(frequency)
    tracers = np.stack([mesh.average(f) for f in fields], axis=1)
    state = np.concatenate([np.ones((mesh.n_cells, 1)), tracers], axis=1) if ratios else tracers
    simulation = Simulation(FiniteVolume(mesh, Equation(flow), order=order, limiter=limiter), state)
    simulation.run(until=0.5 * cases.PERIOD, save_at=[])
    middle = simulation.state.copy()
    simulation.run(until=cases.PERIOD, save_at=[])
    end = simulation.state
    masses = mesh.areas @ state
    change = float(np.max(np.abs(mesh.areas @ end - masses) / masses))
    if ratios:
        middle, end = middle[:, 1:] / middle[:, :1], end[:, 1:] / end[:, :1]
    return Result(frequency, order, limiter, mesh, tracers, middle, end, change)


def error_table(title: str, results: Sequence[Result], names: Sequence[str]) -> Table:
    """Norms and extrema after one period, a line for each scheme, mesh and tracer."""
    rows = []
    for one in results:
        for column, name in enumerate(names):
            values, end = one.errors(column).values(), one.end[:, column]
            place = one.degrees, SHORT.get(name, name)
            rows.append((*one.scheme, *place, *values, end.min(), end.max()))
    columns = [*SCHEME, "degrees:.2f", "field"]
    return Table(title, [*columns, *each(".3g", "l1", "l2", "linf", "min", "max")], rows)


def diagnostics_table(results: Sequence[Result]) -> Table:
    """Filaments left at T/2 in percent, by threshold, and the three kinds of mixing."""
    bells, partner = NAMES.index("cosine bells"), NAMES.index("correlated bells")
    rows = []
    for one in results:
        areas, middle = one.mesh.areas, one.middle
        left = cases.preserved_filaments(areas, one.start[:, bells], middle[:, bells], LEVELS)
        mixed = cases.mixing(areas, middle[:, bells], middle[:, partner])
        rows.append((*one.scheme, *left, *mixed.values()))
    columns = [*SCHEME, *each(".0f", *(f">={level:.1f}" for level in LEVELS))]
    columns += each(".2e", "real", "unmixing", "overshooting")
    return Table("Cosine bells at half the period", columns, rows)


def minimal_resolution(degrees: Sequence[float], l2: Sequence[float]) -> float:
    """Where the l2 of the cosine bells crosses 0.033, between two meshes on log-log axes; or nan.

    degrees : falling; l2 : errors there
    """
    for (coarse, above), (fine, below) in pairwise(zip(degrees, l2, strict=True)):
        if above > cases.THRESHOLD >= below:
            share = np.log(above / cases.THRESHOLD) / np.log(above / below)
            return float(coarse * (fine / coarse) ** share)
    return float("nan")


def by_scheme(results: Sequence[Result]) -> dict[tuple[int, str | None], list[Result]]:
    """Results grouped by order and limiter, coarse to fine."""
    groups: dict[tuple[int, str | None], list[Result]] = {}
    for one in sorted(results, key=lambda r: r.frequency):
        groups.setdefault((one.order, one.limiter), []).append(one)
    return groups


def l2(result: Result, name: str) -> float:
    """The l2 error of a named field in the non-divergent flow."""
    return result.errors(NAMES.index(name))["l2"]


def summary_table(results: Sequence[Result]) -> Table:
    """Ours and others' in the non-divergent flow: l2 by mesh, observed order, resolution."""
    rows: list[Any] = []

    def together(values: Sequence[float]) -> str:
        return " / ".join("-" if np.isnan(value) else f"{value:.3g}" for value in values)

    def row(scheme: str, degrees: Sequence[float], *errors: Sequence[float]) -> tuple[str, ...]:
        return scheme, ", ".join(f"{d:.2f}" for d in degrees), *map(together, errors)

    for (order, limiter), group in by_scheme(results).items():
        hills, bells = ([l2(r, name) for r in group] for name in NAMES[:2])
        degrees = [r.degrees for r in group]
        slope = np.diff(np.log(hills[-2:])) / np.diff(np.log(degrees[-2:]))
        numbers = slope[0] if len(slope) else None, minimal_resolution(degrees, bells)
        rows.append(
            (*row(f"order {order}, {limiter}", degrees, hills, bells), *numbers, "this run")
        )
    for one in cases.OTHERS:
        words = row(one.scheme, cases.OTHERS_DEGREES, one.hills, one.bells)
        rows.append((*words, None, one.resolution, one.source))
    columns = ["scheme", "degrees", "GH l2", "CB l2"]
    columns += [*each(".2f", "GH order", "minimal resolution"), "source"]
    return Table("Non-divergent flow", columns, rows)


def promises(results: Sequence[Result]) -> Iterator[Bar]:
    """The bars that apply to what was run in the non-divergent flow."""
    yield Bar.at_most("relative change of mass", max(r.mass_change for r in results), 1e-13)
    for (order, limiter), group in by_scheme(results).items():
        scheme = f"order {order}, {limiter}"
        below = min(float(r.end.min()) for r in group)
        if limiter == "positivity":
            yield Bar.at_least(f"{scheme}: minimum", below, 0.0)
        if limiter == "monotone":
            below = max(float((r.start.min(axis=0) - r.end.min(axis=0)).max()) for r in group)
            above = max(float((r.end.max(axis=0) - r.start.max(axis=0)).max()) for r in group)
            outside = f"{scheme}: beyond the initial range"
            yield Bar.at_most(outside, max(below, above, 0.0), 1e-12)
        at = {r.frequency: r for r in group}
        for name, short in list(SHORT.items())[:2]:
            if 32 not in at:
                continue
            what = f"{scheme}: {short} l2 at 10242 cells"
            if limiter == "positivity" and (order, short) in LARGEST:
                yield Bar.at_most(what, l2(at[32], name), LARGEST[order, short])
            if limiter == "monotone" and order >= 4:
                yield Bar.at_most(what, l2(at[32], name), MONOTONE[short])
        if limiter == "positivity" and order in LEAST_ORDER and {32, 64} <= set(at):
            slope = np.log2(l2(at[32], NAMES[0]) / l2(at[64], NAMES[0]))
            yield Bar.at_least(f"{scheme}: GH order", slope, LEAST_ORDER[order])
    reached = [
        minimal_resolution([r.degrees for r in group], [l2(r, NAMES[1]) for r in group])
        for group in by_scheme(results).values()
    ]
    if not np.isnan(reached).all():
        yield Bar.at_least("best minimal resolution", float(np.nanmax(reached)), 1.5)


def panel(results: Sequence[Result], name: str) -> Panel:
    """l2 of a field against the distance of cells, ours and others'."""
    curves = []
    for (order, limiter), group in by_scheme(results).items():
        form = {"positivity": "o-", "monotone": "s--", None: "x:"}[limiter]
        degrees, errors = [r.degrees for r in group], [l2(r, name) for r in group]
        curves.append(Curve(degrees, errors, form, order, f"order {order}, {limiter}"))
    for one in cases.OTHERS[:2]:
        values = one.hills if name == NAMES[0] else one.bells
        curves.append(Curve(cases.OTHERS_DEGREES, values, ".-", "0.6", one.scheme))
    if name == NAMES[1]:
        ends = [max(cases.OTHERS_DEGREES), min(cases.OTHERS_DEGREES)]
        curves.append(Curve(ends, [cases.THRESHOLD] * 2, "-", "k", "minimal resolution"))
    return Panel(f"{name}, non-divergent flow", "degrees", "l2", curves, log="xy")


def study(options: Options) -> Outcome:
    """All flows with all schemes on all meshes."""
    schemes = [
        (frequency, order, None if limiter == "none" else limiter)
        for order in options.orders
        for limiter in options.limiters
        for frequency in options.frequencies
    ]
    fields = list(cases.FIELDS.values())
    deforming = [run(cases.non_divergent(), fields, *scheme, ratios=False) for scheme in schemes]
    tables = [
        summary_table(deforming),
        error_table("Non-divergent flow, one period", deforming, NAMES),
        diagnostics_table(deforming),
    ]
    # The other flows on the coarser meshes only: they tell less, and cost the same.
    coarse = [scheme for scheme in schemes if scheme[0] <= min(options.frequency, 32)]
    compressing = [run(cases.divergent(), fields[:3], *one, ratios=True) for one in coarse]
    tables.append(error_table("Divergent flow, mixing ratios", compressing, NAMES[:3]))
    for angle in ANGLES:
        turning = [
            run(cases.solid_body(angle), [cases.williamson_bell], *one, ratios=False)
            for one in coarse
        ]
        title = f"Solid body at {np.degrees(angle):.0f} degrees, Williamson's bell"
        tables.append(error_table(title, turning, ["bell"]))
    panels = [panel(deforming, name) for name in NAMES[:2]]
    return Outcome(tables, promises(deforming), panels=panels)


LIMITERS = Option(
    "--limiters",
    ["positivity", "monotone"],
    nargs="+",
    metavar="L",
    choices=["positivity", "monotone", "none"],
    help="positivity, monotone, none",
)
ALL_ORDERS = [1, 2, 3, 4, 6, 8]
main = Command(study, LIMITERS, meshes=[6, 10], full=[24, 32, 36, 40, 48, 64], orders=ALL_ORDERS)


if __name__ == "__main__":
    sys.exit(main())
