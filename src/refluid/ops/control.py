"""Operators that a plan writes as its own Python: they have slots and attributes, but no body."""

from __future__ import annotations

from refluid.ir.attributes import AttrType
from refluid.ir.schema import Attribute
from refluid.ops.infer import no_inference
from refluid.ops.registry import OperatorDef, add
from refluid.ops.signature import parse_slots


def _declare(type: str, inputs: str, outputs: str, *attributes: Attribute) -> None:
    add(
        OperatorDef(
            type,
            parse_slots(inputs),
            parse_slots(outputs),
            {attribute.name: attribute for attribute in attributes},
            effects=True,
            infer_rule=no_inference,
        )
    )


_COLUMN = Attribute("col", AttrType.INT, required=True)
_BLOCK = Attribute("sub_block", AttrType.BLOCK, required=True)
_SKIP = Attribute("skip_eager_deletion_vars", AttrType.STRINGS, [])

_declare("feed", "X", "Out", _COLUMN)
_declare("fetch", "X", "Out", _COLUMN)
_declare(
    "conditional_block",
    "Cond*? Input*?",
    "Out*? Scope",
    _BLOCK,
    Attribute("is_scalar_condition", AttrType.BOOLEAN, False),
    _SKIP,
)
