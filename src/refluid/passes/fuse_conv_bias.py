"""elementwise_add(conv2d(x), bias) -> conv2d(x, Bias=bias), and its gradient.

The convolution writes its result with the bias in it: a pass over memory less, and the result
without bias isn't kept for the gradient. The bias's gradient comes from the same backward call.
"""

from __future__ import annotations

from typing import Any

from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule


def attributes(match: Match) -> dict[str, Any]:
    """Those of the convolution."""
    return match.op("conv").attrs


def one_per_channel(match: Match) -> str | None:
    """The bias must be one number for each channel of the result; mixed precision casts it."""
    bias, result = match.var("bias"), match.var("plain")
    last = match.op("conv").attr("data_format") == "NHWC"
    channel = len(result.shape) - 1 if last else 1
    axis = match.op("add").attr("axis")
    axis = len(result.shape) - len(bias.shape) if axis == -1 else axis
    if axis != channel or bias.shape != (result.shape[channel],) or bias.shape[0] < 0:
        return f"{bias.name} {list(bias.shape)} is not one number for each channel"
    if bias.dtype != result.dtype:
        return f"{bias.name} is of another type than the convolution"
    return None


RULES = (
    Rule(
        """conv: conv2d|depthwise_conv2d(Input=x, Filter=filter) -> Output=plain
        add: elementwise_add(X=plain, Y=bias) -> Out=out""",
        "{conv}(Input=x, Filter=filter, Bias=bias) -> Output=out",
        """add_grad: elementwise_add_grad(
            X=plain, Y=bias, Out@GRAD=d_out
        ) -> X@GRAD=d_plain, Y@GRAD=d_bias?
        conv_grad: {conv}_grad(
            Input=x, Filter=filter, Output@GRAD=d_plain
        ) -> Input@GRAD=d_x?, Filter@GRAD=d_filter?""",
        "{conv}_grad(Input=x, Filter=filter, Bias=bias, Output@GRAD=d_out) "
        "-> Input@GRAD=d_x, Filter@GRAD=d_filter, Bias@GRAD=d_bias",
        attributes,
        one_per_channel,
    ),
)
