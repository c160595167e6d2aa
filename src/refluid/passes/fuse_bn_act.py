"""act(batch_norm(x)) -> fused_batch_norm_act(x), and its gradient.

No effect on the CPU beyond a call less: torch normalises and activates in separate passes there,
and a plan activates in place anyhow. Cutting both into pieces that fit the cache was slower.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_KINDS = "|".join(ACTIVATIONS)
READS = "Scale=scale, Bias=bias"
STATISTICS = "Mean=mean, Variance=variance"
MADE = (
    "MeanOut=mean_out, VarianceOut=variance_out, SavedMean=saved_mean, "
    "SavedVariance=saved_variance, ReserveSpace=reserve?"
)
SAVED = "SavedMean=saved_mean, SavedVariance=saved_variance, ReserveSpace=reserve?"
RUNNING = "Mean=running_mean?, Variance=running_variance?"
GRADIENTS = "Scale@GRAD=d_scale?, Bias@GRAD=d_bias?"
NORM = f"norm: batch_norm(X=x, {READS}, {STATISTICS}, MomentumTensor=keep?) -> Y=y, {MADE}"
NORM_GRAD = (
    f"norm_grad: batch_norm_grad(X=x, {READS}, {SAVED}, {RUNNING}, Y@GRAD=d_y) "
    f"-> X@GRAD=d_x?, {GRADIENTS}"
)
_OWN = {"use_mkldnn", "fuse_with_relu"}


def attributes(match: Match) -> dict[str, Any]:
    """Those of the normalisation, and the activation."""
    norm = {name: value for name, value in match.op("norm").attrs.items() if name not in _OWN}
    return norm | {"act_type": match.op("act").type}


RULES = (
    Rule(
        f"{NORM}\nact: {_KINDS}(X=y) -> Out=out",
        f"fused_batch_norm_act(X=x, {READS}, {STATISTICS}, MomentumTensor=keep) -> Y=out, {MADE}",
        f"act_grad: {{act}}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_y\n{NORM_GRAD}",
        f"fused_batch_norm_act_grad(X=x, Y=out, {READS}, {SAVED}, {RUNNING}, Y@GRAD=d_out) "
        f"-> X@GRAD=d_x, {GRADIENTS}",
        attributes,
    ),
)
