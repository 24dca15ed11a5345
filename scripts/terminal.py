"""What a terminal can show."""

from __future__ import annotations

import sys


def show_anything() -> None:
    """Print what the terminal has no letters for, such as Greek titles, as \\u03b2 and the like."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
