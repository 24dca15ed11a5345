"""VTK files: other readers find the cells where they are, with their densities and areas."""

import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from meshes import circle, icosphere
from pde.pictures.vtk import export_vtk
from pde.solution import Solution


def sphere(count=3):
    mesh = icosphere(3)
    states = np.random.default_rng(1).random((count, mesh.n_cells))
    return Solution(np.arange(float(count)), states, mesh=mesh)


def cell_values(grid, name):
    """A cell array in the order of the cells, whatever the blocks."""
    order = np.concatenate(grid.cell_data["cell"])
    values = np.empty(len(order))
    values[order] = np.concatenate(grid.cell_data[name])
    return values


def test_cells_are_where_they_are(tmp_path):
    meshio = pytest.importorskip("meshio")
    solution = sphere()
    assert export_vtk(solution, tmp_path / "s.vtu") == [tmp_path / "s.vtu"]
    grid = meshio.read(tmp_path / "s.vtu")
    np.testing.assert_array_equal(grid.points, solution.mesh.vertices)
    np.testing.assert_array_equal(cell_values(grid, "density"), solution.states[-1])
    np.testing.assert_array_equal(cell_values(grid, "area"), solution.mesh.areas)
    assert {(block.type[:7], block.data.shape[1]) for block in grid.cells} == {
        ("polygon", 5),
        ("polygon", 6),
    }
    ids = iter(np.concatenate(grid.cell_data["cell"]))
    for block in grid.cells:
        for corners in block.data:
            middle = grid.points[corners].mean(axis=0)
            nearest = np.argmax(solution.mesh.centers @ middle)
            assert nearest == next(ids)
            # Counter-clockwise from outside: the normal points outwards.
            a, b, c = grid.points[corners[:3]]
            assert np.cross(b - a, c - b) @ middle > 0


def test_vtk_itself_reads_it(tmp_path):
    vtk = pytest.importorskip("vtk")
    solution = sphere()
    export_vtk(solution, tmp_path / "s.vtu", time=1.2)
    reader = vtk.vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(tmp_path / "s.vtu"))
    reader.Update()
    grid, measure = reader.GetOutput(), vtk.vtkCellSizeFilter()
    assert grid.GetNumberOfCells() == 92
    assert {grid.GetCellType(i) for i in range(92)} == {vtk.VTK_POLYGON}
    measure.SetInputData(grid)
    measure.Update()
    array = measure.GetOutput().GetCellData().GetArray("Area")
    flat = sum(array.GetValue(i) for i in range(92))
    assert 0.94 * 4 * np.pi < flat < 4 * np.pi  # flat polygons inside the sphere
    density = grid.GetCellData().GetArray("density")
    ids = grid.GetCellData().GetArray("cell")
    for i in range(92):
        assert density.GetValue(i) == solution.states[1][int(ids.GetValue(i))]


def test_a_collection_lists_every_time(tmp_path):
    pytest.importorskip("meshio")
    written = export_vtk(sphere(), tmp_path / "all & one.pvd")
    sets = ElementTree.parse(written[0]).findall("Collection/DataSet")
    assert [float(entry.get("timestep")) for entry in sets] == [0.0, 1.0, 2.0]
    assert [tmp_path / entry.get("file") for entry in sets] == written[1:]
    assert all(path.stat().st_size > 1000 for path in written[1:])
    assert not list(tmp_path.rglob("*.part"))


def test_several_fields_the_circle_and_particles(tmp_path):
    meshio = pytest.importorskip("meshio")
    ring = circle(8)
    both = np.column_stack([np.arange(8.0), -np.arange(8.0)])
    export_vtk(Solution([0.0], [both], mesh=ring), tmp_path / "c.vtu")
    grid = meshio.read(tmp_path / "c.vtu")
    assert grid.points.shape == (8, 3) and not grid.points[:, 2].any()
    np.testing.assert_array_equal(cell_values(grid, "density_2"), both[:, 1])
    ends = grid.points[grid.cells[0].data]
    np.testing.assert_allclose(
        np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), 2 * np.sin(np.pi / 8)
    )
    export_vtk(Solution([0.0], [np.eye(3)], weights=[1.0, 2.0, 3.0]), tmp_path / "p.vtu")
    grid = meshio.read(tmp_path / "p.vtu")
    np.testing.assert_array_equal(grid.points, np.eye(3))
    np.testing.assert_array_equal(grid.cell_data["weight"][0], [1.0, 2.0, 3.0])


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"must end in \.vtu .* got x\.vtk"):
        export_vtk(sphere(), "x.vtk")
    with pytest.raises(ValueError, match="holds no states"):
        export_vtk(Solution([], np.zeros((0, 2, 3))), "x.vtu")
    pytest.importorskip("meshio")
    with pytest.raises(ValueError, match="got d = 5"):
        export_vtk(Solution([0.0], [np.eye(5)]), tmp_path / "x.vtu")
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(ImportError, match="pip install meshio"):
        export_vtk(sphere(), tmp_path / "x.vtu")
