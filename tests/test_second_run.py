"""A run in pieces, in one process: files and lists go on, and nothing that was saved is lost."""

import sys

import numpy as np
import pytest
from restart_runs import Dice, Pendulums, Run

from meshes import circle, icosphere
from pde import Equation, ParticleSystem, Simulation, Solution
from pde import callbacks as module
from pde.callbacks import AtTimes, Callback, Every, EverySteps, Monitor, Record, Save, SteadyState
from pde.fields.one_body import Drift
from pde.restart import Checkpoint
from pde.results import netcdf, storage
from pde.results.storage import ResultWriter, read_result
from sphere_attention_scripts.run_callbacks import Companion, Table

START = np.linspace(-2.0, 2.0, 10).reshape(5, 2)


def pendulums(t=0.0):
    return Simulation(Pendulums(), START, t=t)


def observers(folder):
    total = lambda t, state: state.sum()  # noqa: E731
    return {
        "save": Save(Every(0.1), folder / "run.nc"),
        "monitor": Monitor(EverySteps(1), function=total),
        "record": Record(Every(0.1)),
        "dice": Dice(),
        "checkpoint": Checkpoint(Every(0.1), folder / "restart.npz"),
    }


def found(folder, parts):
    stored = read_result(folder / "run.nc")
    return [
        stored.times.tolist(),
        stored.states.tolist(),
        parts["monitor"].times,
        parts["monitor"].values,
        parts["record"].times,
        parts["dice"].drawn,
    ]


@pytest.mark.parametrize("ends", [[0.5, 1.0], [0.1 + 0.2, 0.7, 0.7, 1.0], [0.0, 1.0]])
def test_a_run_in_pieces_leaves_what_the_whole_one_does(tmp_path, ends):
    """To the bit, and each state once: also where two pieces meet."""
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = observers(tmp_path / "whole")
    pendulums().run(1.0, callbacks=list(whole.values()))
    parts, sim = observers(tmp_path / "parts"), pendulums()
    for until in ends:
        sim.run(until, callbacks=list(parts.values()))
    then, now = found(tmp_path / "whole", whole), found(tmp_path / "parts", parts)
    assert then[0] == [k / 10 for k in range(11)]
    if ends[0] == 0.1 + 0.2:  # which is stored as it was given, and a state of then is another one
        for first, second in zip(then, now, strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)
    else:
        assert now == then
    # And the restart file counts the records of all pieces.
    again = pendulums()
    resumed = observers(tmp_path / "parts")
    again.run(1.2, callbacks=list(resumed.values()), resume=tmp_path / "parts" / "restart.npz")
    assert read_result(tmp_path / "parts" / "run.nc").times.tolist()[-3:] == [1.0, 1.1, 1.2]


def test_a_new_save_of_the_same_simulation_appends(tmp_path):
    sim, path = pendulums(), tmp_path / "run.nc"
    sim.run(0.3, callbacks=[Save(Every(0.1), path)])
    sim.run(0.5, callbacks=[Save(Every(0.1), path)])
    assert read_result(path).times.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    # A script that is run again replaces what it wrote, once it has something to put there.
    again = Save(AtTimes([0.2]), path)
    pendulums().run(0.1, callbacks=[again])
    assert len(read_result(path).times) == 6
    pendulums().run(0.2, callbacks=[again])
    assert read_result(path).times.tolist() == [0.2]


def test_a_save_that_cannot_append_is_refused(tmp_path):
    path = tmp_path / "run.nc"
    save = Save(Every(0.1), path)
    pendulums().run(0.3, callbacks=[save])
    before = read_result(path).states
    with pytest.raises(ValueError, match=r"until t = 0.3: one that starts at t = 0 cannot be app"):
        pendulums().run(0.3, callbacks=[save])
    with pytest.raises(ValueError, match="is not the file to go on with"):
        Simulation(Pendulums(), START[:4], t=0.3).run(0.4, callbacks=[save])
    np.testing.assert_array_equal(read_result(path).states, before)
    # What goes on in time is appended, whoever computes it.
    pendulums(t=0.3).run(0.4, callbacks=[save])
    assert read_result(path).times.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4]


