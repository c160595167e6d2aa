"""Gradient operators of a path: complete, but not yet in the block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refluid.autodiff.naming import GradientNames, names_in
from refluid.core.errors import OperatorNotImplemented, no_second_gradient
from refluid.ir.absent import no_operator
from refluid.ir.attributes import DEVICE, ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import GradOp, facts_of, find, gradient_ops

MakeGradients = Callable[[Operator], list[GradOp]]


@dataclass
class GradientDraft:
    """An operator of the backward pass and the gradients that flow into it."""

    op: Operator
    given: list[str] = field(default_factory=list)

    @property
    def useful(self) -> bool:
        """Whether it computes anything that is wanted."""
        return any(self.op.outputs.values())


MakeDrafts = Callable[[Operator, GradientNames, Collection[str], set[str]], list[GradientDraft]]


def registered_gradients(op: Operator) -> list[GradOp]:
    """The gradient operators that `refluid.ops` knows; OperatorNotImplemented where it can't."""
    found = find(op.type)
    if found is None:
        problem = f"{no_operator(op.type)}; so its gradient can't be made"
        raise OperatorNotImplemented(f"{problem}\n{op.made_at}")
    unused = {slot.name for slot in found.outputs if slot.name not in op.outputs}
    made = [_without(unused, grad) for grad in gradient_ops(op)]
    if not made and op.type.endswith("_grad"):
        raise OperatorNotImplemented(without_gradient(op))
    return made


def without_gradient(op: Operator) -> str:
    """What there is to say of an operator that a loss depends on and that has no gradient."""
    forward = op.type.removesuffix("_grad")
    inside = (one.made_at for block in op.sub_blocks() for one in block.ops)
    where = op.made_at or next(filter(None, inside), "")
    if forward == op.type:
        problem = f"the loss depends on operator {op.type}, which has no gradient"
        return f"{problem}\n{where}\nFix: give what it computes stop_gradient=True"
    return (
        f"{no_second_gradient(op.type)}\n{where}\nFix: give the gradient stop_gradient=True, "
        f"or compute {forward} by operators whose gradients have gradients"
    )


def _without(unused: Collection[str], grad: GradOp) -> GradOp:
    """The gradient operator of a forward operator that doesn't have all its outputs."""
    inputs = {slot: names for slot, names in grad.inputs.items() if slot not in unused}
    return replace(grad, inputs=inputs)


def draft_backward(
    path: Sequence[Operator],
    names: GradientNames,
    stopped: Collection[str],
    live: set[str],
    make: MakeDrafts,
) -> list[GradientDraft]:
    """The gradient operators of all operators that a gradient reaches, last one first.

    live: names of the gradients that are there before; all that are there in the end are added.
    Gradients of `stopped` variables are not computed. Where some outputs of an operator have
    no gradient but its gradient operator reads one, that is filled with zeros.
    """
    drafts: list[GradientDraft] = []
    for forward in reversed(path):
        outputs = {names.known(name) for name in forward.output_arg_names}
        if not facts_of(forward.type).reverted and live.isdisjoint(outputs):
            continue
        for draft in make(forward, names, stopped, live):
            if draft.given and live.isdisjoint(draft.given):
                continue
            missing = [name for name in dict.fromkeys(draft.given) if name not in live]
            drafts += [_zeros(name, names) for name in missing]
            drafts.append(draft)
            live.update(missing, draft.op.output_arg_names)
            live.discard(EMPTY)
    return drafts


def plain_draft(
    forward: Operator, grad: GradOp, names: GradientNames, stopped: Collection[str]
) -> GradientDraft:
    """A gradient operator with the names of this pass; unwanted outputs are left empty."""
    read = {name + GRAD: names.of(name) for name in forward.output_arg_names}
    made = {
        name + GRAD: EMPTY if name in stopped else names.of(name)
        for name in forward.input_arg_names
    }
    inputs = {slot: [read.get(name, name) for name in grad.inputs[slot]] for slot in grad.inputs}
    given = [read[name] for name in names_in(grad.inputs) if name in read]
    outputs = {
        slot: wanted([made.get(name, name) for name in arguments])
        for slot, arguments in grad.outputs.items()
    }
    return GradientDraft(_operator(forward, grad, inputs, outputs, names.target), given)


def wanted(arguments: list[str]) -> list[str]:
    """The arguments of an output slot; none where nobody wants any of them."""
    return [] if set(arguments) <= {EMPTY} else arguments


def _operator(
    forward: Operator,
    grad: GradOp,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    target: Block,
) -> Operator:
    """It takes over all attributes of the forward operator, or has its own and no more."""
    if grad.attrs is not None:
        device = forward.attrs.get(DEVICE, "")
        return bare_op(target, grad.type, inputs, outputs, grad.attrs, device=device)
    attrs = {**forward.attrs, ROLE: int(OpRole.BACKWARD)}
    return Operator(target, grad.type, inputs, outputs, attrs, forward.attr_types)


def bare_op(
    block: Block,
    type: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    role: int = OpRole.BACKWARD,
    device: str = "",
) -> Operator:
    """An operator with no more attributes than its own, a role and a device."""
    return Operator(block, type, inputs, outputs, {**(attrs or {}), ROLE: role, DEVICE: device})


def _zeros(name: str, names: GradientNames) -> GradientDraft:
    like = {"X": [names.variable(name)]}
    return GradientDraft(bare_op(names.target, "fill_zeros_like", like, {"Out": [name]}))
