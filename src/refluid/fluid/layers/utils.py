"""`fluid.layers.utils`: nested structures of variables, and arguments that may be one number."""

from __future__ import annotations

import sys
from typing import Any

from refluid.core.stub_modules import StubModule
from refluid.fluid.functions.control import structures
from refluid.fluid.functions.control.structures import (
    assert_same_structure,
    flatten,
    is_sequence,
    map_structure,
    pack_sequence_as,
)
from refluid.ir.variable import Variable

__all__ = [
    "assert_same_structure",
    "convert_to_list",
    "copy_mutable_vars",
    "flatten",
    "hold_mutable_vars",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
]


def convert_to_list(value: Any, n: int, name: str, dtype: type = int) -> list[Any]:
    """A list of `n` values: `convert_to_list(3, 2, "stride")` is `[3, 3]`.

    name: of the argument, for the message. ValueError where there are not `n` values, or one is
    no `dtype`.
    """
    if isinstance(value, dtype):
        return [value] * n
    wanted = f"The {name}'s type must be list or tuple of {n} {dtype.__name__}, or one"
    try:
        values = list(value)
    except TypeError:
        raise ValueError(f"{wanted}. Received: {value}") from None
    if len(values) != n:
        raise ValueError(f"{wanted}. Received: {value}")
    for one in values:
        try:
            dtype(one)
        except (TypeError, ValueError):
            raise ValueError(f"{wanted}. Received: {value}, of which {one!r} is none") from None
    return values


def hold_mutable_vars(structure: Any) -> bool:
    """Whether a part of a structure is a structure itself, which a loop's body may change."""
    return any(is_sequence(part) for part in structure)


def copy_mutable_vars(structure: Any) -> Any:
    """The same leaves in lists, tuples and dicts of their own."""
    return pack_sequence_as(structure, flatten(structure))


def _is_symmetric_padding(padding: Any, data_dim: int) -> bool:
    """Whether before and after each of `data_dim` axes is padded alike: `[1, 1, 2, 2]`."""
    if len(padding) != 2 * data_dim:
        raise AssertionError(f"{2 * data_dim} numbers are needed for {data_dim} axes: {padding}")
    return all(before == after for before, after in zip(padding[::2], padding[1::2], strict=True))


def _contain_var(list_or_tuple: Any) -> bool:
    """Whether one of these is a variable."""
    return any(isinstance(one, Variable) for one in list_or_tuple)


class _Replaceable(StubModule):
    """What a script puts in place of `is_sequence` counts in all functions, as in Fluid."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "is_sequence":
            structures.is_sequence = value


sys.modules[__name__].__class__ = _Replaceable
