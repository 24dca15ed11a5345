"""Case files: TOML, read into a checked tree of dataclasses (`case_tree`) and written again.

A wrong key or value gives one sentence that names the key, what was given, what is allowed and
the nearest right key. Nothing heavy is imported here, so that `--help` stays instant.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from sphere_attention_scripts.case_tree import TABLES, Case, CaseError, Tagged, tag_of
from sphere_attention_scripts.case_values import Choice, Kind, Real

__all__ = ["CaseError", "check_case", "find_case", "read_case", "shipped_cases", "to_toml"]

SHIPPED = Path(__file__).parent / "cases"
"""Folder of the cases that come with the package."""

PROVENANCE = "provenance"
"""Table of a case as run that says where it ran; reading skips it, so the case runs again."""


def shipped_cases() -> list[str]:
    """Names of the cases that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_case(name: str) -> Path:
    """The file of a case given as a path, or as the bare name of a shipped one."""
    if name.endswith(".toml") or "/" in name or "\\" in name:
        if not Path(name).is_file():
            raise CaseError(f"there is no case file {name}")
        return Path(name)
    if name not in shipped_cases():
        raise CaseError(
            f"there is no case {name!r}{_nearest(name, shipped_cases())}; shipped are "
            f"{', '.join(shipped_cases())}; a file of one's own is named by its path (.toml)"
        )
    return SHIPPED / f"{name}.toml"


def read_case(path: Path, overrides: Sequence[str] = ()) -> Case:
    """The case in a file, with `table.key=value` overrides applied.

    Raises CaseError, in one sentence, for whatever is wrong.
    """
    try:
        # Editors may begin a file with a byte-order mark, which is no part of it.
        text = path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except OSError as unreadable:
        raise CaseError(f"{path} cannot be read ({unreadable.strerror})") from unreadable
    except UnicodeDecodeError as wrong:
        if wrong.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise CaseError(f"{path} is stored as UTF-16; TOML is UTF-8: save it so") from wrong
        raise CaseError(f"{path} is not valid TOML: {wrong}") from wrong
    try:
        tables = _loaded(text)
    except ValueError as wrong:
        raise CaseError(f"{path} is not valid TOML: {wrong}") from wrong
    try:
        return check_case(_overridden(tables, overrides))
    except CaseError as wrong:
        raise CaseError(f"{path.name}: {wrong}") from wrong


def check_case(tables: Mapping[str, Any]) -> Case:
    """The case that nested dictionaries (a parsed TOML file) describe.

    >>> check_case({"model": {"kind": "atention"}})
    Traceback (most recent call last):
        ...
    sphere_attention_scripts.case_tree.CaseError: 'model.kind' must be one of 'attention', \
'zero_temperature', got "atention"; did you mean 'attention'?
    """
    given = {name: value for name, value in tables.items() if name != PROVENANCE}
    parts = {name: _table(name, given.pop(name, {})) for name in TABLES}
    return Case(**_checked_values("", Case, given), **parts)


def _table(name: str, given: Any) -> Any:
    """The checked dataclass of one table."""
    if not isinstance(given, dict):
        raise CaseError(f"{name!r} must be a table [{name}], got {_shown(given)}")
    spec = TABLES[name]
    if not isinstance(spec, Tagged):
        return spec(**_checked_values(name, spec, given))
    choice, rest = Choice(tuple(spec.variants)), dict(given)
    if spec.tag not in given:
        raise CaseError(f"'{name}.{spec.tag}' is missing; it must be {choice.allowed}")
    tag = _checked(f"{name}.{spec.tag}", choice, rest.pop(spec.tag))
    variant = spec.variants[tag]
    return variant(**_checked_values(name, variant, rest, f' with {spec.tag} = "{tag}"'))


def _checked_values(
    table: str, spec: type, given: Mapping[str, Any], condition: str = ""
) -> dict[str, Any]:
    """The values of a table's keys; unknown, wrong and missing ones are refused."""
    kinds, prefix = _kinds(spec), f"{table}." if table else ""
    for name, value in given.items():
        if name not in kinds:
            where = f"[{table}]{condition}" if table else "a case"
            allowed = [*kinds] if table else [*kinds, *(f"[{other}]" for other in TABLES)]
            raise CaseError(
                f"unknown key '{prefix}{name}' = {_shown(value)}"
                f"{_nearest(prefix + name, _all_keys())}; "
                f"{where} takes {', '.join(allowed) or 'no further keys'}"
            )
    required = [f.name for f in fields(spec) if f.name in kinds and f.default is MISSING]
    for name in required:
        if name not in given:
            raise CaseError(f"'{prefix}{name}' is missing; it must be {kinds[name].allowed}")
    return {name: _checked(prefix + name, kinds[name], value) for name, value in given.items()}


