"""Operator attributes: the twelve types a program file knows, and how values become them."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from refluid.core.texts import shortened


class AttrType(IntEnum):
    """Attribute types, numbered as in program files."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = BOOL = 6
    BOOLEANS = BOOLS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11


class OpRole(IntEnum):
    """What an operator does in training; roles are flags and may be combined with LOSS."""

    FORWARD = 0x0000
    BACKWARD = 0x0001
    OPTIMIZE = 0x0002
    RPC = 0x0004
    DIST = 0x0008
    LR_SCHED = 0x0010
    LOSS = 0x0100


ROLE, ROLE_VAR, NAMESCOPE = "op_role", "op_role_var", "op_namescope"
CALLSTACK, DEVICE = "op_callstack", "op_device"
COMMON: dict[str, AttrType] = {
    ROLE: AttrType.INT,
    ROLE_VAR: AttrType.STRINGS,
    NAMESCOPE: AttrType.STRING,
    CALLSTACK: AttrType.STRINGS,
    DEVICE: AttrType.STRING,
}


class SubBlock:
    """What an attribute of type BLOCK holds: a `Block` is one."""


def float32(value: Any) -> float:
    """The nearest float32, as Python float: attributes are stored in single precision."""
    return float(np.float32(value))


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is text")
    return float32(value)


def _whole(value: Any) -> int:
    if isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is text")
    if isinstance(value, float | np.floating) and value != int(value):
        raise ValueError(f"{value!r} is no whole number")
    return int(value)


def _flag(value: Any) -> bool:
    return bool(value)


def _many(convert: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def convert_all(values: Any) -> list[Any]:
        if np.ndim(values) == 0:
            return [convert(values)]
        return [convert(value) for value in values]

    return convert_all


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_CONVERT: dict[AttrType, Callable[[Any], Any]] = {
    AttrType.INT: _whole,
    AttrType.LONG: _whole,
    AttrType.FLOAT: _number,
    AttrType.STRING: _text,
    AttrType.BOOLEAN: _flag,
    AttrType.INTS: _many(_whole),
    AttrType.LONGS: _many(_whole),
    AttrType.FLOATS: _many(_number),
    AttrType.STRINGS: _many(_text),
    AttrType.BOOLEANS: _many(_flag),
    AttrType.BLOCK: lambda block: block,
    AttrType.BLOCKS: list,
}

_SCALARS: list[tuple[tuple[type, ...], AttrType, AttrType]] = [
    ((SubBlock,), AttrType.BLOCK, AttrType.BLOCKS),
    ((bool, np.bool_), AttrType.BOOLEAN, AttrType.BOOLEANS),
    ((int, np.integer), AttrType.INT, AttrType.INTS),
    ((float, np.floating), AttrType.FLOAT, AttrType.FLOATS),
    ((str, bytes), AttrType.STRING, AttrType.STRINGS),
]
_INT32 = 2**31


def convert(value: Any, kind: AttrType) -> Any:
    """`value` as attribute of type `kind` (floats rounded to float32, sequences as lists)."""
    return _CONVERT[kind](value)


def _wide(value: Any) -> bool:
    return not -_INT32 <= int(value) < _INT32


def guess_type(value: Any) -> AttrType:
    """The attribute type a Python value has when no operator declares it.

    Raises TypeError for values that no attribute can hold.
    """
    if isinstance(value, list | tuple | np.ndarray):
        items: list[Any] = list(value)
        one = guess_type(items[0]) if items else AttrType.INT
        one = AttrType.FLOAT if any(isinstance(item, float) for item in items) else one
        wide = one == AttrType.INT and any(_wide(item) for item in items)
        return AttrType.LONGS if wide else _plural(one)
    for types, single, _ in _SCALARS:
        if isinstance(value, types):
            wide = single == AttrType.INT and _wide(value)
            return AttrType.LONG if wide else single
    given = shortened(repr(value))
    raise TypeError(f"an operator attribute can't hold {given} of {type(value).__name__}")


def _plural(kind: AttrType) -> AttrType:
    for _, single, many in _SCALARS:
        if single == kind:
            return many
    return AttrType.LONGS
