"""Restarts: bit for bit as if never stopped, whenever it was killed; other runs are refused."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from restart_runs import SAVES, Pendulums, Run

from meshes import circle, icosphere
from pde import (
    Equation,
    FiniteVolume,
    ParticleSystem,
    PrescribedVelocity,
    SelfAttention,
    Simulation,
    ZeroTemperatureAttention,
    initial,
    restart,
)
from pde.callbacks import AtTimes, Callback, Either, Every, EverySeconds, EverySteps, Save
from pde.field import Field
from pde.fields.one_body import Drift
from pde.fields.time_dependent import TimeDependent
from pde.restart import Checkpoint, RestartError, read_restart
from pde.results import netcdf
from pde.results.storage import read_result
from pde.tokens.normalisation import NormalisedTokens


class Stop(Callback):
    """Ctrl-C after so many steps."""

    def notify(self, sim):
        if self.schedule.n == sim.steps:
            raise KeyboardInterrupt


def stopped(folder, steps, checkpoints=None, resume=False):
    """A run interrupted after `steps` steps."""
    run = Run(folder, checkpoints)
    run.callbacks.append(Stop(EverySteps(steps)))
    with pytest.raises(KeyboardInterrupt):
        run.go(resume=resume)
    return run


@pytest.fixture
def whole(tmp_path):
    (tmp_path / "whole").mkdir()
    return Run(tmp_path / "whole").go().everything()


def test_a_run_in_pieces_is_the_whole_one_to_the_bit(tmp_path, whole):
    assert whole["steps"] > 20 and whole["limited_by"]["error"] > 5 and whole["rejected"]
    stopped(tmp_path, 7)
    stopped(tmp_path, whole["steps"] - 4, resume=True)
    assert Run(tmp_path).go(resume=True).everything() == whole


@pytest.mark.parametrize("checkpoints", [EverySteps(1), EverySteps(4), Every(0.3)])
def test_restart_points_between_the_saves(tmp_path, checkpoints):
    """Whatever the schedule: records later than the restart point are written again."""
    (tmp_path / "whole").mkdir()
    whole = Run(tmp_path / "whole", checkpoints).go().everything()
    for steps in range(2, whole["steps"], 5):
        stopped(tmp_path, steps, checkpoints)
        assert Run(tmp_path, checkpoints).go(resume=True).everything() == whole


def test_checkpoints_without_landing_change_nothing(tmp_path, whole):
    (tmp_path / "more").mkdir()
    schedule = Either(AtTimes(SAVES), EverySeconds(1e-6))
    assert Run(tmp_path / "more", schedule).go().everything() == whole


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_call(tmp_path):
    """SIGKILL before and after each write, sync and replace, also of the continuation."""
    script = Path(__file__).with_name("restart_runs.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    first, second, anew = map(int, done.stdout.split())
    assert first > 40 and second > 10 and anew < first // 3


SYSTEM_CALLS = ["write", "pwrite64", "writev", "fsync", "fdatasync", "rename", "ftruncate"]


def killed_by_the_system(folder, call, count):
    """Whether a run in `folder` was killed at its `count`-th system call of that name."""
    files = [folder / name for name in ("run.nc", "run.nc.part", "restart.npz", "restart.npz.part")]
    inject = f"inject={call}:signal=KILL:when={count}"
    traced = [word for path in [folder, *files] for word in ("-P", str(path))]
    trace = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject, *traced]
    script = [sys.executable, "-W", "ignore", Path(__file__).with_name("restart_runs.py")]
    done = subprocess.run(
        [*trace, *script, folder, "--once"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode in (0, -9, 137), done.stderr
    return done.returncode != 0


@pytest.mark.full
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("call", SYSTEM_CALLS)
def test_killed_at_every_system_call(tmp_path, whole, call):
    """Also inside the libraries that write headers and compress: what is there stays whole."""
    count = 1
    while True:
        folder = tmp_path / str(count)
        folder.mkdir()
        if not killed_by_the_system(folder, call, count):
            break
        if (folder / "run.nc").exists():
            states = read_result(folder / "run.nc").states.tolist()
            assert states == whole["states"][: len(states)]
        resume = (folder / "restart.npz").exists()
        assert Run(folder).go(resume=resume).everything() == whole, count
        count += 1
    wanted = {"write": 40, "pwrite64": 10, "fsync": 15, "rename": 5, "ftruncate": 2}
    assert count > wanted.get(call, 0)


def test_records_later_than_the_restart_point_are_dropped(tmp_path):
    run = Run(tmp_path)
    run.go(until=0.5)
    point = run.restart.read_bytes()
    run = Run(tmp_path).go()
    assert len(read_result(tmp_path / "run.nc").times) == 4
    run.restart.write_bytes(point)
    stopped(tmp_path, run.sim.steps - 3, resume=True)
    np.testing.assert_array_equal(read_result(tmp_path / "run.nc").times, SAVES[:3])


def test_a_longer_run_goes_on_from_a_finished_one(tmp_path, whole):
    """The step lands on 0.5 in both, so the rest is the same."""
    Run(tmp_path).go(until=0.5)
    assert Run(tmp_path).go(until=1.0, resume=True).everything() == whole


@pytest.mark.parametrize("close", [False, True], ids=["killed", "closed"])
def test_the_file_is_reopened_through_a_whole_one(tmp_path, monkeypatch, close):
    """What goes wrong while it is written leaves the one that was there."""
    pytest.importorskip("netCDF4")
    with monkeypatch.context() as patch:
        if not close:
            patch.setattr(netcdf, "compress", lambda path: False)
        Run(tmp_path).go()
    before = (tmp_path / "run.nc").read_bytes()
    assert before[:4] == (b"\x89HDF" if close else b"CDF\x02")

    def full(file, offset, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(netcdf, "_write_at", full)
        with pytest.raises(OSError, match="No space"):
            Run(tmp_path).go(resume=True)
    assert (tmp_path / "run.nc").read_bytes() == before


def test_cells_with_a_limiter_go_on_to_the_bit(tmp_path):
    """Circle, order 4, two fields: the kernels are deterministic from the same state."""

    def built():
        field = SelfAttention([[2, 0], [0, 1]], [[1, 0.5], [0, 1]], beta=5.0)
        mesh = circle(96)
        rho = mesh.average(initial.von_mises_fisher([0.6, 0.8], 4.0))
        system = FiniteVolume(mesh, Equation(field), order=4)
        return Simulation(system, np.column_stack([rho, rho**2]))

    def callbacks(folder):
        return [
            Save(AtTimes([0.0, 0.1, 0.3]), folder / "r.nc"),
            Checkpoint(EverySteps(2), folder / "c.npz"),
        ]

    (tmp_path / "whole").mkdir()
    whole = built()
    whole.run(0.3, [], callbacks(tmp_path / "whole"))
    assert whole.steps > 6  # the restart point lies between the saves
    with pytest.raises(KeyboardInterrupt):
        built().run(0.3, [], [*callbacks(tmp_path), Stop(EverySteps(5))])
    parts = built()
    solution = parts.run(0.3, callbacks=callbacks(tmp_path), resume=tmp_path / "c.npz")
    np.testing.assert_array_equal(parts.state, whole.state)
    np.testing.assert_array_equal(solution.states[-1], whole.state)
    assert parts.snapshot()["steps"] == whole.steps
    first, second = (read_result(f / "r.nc") for f in (tmp_path, tmp_path / "whole"))
    np.testing.assert_array_equal(first.states, second.states)
    np.testing.assert_array_equal(first.times, [0.0, 0.1, 0.3])


# --- what is refused -------------------------------------------------------------------------


def test_another_simulation_is_refused_with_what_differs(tmp_path):
    run = Run(tmp_path).go(until=0.5)
    other = Simulation(Pendulums(), np.zeros((4, 2)), stepper="ssprk3", tolerance=1e-4)
    with pytest.raises(RestartError) as caught:
        other.run(1.0, resume=run.restart)
    for words in (
        "stepper was ssprk54 and is ssprk3",
        "tolerance was 3e-07 and is 0.0001",
        "shape of the state was [5, 2] and is [4, 2]",
    ):
        assert words in str(caught.value)
    with pytest.raises(RestartError, match=r"right-hand side at t = 0\.5 differs"):
        Run(tmp_path, damping=0.300001).go(resume=True)
    missing = Run(tmp_path)
    missing.callbacks = missing.callbacks[:2]
    with pytest.raises(RestartError, match="had a callback Monitor that is missing now"):
        missing.go(resume=True)
    assert len(read_result(tmp_path / "run.nc").times) == 3


def resumed(tmp_path, then, now, until=1.0):
    """Checkpoint at the middle of a run of `then`, resumed as `now`."""
    path = tmp_path / "c.npz"
    then().run(0.5 * until, [], [Checkpoint(AtTimes([0.5 * until]), path)])
    sim = now()
    sim.run(until, [], resume=path)
    return sim


RING, TURN = circle(24), np.array([[0.0, -1.0], [1.0, 0.0]])
POINTS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])


def cells(field=None, diffusion=0.0, mesh=RING, **options):
    system = FiniteVolume(mesh, Equation(field or Drift(TURN), diffusion), order=3, **options)
    return Simulation(system, initial.von_mises_fisher([1.0, 0.0], 2.0))


def cloud(weights=None, seed=0, **options):
    equation = Equation(Drift(TURN), **options)
    return Simulation(ParticleSystem(equation, weights, seed), POINTS)


def still(relax):
    """Nothing moves, and nothing tells the meshes apart but where their cells are."""
    equation = Equation(ZeroTemperatureAttention(np.eye(3), np.eye(3)))
    return Simulation(FiniteVolume(icosphere(4, relax=relax), equation), np.ones(162))


def late(scale, when):
    """A rotation that is another one from the time `when` on."""
    return PrescribedVelocity(lambda x, t: (scale if t > when else 1.0) * (x @ TURN.T))


def in_time(matrix_at):
    return TimeDependent(lambda t: Drift(matrix_at(t)))


def pulse(t):
    return np.exp(-(((t - 0.9) / 1e-4) ** 2)) * TURN


def other_pulse(t):
    return np.exp(-(((t - 0.8) / 1e-4) ** 2)) * TURN


TABLE = {"rate": 1.0}


class Own(Field):
    """A field that counts, and keeps what it found."""

    def __init__(self, rate=1.0):
        self.rate, self.calls, self.cache = rate, 0, {}

    def velocity(self, x, mu=None, t=0.0):
        self.calls += 1
        self.cache[t] = self.rate if t > 0.99 else 1.0
        return self.cache[t] * (x @ TURN.T)


TOKENS = SelfAttention(np.eye(2), np.eye(2), 1.0)

OTHERS = {
    "limiter": (lambda: cells(), lambda: cells(limiter=None), "system.limiter was 'positivity'"),
    "velocity_at": (
        lambda: cells(velocity_at="edges"),
        lambda: cells(velocity_at="centroids"),
        "system.velocity_at was 'edges' and is 'centroids'",
    ),
    "weights": (
        lambda: cloud([1.0, 2.0, 3.0]),
        lambda: cloud([1.0, 2.0, 3.00001]),
        "system.weights is another array",
    ),
    "equal weights": (lambda: cloud(), lambda: cloud([1.0, 1.0, 1.0]), "system.weights is another"),
    "seed": (lambda: cloud(diffusion=0.1), lambda: cloud(seed=1, diffusion=0.1), "seed"),
    "later": (
        lambda: cells(late(1.0, 0.7)),
        lambda: cells(late(2.0, 0.7)),
        "the field at later times differs",
    ),
    "later than the end": (
        lambda: cells(late(1.0, 1.2)),
        lambda: cells(late(2.0, 1.2)),
        "f.scale was 1.0 and is 2.0",
    ),
    "between all probes": (
        lambda: cells(in_time(pulse)),
        lambda: cells(in_time(other_pulse)),
        "field_at.matrix_at.code was",
    ),
    "a diffusion": (
        lambda: cells(diffusion=lambda x, mu, t: np.full(len(x), 0.1 if t < 0.8 else 0.2)),
        lambda: cells(diffusion=lambda x, mu, t: np.full(len(x), 0.1)),
        "the field at later times differs",
    ),
    "a matrix within": (
        lambda: cells(late(1.0, 1.2) + 0.0 * Drift(np.eye(2))),
        lambda: cells(late(1.0, 1.2) + 0.0 * Drift(2.0 * np.eye(2))),
        "system.equation.field.terms.1.field.A is another array",
    ),
    "a field of one's own": (
        lambda: cells(Own()),
        lambda: cells(Own(rate=2.0)),
        "system.equation.field.rate was 1.0 and is 2.0",
    ),
    "a schedule of lengths": (
        lambda: Simulation(NormalisedTokens(TOKENS, "ngpt", alpha=lambda t: 1.0), POINTS),
        lambda: Simulation(
            NormalisedTokens(TOKENS, "ngpt", alpha=lambda t: 2.0 if t > 0.9 else 1.0), POINTS
        ),
        "system.alpha.code was",
    ),
    "mix_ln": (
        lambda: Simulation(NormalisedTokens(TOKENS, "mix_ln", tau=0.8), POINTS),
        lambda: Simulation(NormalisedTokens(TOKENS, "mix_ln", tau=0.9), POINTS),
        "system.tau was 0.8 and is 0.9",
    ),
    "a mesh": (lambda: still(relax=20), lambda: still(relax=21), "system.mesh.centers is another"),
    "a term": (
        lambda: cells(Drift(TURN) + Drift(TURN) + 0.0 * Drift(TURN)),
        lambda: cells(Drift(TURN) + Drift(TURN)),
        "system.equation.field.terms.length was 3 and is 2",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_changes_the_run_is_refused(tmp_path, name):
    """Also where it makes no difference at the restart point, but later."""
    then, now, words = OTHERS[name]
    with pytest.raises(RestartError, match=r"c\.npz cannot be continued: ") as caught:
        resumed(tmp_path, then, now)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_built_again_is_accepted(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resumed(tmp_path, OTHERS[name][0], OTHERS[name][0]).t == 1.0


def test_a_value_that_a_function_finds_outside_is_its_own(tmp_path, monkeypatch):
    """A global of the script, used by a function that a function of the field calls."""

    def build():
        return cells(in_time(lambda t: outside(t) * TURN))

    def change():
        monkeypatch.setitem(TABLE, "rate", 2.0)
        return build()

    with pytest.raises(RestartError, match=r"outside\.TABLE\.rate was 1\.0 and is 2\.0"):
        resumed(tmp_path, build, change)


def outside(t):
    return TABLE["rate"] if t > 50.0 else 1.0


def test_a_field_that_ends_with_the_run(tmp_path):
    """It is not defined later, and need not be."""

    def matrix_at(t):
        if t > 1.0:
            raise ValueError("t must be <= 1")
        return TURN

    assert resumed(tmp_path, lambda: cells(in_time(matrix_at)), lambda: cells(in_time(matrix_at))).t


def test_parameters_that_round_differently_are_told(tmp_path):
    """Weights computed on another machine, say; at the 16th digit the run is the same one."""
    weights = np.array([1.0, 2.0, 3.0]) / 7.0
    with pytest.warns(UserWarning, match="rounds differently"):
        resumed(tmp_path, lambda: cloud(weights), lambda: cloud(np.nextafter(weights, 1.0)))


def test_another_version_is_refused_with_what_differs(tmp_path, monkeypatch):
    Run(tmp_path).go(until=0.5)
    monkeypatch.setattr(restart, "versions", lambda: {**found, "numpy": "99.0"})
    found = read_restart(tmp_path / "restart.npz").versions
    assert {"python", "numpy", "numba", "scipy", "sphere-attention"} < set(found)
    with pytest.raises(RestartError, match=rf"versions\.numpy was {found['numpy']} and is 99\.0"):
        Run(tmp_path).go(resume=True)


def test_a_change_of_the_code_is_a_change_of_version():
    code = restart.versions()["code of pde and meshes"]
    assert len(code) == 12 and int(code, 16) >= 0


def test_a_machine_that_rounds_differently_is_told(tmp_path):
    run = Run(tmp_path).go(until=0.5)
    point = run.restart.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Run(tmp_path).go(resume=True)
    run.restart.write_bytes(point)
    with pytest.warns(UserWarning, match="rounds differently"):
        Run(tmp_path, damping=0.3 * (1 + 1e-15)).go(resume=True)


@pytest.mark.parametrize("place", ["cut", "changed", "other", "text"])
def test_damaged_restart_files_are_refused_in_one_sentence(tmp_path, place):
    run = Run(tmp_path).go(until=0.5)
    content = bytearray(run.restart.read_bytes())
    if place == "cut":
        content = content[: len(content) // 2]
    elif place == "changed":
        content[len(content) // 3] ^= 0x10
    elif place == "text":
        content = bytearray(b"hello")
    run.restart.write_bytes(content)
    if place == "other":
        np.savez(run.restart, x=np.zeros(3))
    with pytest.raises(RestartError, match=r"restart\.npz is damaged or no restart file") as caught:
        Run(tmp_path).go(resume=True)
    assert "\n" not in str(caught.value)
    run.restart.unlink()
    with pytest.raises(FileNotFoundError, match="no restart file"):
        Run(tmp_path).go(resume=True)


def test_other_layouts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(restart, "FORMAT", 2)
    run = Run(tmp_path).go(until=0.2)
    monkeypatch.undo()
    with pytest.raises(RestartError, match="is of layout 2, this version writes and reads 1"):
        read_restart(run.restart)


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    class Odd(Callback):
        def act(self, sim):
            pass

        def snapshot(self):
            return {"function": print}

    run = Run(tmp_path)
    run.callbacks.append(Odd())
    with pytest.raises(TypeError, match="numbers, text, arrays, lists and dicts, got builtin"):
        run.go()
    assert not run.restart.exists()


def test_a_result_that_is_not_the_runs_own_is_refused(tmp_path):
    run = Run(tmp_path).go()
    Run(tmp_path).sim.run(0.1, callbacks=[Save(AtTimes([0.0]), tmp_path / "run.nc")])
    with pytest.raises(ValueError, match=r"run\.nc is not the file to go on with"):
        Run(tmp_path).go(resume=True)
    assert run.restart.exists()


def test_values_survive_to_the_bit(tmp_path):
    odd = {"a": [0.1, np.nan, -np.inf, 2**100, None, True], "b": {"x": np.arange(3)}, "c": (1,)}
    sim = Simulation(Pendulums(), np.zeros((1, 2)))
    sim.run(0.1, callbacks=[Checkpoint(AtTimes([0.1]), tmp_path / "c.npz", odd)])
    read = read_restart(tmp_path / "c.npz").metadata
    np.testing.assert_equal(read, {**odd, "c": [1]})
    assert read["b"]["x"].dtype == np.arange(3).dtype