def _checked(name: str, kind: Kind, value: Any) -> Any:
    if not kind.accepts(value):
        near = _nearest(value, kind.options) if isinstance(kind, Choice) else ""
        raise CaseError(f"{name!r} must be {kind.allowed}, got {_shown(value)}{near}")
    return float(value) if isinstance(kind, Real) else value


@cache
def _kinds(spec: type) -> dict[str, Kind]:
    """The kind of each key of a table's dataclass, from its annotations."""
    hints = get_type_hints(spec, include_extras=True)
    return {
        name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")
    }


@cache
def _all_keys() -> tuple[str, ...]:
    """Every key that a case may hold, with its table, and the tables."""
    keys = [*_kinds(Case), *TABLES]
    for table, spec in TABLES.items():
        if isinstance(spec, Tagged):
            keys.append(f"{table}.{spec.tag}")
        for variant in spec.variants.values() if isinstance(spec, Tagged) else [spec]:
            keys += [f"{table}.{name}" for name in _kinds(variant)]
    return tuple(dict.fromkeys(keys))


def _nearest(wrong: Any, right: Sequence[Any]) -> str:
    """'; did you mean ...?', or nothing where nothing is near."""
    if not isinstance(wrong, str):
        return ""
    texts = [option for option in right if isinstance(option, str)]
    # The right name in the wrong table is nearer than any spelling.
    found = [text for text in texts if text.split(".")[-1] == wrong.split(".")[-1]]
    found = found or difflib.get_close_matches(wrong, texts, n=1)
    if not found:
        # A misspelt name in the wrong table, or without its table.
        last = {text.split(".")[-1]: text for text in texts}
        near = difflib.get_close_matches(wrong.split(".")[-1], last, n=1)
        found = [last[name] for name in near]
    return f"; did you mean {found[0]!r}?" if found else ""


def _overridden(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The tables with each `table.key=value` set; values are TOML, or texts without quotes.

    Another tag (model.kind, mesh.kind, initial.law) drops the file's keys that the table does not
    take with it; time.save_every and time.save_at replace each other.
    """
    result = {name: dict(v) if isinstance(v, dict) else v for name, v in tables.items()}
    new: dict[str, dict[str, Any]] = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        *table, last = name.strip().split(".")
        if not equals or not last or len(table) > 1:
            raise CaseError(f"--set takes key=value, such as mesh.frequency=32, got {text!r}")
        if table:
            new.setdefault(table[0], {})[last] = _parsed(value)
        else:
            result[last] = _parsed(value)
    for table_name, values in new.items():
        old = result.get(table_name, {})
        if isinstance(old, dict):
            result[table_name] = {**_still_meant(table_name, old, values), **values}
        else:
            result[table_name] = values
    return result


def _still_meant(table: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The keys of a file's table that overrides leave standing."""
    spec = TABLES.get(table)
    if isinstance(spec, Tagged) and new.get(spec.tag, old.get(spec.tag)) != old.get(spec.tag):
        variant = spec.variants.get(new[spec.tag])
        taken = _kinds(variant) if variant else {}
        return {name: value for name, value in old.items() if name in taken}
    saves = ("save_every", "save_at")
    if table == "time" and any(name in new for name in saves):
        return {name: value for name, value in old.items() if name not in saves}
    return old


def _parsed(text: str) -> Any:
    try:
        return _loaded(f"value = {text.strip()}")["value"]
    except ValueError:
        return text.strip()


def _loaded(text: str) -> dict[str, Any]:
    """TOML as nested dictionaries; ValueError where it is none."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    except ValueError as wrong:
        # Python's own, of numbers with thousands of digits, says more than anybody wants to know.
        known = isinstance(wrong, tomllib.TOMLDecodeError)
        raise ValueError(str(wrong) if known else "a number has too many digits") from wrong


def case_tables(case: Case) -> dict[str, Any]:
    """The case as nested dictionaries with every key spelled out, as `check_case` takes them."""
    tables: dict[str, Any] = {name: getattr(case, name) for name in _kinds(Case)}
    for table, spec in TABLES.items():
        part = getattr(case, table)
        values = {spec.tag: tag_of(table, part)} if isinstance(spec, Tagged) else {}
        values |= {f.name: getattr(part, f.name) for f in fields(part)}
        tables[table] = {name: value for name, value in values.items() if value is not None}
    return tables


def to_toml(case: Case, provenance: Mapping[str, Any] | None = None) -> str:
    """The case as TOML; `provenance` becomes a table that reading skips.

    What `read_case` makes of the text is equal to `case`.
    """
    tables = case_tables(case) | ({PROVENANCE: dict(provenance)} if provenance else {})
    lines = []
    for name, value in tables.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]", *(f"{key} = {_toml(v)}" for key, v in value.items())]
        else:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for this one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)


def _shown(value: Any) -> str:
    """A value in an error message, cut to a readable length."""
    if isinstance(value, dict):
        return "a table"
    text = _toml(value)
    return text if len(text) <= 60 else text[:57] + "..."
