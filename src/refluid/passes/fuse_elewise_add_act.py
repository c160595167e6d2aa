"""act(elementwise_add(x, y)) -> fused_elemwise_activation(x, y), and its gradient.

On the CPU `relu` of a sum is one pass over memory instead of two. The gradient needs neither the
sum nor, where y is a bias, x. Activations: those whose gradient their result tells.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.pattern import Match
from refluid.passes.rewrite import ANOTHER, Rule

_KINDS = "|".join(ACTIVATIONS)
_FORWARD = f"""
    add: elementwise_add(X=x, Y=y) -> Out=sum
    act: {_KINDS}(X=sum) -> Out=out
"""
_FUSED = "fused_elemwise_activation(X=x, Y=y) -> Out=out"
_BACKWARD = """
    act_grad: {act}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_sum
    add_grad: elementwise_add_grad(X=x, Y=y, Out@GRAD=d_sum) -> X@GRAD=d_x?, Y@GRAD=d_y?
"""
_GRADIENTS = "-> X@GRAD=d_x, Y@GRAD=d_y"


def attributes(match: Match) -> dict[str, Any]:
    """The functors, and where y is aligned."""
    return {
        "functor_list": [match.op("act").type, "elementwise_add"],
        "axis": match.op("add").attr("axis"),
    }


def _is_bias(match: Match) -> str | None:
    """Whether the sum has the shape of x, so that the result tells the shape of x."""
    y = match.var("y")
    bias = (
        y.persistable and min(y.shape, default=-1) > 0 and len(y.shape) < len(match.var("x").shape)
    )
    return None if bias else ANOTHER


RULES = (
    Rule(
        _FORWARD,
        _FUSED,
        _BACKWARD,
        f"fused_elemwise_activation_grad(X=out, Y=y, Out=out, Out@GRAD=d_out) {_GRADIENTS}",
        attributes,
        _is_bias,
    ),
    Rule(
        _FORWARD,
        _FUSED,
        _BACKWARD,
        f"fused_elemwise_activation_grad(X=x, Y=y, Out=out, Out@GRAD=d_out) {_GRADIENTS}",
        attributes,
    ),
)
