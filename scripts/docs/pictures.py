"""The pictures of the documentation: each made by the study that the page is about.

pictures/NAME.png comes from `python -m validation.NAME --out DIR`, or, where there is no such
study, from the README's example that writes NAME.png. It is made again where the source, or any
module of this project that it imports, has changed; otherwise the one in the cache is taken.
`placeholder` stands in where only the pages are checked.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = ("meshes", "pde", "validation")

REFERENCE = re.compile(r"!\[[^\]]*\]\((?:\.\./)?pictures/([\w-]+)\.png\)")


class PictureError(RuntimeError):
    """A picture that a page shows and that nothing makes; one sentence."""


def referenced(pages: Iterable[Path]) -> list[str]:
    """The names of all pictures that Markdown pages show."""
    texts = (page.read_text(encoding="utf-8") for page in pages)
    return sorted({name for text in texts for name in REFERENCE.findall(text)})


def command(name: str) -> list[str]:
    """What python runs, in an empty folder, to make NAME.png there.

    Raises PictureError where nothing makes a picture of that name.
    """
    if (ROOT / "validation" / f"{name}.py").is_file():
        return ["-m", f"validation.{name}", "--out", "."]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL):
        if f'"{name}.png"' in block:
            return ["-c", block]
    raise PictureError(f"a page shows pictures/{name}.png, but there is no validation/{name}.py")


def make(name: str, target: Path, kept: Path) -> None:
    """Put the picture `name` at `target`; `kept` is the folder of the cache.

    Raises PictureError where the command fails or draws no picture of its name.
    """
    words = command(name)
    kept.mkdir(parents=True, exist_ok=True)
    cached, mark = kept / f"{name}.png", kept / f"{name}.hash"
    current = source_hash(words[1])
    if not (cached.is_file() and mark.is_file() and mark.read_text() == current):
        print(f"picture {name}", flush=True)
        _run(name, words, cached)
        mark.write_text(current)
    shutil.copy(cached, target)


def _run(name: str, words: list[str], cached: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, *words],
            cwd=scratch,
            env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        drawn = Path(scratch, f"{name}.png")
        if done.returncode or not drawn.is_file():
            said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            raise PictureError(
                f"pictures/{name}.png could not be made: status {done.returncode}, {said}"
            )
        shutil.copy(drawn, cached)


def placeholder(name: str, target: Path) -> None:
    """A picture that says which command makes the real one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 1.2))
    words = command(name)
    made_by = f"python -m {words[1]} --out DIR" if words[0] == "-m" else "the README's example"
    figure.text(0.5, 0.5, f"{name}.png: {made_by}", ha="center")
    figure.savefig(target, dpi=80)


def source_hash(source: str) -> str:
    """Hash of a module, by its name, or of a piece of code, and of all of this project's modules
    that it imports, however far."""
    digest = hashlib.sha256(source.encode())
    found, waiting = set[str](), list(_imported(source))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imported(name)
    for name in sorted(found):
        digest.update(name.encode() + file_of(name).read_bytes())
    if _is_ours(source):
        digest.update(file_of(source).read_bytes())
    return digest.hexdigest()


@cache
def _imported(source: str) -> tuple[str, ...]:
    """Modules of ours that a module or a piece of code imports, anywhere in its text."""
    text = file_of(source).read_text(encoding="utf-8") if _is_ours(source) else source
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return tuple(sorted(filter(_is_ours, names)))


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in PACKAGES and "\n" not in name and file_of(name).is_file()


def file_of(module: str) -> Path:
    """The file of a module or a package, by its full name."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
