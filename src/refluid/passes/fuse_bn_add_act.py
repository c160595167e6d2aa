"""act(elementwise_add(batch_norm(x), z)) -> fused_bn_add_activation(x, z), and its gradient.

The end of a residual block. The normalised x is not kept for the gradient, which saves its
memory; on the CPU sum and relu are one pass. Both orders of the sum.
"""

from __future__ import annotations

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.fuse_bn_act import (
    GRADIENTS,
    MADE,
    NORM,
    NORM_GRAD,
    READS,
    RUNNING,
    SAVED,
    STATISTICS,
    attributes,
)
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_KINDS = "|".join(ACTIVATIONS)


def same_shapes(match: Match) -> str | None:
    """The two terms must have one shape, for the result's is that of the normalised term."""
    y, z = match.var("y"), match.var("z")
    if y.shape == z.shape:
        return None
    return f"{z.name} {list(z.shape)} has another shape than {y.name} {list(y.shape)}"


def _rule(y: str, z: str) -> Rule:
    """The rule where the normalised term is slot `y` of the sum and the other one slot `z`."""
    return Rule(
        f"""{NORM}
        add: elementwise_add({y}=y, {z}=z) -> Out=sum
        act: {_KINDS}(X=sum) -> Out=out""",
        f"fused_bn_add_activation(X=x, Z=z, {READS}, {STATISTICS}, MomentumTensor=keep) "
        f"-> Y=out, {MADE}",
        f"""act_grad: {{act}}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_sum
        add_grad: elementwise_add_grad({y}=y, {z}=z, Out@GRAD=d_sum) -> {y}@GRAD=d_y, {z}@GRAD=d_z?
        {NORM_GRAD}""",
        f"fused_bn_add_activation_grad(X=x, Y=out, {READS}, {SAVED}, {RUNNING}, Y@GRAD=d_out) "
        f"-> X@GRAD=d_x, Z@GRAD=d_z, {GRADIENTS}",
        attributes,
        same_shapes,
    )


RULES = (_rule("X", "Y"), _rule("Y", "X"))
