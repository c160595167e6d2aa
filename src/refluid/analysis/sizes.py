"""Sizes of variables as far as their declarations tell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from refluid.core.dtypes import VarType, to_torch
from refluid.ir.variable import Variable

_SIZED = {VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY}


@dataclass(frozen=True)
class Size:
    """`known` bytes for each combination of `unknown` sizes that only a run tells."""

    known: int
    unknown: int = 0

    def given(self, unknown: int) -> int:
        """Bytes, where each unknown size is that."""
        return int(self.known * unknown**self.unknown)


NOTHING = Size(0)


def size_of(var: Variable | None) -> Size:
    """The size of a variable; `NOTHING` for what is no tensor or isn't described."""
    if var is None or var.type not in _SIZED or not var.has_description():
        return NOTHING
    known = math.prod(size for size in var.shape if size >= 0)
    unknown = sum(size < 0 for size in var.shape)
    return Size(int(known) * to_torch(var.dtype).itemsize, unknown)
