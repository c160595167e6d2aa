"""Batch normalisation over the batches of all replicas."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.ir.operator import Operator
from refluid.ops.bounded import Epsilon
from refluid.ops.infer import infer_in_place, infer_like
from refluid.ops.norm.normalization import channels_first, in_layout
from refluid.ops.registry import OperatorDef, gradient, operator


def _infer(definition: OperatorDef, op: Operator) -> None:
    infer_like("Y", "X")(definition, op)
    for slot in ("SavedMean", "SavedVariance"):
        infer_like(slot, "Mean")(definition, op)
    infer_in_place(definition, op)


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (x.dim() - 2))


def _sums(x: Tensor) -> Tensor:
    return x.sum([dim for dim in range(x.dim()) if dim != 1])


@operator(
    "sync_batch_norm",
    gradient_lod="none",
    outputs="Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace?",
    uses="X Scale Bias SavedMean SavedVariance",
    differentiable="X Scale Bias",
    amp="keep",
    mutates={"MeanOut": "Mean", "VarianceOut": "Variance"},
    infer=_infer,
    extra={"use_mkldnn": False, "fuse_with_relu": False},
    without_lod="MeanOut VarianceOut SavedMean SavedVariance ReserveSpace",
)
def sync_batch_norm(
    X: Tensor,
    Scale: Tensor,
    Bias: Tensor,
    Mean: Tensor,
    Variance: Tensor,
    MomentumTensor: Tensor | None = None,
    *,
    comm: Communicator,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: Epsilon = 1e-5,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
) -> tuple[Tensor | None, ...]:
    """`batch_norm` whose batch statistics are those of the batches of all replicas together."""
    x = channels_first(X, data_layout)
    if use_global_stats or (is_test and not trainable_statistics):
        mean, variance = Mean, Variance
    else:
        mean, variance = _statistics(x, comm)
        keep = momentum if MomentumTensor is None else MomentumTensor.item()
        Mean.mul_(keep).add_(mean, alpha=1.0 - keep)
        Variance.mul_(keep).add_(variance, alpha=1.0 - keep)
    inverse = (variance + epsilon).rsqrt()
    scale = Scale * inverse
    y = x * _per_channel(scale, x) + _per_channel(Bias - mean * scale, x)
    return in_layout(y, data_layout), Mean, Variance, mean, inverse, None


def _statistics(x: Tensor, comm: Communicator) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel over all replicas, from those of each one."""
    dims = [dim for dim in range(x.dim()) if dim != 1]
    variance, mean = torch.var_mean(x, dims, correction=0)
    count = torch.full_like(mean, x.numel() / x.shape[1])
    gathered = comm.all_gather(torch.stack([count, mean, variance]))
    everyone = [part for part in gathered if isinstance(part, Tensor)]
    counts, means, variances = torch.stack(everyone, 1)
    total = counts.sum(0)
    joint = (counts * means).sum(0) / total
    return joint, (counts * (variances + (means - joint) ** 2)).sum(0) / total


@gradient("sync_batch_norm")
def sync_batch_norm_grad(
    X: Tensor,
    Scale: Tensor,
    Bias: Tensor,
    SavedMean: Tensor,
    SavedVariance: Tensor,
    d_Y: Tensor,
    *,
    comm: Communicator,
    data_layout: str = "NCHW",
    need: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, ...]:
    """Gradients of X, and of Scale and Bias as this replica's batch contributes to them."""
    x, grad = channels_first(X, data_layout), channels_first(d_Y, data_layout)
    centred = (x - _per_channel(SavedMean, x)) * _per_channel(SavedVariance, x)
    d_bias, d_scale = _sums(grad), _sums(grad * centred)
    count = torch.full_like(d_bias, x.numel() / x.shape[1])
    sums = torch.stack([count, d_bias, d_scale])
    comm.all_reduce([sums])
    total, bias, scale = sums
    d_x = grad - _per_channel(bias / total, x) - centred * _per_channel(scale / total, x)
    d_x *= _per_channel(Scale * SavedVariance, x)
    return in_layout(d_x, data_layout) if need[0] else None, d_scale, d_bias
