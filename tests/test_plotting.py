"""Pictures: projections keep what they promise, colours are the density's, nothing is clipped."""

import numpy as np
import pytest

from meshes import circle, icosphere
from pde import SelfAttention
from pde.pictures import panels, plotting
from pde.pictures.projections import CellRaster, Mollweide, Orthographic
from pde.solution import Solution

MARKS = {"E": np.array([[0.0], [1.0], [0.0]]), "plane": np.eye(3)[:, :2], "all": np.eye(3)}


def random_points(n, seed=0):
    points = np.random.default_rng(seed).standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def bump(mesh, kappa):
    rho = mesh.average(lambda x: np.exp(kappa * (x[:, 1] - 1.0)))
    return rho / (rho @ mesh.areas)


@pytest.mark.parametrize(
    "projection", [Mollweide(), Mollweide(2.0), Orthographic([1.0, -2.0, 0.7])]
)
def test_unproject_inverts_project(projection):
    points = random_points(500)
    places, seen = projection.project(points)
    back = projection.unproject(places[seen])
    assert seen.sum() > 200
    # At the limb and at Mollweide's poles a place moves as the square root of the height.
    np.testing.assert_allclose(back, points[seen], atol=1e-7)


def test_front_and_back_together_show_every_point_once():
    front = Orthographic(plotting.VIEW)
    points = random_points(1000)
    np.testing.assert_array_equal(front.project(points)[1], ~front.opposite.project(points)[1])


@pytest.mark.parametrize("toward", [[0.0, 0.0, 1.0], [0.0, 0.0, -2.0], [1.0, 1.0, 0.6]])
def test_an_orthographic_view_is_a_rotation(toward):
    frame = Orthographic(toward).frame
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(frame) > 0  # no mirror image
    np.testing.assert_allclose(frame[2], np.array(toward) / np.linalg.norm(toward))


def test_from_the_front_e1_is_left_e2_right_and_e3_above():
    places, seen = Orthographic(plotting.VIEW).project(np.eye(3))
    assert seen.all()
    assert places[0, 0] < 0 < places[1, 0] and places[2, 1] > 0


def test_mollweide_areas_are_true():
    """The pixels of a cell add up to its area, for every cell, up to one ring of pixels."""
    mesh = icosphere(3)
    raster = CellRaster(mesh, Mollweide(0.3), pixels=800)
    rows, columns = raster.cells.shape
    y, x = np.meshgrid(
        (np.arange(rows) + 0.5) / rows * 2 - 1,
        (np.arange(columns) + 0.5) / columns * 2 - 1,
        indexing="ij",
    )
    inside = x**2 + y**2 < 1.0
    pixel = 4.0 * raster.projection.half_width * raster.projection.half_height / (rows * columns)
    shown = np.bincount(raster.cells[inside], minlength=mesh.n_cells) * pixel
    assert abs(shown.sum() - 4 * np.pi) < 2e-3
    np.testing.assert_allclose(shown, mesh.areas, rtol=0.03)


def test_a_raster_shows_the_cell_that_contains_the_point():
    mesh = icosphere(6)
    raster = CellRaster(mesh, Orthographic([0.0, -1.0, 0.0]), pixels=200)
    places, seen = raster.projection.project(mesh.centers)
    deep = seen & (np.hypot(*places.T) < 0.9)
    column, row = np.floor((places[deep] + 1.0) * 100).astype(int).T
    np.testing.assert_array_equal(raster.cells[row, column], np.flatnonzero(deep))


def test_colours_are_the_densities():
    """Half the sphere at the top of the scale, half at the bottom: so are the pixels."""
    mesh = icosphere(8)
    state = np.where(mesh.centers[:, 2] > 0, 1.0, 0.0)
    figure = plotting.sphere_figure(mesh, [state], ["t"], toward=[1.0, 0.0, 0.0])
    image = np.asarray(_drawn(figure).buffer_rgba())[..., :3] / 255.0
    box = figure.axes[0].get_window_extent()
    x, height = int(0.5 * (box.x0 + box.x1)) + 3, image.shape[0]
    north, south = (image[int(height - box.y0 - f * box.height), x] for f in (0.9, 0.1))
    colours = panels.COLOURS
    import matplotlib

    np.testing.assert_allclose(north, matplotlib.colormaps[colours](1.0)[:3], atol=0.02)
    np.testing.assert_allclose(south, matplotlib.colormaps[colours](0.0)[:3], atol=0.02)


