"""The one decorator that compiles the kernels, with a cache that cannot go stale.

numba decides by a function's own file whether its cached machine code is current. A kernel that
calls a kernel of another module would go on using the old one after that module has changed, and
give wrong numbers without a word. So the cache folder carries a hash of all sources of this
package (numba adds its own version, Python's, the processor and the signature): any change starts
a new folder.

Where the cache lies, first possibility that can be written to:

1. the folder `NUMBA_CACHE_DIR` names, where that is set;
2. `__pycache__` of this package;
3. the user's cache folder;
4. nowhere: every process compiles what it uses (numba's plain `cache=True` fails at import here).
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.misc.appdirs import user_cache_dir

settings: Any = numba.config

# Threads that wait for the others of a loop sleep instead of spinning. Spinning costs a whole time
# slice per loop as soon as another process wants the core: small meshes then ran 90 times slower.
# OpenMP reads this when the first parallel kernel starts; a value set outside is respected.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

PREFIX = "sphere-attention-"
UNUSED_AFTER = 86400.0  # seconds without an import after which a stale folder is removed


def source_hash(folder: Path) -> str:
    """Hash of the names and contents of all Python sources in a folder and below."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _remove_stale(root: Path, current: Path) -> None:
    """Remove cache folders of other sources that no process has opened for a day.

    Opening marks a folder (its modification time), so versions in use beside this one stay. A
    process that runs longer than a day loses nothing but time: numba compiles what it misses.
    """
    for folder in root.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            if folder != current and time.time() - folder.stat().st_mtime > UNUSED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels for the present sources; None where nothing is writable."""
    package = Path(__file__).resolve().parent
    roots = [package / "__pycache__", Path(user_cache_dir("sphere-attention", False))]
    if settings.CACHE_DIR:
        roots.insert(0, Path(settings.CACHE_DIR))
    name = PREFIX + source_hash(package)
    for root in roots:
        folder = root / name
        if _is_writable(folder):
            with contextlib.suppress(OSError):
                os.utime(folder)
            _remove_stale(root, folder)
            return folder
    return None


def kernel(function=None, *, parallel=False, fastmath=False):
    """Compile a function with numba: `@kernel`, or `@kernel(parallel=True, fastmath={...})`.

    Kernels are module-level functions over arrays and numbers: no closures, no signatures given
    (they would compile at import). Compilation happens at the first call and is kept on disk.
    """
    if function is None:
        return lambda f: kernel(f, parallel=parallel, fastmath=fastmath)
    options = {"parallel": parallel, "fastmath": fastmath}
    folder = cache_folder()
    if folder is None:
        return numba.njit(function, **options)
    # numba reads the place for its files from this setting, at the moment of decoration.
    previous = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)
    try:
        return numba.njit(function, cache=True, **options)
    finally:
        settings.CACHE_DIR = previous
