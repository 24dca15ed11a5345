"""What stands in the folders of a sweep, and what is left to do in each.

    DIR/sweep.csv, sweep.nc, sweep.png     all runs together
    DIR/runs/NAME/                         one run, as `sphere-attention run` writes it, and
        begun.json                         the case, process and machine that work on it
        done.json                          the last file written: the run is finished

Killed at any moment, a run has a restart file to go on from, or is done again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pde import restart
from pde.results.files import whole_file
from sphere_attention_scripts.case_file import CaseError
from sphere_attention_scripts.case_tree import Case
from sphere_attention_scripts.run_folder import OUTPUTS, restart_point
from sphere_attention_scripts.sweep_cases import case_hash

BEGUN, DONE = "begun.json", "done.json"

FINISHED, NEW, RESUME, AGAIN, OTHER = "finished", "new", "resume", "again", "other"


@dataclass(frozen=True)
class Standing:
    """What is to be done in a run's folder.

    kind : "finished": nothing; "new": all; "resume": the rest, from a restart file; "again": all,
        in place of what a run of the same case has left without one; "other": nothing unasked,
        results of another case are there
    why : the reason for the last three
    """

    kind: str
    why: str = ""


def folder_of(out: Path, name: str) -> Path:
    """The folder of a run."""
    return out / "runs" / name


def standing(folder: Path, case: Case) -> Standing:
    """What is left to do for `case` in its folder.

    A run may be made longer, as `sphere-attention run --resume` does.
    """
    mine, done = case_hash(case), record(folder / DONE)
    if done.get("case") == mine and all((folder / f).is_file() for f in ("result.nc", "table.csv")):
        return Standing(FINISHED, _other_version(done))
    if not any((folder / name).exists() for name in OUTPUTS):
        return Standing(NEW)
    try:
        point = restart_point(folder, case)
    except CaseError as refused:
        same = record(folder / BEGUN).get("case") == mine
        return Standing(AGAIN if same else OTHER, str(refused).removeprefix("--resume "))
    return Standing(RESUME, f"from t = {point.simulation['t']:.4g}")


def _other_version(done: dict[str, Any]) -> str:
    """What was another version when a finished run was computed."""
    other = restart.differences(done.get("versions", {}), restart.versions())
    return f"computed by another version: {'; '.join(other)}" if other else ""


def record(path: Path) -> dict[str, Any]:
    """What `write_record` wrote; nothing where there is no such file or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_record(path: Path, content: dict[str, Any]) -> None:
    """Write a small JSON file, whole or not at all."""
    with whole_file(path, "w") as file:
        file.write(json.dumps(content, indent=1) + "\n")
