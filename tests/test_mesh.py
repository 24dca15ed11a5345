"""Meshes: areas, centroids and fluxes against independent formulas; check() finds each damage."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from meshes import MeshError, SphereMesh, circle, icosphere
from meshes import geometry as g
from meshes.checks import check_closure, check_mesh
from meshes.dissection import dissection
from meshes.icosahedral import voronoi_dual

MESHES = {
    "icosahedron": icosphere(1),
    "icosphere(5)": icosphere(5),
    "icosphere(8, relax=3)": icosphere(8, relax=3),
    "circle(3)": circle(3),
    "circle(20)": circle(20),
}
DERIVED = [
    *("areas", "centroids", "cell_radii", "cell_edges", "cell_edge_signs", "cell_neighbours"),
    *("edge_normals", "edge_lengths", "edge_midpoints", "edge_distances", "cell_edge_offsets"),
]


@pytest.fixture(params=MESHES.values(), ids=MESHES.keys())
def mesh(request):
    return request.param


@pytest.fixture(scope="module")
def scattered():
    """Voronoi mesh of 200 random points: cells of 3 to 10 corners, of very different sizes."""
    from scipy.spatial import ConvexHull

    points = g.unit(np.random.default_rng(5).normal(size=(200, 3)))
    triangles = ConvexHull(points).simplices
    a, b, c = points[triangles[:, 0]], points[triangles[:, 1]], points[triangles[:, 2]]
    inward = g.triangle_area(a, b, c) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    return voronoi_dual(points, triangles)


def rotation(seed=0):
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return q * np.linalg.det(q)


def outward_sums(mesh, edge_values):
    """Sum over each cell of the edge values (E, ...), counted positive outwards."""
    signs = mesh.cell_edge_signs.reshape(-1, *[1] * (edge_values.ndim - 1))
    return g.segment_sum(signs * edge_values[mesh.cell_edges], mesh.cell_offsets)


# ---------------------------------------------------------------- the whole


def test_every_mesh_passes_its_own_checks(mesh):
    mesh.check()


def test_scattered_cells_pass_too(scattered):
    scattered.check()
    assert np.diff(scattered.cell_offsets).min() < 5
    assert np.diff(scattered.cell_offsets).max() > 7


@pytest.mark.parametrize("f", [1, 2, 3, 7])
def test_counts(f):
    mesh = icosphere(f)
    assert (mesh.n_cells, mesh.n_edges, mesh.n_vertices) == (10 * f**2 + 2, 30 * f**2, 20 * f**2)
    corners = np.diff(mesh.cell_offsets)
    assert (np.count_nonzero(corners == 5), np.count_nonzero(corners == 6)) == (12, 10 * f**2 - 10)


def test_repr_says_what_it_is():
    assert repr(circle(6)) == "SphereMesh(6 cells, 6 edges in R^2, spacing 1.05)"


@pytest.mark.parametrize("make", [icosphere, lambda f: icosphere(2, relax=f), circle])
@pytest.mark.parametrize("value", [2.0, "3", None, True, np.array([2])])
def test_counts_that_are_not_integers_are_refused(make, value):
    names = "(frequency|relax|n)"
    with pytest.raises(TypeError, match=rf"{names} must be an integer from \d to \d+, got"):
        make(value)


@pytest.mark.parametrize(
    ("make", "value", "message"),
    [
        (icosphere, 0, "frequency must be an integer from 1 to 5982, got 0"),
        (lambda r: icosphere(2, relax=r), -1, "relax must be an integer from 0 to 1000000, got -1"),
        (circle, 2, "n must be an integer from 3 to 1073741823, got 2"),
    ],
)
def test_counts_out_of_range_are_refused(make, value, message):
    with pytest.raises(ValueError, match=message):
        make(value)


def test_numpy_integers_are_integers():
    assert icosphere(np.int32(2), relax=np.int64(0)).n_cells == 42


# ---------------------------------------------------------------- areas, lengths, centroids


def test_dodecahedron():
    """Frequency 1 is the regular dodecahedron: 12 equal pentagons."""
    mesh = icosphere(1)
    assert_allclose(mesh.areas, 4 * np.pi / 12, rtol=1e-14)
    assert_allclose(mesh.centroids, mesh.centers, atol=1e-15)
    assert_allclose(mesh.edge_lengths, np.arccos(np.sqrt(5) / 3), rtol=1e-14)
    assert_allclose(mesh.edge_distances, np.arctan(2), rtol=1e-14)
    assert_allclose(mesh.cell_radii, np.arccos(np.sqrt((5 + 2 * np.sqrt(5)) / 15)), rtol=1e-14)


@pytest.mark.parametrize("f", [1, 6, 33])
def test_areas_sum_to_the_sphere(f):
    assert_allclose(icosphere(f).total_area, 4 * np.pi, rtol=1e-14)


def test_gauss_bonnet(scattered):
    """Area of an n-gon = sum of its angles - (n - 2) pi; angles between sides from their poles."""
    for mesh in (icosphere(4), scattered):
        a, b = mesh.sides()
        poles = g.arc_pole(a, b)
        counts, offsets = np.diff(mesh.cell_offsets), mesh.cell_offsets
        before = np.arange(len(poles)) - 1
        before[offsets[:-1]] = offsets[1:] - 1
        angles = np.pi - g.arc_length(poles[before], poles)
        excess = g.segment_sum(angles, offsets) - (counts - 2) * np.pi
        assert_allclose(mesh.areas, excess, atol=2e-13)


def test_areas_agree_with_scipys_voronoi_diagram(scattered):
    from scipy.spatial import SphericalVoronoi

    diagram = SphericalVoronoi(scattered.centers)
    assert_allclose(scattered.areas, diagram.calculate_areas(), rtol=1e-9)


def test_centroids_are_the_means_of_the_cells(scattered):
    for mesh in (icosphere(6), scattered):
        means = mesh.average(lambda x: x)
        assert_allclose(g.unit(means), mesh.centroids, atol=1e-9)


def test_edges_are_bisectors_and_normals_lead_across(scattered):
    """For a Voronoi mesh the edge's pole is the direction from the first to the second center."""
    for mesh in (icosphere(5), scattered):
        first, second = mesh.centers[mesh.edge_cells.T]
        assert_allclose(mesh.edge_normals, g.unit(second - first), atol=1e-12)


