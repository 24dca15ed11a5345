"""`sphere-attention export`: every form from one result, and one sentence where it cannot be."""

import numpy as np
import pytest

from meshes import icosphere
from pde import Solution
from sphere_attention_scripts.case_file import case_tables, check_case
from sphere_attention_scripts.simulate import main

CASE = {
    "title": "From a <case>",
    "model": {"kind": "attention", "V": [2.0, 1.0, 0.5], "B": [1.0, 4.0, 1.0], "beta": 5.0},
    "mesh": {"kind": "icosphere", "frequency": 3},
    "initial": {"law": "uniform"},
    "time": {"until": 1.0},
}


@pytest.fixture
def result(tmp_path):
    mesh = icosphere(3)
    metadata = {"title": CASE["title"], "case": case_tables(check_case(CASE))}
    states = np.random.default_rng(0).random((2, mesh.n_cells))
    Solution([0.0, 1.0], states, mesh=mesh, metadata=metadata).save(tmp_path / "r.nc")
    return tmp_path / "r.nc"


def test_every_form(result, capsys):
    pytest.importorskip("meshio")
    paths = {name: result.with_name(f"a.{name}") for name in ("pvd", "html", "gif")}
    words = ["--vtk", paths["pvd"], "--html", paths["html"], "--animation", paths["gif"]]
    assert main(["export", str(result), *map(str, words), "--fps", "4"]) == 0
    assert capsys.readouterr().out == f"wrote {', '.join(map(str, paths.values()))}\n"
    assert min(path.stat().st_size for path in paths.values()) > 100
    page = paths["html"].read_text(encoding="utf-8")
    # The title of the case, its limit space E = e2 and its terminal space F = e1.
    assert '"title": "From a \\u003ccase>"' in page
    assert '{"label": "E", "vectors": [[' in page and '{"label": "F", "vectors": [[' in page


def test_particles_and_results_without_a_case(tmp_path):
    Solution([0.0, 1.0], [np.eye(3), -np.eye(3)]).save(tmp_path / "p.nc")
    assert main(["export", str(tmp_path / "p.nc"), "--html", str(tmp_path / "p.html")]) == 0
    assert '"marks": []' in (tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "export needs at least one of --vtk, --html, --animation"),
        (["--html", "none/x.html"], "none/x.html lies in a folder that does not exist"),
        (["--vtk", "x.vtk"], "path must end in .vtu (one state) or .pvd"),
        (["--animation", "x.avi"], "path must end in .gif or .mp4, got x.avi"),
        (["--animation", "x.gif", "--fps", "0"], "frames_per_second must be > 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(result, capsys, monkeypatch, words, said):
    monkeypatch.chdir(result.parent)
    assert main(["export", str(result), *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1
    assert [path.name for path in result.parent.iterdir()] == ["r.nc"]


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert main(["export", str(tmp_path / "x.nc"), "--html", str(tmp_path / "x.html")]) == 2
    assert "there is no file" in capsys.readouterr().err
