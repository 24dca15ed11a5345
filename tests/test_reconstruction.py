"""Polynomials from cell averages: exactness, order, symmetry, one machine code per kernel."""

import functools
import itertools

import numpy as np
import pytest

from meshes import circle, icosphere
from meshes.geometry import tangent_frame
from pde import Equation, FiniteVolume, PrescribedVelocity, SelfAttention
from pde.cells.reconstruction import CHOICES, ORDERS, Reconstruction, finest_fit, ring_stencils
from pde.kernels import reconstruction as kernels

HIGH = [order for order in ORDERS if order > 1]


def smooth(x):
    """A function with all frequencies, different in every direction."""
    return np.exp(x @ np.array([0.7, -0.4, 0.5])[: x.shape[1]]) * np.cos(2.0 * x[:, 0] - x[:, 1])


def averages(reconstruction, f):
    """Cell averages by the very quadrature that gives the moments: exactness is to rounding."""
    nodes = reconstruction.mesh.quadrature(reconstruction.choice.moments)
    sums = np.add.reduceat(nodes.weights * f(nodes.points), nodes.offsets[:-1])
    return sums / np.add.reduceat(nodes.weights, nodes.offsets[:-1])


def edge_points(reconstruction):
    """(2E * n, d) targets in the order of `edge_weights`, and the cell of each."""
    mesh = reconstruction.mesh
    gauss = mesh.edge_quadrature(reconstruction.choice.gauss_points).points
    cells = np.repeat(np.arange(mesh.n_cells), np.diff(mesh.cell_edge_offsets))
    n = gauss.shape[1]
    return gauss[mesh.cell_edges].reshape(-1, mesh.ambient_dim), np.repeat(cells, n)


def edge_values(reconstruction, rho):
    cells = edge_points(reconstruction)[1]
    neighbours = rho[reconstruction.stencils[0][cells]]
    differences = neighbours - rho[cells][:, None]
    return rho[cells] + np.einsum("ts,ts->t", reconstruction.edge_weights, differences)