def test_derived_data_rotate_with_the_mesh():
    mesh, turn = icosphere(6), rotation()
    turned = replace(mesh, centers=mesh.centers @ turn.T, vertices=mesh.vertices @ turn.T)
    for name in ("areas", "edge_lengths", "edge_distances", "cell_radii"):
        assert_allclose(getattr(turned, name), getattr(mesh, name), rtol=1e-13)
    for name in ("centroids", "edge_normals", "edge_midpoints"):
        assert_allclose(getattr(turned, name), getattr(mesh, name) @ turn.T, atol=1e-14)


# ---------------------------------------------------------------- orientation and fluxes


def test_orientation_of_edges(mesh):
    """Normals lead from first to second cell, from ends[0] to ends[1] the second cell lies left."""
    if mesh.ambient_dim == 2:
        pytest.skip("edges of the circle are points")
    ends = mesh.edge_quadrature(1).ends
    ahead = np.cross(ends[:, 0], ends[:, 1])
    first, second = mesh.centers[mesh.edge_cells.T]
    assert (g.dot(ahead, second) > 0).all()
    assert (g.dot(ahead, first) < 0).all()
    assert (g.dot(mesh.edge_normals, ahead) > 0).all()


def test_rotation_flux_is_the_difference_of_its_stream_function(scattered):
    """v = omega x x has psi = -<omega, x>; the flux by Gauss points, both at every edge."""
    omega = np.array([0.3, -1.1, 0.7])
    for mesh in (icosphere(1), icosphere(4), scattered):
        edges = mesh.edge_quadrature(8)
        velocity = np.cross(omega, edges.points)
        flux = (edges.weights * g.dot(velocity, edges.normals[:, None])).sum(axis=1)
        psi = -edges.ends @ omega
        assert_allclose(flux, psi[:, 1] - psi[:, 0], atol=1e-14)


