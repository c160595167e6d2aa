"""Operators as Fluid's `OpProto` messages: their slots and attributes, from the registry."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import refluid.ops  # noqa: F401
from refluid.ir import schema
from refluid.ir.schema import OpSchema, Slot

if TYPE_CHECKING:
    from refluid.ir import framework_pb2 as pb


def operator_types() -> list[str]:
    """All operators, by name."""
    return sorted(schema.known())


@cache
def operator_proto(op_type: str) -> pb.OpProto:
    """The slots and attributes of an operator; ValueError for an unknown one."""
    from refluid.ir import framework_pb2 as pb  # Google's library, which most programs don't need

    found = schema.find(op_type)
    if found is None:
        raise ValueError(f'Operator "{op_type}" has not been registered.')
    return pb.OpProto(
        type=op_type,
        inputs=[pb.OpProto.Var(**_slot(one, "input", found)) for one in found.inputs],
        outputs=[pb.OpProto.Var(**_slot(one, "output", found)) for one in found.outputs],
        attrs=[
            pb.OpProto.Attr(name=one.name, type=one.kind.name, comment=_comment(one.default))
            for one in found.attributes.values()
            if not one.inner
        ],
        comment=f"{op_type}, as docs/operators.md says",
    )


def operator_defaults(op_type: str) -> dict[str, Any]:
    """Defaults of the attributes that have one."""
    found = schema.find(op_type)
    attributes = found.attributes.values() if found else ()
    return {one.name: one.default for one in attributes if not (one.required or one.inner)}


def _slot(slot: Slot, side: str, found: OpSchema) -> dict[str, Any]:
    return {
        "name": slot.name,
        "comment": f"{side} of {found.type}",
        "duplicable": slot.many,
        "dispensable": slot.optional,
    }


def _comment(default: Any) -> str:
    return "" if default is None else f"default {default!r}"
