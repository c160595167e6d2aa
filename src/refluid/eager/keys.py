"""By what calls of operators look alike: what a key has of each, and the tensors that it hasn't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from refluid.eager.parameter import ParamBase
from refluid.eager.tensor import VarBase
from refluid.ir.variable import Variable

_LISTS = (list, tuple)
_KINDS: set[Any] = {VarBase, ParamBase}
NUMBER = "a number"


class KeptAttributes(dict[str, Any]):
    """Attributes that a layer gives with every call, and their part of the key. They stay.

    key: the same number for the same attributes.
    """

    _numbers: ClassVar[dict[Any, int]] = {}

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        parts: list[Any] = []
        _add_attributes(parts, given)
        self.key = self._numbers.setdefault(tuple(parts), len(self._numbers))


class LikeNone(Exception):
    """A call that none looks like: it has values other than tensors, or LoDs."""


def key_of(
    type: str,
    inputs: Mapping[str, Any] | None,
    attrs: Mapping[str, Any] | None,
    makes: Any,
    how: Mapping[str, Any],
    values: list[Any],
) -> tuple[list[Any], bool, bool]:
    """What decides how the call is done; whether an input takes gradients; whether it has numbers
    with a point as attributes, which stand at the end of the key.

    values: gets the tensors, one entry for each slot. Raises LikeNone.
    """
    key: list[Any] = [type]
    add, takes = key.append, False
    if inputs:
        key += inputs
        for one in inputs.values():
            kind: Any = one.__class__
            if kind is VarBase or kind is ParamBase:
                value = one._value
                if value.__class__ is not Tensor or one._lod:
                    raise LikeNone
                add(value.dtype)
                add(value.ndim)
                takes = takes or value.requires_grad
                values.append(value)
            elif one is None:
                add(None)
                values.append(None)
            elif kind is list or kind is tuple:
                takes = _add_list(key, one, values) or takes
            else:
                raise LikeNone
    if makes is not None:
        add(_made(makes))
    if how:
        _add_options(key, how)
    if not attrs:
        return key, takes, False
    if attrs.__class__ is KeptAttributes:
        add(attrs.key)
        return key, takes, False
    return key, takes, _add_attributes(key, attrs)


def _add_list(key: list[Any], variables: Any, values: list[Any]) -> bool:
    several, takes = [], False
    key.append(len(variables))
    for var in variables:
        value = var._value if var.__class__ in _KINDS else None
        if value.__class__ is not Tensor or var._lod:
            raise LikeNone
        key += value.dtype, value.ndim
        takes = takes or value.requires_grad
        several.append(value)
    values.append(several)
    return takes


def _add_attributes(key: list[Any], attrs: Mapping[str, Any]) -> bool:
    numbers: list[Any] = []
    for name, value in attrs.items():
        kind = value.__class__
        if kind is float:
            numbers += name, value if value == value and value else repr(value)
        elif kind in _LISTS:
            key += name, kind is list, _fixed(value)
        else:
            key += name, kind, value
    if numbers:
        key.append(NUMBER)
        key += numbers
    return bool(numbers)


def _add_options(key: list[Any], how: Mapping[str, Any]) -> None:
    for name, value in how.items():
        if value is None or name == "name":
            continue
        if name == "layer":
            key.append(value if isinstance(value, str) else value.layer_type)
        elif name == "stop_gradient":
            key += name, value if isinstance(value, bool) else tuple(value)
        elif name == "out":
            raise LikeNone


def _made(makes: Any) -> Any:
    if not isinstance(makes, Mapping):
        return tuple(makes)
    return tuple(
        (
            slot,
            "var" if isinstance(one, Variable) else len(one) if one.__class__ in _LISTS else None,
        )
        for slot, one in makes.items()
    )


def _fixed(value: Any) -> Any:
    return tuple(map(_fixed, value)) if value.__class__ in _LISTS else (value.__class__, value)
