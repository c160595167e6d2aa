"""Normalisations over layers, groups and instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import pad

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import above
from refluid.ops.bounded import Channels, Epsilon, Positive, Probability, Vector
from refluid.ops.norm.normalization import constant
from refluid.ops.products import infer_instance_norm, infer_layer_norm
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_channels, require_equal

aten = torch.ops.aten
Grads = tuple[Tensor | None, ...]


def _rows(X: Tensor, axis: int) -> tuple[int, int]:
    return math.prod(X.shape[:axis]), math.prod(X.shape[axis:])


@operator(
    "layer_norm",
    outputs="Y Mean Variance",
    uses="X Scale Bias Mean Variance",
    amp="keep",
    full_precision="Scale Bias",
    infer=infer_layer_norm,
    without_lod="Mean Variance",
    by_autograd="always",
)
def layer_norm(
    X: Tensor,
    Scale: Tensor | None = None,
    Bias: Tensor | None = None,
    *,
    epsilon: Epsilon = 1e-5,
    begin_norm_axis: Annotated[int, above(0)] = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """(X - Mean) / sqrt(Variance + epsilon) * Scale + Bias over the dimensions from `axis` on.

    X counts as a matrix whose rows are normalised; Mean and Variance have shape (rows,), Scale
    and Bias (columns,).
    """
    if begin_norm_axis >= X.dim():
        raise EnforceNotMet(
            f"begin_norm_axis {begin_norm_axis} has to be less than the dimensions of X "
            f"{list(X.shape)}"
        )
    rows, columns = _rows(X, begin_norm_axis)
    y, mean, inverse = aten.native_layer_norm(
        X.reshape(rows, columns), (columns,), Scale, Bias, epsilon
    )
    variance = (inverse * inverse).reciprocal_().sub_(epsilon)
    return y.view(X.shape), mean.reshape(rows), variance.reshape(rows)


@gradient("layer_norm")
def layer_norm_grad(
    X: Tensor,
    Scale: Tensor | None,
    Bias: Tensor | None,
    Mean: Tensor,
    Variance: Tensor,
    d_Y: Tensor,
    *,
    epsilon: float = 1e-5,
    begin_norm_axis: int = 1,
    need: Sequence[bool] = (True, True, True),
) -> Grads:
    """Gradients of X, Scale and Bias."""
    rows, columns = _rows(X, begin_norm_axis)
    d_x, d_scale, d_bias = aten.native_layer_norm_backward(
        d_Y.reshape(rows, columns),
        X.reshape(rows, columns),
        (columns,),
        Mean.view(rows, 1),
        torch.rsqrt(Variance + epsilon).view(rows, 1),
        Scale,
        Bias,
        need,
    )
    return None if d_x is None else d_x.view(X.shape), d_scale, d_bias


def channels_first(value: Tensor, layout: str) -> Tensor:
    return value.movedim(-1, 1) if layout == "NHWC" else value


def as_given(value: Tensor, layout: str) -> Tensor:
    return value.movedim(1, -1) if layout == "NHWC" else value


def per_channel(value: Tensor, rank: int) -> Tensor:
    return value.reshape(1, -1, *[1] * (rank - 2))


@operator(
    "group_norm",
    gradient_lod="none",
    outputs="Y Mean Variance",
    uses="Scale Bias Y Variance",
    amp="keep",
    without_lod="Mean Variance",
)
def group_norm(
    X: Tensor,
    Scale: Tensor | None = None,
    Bias: Tensor | None = None,
    *,
    epsilon: Probability = 1e-5,
    groups: Positive,
    data_layout: str = "NCHW",
) -> tuple[Tensor, Tensor, Tensor]:
    """Each sample's `groups` groups of channels normalised; Mean and Variance (N, groups).

    Where the channels can't be divided evenly, groups have as many as the first of them would
    have, the last one what is left. Groups that then get no channel have a Mean and Variance of 0.
    """
    x = channels_first(X, data_layout).contiguous()
    n, channels = x.shape[:2]
    if groups > channels:
        raise EnforceNotMet(f"{groups} groups are more than the {channels} channels of X")
    area = math.prod(x.shape[2:])
    if channels % groups == 0:
        made = aten.native_group_norm(x, Scale, Bias, n, channels, area, groups, epsilon)
    else:
        made = _uneven_groups(x, Scale, Bias, groups, epsilon)
    y, mean, inverse = made
    variance = (inverse * inverse).reciprocal_().sub_(epsilon)
    if len(mean.T) < groups:
        empty = (0, groups - len(mean.T))
        mean, variance = pad(mean, empty), pad(variance, empty)
    return as_given(y, data_layout), mean, variance


def _evenly(channels: int, groups: int) -> list[tuple[slice, slice, int]]:
    """The channels in parts of even groups: (channels, their groups, how many those are)."""
    size = -(-channels // groups)
    whole = channels // size
    parts = [(slice(0, whole * size), slice(0, whole), whole)]
    if channels % size:
        parts.append((slice(whole * size, channels), slice(whole, whole + 1), 1))
    return parts


def _uneven_groups(
    x: Tensor, Scale: Tensor | None, Bias: Tensor | None, groups: int, epsilon: float
) -> list[Tensor]:
    """(y, mean, 1 / deviation) of the groups that have channels."""
    made = []
    for part, _, count in _evenly(x.shape[1], groups):
        given = x[:, part].contiguous()
        scale, bias = (None if value is None else value[part] for value in (Scale, Bias))
        sizes = (*given.shape[:2], math.prod(given.shape[2:]))
        made.append(aten.native_group_norm(given, scale, bias, *sizes, count, epsilon))
    return [torch.cat(values, 1) for values in zip(*made, strict=True)]


@gradient("group_norm")
def group_norm_grad(
    Scale: Tensor | None,
    Bias: Tensor | None,
    Y: Tensor,
    Variance: Tensor,
    d_Y: Tensor,
    *,
    epsilon: float = 1e-5,
    groups: int,
    data_layout: str = "NCHW",
    need: Sequence[bool] = (True, True, True),
) -> Grads:
    """Gradients of X, Scale and Bias, from X less its mean, which follows from Y.

    Without Scale the mean counts as a constant, as in Fluid: its part of the gradient is left out.
    """
    y, grad = channels_first(Y, data_layout), channels_first(d_Y, data_layout)
    inverse = torch.rsqrt(Variance + epsilon)
    if y.shape[1] % groups == 0:
        found = _group_gradients(Scale, Bias, y, inverse, grad, groups, need)
    else:
        parts = []
        for part, of, count in _evenly(y.shape[1], groups):
            scale, bias = (None if value is None else value[part] for value in (Scale, Bias))
            given = scale, bias, y[:, part], inverse[:, of].contiguous(), grad[:, part]
            parts.append(_group_gradients(*given, count, need))
        d_xs, d_scales, d_biases = zip(*parts, strict=True)
        found = _joined(d_xs, 1), _joined(d_scales, 0), _joined(d_biases, 0)
    d_x, d_scale, d_bias = found
    return None if d_x is None else as_given(d_x, data_layout), d_scale, d_bias


def _joined(parts: Sequence[Tensor | None], axis: int) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return torch.cat(there, axis) if there else None


def _group_gradients(
    Scale: Tensor | None,
    Bias: Tensor | None,
    y: Tensor,
    inverse: Tensor,
    grad: Tensor,
    groups: int,
    need: Sequence[bool],
) -> Grads:
    """The gradients for groups of even sizes, channels first. inverse: 1 / their deviations."""
    n, channels = y.shape[:2]
    if Scale is None:
        even = y if Bias is None else y - per_channel(Bias, y.dim())
        parts = (n, groups, channels // groups * math.prod(y.shape[2:]))
        given, even = grad.reshape(parts), even.reshape(parts)
        along = (given * even).mean(2, keepdim=True)
        d_x = (given - even * along).mul_(inverse.unsqueeze(2)).reshape(y.shape)
        d_bias = None if Bias is None else grad.transpose(0, 1).flatten(1).sum(1)
        return d_x, None, d_bias
    steep = (inverse.repeat_interleave(channels // groups, 1) * Scale).reciprocal_()
    shape = (n, channels, *[1] * (y.dim() - 2))
    centred = y * steep.view(shape)
    if Bias is not None:
        centred.sub_((steep * Bias).view(shape))
    sizes = (n, channels, math.prod(y.shape[2:]), groups)
    wanted = (need[0], need[1], need[2] and Bias is not None)
    mean = torch.zeros_like(inverse)
    found: Grads = aten.native_group_norm_backward(
        grad.contiguous(), centred.contiguous(), mean, inverse, Scale, *sizes, wanted
    )
    return found


@operator(
    "instance_norm",
    gradient_lod="none",
    outputs="Y SavedMean SavedVariance",
    uses="X Scale SavedMean SavedVariance",
    amp="keep",
    infer=infer_instance_norm,
)
def instance_norm(
    X: Channels, Scale: Vector, Bias: Vector, *, epsilon: Epsilon = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel of each sample normalised; SavedVariance is 1 / sqrt(variance + epsilon)."""
    n, channels = X.shape[:2]
    require_channels(channels, Scale=Scale, Bias=Bias)
    if X.numel() == n * channels:  # exactly: a mean of one number leaves nothing
        inverse = torch.full_like(X, epsilon**-0.5).reshape(n * channels)
        return per_channel(Bias, X.dim()).expand(X.shape).clone(), X.reshape(-1).clone(), inverse
    scale, bias = Scale.repeat(n), Bias.repeat(n)
    y, mean, inverse = aten.native_batch_norm(
        X.reshape(1, n * channels, -1), scale, bias, None, None, True, 0.0, epsilon
    )
    return y.view(X.shape), mean, inverse


