"""Every script runs at a tiny size: by its main, and none is forgotten."""

import ast
import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"

# Script, its arguments at a tiny size, what it has to write into the folder `{out}`.
TINY = [
    (
        "simulate",
        "run --set mesh.frequency=3 --set time.until=0.05 --quiet --out {out}",
        ["case.toml", "result.nc", "table.csv", "sphere.png", "map.png", "series.png"],
    ),
    ("benchmark", "kernel --quick --out {out}", ["benchmark-kernel.txt"]),
    ("benchmark", "step --quick --out {out}", ["benchmark-step.txt"]),
    ("benchmark", "output --quick --out {out}", ["benchmark-output.txt"]),
    ("benchmark", "large --quick --out {out}", ["benchmark-large.txt"]),
    (
        "convergence",
        "zero_temperature --set time.until=0.05 --orders 1 2 --frequencies 2 4 "
        "--reference-order 2 --reference-frequency 6 --out {out}",
        [],
    ),
    (
        "docs.build",
        "--quick --sources-only --out {out}",
        ["source/index.md", "source/api/index.md", "source/command_line.md"],
    ),
    (
        "sweep",
        "circle_kuramoto --vary beta=0,1 --set cells=16 --set until=0.1 --workers 1 --quiet "
        "--out {out}",
        ["sweep.csv", "sweep.nc", "sweep.png"],
    ),
]
NAMES = sorted({name for name, _, _ in TINY})


def scripts_with_a_main():
    """Modules of scripts/ that define main()."""
    found = []
    for path in sorted(SCRIPTS.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found.append(".".join(path.relative_to(SCRIPTS).with_suffix("").parts))
    return found


def test_every_script_has_a_tiny_run():
    assert scripts_with_a_main() == NAMES


@pytest.mark.parametrize(("name", "words", "written"), TINY)
def test_it_runs(name, words, written, tmp_path):
    module = importlib.import_module(f"sphere_attention_scripts.{name}")
    assert module.main(words.format(out=tmp_path).split()) == 0
    for file in written:
        assert (tmp_path / file).stat().st_size > 0, file


@pytest.mark.parametrize("name", NAMES)
def test_it_explains_itself(name, capsys):
    module = importlib.import_module(f"sphere_attention_scripts.{name}")
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0 and len(capsys.readouterr().out) > 100


@pytest.mark.parametrize(
    ("study", "words", "said"),
    [
        ("zero_temperature", "--orders 5", "invalid choice: 5"),
        ("brackets", "--frequencies 0", "must be an integer >= 1, got '0'"),
        ("transport_suite", "--frequencies -1.5", "must be an integer >= 1, got '-1.5'"),
        ("phase_transition", "--frequencies four", "must be an integer >= 1, got 'four'"),
    ],
)
def test_studies_refuse_wrong_options_in_one_sentence(study, words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"validation.{study}").main(words.split())
    assert ended.value.code == 2 and said in capsys.readouterr().err