def test_the_scale_is_logarithmic_once_mass_concentrates():
    from matplotlib.colors import LogNorm

    mesh = icosphere(12)
    spread, narrow = bump(mesh, 2.0), bump(mesh, 80.0)
    assert not isinstance(panels.density_norm(mesh, [spread]), LogNorm)
    norm = panels.density_norm(mesh, [spread, narrow])
    assert isinstance(norm, LogNorm)
    assert norm.vmax == narrow.max() and norm.vmin == narrow.max() / 1e4


def _solution(kind):
    if kind == "sphere":
        mesh = icosphere(6)
        return Solution([0.0, 1.0, 12345.678], [bump(mesh, k) for k in (0, 4, 200)], mesh=mesh)
    if kind == "empty sphere":
        mesh = icosphere(2)
        return Solution([0.0], np.zeros((1, mesh.n_cells)), mesh=mesh)
    if kind == "two fields":
        mesh = icosphere(2)
        return Solution([0.0], np.ones((1, mesh.n_cells, 2)), mesh=mesh)
    if kind == "circle":
        mesh = circle(16)
        angle = np.arctan2(mesh.centers[:, 1], mesh.centers[:, 0])
        return Solution([0.0, 1.0], [np.ones(16), np.exp(30 * np.cos(angle))], mesh=mesh)
    if kind == "particles":
        return Solution([0.0, 1.0], [random_points(50, 1), random_points(50, 2)])
    angle = np.linspace(0, 5, 9)
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    return Solution([0.0], [points], weights=np.arange(9.0))


@pytest.mark.parametrize(
    "kind", ["sphere", "empty sphere", "two fields", "circle", "particles", "particles on circle"]
)
def test_every_label_is_inside_the_picture(kind, tmp_path):
    solution = _solution(kind)
    title = "A title that is longer than the picture is wide, " * 3
    figure = solution.plot(
        tmp_path / "p.png", marks=MARKS if "circle" not in kind else {}, title=title
    )
    assert (tmp_path / "p.png").stat().st_size > 5000
    _assert_nothing_clipped(figure)


def test_streamlines_clusters_and_comparisons_stay_inside():
    mesh = icosphere(8)
    solution = Solution([0.0, 1.0], [bump(mesh, 1), bump(mesh, 200)], mesh=mesh)
    field = SelfAttention(np.diag([2.0, 1.0, 0.5]), np.eye(3), beta=4.0)
    _assert_nothing_clipped(solution.plot(marks=MARKS, field=field, show_clusters=True))
    cloud = Solution([0.0], [mesh.centers], weights=bump(mesh, 200))
    figure = cloud.plot(show_clusters=True)
    _assert_nothing_clipped(figure)
    shares = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert len(shares) == 1 and shares[0] in ("99 %", "100 %")
    clouds = [mesh.centers, mesh.centroids]
    figure = plotting.comparison_figure(
        mesh, solution.states, clouds, ["a", "b"], mesh.areas, MARKS, "Cells and particles"
    )
    assert len(figure.axes) == 2 * 4 + 1
    _assert_nothing_clipped(figure)


@pytest.mark.parametrize("n", [40, 500])
def test_dots_on_the_circle_are_the_density_of_the_particles(n):
    """Quantiles of 1 + cos(angle)/2: second order in the spacing, whatever the first angle."""
    fine = np.linspace(-np.pi, np.pi, 20001)
    rank = (fine + np.pi + 0.5 * np.sin(fine)) / (2 * np.pi)
    angle = np.interp((np.arange(n) + 0.7) / n, rank, fine)
    cloud = np.column_stack([np.cos(angle), np.sin(angle)])[::-1]
    places, density = plotting._arcs(cloud, None)
    assert 40 <= len(places) <= 2 * plotting.DOTS
    np.testing.assert_allclose(density, (1 + 0.5 * np.cos(places)) / (2 * np.pi), atol=4e-3)
    figure = plotting.circle_figure(circle(30), [np.ones(30)], ["a"], clouds=[cloud])
    _assert_nothing_clipped(figure)
    one = plotting._arcs(np.array([[1.0, 0.0]]), None)
    np.testing.assert_allclose(one, [[0.0], [1 / (2 * np.pi)]], atol=1e-15)


