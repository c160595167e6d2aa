"""Gradient operators of a path: complete, but not yet in the block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refluid.autodiff.naming import EMPTY, GradientNames, names_in
from refluid.core.errors import OperatorNotImplemented
from refluid.ir.attributes import DEVICE, ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import GradOp, find, gradient_ops
from refluid.ops.signature import GRAD

MakeGradients = Callable[[Operator], list[GradOp]]


@dataclass
class Draft:
    """An operator of the backward pass and the gradients that flow into it."""

    op: Operator
    given: list[str] = field(default_factory=list)

    @property
    def useful(self) -> bool:
        """Whether it computes anything that is wanted."""
        return any(self.op.outputs.values())


def registered_gradients(op: Operator) -> list[GradOp]:
    """The gradient operators that `refluid.ops` knows; OperatorNotImplemented where it can't."""
    if any(True for _ in op.sub_blocks()):
        problem = (
            f"the loss depends on operator {op.type}, and refluid can't differentiate operators "
            "with sub-blocks yet; set stop_gradient on its outputs or keep it out of the loss"
        )
    elif (found := find(op.type)) is None:
        problem = f"refluid has no operator {op.type!r}, so it can't make its gradient"
    else:
        unused = {slot.name for slot in found.outputs if slot.name not in op.outputs}
        return [_without(unused, grad) for grad in gradient_ops(op)]
    raise OperatorNotImplemented("\n".join([problem, *op.callstack]))


def _without(unused: Collection[str], grad: GradOp) -> GradOp:
    """The gradient operator of a forward operator that doesn't have all its outputs."""
    inputs = {slot: names for slot, names in grad.inputs.items() if slot not in unused}
    return replace(grad, inputs=inputs)


def draft_backward(
    path: Sequence[Operator],
    names: GradientNames,
    stopped: Collection[str],
    seeds: Iterable[Draft],
    make: MakeGradients,
) -> list[Draft]:
    """The gradient operators of all operators that a gradient reaches, last one first.

    Gradients of `stopped` variables are not computed. Where some outputs of an operator have
    no gradient but its gradient operator reads one, that is filled with zeros.
    """
    drafts = list(seeds)
    live = {name for seed in drafts for name in seed.op.output_arg_names}
    for forward in reversed(path):
        outputs = {names.known(name) for name in forward.output_arg_names}
        if live.isdisjoint(outputs):
            continue
        for grad in make(forward):
            draft = _draft(forward, grad, names, stopped)
            if live.isdisjoint(draft.given):
                continue
            missing = [name for name in dict.fromkeys(draft.given) if name not in live]
            drafts += [_zeros(forward.block, name, names) for name in missing]
            drafts.append(draft)
            live.update(missing, draft.op.output_arg_names)
            live.discard(EMPTY)
    return drafts


def _draft(
    forward: Operator, grad: GradOp, names: GradientNames, stopped: Collection[str]
) -> Draft:
    """A gradient operator with the names of this pass; unwanted outputs are left empty."""
    read = {name + GRAD: names.of(name) for name in forward.output_arg_names}
    made = {
        name + GRAD: EMPTY if name in stopped else names.of(name)
        for name in forward.input_arg_names
    }
    inputs = {slot: [read.get(name, name) for name in grad.inputs[slot]] for slot in grad.inputs}
    given = [read[name] for name in names_in(grad.inputs) if name in read]
    outputs: dict[str, list[str]] = {}
    for slot, arguments in grad.outputs.items():
        kept = [made.get(name, name) for name in arguments]
        outputs[slot] = [] if set(kept) <= {EMPTY} else kept
    return Draft(_operator(forward, grad, inputs, outputs), given)


def _operator(
    forward: Operator, grad: GradOp, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Operator:
    """It takes over all attributes of the forward operator, or has its own and no more."""
    if grad.attrs is not None:
        device = forward.attrs.get(DEVICE, "")
        return bare_op(forward.block, grad.type, inputs, outputs, grad.attrs, device=device)
    attrs = {**forward.attrs, ROLE: int(OpRole.BACKWARD)}
    return Operator(forward.block, grad.type, inputs, outputs, attrs, forward.attr_types)


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


def _zeros(block: Block, name: str, names: GradientNames) -> Draft:
    like = {"X": [names.variable(name)]}
    return Draft(bare_op(block, "fill_zeros_like", like, {"Out": [name]}))
