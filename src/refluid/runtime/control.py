"""Operators that are part of a plan's own Python: control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from refluid.ir.operator import Operator

if TYPE_CHECKING:
    from refluid.runtime.codegen import Writer

Handler = Callable[["Writer", Operator], None]
CONTROL: dict[str, Handler] = {}
# Feeds and fetches are the arguments and results of the plan itself.
FEEDING = frozenset({"feed", "fetch"})


def _handles(*types: str) -> Callable[[Handler], Handler]:
    def decorate(handler: Handler) -> Handler:
        for op_type in types:
            CONTROL[op_type] = handler
        return handler

    return decorate


@_handles("conditional_block")
def _conditional_block(writer: Writer, op: Operator) -> None:
    """Runs the sub-block if the condition holds, or if no condition tensor is empty."""
    conditions = [writer.local(op.block, name) for name in op.input("Cond")]
    if op.attr("is_scalar_condition"):
        test = f"if {conditions[0]}.item():"
    else:
        test = "if " + " and ".join(f"{name}.numel()" for name in conditions) + ":"
    block = op.attr("sub_block")
    with writer.source.block(test, op):
        writer.write_ops(block, block.ops, set())
