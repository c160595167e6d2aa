"""Inference for operators whose number of rows is known only when they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refluid.core.dtypes import VarType
from refluid.ir.operator import Operator
from refluid.ops.infer import Infer, InputSpec
from refluid.ops.registry import OperatorDef
from refluid.ops.unknown import reckoned

ROWS = -1
ShapeRule = Callable[[Operator, Mapping[str, InputSpec]], Mapping[str, InputSpec]]


def infer_by(rule: ShapeRule, **levels: str) -> Infer:
    """A rule for shapes: `rule(op, inputs)` gives shape and type by output slot.

    inputs: of the first variable of each input slot. levels: output slot -> the input slot whose
    LoD level it has; outputs not named have none. Does nothing while an input is not described.
    """

    def infer(definition: OperatorDef, op: Operator) -> None:
        inputs: dict[str, InputSpec] = {}
        depth: dict[str, int] = {}
        for slot, names in op.inputs.items():
            var = op.block.find_var_recursive(names[0]) if names else None
            if var is not None and not var.has_description():
                return
            if var is not None:
                inputs[slot], depth[slot] = (reckoned(var.shape), var.dtype), var.lod_level
        for slot, (shape, dtype) in rule(op, inputs).items():
            for name in op.output(slot):
                var = op.block.var_recursive(name)
                var.describe(shape=shape, dtype=dtype)
                var.lod_level = depth.get(levels.get(slot, ""), 0)

    return infer


def pooled(channels: Callable[[Operator, int], int], *also: tuple[str, VarType | None]) -> Infer:
    """A rule: Out is (RoIs, channels, pooled_height, pooled_width) of the type of X.

    channels: their number from the operator and X's. also: further outputs of that shape and
    their types, X's where None.
    """

    def rule(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
        shape, dtype = inputs["X"]
        rows = inputs["ROIs"][0][0]
        size = op.attrs["pooled_height"], op.attrs["pooled_width"]
        made = rows, channels(op, shape[1]), *size
        return {"Out": (made, dtype)} | {slot: (made, kind or dtype) for slot, kind in also}

    return infer_by(rule)