def _streamlines(projection, flow):
    """The pieces (m, 2, 2) of the streamlines that are drawn, each from its start to its end."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(2, 2)).add_axes((0, 0, 1, 1))
    return np.array(panels.draw_flow(axes, projection, flow).lines.get_segments())


def test_streamlines_of_a_rotation_are_circles_walked_the_right_way():
    """Seen from the axis: radii stay, angles grow."""
    pieces = _streamlines(Orthographic([0.0, 0.0, 1.0]), lambda x: np.cross([0.0, 0.0, 1.0], x))
    assert len(pieces) > 200
    # Nearest to the center, a line is cut to chords that are as long as its radius.
    pieces = pieces[np.linalg.norm(pieces, axis=2).min(axis=1) > 0.05]
    start, end = pieces[:, 0], pieces[:, 1]
    np.testing.assert_allclose(np.hypot(*end.T), np.hypot(*start.T), atol=2e-3)
    up = Orthographic([0.0, 0.0, 1.0]).frame[1]
    assert np.allclose(up, [0.0, 1.0, 0.0])
    turned = start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0]
    # Where two halves of a line meet there are pieces of no length.
    assert turned.min() > -1e-6 and np.mean(turned > 1e-4) > 0.95


def test_streamlines_on_a_map_follow_the_parallels():
    pieces = _streamlines(Mollweide(0.4), lambda x: np.cross([0.0, 0.0, 1.0], x))
    assert len(pieces) > 200
    np.testing.assert_allclose(pieces[:, 1, 1], pieces[:, 0, 1], atol=1e-4)
    ahead = pieces[:, 1, 0] - pieces[:, 0, 0]
    assert ahead.min() > -1e-6 and np.mean(ahead > 1e-4) > 0.95


def test_a_field_that_vanishes_has_no_streamlines():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    assert panels.draw_flow(axes, Mollweide(), np.zeros_like) is None


def test_many_states_wrap_and_stay_inside(tmp_path):
    mesh = icosphere(3)
    states, labels = [bump(mesh, k) for k in range(7)], [f"$t = {k}$" for k in range(7)]
    for figure in (
        plotting.sphere_figure(mesh, states, labels, title="x"),
        plotting.map_figure(mesh, states, labels, MARKS),
    ):
        _assert_nothing_clipped(figure)


def test_series_stay_inside_and_leave_out_what_has_no_numbers():
    times = np.arange(4.0)
    series = {
        "mass": np.ones(4),
        "zero": np.zeros(4),
        "minimum over many decades": 10.0 ** -(9 * times),
        "entropy": np.array([2.5, 1.0, np.nan, -3.0]),
        "nothing": np.full(4, np.nan),
        "distance over a decade": np.array([1.0, 0.5, 0.2, 0.09]),
    }
    figure = plotting.series_figure(times, series, title="Series")
    del series["nothing"]
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title(loc="left") for axes in shown] == list(series)
    assert [a.get_yscale() for a in shown] == ["linear", "linear", "log", "linear", "log"]
    _assert_nothing_clipped(figure)


def _drawn(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas


def _assert_nothing_clipped(figure):
    box = figure.get_tightbbox(_drawn(figure).get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= 0.0 and box.x1 <= width
    assert box.y0 >= 0.0 and box.y1 <= height


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="got d = 5; project them first"):
        Solution([0.0], [np.eye(5)]).plot()
    with pytest.raises(ValueError, match="no state to draw"):
        _solution("sphere").plot(times=[])
    with pytest.raises(ValueError, match="toward must be a direction"):
        Orthographic([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"must be of the sphere \(d = 3\), got d = 2"):
        CellRaster(circle(4), Mollweide())
    with pytest.raises(ValueError, match="no series"):
        plotting.series_figure(np.arange(2.0), {"x": np.full(2, np.nan)})


def test_no_window_and_no_state_is_left_behind():
    import matplotlib

    before = dict(matplotlib.rcParams)
    _solution("sphere").plot()
    assert dict(matplotlib.rcParams) == before
    # Figures made through pyplot would be kept alive by it.
    import matplotlib.pyplot

    assert matplotlib.pyplot.get_fignums() == []
