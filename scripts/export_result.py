"""A result in other forms: files for ParaView, a web page, an animation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pde import Measure, Solution
from pde.pictures.animation import animate
from pde.pictures.vtk import export_vtk
from pde.pictures.web import export_html
from sphere_attention_scripts.case_file import CaseError, check_case
from sphere_attention_scripts.case_setup import field_of
from sphere_attention_scripts.comparison import limit_law
from sphere_attention_scripts.run_pictures import marks_of


def export(
    file: Path,
    vtk: Path | None = None,
    html: Path | None = None,
    animation: Path | None = None,
    frames_per_second: float = 10.0,
) -> list[Path]:
    """Write the result in `file` in each form that a path is given for; the files written.

    Raises CaseError where there is nothing to write or a folder is missing; otherwise what
    `Solution.open`, `export_vtk`, `export_html` and `animate` raise.
    """
    wanted = [path for path in (vtk, html, animation) if path is not None]
    if not wanted:
        raise CaseError("export needs at least one of --vtk, --html, --animation")
    for path in wanted:
        if not path.parent.is_dir():
            raise CaseError(f"{path} lies in a folder that does not exist")
    solution = Solution.open(file)
    marks, title = _marks(solution), solution.metadata.get("title", "")
    if vtk is not None:
        export_vtk(solution, vtk)
    if html is not None:
        export_html(solution, html, marks, title)
    if animation is not None:
        animate(solution, animation, marks, title, frames_per_second)
    return wanted


def _marks(solution: Solution) -> dict[str, Any]:
    """The limit spaces of the case that a result tells of, where it does."""
    if "case" not in solution.metadata or not len(solution.times):
        return {}
    case = check_case(solution.metadata["case"])
    field = field_of(case.model)
    # Of the limit, only its space is shown: the law to start from does not matter.
    start = Measure(solution.states[0]) if solution.mesh is None else solution.measures[0]
    return marks_of(field, limit_law(field, start)[0])
