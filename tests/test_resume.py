"""`sphere-attention run --resume`: to the bit the run that never stopped; others are refused."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from pde import Solution, restart
from pde.restart import read_restart
from sphere_attention_scripts import run_case as run_module
from sphere_attention_scripts.run_folder import go_the_same_way
from sphere_attention_scripts.simulate import main

# Nonlocal, cells and particles, and saves that fall between the steps.
CASE = ["circle_kuramoto", "--quiet"]
SETS = ["mesh.cells=32", "model.beta=2.0", "time.until=1.0", "time.save_every=0.25"]


def words(*sets):
    return [word for text in sets for word in ("--set", text)]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(run_module, "draw", lambda *parts: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "draw", lambda *parts: None)
        assert main(["run", *CASE, *words(*SETS), "--out", str(out)]) == 0
    return out


def assert_same(out, whole):
    """Result, table, particles, counters: everything but when it ran."""
    assert (out / "table.csv").read_text() == (whole / "table.csv").read_text()
    for file in ("result.nc", "particles.nc"):
        first, second = (Solution.open(folder / file) for folder in (out, whole))
        np.testing.assert_array_equal(first.states, second.states)
        np.testing.assert_array_equal(first.times, second.times)
        for name in first.diagnostics:
            np.testing.assert_array_equal(first.diagnostics[name], second.diagnostics[name])
    first, second = (read_restart(folder / "restart.npz") for folder in (out, whole))
    np.testing.assert_equal(first.simulation, second.simulation)
    np.testing.assert_equal(first.callbacks, second.callbacks)
    assert first.metadata["case"] == second.metadata["case"]
    assert first.callbacks["Companion"]["particles"]["steps"] > 3


KILLED = """
import os, signal, sys
import pde.results.files, pde.results.netcdf
from sphere_attention_scripts.simulate import main

wanted, calls = int(sys.argv[1]), 0

def counted(original):
    def call(*arguments):
        global calls
        calls += 1
        if calls == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)
    return call

