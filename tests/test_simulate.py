"""The command line: what it writes, what it refuses, and that nothing computed is lost."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pde import Solution, limits
from pde.results import netcdf as netcdf_module
from sphere_attention_scripts import run_case as run_module
from sphere_attention_scripts.case_file import check_case
from sphere_attention_scripts.case_setup import set_up
from sphere_attention_scripts.comparison import limit_law
from sphere_attention_scripts.simulate import main
from validation import wasserstein

ROOT = Path(__file__).parents[1]
HEAVY = ["numpy", "numba", "scipy", "matplotlib", "netCDF4", "tqdm", "pde", "meshes", "validation"]
TINY = ["--set", "mesh.frequency=4", "--set", "time.until=0.4", "--set", "time.save_every=0.1"]


def run(out, *more):
    return main(["run", *TINY, "--out", str(out), *more])


def table(out):
    with open(out / "table.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


# --- start-up --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["--help"], ["run", "--help"], ["run"], ["info", "--nonsense"], ["export", "--help"]],
)
def test_the_parser_imports_nothing_heavy(words):
    code = (
        "import sys\n"
        "from sphere_attention_scripts.simulate import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert end.code in (0, 2)\n"
        f"found = [name for name in {HEAVY} if name in sys.modules]\n"
        "assert not found, found\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_refused_case_costs_no_import_either(tmp_path):
    code = (
        "import sys\n"
        "from sphere_attention_scripts.simulate import main\n"
        "assert main(['run', '--set', 'mesh.x=1', '--out', 'none']) == 2\n"
        f"assert not [name for name in {HEAVY} if name in sys.modules]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1 and "'mesh.x' = 1" in done.stderr


def test_the_three_ways_to_call_it_are_one():
    console = Path(sys.executable).with_name("sphere-attention")
    ways = [
        [sys.executable, ROOT / "scripts" / "simulate.py"],
        [sys.executable, "-m", "sphere_attention_scripts.simulate"],
        [console],
    ]
    outputs = [
        subprocess.run([*way, "run", "--help"], capture_output=True, text=True, check=True).stdout
        for way in ways
        if way[0] is not console or console.exists()
    ]
    assert len(set(outputs)) == 1
    assert "concentration" in outputs[0]


@pytest.fixture
def no_pictures(monkeypatch):
    """Pictures take the longest and have tests of their own."""
    monkeypatch.setattr(run_module, "draw", lambda *parts: None)


# --- a run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "made" / "on the way"
    assert run(out, "--quiet") == 0
    return out


def test_a_run_writes_everything(finished):
    names = {"case.toml", "result.nc", "particles.nc", "table.csv", "restart.npz"}
    names |= {"sphere.png", "map.png", "comparison.png", "series.png"}
    assert {path.name for path in finished.iterdir()} == names
    assert min((finished / name).stat().st_size for name in names if ".png" in name) > 10_000


def test_the_table_says_what_the_result_holds(finished):
    columns, solution = table(finished), Solution.open(finished / "result.nc")
    np.testing.assert_array_equal(columns["t"], solution.times)
    np.testing.assert_allclose(columns["t"], [0.0, 0.1, 0.2, 0.3, 0.4], atol=1e-15)
    np.testing.assert_allclose(columns["mass"], columns["mass"][0], rtol=1e-13)
    assert columns["minimum"].min() >= 0.0
    for k, mu in enumerate(solution.measures):
        assert columns["mass"][k] == pytest.approx(mu.total, rel=1e-14)
        assert columns["mean_length"][k] == pytest.approx(np.linalg.norm(mu.mean()), abs=1e-14)
    np.testing.assert_array_equal(columns["entropy"], solution.diagnostics["entropy"])
    # Particles start on the cells: no difference then, later that of a coarse mesh.
    assert columns["first_moments"][0] == columns["second_moments"][0] == 0.0
    assert 0.0 < columns["second_moments"][-1] < 0.05


def test_the_distance_in_the_table_is_the_transport_distance(finished):
    """Against the linear programme: two atoms of masses Pi_# rho0, dim E = 1."""
    columns, solution = table(finished), Solution.open(finished / "result.nc")
    start, end = solution.measures[0], solution.measures[-1]
    target = start.push(limits.Projection([0.0, 1.0, 0.0]))
    for k, mu in ((0, start), (-1, end)):
        exact = wasserstein.distance(mu, target, p=2, cost="chordal")
        assert columns["w2_to_limit"][k] == pytest.approx(exact.value, rel=1e-7)


def test_the_case_as_run_runs_again_to_the_bit(finished, tmp_path, no_pictures):
    text = (finished / "case.toml").read_text(encoding="utf-8")
    assert "[provenance]" in text and "numba = " in text and "seed = 1" in text
    assert main(["run", str(finished / "case.toml"), "--out", str(tmp_path), "--quiet"]) == 0
    again, first = Solution.open(tmp_path / "result.nc"), Solution.open(finished / "result.nc")
    np.testing.assert_array_equal(again.states, first.states)
    assert again.metadata["case"] == first.metadata["case"]


