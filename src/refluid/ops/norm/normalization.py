"""Batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.kernels.epilogues import laid_as
from refluid.ops.bounded import Channels, Epsilon, Vector
from refluid.ops.gradient_slots import gradient_reads
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_channels, require_equal

aten = torch.ops.aten


def channels_first(value: Tensor, layout: str) -> Tensor:
    return value.movedim(-1, 1) if layout == "NHWC" and value.dim() > 2 else value


def in_layout(value: Tensor, layout: str) -> Tensor:
    return value.movedim(1, -1) if layout == "NHWC" and value.dim() > 2 else value


def is_single(value: Tensor) -> bool:
    """Whether each channel of (n, channels, ...) has one element: nothing to normalise by."""
    return value.numel() == value.shape[1]


@operator(
    "batch_norm",
    gradient_lod="none",
    outputs="Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace?",
    uses="X Scale Bias SavedMean SavedVariance",
    differentiable="X Scale Bias",
    amp="keep",
    full_precision="Scale Bias Mean Variance",
    recomputable="X",
    synchronised="sync_batch_norm",
    mutates={"MeanOut": "Mean", "VarianceOut": "Variance"},
    extra={"use_mkldnn": False, "fuse_with_relu": False},
    without_lod="MeanOut VarianceOut SavedMean SavedVariance ReserveSpace",
)
def batch_norm(
    X: Channels,
    Scale: Vector,
    Bias: Vector,
    Mean: Tensor,
    Variance: Tensor,
    MomentumTensor: Tensor | None = None,
    *,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: Epsilon = 1e-5,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
) -> tuple[Tensor | None, ...]:
    """(X - mean) / sqrt(variance + epsilon) * Scale + Bias for each channel.

    In training mean and (biased) variance are the batch's, and the running ones become
    momentum * running + (1 - momentum) * batch. With is_test or use_global_stats they are the
    running ones. SavedMean and SavedVariance (1 / sqrt(variance + epsilon)) are the batch's.
    Channels of a single element are left as they are in training: Out is X, the running ones stay.
    """
    x = channels_first(X, data_layout)
    require_channels(x.shape[1], Scale=Scale, Bias=Bias, Mean=Mean, Variance=Variance)
    if use_global_stats or (is_test and not trainable_statistics):
        y = aten.native_batch_norm(x, Scale, Bias, Mean, Variance, False, 0.0, epsilon)[0]
        saved = torch.zeros_like(Mean), torch.zeros_like(Variance)
        return in_layout(y, data_layout), Mean, Variance, *saved, None
    if is_single(x):
        return X.clone(), Mean, Variance, torch.zeros_like(Mean), torch.zeros_like(Variance), None
    y, mean, inverse = aten.native_batch_norm(x, Scale, Bias, None, None, True, 0.0, epsilon)
    keep = momentum if MomentumTensor is None else MomentumTensor.item()
    variance = (inverse * inverse).reciprocal_().sub_(epsilon)
    Mean.mul_(keep).add_(mean, alpha=1.0 - keep)
    Variance.mul_(keep).add_(variance, alpha=1.0 - keep)
    return in_layout(y, data_layout), Mean, Variance, mean, inverse, None


def constant(*saved: Tensor) -> tuple[Tensor, ...]:
    """Statistics of X for torch's kernel, whose own gradient has what they depend on X for."""
    return tuple(one.detach() for one in saved) if torch.is_grad_enabled() else saved


@gradient("batch_norm")
def batch_norm_grad(
    X: Tensor,
    Scale: Tensor,
    Bias: Tensor,
    SavedMean: Tensor,
    SavedVariance: Tensor,
    ReserveSpace: Tensor | None,
    Mean: Tensor | None,
    Variance: Tensor | None,
    d_Y: Tensor,
    *,
    is_test: bool = False,
    epsilon: float = 1e-5,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    need: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, ...]:
    """Gradients of X, Scale and Bias; the running statistics count as constants, is_test has none.

    Channels of a single element were left as they are: the gradient of X is that of Out.
    """
    if is_test:
        raise EnforceNotMet(
            "is_test=True has no gradient; to train with the running statistics, build with "
            "use_global_stats=True instead"
        )
    x, grad = channels_first(X, data_layout), channels_first(d_Y, data_layout)
    if not x.numel():  # torch's kernel divides by the number of elements and ends the process
        return torch.zeros_like(X), torch.zeros_like(Scale), torch.zeros_like(Bias)
    if is_single(x) and not use_global_stats:
        return d_Y.clone(), torch.zeros_like(Scale), torch.zeros_like(Bias)
    running = (Mean, Variance) if use_global_stats else (None, None)
    require_equal("the gradient of Y", grad, "X", x.shape)
    require_channels(x.shape[1], Scale=Scale)
    if use_global_stats:
        require_channels(x.shape[1], Mean=Mean, Variance=Variance)
    else:
        require_channels(x.shape[1], SavedMean=SavedMean, SavedVariance=SavedVariance)
    d_x, d_scale, d_bias = aten.native_batch_norm_backward(
        laid_as(x, grad),
        x,
        Scale,
        *running,
        *constant(SavedMean, SavedVariance),
        not use_global_stats,
        epsilon,
        need,
    )
    return None if d_x is None else in_layout(d_x, data_layout), d_scale, d_bias


@gradient_reads("batch_norm")
def batch_norm_grad_slots(op: Operator) -> list[str]:
    """With global statistics it reads those too."""
    slots = ["X", "Scale", "Bias", "SavedMean", "SavedVariance", "ReserveSpace"]
    running = ["Mean", "Variance"] if op.attr("use_global_stats") else []
    return [*slots, *running, "Y" + GRAD]
