"""Which operators lie on the way from some variables to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.signature import GRAD


def backward_path(
    block: Block,
    targets: Iterable[str],
    *,
    sources: Collection[str] = (),
    no_grad: Collection[str] = (),
) -> list[Operator]:
    """The operators that `targets` are computed by, in program order.

    sources: where given, only operators that depend on one of these variables.
    no_grad: gradient names (`x@GRAD`) of variables that the way does not lead through.
    """
    wanted = set(targets)
    path: list[Operator] = []
    for op in reversed(_depending(block, sources, no_grad) if sources else block.ops):
        if wanted.isdisjoint(op.output_arg_names):
            continue
        path.append(op)
        wanted |= {name for name in op.input_arg_names if name + GRAD not in no_grad}
    return path[::-1]


def _depending(
    block: Block, sources: Collection[str], no_grad: Collection[str]
) -> list[Operator]:
    reached = set(sources)
    found: list[Operator] = []
    for op in block.ops:
        if not reached.isdisjoint(op.input_arg_names):
            found.append(op)
            reached |= {name for name in op.output_arg_names if name + GRAD not in no_grad}
    return found
