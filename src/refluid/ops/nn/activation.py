"""Rectifiers and other functions of one variable that are piecewise or have parameters."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.kernels.epilogues import laid_as
from refluid.ops.extras import ACTIVATION, MKLDNN
from refluid.ops.indicating import indicator
from refluid.ops.registry import gradient, operator

aten = torch.ops.aten
_HARD_SWISH = (6.0, 6.0, 3.0)  # threshold, scale and offset that torch has a kernel for


@operator(
    "relu6", gradient_lod="given", outputs="Out", uses="Out", activation=True, recomputable="X"
)
def relu6(X: Tensor, *, threshold: float = 6.0) -> Tensor:
    """min(max(X, 0), threshold)."""
    return X.clamp(0.0, threshold)


@gradient("relu6")
def relu6_grad(Out: Tensor, d_Out: Tensor, *, threshold: float = 6.0) -> Tensor:
    """d_Out where 0 < Out < threshold, else 0."""
    grad: Tensor = aten.hardtanh_backward(laid_as(Out, d_Out), Out, 0.0, threshold)
    return grad


@operator("brelu", gradient_lod="given", outputs="Out", uses="X")
def brelu(X: Tensor, *, t_min: float = 0.0, t_max: float = 24.0) -> Tensor:
    """X clamped to [t_min, t_max]."""
    return X.clamp(t_min, t_max)


@gradient("brelu")
def brelu_grad(X: Tensor, d_Out: Tensor, *, t_min: float = 0.0, t_max: float = 24.0) -> Tensor:
    """d_Out where t_min < X < t_max, else 0."""
    grad: Tensor = aten.hardtanh_backward(d_Out, X, t_min, t_max)
    return grad


@operator(
    "leaky_relu",
    gradient_lod="given",
    outputs="Out",
    uses="Out",
    extra=MKLDNN,
    activation=True,
    recomputable="X",
)
def leaky_relu(X: Tensor, *, alpha: float = 0.02) -> Tensor:
    """max(X, alpha * X): with alpha above 1, positive numbers are multiplied."""
    return torch.maximum(X, X * alpha) if alpha > 1.0 else F.leaky_relu(X, alpha)


@gradient("leaky_relu")
def leaky_relu_grad(Out: Tensor, d_Out: Tensor, *, alpha: float = 0.02) -> Tensor:
    """d_Out where Out is positive, else alpha * d_Out."""
    grad: Tensor = aten.leaky_relu_backward(laid_as(Out, d_Out), Out, alpha, False)
    return grad


@operator("elu", gradient_lod="given", outputs="Out", uses="X")
def elu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(X, 0) + min(0, alpha * (exp(X) - 1))."""
    if alpha < 0.0:
        return X.clamp(min=0.0) + torch.expm1(X).mul_(alpha).clamp_(max=0.0)
    return F.elu(X, alpha)


@gradient("elu")
def elu_grad(X: Tensor, d_Out: Tensor, *, alpha: float = 1.0) -> Tensor:
    """d_Out where X is positive, else alpha * exp(X) * d_Out."""
    grad: Tensor = aten.elu_backward(d_Out, alpha, 1.0, 1.0, False, X)
    return grad


@operator("selu", gradient_lod="none", outputs="Out", uses="Out")
def selu(
    X: Tensor, *, scale: float = 1.0507010221481323, alpha: float = 1.6732631921768188
) -> Tensor:
    """scale * X where it is positive, else scale * alpha * (exp(X) - 1)."""
    grad: Tensor = aten.elu(X, alpha, scale)
    return grad


@gradient("selu")
def selu_grad(
    Out: Tensor,
    d_Out: Tensor,
    *,
    scale: float = 1.0507010221481323,
    alpha: float = 1.6732631921768188,
) -> Tensor:
    """scale * d_Out where Out is positive, else (Out + scale * alpha) * d_Out."""
    if alpha < 0.0:  # torch refuses
        return torch.where(Out > 0.0, scale * d_Out, (Out + scale * alpha) * d_Out)
    grad: Tensor = aten.elu_backward(d_Out, alpha, scale, 1.0, True, Out)
    return grad


@operator(
    "gelu",
    outputs="Out",
    uses="X",
    extra=ACTIVATION,
    activation=True,
    recomputable="X",
    chooses_on="cpu",
)
def gelu(X: Tensor, *, approximate: bool = False) -> Tensor:
    """X * P(normal < X); approximate: by the formula with tanh."""
    return F.gelu(X, approximate="tanh" if approximate else "none")


@gradient("gelu")
def gelu_grad(X: Tensor, d_Out: Tensor, *, approximate: bool = False) -> Tensor:
    """d_Out times the slope of gelu at X."""
    grad: Tensor = aten.gelu_backward(d_Out, X, approximate="tanh" if approximate else "none")
    return grad


@operator(
    "swish",
    gradient_lod="given",
    outputs="Out",
    uses="X",
    extra=MKLDNN,
    activation=True,
    recomputable="X",
)
def swish(X: Tensor, *, beta: float = 1.0) -> Tensor:
    """X * sigmoid(beta * X)."""
    return F.silu(X) if beta == 1.0 else X * torch.sigmoid(X * beta)


@gradient("swish")
def swish_grad(X: Tensor, d_Out: Tensor, *, beta: float = 1.0) -> Tensor:
    """d_Out * (s + beta * X * s * (1 - s)), s = sigmoid(beta * X)."""
    x = X if beta == 1.0 else X * beta
    if torch.is_grad_enabled() and (X.requires_grad or d_Out.requires_grad):
        # To be differentiated itself.
        share = torch.sigmoid(x)
        return d_Out * (share * (1.0 + x * (1.0 - share)))
    grad: Tensor = aten.silu_backward(laid_as(X, d_Out), x)
    return grad


