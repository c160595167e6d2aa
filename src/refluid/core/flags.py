"""Flags (`FLAGS_x`) and the environment, which is read here and nowhere else.

Values start from the environment when refluid is imported; `set_flags` changes them. A value that
changes nothing in refluid is said so once, in the log; a misspelt name is answered by the nearest.
"""

from __future__ import annotations

import difflib
import logging
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from refluid.core.errors import OutOfBounds
from refluid.core.flag_table import FLAGS, Flag, FlagValue, Status
from refluid.kernels import compiled, epilogues, lists

_LOGGER = logging.getLogger("refluid")
_PREFIX = "FLAGS_"
_WORDS = dict.fromkeys(("1", "t", "true", "y", "yes"), True)
_WORDS |= dict.fromkeys(("0", "f", "false", "n", "no"), False)
_NO_EFFECT = {
    Status.IGNORED_BY_FLUID: "only matters on a GPU, in Fluid too, and this process has none",
    Status.ALWAYS: "asks for what refluid does in any case",
    Status.NOT_YET: "is known but not implemented in refluid yet; nothing changes",
    Status.NO_COUNTERPART: "steers a part of Fluid whose work PyTorch does here; nothing changes",
}
_values: dict[str, FlagValue] = {name: flag.default for name, flag in FLAGS.items()}
_said: set[str] = set()
_set: set[str] = set()
# What the flags have been so far, numbered, and the number of what they are.
_states: dict[object, int] = {}
_state = 0


def status_of(name: str) -> Status:
    """What setting the flag `name` (without `FLAGS_`) does, on this machine."""
    flag = FLAGS[name]
    if flag.gpu and not torch.cuda.is_available():
        return Status.IGNORED_BY_FLUID
    return flag.status


def value(name: str) -> Any:
    """The present value of the flag `name`, written without `FLAGS_`; KeyError if there is none."""
    return _values[name]


def was_set(name: str) -> bool:
    """Whether the environment or `set_flags` gave the flag `name` a value, be it the default."""
    return name in _set


def state() -> int:
    """A number for what all flags are: the same one when they are so again.

    What depends on their values looks at it first.
    """
    return _state


def _note() -> None:
    global _state
    values = tuple(_values.values()), frozenset(_set)
    _state = _states.setdefault(values, len(_states))


def get_flags(flags: str | list[str] | tuple[str, ...]) -> dict[str, Any]:
    """The values of one or several flags, by their names `FLAGS_x`.

    Raises TypeError unless given a str, list or tuple, ValueError for an unknown name.
    """
    if not isinstance(flags, str | list | tuple):
        raise TypeError(f"get_flags takes a str, list or tuple of names, not {_type_name(flags)}")
    names = [flags] if isinstance(flags, str) else flags
    return {name: _values[_find(name).name] for name in names}


def set_flags(flags: Mapping[str, Any]) -> None:
    """Sets flags from a dict of `FLAGS_x` to value; all of them, or none if one is refused.

    Raises TypeError for a value of the wrong type, ValueError for an unknown name or a value out
    of range.
    """
    if not isinstance(flags, Mapping):
        raise TypeError(f"set_flags takes a dict of name to value, not {_type_name(flags)}")
    checked = [(flag := _find(name), _check(flag, given)) for name, given in flags.items()]
    for flag, accepted in checked:
        _values[flag.name] = accepted
        _set.add(flag.name)
        _say_if_without_effect(flag)
    _note()


@contextmanager
def override(flags: Mapping[str, Any]) -> Iterator[None]:
    """Within the block the given flags hold; afterwards the former values are back."""
    former = {name.removeprefix(_PREFIX): old for name, old in get_flags(list(flags)).items()}
    unset = former.keys() - _set
    try:
        set_flags(flags)
        yield
    finally:
        _set.difference_update(unset)
        _values.update(former)
        _note()


def environment_str(name: str, default: str | None = None) -> str | None:
    """The environment variable `name` as it is now; `default` where unset or empty."""
    return os.environ.get(name, "").strip() or default


def whole_environment() -> dict[str, str]:
    """All environment variables as they are now, for a process that is started."""
    return dict(os.environ)


def export(name: str, value: str) -> None:
    """Sets an environment variable for libraries of this process, and for those it starts."""
    os.environ[name] = value


