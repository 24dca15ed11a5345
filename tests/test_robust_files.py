"""Full disks, folders that cannot be written, files cut and damaged: nothing saved is lost."""

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from restart_runs import Run
from strategies import ROOT, answered_or_refused, refused

from meshes import circle, icosphere
from pde import Measure, Solution
from pde.restart import read_restart
from pde.storage import ResultWriter
from pde.vtk import export_vtk
from pde.web import export_html
from pde.weights import read_head
from sphere_attention_scripts import run_case
from sphere_attention_scripts.simulate import main

I = np.eye(3)  # noqa: E741 - the identity

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts and changes its user")

SMALL = [
    "mesh.kind=circle", "mesh.cells=12", "model.V=[1.0, 0.5]", "model.B=[1.0, 1.0]",
    "time.until=0.2", "time.save_every=0.1",
]  # fmt: skip


def run(out, *more):
    """The arguments of a small run."""
    changes = [word for text in [*SMALL, *more] for word in ("--set", text)]
    return ["run", *changes, "--quiet", "--out", str(out)]


@contextmanager
def at_most(seconds):
    """Fail what takes longer: a damaged length must not be counted to its end."""

    def late(number, frame):
        raise AssertionError(f"still going on after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- full disks ------------------------------------------------------------------------------

LIMITED = """
    import os, resource, sys, warnings
    from pathlib import Path
    from restart_runs import Run
    from pde.storage import read_result

    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    whole = Run(folder).go().everything()
    largest = max(path.stat().st_size for path in folder.iterdir())
    failed, finished = 0, 0
    for limit in range(0, largest + 600, 397):
        for path in folder.iterdir():
            path.unlink()
        reading, writing = os.pipe()
        if os.fork() == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            run = Run(folder)
            saved = run.callbacks[1].act
            run.callbacks[1].act = lambda sim: (saved(sim), os.write(writing, b"."))
            try:
                run.go()
                os.write(writing, b"!")
            except OSError:
                pass
            os._exit(0)
        os.close(writing)
        os.wait()
        said = os.read(reading, 100)
        os.close(reading)
        # What was acknowledged opens, and nothing half-written lies about.
        names = {path.name for path in folder.iterdir()}
        assert names <= {"run.nc", "restart.npz"}, (limit, names)
        acknowledged = said.count(b".")
        if acknowledged:
            found = read_result(folder / "run.nc")
            assert len(found.times) == acknowledged, (limit, said)
            assert found.states.tolist() == whole["states"][:acknowledged]
        finished += said.endswith(b"!")
        failed += not said.endswith(b"!")
        # With room again it goes on as if nothing had been.
        again = Run(folder).go(resume="restart.npz" in names).everything()
        assert again == whole, (limit, [key for key in whole if whole[key] != again[key]])
    print(failed, finished)
"""


def in_a_process(script, *arguments, timeout=120):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_files_may_grow_to_any_size_and_no_further(tmp_path):
    """The system refuses to let any file grow beyond a limit: each limit in turn."""
    done = in_a_process(LIMITED, tmp_path)
    assert done.returncode == 0, done.stderr
    failed, finished = map(int, done.stdout.split())
    assert failed > 5 and finished > 5


def mounted(words):
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


@as_root
@pytest.mark.parametrize("kilobytes", [8, 28, 36, 64, 120])
def test_the_command_on_a_disk_that_fills_up(tmp_path, capsys, kilobytes):
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounted(["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]):
        pytest.skip("a file system in memory cannot be mounted here")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a result stays NetCDF-3
            status = main(run(disk / "out"))
        said = capsys.readouterr().err
        assert status in (0, 1, 2)
        if status:
            assert "No space left on device" in said and "Traceback" not in said
        result = disk / "out" / "result.nc"
        if "states saved" in said:
            count = int(said.split("the ")[-1].split()[0])
            assert len(Solution.open(result).times) == count
            xarray = pytest.importorskip("xarray")
            with xarray.open_dataset(result) as data:
                assert data.sizes["time"] == count
        assert not list(disk.rglob("*.part"))
        # Nothing holds the disk any longer, not even a broken file that is gone.
        assert subprocess.run(["umount", str(disk)]).returncode == 0
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], stderr=subprocess.DEVNULL)


# --- folders that cannot be written ----------------------------------------------------------


def test_paths_below_a_file(tmp_path, capsys):
    blocked = tmp_path / "file" / "r.nc"
    (tmp_path / "file").write_text("")
    cloud = Solution([0.0], [np.eye(3)])
    refused(lambda: ResultWriter(blocked), "path")
    refused(lambda: cloud.save(blocked), "path")
    for write in (
        lambda: export_html(cloud, blocked),
        lambda: export_vtk(cloud, blocked.with_suffix(".vtu")),
        lambda: cloud.plot(blocked.with_suffix(".png")),
    ):
        with pytest.raises((OSError, ValueError)):
            write()
    assert main(run(blocked)) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == ""


@as_root
def test_a_read_only_disk(tmp_path, capsys):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    assert main(run(here / "done")) == 0
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    if not mounted(["--bind", str(here), str(there)]):
        pytest.skip("a folder cannot be mounted here")
    try:
        if not mounted(["-o", "remount,ro,bind", str(there)]):
            pytest.skip("a folder cannot be mounted read-only here")
        capsys.readouterr()
        assert main(run(there / "new")) == 2
        assert main(["run", "--resume", str(there / "done"), "--set", "time.until=0.3"]) == 2
        said = capsys.readouterr().err
        assert said.count("cannot be written (Read-only file system)") == 2, said
        assert main(["info", str(there / "done" / "result.nc")]) == 0
        with pytest.raises(OSError, match="cannot be written|Read-only"):
            ResultWriter(there / "r.nc").append(0.0, np.eye(3))
    finally:
        subprocess.run(["umount", "--lazy", str(there)], stderr=subprocess.DEVNULL)
    assert before == {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}


NOBODY = """
    import os, sys
    import numpy as np
    from pde.storage import ResultWriter
    from sphere_attention_scripts import run_case, simulate
    os.setgid(65534), os.setuid(65534)
    try:
        ResultWriter(sys.argv[1] + "/r.nc")
    except (PermissionError, ValueError) as error:
        print(error)
    sys.exit(simulate.main(["run", "--set", "mesh.frequency=2", "--out", sys.argv[1] + "/out"]))
"""


@as_root
def test_a_folder_of_somebody_else(tmp_path):
    folder = tmp_path / "root's"
    folder.mkdir(mode=0o755)
    done = in_a_process(NOBODY, folder)
    assert done.returncode == 2, done.stderr
    assert "lies in a folder that" in done.stdout
    assert "Traceback" not in done.stderr and "Permission denied" in done.stderr
    assert not list(folder.iterdir())


# --- cut and damaged files -------------------------------------------------------------------


def written(path, close, mesh=None):
    """The bytes of a result, finished or as they stand while it is written."""
    mesh = circle(3) if mesh is None else mesh
    writer = ResultWriter(path, mesh=mesh, metadata={"beta": 1.0})
    for k in range(2):
        writer.append(k, np.ones(mesh.n_cells) * (k + 1), {"mass": 1.0})
    if close:
        writer.close()
    else:
        writer._file.close()
    return path.read_bytes()


@pytest.mark.parametrize("close", [False, True], ids=["while running", "finished"])
def test_results_cut_anywhere_are_refused(tmp_path, close):
    path = tmp_path / "r.nc"
    content = written(path, close)
    places = range(0, len(content), 3 if not close else 997)
    for size in [*places, len(content) - 1]:
        path.write_bytes(content[:size])
        with at_most(5):
            refused(lambda: Solution.open(path), str(path))


WORDS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\x10\0\0")
"""Lengths, counts and kinds that no file has."""


def test_damaged_results_are_refused_or_hold_a_whole_mesh(tmp_path):
    """Every word of a file that is not finished in turn: neither hang, nor crash, nor an index
    that points nowhere."""
    path = tmp_path / "r.nc"
    content = written(path, close=False)
    answers = refusals = 0
    for place in range(0, len(content), 2):
        damaged = bytearray(content)
        word = WORDS[place // 2 % len(WORDS)]
        damaged[place : place + 4] = word[: len(content) - place]
        path.write_bytes(damaged)
        with at_most(5):
            found = answered_or_refused(lambda: Solution.open(path), str(path))
        if found is None:
            refusals += 1
            continue
        answers += 1
        assert len(found.times) == len(found.states)
        assert found.states.shape[1] == found.mesh.n_cells
        assert found.mesh.edge_cells.max() < 3 and found.mesh.edge_cells.min() >= 0
    assert refusals > 300 and answers > 100


def test_a_damaged_sphere_is_noticed(tmp_path):
    """Corners that moved, or belong to other cells, enclose other areas."""
    path, mesh = tmp_path / "r.nc", icosphere(2)
    content = written(path, close=False, mesh=mesh)
    for array in (mesh.vertices, mesh.edge_cells, mesh.edge_vertices):
        place = content.index(array.astype(array.dtype.newbyteorder(">")).tobytes())
        damaged = bytearray(content)
        damaged[place + 1] ^= 0x10
        path.write_bytes(damaged)
        refused(lambda: Solution.open(path), "is damaged")


def test_restart_files_damaged_anywhere_are_refused(tmp_path):
    """An npz archive carries check sums: what still opens is what was written."""
    restart = Run(tmp_path).go(until=0.2).restart
    content = restart.read_bytes()
    state = read_restart(restart).simulation["state"]
    refusals = 0
    for place in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for damaged in (content[:place], flipped):
            restart.write_bytes(damaged)
            with at_most(5):
                found = answered_or_refused(lambda: read_restart(restart), str(restart))
            refusals += found is None
            assert found is None or (found.simulation["state"] == state).all()
    assert refusals > 0.9 * 2 * len(content) / 3


def test_weights_damaged_anywhere_are_refused_or_the_same(tmp_path):
    path = tmp_path / "w.npz"
    np.savez(path, K=I, Q=2.0 * I, V=3.0 * I)
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for damaged in (content[:place], flipped):
            path.write_bytes(damaged)
            with at_most(5):
                head = answered_or_refused(lambda: read_head(path))
            assert head is None or (head.value == 3.0 * I).all()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The files of a finished run."""
    out = tmp_path_factory.mktemp("finished") / "out"
    assert main(run(out)) == 0
    return {path.name: path.read_bytes() for path in out.iterdir()}


def answer(words, capsys):
    """(exit status, the line on the error stream)."""
    capsys.readouterr()
    with at_most(30):
        status = main([str(word) for word in words])
    said = capsys.readouterr().err
    if status == 2:
        assert said.startswith("sphere-attention: ") and said.count("\n") == 1, said
    assert "Traceback" not in said
    return status, said


def test_a_damaged_case_is_refused_or_the_same_one(tmp_path, finished, capsys, monkeypatch):
    monkeypatch.setattr(run_case, "draw", lambda *parts: None)
    text = finished["case.toml"]
    for name, content in finished.items():
        (tmp_path / name).write_bytes(content)
    result = tmp_path / "result.nc"
    statuses = []
    for place in range(0, len(text), 17):
        flipped = bytearray(text)
        flipped[place] ^= 1 << place % 8
        for damaged in (text[:place], flipped):
            (tmp_path / "case.toml").write_bytes(damaged)
            status, _ = answer(["run", "--resume", tmp_path, "--quiet"], capsys)
            statuses.append(status)
            assert status in (0, 2)
            assert len(Solution.open(result).times) == 3
    assert 2 in statuses and 0 in statuses


@pytest.mark.parametrize("name", ["result.nc", "particles.nc", "restart.npz"])
def test_no_run_goes_on_from_files_cut_short(tmp_path, finished, capsys, name):
    for part in np.linspace(0.0, 1.0, 12)[:-1]:
        for other, content in finished.items():
            (tmp_path / other).write_bytes(content)
        (tmp_path / name).write_bytes(finished[name][: int(part * len(finished[name]))])
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        words = ["run", "--resume", tmp_path, "--set", "time.until=0.3", "--quiet"]
        status, said = answer(words, capsys)
        assert status == 2 and name in said
        assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert answer(["info", tmp_path / name], capsys)[0] == 2
        words = ["export", tmp_path / name, "--html", tmp_path / "page.html"]
        assert answer(words, capsys)[0] == 2
        assert not (tmp_path / "page.html").exists()


def test_files_that_are_missing(tmp_path, finished, capsys):
    for gone in ("result.nc", "particles.nc", "restart.npz", "case.toml"):
        for other, content in finished.items():
            (tmp_path / other).write_bytes(content)
        (tmp_path / gone).unlink()
        words = ["run", "--resume", tmp_path, "--set", "time.until=0.3", "--quiet"]
        status, said = answer(words, capsys)
        assert status == 2 and gone in said


# --- two runs into one folder ----------------------------------------------------------------


def test_of_two_runs_into_one_folder_one_is_refused(tmp_path):
    out = tmp_path / "out"
    script = "import sys; from sphere_attention_scripts.simulate import main; sys.exit(main())"
    words = [sys.executable, "-c", script, *run(out)]
    both = [
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path) for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[1] for process in both]
    statuses = [process.returncode for process in both]
    assert sorted(statuses) == [0, 2], said
    refusal = said[statuses.index(2)]
    assert refusal.count("\n") == 1
    assert any(text in refusal for text in ("is in use", "already holds", "taken by another"))
    assert len(Solution.open(out / "result.nc").times) == 3
    assert isinstance(Solution.open(out / "particles.nc").measures[0], Measure)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_refused_files_are_closed(tmp_path):
    path = tmp_path / "r.nc"
    for close in (False, True):
        content = written(path, close)
        for size in range(0, len(content), len(content) // 20):
            path.write_bytes(content[:size])
            answered_or_refused(lambda: Solution.open(path))
    held = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert str(path.resolve()) not in held
