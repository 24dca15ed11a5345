"""Discrete layers: what a transformer computes, of which the flow is the limit of small steps.

    x <- N(x + h u)   (post_ln, sqrt, ngpt),   x <- x + h u   (pre_ln, peri_ln),

N(x) = x/|x|, u what a layer adds (`NormalisedTokens.update`: V m for Post-LN). A transformer has
h = 1; as h -> 0 the tokens after T/h layers tend to the flow at time T, at first order in h: the
radial part of h u, which N takes away again, shortens the tangential one by O(h^2).
(Rigollet, arXiv:2512.01868; Karagodin, Ge, Polyanskiy, Rigollet, arXiv:2510.22026.)

How large steps differ, for Post-LN near a consensus at an eigenvector of V with eigenvalue lam.
There A_j = lam theta + V O(deviations), all to the same order alike, so that a layer keeps every
token's own deviation delta_j and adds the same to all, and N divides by |1 + h lam|:

    delta_i - delta_j  falls by 1 / |1 + h lam| per layer,  against e^{-h lam} in the flow.

So for lam > 0 a layer contracts less than the flow does in the time h: for h = lam = 1 by 1/2
against 0.37, it is worth log 2 = 0.69 units of time. And for h lam < -2, where the flow drives
tokens apart, layers draw them together, at a consensus whose sign changes with every layer; it is
stable where |1 + h v| < |1 + h lam| for V's other eigenvalues v. Pre-LN with V = I keeps its law:
there r <- r + h, deviations fall by r/(r + h) per layer, which telescopes to 1/r as in the flow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pde.arguments import Array, natural, number, positive, shown
from pde.field import Field
from pde.tokens.normalisation import NormalisedTokens


def through_layers(
    tokens: NormalisedTokens | Field, x: Any, n_layers: int, step: float = 1.0, t: float = 0.0
) -> Array:
    """(n_layers + 1, n, d) the tokens x (n, d) before the first layer and after each.

    tokens : `NormalisedTokens` or `CausalTokens`; a field: its tokens under Post-LN
    step : h > 0, the size of a layer
    t : the time of the first layer, for schemes and fields that depend on it; layers are h apart

    Raises ValueError or TypeError for arguments out of range and tokens that do not fit.

    >>> from pde import SelfAttention
    >>> field = SelfAttention(np.eye(2), np.eye(2), beta=0.0)
    >>> through_layers(field, np.eye(2), n_layers=1)[-1].round(3)
    array([[0.949, 0.316],
           [0.316, 0.949]])
    """
    if isinstance(tokens, Field):
        tokens = NormalisedTokens(tokens)
    if not isinstance(tokens, NormalisedTokens):
        raise TypeError(f"tokens must be NormalisedTokens or a Field, got {shown(tokens)}")
    n_layers, step, t = natural("n_layers", n_layers), positive("step", step), number("t", t)
    states = [tokens.initial_state(x)]
    for layer in range(n_layers):
        states.append(tokens.layer(t + layer * step, states[-1], step))
    return np.array(states)
