"""A small run with everything that a restart has to keep; no kernels, so that it may be forked.

`python restart_runs.py FOLDER` kills it at each of its calls that touch the disk, resumes it, and
holds the result against that of a run that was never stopped. With `--once` it is run, no more.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from pde.callbacks import AtTimes, Callback, Every, EverySteps, Monitor, Save, SteadyState
from pde.restart import Checkpoint
from pde.results import files, netcdf
from pde.results.storage import read_result
from pde.simulation import Simulation

SAVES = [0.0, 0.2, 0.5, 1.0]


class Given:
    bound = np.inf
    stable_step = np.inf

    def __init__(self, tendency):
        self.tendency = tendency

    def rhs(self, dt=None):
        return self.tendency


class Pendulums:
    """(n, 2) angles and speeds of damped pendulums; the error rules the step."""

    order = 4
    tolerance = 3e-7
    weights = None
    default_stepper = "ssprk54"
    noise = None

    def __init__(self, damping=0.3):
        self.damping = damping

    def stage(self, t, state):
        angle, speed = state.T
        force = np.cos(5.0 * t) - np.sin(angle) - self.damping * speed
        return Given(np.column_stack([speed, force]))

    def rhs(self, t, state):
        return self.stage(t, state).rhs()

    def initial_state(self, given):
        return np.array(given, dtype=float)

    def project(self, state):
        return state

    def norm(self, difference):
        return float(np.abs(difference).max())

    def measure(self, state):
        raise AssertionError("no measure is needed to advance")

    def diagnostics(self, t, state):
        return {"fastest": float(np.abs(state[:, 1]).max())}


class Dice(Callback):
    """Draws at every step, from a generator that a restart has to keep."""

    def __init__(self, seed=3):
        super().__init__(EverySteps(1))
        self.generator = np.random.default_rng(seed)
        self.drawn = []

    def act(self, sim):
        self.drawn.append(float(self.generator.random()))

    def snapshot(self):
        return {"generator": self.generator.bit_generator.state, "drawn": self.drawn}

    def resume(self, sim, remembered):
        self.generator.bit_generator.state = remembered["generator"]
        self.drawn = remembered["drawn"]


class Run:
    """The simulation with its callbacks, built anew for each process or attempt."""

    def __init__(self, folder, checkpoints=None, **changed):
        self.folder = Path(folder)
        self.restart = self.folder / "restart.npz"
        start = np.linspace(-2.0, 2.0, 10).reshape(5, 2)
        self.sim = Simulation(Pendulums(**changed), start)
        self.monitor = Monitor(Every(0.15), function=lambda t, state: state.sum())
        self.dice = Dice()
        self.callbacks = [
            Checkpoint(checkpoints or AtTimes(SAVES), self.restart, {"title": "five"}),
            Save(AtTimes(SAVES), self.folder / "run.nc"),
            self.monitor,
            self.dice,
            SteadyState(EverySteps(3), tolerance=1e-9),
        ]

    def go(self, until=1.0, resume=False):
        saves = [t for t in SAVES if t <= until]
        self.sim.run(until, saves, self.callbacks, resume=self.restart if resume else None)
        return self

    def everything(self):
        """All that two runs have to agree in, to the bit."""
        result = read_result(self.folder / "run.nc")
        simulation = {**self.sim.snapshot(), "state": self.sim.state.tolist()}
        return {
            **simulation,
            "times": result.times.tolist(),
            "states": result.states.tolist(),
            "diagnostics": {name: v.tolist() for name, v in result.diagnostics.items()},
            "metadata": result.metadata,
            "monitor": [self.monitor.times, self.monitor.values],
            "dice": self.dice.drawn,
            "next draw": float(self.dice.generator.random()),
        }


CALLS = ((netcdf, "_write_at"), (files, "sync"), (files, "replace"))


def kill_at(wanted):
    """Let this process be killed before or after its `wanted`-th call that touches the disk."""
    calls = [0]

    def wrap(module, name):
        original = getattr(module, name)

        def wrapped(*arguments):
            for moment in range(2):
                if calls[0] == wanted:
                    os.kill(os.getpid(), signal.SIGKILL)
                calls[0] += 1
                if moment == 0:
                    original(*arguments)

        setattr(module, name, wrapped)

    for module, name in CALLS:
        wrap(module, name)


def in_a_child(action):
    """The exit of a forked process: its status, negative for a signal."""
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_everywhere(folder):
    """Kill a run at every call, some continuations too; (kills of each), runs begun anew."""
    whole = Run(folder).go().everything()
    kills, anew = [0, 0], 0
    for path in Path(folder).iterdir():
        path.unlink()
    while in_a_child(lambda: (kill_at(kills[0]), Run(folder).go())) == -signal.SIGKILL:
        # Every third continuation is killed as well, at another place each time.
        second = kills[0] * 7 % 23
        resume = (Path(folder) / "restart.npz").exists()
        anew += not resume
        if kills[0] % 3 == 0:
            killed = in_a_child(lambda: (kill_at(second), Run(folder).go(resume=resume)))  # noqa: B023
            kills[1] += killed == -signal.SIGKILL
            resume = (Path(folder) / "restart.npz").exists()
        again = Run(folder).go(resume=resume).everything()
        assert again == whole, (kills, [key for key in whole if whole[key] != again[key]])
        for path in Path(folder).iterdir():
            path.unlink()
        kills[0] += 1
    return kills, anew


if __name__ == "__main__":
    if sys.argv[2:] == ["--once"]:
        Run(sys.argv[1]).go()
        sys.exit()
    (first, second), anew = kill_everywhere(sys.argv[1])
    print(first, second, anew)
