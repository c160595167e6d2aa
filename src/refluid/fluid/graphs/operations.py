"""What a forward pass of a program computes, counted from its shapes."""

from __future__ import annotations

import math

from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.ir.program import Program

_CONVOLUTIONS = ("conv2d", "depthwise_conv2d", "conv2d_transpose", "depthwise_conv2d_transpose")
# Operations for each element of the first output.
_EACH = {
    **dict.fromkeys(("relu", "relu6", "leaky_relu", "sigmoid", "tanh", "swish", "hard_swish"), 1),
    **dict.fromkeys(("elementwise_add", "elementwise_sub", "elementwise_mul", "scale"), 1),
    "batch_norm": 2,
}


def flops_of(program: Program, *, only_conv: bool = False) -> int:
    """Operations for one row; a multiplication and its addition are two.

    Counted are convolutions and matrix products, and unless `only_conv` pooling, batch norms,
    activations and elementwise arithmetic.
    """
    ops = program.global_block().ops
    return sum(operations(op, only_conv=only_conv) for op in ops if is_forward(op))


def is_forward(op: Operator) -> bool:
    """Whether it is of the forward pass."""
    return op.role in (OpRole.FORWARD, OpRole.LOSS)


def operations(op: Operator, *, only_conv: bool = False) -> int:
    """Those that one operator makes for one row, of the kinds that `flops_of` counts; else 0."""
    if op.type in _CONVOLUTIONS:
        return _convolution(op)
    if op.type in ("mul", "matmul"):
        return 2 * _made(op, "Out") * _inner(op)
    if only_conv:
        return 0
    if op.type == "pool2d":
        return _pooling(op)
    each = _EACH.get(op.type, 0)
    return each * _made(op, op.output_names[0]) if each else 0


def _shape(op: Operator, name: str) -> tuple[int, ...]:
    shape: tuple[int, ...] = op.block.var_recursive(name).shape
    return shape


def _made(op: Operator, slot: str) -> int:
    """Elements that one row of an output has."""
    names = op.output("Y") or op.output(slot)
    return math.prod(abs(size) for size in _shape(op, names[0])[1:])


def _convolution(op: Operator) -> int:
    filters = _shape(op, op.input("Filter")[0])
    each = 2 * math.prod(filters[1:])
    if "transpose" in op.type:
        return each * math.prod(_shape(op, op.input("Input")[0])[1:])
    made = math.prod(_shape(op, op.output("Output")[0])[1:])
    return (each + (1 if op.input("Bias") else 0)) * made


def _inner(op: Operator) -> int:
    if op.type == "mul":
        return math.prod(_shape(op, op.input("X")[0])[op.attr("x_num_col_dims") :])
    axis = -2 if op.attr("transpose_X") else -1
    return abs(_shape(op, op.input("X")[0])[axis])


def _pooling(op: Operator) -> int:
    if op.attr("global_pooling") or op.attr("adaptive"):
        return math.prod(_shape(op, op.input("X")[0])[1:])
    window: list[int] = op.attr("ksize")
    return _made(op, "Out") * math.prod(window)
