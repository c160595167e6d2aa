"""Results that would share memory with a parameter, which optimizers overwrite.

Fluid's operators write their results into memory of their own. Bodies give parts and other shapes
of their input where it lies; that is as good, as long as nobody overwrites the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

_LISTS = (list, tuple)


def apart(value: Any, given: Sequence[Any], *, copies: bool = False) -> Any:
    """`value`: a copy where it lies in a parameter of `given`, by slot, and a tensor of its own.

    copies: a copy also where it is any of `given`.
    """
    for slot in given:
        if slot is None:
            continue
        for one in slot if isinstance(slot, _LISTS) else (slot,):
            if value is one:
                if not isinstance(value, Tensor):
                    return value
                return value.clone() if copies or _is_parameter(one) else value.view_as(value)
            if isinstance(one, Tensor) and _is_parameter(one) and _lies_in(value, one):
                return value.clone()
    return value


def detached(value: Any) -> Any:
    """A tensor, or a list of them, apart from what it was computed from."""
    if isinstance(value, _LISTS):
        return [*map(detached, value)]
    return value.detach() if isinstance(value, Tensor) and value.requires_grad else value


def cut(value: Any) -> Any:
    """`detached`, where that is remembered: what it was computed from is without a gradient."""
    if isinstance(value, _LISTS):
        return [*map(cut, value)]
    made = detached(value)
    if made is not value:
        made.was_cut = True
    return made


def was_cut(value: Any) -> bool:
    """Whether it is a tensor, apart from what it was computed from, that `cut` gave."""
    return getattr(value, "was_cut", False)


def _is_parameter(value: Tensor) -> bool:
    return value.requires_grad and value.is_leaf


def _lies_in(value: Any, other: Tensor) -> bool:
    return isinstance(value, Tensor) and _memory(value) == _memory(other)


def _memory(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()
