"""Result files: what was written comes back to the bit, and no kill loses an acknowledged save."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from meshes import circle, icosphere
from pde.results import files, netcdf, storage, ugrid
from pde.results.storage import ResultWriter, read_result

ARRAYS = ["centers", "vertices", "edge_cells", "edge_vertices", "cell_offsets", "cell_vertices"]


def cloud(records, n=7, d=3, seed=0):
    points = np.random.default_rng(seed).standard_normal((records, n, d))
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def write(path, states, close=True, **options):
    writer = ResultWriter(path, **options)
    for k, state in enumerate(states):
        writer.append(0.5 * k, state, {"mass": 1.0 + k, "minimum": -k})
    if close:
        writer.close()
    return writer


@pytest.fixture(params=["netcdf4", "netcdf3"])
def either_format(request, monkeypatch):
    """With the package netCDF4, and as if it were not installed."""
    if request.param == "netcdf3":
        monkeypatch.setitem(sys.modules, "netCDF4", None)
    return request.param


@pytest.mark.parametrize(
    "mesh", [icosphere(3), icosphere(4, relax=2), circle(17)], ids=["raw", "relaxed", "circle"]
)
def test_mesh_and_states_come_back_to_the_bit(tmp_path, mesh, either_format):
    states = np.random.default_rng(1).random((3, mesh.n_cells, 2)) / 3
    write(tmp_path / "r.nc", states, mesh=mesh, metadata={"beta": 1 / 3, "title": "Größe"})
    magic = (tmp_path / "r.nc").read_bytes()[:4]
    assert magic == (b"\x89HDF" if either_format == "netcdf4" else b"CDF\x02")
    result = read_result(tmp_path / "r.nc")
    np.testing.assert_array_equal(result.states, states)
    np.testing.assert_array_equal(result.times, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(result.diagnostics["minimum"], [0.0, -1.0, -2.0])
    assert result.metadata == {"beta": 1 / 3, "title": "Größe"}
    for name in ARRAYS:
        was, now = getattr(mesh, name), getattr(result.mesh, name)
        np.testing.assert_array_equal(now, was, err_msg=name)
        assert now.dtype == was.dtype and now.flags.c_contiguous
    result.mesh.check()


def test_particles_come_back_to_the_bit(tmp_path, either_format):
    states, weights = cloud(4, d=5), np.linspace(0, 1, 7)
    write(tmp_path / "r.nc", states, weights=weights)
    result = read_result(tmp_path / "r.nc")
    np.testing.assert_array_equal(result.states, states)
    np.testing.assert_array_equal(result.weights, weights)
    assert result.mesh is None


def test_numbers_that_are_not_finite_survive(tmp_path, either_format):
    mesh = circle(3)
    with ResultWriter(tmp_path / "r.nc", mesh=mesh) as writer:
        writer.append(0.0, [np.nan, np.inf, 5e-324], {"energy": -np.inf})
        writer.append(1.0, [0.0, -0.0, 1e308], {})
    result = read_result(tmp_path / "r.nc")
    np.testing.assert_array_equal(result.states, [[np.nan, np.inf, 5e-324], [0.0, -0.0, 1e308]])
    np.testing.assert_array_equal(result.diagnostics["energy"], [-np.inf, np.nan])


# --- other programs --------------------------------------------------------------------------


@pytest.mark.parametrize("close", [False, True], ids=["while running", "closed"])
def test_xarray_and_netcdf4_read_it(tmp_path, close):
    xarray = pytest.importorskip("xarray")
    netcdf4 = pytest.importorskip("netCDF4")
    mesh = icosphere(3)
    states = np.random.default_rng(2).random((2, mesh.n_cells))
    writer = write(tmp_path / "r.nc", states, mesh=mesh, close=close)
    with xarray.open_dataset(tmp_path / "r.nc") as data:
        np.testing.assert_array_equal(data["density"], states)
        np.testing.assert_array_equal(data["time"], [0.0, 0.5])
        assert data["density"].dims == ("time", "mesh_face")
        assert abs(float(data["mesh_face_area"].sum()) - 4 * np.pi) < 1e-12
    with netcdf4.Dataset(tmp_path / "r.nc") as data:
        assert data.data_model == ("NETCDF4" if close else "NETCDF3_64BIT_OFFSET")
        np.testing.assert_array_equal(data["density"][...], states)
    writer.close()


WATCHER = """
    import sys, xarray
    for line in sys.stdin:
        with xarray.open_dataset(sys.argv[1]) as data:
            print(len(data["time"]), repr(float(data["density"].sum())), flush=True)
