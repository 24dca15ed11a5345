"""What happens at each save of a run: particles follow the grid, and both are compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pde import Simulation
from pde.callbacks import Callback, Save
from pde.results.files import whole_file
from sphere_attention_scripts.comparison import COLUMNS, LimitLaw, table_row


@dataclass(eq=False)
class Companion(Callback):
    """Takes the particles to each time at which the grid is saved, and saves them too."""

    particles: Simulation = field(kw_only=True)
    save: Save = field(kw_only=True)

    def files(self) -> list[str | Path]:
        """The particles' result file."""
        return self.save.files()

    def start(self, sim: Simulation) -> None:
        """Save the particles as they start, and where the grid is."""
        self.save.start(self.particles)
        super().start(sim)

    def act(self, sim: Simulation) -> None:
        """Take the particles to the present time."""
        self.particles.run(until=sim.t, save_at=[])
        self.save.act(self.particles)

    def snapshot(self) -> dict[str, Any]:
        """Where the particles stand."""
        return {"particles": self.particles.snapshot(), "save": self.save.snapshot()}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Put them there again."""
        self.particles.restore(remembered["particles"])
        self.save.resume(self.particles, remembered["save"])
        super().resume(sim, remembered)

    def finish(self, sim: Simulation) -> None:
        """Close the file."""
        self.save.finish(self.particles)


@dataclass(eq=False)
class Table(Callback):
    """Compares each saved state; rows go to a file, each at once, and to the screen.

    particles : stand at the same time (see `Companion`)
    """

    path: Path = Path("table.csv")
    limit: LimitLaw | None = None
    particles: Simulation | None = None
    quiet: bool = field(default=False, kw_only=True)
    rows: list[dict[str, float]] = field(default_factory=list, init=False)

    def files(self) -> list[str | Path]:
        """The table's."""
        return [self.path]

    def start(self, sim: Simulation) -> None:
        """Go on with the rows of an earlier run."""
        if self.rows:
            self._rewrite()
        super().start(sim)

    def act(self, sim: Simulation) -> None:
        """Add the row of the present time."""
        row = table_row(sim, self.limit, self.particles)
        with open(self.path, "a" if self.rows else "w", encoding="utf-8") as file:
            file.write(_csv([row], header=not self.rows))
        if not self.quiet:
            self._show(row)
        self.rows.append(row)

    def snapshot(self) -> dict[str, Any]:
        """The rows."""
        return {"rows": self.rows}

    def resume(self, sim: Simulation, remembered: dict[str, Any]) -> None:
        """Go on with these rows, and drop later ones from the file."""
        for row in remembered["rows"]:
            if not self.quiet:
                self._show(row)
            self.rows.append(row)
        self._rewrite()
        super().resume(sim, remembered)

    def _rewrite(self) -> None:
        """Put just these rows into the file."""
        with whole_file(self.path, "w") as file:
            file.write(_csv(self.rows, header=True))

    @property
    def series(self) -> dict[str, Any]:
        """The columns as arrays."""
        names = self.rows[0] if self.rows else {}
        return {name: np.array([row[name] for row in self.rows]) for name in names}

    def _show(self, row: dict[str, float]) -> None:
        from tqdm import tqdm

        columns = [COLUMNS[name] for name in row]
        cells = [format(value, c.form) for c, value in zip(columns, row.values(), strict=True)]
        widths = [max(len(c.heading), len(format(-1.2e-100, c.form)), 9) for c in columns]
        if not self.rows:
            headings = [c.heading for c in columns]
            tqdm.write("  ".join(h.rjust(w) for h, w in zip(headings, widths, strict=True)))
        # Through tqdm, so that the rows do not run into the bar.
        tqdm.write("  ".join(cell.rjust(w) for cell, w in zip(cells, widths, strict=True)))
        sys.stdout.flush()


def _csv(rows: Sequence[dict[str, float]], header: bool) -> str:
    """Rows as lines of numbers with all their digits, below their names where asked."""
    lines = [",".join(repr(float(value)) for value in row.values()) for row in rows]
    if header and rows:
        lines.insert(0, ",".join(rows[0]))
    return "".join(f"{line}\n" for line in lines)