def test_flux_of_a_general_stream_function():
    """psi = x y^2 - 2 z x, v = x cross grad psi."""
    edges = icosphere(3).edge_quadrature(8)
    x, y, z = np.moveaxis(edges.points, -1, 0)
    gradient = np.stack([y**2 - 2 * z, 2 * x * y, -2 * x], axis=-1)
    velocity = np.cross(edges.points, gradient)
    flux = (edges.weights * g.dot(velocity, edges.normals[:, None])).sum(axis=1)
    x, y, z = np.moveaxis(edges.ends, -1, 0)
    psi = x * y**2 - 2 * z * x
    assert_allclose(flux, psi[:, 1] - psi[:, 0], atol=1e-14)


def test_discrete_divergence_of_a_stream_function_vanishes(scattered):
    for mesh in (icosphere(7), scattered):
        psi = np.sin(3 * mesh.vertices[:, 0]) + mesh.vertices[:, 2] ** 3
        flux = psi[mesh.edge_vertices[:, 1]] - psi[mesh.edge_vertices[:, 0]]
        assert np.abs(flux).max() > 1e-2
        assert_allclose(outward_sums(mesh, flux), 0, atol=1e-15)


def test_cells_know_their_edges_and_neighbours(mesh):
    cells = np.repeat(np.arange(mesh.n_cells), np.diff(mesh.cell_edge_offsets))
    own = np.where(mesh.cell_edge_signs == 1, 0, 1)
    assert_array_equal(mesh.edge_cells[mesh.cell_edges, own], cells)
    assert_array_equal(mesh.edge_cells[mesh.cell_edges, 1 - own], mesh.cell_neighbours)
    assert_array_equal(np.bincount(mesh.cell_edges, minlength=mesh.n_edges), 2)
    outward = mesh.cell_edge_signs[:, None] * mesh.edge_normals[mesh.cell_edges]
    step = mesh.edge_midpoints[mesh.cell_edges] - mesh.centers[cells]
    assert (g.dot(outward, step) > 0).all()


def test_edges_of_a_cell_lie_on_its_sides_in_order(mesh):
    a, b = mesh.sides()
    if mesh.ambient_dim == 2:
        assert_array_equal(mesh.edge_vertices[mesh.cell_edges, 0], mesh.cell_vertices)
    else:
        assert_allclose(mesh.edge_midpoints[mesh.cell_edges], g.arc_midpoint(a, b), atol=1e-15)


# ---------------------------------------------------------------- quadrature


def harmonic(degree, seed=1):
    """Re <u, x>^degree, u = p + iq, p and q orthonormal, and its gradient: harmonic in R^3."""
    turn = rotation(seed)
    u = turn[0] + 1j * turn[1]

    def value(x):
        return ((x @ u) ** degree).real

    def gradient(x):
        return (degree * ((x @ u) ** (degree - 1))[..., None] * u).real

    return value, gradient


def exact_average(mesh, degree, gradient):
    """Cell averages of a spherical harmonic Y by Stokes: -l(l+1) int Y dA = int <grad Y, n> ds.

    30 Gauss points an edge: exact to rounding.
    """
    edges = mesh.edge_quadrature(30)
    flux = (edges.weights * g.dot(gradient(edges.points), edges.normals[:, None])).sum(axis=1)
    return -outward_sums(mesh, flux) / (degree * (degree + 1) * mesh.areas)


@pytest.mark.parametrize(("degree", "finest"), [(1, 1e-12), (4, 2e-11), (6, 1e-10)])
def test_average_of_spherical_harmonics_is_of_high_order(degree, finest):
    """A rule of degree 8 on nearly symmetric hexagons: order 10."""
    value, gradient = harmonic(degree)
    errors = []
    for f in (2, 4):
        mesh = icosphere(f)
        errors.append(np.abs(mesh.average(value) - exact_average(mesh, degree, gradient)).max())
    assert errors[-1] < finest
    assert np.log2(errors[0] / errors[1]) > 9.65


def test_average_on_scattered_cells(scattered):
    value, gradient = harmonic(4)
    assert_allclose(scattered.average(value), exact_average(scattered, 4, gradient), atol=1e-7)


def test_average_of_constants_is_exact(mesh):
    assert_allclose(mesh.average(lambda x: np.full(len(x), 7.0)), 7.0, rtol=1e-14)


