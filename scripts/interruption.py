"""Ctrl-C as a request: the step in progress is finished, then the run ends in good order."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pde import Simulation
from pde.callbacks import Callback

INTERRUPTED = "interrupted"
"""`Simulation.stopped` of a run that Ctrl-C ended."""


@dataclass(eq=False)
class StopOnInterrupt(Callback):
    """Ends the run after the step during which Ctrl-C was pressed; pressed again, at once.

    Left to itself, an interrupt that arrives while Python cleans up an object is reported and
    forgotten, and one in the middle of writing leaves more to put right. Only a program's main
    thread can listen; elsewhere this does nothing.
    """

    pressed: bool = field(default=False, init=False)
    _before: Any = field(default=None, init=False, repr=False)

    def start(self, sim: Simulation) -> None:
        """Listen."""
        self.pressed = False
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Listen: what was pressed ended the run before."""
        self.start(sim)

    def act(self, sim: Simulation) -> None:
        """End the run if Ctrl-C was pressed."""
        if self.pressed:
            sim.stop(INTERRUPTED)

    def finish(self, sim: Simulation) -> None:
        """Listen no longer."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        print("\nstopping after this step; Ctrl-C again stops at once", file=sys.stderr, flush=True)
