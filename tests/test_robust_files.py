"""Full disks, folders that cannot be written, two runs in one: nothing saved is lost."""

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from strategies import ROOT, refused, run

from pde import Measure, Solution
from pde.pictures.vtk import export_vtk
from pde.pictures.web import export_html
from pde.results.storage import ResultWriter
from sphere_attention_scripts.simulate import main

I = np.eye(3)  # noqa: E741 - the identity

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts and changes its user")

# --- full disks ------------------------------------------------------------------------------

LIMITED = """
    import os, resource, sys, warnings
    from pathlib import Path
    from restart_runs import Run
    from pde.results.storage import read_result

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
    from pde.results.storage import ResultWriter
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
