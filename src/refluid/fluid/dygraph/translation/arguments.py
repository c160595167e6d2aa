"""What a translated function is called with: tensors that are fed, and all else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from refluid.core.arrays import as_array
from refluid.eager import VarBase
from refluid.ir.variable import Variable

_PLAIN = (bool, int, float, str, bytes, type(None))
_FED = (Variable, np.ndarray)


class CallArguments:
    """Positional and keyword arguments. tensors: those in them that are fed, in order.

    key: equal for calls that one program serves: shapes and element types of tensors, all else
    by value where it has one. kept: what `key` names by identity. held: what attributes hold that
    the function changes. count: of the tensors in the arguments, which come first.
    """

    def __init__(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], held: Sequence[Any] = ()
    ) -> None:
        self.tensors: list[Any] = []
        self.kept: list[Any] = []
        self.args, self.kwargs, self.held = args, kwargs, held
        if kwargs:
            self.key: Any = (self._key(tuple(args)), self._key(dict(kwargs)))
        else:
            self.key = (tuple([self._key(one) for one in args]), None)
        self.count = len(self.tensors)
        if held:
            self.key = (*self.key, tuple([self._key(one) for one in held]))

    def _key(self, value: Any) -> Any:
        if isinstance(value, VarBase):
            self.tensors.append(value)
            tensor = value.held
            return tensor.shape, tensor.dtype, len(value.lod)
        kind = type(value)
        if kind is dict:
            return dict, tuple([(name, self._key(one)) for name, one in value.items()])
        if kind is list or kind is tuple:
            return kind, tuple([self._key(one) for one in value])
        if isinstance(value, _PLAIN):
            return kind, value
        if isinstance(value, _FED):
            self.tensors.append(value)
            return tuple(value.shape), value.dtype
        self.kept.append(value)
        return kind, id(value)

    def with_tensors(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with others in place of the tensors, in the same order."""
        rest = iter(tensors)
        changed = [replaced(one, _is_fed, lambda _: next(rest)) for one in self.args]
        named = {
            name: replaced(one, _is_fed, lambda _: next(rest)) for name, one in self.kwargs.items()
        }
        return changed, named

    def held_with(self, tensors: Sequence[Any]) -> list[Any]:
        """What attributes hold, with others in place of the tensors."""
        rest = iter(tensors[self.count :])
        return [replaced(one, _is_fed, lambda _: next(rest)) for one in self.held]


def _is_fed(value: Any) -> bool:
    return isinstance(value, _FED)


def replaced(value: Any, wanted: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and dictionaries with some of their leaves changed."""
    if wanted(value):
        return change(value)
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([replaced(one, wanted, change) for one in value])
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return kind(*[replaced(one, wanted, change) for one in value])
    if kind is dict:
        return {name: replaced(one, wanted, change) for name, one in value.items()}
    return value


def as_tensor(value: Any, device: torch.device) -> torch.Tensor:
    """What is fed, as a tensor on a device."""
    if isinstance(value, VarBase):
        return value.tensor
    return torch.from_numpy(as_array(value, "declarative")).to(device)


def modes(layer: Any) -> tuple[bool, ...]:
    """Whether a layer and each of its layers trains: it decides what they compute."""
    found: list[bool] = []
    waiting = [layer]
    while waiting:
        one = waiting.pop()
        if one is not None:
            found.append(one.training)
            waiting.extend(one._sub_layers.values())
    return tuple(found)
