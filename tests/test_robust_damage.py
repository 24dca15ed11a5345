"""Files cut short and damaged: one sentence, or what was written; no hang, nothing worse."""

import os
from pathlib import Path

import numpy as np
import pytest
from restart_runs import Run
from strategies import answered_or_refused, at_most, refused, run

from meshes import circle, icosphere
from pde import Solution
from pde.fields.weights import read_head
from pde.restart import read_restart
from pde.results.storage import ResultWriter
from sphere_attention_scripts import run_case
from sphere_attention_scripts.simulate import main

I = np.eye(3)  # noqa: E741 - the identity


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
