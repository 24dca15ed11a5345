r"""Consensus-based optimisation on the sphere, plain and polarised, as fields with noise.

Particles look for the minimiser of an objective J without derivatives of J. They move to the mean m
under the weights e^{-beta J}, and the further from m, the louder is their noise:

    dx = lam P_x m dt + sigma |x-m| P_x dW - (sigma^2/2) (d-1) |x-m|^2 x dt            (Ito)

(Fornasier, Huang, Pareschi and Sünnen, arXiv:2001.11994 and arXiv:2001.11988). Polarised: m
depends on x, with the weights k(x,y) e^{-beta J(y)}, so that several minima are found at once
(Bungert, Roith and Wacker, arXiv:2211.05238, in flat space).

The density. Let phi be a function on the sphere, extended as constant along rays. Then
<x, grad phi> = 0 takes the last term of dx away, and x^T (Hess phi) x = 0, so that
tr(P_x Hess phi) is the Laplacian of phi in R^d, on the sphere its Laplace-Beltrami operator. Hence
by Ito's formula, with m given (the mean-field limit),

    d/dt int phi drho
        = int [ lam <P_x m, grad phi> + (sigma^2/2) |x-m|^2 LaplaceBeltrami(phi) ] drho,

and by parts, on a surface without boundary,

    d_t rho = - lam div(rho P_x m) + (sigma^2/2) LaplaceBeltrami(|x-m|^2 rho):

the equation of this project, in its Ito form, with D = (sigma^2/2) |x-m|^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshes.geometry import dot, tangent_projection
from pde.arguments import (
    LARGEST_ENTRY,
    Array,
    below_one,
    function,
    non_negative,
    positive,
    real_array,
    shown,
    square_matrix,
)
from pde.equation import Equation
from pde.field import Field, UndefinedQuantity
from pde.fields.attention import is_symmetric
from pde.measure import Measure
from pde.partition.direct import LARGEST_XI
from pde.partition.softmax import log_ratio
from pde.partition.tilted import tilted, tilted_covariance, tilted_log_partition

LEAST_KAPPA = 1e-7
"""Kernels that are narrower than this see the rounding of points."""

Objective = Callable[[Array], Any]
"""J: (m, d) unit points -> (m,) finite values, to be minimised."""


class Consensus(Field):
    """v(x) = lam P_x m: what both forms share. m comes from `consensus(x, mu)`."""

    is_nonlocal = True
    is_autonomous = True

    def __init__(self, objective: Objective, beta: float, lam: float = 1.0) -> None:
        self.objective = function("objective", objective, "J(x) -> (m,)")
        self.beta = non_negative("beta", beta)
        self.lam = positive("lam", lam)
        if self.lam > LARGEST_ENTRY:
            raise ValueError(f"lam must be <= {LARGEST_ENTRY:g}, got {self.lam:.3g}")

    def consensus(self, x: Array, mu: Measure) -> Array:
        """(m, d) weighted means m that the points x (m, d) are drawn to."""
        raise NotImplementedError(f"{type(self).__name__} has to define consensus(x, mu)")

    def velocity(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) velocities lam P_x m at the (m, d) points x."""
        x, mu = self._at(x, mu)
        return tangent_projection(x, self.output(x, mu, t))

    def output(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m, d) lam m, before projection."""
        x, mu = self._at(x, mu)
        return self.lam * self.consensus(x, mu)

    def values(self, points: Array) -> Array:
        """(n,) values of the objective at (n, d) points.

        Raises ValueError where the objective gives another shape or a value that is not finite.
        """
        values = real_array("objective(x)", self.objective(points))
        if values.shape != (len(points),):
            raise ValueError(
                f"objective(x) must have shape ({len(points)},) for {len(points)} points, "
                f"got {values.shape}"
            )
        return values

    def _exponents(self, mu: Measure, values: Array) -> Array:
        """(n,) -beta (J - min J), the minimum over the points with mass; -inf without mass."""
        held = mu.weights > 0.0
        exponents = np.full(mu.n, -np.inf)
        # A difference of objectives times beta may overflow; its exponential is 0 all the same.
        with np.errstate(over="ignore"):
            exponents[held] = -self.beta * (values[held] - values[held].min())
        return exponents


class ConsensusDrift(Consensus):
    """v(x) = lam P_x m with one mean, m = int y e^{-beta J(y)} dmu / int e^{-beta J(y)} dmu.

    objective : J(x) -> (m,) for (m, d) unit points x; finite
    beta : >= 0. 0: the plain mean; large: the atoms of least J, also where e^{-beta J} underflows
    lam : > 0, the strength of the drift

    Raises TypeError or ValueError for arguments out of range and, when it is used, for an objective
    of the wrong shape or with values that are not finite.

    >>> field = ConsensusDrift(lambda x: x[:, 0], beta=1e6)
    >>> field.consensus(np.eye(2), Measure([[1.0, 0.0], [0.0, 1.0]]))
    array([[0., 1.],
           [0., 1.]])
    """

    def __repr__(self) -> str:
        return f"ConsensusDrift({_name(self.objective)}, beta={self.beta:g}, lam={self.lam:g})"

    def consensus(self, x: Array, mu: Measure) -> Array:
        """(m, d): the same weighted mean for all x."""
        return np.broadcast_to(self.mean(mu), x.shape)

    def mean(self, mu: Measure) -> Array:
        """(d,) the weighted mean, in the unit ball."""
        return tilted(mu, self._exponents(mu, self.values(mu.points))).mean()

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) -(d-1) lam <x, m>."""
        x, mu = self._at(x, mu)
        return -(x.shape[1] - 1) * self.potential(x, mu)

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) lam <x, m>, whose gradient at fixed m the velocity is."""
        x, mu = self._at(x, mu)
        return self.lam * (x @ self.mean(mu))


class PolarisedConsensus(Consensus):
    """v(x) = lam P_x m(x), m(x) the mean under the weights k(x,y) e^{-beta J(y)} dmu(y).

    objective, beta, lam : as for ConsensusDrift
    B : (d, d) symmetric; k(x,y) = e^{-(beta/2) <x-y, B (x-y)>}, the sharper, the larger beta
    kappa : in place of B, > 0; k(x,y) = e^{-|x-y|^2 / (2 kappa^2)}, of a width of its own
    tolerance : relative accuracy of the kernel sums; None: direct sums, to rounding

    m(x) = grad L(xi) of the measure e^{-beta (J(y) + <y,By>/2)} dmu(y) at xi = beta B x: the factor
    e^{-(beta/2) <x,Bx>} cancels. With J(y) = -<y,By>/2 this is SelfAttention with V = I.

    Raises TypeError or ValueError for arguments out of range, and unless one of B and kappa is
    given.

    >>> field = PolarisedConsensus(lambda x: -0.5 * x[:, 0] ** 2, beta=4.0, kappa=0.5)
    >>> field
    PolarisedConsensus(<lambda>, beta=4, kappa=0.5, lam=1)
    """

    def __init__(
        self,
        objective: Objective,
        beta: float,
        B: Any = None,
        kappa: float | None = None,
        lam: float = 1.0,
        tolerance: float | None = 1e-10,
    ) -> None:
        super().__init__(objective, beta, lam)
        if (B is None) == (kappa is None):
            raise ValueError(
                f"one of B and kappa must be given, got B={shown(B)} and kappa={shown(kappa)}"
            )
        self.kappa = None if kappa is None else positive("kappa", kappa)
        self.B = None if B is None else square_matrix("B", B)
        if self.B is not None:
            self.dim = len(self.B)
            if not is_symmetric(self.B):
                raise ValueError(
                    f"B must be symmetric for a kernel of |x-y|_B, got {self.B.tolist()}"
                )
        self.tolerance = None if tolerance is None else below_one("tolerance", tolerance)
        if self.kappa is not None and self.kappa < LEAST_KAPPA:
            raise ValueError(f"kappa must be >= {LEAST_KAPPA:g}, got {self.kappa:.3g}")
        if self.B is not None:
            allowed, largest = LARGEST_XI / len(self.B), float(np.abs(self.B).max())
            if self.beta * largest > allowed:
                raise ValueError(
                    f"beta times B must have entries up to {allowed:.3g} in size, got "
                    f"beta = {self.beta:.3g} and B up to {largest:.3g}"
                )

    def __repr__(self) -> str:
        kernel = f"kappa={self.kappa:g}" if self.B is None else f"B of d={self.dim}"
        return (
            f"PolarisedConsensus({_name(self.objective)}, beta={self.beta:g}, {kernel}, "
            f"lam={self.lam:g})"
        )

    def consensus(self, x: Array, mu: Measure) -> Array:
        """(m, d) weighted means, one for each x."""
        return tilted_log_partition(*self._terms(x, mu), self.tolerance)[1]

    def divergence(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) lam [tr(P_x Cov M) - (d-1) <x, m>], M the kernel's matrix, by direct sums."""
        x, mu = self._at(x, mu)
        mean, covariance = tilted_covariance(*self._terms(x, mu))
        spread = covariance @ self._kernel_matrix(x.shape[1])
        inside = np.trace(spread, axis1=1, axis2=2) - np.einsum("mi,mij,mj->m", x, spread, x)
        return self.lam * (inside - (x.shape[1] - 1) * dot(x, mean))

    def potential(self, x: Array, mu: Measure | None = None, t: float = 0.0) -> Array:
        """(m,) (lam / c) L(c x) where the kernel's matrix is c I, c > 0, at fixed weights."""
        x, mu = self._at(x, mu)
        M = self._kernel_matrix(x.shape[1])
        c = M[0, 0]
        if c == 0.0 or not np.array_equal(M, c * np.eye(len(M))):
            raise UndefinedQuantity(
                "potential needs a kernel e^{-c |x-y|^2 / 2}, c not 0 (kappa, or B = b I): "
                "otherwise the velocity of PolarisedConsensus is no gradient that is known"
            )
        xi, mu, exponents = self._terms(x, mu)

        def solve(xi: Array) -> tuple[Array, Array]:
            return tilted_log_partition(xi, mu, exponents, self.tolerance)

        ratio = log_ratio(xi, solve, float(solve(np.zeros((1, xi.shape[1])))[0][0]))
        return self.lam * (ratio / c)

    def _kernel_matrix(self, d: int) -> Array:
        """M (d, d) with k(x,y) = e^{-<x-y, M (x-y)> / 2}."""
        if self.B is not None:
            return self.beta * self.B
        assert self.kappa is not None
        return np.eye(d) * (1.0 / self.kappa) ** 2

    def _terms(self, x: Array, mu: Measure) -> tuple[Array, Measure, Array]:
        """(xi, mu, exponents): what is summed is e^{<xi,y>} e^{exponents} dmu(y)."""
        values = self.values(mu.points)
        if self.B is not None:
            values = values + 0.5 * dot(mu.points, mu.points @ self.B)
        xi = np.ascontiguousarray(x @ self._kernel_matrix(x.shape[1]))
        return xi, mu, self._exponents(mu, values)


