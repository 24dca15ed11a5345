"""Integrals over cells that see what is narrower than a cell.

A rule of degree 8 on each cell, whose values tell how well polynomials follow the function there.
Where they do not, the cell's triangles (arcs on the circle) are divided into quarters (halves), and
these again, the most doubtful first. A cell whose integral that does not change keeps the rule's.

(R. Piessens et al., QUADPACK, 1983, is the model: global adaptive quadrature.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshes import averages
from meshes.averages import AVERAGE_DEGREE, cell_quadrature, function_values
from meshes.geometry import Array, Indices, arc_midpoint, norm, segment_sum, unit
from meshes.quadrature import arc_quadrature, gauss_legendre, triangle_quadrature, triangle_rule

if TYPE_CHECKING:
    from meshes.sphere_mesh import SphereMesh

Function = Callable[[Array], Array]

TOLERANCE = 1e-6
"""Of functions of which nothing is known: the averages of those that are smooth stay the rule's."""

MOST_PIECES = 1 << 17
"""Pieces that are looked at for one function; jumps along curves use them up."""

NEAR_END = 1e-6
"""Distance from an arc's end at which f is looked at, in lengths of the arc."""

SMALLEST = 1e-13
"""Radius below which pieces are not divided: rounding moves their corners."""

HOPELESS = 0.1
"""Estimated error beyond which there is no answer, as a share of the integral of |f|: noise has
0.2, cells of random values seen on other cells 0.01 to 0.08."""


class Pieces(NamedTuple):
    """Triangles of cells, or arcs on the circle.

    corners : (P, d, d), counter-clockwise
    cells : (P,) in which they lie
    integrals, errors : (P, k), of each of f's k components
    """

    corners: Array
    cells: Indices
    integrals: Array
    errors: Array

    def where(self, which: NDArray[np.bool_]) -> Pieces:
        """Some of them."""
        return Pieces(
            self.corners[which], self.cells[which], self.integrals[which], self.errors[which]
        )

    def and_also(self, others: Pieces) -> Pieces:
        """These and others."""
        return Pieces(
            np.concatenate([self.corners, others.corners]),
            np.concatenate([self.cells, others.cells]),
            np.concatenate([self.integrals, others.integrals]),
            np.concatenate([self.errors, others.errors]),
        )


