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
from pde.cells.finite_volume import FiniteVolume
from pde.cells.stationary import stationary_state
from pde.equation import Equation
from pde.fields.attention import SelfAttention, ZeroTemperatureAttention
from pde.fields.consensus import ConsensusDrift, PolarisedConsensus, consensus_equation
from pde.fields.frozen import Frozen
from pde.fields.heads import Heads
from pde.fields.one_body import Drift, PotentialDrift
from pde.fields.perceptron import Perceptron
from pde.fields.prescribed import PrescribedVelocity, StreamFunction
from pde.fields.time_dependent import TimeDependent
from pde.measure import Measure
from pde.partition.softmax import log_partition
from pde.simulation import Simulation
from pde.solution import Solution
from pde.tokens.causal import CausalTokens
from pde.tokens.layers import through_layers
from pde.tokens.normalisation import NormalisedTokens
from pde.tokens.particles import ParticleSystem

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
