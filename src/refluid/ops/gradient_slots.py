"""Gradient operators that aren't told by the slots of the forward operator alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.drafts import add, defined, say
from refluid.ops.infer import infer_gradient
from refluid.ops.registry import GradOp, OperatorDef, gradient_op
from refluid.ops.signature import Body, parse_slots

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


def made_of_flows(
    source: str, result: str, again: str, **changed: object
) -> Callable[[Operator], list[GradOp]]:
    """T_grad(Out@GRAD) -> X@GRAD: its gradient is T of the gradient of X@GRAD.

    changed: attributes that T has other values of there.
    """

    def make(op: Operator) -> list[GradOp]:
        taken = {source, result, result + GRAD}
        inputs = {slot: op.input(slot) for slot in op.inputs if slot not in taken}
        inputs[source] = [name + GRAD for name in op.output(source + GRAD)]
        outputs = {result: [name + GRAD for name in op.input(result + GRAD)]}
        return [GradOp(again, inputs, outputs, dict(op.attrs) | changed if changed else None)]

    return make


def of_the_flow(op: Operator) -> list[GradOp]:
    """T_grad(Out@GRAD) -> X@GRAD: its gradient is T_grad of the gradient of X@GRAD."""
    flow = {"Out" + GRAD: [name + GRAD for name in op.output("X" + GRAD)]}
    outputs = {"X" + GRAD: [name + GRAD for name in op.input("Out" + GRAD)]}
    return [GradOp(op.type, {**op.inputs, **flow}, outputs)]


def _names(op: Operator, slot: str, known: set[str], output: bool) -> list[str]:
    """The variables of a slot of the second gradient, told by the gradient operator `op`."""
    of_gradient, of_value = slot.removeprefix("DD"), slot.removeprefix("D")
    if slot.startswith("DD") and of_gradient in known:
        own = op.input if output else op.output
        names = own(of_gradient + GRAD)
        return [name if name == EMPTY else name + GRAD for name in names]
    if slot.startswith("D") and of_value in known:
        if output:
            return [name + GRAD for name in op.input(of_value)]
        return op.input(of_value + GRAD) or op.output(of_value + GRAD)
    return op.input(slot)


def second_order(
    forward_type: str, inputs: str, outputs: str, needs: Mapping[str, str] | None = None
) -> Callable[[Body], Body]:
    """Registers the decorated function as the gradient of the gradient of `forward_type`.

    needs: outputs that only follow from an input, and aren't made where it is not there.
    """

    def decorate(body: Body) -> Body:
        name, reads, makes = f"{forward_type}_grad_grad", parse_slots(inputs), parse_slots(outputs)

        def definition() -> OperatorDef:
            forward = defined(forward_type)
            return OperatorDef(
                type=name,
                inputs=reads,
                outputs=makes,
                attributes=forward.attributes,
                body=body,
                keywords=forward.keywords,
                infer_rule=infer_gradient,
            )

        def make(op: Operator) -> list[GradOp]:
            forward = defined(forward_type)
            known = {slot.name for slot in forward.inputs + forward.outputs}
            read = {one.name: _names(op, one.name, known, False) for one in reads}
            made = {one.name: _names(op, one.name, known, True) for one in makes}
            for output, needed in (needs or {}).items():
                if set(read[needed]) <= {EMPTY}:
                    made[output] = []
            return [GradOp(name, read, made)]

        add(name, definition)
        say(f"{forward_type}_grad", maker=make)
        return body

    return decorate