"""


def test_xarray_in_another_process_watches_the_file_grow(tmp_path):
    pytest.importorskip("xarray")
    states = np.random.default_rng(5).integers(0, 100, (4, 92)).astype(float)
    writer = ResultWriter(tmp_path / "r.nc", mesh=icosphere(3))
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WATCHER), tmp_path / "r.nc"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        for k, state in enumerate(states):
            if k < 3:
                writer.append(float(k), state)
            else:
                writer.close()  # the finished file takes the place of the growing one
            watcher.stdin.write("look\n")
            watcher.stdin.flush()
            count, total = watcher.stdout.readline().split()
            assert int(count) == min(k + 1, 3) and float(total) == states[: int(count)].sum()
        watcher.stdin.close()


@pytest.mark.parametrize("close", [False, True], ids=["while running", "closed"])
def test_uxarray_finds_the_grid_and_the_density(tmp_path, close):
    """Its face areas come from quadrature on triangles: 6e-7 off at this spacing, less on finer."""
    uxarray = pytest.importorskip("uxarray")
    mesh = icosphere(4)
    rho = mesh.average(lambda x: np.exp(2 * x[:, 0]))
    writer = write(tmp_path / "r.nc", [rho], mesh=mesh, close=close)
    data = uxarray.open_dataset(tmp_path / "r.nc", tmp_path / "r.nc")
    grid = data.uxgrid
    assert (grid.n_face, grid.n_edge, grid.n_node) == (mesh.n_cells, mesh.n_edges, 320)
    np.testing.assert_allclose(grid.face_areas, mesh.areas, rtol=1e-6)
    assert abs(float(grid.face_areas.sum()) - 4 * np.pi) < 1e-5
    assert data["density"].dims == ("time", "n_face")
    integral = float(data["density"].isel(time=0).integrate())
    assert integral == pytest.approx(rho @ mesh.areas, rel=1e-6)
    writer.close()


def test_ugrid_topology_means_the_mesh():
    """Corners in degrees, walked in the file's order, enclose each cell's area exactly once."""
    mesh = icosphere(4)
    stored = {variable.name: variable for variable in ugrid.variables(mesh)}
    topology = stored["mesh"].attributes
    assert topology["cf_role"] == "mesh_topology" and topology["topology_dimension"] == 2
    for role in ["face_node_connectivity", "edge_node_connectivity", "edge_face_connectivity"]:
        connectivity = stored[topology[role]]
        assert connectivity.attributes["cf_role"] == role
        assert connectivity.attributes["start_index"] == 0
        assert connectivity.data.dtype == np.int32
    faces = stored[topology["face_node_connectivity"]]
    assert faces.attributes["_FillValue"] == -1
    assert (faces.data == -1).sum() == 12  # the twelve pentagons, one corner short of six
    for names in [topology["node_coordinates"], topology["face_coordinates"]]:
        lon, lat = (stored[name] for name in names.split())
        assert (lon.attributes["units"], lat.attributes["units"]) == (
            "degrees_east",
            "degrees_north",
        )
    lon, lat = (np.radians(stored[n].data) for n in topology["node_coordinates"].split())
    corners = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    # Spherical excess of the triangles (center, corner, next corner): Van Oosterom and Strackee.
    total = np.zeros(mesh.n_cells)
    for cell, row in enumerate(faces.data):
        ring = corners[row[row >= 0]]
        a, b, c = mesh.centers[cell], ring, np.roll(ring, -1, axis=0)
        triple = np.cross(b, c) @ a
        total[cell] = 2 * np.arctan2(triple, 1 + b @ a + c @ a + (b * c).sum(axis=1)).sum()
    np.testing.assert_allclose(total, mesh.areas, rtol=1e-11)


def test_cells_carry_the_corners_of_their_own():
    """CF's bounds: as many as the widest cell has, the last one again where there are fewer."""
    mesh = icosphere(4)
    stored = {variable.name: variable for variable in ugrid.variables(mesh)}
    corners = stored["mesh_face_nodes"].data
    for name in ("lon", "lat"):
        bounds = stored[stored[f"mesh_face_{name}"].attributes["bounds"]]
        assert bounds.dimensions == ("mesh_face", "corner") and bounds.data.dtype == np.float32
        nodes = stored[f"mesh_node_{name}"].data
        for cell, row in enumerate(corners):
            own = nodes[row[row >= 0]]
            wanted = np.append(own, [own[-1]] * (len(row) - len(own)))
            np.testing.assert_allclose(bounds.data[cell], wanted, atol=2e-5)


