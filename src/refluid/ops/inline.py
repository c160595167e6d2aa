"""Operators that a plan writes as its own Python: they have slots and attributes, but no body."""

from __future__ import annotations

from typing import Any

from refluid.ir.schema import Attribute
from refluid.ops import facts
from refluid.ops.drafts import add
from refluid.ops.effects import declared
from refluid.ops.infer import Infer, no_inference
from refluid.ops.nested import Nested
from refluid.ops.registry import Maker, OperatorDef
from refluid.ops.signature import parse_slots


def inline(
    type: str,
    inputs: str,
    outputs: str,
    *attributes: Attribute,
    maker: Maker | None = None,
    infer: Infer = no_inference,
    nested: Nested | None = None,
    effects: str = "",
    **flags: Any,
) -> None:
    """Registers such an operator. nested: what it does with its block; others as of `operator`."""

    def make() -> OperatorDef:
        return OperatorDef(
            type=type,
            inputs=parse_slots(inputs),
            outputs=parse_slots(outputs),
            attributes={attribute.name: attribute for attribute in attributes},
            maker=maker,
            infer_rule=infer,
            nested=nested,
            effects=declared(effects),
            **facts.read(flags),
        )

    add(type, make, flags)
