"""The LoD levels that outputs declare, where they are not those of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.lod_rules import while_rows_stay

if TYPE_CHECKING:
    from refluid.ops.definition import OperatorDef


def declare_lods(definition: OperatorDef, op: Operator) -> None:
    """Corrects the levels of outputs without LoD or of other rows, and of gradients."""
    bare = list(definition.without_lod)
    if definition.lod_by is not None and definition.lod_by(op) is while_rows_stay:
        first = definition.outputs[0].name
        bare += [first] if _rows_change(definition, op) else []
    for slot, names in op.outputs.items():
        if slot in bare or (slot.endswith(GRAD) and _without(definition, op)):
            _declare_none(op, names)


def _rows_change(definition: OperatorDef, op: Operator) -> bool:
    source = definition.lod_source(op)
    names = [source, *op.output(definition.outputs[0].name)]
    rows = []
    for name in filter(None, names):
        var = op.block.find_var_recursive(name)
        if var is not None and var.has_description() and var.shape:
            rows.append(var.shape[0])
    return len(set(rows)) > 1


def _without(definition: OperatorDef, op: Operator) -> bool:
    """Whether the gradients that the operator makes declare no LoD."""
    if definition.gradient_lod != "given":
        return definition.gradient_lod in ("none", "undeclared")
    given = [name for slot, names in op.inputs.items() if slot.endswith(GRAD) for name in names]
    levels = [op.block.find_var_recursive(name) for name in given]
    return not any(var is not None and var.lod_level for var in levels)


def _declare_none(op: Operator, names: list[str]) -> None:
    for name in names:
        var = op.block.find_var_recursive(name)
        if var is not None and var.lod_level and not var.persistable:
            var.lod_level = 0