@pytest.mark.parametrize("close", [False, True], ids=["while running", "closed"])
def test_vtk_and_paraview_draw_the_cells_on_the_sphere(tmp_path, close):
    """Their reader of CF files, the one that ParaView takes for .nc."""
    vtk = pytest.importorskip("vtk")
    mesh = icosphere(4)
    states = [np.where(mesh.centers[:, k] > 0.0, 1.0, 0.2) for k in range(3)]
    writer = write(tmp_path / "r.nc", states, mesh=mesh, close=close)
    reader = vtk.vtkNetCDFCFReader()
    reader.SetFileName(str(tmp_path / "r.nc"))
    reader.UpdateMetaData()
    names = [reader.GetVariableArrayName(i) for i in range(reader.GetNumberOfVariableArrays())]
    for name in names:
        reader.SetVariableArrayStatus(name, name == "density")
    for k, state in enumerate(states):
        reader.UpdateTimeStep(0.5 * k)
        grid = reader.GetOutputDataObject(0)
        assert grid.GetNumberOfCells() == mesh.n_cells
        density = grid.GetCellData().GetArray("density")
        np.testing.assert_array_equal([density.GetValue(i) for i in range(mesh.n_cells)], state)
    size = vtk.vtkCellSizeFilter()
    size.SetInputData(grid)
    size.Update()
    for cell in range(0, mesh.n_cells, 7):
        polygon = grid.GetCell(cell)
        assert grid.GetCellType(cell) == vtk.VTK_POLYGON
        points = polygon.GetPoints()
        own = mesh.vertices[mesh.cell_vertices[slice(*mesh.cell_offsets[cell : cell + 2])]]
        found = np.array([points.GetPoint(i) for i in range(len(own))])
        np.testing.assert_allclose(found, own, atol=1e-6)
        flat = size.GetOutput().GetCellData().GetArray("Area").GetValue(cell)
        assert 0.9 * mesh.areas[cell] < flat < mesh.areas[cell]
    writer.close()


# --- kills -----------------------------------------------------------------------------------


