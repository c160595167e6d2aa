"""Channels scaled, and normalised by their neighbours."""

from __future__ import annotations

from typing import Annotated

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import above, odd
from refluid.ops.bounded import Images
from refluid.ops.extras import MKLDNN
from refluid.ops.norm.layernorm import Grads, as_given, channels_first, per_channel
from refluid.ops.registry import gradient, operator


@operator(
    "affine_channel",
    gradient_lod="none",
    outputs="Out",
    uses="X Scale",
    differentiable="X Scale Bias",
)
def affine_channel(
    X: Tensor, Scale: Tensor, Bias: Tensor, *, data_layout: str = "AnyLayout"
) -> Tensor:
    """X * Scale + Bias for each channel, which comes last but for NCHW."""
    layout = _layout_of(data_layout)
    x = channels_first(X, layout)
    for name, vector in (("Scale", Scale), ("Bias", Bias)):
        if vector.shape != x.shape[1:2]:
            raise EnforceNotMet(
                f"{name} has shape {list(vector.shape)}, but has to be one number for each of the "
                f"{x.shape[1]} channels of X"
            )
    out = x * per_channel(Scale, x.dim()) + per_channel(Bias, x.dim())
    return as_given(out, layout)


def _layout_of(data_layout: str) -> str:
    return "NCHW" if data_layout == "NCHW" else "NHWC"


@gradient("affine_channel")
def affine_channel_grad(
    X: Tensor, Scale: Tensor, d_Out: Tensor, *, data_layout: str = "AnyLayout"
) -> Grads:
    """d_X = d_Out * Scale; d_Scale and d_Bias are sums of d_Out * X and d_Out by channel."""
    layout = _layout_of(data_layout)
    x, grad = channels_first(X, layout), channels_first(d_Out, layout)
    over = [dim for dim in range(x.dim()) if dim != 1]
    d_x = as_given(grad * per_channel(Scale, x.dim()), layout)
    return d_x, (grad * x).sum(over), grad.sum(over)


def _window(x: Tensor, before: int, after: int) -> Tensor:
    """Sums over each channel, `before` channels below it and `after` above."""
    padded = F.pad(x, (0, 0, 0, 0, before, after))
    return padded.unfold(1, before + after + 1, 1).sum(-1)


@operator(
    "lrn",
    gradient_lod="none",
    outputs="Out MidOut",
    uses="X Out MidOut",
    extra=MKLDNN | {"is_test": False},
)
def lrn(
    X: Images,
    *,
    n: Annotated[int, above(0), odd] = 5,
    k: Annotated[float, above(0.0)] = 2.0,
    alpha: Annotated[float, above(0.0)] = 1e-4,
    beta: Annotated[float, above(0.0)] = 0.75,
    data_format: str = "AnyLayout",
) -> tuple[Tensor, Tensor]:
    """X / MidOut ** beta, MidOut = k + alpha * the sum of X² over n neighbouring channels."""
    x = channels_first(X, data_format)
    mid = _window(x * x, (n - 1) // 2, n - 1 - (n - 1) // 2).mul_(alpha).add_(k)
    return as_given(x * mid**-beta, data_format), as_given(mid, data_format)


@gradient("lrn")
def lrn_grad(
    X: Tensor,
    Out: Tensor,
    MidOut: Tensor,
    d_Out: Tensor,
    *,
    n: int = 5,
    alpha: float = 1e-4,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
) -> Tensor:
    """d_Out / MidOut ** beta - 2 * alpha * beta * X * the windows' sums of d_Out * Out / MidOut."""
    shared = channels_first(d_Out * Out / MidOut, data_format)
    around = _window(shared, n - 1 - (n - 1) // 2, (n - 1) // 2)
    return d_Out * MidOut**-beta - X * as_given(around, data_format) * (2.0 * alpha * beta)
