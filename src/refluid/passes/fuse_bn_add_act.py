"""act(elementwise_add(batch_norm(x), z)) -> fused_bn_add_activation(x, z).

The end of a residual block. The normalised x is not kept for the gradient, which saves its
memory; on the CPU sum and relu are one pass. Both orders of the sum. In the backward pass those
of activation and sum become one, which reads the result alone; that of the normalisation stays,
so that the result is gone when it makes the gradient of x.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.fuse_bn_act import (
    MADE,
    NORM,
    READS,
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


def _of_sum(match: Match) -> dict[str, Any]:
    """The functions of the sum and its activation."""
    return {"functor_list": [match.op("act").type, match.op("add").type]}


def _rule(y: str, z: str) -> Rule:
    """The rule where the normalised term is slot `y` of the sum and the other one slot `z`."""
    terms = f"{y}@GRAD=d_y, {z}@GRAD=d_z?"
    return Rule(
        f"""{NORM}
        add: elementwise_add({y}=y, {z}=z) -> Out=sum
        act: {_KINDS}(X=sum) -> Out=out""",
        f"fused_bn_add_activation(X=x, Z=z, {READS}, {STATISTICS}, MomentumTensor=keep) "
        f"-> Y=out, {MADE}",
        f"""act_grad: {{act}}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_sum
        add_grad: elementwise_add_grad({y}=y, {z}=z, Out@GRAD=d_sum) -> {terms}""",
        "fused_elemwise_activation_grad(X=out, Y=out, Out=out, Out@GRAD=d_out) "
        "-> X@GRAD=d_y, Y@GRAD=d_z",
        attributes,
        same_shapes,
        backward_attrs=_of_sum,
    )


RULES = (_rule("X", "Y"), _rule("Y", "X"))