def file_images(monkeypatch, path, action):
    """Run `action` and return what a kill would leave in `path` at every moment of it.

    Each image is (bytes or None where the file is not there, saves acknowledged by then). Writes
    are also torn: half a record may be on the disk, never half of the four bytes of the count.
    """
    images, acknowledged, log = [], [0], []
    write_at, sync, replace = netcdf._write_at, files.sync, files.replace

    def snapshot():
        images.append((path.read_bytes() if path.exists() else None, acknowledged[0]))

    def recording_write(file, offset, data):
        log.append("count" if len(data) == 4 else "record")
        snapshot()
        if len(data) > 4:
            for part in (1, len(data) // 2, len(data) - 1):
                write_at(file, offset, data[:part])
                snapshot()
        write_at(file, offset, data)
        snapshot()

    def recording_sync(file):
        log.append("sync")
        sync(file)
        snapshot()

    def recording_replace(part, target):
        snapshot()
        replace(part, target)
        snapshot()

    monkeypatch.setattr(netcdf, "_write_at", recording_write)
    monkeypatch.setattr(files, "sync", recording_sync)
    monkeypatch.setattr(files, "replace", recording_replace)
    action(acknowledged)
    snapshot()
    return images, log


def test_every_moment_of_writing_leaves_a_whole_file(tmp_path, monkeypatch):
    states = cloud(3)

    def action(acknowledged):
        writer = ResultWriter(tmp_path / "r.nc")
        for k, state in enumerate(states):
            writer.append(float(k), state, {"mass": 1.0})
            acknowledged[0] = k + 1
        writer.close()

    images, log = file_images(monkeypatch, tmp_path / "r.nc", action)
    assert len(images) > 30 and images[-1][1] == 3
    for k, (content, acknowledged) in enumerate(images):
        if content is None:
            assert acknowledged == 0
            continue
        (tmp_path / "image.nc").write_bytes(content)
        result = read_result(tmp_path / "image.nc")
        assert len(result.times) in (acknowledged, acknowledged + 1), k
        np.testing.assert_array_equal(result.states, states[: len(result.times)])
    # After a power cut the order on the disk counts: record, sync, count, sync.
    assert "".join(word[0] for word in log).count("rscs") == 3


KILL_SCRIPT = """
    import os, signal, sys
    import numpy as np
    from pde.results import files
    from pde.results import netcdf
    from pde.results.storage import ResultWriter, read_result

    path = sys.argv[1]
    states = np.eye(3)[None].repeat(2, axis=0) * np.array([1.0, -1.0])[:, None, None]
    calls = 0

    def kill_at(module, name, wanted):
        original = getattr(module, name)
        def wrapped(*arguments):
            global calls
            for moment in range(2):
                if calls == wanted:
                    os.kill(os.getpid(), signal.SIGKILL)
                calls += 1
                if moment == 0:
                    original(*arguments)
        setattr(module, name, wrapped)

    wanted, killed = 0, True
    while killed:
        if os.path.exists(path):
            os.remove(path)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            for module, name in ((netcdf, "_write_at"), (files, "sync"), (files, "replace")):
                kill_at(module, name, wanted)
            writer = ResultWriter(path)
            for t, state in enumerate(states):
                writer.append(float(t), state)
                os.write(writing, b".")
            writer.close()
            os._exit(0)
        os.close(writing)
        acknowledged = len(os.read(reading, 10))
        _, status = os.waitpid(child, 0)
        os.close(reading)
        killed = os.WIFSIGNALED(status)
        assert killed or os.WEXITSTATUS(status) == 0
        found = len(read_result(path).times) if os.path.exists(path) else 0
        assert acknowledged <= found <= acknowledged + 1, (wanted, acknowledged, found)
        if found:
            assert np.array_equal(read_result(path).states, states[:found])
        wanted += 1
    print(wanted)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_call(tmp_path):
    """A process that writes is killed with SIGKILL before and after each of its calls."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILL_SCRIPT), tmp_path / "r.nc"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_a_full_disk_keeps_the_records_before(tmp_path, monkeypatch):
    states = cloud(2)
    writer = write(tmp_path / "r.nc", states[:1], close=False)

    def full(file, offset, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(netcdf, "_write_at", full)
        with pytest.raises(OSError, match="No space left"):
            writer.append(0.5, states[1], {"mass": 2.0})
    assert writer.saved == 1
    writer.append(0.5, states[1], {"mass": 2.0})
    writer.close()
    np.testing.assert_array_equal(read_result(tmp_path / "r.nc").states, states)


def test_failed_compression_keeps_the_result_and_says_so(tmp_path, monkeypatch):
    states = cloud(2)
    writer = write(tmp_path / "r.nc", states, close=False)

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(netcdf, "_copy", full)
    with pytest.warns(UserWarning, match="stays NetCDF-3"):
        writer.close()
    np.testing.assert_array_equal(read_result(tmp_path / "r.nc").states, states)
    assert [p.name for p in tmp_path.iterdir()] == ["r.nc"]


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.0, 0.02, 0.3, 0.7, 0.999])
def test_files_cut_short_are_refused_in_one_sentence(tmp_path, fraction, either_format):
    write(tmp_path / "r.nc", np.ones((3, 92)), mesh=icosphere(3))
    content = (tmp_path / "r.nc").read_bytes()
    (tmp_path / "r.nc").write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(ValueError, match=r"r\.nc is (damaged|not a NetCDF file)") as caught:
        read_result(tmp_path / "r.nc")
    assert "\n" not in str(caught.value)


