"""`recurrent`, the operator of StaticRNN: a block runs once for each time step of its inputs."""

from __future__ import annotations

from refluid.ir.attributes import AttrType
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute
from refluid.ops.inline import inline
from refluid.ops.nested import BLOCK, SKIP, BlockGradient, Carried, Gradients, Nested

# A pass may ask `recurrent_grad` for values of each step beside the gradients of inputs: a slot
# of outer names, and an attribute of their names inside. Not part of Fluid's operator.
STEP_VALUES = "step_values"
_ATTRIBUTES = (
    Attribute("has_states", AttrType.BOOLEAN, False),
    Attribute("ex_states", AttrType.STRINGS, required=True),
    Attribute("states", AttrType.STRINGS, required=True),
    BLOCK,
    Attribute("reverse", AttrType.BOOLEAN, False),
    Attribute("is_train", AttrType.BOOLEAN, True),
    SKIP,
)


def _states(op: Operator) -> Carried:
    return list(zip(op.attr("ex_states"), op.attr("states"), strict=True))


def _gradient(op: Operator, gradients: Gradients) -> BlockGradient:
    outs = op.output("outputs")
    inputs = {
        "inputs": op.input("inputs"),
        "initial_states": op.input("initial_states"),
        "parameters": op.input("parameters"),
        "outputs": outs,
        "step_scopes": op.output("step_scopes"),
        "outputs" + GRAD: [gradients.of(name) for name in outs],
        "step_scopes" + GRAD: op.output("step_scopes"),
    }
    outputs = {
        "inputs" + GRAD: gradients.made(op.input("inputs")),
        "initial_states" + GRAD: gradients.made(op.input("initial_states"), op.attr("ex_states")),
        "parameters" + GRAD: gradients.made(op.input("parameters")),
    }
    return BlockGradient(inputs, outputs, gradients.given(outs))


inline(
    "recurrent",
    "inputs*? initial_states*? parameters*?",
    "outputs*? step_scopes",
    *_ATTRIBUTES,
    nested=Nested(
        record="step_scopes",
        gradient=_gradient,
        entering=lambda op, known: set(op.output("outputs")),
        carried=_states,
        stepped="inputs",
        stacked="outputs",
    ),
)
inline(
    "recurrent_grad",
    "inputs*? initial_states*? parameters*? outputs*? step_scopes outputs@GRAD*? step_scopes@GRAD?",
    f"inputs@GRAD*? initial_states@GRAD*? parameters@GRAD*? {STEP_VALUES}*?",
    *_ATTRIBUTES,
    Attribute(STEP_VALUES, AttrType.STRINGS, []),
    nested=Nested(stacked="inputs" + GRAD),
)
