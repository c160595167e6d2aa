"""Nested tuples, lists and dicts of variables: loops and decoders carry them as a whole.

A structure is a leaf, or a list, tuple, named tuple or dict of structures. Dicts count in the
order of their sorted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


def is_sequence(seq: Any) -> bool:
    """Whether something is a structure with parts, not a leaf."""
    return isinstance(seq, list | tuple | Mapping)


def _parts(nest: Any) -> list[Any]:
    return [nest[key] for key in sorted(nest)] if isinstance(nest, Mapping) else list(nest)


def flatten(nest: Any) -> list[Any]:
    """The leaves from left to right; a leaf is a list of itself."""
    if not is_sequence(nest):
        return [nest]
    return [leaf for part in _parts(nest) for leaf in flatten(part)]


def pack_sequence_as(structure: Any, flat_sequence: Iterable[Any]) -> Any:
    """A structure like `structure` with other leaves; ValueError for another number of them."""
    leaves = list(flat_sequence)
    wanted = len(flatten(structure))
    if len(leaves) != wanted:
        raise ValueError(f"a structure of {wanted} leaves can't be made of {len(leaves)}")
    return _pack(structure, iter(leaves))


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_sequence(structure):
        return next(leaves)
    packed = [_pack(part, leaves) for part in _parts(structure)]
    if isinstance(structure, Mapping):
        made = dict(zip(sorted(structure), packed, strict=True))
        return type(structure)((key, made[key]) for key in structure)  # type: ignore[call-arg]
    if hasattr(structure, "_fields"):
        return type(structure)(*packed)
    return type(structure)(packed)


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """A structure of the results of `func` on corresponding leaves of all structures."""
    leaves = zip(*(flatten(one) for one in structure), strict=True)
    return pack_sequence_as(structure[0], [func(*parts) for parts in leaves])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """ValueError where two structures differ; TypeError where the types of their parts do."""
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(f"{nest1!r} and {nest2!r} don't have the same structure")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"{nest1!r} is a {type(nest1).__name__}, not {type(nest2).__name__}")
    one, other = _parts(nest1), _parts(nest2)
    if isinstance(nest1, Mapping) and sorted(nest1) != sorted(nest2):
        raise ValueError(f"{sorted(nest1)} and {sorted(nest2)} are different keys")
    if len(one) != len(other):
        raise ValueError(f"{nest1!r} and {nest2!r} don't have the same number of parts")
    for first, second in zip(one, other, strict=True):
        assert_same_structure(first, second, check_types)