def refusal_or_result(path, content, place, change):
    """What reading gives once a byte is changed: (the error's text, None) or ("", the result)."""
    damaged = bytearray(content)
    damaged[place] ^= change
    path.write_bytes(damaged)
    try:
        return "", read_result(path)
    except ValueError as error:
        return str(error), None


def test_damaged_headers_are_refused_in_one_sentence(tmp_path, monkeypatch):
    """Bytes of a header damaged in turn: an error in one sentence, or a file that reads."""
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    path = tmp_path / "r.nc"
    write(path, np.ones((2, 3)), mesh=circle(3), metadata={"beta": 1.0})
    content = path.read_bytes()
    places = range(0, content.index(b"density") + 400, 5)
    said = [refusal_or_result(path, content, place, 0x44)[0] for place in places]
    refusals = [text for text in said if text]
    assert len(refusals) > 100
    assert all(str(path) in text and "\n" not in text for text in refusals)


def test_damaged_data_of_a_finished_file_are_noticed(tmp_path):
    """NetCDF-4 carries check sums: a changed byte gives an error or changes nothing."""
    pytest.importorskip("netCDF4")
    path, mesh = tmp_path / "r.nc", icosphere(8)
    states = np.random.default_rng(3).random((4, mesh.n_cells))
    write(path, states, mesh=mesh)
    content = path.read_bytes()
    noticed = 0
    for place in np.random.default_rng(4).integers(0, len(content), 100):
        said, result = refusal_or_result(path, content, place, 0x10)
        if said:
            noticed += 1
            assert "damaged" in said and "\n" not in said
        else:
            np.testing.assert_array_equal(result.states, states)
            np.testing.assert_array_equal(result.mesh.vertices, mesh.vertices)
    assert noticed > 40


def test_files_from_elsewhere_are_refused(tmp_path):
    from scipy.io import netcdf_file

    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ValueError, match="not a NetCDF file"):
        read_result(tmp_path / "text.nc")
    with netcdf_file(tmp_path / "other.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("x", "f8", ("x",))[:] = 1.0
    with pytest.raises(ValueError, match="not a result of sphere-attention"):
        read_result(tmp_path / "other.nc")
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.nc"):
        read_result(tmp_path / "none.nc")
    with pytest.raises(ValueError, match="is a folder"):
        read_result(tmp_path)


def test_later_layouts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "FORMAT", 2)
    write(tmp_path / "r.nc", cloud(1))
    monkeypatch.setattr(storage, "FORMAT", 1)
    with pytest.raises(ValueError, match="layout 2 by a later version"):
        read_result(tmp_path / "r.nc")


def test_netcdf4_without_the_package_names_it(tmp_path, monkeypatch):
    pytest.importorskip("netCDF4")
    write(tmp_path / "r.nc", cloud(1))
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    with pytest.raises(ImportError, match="pip install netCDF4"):
        read_result(tmp_path / "r.nc")


def test_states_that_do_not_fit_are_refused(tmp_path):
    mesh = circle(5)
    with pytest.raises(ValueError, match=r"state must have shape \(5,\) or \(5, k\), got \(4,\)"):
        ResultWriter(tmp_path / "r.nc", mesh=mesh, state_shape=(4,))
    writer = ResultWriter(tmp_path / "r.nc", mesh=mesh)
    writer.append(0.0, np.ones(5), {"mass": 1.0})
    with pytest.raises(ValueError, match=r"state must have shape \(5,\), got \(5, 2\)"):
        writer.append(1.0, np.ones((5, 2)))
    with pytest.raises(ValueError, match="got 'energy'"):
        writer.append(1.0, np.ones(5), {"energy": 1.0})
    assert writer.saved == 1
    with pytest.raises(ValueError, match="folder that does not exist"):
        ResultWriter(tmp_path / "none" / "r.nc")
    with pytest.raises(ValueError, match=r"\(2, d\), got \(3, 3\)"):
        ResultWriter(tmp_path / "r.nc", weights=[1.0, 1.0], state_shape=(3, 3))
