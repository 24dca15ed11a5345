"""Meshes of the unit sphere: geometry and connectivity, no equation."""

from meshes.circular import circle
from meshes.icosahedral import icosphere
from meshes.sphere_mesh import CellQuadrature, EdgeQuadrature, MeshError, SphereMesh

__all__ = ["CellQuadrature", "EdgeQuadrature", "MeshError", "SphereMesh", "circle", "icosphere"]
