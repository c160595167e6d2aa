"""Strategy files: TOML, a table for each place where knobs are set.

[flags]
FLAGS_paddle_num_threads = 1
[build]
enable_auto_fusion = true
[reader]
use_multiprocess = true
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from refluid.core import flags
from refluid.core.bounds import whole_number
from refluid.engine.choices import Choices, choose
from refluid.engine.knob_table import NEED, knobs
from refluid.engine.knobs import Knob, KnobScope
from refluid.engine.strategy import NUMBERS

SECTIONS = {
    "build": KnobScope.BUILD,
    "execution": KnobScope.EXECUTION,
    "fleet": KnobScope.FLEET,
    "flags": KnobScope.FLAG,
    "reader": KnobScope.READER,
    "loader": KnobScope.LOADER,
    "dataset": KnobScope.DATASET,
    "dygraph": KnobScope.DYGRAPH,
    "precision": KnobScope.PRECISION,
    "environment": KnobScope.ENVIRONMENT,
}
"""The names of tables in a file."""
# What is for a script to say: it changes what is computed, or is something that it needs.
_FOR_SCRIPTS = (NEED, NUMBERS)
_SEVERAL_STEPS = "num_iteration_per_run"
# Of a fleet's knobs these change only how gradients are exchanged, not who holds what.
_OF_FLEETS = ("bucket_megabytes", "bucket_gradients", "exchange_type")


class WrongStrategy(ValueError):
    """A strategy that says something that can't be."""


def apply_strategy(strategy: str | PathLike[str] | Mapping[str, Any]) -> None:
    """What a strategy file, or a dict of the same tables, says holds for the rest of the process.

    It stands over what the script says itself. Call it before programs are built. Raises
    WrongStrategy (a ValueError), which names the entry and what it may be, and OSError.
    """
    if isinstance(strategy, Mapping):
        choose(checked(strategy, "the strategy"))
    else:
        choose(read_strategy(Path(strategy)))


def read_strategy(path: Path) -> Choices:
    """What a file says. WrongStrategy where it is none; OSError where it can't be read."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongStrategy(f"{path}: not TOML: {error}") from None
    return checked(tables, str(path))


def checked(tables: Mapping[str, Any], where: str) -> Choices:
    """The choices of these tables. where: what messages begin with."""
    values: dict[KnobScope, dict[str, Any]] = {}
    for section, entries in tables.items():
        if section not in SECTIONS:
            raise WrongStrategy(f"{where}: no table [{section}]{_near(section, SECTIONS)}")
        if not isinstance(entries, Mapping):
            raise WrongStrategy(f"{where}: {section} is a table, not {entries!r}")
        scope = SECTIONS[section]
        values[scope] = {
            name: _value(f"{where}: [{section}] {name}", scope, name, value)
            for name, value in entries.items()
        }
    return Choices(values)


@cache
def known(scope: KnobScope) -> Mapping[str, Knob]:
    """The knobs that a file may set in one place, by name."""
    return {
        one.name: one
        for one in knobs()
        if one.scope is scope and not one.ignored and not _is_for_scripts(one)
    }


def _value(label: str, scope: KnobScope, name: str, value: Any) -> Any:
    found = known(scope)
    if name not in found:
        raise WrongStrategy(f"{label}: {_why_not(scope, name)}{_near(name, found)}")
    try:
        if scope is KnobScope.FLAG:
            with flags.override({name: value}):
                return flags.get_flags(name)[name]
        return _of_kind(label, found[name], value)
    except (TypeError, ValueError) as error:
        raise WrongStrategy(str(error) if label in str(error) else f"{label}: {error}") from None


def _of_kind(label: str, knob: Knob, value: Any) -> Any:
    default = knob.default
    if isinstance(default, Enum):
        kind = type(default)
        names = [one.name for one in kind]
        if value not in names:
            raise WrongStrategy(f"{label} is {' or '.join(names)}, not {value!r}")
        return kind[value]
    kinds = (int,) if default is None and knob.name == "capacity" else knob.kinds
    wrong = isinstance(value, bool) and bool not in kinds
    if wrong or not isinstance(value, kinds):
        words = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
        raise WrongStrategy(f"{label} is {words}, not {value!r}")
    if int in kinds:
        return whole_number(label, value, knob.most, 0)
    return set(value) if isinstance(value, list | set) else value


def _is_for_scripts(knob: Knob) -> bool:
    holds = knob.scope is KnobScope.FLEET and knob.name not in _OF_FLEETS
    return holds or knob.unmeasured in _FOR_SCRIPTS or knob.name == _SEVERAL_STEPS


def _why_not(scope: KnobScope, name: str) -> str:
    for one in knobs():
        if one.scope is scope and one.name == name:
            if _is_for_scripts(one):
                return "is for the script to say"
            return f"changes nothing: {one.ignored}"
    return "no such knob"


def _near(name: str, names: Iterable[str]) -> str:
    listed = list(names)
    close = difflib.get_close_matches(name, listed, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(listed)}" if len(listed) <= len(SECTIONS) else ""


def tables_of(choices: Choices) -> dict[str, dict[str, Any]]:
    """The tables that say this, of strings, numbers and lists: what `checked` takes."""
    return {
        section: {name: _plain(value) for name, value in choices.of(scope).items()}
        for section, scope in SECTIONS.items()
        if choices.of(scope)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, set | frozenset | list | tuple):
        return sorted(value)
    return value


def written(choices: Choices, comment: str = "") -> str:
    """The file that says this."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for section, entries in tables_of(choices).items():
        lines += ["", f"[{section}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in entries.items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