pde.results.netcdf._write_at = counted(pde.results.netcdf._write_at)
pde.results.files.sync = counted(pde.results.files.sync)
pde.results.files.replace = counted(pde.results.files.replace)
main(sys.argv[2:])
"""


def killed(at, *command):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(at), *command],
        env={**os.environ, "NUMBA_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_killed_twice_and_resumed(tmp_path, whole):
    """In three processes: killed twice between a save and the restart file that belongs to it.

    Calls: 14 to begin both files with a record, 8 to take them up again with one, 8 for a further
    record in both, 2 for a restart file.
    """
    killed(14 + 2 + 8 + 1, "run", *CASE, *words(*SETS), "--out", str(tmp_path))
    killed(8 + 8 + 2 + 8 + 1, "run", "--resume", str(tmp_path), "--quiet")
    reached = len(Solution.open(tmp_path / "result.nc").times)
    assert reached == 3
    assert read_restart(tmp_path / "restart.npz").callbacks["Save"] == {"records": 2}
    assert main(["run", "--resume", str(tmp_path), "--quiet"]) == 0
    assert_same(tmp_path, whole)


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.75, 1.0])
def test_interrupted_and_resumed(tmp_path, whole, monkeypatch, capsys, moment):
    act = run_module.Table.act

    def interrupted(self, sim):
        if sim.t >= moment:
            raise KeyboardInterrupt
        act(self, sim)

    with monkeypatch.context() as patch:
        patch.setattr(run_module.Table, "act", interrupted)
        assert main(["run", *CASE, *words(*SETS), "--out", str(tmp_path)]) == 130
    assert f"to go on: sphere-attention run --resume {tmp_path}" in capsys.readouterr().err
    if moment == 0.0:
        assert main(["run", "--resume", str(tmp_path), "--quiet"]) == 2
        assert "holds no restart.npz: there is nothing to go on from" in capsys.readouterr().err
        return
    assert main(["run", "--resume", str(tmp_path), "--quiet"]) == 0
    assert_same(tmp_path, whole)
    case = (tmp_path / "case.toml").read_text(encoding="utf-8")
    assert "\nresumed = " in case and "\nstarted = " in case


def press_at(patch, moment):
    """Press Ctrl-C in the step that ends at the time `moment`."""
    act = run_module.Table.act

    def pressed(self, sim):
        act(self, sim)
        if sim.t == moment:
            signal.raise_signal(signal.SIGINT)

    patch.setattr(run_module.Table, "act", pressed)


@pytest.mark.parametrize("moment", [0.25, 1.0])
def test_interrupted_in_a_saving_step(tmp_path, whole, monkeypatch, capsys, moment):
    """The restart file of that very step is one to go on from, and to be interrupted again."""
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        press_at(patch, moment)
        assert main(["run", *CASE, *words(*SETS), "--out", str(tmp_path)]) == 130
    assert f"interrupted at t = {moment:g}" in capsys.readouterr().err
    assert read_restart(tmp_path / "restart.npz").simulation["t"] == moment
    if moment < 1.0:
        with monkeypatch.context() as patch:
            press_at(patch, 0.75)
            assert main(["run", "--resume", str(tmp_path)]) == 130
        said = capsys.readouterr().err
        assert "stopping after this step" in said and "interrupted at t = 0.75" in said
    assert main(["run", "--resume", str(tmp_path), "--quiet"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert_same(tmp_path, whole)


def test_an_end_in_decimals_can_be_made_longer(tmp_path):
    """Until 0.3 by tenths, then until 0.6: to the bit the run until 0.6."""
    tenths = words(*SETS, "time.save_every=0.1")
    for out, until in (("parts", "0.3"), ("whole", "0.6")):
        more = words(f"time.until={until}")
        assert main(["run", *CASE, *tenths, *more, "--out", str(tmp_path / out)]) == 0
    more = [*words("time.until=0.6"), "--quiet"]
    assert main(["run", "--resume", str(tmp_path / "parts"), *more]) == 0
    assert_same(tmp_path / "parts", tmp_path / "whole")
    times = Solution.open(tmp_path / "parts" / "result.nc").times
    assert times.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_a_finished_run_stays_as_it_is_and_can_be_made_longer(tmp_path, whole, capsys):
    short = words(*SETS, "time.until=0.5")
    assert main(["run", *CASE, *short, "--out", str(tmp_path)]) == 0
    before = Solution.open(tmp_path / "result.nc").states
    assert main(["run", "--resume", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[1:] if line] == [
        "0",
        "0.25",
        "0.5",
    ]
    assert "going on from t = 0.5" in captured.err
    np.testing.assert_array_equal(Solution.open(tmp_path / "result.nc").states, before)
    longer = words("time.until=1.0")
    assert main(["run", "--resume", str(tmp_path), *longer, "--quiet"]) == 0
    assert_same(tmp_path, whole)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--set", "model.beta=3"], "holds another case: model.beta was 2.0 and is 3.0"),
        (["concentration"], "model.V was [1.0, 1.0] and is [2.0, 1.0, 0.5]"),
        (["--set", "seed=2", "--set", "scheme.order=2"], "seed was 1 and is 2; scheme.order was 4"),
        (["--set", "time.save_every=0.5"], "time.save_every was 0.25 and is 0.5; a run may be"),
        (["--overwrite"], "--overwrite removes it"),
    ],
)
def test_another_case_is_refused_with_what_differs(whole, capsys, more, said):
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    assert main(["run", "--resume", str(whole), *more]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_another_version_is_refused_with_what_differs(whole, capsys, monkeypatch):
    versions = {**restart.versions(), "numba": "9.9"}
    monkeypatch.setattr(restart, "versions", lambda: versions)
    assert main(["run", "--resume", str(whole)]) == 2
    said = capsys.readouterr().err
    assert "was computed by another version: numba was" in said and "is 9.9" in said


def test_a_result_that_is_not_the_runs_own_is_refused(whole, tmp_path, capsys):
    for path in whole.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "result.nc").write_bytes((whole / "particles.nc").read_bytes())
    assert main(["run", "--resume", str(tmp_path), "--quiet"]) == 2
    assert "result.nc is not the file to go on with" in capsys.readouterr().err
    (tmp_path / "result.nc").unlink()
    assert main(["run", "--resume", str(tmp_path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "there is no file" in said and said.count("\n") == 1


def test_folders_without_a_run_are_refused(tmp_path, capsys):
    assert main(["run", "--resume", str(tmp_path)]) == 2
    assert "holds no case.toml: there is no run to go on with" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", "--resume", "a", "--out", "b"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_a_run_that_is_going_on_is_left_alone(whole, capsys):
    import fcntl

    folder = os.open(whole, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for how in (["--resume", str(whole)], [*CASE, "--overwrite", "--out", str(whole)]):
            assert main(["run", *how]) == 2
            assert "is in use: a run is going on in it" in capsys.readouterr().err
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("now", "t", "same"),
    [
        ([0, 1, 2, 4], 2, True),
        ([0, 1, 2, 4], 1.5, True),
        ([0, 1, 2, 4], 2.5, False),  # the step before 2.5 aimed at 3
        ([0, 2, 3], 2, False),
        ([0, 1, 3], 1, True),
        ([0, 1, 3], 1.5, False),
    ],
)
def test_longer_runs_go_the_same_way(now, t, same):
    assert go_the_same_way([0, 1, 2, 3], now, t) is same
