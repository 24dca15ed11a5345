"""The mean-field transformer equation on the sphere: fields, discretisations, the time loop.

    d_t rho + div(rho v[rho]) = LaplaceBeltrami(D rho)

>>> import numpy as np
>>> from meshes import icosphere
>>> from pde import Equation, FiniteVolume, SelfAttention, Simulation, initial
>>> field = SelfAttention(V=np.diag([2, 1, 0.5]), B=np.diag([1, 4, 1]), beta=50)
>>> system = FiniteVolume(icosphere(8), Equation(field))
>>> solution = Simulation(system, initial.uniform()).run(until=0.1)
>>> solution.times
array([0. , 0.1])
"""

from pde import initial, limits
from pde.attention import SelfAttention, ZeroTemperatureAttention
from pde.equation import Equation
from pde.finite_volume import FiniteVolume
from pde.measure import Measure
from pde.particles import ParticleSystem
from pde.partition import log_partition
from pde.prescribed import PrescribedVelocity, StreamFunction
from pde.simulation import Simulation
from pde.solution import Solution

__all__ = [
    "Equation",
    "FiniteVolume",
    "Measure",
    "ParticleSystem",
    "PrescribedVelocity",
    "SelfAttention",
    "Simulation",
    "Solution",
    "StreamFunction",
    "ZeroTemperatureAttention",
    "initial",
    "limits",
    "log_partition",
]
