"""The operators: one decorated function each, and all that follows from it.

    @operator("relu", gradient_lod="given", outputs="Out", uses="Out")
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
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Slot
from refluid.ops import facts
from refluid.ops.definition import GradOp as GradOp
from refluid.ops.definition import Maker as Maker
from refluid.ops.definition import OperatorDef as OperatorDef
from refluid.ops.drafts import add, drafted, said, say
from refluid.ops.drafts import defined as defined
from refluid.ops.drafts import facts_of as facts_of
from refluid.ops.drafts import find as find
from refluid.ops.drafts import forget as forget
from refluid.ops.drafts import nested_of as nested_of
from refluid.ops.drafts import operators as operators
from refluid.ops.drafts import with_fact as with_fact
from refluid.ops.effects import declared
from refluid.ops.infer import Infer, infer_by_probing, infer_gradient
from refluid.ops.signature import (
    NOTHING,
    Body,
    Signature,
    completed,
    joined,
    parse_slots,
    read_signature,
    slot_name,
)

ALL = "*"


def operator(
    type: str,
    *,
    outputs: str,
    extra: Mapping[str, Any] | None = None,
    uses: str | None = ALL,
    maker: Maker | None = None,
    infer: Infer = infer_by_probing,
    effects: str = "",
    of_gradient: Mapping[str, Any] | None = None,
    like: str = "",
    **flags: Any,
) -> Callable[[Body], Body]:
    """Registers the decorated function as operator `type` and `type_grad` with it.

    outputs: slots in the order in which the body returns them (`"Out"`, `"Out*"`, `"Y XShape?"`).
    extra: attributes that Fluid programs carry and that do not change the numbers.
    uses: forward slots the gradient operator reads (`"X Out"`); "*" for all, None where there
        is no gradient.
    maker: gives the gradient operators where they are not `type_grad`.
    effects: those that neither the signature nor `mutates` tells of (`"host"`).
    like: the operator whose slots and attributes `*others` and `**settings` of the body stand for.
    of_gradient: flags of `type_grad`, where no `@gradient` has its own.
    flags: fields of `Facts`.
    """

    def decorate(body: Body) -> Body:
        read = _signature(type, body, like)
        slots = parse_slots(outputs)
        derives = uses is not None and maker is None

        def make(**more: Any) -> OperatorDef:
            found = read()
            named = [slot.name for slot in found.inputs + slots]
            used = named if uses == ALL else (uses or "").split()
            own = {
                "attributes": completed(found, extra or {}, flags.get("decays", "")),
                "uses": tuple(used) if derives else None,
                "effects": declared(effects, found.context, flags.get("mutates")),
                "lod": found.inputs[0].name if found.inputs else "",
            }
            return OperatorDef(**_of(found) | own | facts.read(flags) | _known(more, named))

        known = {"type": type, "outputs": slots, "body": body, "maker": maker, "infer_rule": infer}
        add(type, make, flags, **known)
        if derives:
            _derive(type, of_gradient or {})
        return body

    return decorate


def _known(said: Mapping[str, Any], named: Sequence[str]) -> dict[str, Any]:
    """What was said of an operator later; a gradient said what it reads by its signature."""
    if "reads" not in said:
        return dict(said)
    others = {name: value for name, value in said.items() if name != "reads"}
    return others | {
        "uses": tuple(slot.name for slot in said["reads"]().inputs if slot.name in named)
    }


_signatures: dict[str, Callable[[], Signature]] = {}


def _signature(op_type: str, body: Body, like: str) -> Callable[[], Signature]:
    """That of a body, with what it has from the operator that it is like; read when asked for.

    A user's is read at once: what is wrong with it shows where it stands.
    """

    @cache
    def read() -> Signature:
        return read_signature(body, _signatures[like]() if like else NOTHING)

    _signatures[op_type] = read
    if not body.__module__.startswith(__package__):
        read()
    return read


def _of(found: Signature) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in fields(found)}


def _inherited(forward: OperatorDef) -> dict[str, Any]:
    """What holds for a gradient operator unless its decorator says otherwise."""
    return {"infer_rule": infer_gradient, "gradient_lod": forward.gradient_lod}


def _derive(type: str, flags: Mapping[str, Any]) -> None:
    """Begins the gradient operator that follows from an operator."""
    add(type + "_grad", partial(_derived_gradient, type, flags), flags)


def _derived_gradient(forward_type: str, flags: Mapping[str, Any], **said: Any) -> OperatorDef:
    forward = defined(forward_type)
    slots = {slot.name: slot for slot in forward.inputs + forward.outputs}
    used = [Slot(name, slots[name].many, True) for name in forward.uses or ()]
    given = [Slot(slot.name + GRAD, slot.many, True) for slot in forward.outputs]
    return OperatorDef(
        type=forward.type + "_grad",
        inputs=(*used, *given),
        outputs=forward.gradient_slots(),
        attributes=forward.attributes,
        views={slot.name: given[0].name for slot in forward.gradient_slots()},
        forward=forward,
        **_inherited(forward) | facts.read(flags) | said,
    )


def gradient(
    forward_type: str,
    *,
    type: str | None = None,
    bare: bool = False,
    maker: Maker | None = None,
    like: str = "",
    **flags: Any,
) -> Callable[[Body], Body]:
    """Registers the decorated function as the gradient operator of `forward_type`.

    Its signature says what it reads. It returns the gradients of the forward's `differentiable`
    inputs in that order, `None` where `need` says that nobody wants one. bare: the gradient
    operator carries the attributes of its own signature only, not even a name scope.
    maker, like: as of `operator`. flags: fields of `Facts`; `untouched` slots are outputs too.
    """

    def decorate(body: Body) -> Body:
        name, derived = type or forward_type + "_grad", forward_type + "_grad"
        found = _signature(name, body, like)
        if drafted(derived):
            forget(derived)
        say(forward_type, reads=found, maker=_maker(name, found, bare) if type or bare else maker)
        written = partial(_written_gradient, name, body, found, forward_type, flags)
        add(name, written, flags)
        return body

    return decorate


def _written_gradient(
    type: str,
    body: Body,
    read: Callable[[], Signature],
    forward_type: str,
    flags: Mapping[str, Any],
    **said: Any,
) -> OperatorDef:
    forward, found, more = defined(forward_type), read(), facts.read(flags) | said
    made = forward.gradient_slots()
    others = [one for one in more.get("untouched", ()) if one not in {slot.name for slot in made}]
    return OperatorDef(
        type=type,
        **_of(found)
        | {
            "inputs": tuple(Slot(slot.name, slot.many, True) for slot in found.inputs),
            "attributes": joined(found.attributes, forward.attributes),
        },
        outputs=(*made, *(Slot(name, optional=True) for name in others)),
        body=body,
        effects=declared("", found.context),
        **_inherited(forward) | more,
    )


def _maker(type: str, read: Callable[[], Signature], bare: bool) -> Maker:
    def make(op: Operator) -> list[GradOp]:
        found = read()
        own = {name: op.attrs[name] for name in found.attributes if name in op.attrs}
        made = gradient_op(op, type, [slot.name for slot in found.inputs])
        return [replace(made, attrs=own if bare else None)]

    return make


def many(op_type: str, *, rows: bool = False) -> Callable[[Body], Body]:
    """Registers the decorated function as doing several operators of that type at once.

    It takes a list per input slot and returns nothing: such operators write in place. rows: it
    takes gradients that are rows too, all of a call or none.
    """

    def decorate(body: Body) -> Body:
        say(op_type, many=body, many_rows=rows)
        return body

    return decorate


def in_place(op_type: str, slot: str) -> Callable[[Body], Body]:
    """Registers the decorated function as the operator overwriting what input `slot` holds."""

    def decorate(body: Body) -> Body:
        say(op_type, reusing={**(said(op_type, "reusing") or {}), slot_name(slot): body})
        return body

    return decorate


def starting(op_type: str) -> Callable[[Body], Body]:
    """Registers the decorated function as the operator that doesn't wait for its exchange.

    It takes what the operator takes and gives its outputs and the `Work` after which they hold.
    """

    def decorate(body: Body) -> Body:
        say(op_type, starting=body)
        return body

    return decorate


def gradient_op(op: Operator, type: str, slots: Sequence[str]) -> GradOp:
    """The gradient operator of `op` that reads `slots` and writes all input gradients."""
    forward = defined(op.type)
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
    forward = defined(op.type)
    if forward.maker is not None:
        return forward.maker(op)
    if forward.uses is None:
        return []
    derived = defined(op.type + "_grad")
    slots = [slot.name for slot in derived.inputs]
    return [gradient_op(op, derived.type, slots)]
