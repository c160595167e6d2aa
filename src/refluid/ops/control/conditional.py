"""`conditional_block`: a block runs if a condition holds, or if no condition is empty."""

from __future__ import annotations

from refluid.ir.attributes import AttrType
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute
from refluid.ops.inline import inline
from refluid.ops.nested import BLOCK, SKIP, BlockGradient, Gradients, Nested

_SCALAR = Attribute("is_scalar_condition", AttrType.BOOLEAN, False)


def _gradient(op: Operator, gradients: Gradients) -> BlockGradient:
    """Outputs without a gradient may have no value either: their branch wasn't taken."""
    outs = op.output("Out")
    given = [gradients.of(name) if name in gradients.known else EMPTY for name in outs]
    inputs = {
        "Cond": op.input("Cond"),
        "Input": op.input("Input"),
        "Out": outs,
        "Out" + GRAD: given,
        "Scope": op.output("Scope"),
    }
    outputs = {"Input" + GRAD: gradients.made(op.input("Input"))}
    attrs = {_SCALAR.name: op.attr(_SCALAR.name)}
    return BlockGradient(inputs, outputs, [name for name in given if name != EMPTY], attrs)


for _type, _nested in (
    ("conditional_block", Nested(record="Scope", gradient=_gradient, branches=True)),
    ("conditional_block_infer", Nested(branches=True)),
):
    inline(_type, "Cond*? Input*?", "Out*? Scope", *(BLOCK, _SCALAR, SKIP), nested=_nested)
inline(
    "conditional_block_grad",
    "Cond*? Input*? Out*? Out@GRAD*? Scope",
    "Input@GRAD*?",
    *(BLOCK, _SCALAR),
    nested=Nested(),
)
