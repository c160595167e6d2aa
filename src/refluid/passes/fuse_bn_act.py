"""act(batch_norm(x)) -> fused_batch_norm_act(x), and its gradient; the same of a sum with another.

No effect on the CPU of the former beyond a call less: torch normalises and activates in separate
passes there, and a plan activates in place anyhow. Cutting both into pieces that fit the cache was
slower.

`OF_SUMS`: act(elementwise_add(batch_norm(x), z)) -> fused_bn_add_activation(x, z), the end of a
residual block, in both orders of the sum. The normalised x is not kept for the gradient, which
saves its memory; on the CPU sum and relu are one pass. In the backward pass those of activation
and sum become one, which reads the result alone; that of the normalisation stays, so that the
result is gone when it makes the gradient of x.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_KINDS = "|".join(ACTIVATIONS)
_READS = "Scale=scale, Bias=bias"
_STATISTICS = "Mean=mean, Variance=variance"
_MADE = (
    "MeanOut=mean_out, VarianceOut=variance_out, SavedMean=saved_mean, "
    "SavedVariance=saved_variance, ReserveSpace=reserve?"
)
_SAVED = "SavedMean=saved_mean, SavedVariance=saved_variance, ReserveSpace=reserve?"
_RUNNING = "Mean=running_mean?, Variance=running_variance?"
_GRADIENTS = "Scale@GRAD=d_scale?, Bias@GRAD=d_bias?"
_NORM = f"norm: batch_norm(X=x, {_READS}, {_STATISTICS}, MomentumTensor=keep?) -> Y=y, {_MADE}"
_NORM_GRAD = (
    f"norm_grad: batch_norm_grad(X=x, {_READS}, {_SAVED}, {_RUNNING}, Y@GRAD=d_y) "
    f"-> X@GRAD=d_x?, {_GRADIENTS}"
)
_OWN = {"use_mkldnn", "fuse_with_relu"}


def attributes(match: Match) -> dict[str, Any]:
    """Those of the normalisation, and the activation."""
    norm = {name: value for name, value in match.op("norm").attrs.items() if name not in _OWN}
    return norm | {"act_type": match.op("act").type}


RULES = (
    Rule(
        f"{_NORM}\nact: {_KINDS}(X=y) -> Out=out",
        f"fused_batch_norm_act(X=x, {_READS}, {_STATISTICS}, MomentumTensor=keep) "
        f"-> Y=out, {_MADE}",
        f"act_grad: {{act}}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_y\n{_NORM_GRAD}",
        f"fused_batch_norm_act_grad(X=x, Y=out, {_READS}, {_SAVED}, {_RUNNING}, Y@GRAD=d_out) "
        f"-> X@GRAD=d_x, {_GRADIENTS}",
        attributes,
    ),
)


def _same_shapes(match: Match) -> str | None:
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
        f"""{_NORM}
        add: elementwise_add({y}=y, {z}=z) -> Out=sum
        act: {_KINDS}(X=sum) -> Out=out""",
        f"fused_bn_add_activation(X=x, Z=z, {_READS}, {_STATISTICS}, MomentumTensor=keep) "
        f"-> Y=out, {_MADE}",
        f"""act_grad: {{act}}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_sum
        add_grad: elementwise_add_grad({y}=y, {z}=z, Out@GRAD=d_sum) -> {terms}""",
        "fused_elemwise_activation_grad(X=out, Y=out, Out=out, Out@GRAD=d_out) "
        "-> X@GRAD=d_y, Y@GRAD=d_z",
        attributes,
        _same_shapes,
        backward_attrs=_of_sum,
    )


OF_SUMS = (_rule("X", "Y"), _rule("Y", "X"))