@pytest.mark.parametrize("order", HIGH)
@pytest.mark.parametrize("mesh", [icosphere(6), icosphere(6, relax=2), circle(30)], ids=repr)
def test_polynomials_of_the_tangent_plane_are_reproduced(mesh, order):
    reconstruction = Reconstruction(mesh, order)
    rng = np.random.default_rng(order)
    targets, of_cell = edge_points(reconstruction)
    frames = tangent_frame(mesh.centroids)
    for cell in (0, 1, mesh.n_cells // 2, mesh.n_cells - 1):  # cell 0 of the icosphere: a pentagon
        direction = rng.normal(size=mesh.ambient_dim - 1) @ frames[cell] / mesh.spacing / 4

        def polynomial(x, degree=order - 1, direction=direction):
            return (1.0 + x @ direction) ** degree

        mine = of_cell == cell
        values = edge_values(reconstruction, averages(reconstruction, polynomial))[mine]
        exact = polynomial(targets[mine])
        assert np.abs(values - exact).max() < 1e-11 * np.abs(exact).max()
        # Two degrees more are not reproduced: the test above could fail.
        higher = averages(reconstruction, functools.partial(polynomial, degree=order + 1))
        exact = polynomial(targets[mine], degree=order + 1)
        assert np.abs(edge_values(reconstruction, higher)[mine] - exact).max() > 1e-9


def test_weights_solve_the_least_squares_problem():
    """One cell against numpy: monomials, averages, weights and fit written out."""
    mesh, order, cell = icosphere(8), 4, 217
    reconstruction = Reconstruction(mesh, order)
    e1, e2 = tangent_frame(mesh.centroids)[cell]
    powers = [(a, b) for a in range(4) for b in range(4) if 1 <= a + b <= 3]

    def monomials(x):
        u, v = x @ e1 / mesh.spacing, x @ e2 / mesh.spacing
        return np.stack([u**a * v**b for a, b in powers], axis=1)

    moments = np.stack(
        [averages(reconstruction, lambda x, m=m: monomials(x)[:, m]) for m in range(9)], axis=1
    )
    stencil = reconstruction.stencils[0][cell]
    distance = np.linalg.norm(mesh.centroids[stencil] - mesh.centroids[cell], axis=1)
    weight = (distance / distance.max()) ** -reconstruction.choice.decay
    fit = np.linalg.pinv(weight[:, None] * (moments[stencil] - moments[cell])) * weight
    targets, of_cell = edge_points(reconstruction)
    rows = (monomials(targets[of_cell == cell]) - moments[cell]) @ fit
    np.testing.assert_allclose(reconstruction.edge_weights[of_cell == cell], rows, atol=1e-12)


@pytest.mark.parametrize(
    ("order", "finest"), [(2, 4e-3), (3, 4e-4), (4, 2e-5), (6, 1.2e-7), (8, 1.5e-9)]
)
def test_order_of_edge_values_on_the_sphere(order, finest):
    errors = []
    for frequency in (12, 24):
        reconstruction = Reconstruction(icosphere(frequency), order)
        rho = reconstruction.mesh.average(smooth)
        error = edge_values(reconstruction, rho) - smooth(edge_points(reconstruction)[0])
        errors.append(np.abs(error).max())
    observed = np.log2(errors[0] / errors[1])
    assert order - 0.35 < observed < order + 0.6
    assert errors[1] < finest


@pytest.mark.parametrize("order", HIGH)
def test_order_of_edge_values_on_the_circle(order):
    errors = []
    for n in (64, 128):
        reconstruction = Reconstruction(circle(n), order)
        rho = reconstruction.mesh.average(smooth)
        error = edge_values(reconstruction, rho) - smooth(edge_points(reconstruction)[0])
        errors.append(np.abs(error).max())
    assert order - 0.35 < np.log2(errors[0] / errors[1]) < order + 0.6
    assert errors[1] < 20.0 * (2.0 * np.pi / 128) ** order


def test_point_values_are_interpolated():
    errors = []
    for frequency in (8, 16):
        reconstruction = Reconstruction(icosphere(frequency), 4, of_points=True)
        values = edge_values(reconstruction, smooth(reconstruction.mesh.centroids))
        errors.append(np.abs(values - smooth(edge_points(reconstruction)[0])).max())
    assert 3.65 < np.log2(errors[0] / errors[1]) < 4.6
    assert errors[1] < 2e-4


@pytest.mark.parametrize(("rings", "inside", "pentagon"), [(1, 6, 5), (2, 18, 15), (3, 36, 30)])
def test_ring_stencils_are_symmetric_neighbourhoods(rings, inside, pentagon):
    mesh = icosphere(8)
    stencils, counts = ring_stencils(mesh, rings)
    assert counts.max() == inside and counts.min() == pentagon
    pairs = {(i, int(j)) for i in range(mesh.n_cells) for j in stencils[i, : counts[i]]}
    assert len(pairs) == counts.sum()  # nobody twice
    assert all((j, i) in pairs and i != j for i, j in pairs)
    padding = np.arange(stencils.shape[1]) >= counts[:, None]
    assert (stencils == np.arange(mesh.n_cells)[:, None])[padding].all()


def test_meshes_too_small_are_refused():
    with pytest.raises(ValueError, match=r"order 8 needs 35 neighbours .* mesh of 12 cells has 11"):
        Reconstruction(icosphere(1), 8)
    with pytest.raises(ValueError, match="order must be one of 1, 2, 3, 4, 6, 8, got 5"):
        Reconstruction(icosphere(2), 5)


def test_degenerate_fits_are_refused(monkeypatch):
    """Eight equal arcs: the far cells' monomials in sin(angle) repeat those of the near ones."""
    monkeypatch.setitem(CHOICES, 8, CHOICES[8]._replace(reach=180.0))
    with pytest.raises(ValueError, match=r"order 8: the fit on cell \d+ is degenerate"):
        _ = Reconstruction(circle(8), 8).edge_weights


def test_first_order_carries_averages():
    reconstruction = Reconstruction(icosphere(4), 1)
    rho = np.arange(162.0)
    np.testing.assert_array_equal(
        edge_values(reconstruction, rho), rho[edge_points(reconstruction)[1]]
    )


def test_one_signature_per_kernel():
    for mesh in (icosphere(6), circle(20)):
        for order in (1, 4):
            for of_points in (False, True):
                _ = Reconstruction(mesh, order, of_points).edge_weights
    for name in ("ring_stencils", "value_weights"):
        assert len(getattr(kernels, name).signatures) == 1


def test_choices_are_consistent():
    for order, choice in CHOICES.items():
        assert choice.degree == order - 1
        assert choice.moments >= choice.degree
        assert 0.0 <= choice.downwind_share <= 0.5


def worst_error(mesh, order):
    reconstruction = Reconstruction(mesh, order)
    values = edge_values(reconstruction, mesh.average(smooth))
    return np.abs(values - smooth(edge_points(reconstruction)[0])).max()


SMALL = [icosphere(f) for f in (1, 2, 3, 4, 5, 6)] + [circle(n) for n in range(4, 32)]


@pytest.mark.parametrize("mesh", SMALL, ids=repr)
def test_on_the_smallest_meshes_more_order_is_no_more_error(mesh):
    """Stencils that reach round the sphere are refused, by the order asked for."""
    errors = []
    for order in HIGH:
        try:
            errors.append(worst_error(mesh, order))
        except ValueError as refused:
            assert f"order {order} needs" in str(refused)  # noqa: PT017
            assert "take a finer mesh or a lower order" in str(refused)  # noqa: PT017
    assert len(errors) >= 1
    for lower, higher in itertools.pairwise(errors):
        assert higher < 1.2 * lower


@pytest.mark.parametrize(
    ("mesh", "order"),
    [(circle(9), 6), (icosphere(3), 8), (icosphere(2), 6), (circle(9), 4)],
    ids=repr,
)
def test_stencils_that_wrap_round_are_refused(mesh, order):
    with pytest.raises(ValueError, match=f"order {order} needs cells .* reach round the sphere to"):
        Reconstruction(mesh, order)


def test_velocities_between_centroids_take_the_order_that_the_mesh_allows():
    """The default of attention at order 2 interpolates at order 4, on eight cells at order 3."""
    V = np.diag([2.0, 1.0])
    system = FiniteVolume(circle(8), Equation(SelfAttention(V, V, 1.0)))
    assert finest_fit(circle(8), 4).order == 3
    assert np.isfinite(system.rhs(0.0, np.ones(8))).all()


@pytest.mark.parametrize("order", [3, 4, 6, 8])
@pytest.mark.parametrize("mesh", [icosphere(7), circle(48)], ids=repr)
def test_rotation_has_no_growing_modes(mesh, order):
    """Real parts of all eigenvalues, in units of the Euler bound; the meshes of the claim."""
    axis = np.array([0.3, 0.5, 0.8124])
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    field = PrescribedVelocity(
        (lambda x, t: np.cross(axis, x)) if mesh.ambient_dim == 3 else (lambda x, t: x @ turn.T)
    )
    system = FiniteVolume(mesh, Equation(field), order=order, limiter=None)
    stage = system.stage(0.0, np.eye(mesh.n_cells))
    assert np.linalg.eigvals(stage.rhs()).real.max() * stage.bound < 1e-5
