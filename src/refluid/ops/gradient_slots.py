"""Gradient operators whose slots depend on the attributes of the forward operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.drafts import say
from refluid.ops.registry import GradOp, gradient_op

SlotsOf = Callable[[Operator], Sequence[str]]


def gradient_reads(op_type: str) -> Callable[[SlotsOf], SlotsOf]:
    """The decorated function says which slots the gradient operator of `op` has.

    Comes after `@gradient`. Gradients of inputs that `op` does not have get no slot either.
    """

    def decorate(slots_of: SlotsOf) -> SlotsOf:
        def make(op: Operator) -> list[GradOp]:
            made = gradient_op(op, f"{op_type}_grad", slots_of(op))
            outputs = {slot: names for slot, names in made.outputs.items() if names}
            return [replace(made, outputs=outputs)]

        say(op_type, maker=make)
        return slots_of

    return decorate


def gradient_through(op: Operator, type: str, **attrs: object) -> list[GradOp]:
    """The gradient of `X -> Out` by one operator `type` from the gradient of Out to that of X."""
    (source,), (out,) = op.input("X"), op.output("Out")
    return [GradOp(type, {"X": [out + GRAD]}, {"Out": [source + GRAD]}, attrs)]
