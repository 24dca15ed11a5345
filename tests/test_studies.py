"""Every study as a command: a small size of each, its status, what it prints and what it keeps."""

import csv
import importlib
from dataclasses import dataclass, replace

import numpy as np
import pytest

from validation import side_by_side
from validation.__main__ import main as list_studies
from validation.__main__ import studies
from validation.study import (
    Bar,
    Command,
    Curve,
    Finding,
    Image,
    Option,
    Outcome,
    Panel,
    Table,
    draw,
)

FINE = {2: 4096, 3: 24}


@dataclass(frozen=True)
class Run:
    """Words of a small run, constants that make it small, what it says, what it does not.

    full : words of the run at full size
    promises : whether there are bars at this size
    pictured : whether it draws
    """

    words: str = ""
    said: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    patch: dict | None = None
    full: str = "--full"
    promises: bool = True
    pictured: bool = True


RUNS = {
    "brackets": Run("--frequencies 4", ("widest bracket",), ("MISSED",), full="", pictured=False),
    "causal": Run("", ("rate", "second token", "strong centres")),
    "clustering_phase": Run(
        "--dimensions 3 1000",
        ("times sqrt(d)",),
        patch={"TOKENS": 6, "UNTIL": 15.0, "CONCENTRATION": (64, 512), "NEAR": 1},
    ),
    "composed_fields": Run(
        "--frequencies 4",
        ("all together, ssprk54: observed order",),
        ("MISSED",),
        {"CIRCLES": (256,), "STEPS": (20, 40)},
        full="",
    ),
    "concentration": Run("--frequencies 4", ("sphere, dim E = 2", "time of the minimum"), full=""),
    "consensus": Run(
        "--frequencies 6 8 --particles 400 --seeds 4 --numbers 20 100",
        ("Rastrigin on S^2", "polarised, six minima"),
        patch={
            "DIMENSIONS": {4: (0.5, 4.0)},
            "TIMES": np.array([0.0, 1.0, 2.0, 3.0]),
            "POLARISED_TIMES": np.array([0.0, 2.0, 6.0]),
        },
        full="",
    ),
    "discrete_layers": Run("", ("order, least",), ("NOT SHOWN",), {"SCALED": (-3.0, -0.5, 1.0)}),
    "equiangular_tokens": Run(
        "",
        ("5.458394",),
        patch={
            "CASES": ((3, 3, 1.0, 0.0, True), (4, 5, 1.0, 0, False)),
            "KNOWN": {0.0: 5.186, 2.0: 5.458},
        },
    ),
    "finite_temperature": Run(
        "--orders 2 --frequencies 4 8 --only rate|USA,|beta|=|1", ("observed order",), full=""
    ),
    "gradient_flow": Run(
        "--frequencies 4",
        ("B = -V = I + eps M", "an equal pair's 0.500"),
        patch={"TIMES": np.linspace(0.0, 4.0, 17)},
        full="",
    ),
    "grid_vs_limit": Run("--frequencies 3", ("dim E = 1", "dim E = 2"), full=""),
    "grid_vs_particles": Run(
        "--frequencies 3 4 --particles 20 160",
        ("USA: cells against the same cells as particles", "162 cells against random samples"),
        patch={"SEEDS": 4},
        full="",
    ),
    "kuramoto": Run(
        "--cells 200",
        ("met     Kuramoto, order 4: observed, density", "as many as the fastest"),
        patch={"AMPLITUDES": (1e-2,), "DRAWS": 1, "DRAW_CELLS": 60, "SMALL": 1e-4, "DEGREES": (3,)},
    ),
    "late_times": Run("--orders 1 2 --frequencies 6", ("largest W2 in widths",), full=""),
    "long_context": Run("", ("critical gamma",)),
    "mean_shift": Run(
        "--tokens 80 --betas 5 20 --frequencies 40",
        ("kernel width", "every mode is reached"),
        patch={"SHOWN": 20.0, "STARTS": 12, "BLURRED": (10.0, 20.0)},
        full="",
    ),
    "metastability": Run(
        "",
        ("four equal clusters on the circle",),
        patch={
            "CASES": ((3, 4.0), (8, 4.0)),
            "TOKENS": 16,
            "PAIR_BETAS": (1.0, 3.0),
            "CIRCLE_BETAS": (5.0, 8.0),
        },
    ),
    "noise": Run(
        "--frequencies 4 8",
        ("Gibbs density",),
        ("MISSED",),
        {"DEGREES": (1, 2), "PARTICLES": 5_000},
    ),
    "non_symmetric": Run(
        "--frequencies 4", ("turns of the mean in T", "Jordan block: W2"), full=""
    ),
    "normalisation": Run("", ("first speed",), patch={"TOKENS": 6}),
    "phase_transition": Run(
        "--frequencies 5", ("kappa_c", "critical beta"), ("MISSED", "NOT SHOWN")
    ),
    "real_weights": Run("", ("turning: speed at the end",), patch={"TOKENS": 32}),
    "stationary_states": Run("--frequencies 6", (), ("MISSED", "NOT SHOWN")),
    "temperature": Run("--frequencies 4", ("circle, symmetric", "sphere, not symmetric"), full=""),
    "terminal_phase": Run(
        "--frequencies 4 --betas 1 2",
        ("E = e2, F_abs = e1", "the later the larger beta"),
        full="",
    ),
    "three_phases": Run(
        "--frequencies 5 --betas 6 --until 12",
        ("collapse to E with rate", "two particles"),
        patch={"MERGING_BETAS": (2.0, 4.0)},
        full="",
    ),
    "transport_suite": Run(
        "--frequencies 4 5 --orders 2 4",
        ("minimal resolution", "CSLAM", "Cosine bells at half", "Divergent flow", "45 deg"),
    ),
    "work_precision": Run(
        "--orders 1 2 --frequencies 3 6", ("soonest at the median error",), full="", promises=False
    ),
    "zero_temperature": Run(
        "--frequencies 3 6", ("B = I, order 2", "general B, order 2"), promises=False
    ),
}
"""A word with | in it has spaces there."""