class ConsensusDiffusion:
    """D(x, mu, t) = (sigma^2/2) |x-m|^2, m the weighted mean of a consensus field at x.

    field : ConsensusDrift or PolarisedConsensus; sigma : >= 0

    >>> field = ConsensusDrift(lambda x: x[:, 0], beta=0.0)
    >>> ConsensusDiffusion(field, sigma=1.0)(np.eye(2), Measure(np.eye(2)), 0.0)
    array([0.25, 0.25])
    """

    def __init__(self, field: Consensus, sigma: float) -> None:
        if not isinstance(field, Consensus):
            raise TypeError(
                f"field must be a ConsensusDrift or PolarisedConsensus, got {shown(field)}"
            )
        self.field = field
        self.sigma = non_negative("sigma", sigma)
        if self.sigma > LARGEST_ENTRY:
            raise ValueError(f"sigma must be <= {LARGEST_ENTRY:g}, got {self.sigma:.3g}")

    def __repr__(self) -> str:
        return f"ConsensusDiffusion(sigma={self.sigma:g})"

    def __call__(self, x: Array, mu: Measure, t: float = 0.0) -> Array:
        """(m,) values at the (m, d) points x."""
        away = x - self.field.consensus(x, mu)
        return 0.5 * self.sigma**2 * dot(away, away)


def consensus_equation(field: Consensus, sigma: float) -> Equation:
    """d_t rho + div(rho lam P_x m) = (sigma^2/2) LaplaceBeltrami(|x-m|^2 rho).

    field : ConsensusDrift or PolarisedConsensus; sigma : >= 0, 0 without noise

    In d dimensions near a minimiser m the variance falls at the rate 2 lam - (d-1) sigma^2, so that
    consensus needs sigma^2 < 2 lam / (d-1).

    >>> consensus_equation(ConsensusDrift(lambda x: x[:, 0], beta=10.0), sigma=0.0).diffusion
    0.0
    """
    diffusion = ConsensusDiffusion(field, sigma)
    return Equation(field, diffusion if diffusion.sigma > 0.0 else 0.0)


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))
