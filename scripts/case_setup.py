"""From a checked case to the objects that run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meshes import SphereMesh, circle, icosphere
from pde import (
    Equation,
    FiniteVolume,
    ParticleSystem,
    SelfAttention,
    Simulation,
    ZeroTemperatureAttention,
    initial,
)
from pde.arguments import Array
from pde.field import Field
from sphere_attention_scripts import case_tree as tree


@dataclass(frozen=True, eq=False)
class Setup:
    """What a case runs.

    particles start at the cells' centroids with the cells' masses; None where the case wants none
    """

    case: tree.Case
    mesh: SphereMesh
    field: Field
    grid: Simulation
    particles: Simulation | None


def set_up(case: tree.Case) -> Setup:
    """Build mesh, field, initial law and the simulations.

    Raises ValueError where the parts refuse their arguments.
    """
    scheme = case.scheme
    mesh = mesh_of(case.mesh)
    field = field_of(case.model)
    equation = Equation(field, case.model.diffusion)
    system = FiniteVolume(
        mesh, equation, scheme.order, limiter=None if scheme.limiter == "none" else scheme.limiter
    )
    stepper = None if scheme.stepper == "default" else scheme.stepper
    grid = Simulation(system, law_of(case), stepper=stepper)
    particles = None
    if case.compare.particles:
        cloud = ParticleSystem(equation, weights=grid.state * mesh.areas, seed=case.seed)
        particles = Simulation(cloud, mesh.centroids, tolerance=case.compare.particle_tolerance)
    return Setup(case, mesh, field, grid, particles)


def matrix(entries: list) -> Array:
    """A matrix from its rows, or from its diagonal."""
    array = np.array(entries, dtype=float)
    return np.diag(array) if array.ndim == 1 else array


def mesh_of(spec: Any) -> SphereMesh:
    """The mesh of a table [mesh]."""
    if isinstance(spec, tree.Circle):
        return circle(spec.cells)
    return icosphere(spec.frequency, relax=spec.relax)


def field_of(spec: Any) -> Field:
    """The field of a table [model], without its diffusion."""
    V = matrix(spec.V)
    if isinstance(spec, tree.ZeroTemperature):
        return ZeroTemperatureAttention(V, matrix(spec.B))
    options: dict[str, Any] = {
        "normalized": spec.normalized,
        "tolerance": spec.tolerance or None,
    }
    if spec.B is None:
        return SelfAttention.from_qkv(spec.Q, spec.K, V, spec.beta, **options)
    return SelfAttention(V, matrix(spec.B), spec.beta, **options)


def law_of(case: tree.Case) -> Any:
    """The initial law of a case, a density (m, d) -> (m,) of total mass 1."""
    spec = case.initial
    if isinstance(spec, tree.Uniform):
        return initial.uniform(case.dim)
    if isinstance(spec, tree.VonMisesFisher):
        return initial.von_mises_fisher(_unit(spec.mean), spec.kappa)
    if isinstance(spec, tree.Bumps):
        centers = [_unit(center) for center in spec.centers]
        return initial.bumps(centers, spec.widths, spec.heights, spec.floor)
    if isinstance(spec, tree.Spot):
        return initial.spot(_unit(spec.center), spec.radius)
    if isinstance(spec, tree.AngularCentralGaussian):
        return initial.angular_central_gaussian(matrix(spec.Lambda))
    return initial.random_band_limited(case.seed, spec.degree, spec.amplitude, case.dim)


def _unit(direction: list) -> Array:
    vector = np.array(direction, dtype=float)
    # By its largest entry first: squares may leave the range of float64.
    vector = np.ldexp(vector, -np.frexp(np.abs(vector).max())[1])
    return vector / np.linalg.norm(vector)
