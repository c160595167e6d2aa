"""The operators: one decorated function each, and all that follows from it.

    @operator("relu", outputs="Out", uses="Out")
    def relu(X: Tensor) -> Tensor:
        \"\"\"max(X, 0).\"\"\"
        return torch.relu(X)

    @gradient("relu")
    def relu_grad(Out: Tensor, d_Out: Tensor) -> Tensor:
        return torch.ops.aten.threshold_backward(d_Out, Out, 0)

The signature is the operator's proto (see `signature`). Without `@gradient` the gradient
operator `relu_grad` exists all the same and is computed by autograd of the forward body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refluid.ir import schema
from refluid.ir.operator import Operator
from refluid.ir.schema import Slot
from refluid.ops.definition import GradOp as GradOp
from refluid.ops.definition import Maker as Maker
from refluid.ops.definition import OperatorDef as OperatorDef
from refluid.ops.effects import declared
from refluid.ops.infer import Infer, infer_by_probing, infer_gradient
from refluid.ops.signature import (
    GRAD,
    Body,
    declare,
    joined,
    parse_slots,
    read_signature,
    slot_name,
)

ALL = "*"


_table: dict[str, OperatorDef] = {}


def find(op_type: str) -> OperatorDef | None:
    """The operator of that type, or None."""
    return _table.get(op_type)


def operators() -> list[OperatorDef]:
    """All operators, by name."""
    return [_table[name] for name in sorted(_table)]


def add(definition: OperatorDef) -> None:
    """Registers an operator; ValueError for a second one of the same type."""
    schema.register(definition)
    _table[definition.type] = definition


def operator(
    type: str,
    *,
    outputs: str,
    extra: Mapping[str, Any] | None = None,
    uses: str | None = ALL,
    differentiable: str | None = None,
    maker: Maker | None = None,
    infer: Infer = infer_by_probing,
    effects: str = "",
    **flags: Any,
) -> Callable[[Body], Body]:
    """Registers the decorated function as operator `type` and `type_grad` with it.

    outputs: slots in the order in which the body returns them (`"Out"`, `"Out*"`, `"Y XShape?"`).
    extra: attributes that Fluid programs carry and that do not change the numbers.
    uses: forward slots the gradient operator reads (`"X Out"`); "*" for all, None where there
        is no gradient. differentiable: input slots that have one ("X Y"), all where None.
    maker: gives the gradient operators where they are not `type_grad`.
    effects: those that the signature doesn't tell of (`"host"`).
    flags: fields of `OperatorDef`.
    """

    def decorate(body: Body) -> Body:
        found = read_signature(body)
        first = found.inputs[0].name if found.inputs else ""
        definition = OperatorDef(
            type,
            found.inputs,
            parse_slots(outputs),
            found.attributes | declare(dict(extra or {})),
            body,
            found.keywords,
            found.context,
            differentiable=None if differentiable is None else tuple(differentiable.split()),
            maker=maker,
            infer_rule=infer,
            levels=found.levels,
            effects=declared(effects, found.context, flags.get("mutates")),
            **{"lod": first} | flags,
        )
        add(definition)
        if uses is not None and maker is None:
            slots = [slot.name for slot in definition.inputs + definition.outputs]
            definition.uses = tuple(slots if uses == ALL else uses.split())
            add(_derived_gradient(definition))
        return body

    return decorate


def _derived_gradient(forward: OperatorDef) -> OperatorDef:
    slots = {slot.name: slot for slot in forward.inputs + forward.outputs}
    used = [Slot(name, slots[name].many, True) for name in forward.uses or ()]
    given = [Slot(slot.name + GRAD, slot.many, True) for slot in forward.outputs]
    return OperatorDef(
        forward.type + "_grad",
        (*used, *given),
        forward.gradient_slots(),
        forward.attributes,
        views={slot.name: given[0].name for slot in forward.gradient_slots()},
        forward=forward,
        infer_rule=infer_gradient,
    )


def gradient(
    forward_type: str,
    *,
    type: str | None = None,
    views: Mapping[str, str] | None = None,
    bare: bool = False,
) -> Callable[[Body], Body]:
    """Registers the decorated function as the gradient operator of `forward_type`.

    Its signature says what it reads. It returns the gradients of the forward's `differentiable`
    inputs in that order, `None` where `need` says that nobody wants one. `views` as of
    `OperatorDef`, with the slots as in the signature: `{"d_X": "d_Out"}`. bare: the gradient
    operator carries the attributes of its own signature only, not even a name scope.
    """

    def decorate(body: Body) -> Body:
        forward = _table[forward_type]
        found = read_signature(body)
        derived = _table.pop(forward_type + "_grad", None)
        if derived is not None:
            schema.forget(derived.type)
        known = {slot.name for slot in forward.inputs + forward.outputs}
        forward.uses = tuple(slot.name for slot in found.inputs if slot.name in known)
        given = tuple(Slot(slot.name, slot.many, True) for slot in found.inputs)
        add(
            OperatorDef(
                type or forward_type + "_grad",
                given,
                forward.gradient_slots(),
                joined(found.attributes, forward.attributes),
                body,
                found.keywords,
                found.context,
                views={slot_name(out): slot_name(own) for out, own in (views or {}).items()},
                levels=found.levels,
                effects=declared("", found.context),
                infer_rule=infer_gradient,
            )
        )
        own = list(found.attributes) if bare else None
        name, slots = type or forward_type + "_grad", [slot.name for slot in given]
        forward.maker = _maker(forward, name, slots, own) if type or bare else None
        return body

    return decorate


def _maker(forward: OperatorDef, type: str, slots: list[str], own: list[str] | None) -> Maker:
    def make(op: Operator) -> list[GradOp]:
        attrs = None if own is None else {name: op.attrs[name] for name in own if name in op.attrs}
        return [replace(gradient_op(op, type, slots, forward), attrs=attrs)]

    return make


def many(op_type: str) -> Callable[[Body], Body]:
    """Registers the decorated function as doing several operators of that type at once.

    It takes a list per input slot and returns nothing: such operators write in place.
    """

    def decorate(body: Body) -> Body:
        _table[op_type].many = body
        return body

    return decorate


def in_place(op_type: str, slot: str) -> Callable[[Body], Body]:
    """Registers the decorated function as the operator overwriting what input `slot` holds."""

    def decorate(body: Body) -> Body:
        _table[op_type].reusing[slot_name(slot)] = body
        return body

    return decorate


def gradient_op(op: Operator, type: str, slots: Sequence[str], forward: OperatorDef) -> GradOp:
    """The gradient operator of `op` that reads `slots` and writes all input gradients."""
    values = {**op.outputs, **op.inputs}

    def names(slot: str) -> list[str]:
        if slot.endswith(GRAD):
            return [name + GRAD for name in values.get(slot[: -len(GRAD)], [])]
        return list(values.get(slot, []))

    return GradOp(
        type,
        {slot: names(slot) for slot in slots},
        {slot.name: names(slot.name) for slot in forward.gradient_slots()},
    )


def gradient_ops(op: Operator) -> list[GradOp]:
    """The operators that compute the gradient of `op`; none where it has no gradient."""
    forward = _table[op.type]
    if forward.maker is not None:
        return forward.maker(op)
    if forward.uses is None:
        return []
    derived = _table[op.type + "_grad"]
    slots = [slot.name for slot in derived.inputs]
    return [gradient_op(op, derived.type, slots, forward)]
