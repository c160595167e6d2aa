"""`while`: a block runs as long as a condition holds."""

from __future__ import annotations

from refluid.ir.attributes import AttrType
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute
from refluid.ops.inline import inline
from refluid.ops.nested import BLOCK, SKIP, BlockGradient, Carried, Gradients, Nested

_TEST = Attribute("is_test", AttrType.BOOLEAN, False)
_OUTER_GRADIENTS = Attribute("original_output_grad", AttrType.STRINGS, [])


def _changed(op: Operator) -> Carried:
    """What a round changes, the next one starts with."""
    return [(name, name) for name in op.input("X") if name in op.output("Out")]


def _gradient(op: Operator, gradients: Gradients) -> BlockGradient:
    """A round's gradients of what it changes are those that the round before it starts with."""
    outs = [name for name in gradients.read if name in op.output("Out")][::-1]
    inputs = {
        "X": op.input("X"),
        "Out": op.output("Out"),
        "Out" + GRAD: [gradients.of(name) for name in outs],
        "StepScopes": op.output("StepScopes"),
    }
    outputs = {"X" + GRAD: gradients.made(op.input("X"))}
    return BlockGradient(
        inputs,
        outputs,
        [gradients.of(name) for name in outs if name in gradients.known],
        lists={_OUTER_GRADIENTS.name: [name + GRAD for name in outs]},
    )


inline(
    "while",
    "X*? Condition*",
    "Out*? StepScopes",
    *(BLOCK, _TEST, SKIP),
    nested=Nested(record="StepScopes", gradient=_gradient, carried=_changed),
)
inline(
    "while_grad",
    "X*? Out*? Out@GRAD*? StepScopes",
    "X@GRAD*?",
    *(BLOCK, _TEST, SKIP, _OUTER_GRADIENTS),
    nested=Nested(),
)
