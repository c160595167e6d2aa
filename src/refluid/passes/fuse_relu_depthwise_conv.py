"""depthwise_conv2d(relu(x)) -> depthwise_conv2d(x) with fuse_relu_before_depthwise_conv.

The gradient applies relu again instead of keeping its result: where another gradient reads x
anyhow, that is one activation less in memory for one more pass. Elsewhere nothing would be saved,
so relu stays.
"""

from __future__ import annotations

from typing import Any

from refluid.analysis.placeholders import values_read
from refluid.analysis.uses import key_of
from refluid.ir.attributes import OpRole
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule


def attributes(match: Match) -> dict[str, Any]:
    """Those of the convolution."""
    return {**match.op("conv").attrs, "fuse_relu_before_depthwise_conv": True}


def _kept_anyhow(match: Match) -> str | None:
    """Why nothing would be saved: what else is read in the backward pass isn't x."""
    if "act_grad" not in match.positions:
        return None
    x, block, own = match.versions["x"], match.uses.block, match.positions.values()
    assert x is not None
    others = [block.ops[place] for place in match.uses.users(x) if place not in own]
    if any(op.role & OpRole.BACKWARD and key_of(block, x.name) in values_read(op) for op in others):
        return None
    return f"nothing else keeps {x.name} for the backward pass"


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
        _kept_anyhow,
    ),
)
