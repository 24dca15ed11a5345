"""What every study shares: it is asked by options and answers with an outcome, all of it data.

A study is a module of `validation` with a function `study(options) -> Outcome` and

    main = Command(study, meshes=[8, 16], full=[32])

The outcome holds tables, bars (promises: a missed one is exit status 1), findings (what a run shows
of a claim whose constants the theory leaves open: they may be negative, without an exit status) and
panels. `Command` alone reads the command line, prints, draws, and keeps files.
"""

from validation.study.command import Command
from validation.study.options import Option, Options
from validation.study.outcome import Outcome
from validation.study.panels import Curve, Image, Panel, SphereMap, draw
from validation.study.tables import Table, aligned, each
from validation.study.verdicts import Bar, Finding

__all__ = [
    "Bar",
    "Command",
    "Curve",
    "Finding",
    "Image",
    "Option",
    "Options",
    "Outcome",
    "Panel",
    "SphereMap",
    "Table",
    "aligned",
    "draw",
    "each",
]