@operator("hard_sigmoid", gradient_lod="given", outputs="Out", uses="Out")
def hard_sigmoid(X: Tensor, *, slope: float = 0.2, offset: float = 0.5) -> Tensor:
    """slope * X + offset clamped to [0, 1]."""
    return (X * slope).add_(offset).clamp_(0.0, 1.0)


@gradient("hard_sigmoid")
def hard_sigmoid_grad(Out: Tensor, d_Out: Tensor, *, slope: float = 0.2) -> Tensor:
    """slope * d_Out where 0 < Out < 1, else 0."""
    grad: Tensor = aten.hardtanh_backward(d_Out * slope, Out, 0.0, 1.0)
    return grad


@operator(
    "hard_swish", gradient_lod="given", outputs="Out", uses="X", activation=True, recomputable="X"
)
def hard_swish(
    X: Tensor, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0
) -> Tensor:
    """X * clamp(X + offset, 0, threshold) / scale."""
    if (threshold, scale, offset) == _HARD_SWISH:
        return F.hardswish(X)
    return X * (X + offset).clamp(0.0, threshold) / scale


@gradient("hard_swish")
def hard_swish_grad(
    X: Tensor, d_Out: Tensor, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0
) -> Tensor:
    """d_Out * (2 * X + offset) / scale where nothing is clamped; above, d_Out as it is."""
    if (threshold, scale, offset) == _HARD_SWISH:
        grad: Tensor = aten.hardswish_backward(laid_as(X, d_Out), X)
        return grad
    moved = X + offset
    slope: Tensor = aten.hardtanh_backward((X + moved).div_(scale), moved, 0.0, threshold)
    return slope.add_(indicator(torch.ge, moved, threshold)).mul_(d_Out)


@operator("soft_relu", gradient_lod="given", outputs="Out", uses="Out")
def soft_relu(X: Tensor, *, threshold: float = 40.0) -> Tensor:
    """log(1 + exp(X)), X clamped to [-threshold, threshold]."""
    return X.clamp(-threshold, threshold).exp_().log1p_()


@gradient("soft_relu")
def soft_relu_grad(Out: Tensor, d_Out: Tensor, *, threshold: float = 40.0) -> Tensor:
    """(1 - exp(-Out)) * d_Out where |Out| < threshold, else 0."""
    grad: Tensor = aten.hardtanh_backward(d_Out * (1 - torch.exp(-Out)), Out, -threshold, threshold)
    return grad


@operator("stanh", gradient_lod="given", outputs="Out", uses="X")
def stanh(X: Tensor, *, scale_a: float = 0.67, scale_b: float = 1.7159) -> Tensor:
    """scale_b * tanh(scale_a * X)."""
    return torch.tanh(X * scale_a) * scale_b


@operator("mish", gradient_lod="none", outputs="Out", uses="X")
def mish(X: Tensor, *, threshold: float = 20.0) -> Tensor:
    """X * tanh(softplus(X)); softplus(X) is X above the threshold, exp(X) below -threshold."""
    low = X.clamp(max=-threshold).exp()
    soft = torch.where(-threshold > X, low, F.softplus(X, 1.0, threshold))
    return X * torch.tanh(soft)


@operator("thresholded_relu", gradient_lod="given", outputs="Out", uses="X")
def thresholded_relu(X: Tensor, *, threshold: float = 1.0) -> Tensor:
    """X where it is above the threshold, else 0."""
    return F.threshold(X, threshold, 0.0)


@operator("hard_shrink", gradient_lod="given", outputs="Out", uses="X")
def hard_shrink(X: Tensor, *, threshold: float = 0.5) -> Tensor:
    """X where |X| is above the threshold, else 0.

    The sum of the parts above the threshold and below its negative: where it is negative itself,
    these overlap.
    """
    if threshold >= 0.0:
        return F.hardshrink(X, threshold)
    return X * (indicator(torch.gt, X, threshold) + indicator(torch.lt, X, -threshold))


@operator("softshrink", gradient_lod="given", outputs="Out", uses="X")
def softshrink(X: Tensor, *, lambda_: float = 0.5) -> Tensor:
    """X moved towards zero by lambda, and no further than zero.

    The sum of (X - lambda) above lambda and (X + lambda) below -lambda; these overlap where
    lambda is negative.
    """
    if lambda_ >= 0.0:
        return F.softshrink(X, lambda_)
    above, below = indicator(torch.gt, X, lambda_), indicator(torch.lt, X, -lambda_)
    return (X - lambda_) * above + (X + lambda_) * below


@operator(
    "pow",
    gradient_lod="given",
    outputs="Out",
    uses="X FactorTensor",
    differentiable="X",
    amp="keep",
)
def pow(X: Tensor, FactorTensor: Tensor | None = None, *, factor: float = 1.0) -> Tensor:
    """X to the power `factor`, or that of a FactorTensor of one element.

    Of integers it is an integer, cut towards zero, and so is the factor.
    """
    if not X.is_floating_point():
        power = int(factor) if FactorTensor is None else FactorTensor.to(X.dtype)
        return torch.pow(X.double(), power).to(X.dtype)
    return torch.pow(X, factor if FactorTensor is None else FactorTensor.to(X.dtype))


@gradient("pow")
def pow_grad(
    X: Tensor, FactorTensor: Tensor | None, d_Out: Tensor, *, factor: float = 1.0
) -> Tensor:
    """d_Out * factor * X to the power `factor` - 1."""
    power = factor if FactorTensor is None else FactorTensor.to(X.dtype)
    return d_Out * power * torch.pow(X, power - 1.0)