def test_a_save_that_was_resumed_goes_on_in_the_next_run(tmp_path):
    Run(tmp_path).go(until=0.5)
    run = Run(tmp_path).go(until=0.5, resume=True)
    run.sim.run(1.0, [], run.callbacks)
    assert read_result(tmp_path / "run.nc").times.tolist() == [0.0, 0.2, 0.5, 1.0]


@pytest.mark.parametrize("second", ["save", "checkpoint", "companion", "link"])
def test_two_callbacks_with_one_file_are_refused(tmp_path, second):
    path = tmp_path / "run.nc"
    path.write_bytes(b"older")
    (tmp_path / "link.nc").symlink_to(path)
    other = {
        "save": Save(Every(0.1), f"{tmp_path}/./run.nc"),
        "checkpoint": Checkpoint(Every(0.1), path),
        "companion": Companion(Every(0.1), particles=pendulums(), save=Save(Every(0.1), path)),
        "link": Save(Every(0.1), tmp_path / "link.nc"),
    }[second]
    with pytest.raises(ValueError, match="callbacks must write to files of their own, got .*nc tw"):
        pendulums().run(0.1, callbacks=[Save(Every(0.1), path), other])
    assert path.read_bytes() == b"older"


def test_particles_and_table_beside_a_run_in_pieces(tmp_path, monkeypatch):
    rows = iter(range(100))
    monkeypatch.setattr(
        sys.modules[Table.__module__], "table_row", lambda sim, *rest: {"t": sim.t, "n": next(rows)}
    )
    sim, particles = pendulums(), pendulums()
    companion = Companion(
        Every(0.1), particles=particles, save=Save(Every(0.1), tmp_path / "particles.nc")
    )
    table = Table(Every(0.1), tmp_path / "table.csv", quiet=True)
    for until in (0.2, 0.3):
        sim.run(until, callbacks=[companion, table])
    assert read_result(tmp_path / "particles.nc").times.tolist() == [0.0, 0.1, 0.2, 0.3]
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines == ["t,n", "0.0,0.0", "0.1,1.0", "0.2,2.0", "0.3,3.0"]


def interrupt_at(wanted, files):
    """A tracer that raises KeyboardInterrupt at the `wanted`-th line in these modules."""
    count = [0]

    def line(frame, event, argument):
        if event == "line":
            count[0] += 1
            if count[0] == wanted:
                raise KeyboardInterrupt
        return line

    return lambda frame, event, argument: line if frame.f_code.co_filename in files else None


def test_an_interrupt_at_any_line_of_saving_costs_no_record(tmp_path):
    """Interrupted while saving, then gone on with by the same objects: as if never interrupted.

    A list in memory may hold the state of then twice; a file does not.
    """
    files = {part.__file__ for part in (module, storage, netcdf)}
    whole = observers(tmp_path)
    pendulums().run(0.3, callbacks=list(whole.values()))
    expected = found(tmp_path, whole)
    wanted, interrupted = 1, True
    while interrupted:
        folder = tmp_path / str(wanted)
        folder.mkdir()
        parts, sim = observers(folder), pendulums()
        parts.pop("checkpoint")
        sys.settrace(interrupt_at(wanted, files))
        try:
            sim.run(0.3, callbacks=list(parts.values()))
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        sim.run(0.3, callbacks=list(parts.values()))
        assert found(folder, parts)[:2] == expected[:2], wanted
        for name, lists in (("monitor", "values"), ("record", "states")):
            then, now = ({t: v for t, v in zip(p[name].times, getattr(p[name], lists), strict=True)}
                         for p in (whole, parts))  # fmt: skip
            np.testing.assert_equal(now, then)
            assert len(parts[name].times) <= len(then) + 1
        wanted += 13
    assert wanted > 500


# --- result files ----------------------------------------------------------------------------


def test_a_closed_writer_refuses_and_a_new_one_goes_on(tmp_path):
    path = tmp_path / "r.nc"
    writer = ResultWriter(path)
    writer.append(0.0, np.eye(2))
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.append(1.0, np.eye(2))
    with ResultWriter(path, state_shape=(2, 2), keep=None) as again:
        assert again.last == 0.0
        again.append(1.0, np.eye(2))
    assert read_result(path).times.tolist() == [0.0, 1.0]


