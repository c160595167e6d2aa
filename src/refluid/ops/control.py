"""Operators that a plan writes as its own Python: they have slots and attributes, but no body.

Feeds and fetches, operators that run a block, and the reading and writing of arrays.
"""

from __future__ import annotations

from refluid.core.dtypes import VarType
from refluid.ir.attributes import AttrType
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute
from refluid.ops.describing import constant_shape, like
from refluid.ops.drafts import add
from refluid.ops.effects import Effect
from refluid.ops.infer import Infer, no_inference
from refluid.ops.registry import GradOp, Maker
from refluid.ops.signature import parse_slots


def _declare(
    type: str,
    inputs: str,
    outputs: str,
    *attributes: Attribute,
    maker: Maker | None = None,
    infer: Infer = no_inference,
    effects: Effect = Effect.NONE,
) -> None:
    add(
        type,
        type=type,
        inputs=parse_slots(inputs),
        outputs=parse_slots(outputs),
        attributes={attribute.name: attribute for attribute in attributes},
        effects=effects,
        maker=maker,
        infer_rule=infer,
    )


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
_BLOCK = Attribute("sub_block", AttrType.BLOCK, required=True)
_SKIP = Attribute("skip_eager_deletion_vars", AttrType.STRINGS, [])
_SCALAR = Attribute("is_scalar_condition", AttrType.BOOLEAN, False)
_TEST = Attribute("is_test", AttrType.BOOLEAN, False)
_RECURRENT = (
    Attribute("has_states", AttrType.BOOLEAN, False),
    Attribute("ex_states", AttrType.STRINGS, required=True),
    Attribute("states", AttrType.STRINGS, required=True),
    _BLOCK,
    Attribute("reverse", AttrType.BOOLEAN, False),
    Attribute("is_train", AttrType.BOOLEAN, True),
    _SKIP,
)

_declare("feed", "X", "Out", _COLUMN)
_declare("fetch", "X", "Out", _COLUMN)

_declare("conditional_block", "Cond*? Input*?", "Out*? Scope", _BLOCK, _SCALAR, _SKIP)
_declare("conditional_block_infer", "Cond*? Input*?", "Out*? Scope", _BLOCK, _SCALAR, _SKIP)
_declare(
    "conditional_block_grad",
    "Cond*? Input*? Out*? Out@GRAD*? Scope",
    "Input@GRAD*?",
    _BLOCK,
    _SCALAR,
)

_declare("while", "X*? Condition*", "Out*? StepScopes", _BLOCK, _TEST, _SKIP)
_declare(
    "while_grad",
    "X*? Out*? Out@GRAD*? StepScopes",
    "X@GRAD*?",
    _BLOCK,
    _TEST,
    _SKIP,
    Attribute("original_output_grad", AttrType.STRINGS, []),
)

# A pass may ask `recurrent_grad` for values of each step beside the gradients of inputs: a slot
# of outer names, and an attribute of their names inside. Not part of Fluid's operator.
STEP_VALUES = "step_values"
_declare(
    "recurrent", "inputs*? initial_states*? parameters*?", "outputs*? step_scopes", *_RECURRENT
)
_declare(
    "recurrent_grad",
    "inputs*? initial_states*? parameters*? outputs*? step_scopes outputs@GRAD*? step_scopes@GRAD?",
    f"inputs@GRAD*? initial_states@GRAD*? parameters@GRAD*? {STEP_VALUES}*?",
    *_RECURRENT,
    Attribute(STEP_VALUES, AttrType.STRINGS, []),
)

_declare(
    "write_to_array", "X I", "Out", maker=_write_gradient, infer=like(Out="X"), effects=Effect.STATE
)
_declare("read_from_array", "X I X_W?", "Out", maker=_read_gradient, infer=like(Out="X"))
_declare("lod_array_length", "X", "Out", infer=constant_shape(VarType.INT64, 1))
# Out[Mask] is X, the others get no value.
_declare("select_output", "X Mask", "Out*", maker=select_gradient, infer=like(Out="X"))
