"""How a LoD follows from others where it isn't simply that of an input.

A rule makes the LoD of an operator's first output from those of the variables of its slot `lod`
and the output itself. Plans call it only where one of these has a LoD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator

LodRule = Callable[[Sequence[Levels], Tensor], Levels]
# The rule that an operator with its attributes follows, None for the plain one.
Choice = Callable[[Operator], LodRule | None]


def while_rows_stay(lods: Sequence[Levels], out: Tensor) -> Levels:
    """The LoD of the input where the result has as many rows, else none."""
    levels = lods[0]
    stay = bool(levels) and out.dim() > 0 and levels[-1].total == out.shape[0]
    return levels if stay else ()


def joined(lods: Sequence[Levels], out: Tensor) -> Levels:
    """The sequences of all inputs that have any, one after the other; none where the first has.

    EnforceNotMet where they have different numbers of levels.
    """
    first, *others = lods
    others = [one for one in others if one]
    if any(len(one) != len(first) for one in others if first):
        raise EnforceNotMet(
            f"LoD of {[len(one) for one in lods]} levels can't be joined: along axis 0 all inputs "
            "need sequences of as many levels as the first"
        )
    return tuple(
        Offsets(np.concatenate([levels[0].array, *_moved(levels)]))
        for levels in zip(first, *others, strict=bool(first))
    )


def _moved(levels: Sequence[Offsets]) -> Iterator[npt.NDArray[np.int64]]:
    """The offsets of all levels but the first, each moved behind those before it."""
    total = levels[0].total
    for level in levels[1:]:
        yield level.array[1:] + total
        total += level.total


def keeps_rows(op: Operator) -> LodRule | None:
    """Reshapes: rows may become others."""
    return while_rows_stay


def joins_rows(op: Operator) -> LodRule | None:
    """Concatenation: along axis 0 sequences are joined, else they stay."""
    axis = op.attr("axis")
    if axis < 0:
        var = op.block.find_var_recursive(op.input("X")[0])
        axis += len(var.shape) if var is not None and var.has_description() else 0
    return joined if axis == 0 else None