def made_small(name, module):
    """Constants that depend on the study's own."""
    if name == "concentration":
        first = next(c for c in module.CASES if c.name == "circle, E and F differ")
        last = replace(module.CASES[-1], betas=(3.0,), until=4.0)
        return {"CASES": [replace(first, betas=(10.0, 50.0), until=6.0), last]}
    if name == "temperature":
        first, last = module.CASES[0], module.CASES[3]
        return {"CASES": [replace(first, betas=(10.0, 100.0)), replace(last, betas=(3.0, 10.0))]}
    if name == "non_symmetric":
        return {"CASES": module.CASES[1:], "BETA": 10.0}
    if name == "terminal_phase":
        points = [module.stability(pair, 1.0, 0.2, 1.0) for pair in (False, True)]
        return {"stability_map": lambda full: points}
    if name == "long_context":
        real = module.sample
        return {"sample": lambda n, d, gamma, g, seeds: real(60, d, gamma, g, 2)}
    return RUNS[name].patch or {}


def words(text):
    return [word.replace("|", " ") for word in text.split()]


def test_every_study_is_run_and_listed(capsys):
    assert set(RUNS) == set(studies())
    list_studies()
    printed = capsys.readouterr().out
    for name, claim in studies().items():
        assert name in printed and " ".join(claim.split()) in " ".join(printed.split())
        assert importlib.import_module(f"validation.{name}").main.name == name