def test_average_keeps_trailing_axes_and_does_not_depend_on_chunks(mesh, monkeypatch):
    def f(x):
        return np.exp(x)[:, :, None] * np.array([1.0, -2.0])

    whole = mesh.average(f)
    assert whole.shape == (mesh.n_cells, mesh.ambient_dim, 2)
    monkeypatch.setattr("meshes.averages.CHUNK_POINTS", 300)
    assert_array_equal(mesh.average(f), whole)


def test_average_refuses_wrong_functions():
    mesh = icosphere(2)
    with pytest.raises(ValueError, match=r"must map points \(m, 3\) to values .* got shape \(\)"):
        mesh.average(lambda x: 1.0)
    with pytest.raises(TypeError, match=r"f must return real numbers, got dtype complex128"):
        mesh.average(lambda x: x[:, 0] + 1j)
    with pytest.raises(ValueError, match=r"f must be finite, got nan at x = "):
        mesh.average(lambda x: np.where(x[:, 0] > 0, np.nan, 1.0))


@pytest.mark.parametrize("degree", [1, 2, 5, 10])
def test_cell_quadrature_is_positive_inside_and_sums_to_the_areas(mesh, degree):
    rule = mesh.quadrature(degree)
    assert rule.offsets.dtype == np.int32
    assert (rule.weights > 0).all()
    assert_allclose(g.segment_sum(rule.weights, rule.offsets), mesh.areas, rtol=1e-14)
    assert_allclose(g.norm(rule.points), 1, atol=1e-15)
    cells = np.repeat(np.arange(mesh.n_cells), np.diff(rule.offsets))
    assert_array_equal(mesh.locate(rule.points), cells)


@pytest.mark.parametrize(("degree", "nodes"), [(1, 6), (2, 18), (8, 96)])
def test_nodes_per_hexagon(degree, nodes):
    assert np.diff(icosphere(2).quadrature(degree).offsets).max() == nodes


@pytest.mark.parametrize("make", [lambda: icosphere(1), lambda: circle(4)])
def test_degrees_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match="degree must be an integer from 1 to 10, got 11"):
        make().quadrature(11)


def test_edge_quadrature_lies_on_the_edge():
    mesh = icosphere(3)
    edges = mesh.edge_quadrature(3)
    assert_allclose(edges.weights.sum(axis=1), mesh.edge_lengths, rtol=1e-14)
    assert_allclose(g.dot(edges.points, edges.normals[:, None]), 0, atol=1e-15)
    assert_allclose(edges.points[:, 1], mesh.edge_midpoints, atol=1e-15)
    assert_array_equal(edges.ends, mesh.vertices[mesh.edge_vertices])
    nearer = g.arc_length(edges.points[:, 0], edges.ends[:, 0])
    assert (nearer < 0.2 * mesh.edge_lengths).all()


def test_locate_finds_the_cell():
    mesh = icosphere(6)
    assert_array_equal(mesh.locate(mesh.centroids), np.arange(mesh.n_cells))
    assert mesh.locate(mesh.centroids[:5]).dtype == np.int32


# ---------------------------------------------------------------- the circle


@pytest.mark.parametrize("n", [3, 4, 17])
def test_circle_in_closed_form(n):
    mesh = circle(n)
    h = 2 * np.pi / n
    assert (mesh.ambient_dim, mesh.n_cells, mesh.n_edges) == (2, n, n)
    assert_allclose(mesh.areas, h, rtol=1e-14)
    assert_allclose(mesh.total_area, 2 * np.pi, rtol=1e-14)
    assert_allclose(mesh.spacing, h, rtol=1e-14)
    assert_allclose(mesh.cell_radii, h / 2, rtol=1e-14)
    assert_allclose(mesh.centroids, mesh.centers, atol=1e-15)
    assert_array_equal(mesh.edge_lengths, 1.0)
    x, y = mesh.edge_midpoints.T
    assert_allclose(mesh.edge_normals, np.stack([-y, x], axis=1), atol=0)
    middle = np.arctan2(mesh.centers[:, 1], mesh.centers[:, 0])
    exact = 0.5 + np.cos(2 * middle) * np.sin(h) / (2 * h)
    assert_allclose(mesh.average(lambda p: p[:, 0] ** 2), exact, atol=1e-12 + 2e-6 * (h / 2) ** 10)