def test_info_says_what_is_inside(finished, capsys):
    assert main(["info", str(finished / "result.nc")]) == 0
    said = capsys.readouterr().out
    for words in ("162 cells", "t = 0 ... 0.4", "case.model.beta: 50.0", "entropy", "NetCDF"):
        assert words in said


def test_quiet_says_nothing_and_otherwise_the_table_is_shown(tmp_path, capsys):
    assert run(tmp_path / "a", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert run(tmp_path / "b") == 0
    captured = capsys.readouterr()
    lines = captured.out.strip().splitlines()
    assert lines[0].split()[:3] == ["t", "mass", "minimum"]
    times = [line.split()[0] for line in lines[1:] if line.strip()]
    assert times == ["0", "0.1", "0.2", "0.3", "0.4"]
    assert "162 cells" in captured.err and "left" in captured.err and "sphere.png" in captured.err


@pytest.mark.parametrize(
    ("more", "missing", "present", "note"),
    [
        (["compare.particles=false"], "first_moments", "w2_to_limit", "leaves them out"),
        (["model.V=[[1,2,0],[0,1,0],[0,0,1]]"], "w2_to_limit", "first_moments", "not symmetric"),
        (["model.V=[1,1,1]", "model.B=[1,1,1]"], "w2_to_limit", "first_moments", "whole space"),
        (["model.B=[2,1,1]"], "w2_to_limit_at_least", "w2_to_limit", ""),
        (["model.V=[2,1,1]", "model.B=[1,2,1]"], "w2_to_limit", "w2_to_limit_at_least", ""),
    ],
)
def test_columns_that_have_no_meaning_are_left_out_and_it_is_said(
    tmp_path, capsys, no_pictures, more, missing, present, note
):
    sets = [word for text in more for word in ("--set", text)]
    assert run(tmp_path, *sets, "--set", "time.until=0.1") == 0
    columns = table(tmp_path)
    assert missing not in columns and present in columns
    assert note in capsys.readouterr().err


def test_every_kind_of_law_and_mesh_runs(tmp_path, no_pictures):
    laws = {
        "uniform": [],
        "von_mises_fisher": ["mean=[0,0,2]", "kappa=3"],
        "spot": ["center=[1,1,1]", "radius=0.3"],
        "angular_central_gaussian": ["Lambda=[1,2,3]"],
        "bumps": ["centers=[[1,0,0],[0,3,0]]", "widths=[0.3,0.5]"],
    }
    for law, keys in laws.items():
        sets = [f"initial.law={law}", *(f"initial.{key}" for key in keys), "time.until=0.02"]
        words = [word for text in sets for word in ("--set", text)]
        assert run(tmp_path / law, *words, "--quiet") == 0, law


def test_the_circle_runs_and_is_drawn(tmp_path):
    words = ["--set", "mesh.cells=16", "--set", "time.until=0.1", "--quiet", "--out", str(tmp_path)]
    assert main(["run", "circle_kuramoto", *words]) == 0
    names = {"case.toml", "result.nc", "particles.nc", "table.csv", "restart.npz"}
    names |= {"density.png", "series.png"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_queries_and_keys_stand_for_their_product():
    """Q^T K in place of B: the same right-hand side."""
    tables = {
        "model": {"kind": "attention", "V": [2, 1, 0.5], "beta": 5.0, "tolerance": 0.0},
        "mesh": {"kind": "icosphere", "frequency": 3},
        "initial": {"law": "random_band_limited"},
        "time": {"until": 1.0},
    }
    Q, K = np.random.default_rng(5).standard_normal((2, 2, 3))
    by_factors = {**tables["model"], "Q": Q.tolist(), "K": K.tolist()}
    by_product = {**tables["model"], "B": (Q.T @ K).tolist()}
    rates = []
    for model in (by_factors, by_product):
        grid = set_up(check_case({**tables, "model": model})).grid
        rates.append(grid.system.rhs(0.0, grid.state))
    np.testing.assert_allclose(rates[0], rates[1], atol=1e-14)


def test_a_lower_bound_is_labelled_as_one_and_is_one():
    """dim E = 2: the distance to E's sphere against the exact distance to Pi_# rho0."""
    setup = set_up(
        check_case(
            {
                "model": {"kind": "zero_temperature", "V": [1, 1, 0.2], "B": [1, 1, 1]},
                "mesh": {"kind": "icosphere", "frequency": 3},
                "initial": {"law": "random_band_limited"},
                "time": {"until": 1.0},
            }
        )
    )
    start = setup.grid.system.measure(setup.grid.state)
    limit, why = limit_law(setup.field, start)
    assert why == "" and limit.column == "w2_to_limit_at_least"
    setup.grid.run(until=0.5)
    mu = setup.grid.system.measure(setup.grid.state)
    target = start.push(limits.Projection(limit.E))
    exact = wasserstein.distance(mu, target, p=2, cost="chordal").value
    assert 0.9 * exact < limit.distance(mu) <= exact * (1 + 1e-9)


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "nonsense"], "there is no case 'nonsense'"),
        (["run", "--set", "mesh.frequency=x"], "'mesh.frequency' must be a whole number"),
        (["run", "--set", "model.B=[1,0,1]", "--set", "model.kind=zero_temperature"], "invertible"),
    ],
)
def test_refusals_are_one_sentence_and_leave_no_folder(tmp_path, capsys, words, said):
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("sphere-attention: ") and message.count("\n") == 1
    assert said in message
    assert not (tmp_path / "out").exists()


