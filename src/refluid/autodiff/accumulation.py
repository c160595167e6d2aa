"""Several gradients of one variable: renamed as they are made, and summed where first read.

    x@GRAD = f_grad(..)                 x@GRAD@RENAME@block0@0 = f_grad(..)
    x@GRAD = g_grad(..)            ->   x@GRAD@RENAME@block0@1 = g_grad(..)
    .. = h_grad(x@GRAD)                 x@GRAD = sum([.. @0, .. @1])
                                        .. = h_grad(x@GRAD)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from refluid.autodiff.making import Draft, bare_op, names_of
from refluid.autodiff.pruning import EMPTY
from refluid.ir.block import Block


def accumulate(drafts: Sequence[Draft], block: Block) -> list[Draft]:
    """The drafts with all gradients of a variable summed before they are read.

    Gradients that no operator reads (those of parameters) are summed at the end.
    """
    times = Counter(name for draft in drafts for name in names_of(draft.op.outputs))
    parts: defaultdict[str, list[str]] = defaultdict(list)
    result: list[Draft] = []
    for draft in drafts:
        read = [name for name in names_of(draft.op.inputs) if name in parts]
        result += [_sum(block, name, parts.pop(name)) for name in dict.fromkeys(read)]
        for slot in sorted(draft.op.outputs):
            draft.op.outputs[slot] = [
                _part(name, parts[name], block) if times[name] > 1 and name != EMPTY else name
                for name in draft.op.outputs[slot]
            ]
        result.append(draft)
    return result + [_sum(block, name, renamed) for name, renamed in parts.items()]


def _part(name: str, parts: list[str], block: Block) -> str:
    parts.append(f"{name}@RENAME@block{block.idx}@{len(parts)}")
    return parts[-1]


def _sum(block: Block, name: str, parts: list[str]) -> Draft:
    return Draft(bare_op(block, "sum", {"X": parts}, {"Out": [name]}, {"use_mkldnn": False}))
