"""Values of which only the shape is still needed: `v7 = placeholder(v7)` frees their memory.

Fluid's gradient operators read some inputs for nothing but their shape.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.uses import Key, key_of, reads, writes
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of


def placeholder(value: Any) -> Any:
    """A tensor of the same shape and element type without memory of its own; others as given."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.requires_grad:
        return value
    return _nothing(value.dtype, value.device).expand(value.shape)


def is_placeholder(value: Tensor) -> bool:
    """Whether all elements lie in one place, as those of a placeholder do."""
    return value.dim() > 0 and not any(value.stride())


@functools.cache
def _nothing(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros((), dtype=dtype, device=device)


def value_uses(ops: Sequence[Operator], last: Mapping[Key, int]) -> dict[Key, int]:
    """Position after which nobody needs a variable's value; its shape may be needed until `last`.

    Only for variables of which that is so.
    """
    shaped = {key for op in ops for slot in facts_of(op.type).shape_only for key in _keys(op, slot)}
    found: dict[Key, int] = dict.fromkeys(shaped, -1)
    for position, op in enumerate(ops):
        for key in shaped & (values_read(op) | writes(op)):
            found[key] = position
    return {key: place for key, place in found.items() if 0 <= place < last[key]}


def values_read(op: Operator) -> AbstractSet[Key]:
    """Variables of which the operator reads more than the shape."""
    shaped = facts_of(op.type).shape_only
    if not shaped:
        return reads(op)
    return {key for slot in op.inputs if slot not in shaped for key in _keys(op, slot)}


def _keys(op: Operator, slot: str) -> set[Key]:
    return {key_of(op.block, name) for name in op.input(slot) if name != EMPTY}