def test_circle_edge_quadrature_is_the_point():
    mesh = circle(5)
    edges = mesh.edge_quadrature(4)
    assert edges.points.shape == edges.ends.shape == (5, 1, 2)
    assert_array_equal(edges.weights, np.ones((5, 1)))
    assert_array_equal(edges.points, mesh.vertices[mesh.edge_vertices])


# ---------------------------------------------------------------- relaxation


@pytest.mark.parametrize("f", [3, 8, 15])
def test_relaxation_brings_generators_to_the_centroids(f):
    def distance(relax):
        mesh = icosphere(f, relax=relax)
        mesh.check()
        return g.arc_length(mesh.centers, mesh.centroids).max() / mesh.spacing

    start, middle, end = distance(0), distance(10), distance(40)
    assert middle < 0.8 * start
    assert end < 0.5 * middle


def test_relaxation_keeps_the_numbering_and_lowers_the_quantisation_energy():
    """Lloyd's sweep never raises sum of int |x - center|^2 over the cells."""

    def energy(mesh):
        x = mesh.quadrature(8)
        cells = np.repeat(np.arange(mesh.n_cells), np.diff(x.offsets))
        return x.weights @ ((x.points - mesh.centers[cells]) ** 2).sum(axis=1)

    raw, relaxed = icosphere(6), icosphere(6, relax=5)
    assert_array_equal(raw.edge_cells, relaxed.edge_cells)
    energies = [energy(icosphere(6, relax=n)) for n in range(4)]
    assert (np.diff(energies) < 0).all()


# ---------------------------------------------------------------- arrays


def test_arrays_are_read_only(mesh):
    for name in [field.name for field in fields(mesh)] + DERIVED:
        with pytest.raises(ValueError, match="read-only"):
            getattr(mesh, name)[0] = 0


def test_array_types(mesh):
    for name in [field.name for field in fields(mesh)] + DERIVED:
        array = getattr(mesh, name)
        assert array.flags.c_contiguous, name
        assert array.dtype in (np.float64, np.int32, np.int8), name
    assert mesh.cell_neighbours.dtype == mesh.cell_edges.dtype == np.int32


def test_construction_leaves_the_callers_arrays_writable():
    mesh = icosphere(1)
    centers = mesh.centers.copy()
    replace(mesh, centers=centers)
    centers[0] = 0.0


def test_pickles_carry_no_derived_arrays():
    mesh = icosphere(4)
    fresh = len(pickle.dumps(mesh))
    mesh.check()
    copy = pickle.loads(pickle.dumps(mesh))
    assert len(pickle.dumps(mesh)) == fresh
    assert not copy.centers.flags.writeable
    assert_array_equal(copy.areas, mesh.areas)


# ---------------------------------------------------------------- damage


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def shifted(mesh, name, index, by):
    points = getattr(mesh, name)
    point = points[index] + by * g.tangent_frame(points[index])[0]
    return replace(mesh, **{name: changed(points, index, g.unit(point))})


def swapped_corners(mesh):
    return replace(
        mesh, cell_vertices=changed(mesh.cell_vertices, [0, 1], mesh.cell_vertices[[1, 0]])
    )


def flipped_edge(mesh, name):
    array = getattr(mesh, name)
    return replace(mesh, **{name: changed(array, 7, array[7, ::-1])})


def extra_vertex(mesh):
    return replace(mesh, vertices=np.concatenate([mesh.vertices, mesh.vertices[:1]]))


def mirrored(mesh):
    flip = np.array([1.0, 1.0, -1.0])
    return replace(mesh, centers=mesh.centers * flip, vertices=mesh.vertices * flip)


def spoiled(mesh, name, index, value):
    """A derived array replaced: what no choice of the six given arrays would bring about."""
    damaged = replace(mesh)
    damaged.__dict__[name] = changed(getattr(mesh, name), index, value)
    return damaged


