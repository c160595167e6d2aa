"""Sizes that Fluid multiplies while a program is built, unknown ones (-1) included.

Two unknown sizes make 1, and an unknown one times 16 makes -16. Programs carry such sizes, so
they are kept; they mean no more than -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from refluid.ir.operator import Operator
from refluid.ops.infer import Infer, infer_by_probing
from refluid.ops.registry import OperatorDef

Shape = tuple[int, ...]
Sizes = Callable[[Operator, Shape], Mapping[str, Shape]]


def infer_products(sizes: Sizes) -> Infer:
    """A rule: as probing says, but the output slots in `sizes(op, shape of X)` have that shape."""

    def rule(definition: OperatorDef, op: Operator) -> None:
        infer_by_probing(definition, op)
        x = op.block.var_recursive(op.input("X")[0])
        if not x.has_description():
            return
        for slot, shape in sizes(op, x.shape).items():
            for name in op.output(slot):
                op.block.var_recursive(name).describe(shape=shape, dtype=None)

    return rule


def _flat(op: Operator, shape: Shape) -> dict[str, Shape]:
    axis = op.attrs.get("axis", 1)
    return {"Out": (math.prod(shape[:axis]), math.prod(shape[axis:]))}


def _rows(op: Operator, shape: Shape) -> dict[str, Shape]:
    rows = (math.prod(shape[: op.attrs.get("begin_norm_axis", 1)]),)
    return {"Mean": rows, "Variance": rows}


def _channels(op: Operator, shape: Shape) -> dict[str, Shape]:
    rows = (shape[0] * shape[1],)
    return {"SavedMean": rows, "SavedVariance": rows}


infer_flat = infer_products(_flat)
infer_layer_norm = infer_products(_rows)
infer_instance_norm = infer_products(_channels)