@gradient("instance_norm")
def instance_norm_grad(
    X: Tensor,
    Scale: Tensor,
    SavedMean: Tensor,
    SavedVariance: Tensor,
    d_Y: Tensor,
    *,
    epsilon: float = 1e-5,
    need: Sequence[bool] = (True, True, True),
) -> Grads:
    """Gradients of X, Scale and Bias: those of a batch norm with a channel for each plane."""
    n, channels = X.shape[:2]
    require_channels(channels, Scale=Scale)
    require_channels(n * channels, SavedMean=SavedMean, SavedVariance=SavedVariance)
    require_equal("the gradient of Y", d_Y, "X", X.shape)
    if not X.numel():  # which torch's kernel divides by
        return torch.empty_like(X), torch.zeros_like(Scale), torch.zeros_like(Scale)
    planes = (1, n * channels, -1)
    d_x, d_scale, d_bias = aten.native_batch_norm_backward(
        d_Y.reshape(planes),
        X.reshape(planes),
        Scale.repeat(n),
        None,
        None,
        *constant(SavedMean.reshape(-1), SavedVariance.reshape(-1)),
        True,
        epsilon,
        need,
    )
    d_scale, d_bias = (
        None if one is None else one.view(n, channels).sum(0) for one in (d_scale, d_bias)
    )
    return None if d_x is None else d_x.view(X.shape), d_scale, d_bias
