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
from pde.causal import CausalTokens
from pde.consensus import ConsensusDrift, PolarisedConsensus, consensus_equation
from pde.equation import Equation
from pde.finite_volume import FiniteVolume
from pde.frozen import Frozen
from pde.heads import Heads
from pde.layers import through_layers
from pde.measure import Measure
from pde.normalisation import NormalisedTokens
from pde.one_body import Drift, PotentialDrift
from pde.particles import ParticleSystem
from pde.partition import log_partition
from pde.perceptron import Perceptron
from pde.prescribed import PrescribedVelocity, StreamFunction
from pde.simulation import Simulation
from pde.solution import Solution
from pde.stationary import stationary_state
from pde.time_dependent import TimeDependent

__all__ = [
    "CausalTokens",
    "ConsensusDrift",
    "Drift",
    "Equation",
    "FiniteVolume",
    "Frozen",
    "Heads",
    "Measure",
    "NormalisedTokens",
    "ParticleSystem",
    "Perceptron",
    "PolarisedConsensus",
    "PotentialDrift",
    "PrescribedVelocity",
    "SelfAttention",
    "Simulation",
    "Solution",
    "StreamFunction",
    "TimeDependent",
    "ZeroTemperatureAttention",
    "consensus_equation",
    "initial",
    "limits",
    "log_partition",
    "stationary_state",
    "through_layers",
]