def test_a_file_of_another_mesh_or_other_weights_is_not_gone_on_with(tmp_path):
    path = tmp_path / "r.nc"
    shapes = {"cells": (icosphere(1), None, (12,)), "weights": (None, [0.5, 0.5], (2, 3))}
    others = {"cells": (circle(12), None, (12,)), "weights": (None, [0.4, 0.6], (2, 3))}
    for kind, (mesh, weights, shape) in shapes.items():
        with ResultWriter(path, mesh, weights, shape) as writer:
            writer.append(0.0, np.ones(shape))
        before = path.read_bytes()
        mesh, weights, shape = others[kind]
        with pytest.raises(ValueError, match="of another mesh, or of particles with other weights"):
            ResultWriter(path, mesh, weights, shape, keep=1)
        with pytest.raises(ValueError, match="of another mesh, or of particles with other weights"):
            ResultWriter(path, mesh, weights, shape, keep=None)
        assert path.read_bytes() == before


def test_saving_over_the_file_that_was_opened(tmp_path, monkeypatch):
    """Whatever goes wrong, all of the old file or all of the new one is there."""
    path = tmp_path / "s.nc"
    Solution([0.0, 1.0, 2.0], np.random.default_rng(1).random((3, 4, 3))).save(path)
    opened, before = Solution.open(path), path.read_bytes()
    calls = [0]

    def full(self, record):
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(28, "No space left on device")
        append(self, record)

    append = netcdf.RecordFile.append
    with monkeypatch.context() as patch:
        patch.setattr(netcdf.RecordFile, "append", full)
        with pytest.raises(OSError, match="No space"):
            opened.save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["s.nc"]
    opened.save(path)
    np.testing.assert_array_equal(Solution.open(path).states, opened.states)


# --- ends ------------------------------------------------------------------------------------


class Stops(Callback):
    """Ends the run at a time, as Ctrl-C does."""

    def __init__(self, t):
        super().__init__(AtTimes([t]))

    def act(self, sim):
        sim.stop("interrupted")


def test_a_stop_is_of_one_run(tmp_path):
    """Beside a Checkpoint too: what resumes starts stepping, and ends where the whole does."""
    (tmp_path / "whole").mkdir()
    whole = Run(tmp_path / "whole").go().everything()
    run = Run(tmp_path)
    run.callbacks.append(Stops(0.5))
    run.go()
    assert run.sim.t == 0.5 and run.sim.stopped == "interrupted"
    again = Run(tmp_path).go(resume=True)
    assert again.sim.stopped is None
    assert again.everything() == whole
    assert "stopped" not in run.sim.snapshot()


def test_a_steady_state_beside_a_checkpoint(tmp_path):
    """Steady to a tolerance, then gone on with at a smaller one."""
    path = tmp_path / "c.npz"

    def run(until, tolerance, resume=None):
        system = ParticleSystem(Equation(Drift(np.diag([1.0, 0.0, -1.0]))))
        sim = Simulation(system, np.array([[0.6, 0.0, 0.8]]), max_step=0.1)
        steady = SteadyState(EverySteps(5), tolerance=tolerance)
        sim.run(until, [], [steady, Checkpoint(EverySteps(1), path)], resume=resume)
        return sim

    first = run(100.0, 1e-3)
    assert "steady" in first.stopped and first.t < 10.0
    second = run(100.0, 1e-6, resume=path)
    assert "steady" in second.stopped and second.t > first.t + 1.0
    assert run(second.t + 1.0, 1e-30, resume=path).stopped is None


def test_a_steady_state_of_one_simulation_says_nothing_of_another():
    steady = SteadyState(EverySteps(1), tolerance=1e3)
    Simulation(Pendulums(), START).run(0.0, callbacks=[steady])
    other = Simulation(Pendulums(), START[:3], t=1.0)
    other.run(1.0, callbacks=[steady])
    assert other.stopped is None
