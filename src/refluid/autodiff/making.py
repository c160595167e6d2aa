"""Gradient operators: what `Block.append_op` would make, but not yet in the block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refluid.core.errors import OperatorNotImplemented
from refluid.ir.attributes import DEVICE, ROLE, AttrType, OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import GradOp, find, gradient_ops

MakeGradients = Callable[[Operator], list[GradOp]]


@dataclass
class Draft:
    """A gradient operator in the making, and the forward operator it belongs to."""

    op: Operator
    forward: Operator | None = None

    @property
    def given(self) -> set[str]:
        """Names that the gradients of the forward operator's outputs have."""
        outputs = [] if self.forward is None else self.forward.output_arg_names
        return {grad_name(name) for name in outputs}


def grad_name(name: str) -> str:
    """`x` -> `x@GRAD`."""
    return name + "@GRAD"


def gradients_of(op: Operator) -> list[GradOp]:
    """The gradient operators of a registered operator; OperatorNotImplemented for others."""
    if any(True for _ in op.sub_blocks()):
        raise OperatorNotImplemented(
            f"the loss depends on operator {op.type}, and refluid has no gradient of "
            "operators with sub-blocks yet; move it out of the loss, or set stop_gradient "
            "on its outputs.\n" + "\n".join(op.callstack)
        )
    if find(op.type) is None:
        raise OperatorNotImplemented(
            f"refluid has no operator {op.type!r}, so it can't make its gradient.\n"
            + "\n".join(op.callstack)
        )
    return gradient_ops(op)


def drafts_for(path: Sequence[Operator], make: MakeGradients) -> list[Draft]:
    """The gradient operators of a path, last forward operator first."""
    return [
        Draft(_with_role(op, grad), op) for op in reversed(path) for grad in make(op)
    ]


def _with_role(forward: Operator, grad: GradOp) -> Operator:
    """A gradient operator takes over all attributes, or has just its own and the role."""
    if grad.attrs is None:
        op = Operator(
            forward.block, grad.type, grad.inputs, grad.outputs, forward.attrs, forward.attr_types
        )
        op.set_attr(ROLE, OpRole.BACKWARD)
        return op
    return bare_op(forward.block, grad.type, grad.inputs, grad.outputs, grad.attrs, like=forward)


def bare_op(
    block: Block,
    type: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    role: int = OpRole.BACKWARD,
    like: Operator | None = None,
) -> Operator:
    """An operator with no attributes but its own, its role and its device."""
    device = like.attrs.get(DEVICE, "") if like is not None else ""
    return Operator(block, type, inputs, outputs, {**(attrs or {}), ROLE: role, DEVICE: device})


def names_of(slots: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """All names of all slots, slots in alphabetical order as program files have them."""
    return (name for slot in sorted(slots) for name in slots[slot])


_ = AttrType
