"""inplace_abn: batch normalisation and an activation that can be undone, in the memory of X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.gradient_slots import gradient_reads
from refluid.ops.norm.normalization import batch_norm, batch_norm_grad, channels_first, is_single
from refluid.ops.registry import gradient, operator

ActivationKernel = Callable[[Tensor, float], Tensor]


def _identity(x: Tensor, alpha: float) -> Tensor:
    return x


def _unleaky(y: Tensor, alpha: float) -> Tensor:
    return torch.where(y < 0, y / alpha, y)


def _unelu(y: Tensor, alpha: float) -> Tensor:
    # Where elu has reached -alpha nobody can tell what it was given; any number far below 0 does.
    share = (y.clamp(max=0.0) / alpha).clamp(min=torch.finfo(y.dtype).eps - 1.0)
    return torch.where(y < 0, torch.log1p(share), y)


def _leaky_slope(y: Tensor, alpha: float) -> Tensor:
    return torch.where(y < 0, alpha, 1.0)


def _elu_slope(y: Tensor, alpha: float) -> Tensor:
    return torch.where(y < 0, y + alpha, 1.0)


# Activation: the function, its inverse, and its slope told by the result.
_KINDS: dict[str, tuple[ActivationKernel, ActivationKernel, ActivationKernel]] = {
    "": (_identity, _identity, lambda y, alpha: torch.ones_like(y)),
    "identity": (_identity, _identity, lambda y, alpha: torch.ones_like(y)),
    "leaky_relu": (F.leaky_relu, _unleaky, _leaky_slope),
    "elu": (F.elu, _unelu, _elu_slope),
}


@operator(
    "inplace_abn",
    gradient_lod="none",
    like="batch_norm",
    outputs="Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace?",
    uses="Y Scale Bias SavedMean SavedVariance",
    differentiable="X Scale Bias",
    amp="keep",
    mutates={"MeanOut": "Mean", "VarianceOut": "Variance"},
    extra={"use_mkldnn": False, "fuse_with_relu": False, "use_sync_bn": False},
    without_lod="MeanOut VarianceOut SavedMean SavedVariance ReserveSpace",
)
def inplace_abn(
    *norm: Any, activation: str = "", alpha: float = 0.1, **settings: Any
) -> tuple[Tensor | None, ...]:
    """`batch_norm`, then the activation: identity, leaky_relu or elu, with slope `alpha`.

    X is not kept: the gradient finds it from Y.
    """
    y, *others = batch_norm(*norm, **settings)
    assert y is not None
    return _KINDS[activation][0](y, alpha), *others


@gradient("inplace_abn", once=True)
def inplace_abn_grad(
    Y: Tensor,
    Scale: Tensor,
    Bias: Tensor,
    SavedMean: Tensor,
    SavedVariance: Tensor,
    Mean: Tensor | None,
    Variance: Tensor | None,
    d_Y: Tensor,
    *,
    is_test: bool = False,
    epsilon: float = 1e-5,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    activation: str = "",
    alpha: float = 0.1,
    need: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, ...]:
    """Gradients of X, Scale and Bias; the normalised X is (undone activation - Bias) / Scale.

    X takes the place of Y again, for gradient operators of what else used it.
    """
    _, undo, slope = _KINDS[activation]
    shape = [1] * Y.dim()
    shape[-1 if data_layout == "NHWC" else 1] = -1
    unit = (undo(Y, alpha) - Bias.view(shape)) / Scale.view(shape)
    mean, inverse = SavedMean, SavedVariance
    if use_global_stats and Mean is not None and Variance is not None:
        mean, inverse = Mean, torch.rsqrt(Variance + epsilon)
    single = is_single(channels_first(Y, data_layout)) and not use_global_stats
    x = undo(Y, alpha) if single else unit / inverse.view(shape) + mean.view(shape)
    grad = d_Y * slope(Y, alpha)
    Y.copy_(x)
    grads: tuple[Tensor | None, ...] = batch_norm_grad(
        x,
        Scale,
        Bias,
        SavedMean,
        SavedVariance,
        None,
        Mean,
        Variance,
        grad,
        is_test=is_test,
        epsilon=epsilon,
        data_layout=data_layout,
        use_global_stats=use_global_stats,
        need=need,
    )
    return grads


@gradient_reads("inplace_abn")
def inplace_abn_grad_slots(op: Operator) -> list[str]:
    """With global statistics it reads those too."""
    running = ["Mean", "Variance"] if op.attr("use_global_stats") else []
    return ["Y", "Scale", "Bias", "SavedMean", "SavedVariance", *running, "Y" + GRAD]