class CellIntegrals:
    """Integrals of f over the cells of a mesh; f, scale and tolerance as in `SphereMesh.average`.

    whole : (N, ...) integrals over the cells, 0 for those in pieces
    pieces : of the cells that the rule does not resolve

    Raises ValueError where as many pieces as are allowed do not resolve f.
    """

    def __init__(
        self,
        mesh: SphereMesh,
        f: Function,
        scale: Function | None = None,
        tolerance: float = TOLERANCE,
    ) -> None:
        self.mesh, self.f, self.scale, self.tolerance = mesh, f, scale, tolerance
        self.whole, self.errors = by_the_rule(mesh, f)
        if scale is not None:
            too_large = mesh.cell_radii > function_values(scale, mesh.centers)
            self.errors[too_large] = np.inf
        d, (n, k) = mesh.ambient_dim, self.errors.shape
        self.cells = self.whole.reshape(n, k)
        self.pieces = Pieces(
            np.empty((0, d, d)), np.empty(0, np.int32), np.empty((0, k)), np.empty((0, k))
        )
        with np.errstate(over="ignore", invalid="ignore"):
            self._refine()

    @property
    def total(self) -> Array:
        """(N, ...) integrals over the cells, by the rule or from their pieces."""
        total = self.cells.copy()
        np.add.at(total, self.pieces.cells, self.pieces.integrals)
        return total.reshape(self.whole.shape)

    def _refine(self) -> None:
        """Divide what is doubtful until nothing is, or the pieces are used up."""
        n, children = self.mesh.n_cells, 2 ** (self.mesh.ambient_dim - 1)
        sides = np.bincount(self.mesh.side_cells())
        left = MOST_PIECES
        while True:
            total = np.abs(self.cells).sum(axis=0) + np.abs(self.pieces.integrals).sum(axis=0)
            of_cell = self.tolerance * total / n
            of_piece = self.tolerance * total / max(len(self.pieces.cells), 1)
            doubt = np.concatenate(
                [_worst(self.errors, of_cell), _worst(self.pieces.errors, of_piece)]
            )
            cost = children * np.concatenate([sides, np.ones(len(self.pieces.cells), dtype=int)])
            chosen = _most_doubtful(doubt, cost, left)
            if not chosen.any():
                break
            left -= int(cost[chosen].sum())
            self._divide_pieces(chosen[n:])
            self._divide_cells(np.flatnonzero(chosen[:n]), of_cell)
        remaining = self.errors.sum(axis=0) + self.pieces.errors.sum(axis=0)
        if (remaining > HOPELESS * total).any():
            raise ValueError(
                f"f must be wider or smoother: divided into {MOST_PIECES} pieces, the cells still "
                "do not resolve it"
            )

    def _divide_pieces(self, which: NDArray[np.bool_]) -> None:
        """Their parts in the place of some pieces."""
        if which.any():
            old = self.pieces.where(which)
            self.pieces = self.pieces.where(~which).and_also(self._parts_of(old.corners, old.cells))

    def _divide_cells(self, which: NDArray[np.intp], allowed: Array) -> None:
        """The parts of some cells' triangles in their place, where that changes an integral."""
        if not len(which):
            return
        is_chosen = np.zeros(self.mesh.n_cells, dtype=bool)
        is_chosen[which] = True
        of_sides = self.mesh.side_cells()
        sides = np.flatnonzero(is_chosen[of_sides])
        owners = of_sides[sides]
        corners = np.stack([part[sides] for part in self._triangles], axis=1)
        parts = self._parts_of(corners, owners)
        starts = np.flatnonzero(np.diff(parts.cells, prepend=-1))
        change = np.abs(np.add.reduceat(parts.integrals, starts, axis=0) - self.cells[which])
        errors = np.add.reduceat(parts.errors, starts, axis=0)
        # Of smooth functions they fall by 2^6; of jumps that no node has seen yet they do not.
        is_settled = np.isfinite(errors) & (errors <= 0.25 * self.errors[which])
        stays = np.all((change <= allowed) & is_settled, axis=1)
        self.errors[which] = np.where(stays[:, None], change, 0.0)
        self.cells[which[~stays]] = 0.0
        is_chosen[which[stays]] = False
        self.pieces = self.pieces.and_also(parts.where(is_chosen[parts.cells]))

    @cached_property
    def _triangles(self) -> tuple[Array, ...]:
        """Corners (sides, d) of all triangles of all cells; of the arcs on the circle."""
        a, b = self.mesh.sides()
        if self.mesh.ambient_dim == 2:
            return a, b
        return self.mesh.centers[self.mesh.side_cells()], a, b

    def _parts_of(self, corners: Array, cells: Indices) -> Pieces:
        """The parts, those of one piece in a row, of pieces with corners (n, d, d)."""
        corners = _parts(corners)
        step = max(1, averages.CHUNK_POINTS // 16)
        found = [
            self._integrate(corners[start : start + step]) for start in range(0, len(corners), step)
        ]
        integrals, errors = (np.concatenate(values) for values in zip(*found, strict=True))
        return Pieces(corners, np.repeat(cells, len(corners) // len(cells)), integrals, errors)

    def _integrate(self, corners: Array) -> tuple[Array, Array]:
        """Integrals and errors (n, k) of the pieces with corners (n, d, d)."""
        if corners.shape[1] == 2:
            a, b = corners.swapaxes(0, 1)
            points, weights = arc_quadrature(a, b, AVERAGE_DEGREE // 2 + 1)
        else:
            a, b, c = corners.swapaxes(0, 1)
            points, weights = triangle_quadrature(a, b, c, AVERAGE_DEGREE)
        values = function_values(self.f, points.reshape(-1, points.shape[-1]))
        values = values.reshape(*weights.shape, self.errors.shape[1])
        errors = estimated_errors(self.f, values, weights, corners)
        middle = unit(corners.sum(axis=1))
        radii = norm(corners - middle[:, None]).max(axis=1)
        if self.scale is not None:
            errors[radii > function_values(self.scale, middle)] = np.inf
        errors[radii < SMALLEST] = 0.0
        return np.einsum("nq,nqk->nk", weights, values), errors


def by_the_rule(mesh: SphereMesh, f: Function) -> tuple[Array, Array]:
    """Integrals (N, ...) by one rule on every cell, and estimates (N, k) of their errors."""
    q = len(triangle_rule(AVERAGE_DEGREE)[1]) if mesh.ambient_dim == 3 else AVERAGE_DEGREE // 2 + 1
    step = max(1, averages.CHUNK_POINTS // (6 * len(triangle_rule(AVERAGE_DEGREE)[1])))
    integrals, errors = [], []
    for start in range(0, mesh.n_cells, step):
        stop = min(start + step, mesh.n_cells)
        points, weights, offsets = cell_quadrature(mesh, AVERAGE_DEGREE, start, stop)
        values = function_values(f, points)
        along = weights.reshape(-1, *[1] * (values.ndim - 1))
        integrals.append(segment_sum(along * values, offsets))
        of_sides = estimated_errors(
            f,
            values.reshape(len(weights) // q, q, math.prod(values.shape[1:])),
            weights.reshape(-1, q),
            np.stack(mesh.sides(start, stop), axis=1),
        )
        errors.append(segment_sum(of_sides, offsets // q))
    return np.concatenate(integrals), np.concatenate(errors)


def estimated_errors(f: Function, values: Array, weights: Array, corners: Array) -> Array:
    """Errors (n, k) of a rule's integrals from its values (n, q, k) and weights (n, q).

    With s the spread of the values and r what no polynomial of degree 3 (2 on the circle) follows
    of it, both root mean squares: area * r^2 / s. Where f is smooth and a piece has the radius h,
    s = O(h) and r = O(h^4): far above the rule's O(h^9), and far below s where that is small.

    On arcs, between corners (n, 2, 2), f is also looked at near the ends: a jump would hide beyond
    the last node, a twentieth of the arc from the end.
    """
    areas = np.einsum("nq->n", weights)
    if corners.shape[-1] == 2:
        ends = unit(corners + NEAR_END * (corners[:, ::-1] - corners))
        of_ends = function_values(f, ends.reshape(-1, 2)).reshape(len(values), 2, values.shape[2])
        values = np.concatenate([values, of_ends], axis=1)
    q = values.shape[1]
    beyond = np.tensordot(values, beyond_polynomials(corners.shape[-1]), axes=(1, 0))
    rough = np.einsum("nkj,nkj->nk", beyond, beyond)
    spread = np.einsum("nqk,nqk->nk", values, values) - np.einsum("nqk->nk", values) ** 2 / q
    spread = np.maximum(np.maximum(spread, rough), np.finfo(float).tiny)
    return areas[:, None] * rough / np.sqrt(spread * q)


@lru_cache
def beyond_polynomials(d: int) -> Array:
    """Orthonormal values (q, j) at a rule's nodes, orthogonal to polynomials of degree 3.

    d = 2: of degree 2, and with the two ends as nodes.
    """
    if d == 2:
        nodes = np.concatenate([gauss_legendre(AVERAGE_DEGREE // 2 + 1)[0], [-1.0, 1.0]])
        powers = [nodes**i for i in range(3)]
    else:
        x, y, _ = triangle_rule(AVERAGE_DEGREE)[0].T
        powers = [x**i * y ** (n - i) for n in range(4) for i in range(n + 1)]
    basis = np.linalg.qr(np.column_stack(powers), mode="complete")[0]
    return np.ascontiguousarray(basis[:, len(powers) :])


def _parts(corners: Array) -> Array:
    """Quarters of triangles (n, 3, 3), halves of arcs (n, 2, 2): those of a piece in a row."""
    d = corners.shape[1]
    if d == 2:
        a, b = corners.swapaxes(0, 1)
        ab = arc_midpoint(a, b)
        parts = [[a, ab], [ab, b]]
    else:
        a, b, c = corners.swapaxes(0, 1)
        ab, bc, ca = arc_midpoint(a, b), arc_midpoint(b, c), arc_midpoint(c, a)
        parts = [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
    return np.stack([np.stack(part, axis=1) for part in parts], axis=1).reshape(-1, d, d)


def _worst(errors: Array, allowed: Array) -> Array:
    """(n,) largest share of errors (n, k) in those allowed (k,)."""
    shares = np.divide(errors, allowed, out=np.zeros_like(errors), where=errors > 0.0)
    return shares.max(axis=1, initial=0.0)


def _most_doubtful(doubt: Array, cost: NDArray[np.intp], left: int) -> NDArray[np.bool_]:
    """Those with a doubt > 1 (n,), the largest first, whose costs together are at most `left`."""
    doubtful = np.flatnonzero(doubt > 1.0)
    doubtful = doubtful[np.argsort(-doubt[doubtful], kind="stable")]
    chosen = np.zeros(len(doubt), dtype=bool)
    chosen[doubtful[np.cumsum(cost[doubtful]) <= left]] = True
    return chosen