DAMAGE = {
    "nan center": (lambda m: replace(m, centers=changed(m.centers, (3, 1), np.nan)),
        r"centers must be finite, but cell 3 has \[.*nan"),
    "infinite vertex": (lambda m: replace(m, vertices=changed(m.vertices, (4, 0), np.inf)),
        r"vertices must be finite, but vertex 4 has"),
    "long center": (lambda m: replace(m, centers=changed(m.centers, 3, 1.001 * m.centers[3])),
        r"centers must be unit vectors, but the cell 3 has 1\.001"),
    "short vertex": (lambda m: replace(m, vertices=changed(m.vertices, 5, 0.5 * m.vertices[5])),
        r"vertices must be unit vectors, but the vertex 5 has 0\.5"),
    "loop": (lambda m: replace(m, edge_cells=changed(m.edge_cells, 2, [6, 6])),
        r"an edge must lie between two cells, but edge 2 has \[6 6\]"),
    "missing cell": (lambda m: replace(m, edge_cells=changed(m.edge_cells, (2, 0), 10**6)),
        r"edge_cells must be from 0 to 161, but row 2 has \[1000000"),
    "negative vertex": (lambda m: replace(m, edge_vertices=changed(m.edge_vertices, (2, 0), -1)),
        r"edge_vertices must be from 0 to 319, but row 2 has"),
    "missing corner": (lambda m: replace(m, cell_vertices=changed(m.cell_vertices, 9, 320)),
        r"cell_vertices must be from 0 to 319, but row 9 has \[320\]"),
    "wrong neighbour": (lambda m: replace(m, edge_cells=changed(m.edge_cells, (2, 0), 100)),
        r"cells and edges do not match: .* side of cell \d+ that starts at vertex \d+"),
    "cells of an edge exchanged": (lambda m: flipped_edge(m, "edge_cells"), "do not match"),
    "ends of an edge exchanged": (lambda m: flipped_edge(m, "edge_vertices"), "do not match"),
    "corners out of order": (swapped_corners,
        r"edges must join the corners of their side, but cell 0, side \d+ has ends \[\d+ \d+\]"),
    "lost corner": (lambda m: replace(m, cell_offsets=changed(m.cell_offsets, -1, 5)),
        r"cell_offsets must run from 0 to 960, got 0 to 5"),
    "empty cell": (lambda m: replace(m, cell_offsets=changed(m.cell_offsets, 1, 0)),
        r"a cell must have at least 3 corners, but cell 0 has 0"),
    "extra vertex": (extra_vertex, r"Euler's formula .* = 2 fails: the left-hand side is 3"),
    "mirror image": (mirrored, r"counter-clockwise .* but in cell 0 the triangle of side 0 has"),
    "center outside": (lambda m: shifted(m, "centers", 20, 0.5),
        r"corners must turn counter-clockwise around the center, but in cell 20 the triangle"),
    "moved center": (lambda m: shifted(m, "centers", 20, 1e-9),
        r"ends must be equally far from both centers, but edge \d+ has [1-9]\.\d+e-10"),
    "moved vertex": (lambda m: shifted(m, "vertices", 30, 1e-9),
        r"ends must be equally far from both centers, but edge \d+ has [1-9]\.\d+e-10"),
    "negative area": (lambda m: spoiled(m, "areas", 11, -0.1),
        r"areas must be positive, but cell 11 has -0\.1"),
    "overlap": (lambda m: spoiled(m, "areas", 11, m.areas[11] * (1 + 1e-8)),
        r"areas must sum to 12\.566370614359\d*, got 12\.566370"),
    "edge without length": (lambda m: spoiled(m, "edge_lengths", 8, 0.0),
        r"edges must have a length > 0, but edge 8 has 0\.0"),
    "long normal": (lambda m: spoiled(m, "edge_normals", 8, 1.1 * m.edge_normals[8]),
        r"edge normals must be unit vectors, but edge 8 has 1\.1"),
    "normal not tangent": (lambda m: spoiled(m, "edge_normals", 8, m.edge_midpoints[8]),
        r"edge normals must be tangent at both ends, but edge 8 has 0\.9"),
    "normal backwards": (lambda m: spoiled(m, "edge_normals", 8, -m.edge_normals[8]),
        r"must lead from the first to the second cell, but edge 8 has -"),
    "normal undefined": (lambda m: spoiled(m, "edge_normals", 8, np.nan),
        r"edge normals must be unit vectors, but edge 8 has nan"),
    "wrong sign": (lambda m: spoiled(m, "cell_edge_signs", 50, -m.cell_edge_signs[50]),
        r"edges must join the corners of their side, but cell 10, side 0 has ends"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_check_finds_and_names_damage(kind):
    damage, message = DAMAGE[kind]
    with pytest.raises(MeshError, match=message):
        damage(icosphere(4)).check()


CIRCLE_DAMAGE = {
    "clockwise": (lambda m: replace(m, vertices=m.vertices * [1, -1], centers=m.centers * [1, -1]),
        "corners must turn counter-clockwise"),
    "moved vertex": (lambda m: shifted(m, "vertices", 3, 0.01), "equally far from both centers"),
    "neighbours": (lambda m: replace(m, edge_cells=changed(m.edge_cells, 2, [0, 4])),
        "do not match"),
    "three corners": (lambda m: replace(m, cell_offsets=changed(m.cell_offsets, 1, 3)),
        "a cell must have exactly 2 corners, but cell 0 has 3"),
    "flux": (lambda m: spoiled(m, "cell_edge_signs", 5, -m.cell_edge_signs[5]),
        "fluxes of a rotation must sum to 0"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CIRCLE_DAMAGE)
def test_check_finds_damage_on_the_circle(kind):
    damage, message = CIRCLE_DAMAGE[kind]
    with pytest.raises(MeshError, match=message):
        damage(circle(8)).check()


def test_closure_check_finds_a_flux_counted_wrongly():
    """Behind the other checks it can't fail, so it is asked alone."""
    mesh = icosphere(4)
    check_closure(mesh)
    damaged = spoiled(mesh, "cell_edge_signs", 50, -mesh.cell_edge_signs[50])
    with pytest.raises(MeshError, match=r"a rotation must sum to 0 over a cell, but cell 10 has 0"):
        check_closure(damaged)


def test_reversing_an_edge_altogether_is_no_damage():
    mesh = icosphere(3)
    reversed_ = replace(
        mesh,
        edge_cells=changed(mesh.edge_cells, 7, mesh.edge_cells[7, ::-1]),
        edge_vertices=changed(mesh.edge_vertices, 7, mesh.edge_vertices[7, ::-1]),
    )
    check_mesh(reversed_)
    assert_allclose(reversed_.edge_normals[7], -mesh.edge_normals[7], atol=0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("centers", np.zeros((162, 4)), r"centers must have shape \(N, 2\) or \(N, 3\), got"),
        ("vertices", np.zeros((320, 2)), r"vertices must have shape \(320, 3\), got \(320, 2\)"),
        ("edge_vertices", np.zeros((480, 1)), r"edge_vertices must have shape \(480, 2\), got"),
        ("cell_offsets", np.zeros(162), r"cell_offsets must have shape \(163,\), got \(162,\)"),
        ("cell_vertices", np.zeros(9), r"cell_vertices must have shape \(960,\), got \(9,\)"),
    ],
)
def test_construction_refuses_wrong_shapes(name, value, message):
    with pytest.raises(MeshError, match=message):
        replace(icosphere(4), **{name: value})


def octahedron():
    points = np.concatenate([np.eye(3), -np.eye(3)])
    signs = [(s, t, u) for s in (0, 3) for t in (0, 3) for u in (0, 3)]
    triangles = np.array([[s, 1 + t, 2 + u] for s, t, u in signs])
    odd = np.array([(s + t + u) % 2 == 1 for s, t, u in signs])
    triangles[odd] = triangles[odd][:, ::-1]
    return points, triangles


def test_dual_of_the_octahedron_is_the_cube():
    mesh = voronoi_dual(*octahedron())
    mesh.check()
    assert isinstance(mesh, SphereMesh)
    assert_allclose(mesh.areas, 4 * np.pi / 6, rtol=1e-14)
    assert_allclose(mesh.edge_lengths, np.arccos(1 / 3), rtol=1e-14)


def test_dual_refuses_triangles_that_do_not_close_the_sphere():
    points, triangles = octahedron()
    with pytest.raises(MeshError, match="triangles must close the sphere"):
        voronoi_dual(points, triangles[1:])
    twisted = triangles.copy()
    twisted[0] = twisted[0, ::-1]
    with pytest.raises(MeshError, match="triangles must close the sphere"):
        voronoi_dual(points, twisted)
    with pytest.raises(MeshError, match="triangles must close the sphere"):
        voronoi_dual(points, np.concatenate([triangles, triangles]))
    with pytest.raises(MeshError, match="point 6 has 0"):
        voronoi_dual(np.concatenate([points, points[:1]]), triangles)


def test_a_triangulation_that_is_not_delaunay_is_found():
    import meshzoo

    points, triangles = meshzoo.icosa_sphere(4)
    mesh = voronoi_dual(points, triangles)
    left, right = 0, mesh.edge_vertices[np.any(mesh.edge_vertices == 0, axis=1)].sum(axis=1)[0]
    shared = np.intersect1d(triangles[left], triangles[right])
    apex = [np.setdiff1d(triangles[t], shared)[0] for t in (left, right)]
    a, b = shared
    if g.triangle_area(points[apex[0]], points[a], points[apex[1]]) < 0:
        a, b = b, a
    triangles[left], triangles[right] = [apex[0], a, apex[1]], [apex[0], apex[1], b]
    with pytest.raises(MeshError):
        voronoi_dual(points, triangles).check()


# ---------------------------------------------------------------- size


def test_large_meshes_pass_their_checks_in_time():
    """icosphere(64), 40,962 cells, everything derived: a fraction of a second."""
    from time import perf_counter

    start = perf_counter()
    mesh = icosphere(64)
    mesh.check()
    for name in DERIVED:
        getattr(mesh, name)
    assert perf_counter() - start < 3.0


@pytest.mark.full
def test_655362_cells_in_15_seconds_and_3_gigabytes():
    """In a process of its own, whose peak memory is the mesh's."""
    import subprocess
    import sys

    names = ", ".join(f"mesh.{name}" for name in DERIVED)
    program = (
        "import resource, time\n"
        "from meshes import icosphere\n"
        "start = time.perf_counter()\n"
        f"mesh = icosphere(256); mesh.check(); {names}\n"
        "print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    seconds, kilobytes = map(float, run.stdout.split())
    assert seconds < 15
    assert kilobytes < 3e6


@pytest.mark.parametrize("mesh", [icosphere(12), icosphere(6, relax=2), circle(200), circle(3)])
def test_dissection_orders_all_cells(mesh):
    np.testing.assert_array_equal(np.sort(mesh.dissection), np.arange(mesh.n_cells))


def test_dissection_separates():
    """A long chain, numbered at random: the middle one comes last, and so on in both halves."""
    n = 101
    number = np.random.default_rng(1).permutation(n)
    points = np.empty((n, 2))
    points[number] = np.stack([np.arange(n) / n, np.zeros(n)], axis=1)
    place = np.argsort(number)
    order = place[dissection(points, np.stack([number[:-1], number[1:]], axis=1))]
    # 0..49 | 50 | 51..100, and both halves of 50: 0..24 | 25 | 26..49 and 51..75 | 76 | 77..100.
    assert order[-1] == 50 and set(order[:50]) == set(range(50))
    assert order[49] == 25 and set(order[:25]) == set(range(25))
    assert order[-2] == 76 and set(order[50:75]) == set(range(51, 76))


def test_dissection_fills_in_less_than_minimum_degree():
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import splu

    mesh = icosphere(24)
    i, j = mesh.edge_cells.T
    pairs = coo_array((-np.ones(mesh.n_edges), (i, j)), shape=(mesh.n_cells, mesh.n_cells))
    matrix = (8.0 * eye_array(mesh.n_cells) + pairs + pairs.T).tocsr()
    ordered = matrix[mesh.dissection][:, mesh.dissection].tocsc()
    symmetric = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    ours = splu(ordered, permc_spec="NATURAL", **symmetric).L.nnz
    theirs = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", **symmetric).L.nnz
    assert ours < 1.1 * theirs
    assert ours < 4.0 * mesh.n_cells * np.log2(mesh.n_cells)
