"""Several gradients of one variable: renamed as they are made, and summed where first read.

x@GRAD = f_grad(..)                 x@GRAD@RENAME@block0@0 = f_grad(..)
x@GRAD = g_grad(..)            ->   x@GRAD@RENAME@block0@1 = g_grad(..)
.. = h_grad(x@GRAD)                 x@GRAD = sum([.. @0, .. @1])
                                    .. = h_grad(x@GRAD)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from refluid.autodiff.making import Draft, bare_op
from refluid.autodiff.naming import EMPTY, RENAME
from refluid.ir.block import Block

Written = tuple[list[str], int]


def accumulate(drafts: Sequence[Draft], block: Block) -> list[Draft]:
    """The drafts with all gradients of a variable summed before they are read.

    Gradients that no operator reads (those of parameters) are summed at the end.
    """
    pending: defaultdict[str, list[Written]] = defaultdict(list)
    result: list[Draft] = []
    for draft in drafts:
        for name in dict.fromkeys(draft.given):
            result += _close(block, name, pending.pop(name, []))
        for slot in sorted(draft.op.outputs):
            names = draft.op.outputs[slot]
            for position, name in enumerate(names):
                if name != EMPTY:
                    pending[name].append((names, position))
        result.append(draft)
    return result + [total for name in pending for total in _close(block, name, pending[name])]


def _close(block: Block, name: str, written: list[Written]) -> list[Draft]:
    """Renames what was written under one name and sums it; nothing to do for one writer."""
    if len(written) < 2:
        return []
    parts = [f"{name}{RENAME}block{block.idx}@{number}" for number in range(len(written))]
    for part, (names, position) in zip(parts, written, strict=True):
        names[position] = part
    return [Draft(bare_op(block, "sum", {"X": parts}, {"Out": [name]}, {"use_mkldnn": False}))]