@pytest.mark.parametrize("name", RUNS)
def test_a_study_runs_as_a_command(name, tmp_path, capsys, monkeypatch):
    one, module = RUNS[name], importlib.import_module(f"validation.{name}")
    monkeypatch.setattr(side_by_side, "FINE", FINE)
    for constant, value in made_small(name, module).items():
        monkeypatch.setattr(module, constant, value)
    status = module.main([*words(one.words), "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    missed = sum(line.startswith("MISSED  ") for line in printed.splitlines())
    # Few seeds decide little: this one may miss.
    assert status == (1 if missed else 0) and (not missed or name == "grid_vs_particles"), printed
    assert ("\nmet     " in printed) == one.promises
    for part in one.said:
        assert part in printed
    for part in one.never:
        assert part not in printed
    if name == "normalisation":
        assert printed.count("t^-2") >= 2
    assert (tmp_path / f"{name}.txt").read_text() == printed
    for path in tmp_path.glob("*.csv"):
        heading, *rows = list(csv.reader(path.open()))
        assert len(set(heading)) == len(heading) and rows, path
        assert {len(row) for row in rows} == {len(heading)}, path
    assert (tmp_path / f"{name}.csv").is_file()
    picture = tmp_path / f"{name}.png"
    assert picture.is_file() == one.pictured
    assert not one.pictured or picture.stat().st_size > 10_000


@pytest.mark.full
@pytest.mark.parametrize("name", RUNS)
def test_a_study_at_its_full_size(name, tmp_path):
    """At the largest size that is run as a test: --full, or the default of the slow ones."""
    module = importlib.import_module(f"validation.{name}")
    assert module.main([*words(RUNS[name].full), "--out", str(tmp_path)]) == 0


# --- the runner ------------------------------------------------------------------------------


def test_a_table_is_text_and_csv(tmp_path):
    rows = [("a", 1 / 3, np.nan, 10), ("b", None, 2.0, np.int64(2))]
    table = Table("title", ["of", "third:.2f", "x:.1f", "x"], rows, note="said below")
    assert str(table).splitlines() == [
        "title",
        "of  third    x   x",
        " a   0.33    -  10",
        " b         2.0   2",
        "said below",
    ]
    table.write(tmp_path / "table.csv")
    heading, first, second = csv.reader((tmp_path / "table.csv").open())
    assert heading == ["of", "third", "x", "x (2)"]
    assert float(first[1]) == 1 / 3 and first[2] == "nan" and second[1] == ""


def test_verdicts_can_be_negative():
    assert str(Finding("a claim", True)).startswith("shown ")
    assert str(Finding("a claim", False)).startswith("NOT SHOWN")
    assert Bar.at_most("x", 1.0, 1.0).met and not Bar.at_least("x", 0.5, 1.0).met
    assert not Bar.at_most("x", np.nan, 1.0).met and not Bar.at_least("x", np.nan, 1.0).met
    assert str(Bar.at_most("x", 2.0, 1.0)) == "MISSED  x: 2 <= 1"


def test_bars_decide_the_status_findings_do_not():
    met, missed = Bar.at_most("x", 0.0, 1.0), Bar.at_most("x", 2.0, 1.0)
    negative = Finding("a claim", False)
    assert Outcome(["words"], [met], [negative]).status == 0
    assert Outcome(["words"], [met, missed]).status == 1
    joined = Outcome.joined([Outcome(["one"], [met]), Outcome(["two"], [missed], [negative])])
    assert str(joined) == f"one\n\ntwo\n\n{negative}\n\n{met}\n{missed}"
    assert joined.status == 1 and not list(Outcome.joined([]).panels)


def test_options_have_defaults_and_full_ones():
    def study(options):
        return Outcome([])

    cells = Option("--cells", 8, full=80, type=int, help="of the mesh")
    betas = Option.numbers("--betas", (1.0, 2.0), "BETA", "temperatures")
    main = Command(study, cells, betas, meshes=[4, 8], full=[16], orders=[2], only=True)
    asked = main.asked([])
    assert (asked.frequencies, asked.frequency, asked.orders) == ([4, 8], 8, [2])
    assert (asked.cells, asked.betas, asked.only, asked.full) == (8, (1.0, 2.0), "", False)
    full = main.asked(["--full", "--betas", "5"])
    assert (full.frequencies, full.cells, full.betas) == ([16], 80, [5.0])
    assert main.asked(["--full", "--frequencies", "3"]).frequencies == [3]


def test_the_panels_of_a_study_are_drawn_only_where_they_are_kept(tmp_path):
    asked = []

    def panels():
        asked.append(True)
        yield Panel("", "x", "y", [Curve([1, 2], [3, 4], "o-", 0, "a curve")], log="xy")
        image = Image([0.0, 1.0], [0.0, 1.0, 2.0], np.ones((3, 2)), "of it", (0.0, 1.0))
        yield Panel("", "x", "y", [image, Curve.through([(0, 0), (1, 1)], "-", "r")])

    outcome = Outcome(["words"], panels=panels())
    assert str(outcome) == "words" and not asked
    outcome.keep(tmp_path / "new", "name")
    assert asked and (tmp_path / "new" / "name.png").read_bytes()[:4] == b"\x89PNG"
    crowd = [Curve([0, 1], [i, i], "-", i, f"curve {i}") for i in range(9)]
    assert Panel("", "x", "y", crowd).crowded and not Panel("", "x", "y", crowd[1:]).crowded
    draw([Panel("", "x", "y", crowd)], tmp_path / "crowd.png")
    assert (tmp_path / "crowd.png").stat().st_size > 1000
