"""The cache of compiled kernels: never stale, never in the way."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

PDE = Path(__file__).resolve().parents[1] / "pde"

TWO_MODULES = {
    "callee.py": """
from pde.kernels.compile import kernel

@kernel
def f(x):
    return x + 1.0
""",
    "caller.py": """
from pde.kernels.callee import f
from pde.kernels.compile import kernel

@kernel
def g(x):
    return 2.0 * f(x)
""",
}
SCRIPT = """
from pde.kernels.caller import g
print(g(1.0), sum(g.stats.cache_hits.values()), sum(g.stats.cache_misses.values()))
"""


@pytest.fixture
def copy(tmp_path):
    """A package `pde` with the real decorator and two kernels, one calling the other."""
    kernels = tmp_path / "site" / "pde" / "kernels"
    kernels.mkdir(parents=True)
    (kernels.parent / "__init__.py").touch()
    shutil.copy(PDE / "kernels" / "__init__.py", kernels)
    shutil.copy(PDE / "kernels" / "compile.py", kernels)
    for name, source in TWO_MODULES.items():
        (kernels / name).write_text(source)
    return kernels


def run(kernels, script=SCRIPT, **variables):
    """Output of a script that imports the copy; the user's cache folder is a fresh one."""
    root = kernels.parents[1]
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "PYTHON"))
    }
    environment.update(
        PYTHONPATH=str(root),
        HOME=str(root.parent),
        XDG_CACHE_HOME=str(root.parent / "user"),
        **variables,
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        cwd=root.parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def folders(root):
    return sorted(p.name for p in root.glob("**/sphere-attention-*"))


def test_second_process_does_not_compile(copy):
    assert run(copy) == ["4.0", "0", "1"]
    assert run(copy) == ["4.0", "1", "0"]


def test_changed_callee_is_noticed(copy):
    """numba's own cache answers 4.0 here: it only looks at the caller's file."""
    assert run(copy) == ["4.0", "0", "1"]
    callee = copy / "callee.py"
    stamp = callee.stat()
    callee.write_text(TWO_MODULES["callee.py"].replace("1.0", "9.0"))
    os.utime(callee, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1_000_000_000))
    assert run(copy) == ["20.0", "0", "1"]


def test_stale_folders_go_after_a_day_without_use(copy):
    run(copy)
    (cache,) = copy.glob("__pycache__/sphere-attention-*")
    recent, old = (
        cache.with_name("sphere-attention-recent"),
        cache.with_name("sphere-attention-old"),
    )
    recent.mkdir()
    old.mkdir()
    os.utime(old, (time.time() - 1e5,) * 2)
    os.utime(cache, (time.time() - 1e5,) * 2)
    assert run(copy) == ["4.0", "1", "0"]
    assert folders(copy) == sorted([cache.name, recent.name])
    assert time.time() - cache.stat().st_mtime < 1e4  # marked as used


def test_named_cache_folder(copy, tmp_path):
    assert run(copy, NUMBA_CACHE_DIR=str(tmp_path / "named")) == ["4.0", "0", "1"]
    assert run(copy, NUMBA_CACHE_DIR=str(tmp_path / "named")) == ["4.0", "1", "0"]
    assert len(folders(tmp_path / "named")) == 1
    assert not folders(copy)


def block(path):
    """Put a file where a folder is wanted: that stops the superuser too."""
    shutil.rmtree(path, ignore_errors=True)
    path.touch()


def test_read_only_installation_uses_the_users_cache(copy, tmp_path):
    block(copy / "__pycache__")
    assert run(copy, PYTHONDONTWRITEBYTECODE="1") == ["4.0", "0", "1"]
    assert run(copy, PYTHONDONTWRITEBYTECODE="1") == ["4.0", "1", "0"]
    assert len(folders(tmp_path / "user")) == 1


def test_nothing_writable_compiles_in_memory(copy, tmp_path):
    block(copy / "__pycache__")
    block(tmp_path / "user")
    for _ in range(2):
        assert run(copy, PYTHONDONTWRITEBYTECODE="1") == ["4.0", "0", "1"]
    assert not folders(tmp_path)
