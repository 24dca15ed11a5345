"""Sweeps: each run is the single run to the bit; nothing finished is lost or done twice."""

import csv
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import xarray

from pde import Solution
from sphere_attention_scripts import run_case as run_module
from sphere_attention_scripts import sweep_cluster, sweep_run
from sphere_attention_scripts.case_file import CaseError, find_case, read_case
from sphere_attention_scripts.simulate import main
from sphere_attention_scripts.sweep_cases import case_hash, expand
from sphere_attention_scripts.sweep_cluster import Place

CASE = "circle_kuramoto"
SETS = ["--set", "until=0.5", "--set", "save_every=0.25"]
VARY = ["--vary", "beta=0,2", "--vary", "mesh.cells=16,24"]
NAMES = [f"beta={beta}_cells={cells}" for beta in (0, 2) for cells in (16, 24)]


def sweep(out, *words, case=CASE):
    return main(["sweep", case, *words, "--out", str(out)])


def single(out, *sets):
    """The same case by `sphere-attention run`."""
    words = [word for text in sets for word in ("--set", text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "draw", lambda *parts: None)
        assert main(["run", CASE, *words, "--quiet", "--out", str(out)]) == 0
    return out


def assert_same(folder, other):
    """The same states and table."""
    assert (folder / "table.csv").read_text() == (other / "table.csv").read_text()
    for file in ("result.nc", "particles.nc"):
        first, second = Solution.open(folder / file), Solution.open(other / file)
        np.testing.assert_array_equal(first.states, second.states)
        np.testing.assert_array_equal(first.times, second.times)


def table(out):
    with open(out / "sweep.csv", encoding="utf-8", newline="") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


def touched(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """Two by two runs on two processes of this machine."""
    out = tmp_path_factory.mktemp("product")
    assert sweep(out, *VARY, *SETS, "--workers", "2", "--threads", "1", "--quiet") == 0
    return out


@pytest.fixture(scope="module")
def cluster():
    """A cluster that is there already, with its own settings."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as running:
        yield ["--scheduler", running.scheduler_address, "--quiet"]


@pytest.fixture
def no_picture(monkeypatch):
    """Drawing takes longer than the runs."""
    monkeypatch.setattr(sweep_run, "draw_sweep", lambda *parts: "")


# --- the runs of a product ---------------------------------------------------------------------


def test_each_run_is_the_single_run_to_the_bit(product, tmp_path):
    assert sorted(path.name for path in (product / "runs").iterdir()) == NAMES
    for name in NAMES:
        beta, cells = re.fullmatch(r"beta=(\d)_cells=(\d+)", name).groups()
        sets = ["time.until=0.5", "time.save_every=0.25"]
        alone = single(tmp_path / name, f"model.beta={beta}", f"mesh.cells={cells}", *sets)
        assert_same(product / "runs" / name, alone)
        case = (product / "runs" / name / "case.toml").read_text(encoding="utf-8")
        assert "\nthreads = 1\n" in case
        assert read_case(product / "runs" / name / "case.toml") == read_case(alone / "case.toml")


def test_the_table_and_the_dataset_hold_all_runs(product):
    rows = table(product)
    assert list(rows) == NAMES
    with xarray.open_dataset(product / "sweep.nc") as data:
        assert data["mass"].dims == ("beta", "cells", "time")
        np.testing.assert_array_equal(data["beta"], [0.0, 2.0])
        np.testing.assert_array_equal(data["cells"], [16, 24])
        np.testing.assert_array_equal(data["time"], [0.0, 0.25, 0.5])
        assert data["cells"].attrs["long_name"] == "mesh.cells"
        assert (data["status"] == 0).all() and data["status"].flag_meanings.startswith("finished")
        assert "density" not in data
        for beta in (0, 2):
            for cells in (16, 24):
                row = rows[f"beta={beta}_cells={cells}"]
                one = data.sel(beta=beta, cells=cells)
                end = Solution.open(product / "runs" / row["run"] / "result.nc")
                assert row["status"] == "finished" and row["message"] == ""
                assert (row["model.beta"], row["mesh.cells"]) == (str(beta), str(cells))
                np.testing.assert_array_equal(one["entropy"], end.diagnostics["entropy"])
                assert float(row["entropy"]) == end.diagnostics["entropy"][-1]
                assert int(row["steps"]) == one["steps"] >= 2 and float(row["seconds"]) > 0
    assert (product / "sweep.png").stat().st_size > 10_000


def test_the_same_command_again_runs_nothing(product, monkeypatch, no_picture):
    def none(*arguments):
        raise AssertionError("a run was started")

    monkeypatch.setattr(sweep_run, "carry_out_jobs", none)
    before = touched(product / "runs")
    assert sweep(product, *VARY, *SETS, "--quiet") == 0
    assert touched(product / "runs") == before


def test_final_densities_are_added_where_the_mesh_is_one(product, monkeypatch, no_picture):
    """From the finished runs, by the same command with --states."""
    monkeypatch.setattr(sweep_run, "carry_out_jobs", None)
    words = ["--vary", "beta=0,2", "--vary", "mesh.cells=24", *SETS, "--states", "--quiet"]
    assert sweep(product, *words) == 0
    with xarray.open_dataset(product / "sweep.nc") as data:
        assert data["density"].dims == ("beta", "cells", "mesh_edge")
        assert data["density"].attrs["mesh"] in data
        masses = data["density"] @ data["mesh_edge_area"]
        np.testing.assert_allclose(masses, 1.0, rtol=1e-13)
        end = Solution.open(product / "runs" / "beta=2_cells=24" / "result.nc")
        np.testing.assert_array_equal(data["density"].sel(beta=2, cells=24), end.states[-1])


# --- failures, on a cluster that is there already ----------------------------------------------


def test_failed_runs_are_reported_and_run_again_alone(cluster, tmp_path, capsys, no_picture):
    """One finds a file where its folder should be, one has too few cells for its order."""
    (tmp_path / "runs").mkdir()
    blocked = tmp_path / "runs" / "cells=32_order=4"
    blocked.write_text("in the way")
    words = ["--vary", "cells=12,32", "--vary", "order=4,8", *SETS, *cluster]
    assert sweep(tmp_path, *words) == 1
    said = capsys.readouterr().err
    assert re.search(r"cells=32_order=4 failed: .*(is a file|[Ee]xists|[Nn]ot a directory)", said)
    assert "cells=12_order=8 failed: " in said
    status = {name: row["status"] for name, row in table(tmp_path).items()}
    assert status == {
        "cells=12_order=4": "finished",
        "cells=12_order=8": "failed",
        "cells=32_order=4": "failed",
        "cells=32_order=8": "finished",
    }
    assert table(tmp_path)["cells=12_order=8"]["message"] in said
    with xarray.open_dataset(tmp_path / "sweep.nc") as data:
        assert np.isnan(data["mass"].sel(cells=12, order=8)).all()
        np.testing.assert_allclose(data["mass"].sel(cells=32, order=8), 1.0, rtol=1e-13)
        np.testing.assert_array_equal(data["status"], [[0, 1], [1, 0]])

    blocked.unlink()
    kept = [tmp_path / "runs" / name for name in ("cells=12_order=4", "cells=32_order=8")]
    before = [touched(folder) for folder in kept]
    assert sweep(tmp_path, *words) == 1
    assert [touched(folder) for folder in kept] == before
    status = {name: row["status"] for name, row in table(tmp_path).items()}
    assert status.pop("cells=12_order=8") == "failed" and set(status.values()) == {"finished"}


def test_a_killed_worker_fails_its_run_alone_which_then_goes_on_to_the_bit(
    cluster, tmp_path, capsys
):
    words = ["--vary", "until=0.5,8", "--set", "cells=64", "--set", "save_every=0.25", *cluster]
    folder = tmp_path / "runs" / "until=8"
    killed = []

    def kill():
        while not (folder / "restart.npz").exists():
            time.sleep(0.02)
        killed.append(json.loads((folder / "begun.json").read_text())["pid"])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert sweep(tmp_path, *words) == 1
    killer.join()
    assert "until=8 failed: the worker process that ran it died" in capsys.readouterr().err
    assert [row["status"] for row in table(tmp_path).values()] == ["finished", "failed"]
    assert not (folder / "done.json").exists()
    assert sweep(tmp_path, *words) == 0
    done = json.loads((folder / "done.json").read_text())
    assert done["resumed"] and json.loads((folder / "begun.json").read_text())["pid"] != killed[0]
    alone = single(tmp_path / "alone", "mesh.cells=64", "time.until=8", "time.save_every=0.25")
    assert_same(folder, alone)
    with xarray.open_dataset(tmp_path / "sweep.nc") as data:
        # Different times: along `save`, the shorter run filled up.
        assert data["mass"].dims == data["t"].dims == ("until", "save")
        np.testing.assert_array_equal(data["t"][0, :3], [0.0, 0.25, 0.5])
        assert np.isnan(data["t"][0, 3:]).all() and data["t"][1, -1] == 8.0


def test_new_values_and_later_ends_are_added(cluster, product, tmp_path, no_picture):
    assert sweep(tmp_path, "--vary", "beta=0", "--set", "cells=16", *SETS, *cluster) == 0
    before = touched(tmp_path / "runs" / "beta=0")
    words = ["--vary", "beta=0,2", "--set", "cells=16", *SETS]
    assert sweep(tmp_path, *words, *cluster) == 0
    assert touched(tmp_path / "runs" / "beta=0") == before
    assert_same(tmp_path / "runs" / "beta=2", product / "runs" / "beta=2_cells=16")
    longer = [*words, "--set", "until=0.75", *cluster]
    assert sweep(tmp_path, *longer) == 0
    assert json.loads((tmp_path / "runs" / "beta=0" / "done.json").read_text())["resumed"]
    assert Solution.open(tmp_path / "runs" / "beta=0" / "result.nc").times[-1] == 0.75


def test_a_scheduler_that_does_not_answer_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweep_cluster, "CONNECT_SECONDS", 0.2)
    assert sweep(tmp_path, *VARY, *SETS, "--scheduler", "tcp://127.0.0.1:9", "--quiet") == 2
    assert "no Dask scheduler answers there" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    """To all processes at once, as a terminal sends it."""
    command = [sys.executable, "-m", "sphere_attention_scripts.sweep", CASE, "--out", str(tmp_path)]
    command += ["--vary", "until=0.25,3000", "--set", "save_every=0.25", "--set", "cells=16"]
    process = subprocess.Popen(
        [*command, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "runs" / "until=3000" / "restart.npz").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "1 of 2 runs are finished; the same command goes on" in said
    assert "Traceback" not in said
    assert [row["status"] for row in table(tmp_path).values()] == ["finished", "unfinished"]
    with xarray.open_dataset(tmp_path / "sweep.nc") as data:
        np.testing.assert_array_equal(data["status"], [0, 2])


# --- what is refused before anything starts ----------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary", "betta=1,2"], "'betta' = 1; did you mean 'model.beta'"),
        (["--vary", "kind=circle"], "'kind' may stand for model.kind or mesh.kind"),
        (["--vary", "beta=1,-1"], "1 of 2 cases refused, first with model.beta=-1"),
        (["--vary", "beta=1,1.0"], "--vary gives beta=1 twice"),
        (["--vary", "beta=1", "--vary", "model.beta=2"], "--vary names model.beta twice"),
        (["--vary", "beta=1", "--set", "model.beta=2"], "model.beta is both varied and set"),
        (["--vary", "beta=1,,2"], "--vary takes key=value,value"),
        (["--vary", "beta"], "--vary takes key=value,value"),
        (["--vary", "beta=1", "--set", "beta"], "--set takes key=value"),
        (["--vary", "cells=8,16", "--states"], "--states needs the same mesh"),
        (["--vary", "beta=1", "--workers", "2", "--scheduler", "x"], "--workers is for this"),
    ],
)
def test_refusals_are_one_sentence_and_leave_no_folder(tmp_path, capsys, words, said):
    assert sweep(tmp_path / "out", *words) == 2
    message = capsys.readouterr().err
    assert message.startswith("sphere-attention: ") and message.count("\n") == 1
    assert said in message
    assert not (tmp_path / "out").exists()


def test_what_a_field_refuses_is_refused_before_the_start(tmp_path, capsys):
    words = ["--vary", "V=[0.9,0.9,-0.6],[1,1,1]", "--set", "B=[1,0,1]", "--out"]
    assert main(["sweep", "zero_temperature", *words, str(tmp_path / "out")]) == 2
    assert "invertible" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5"])
def test_numbers_of_workers_are_checked(tmp_path, count, capsys):
    with pytest.raises(SystemExit):
        sweep(tmp_path, "--vary", "beta=1", "--workers", count)
    assert f"must be a whole number >= 1, got '{count}'" in capsys.readouterr().err


def test_results_of_another_case_are_left_alone_unless_told_otherwise(tmp_path, capsys):
    folder = single(tmp_path / "runs" / "beta=1", "mesh.cells=16", "time.until=0.25")
    before = touched(folder)
    words = ["--vary", "beta=1", "--set", "cells=24", "--set", "until=0.25"]
    assert sweep(tmp_path, *words) == 2
    said = capsys.readouterr().err
    assert "1 of 1 runs find results of another case" in said and "mesh.cells was 16" in said
    assert touched(folder) == before
    assert sweep(tmp_path, *words, "--dry-run") == 0
    assert re.search(r"beta=1 +1 +refused .*mesh.cells was 16 and is 24", capsys.readouterr().out)


def test_a_dry_run_says_what_would_run_and_makes_nothing(tmp_path, capsys, product):
    assert sweep(tmp_path / "out", *VARY, *SETS, "--dry-run") == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "4 runs" and all(row.endswith("to run") for row in rows[2:])
    assert [row.split()[0] for row in rows[2:]] == NAMES
    assert not (tmp_path / "out").exists()
    assert sweep(product, *VARY, *SETS, "--dry-run") == 0
    assert all("finished" in row for row in capsys.readouterr().out.splitlines()[2:])


def test_missing_packages_are_named(tmp_path, capsys, monkeypatch):
    find = sweep_cluster.importlib.util.find_spec
    for package in ("distributed", "xarray"):
        monkeypatch.setattr(
            sweep_cluster.importlib.util,
            "find_spec",
            lambda name, missing=package: None if name == missing else find(name),
        )
        assert sweep(tmp_path / "out", "--vary", "beta=1") == 2
        said = capsys.readouterr().err
        assert package in said and 'pip install "sphere-attention[sweep]"' in said
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_two_sweeps_into_one_folder_are_refused(tmp_path, capsys):
    import fcntl

    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert sweep(tmp_path, *VARY) == 2
        assert "is in use" in capsys.readouterr().err
    finally:
        os.close(folder)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    assert sweep(tmp_path / "file", *VARY) == 2
    assert "is no folder" in capsys.readouterr().err


# --- parts -------------------------------------------------------------------------------------


def test_names_are_readable_and_unique(tmp_path):
    vary = ['title=One,one,"a/b: c"', "model.B=[1,1],[2.0,1]", "beta=1e-3,0.1"]
    runs = expand(find_case(CASE), vary).runs
    names = [run.name for run in runs]
    assert len({name.casefold() for name in names}) == 12
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9=._+-]+", name)
    assert names[4].startswith("title=one_B=1-1-") and names[4].endswith("_beta=0.001")
    # The same whatever else is varied with it.
    assert expand(find_case(CASE), ["beta=0.5,1e-3"]).runs[1].name == "beta=0.001"
    long = expand(find_case(CASE), [f"title={'x' * 300}", *vary[1:]]).runs
    assert max(len(run.name) for run in long) <= 160


def test_hashes_tell_cases_apart():
    def hashed(*overrides):
        return case_hash(read_case(find_case(CASE), overrides))

    assert hashed("model.V=[2,1]") == hashed("model.V=[2.0,1.0]") != hashed("model.V=[2,1.5]")
    assert hashed("model.beta=1") == hashed("model.beta=1.0") != hashed("model.beta=2")
    assert hashed("seed=1") != hashed("seed=2")


@pytest.mark.parametrize(
    ("asked", "runs", "workers", "threads"),
    [
        (Place(), 100, 8, 1),
        (Place(), 3, 3, 2),
        (Place(), 1, 1, 8),
        (Place(workers=2), 100, 2, 4),
        (Place(threads=4), 100, 2, 4),
        (Place(threads=20), 100, 1, 20),
        (Place(workers=16), 100, 16, 1),
        (Place(workers=3, threads=5), 100, 3, 5),
    ],
)
def test_eight_cores_are_shared_out(asked, runs, workers, threads):
    settled = asked.on_this_machine(runs, cores=8)
    assert (settled.workers, settled.threads) == (workers, threads)


def test_bad_numbers_of_cells_are_named_with_their_case(tmp_path):
    with pytest.raises(CaseError, match=r"2 of 4 cases refused, first with .*mesh.cells=2"):
        expand(find_case(CASE), ["cells=2,16", "beta=0,1"])
