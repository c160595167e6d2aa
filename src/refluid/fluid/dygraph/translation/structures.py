"""Lists, tuples and dictionaries that statements change: taken apart, put back, filled in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.dygraph.translation.values import Unset

_KINDS = (list, tuple, dict)


def is_structure(value: Any) -> bool:
    """Whether a value has parts that a program may carry."""
    return type(value) in _KINDS or (isinstance(value, tuple) and hasattr(type(value), "_fields"))


def copied(value: Any) -> Any:
    """The value, with lists and dictionaries of its own."""
    if type(value) is dict:
        return {key: copied(one) for key, one in value.items()}
    if is_structure(value):
        return rebuilt(value, [copied(one) for one in value])
    return value


def rebuilt(like: Any, parts: Sequence[Any]) -> Any:
    """A structure of one level like another, with other parts."""
    if type(like) is dict:
        return dict(zip(like, parts, strict=True))
    if type(like) not in _KINDS:
        return type(like)(*parts)
    return type(like)(parts)


def parts_of(value: Any) -> list[Any]:
    """The parts of a structure, of one level."""
    return [*value.values()] if type(value) is dict else [*value]


def alike(*values: Any) -> bool:
    """Whether all are structures of one kind with the same parts, seen one level deep."""
    first = values[0]
    if not is_structure(first) or any(type(one) is not type(first) for one in values):
        return False
    if type(first) is dict:
        return all([*one] == [*first] for one in values)
    return all(len(one) == len(first) for one in values)


def put_back(original: Any, value: Any) -> Any:
    """What a variable is given: its own list or dictionary, filled with the parts of `value`."""
    if original is value or type(original) is not type(value):
        return value
    if type(value) is list:
        kept = original[: len(value)] + [None] * (len(value) - len(original))
        original[:] = [put_back(old, new) for old, new in zip(kept, value, strict=True)]
        return original
    if type(value) is dict:
        made = {key: put_back(original.get(key), one) for key, one in value.items()}
        original.clear()
        original.update(made)
        return original
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two values that are no tensors are the same, parts included."""
    if one is other:
        return True
    if isinstance(one, Unset) and isinstance(other, Unset):
        return True
    if alike(one, other):
        pairs = zip(parts_of(one), parts_of(other), strict=True)
        return all(same(first, second) for first, second in pairs)
    plain = (bool, int, float, str, bytes, complex, range, slice, frozenset)
    return type(one) is type(other) and isinstance(one, plain) and one == other