def test_a_result_is_not_overwritten_unasked(tmp_path, capsys, no_pictures):
    (tmp_path / "table.csv").write_text("mine")
    assert run(tmp_path) == 2
    assert "already holds a result (table.csv)" in capsys.readouterr().err
    assert (tmp_path / "table.csv").read_text() == "mine"
    (tmp_path / "notes.txt").write_text("kept")
    assert run(tmp_path, "--overwrite", "--quiet") == 0
    assert "mass" in table(tmp_path) and (tmp_path / "notes.txt").read_text() == "kept"
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file") == 2
    assert "is a file; name a folder" in capsys.readouterr().err


def test_a_folder_taken_at_the_last_moment_is_refused(tmp_path, capsys, monkeypatch):
    """Two runs at once: both find the folder free, one of them creates case.toml first."""
    monkeypatch.setattr(run_module, "refuse_taken", lambda out, overwrite: None)
    (tmp_path / "case.toml").write_text("the other run's")
    assert run(tmp_path) == 2
    assert "was taken by another run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["case.toml"]


def test_info_of_what_is_no_result(tmp_path, capsys):
    assert main(["info", str(tmp_path / "none.nc")]) == 2
    (tmp_path / "x.nc").write_text("x")
    assert main(["info", str(tmp_path / "x.nc")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "there is no file" in first and "not a NetCDF file" in second


# --- what is interrupted ---------------------------------------------------------------------


def test_an_interruption_keeps_what_was_computed(tmp_path, capsys, monkeypatch):
    act = run_module.Table.act

    def interrupted(self, sim):
        if sim.t > 0.25:
            raise KeyboardInterrupt
        act(self, sim)

    monkeypatch.setattr(run_module.Table, "act", interrupted)
    assert run(tmp_path) == 130
    assert "interrupted at t = 0.3; the 4 states saved until then" in capsys.readouterr().err
    np.testing.assert_allclose(Solution.open(tmp_path / "result.nc").times, [0, 0.1, 0.2, 0.3])
    assert len(table(tmp_path)["t"]) == 3


def test_a_full_disk_keeps_what_was_written(tmp_path, capsys, monkeypatch):
    write_at, records = netcdf_module._write_at, []

    def filling_up(file, offset, data):
        records.append(len(data) > 4)
        if sum(records) > 3:  # two saves of cells, one of particles
            raise OSError(28, "No space left on device")
        write_at(file, offset, data)

    monkeypatch.setattr(netcdf_module, "_write_at", filling_up)
    assert run(tmp_path, "--quiet") == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said and "the 2 states saved until then" in said
    assert len(Solution.open(tmp_path / "result.nc").times) == 2


def test_ctrl_c_in_a_real_run(tmp_path):
    sets = ["mesh.frequency=4", "time.until=1000", "time.save_every=0.01"]
    words = [word for text in sets for word in ("--set", text)]
    command = [sys.executable, "-m", "sphere_attention_scripts.simulate", "run", *words]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_NUM_THREADS": "1"},
    )
    shown = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert shown[0].split()[0] == "t" and "states saved until then are in" in said
    assert "Traceback" not in said
    solution = Solution.open(tmp_path / "result.nc")
    assert len(solution.times) >= 3
    np.testing.assert_allclose(solution.diagnostics["mass"], 1.0, rtol=1e-13)


@pytest.mark.parametrize("more", [[], ["--set", "model.diffusion=0.1", "--set", "scheme.order=4"]])
def test_implicit_steps_without_what_they_need_are_refused_before_the_run(tmp_path, capsys, more):
    assert run(tmp_path / "out", "--set", "scheme.stepper=implicit", *more) == 2
    said = capsys.readouterr().err
    assert said.count("\n") <= 2 and "order 1 or 2 with diffusion > 0" in said
    assert not (tmp_path / "out" / "result.nc").exists()
