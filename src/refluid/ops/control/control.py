"""Feeds and fetches, the choice of a branch, and the reading and writing of arrays."""

from __future__ import annotations

from refluid.core.dtypes import VarType
from refluid.ir.attributes import AttrType
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute
from refluid.ops.describing import constant_shape, like
from refluid.ops.inline import inline
from refluid.ops.registry import GradOp


def _write_gradient(op: Operator) -> list[GradOp]:
    """What was written is read back; where nothing came back, zeros like what was written."""
    inputs = {
        "I": op.input("I"),
        "X": [name + GRAD for name in op.output("Out")],
        "X_W": op.input("X"),
    }
    return [GradOp("read_from_array", inputs, {"Out": [name + GRAD for name in op.input("X")]})]


def _read_gradient(op: Operator) -> list[GradOp]:
    """The gradient is written to the same place of an array of gradients."""
    inputs = {"I": op.input("I"), "X": [name + GRAD for name in op.output("Out")]}
    return [GradOp("write_to_array", inputs, {"Out": [name + GRAD for name in op.input("X")]})]


def select_gradient(op: Operator) -> list[GradOp]:
    """The gradient goes to the branch that was chosen, or comes from it."""
    other = {"select_input": "select_output", "select_output": "select_input"}[op.type]
    inputs = {"X": [name + GRAD for name in op.output("Out")], "Mask": op.input("Mask")}
    return [GradOp(other, inputs, {"Out": [name + GRAD for name in op.input("X")]})]


_COLUMN = Attribute("col", AttrType.INT, required=True)

inline("feed", "X", "Out", _COLUMN)
inline("fetch", "X", "Out", _COLUMN)

inline(
    "write_to_array",
    "X I",
    "Out",
    maker=_write_gradient,
    infer=like(Out="X"),
    effects="state",
    position="I",
)
inline(
    "read_from_array", "X I X_W?", "Out", maker=_read_gradient, infer=like(Out="X"), position="I"
)
inline("lod_array_length", "X", "Out", infer=constant_shape(VarType.INT64, 1))
# The results X are handed out; when the step goes on, Out is what came back for each.
inline("pause", "X*", "Out*", effects="host")
# Out[Mask] is X, the others get no value.
inline("select_output", "X Mask", "Out*", maker=select_gradient, infer=like(Out="X"))
