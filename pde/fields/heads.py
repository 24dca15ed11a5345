"""Several attention heads: a sum inside the projection.

    v[mu](x) = P_x sum_h V_h m_h[mu](x),   m_h with key, query and temperature of head h

(Rigollet, arXiv:2512.01868; Geshkovski, Letrouit, Polyanskiy and Rigollet, arXiv:2312.10794). The
projection is linear, so the sum of the heads' velocities is the velocity of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable

from pde.arguments import shown
from pde.field import Field, Sum


class Heads(Sum):
    """The sum of attention heads, or of any fields of one dimension.

    heads : at least one field; a head may be scaled, a sum or time-dependent

    A `Sum` that checks what it is given: raises TypeError for what is no field, ValueError for no
    heads at all and for heads of different dimensions.

    >>> import numpy as np
    >>> from pde import Measure, SelfAttention
    >>> field = Heads([SelfAttention(np.eye(2), c * np.eye(2), beta=1.0) for c in (1.0, -1.0)])
    >>> field.velocity([[1.0, 0.0]], Measure([[1.0, 0.0], [0.0, 1.0]]))
    array([[0., 1.]])
    """

    def __init__(self, heads: Iterable[Field]) -> None:
        if isinstance(heads, Field) or not isinstance(heads, Iterable):
            raise TypeError(f"heads must be a sequence of fields, got {shown(heads)}")
        self.heads: tuple[Field, ...] = tuple(heads)
        if not self.heads:
            raise ValueError("heads must hold at least one field, got none")
        first: tuple[int, int] | None = None
        for i, head in enumerate(self.heads):
            if not isinstance(head, Field):
                raise TypeError(f"heads must be fields, got {shown(head)} as head {i}")
            if head.dim is None:
                continue
            if first is not None and head.dim != first[1]:
                raise ValueError(
                    f"heads must live in one dimension, got d = {first[1]} for head {first[0]} "
                    f"and d = {head.dim} for head {i}"
                )
            first = first or (i, head.dim)
        super().__init__(self.heads)

    def __repr__(self) -> str:
        return f"Heads([{', '.join(map(repr, self.heads))}])"
