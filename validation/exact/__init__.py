"""Exact and semi-exact references, and what is known about the equation in closed form.

Solutions are objects made once from the data; `density(t)` gives a function of points, with respect
to surface area, so that `mesh.average(solution.density(t))` are exact cell averages.
"""

from validation.exact.axisymmetric import AxisymmetricAttention, axial_distance, axial_quantile
from validation.exact.characteristics import Characteristics, along_characteristics
from validation.exact.closed_forms import (
    bessel_ratio,
    dirac_energy,
    growth_rate,
    uniform_energy,
    zero_temperature_distance,
)
from validation.exact.equiangular_tokens import equiangular
from validation.exact.infinite_temperature import InfiniteTemperature
from validation.exact.zero_temperature import ZeroTemperature

__all__ = [
    "AxisymmetricAttention",
    "Characteristics",
    "InfiniteTemperature",
    "ZeroTemperature",
    "along_characteristics",
    "axial_distance",
    "axial_quantile",
    "bessel_ratio",
    "dirac_energy",
    "equiangular",
    "growth_rate",
    "uniform_energy",
    "zero_temperature_distance",
]
