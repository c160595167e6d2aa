"""Rules for what a program says of outputs whose operator can't be tried on empty tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refluid.core.dtypes import VarType
from refluid.ir.operator import Operator
from refluid.ops.infer import Infer

if TYPE_CHECKING:
    from refluid.ops.registry import OperatorDef


def like(added: int = 0, **outputs: str) -> Infer:
    """A rule: each output has shape, type and LoD level of an input: `like(Out="X")`.

    added: how many LoD levels more than that input; never less than none.
    """

    def rule(definition: OperatorDef, op: Operator) -> None:
        for output, source in outputs.items():
            names = op.input(source)
            var = op.block.find_var_recursive(names[0]) if names else None
            if var is None or not var.has_description():
                continue
            for name in op.output(output):
                out = op.block.find_var_recursive(name)
                if out is not None:
                    out.describe(shape=var.shape, dtype=var.dtype)
                    out.lod_level = max(var.lod_level + added, 0)

    return rule


def constant_shape(dtype: VarType, *shape: int) -> Infer:
    """A rule: outputs have this shape and type."""

    def rule(definition: OperatorDef, op: Operator) -> None:
        for name in op.output_arg_names:
            op.block.var_recursive(name).describe(shape=shape, dtype=dtype)

    return rule
