"""The start of the main job: what is compiled is kept, and a long start says why."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sphere_attention_scripts import run_case

WORDS = ["run", "--set", "mesh.frequency=3", "--set", "time.until=0.05", "--out"]

COUNTED = """
import importlib, pkgutil, sys
from sphere_attention_scripts.simulate import main
assert main(sys.argv[1:]) == 0
import pde.kernels
hits = misses = 0
for found in pkgutil.iter_modules(pde.kernels.__path__):
    for kernel in vars(importlib.import_module(f"pde.kernels.{found.name}")).values():
        if hasattr(kernel, "stats"):
            hits += sum(kernel.stats.cache_hits.values())
            misses += sum(kernel.stats.cache_misses.values())
print(hits, misses)
"""


def test_the_second_start_compiles_nothing(tmp_path):
    """Whatever the first one had to compile, the second one finds it all in the cache."""
    for name in ("first", "second"):
        done = subprocess.run(
            [sys.executable, "-c", COUNTED, *WORDS, str(tmp_path / name), "--quiet"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    hits, misses = map(int, done.stdout.split())
    assert misses == 0 and hits >= 5


def test_the_first_start_says_that_it_compiles(tmp_path):
    """With an empty cache: the message comes while it compiles, before anything else."""
    command = [sys.executable, "-m", "sphere_attention_scripts.simulate", *WORDS]
    process = subprocess.Popen(
        [*command, str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        start_new_session=True,
    )
    try:
        said = process.stderr.readline()
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()
    assert said == "compiling the kernels, which only the first run has to ...\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("seconds", "quiet", "said"), [(0.5, False, "why\n"), (0.5, True, ""), (0.0, False, "")]
)
def test_only_a_long_start_is_explained(monkeypatch, capsys, seconds, quiet, said):
    monkeypatch.setattr(run_case, "SLOW_START", 0.05)
    with run_case._explained("why", quiet):
        time.sleep(seconds)
    assert capsys.readouterr().err == said
