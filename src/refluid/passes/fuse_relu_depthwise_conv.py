"""depthwise_conv2d(relu(x)) -> depthwise_conv2d(x) with fuse_relu_before_depthwise_conv.

The gradient applies relu again instead of keeping its result: where x is kept anyhow, as in
blocks that add x to their result, that is one activation less in memory for one more pass.
"""

from __future__ import annotations

from typing import Any

from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule


def attributes(match: Match) -> dict[str, Any]:
    """Those of the convolution."""
    return {**match.op("conv").attrs, "fuse_relu_before_depthwise_conv": True}


RULES = (
    Rule(
        """act: relu(X=x) -> Out=active
        conv: depthwise_conv2d(Input=active, Filter=filter, Bias=bias?) -> Output=out""",
        "depthwise_conv2d(Input=x, Filter=filter, Bias=bias) -> Output=out",
        """conv_grad: depthwise_conv2d_grad(
            Input=active, Filter=filter, Bias=bias?, Output@GRAD=d_out
        ) -> Input@GRAD=d_active, Filter@GRAD=d_filter?, Bias@GRAD=d_bias?
        act_grad: relu_grad(Out=active, Out@GRAD=d_active) -> X@GRAD=d_x""",
        "depthwise_conv2d_grad(Input=x, Filter=filter, Bias=bias, Output@GRAD=d_out) "
        "-> Input@GRAD=d_x, Filter@GRAD=d_filter, Bias@GRAD=d_bias",
        attributes,
    ),
)