def environment_int(name: str, default: int | None = None) -> int | None:
    """The whole number in the environment variable `name`; `default` where unset or empty.

    Raises ValueError for anything that is not a whole number.
    """
    text = environment_str(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"the environment variable {name} must be a whole number, not {text!r}"
        ) from None


def load_environment(environment: Mapping[str, str]) -> None:
    """Takes every `FLAGS_x` of `environment`; done once for the process's own when imported.

    Unknown names are logged with the nearest known one. Raises ValueError for unreadable values.
    """
    for key, text in environment.items():
        if not key.startswith(_PREFIX):
            continue
        flag = FLAGS.get(key.removeprefix(_PREFIX))
        if flag is None:
            _LOGGER.warning("%s in the environment is ignored: no such flag%s", key, _nearest(key))
            continue
        _values[flag.name] = _check(flag, _parse(flag, text))
        _set.add(flag.name)
        _say_if_without_effect(flag)
    _note()


def _parse(flag: Flag, text: str) -> FlagValue:
    try:
        return _WORDS[text.strip().lower()] if flag.kind is bool else flag.kind(text)
    except (KeyError, ValueError):
        raise ValueError(
            f"{_PREFIX}{flag.name}={text!r} in the environment is no {flag.kind.__name__}; "
            f"unset it or give a value like {flag.default!r}"
        ) from None


def _check(flag: Flag, given: Any) -> FlagValue:
    """`given` as a value of `flag`: whole numbers pass for floats, 0 and 1 for booleans."""
    accepted: Any = _CHECKS[flag.kind](given)
    if accepted is None:
        raise TypeError(
            f"{_PREFIX}{flag.name} takes a {flag.kind.__name__} like {flag.default!r}, "
            f"not {given!r} of type {_type_name(given)}"
        )
    if flag.choices and accepted not in flag.choices:
        raise ValueError(f"{_PREFIX}{flag.name} is {', '.join(flag.choices)}, not {given!r}")
    if flag.minimum is not None and accepted < flag.minimum:
        raise ValueError(f"{_PREFIX}{flag.name} must be at least {flag.minimum}, not {given!r}")
    if flag.kind is int and accepted > flag.maximum:
        raise OutOfBounds(f"{_PREFIX}{flag.name} must be at most {flag.maximum}, not {given!r}")
    result: FlagValue = accepted
    return result


def _as_int(given: Any) -> int | None:
    try:
        return None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        return None


def _as_bool(given: Any) -> bool | None:
    number = int(given) if type(given).__name__ in ("bool", "bool_") else _as_int(given)
    return bool(number) if number in (0, 1) else None


def _as_float(given: Any) -> float | None:
    number = given if isinstance(given, float) else _as_int(given)
    return None if number is None else float(number)


def _as_str(given: Any) -> str | None:
    return given if isinstance(given, str) else None


_CHECKS: dict[type, Any] = {bool: _as_bool, int: _as_int, float: _as_float, str: _as_str}


def _find(name: str) -> Flag:
    flag = FLAGS.get(name.removeprefix(_PREFIX)) if isinstance(name, str) else None
    if flag is None or not name.startswith(_PREFIX):
        raise ValueError(f"there is no flag {name!r}{_nearest(str(name))}")
    return flag


def _nearest(name: str) -> str:
    known: Iterable[str] = (_PREFIX + flag for flag in FLAGS)
    close = difflib.get_close_matches(_PREFIX + name.removeprefix(_PREFIX), known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _say_if_without_effect(flag: Flag) -> None:
    status = status_of(flag.name)
    own = flag.why if status is flag.status else ""
    reason = own or _NO_EFFECT.get(status)
    if reason and _values[flag.name] != flag.default and flag.name not in _said:
        _said.add(flag.name)
        _LOGGER.warning("%s%s=%r %s", _PREFIX, flag.name, _values[flag.name], reason)


def _type_name(thing: object) -> str:
    return type(thing).__name__


load_environment(os.environ)

# Kernels know no flags.
compiled.keep_if(lambda: bool(value("refluid_kept_loops")))
compiled.share_if(lambda: bool(value("refluid_shared_rows")))
epilogues.drop_if(lambda: bool(value("refluid_dropout_loop")))
epilogues.loop_if(lambda: bool(value("refluid_softmax_loop")))
lists.one_pass_if(lambda: bool(value("refluid_one_pass_updates")))
