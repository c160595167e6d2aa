"""Pixels of images rearranged and sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import Check, above, at_least, shaped
from refluid.ops.bounded import Images, Positive
from refluid.ops.infer import infer_like
from refluid.ops.reading import integers
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from
from refluid.ops.signature import Long

ShiftRatio = Annotated[
    float, Check("greater than 0 and less than 0.5", lambda value: bool(0.0 < value < 0.5))
]


@operator("pixel_shuffle", outputs="Out", uses="", lod="")
def pixel_shuffle(X: Images, *, upscale_factor: Positive = 1) -> Tensor:
    """(N, C * r², H, W) as (N, C, H * r, W * r)."""
    return F.pixel_shuffle(X, upscale_factor)


@gradient("pixel_shuffle")
def pixel_shuffle_grad(d_Out: Tensor, *, upscale_factor: int = 1) -> Tensor:
    """The pixels put back."""
    n, c, h, w = d_Out.shape
    r = upscale_factor
    return F.pixel_unshuffle(d_Out, r) if n else d_Out.new_empty(n, c * r * r, h // r, w // r)


@operator("shuffle_channel", gradient_lod="none", outputs="Out", uses="", lod="")
def shuffle_channel(X: Images, *, group: Annotated[int, at_least(1)] = 1) -> Tensor:
    """Channels taken in turn from each of `group` groups."""
    return torch.channel_shuffle(X, group)


@gradient("shuffle_channel", views={"d_X": "d_Out"})
def shuffle_channel_grad(d_Out: Tensor, *, group: int = 1) -> Tensor:
    """The channels put back."""
    return torch.channel_shuffle(d_Out, d_Out.shape[1] // group)


@operator("space_to_depth", outputs="Out", uses="X")
def space_to_depth(X: Images, *, blocksize: Annotated[Long, above(1)] = 2) -> Tensor:
    """(N, C, H, W) as (N, b * b * C, H / b, W / b), in the order of Fluid (and of darknet's reorg).

    That is the memory of (N, C / (b * b), b * H, b * W), in which the groups of C / (b * b)
    channels are the places of each b x b block, read anew: a permutation of X that is no
    rearrangement by places.
    """
    n, c, h, w = X.shape
    b = blocksize
    if c % (b * b) or h % b or w % b:
        raise EnforceNotMet(
            f"blocksize {b} has to divide height and width, and its square the channels, of X "
            f"{list(X.shape)}"
        )
    parts = X.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c * b * b, h // b, w // b)


def _shifted(X: Tensor, seg_num: int, shift_ratio: float, back: int) -> Tensor:
    frames = X.reshape(-1, seg_num, *X.shape[1:])
    first, second = int(X.shape[1] * shift_ratio), int(X.shape[1] * 2 * shift_ratio)
    out = torch.zeros_like(frames)
    for channels, step in ((slice(first), back), (slice(first, second), -back)):
        if step > 0:
            out[:, 1:, channels] = frames[:, :-1, channels]
        else:
            out[:, :-1, channels] = frames[:, 1:, channels]
    out[:, :, second:] = frames[:, :, second:]
    return out.reshape(X.shape)


@operator("temporal_shift", outputs="Out", uses="")
def temporal_shift(
    X: Images, *, seg_num: Annotated[int, at_least(1)], shift_ratio: ShiftRatio = 0.25
) -> Tensor:
    """Of (N * seg_num, C, H, W): a share of the channels from the frame before, one from the next.

    What lies beyond the first or last of the `seg_num` frames is 0.
    """
    return _shifted(X, seg_num, shift_ratio, 1)


@gradient("temporal_shift")
def temporal_shift_grad(d_Out: Tensor, *, seg_num: int, shift_ratio: float = 0.25) -> Tensor:
    """The channels shifted back."""
    return _shifted(d_Out, seg_num, shift_ratio, -1)


@operator("unfold", outputs="Y", uses="X", lod="")
def unfold(
    X: Images,
    *,
    kernel_sizes: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> Tensor:
    """The windows of images as columns: (N, C * kh * kw, windows).

    paddings: (height, width), or (top, left, bottom, right).
    """
    top, left, bottom, right = paddings if len(paddings) == 4 else (*paddings, *paddings)
    x = F.pad(X, (left, right, top, bottom))
    return F.unfold(x, tuple(kernel_sizes), tuple(dilations), 0, tuple(strides))


@operator(
    "affine_grid",
    outputs="Output",
    uses="OutputShape",
    differentiable="Theta",
    extra={"use_cudnn": True},
    # Fluid declares the sizes as unknown, even those that it is given.
    infer=infer_from({"Output": lambda Theta: (Theta[0], -1, -1, 2)}),
)
def affine_grid(
    Theta: Annotated[Tensor, shaped(None, 2, 3)],
    OutputShape: Tensor | None = None,
    *,
    output_shape: Sequence[int] = (),
) -> Tensor:
    """Sampling points (N, H, W, 2) of the affine maps Theta (N, 2, 3), corners at -1 and 1."""
    sizes = integers(output_shape, OutputShape)
    return _base_grid(Theta, sizes) @ Theta.unsqueeze(1).transpose(2, 3)


def _axis(like: Tensor, count: int) -> Tensor:
    """`count` numbers from -1 to 1."""
    places = torch.arange(count, dtype=like.dtype, device=like.device)
    return places * (2.0 / (count - 1)) - 1.0 if count > 1 else places - 1.0


def _base_grid(like: Tensor, sizes: Sequence[int]) -> Tensor:
    """(1, H, W, 3): x, y and 1 of every pixel."""
    _, _, height, width = sizes
    ys = _axis(like, height).view(height, 1).expand(height, width)
    xs = _axis(like, width).expand(height, width)
    return torch.stack((xs, ys, torch.ones_like(xs)), 2).unsqueeze(0)


@gradient("affine_grid")
def affine_grid_grad(
    OutputShape: Tensor | None, d_Output: Tensor, *, output_shape: Sequence[int] = ()
) -> Tensor:
    """Sums over the pixels of their gradient times their place."""
    base = _base_grid(d_Output, integers(output_shape, OutputShape)).reshape(1, -1, 3)
    return d_Output.flatten(1, 2).transpose(1, 2) @ base


@operator(
    "grid_sampler",
    chooses_on="cuda",
    outputs="Output",
    uses="X Grid",
    extra={"use_cudnn": True},
    infer=infer_like("Output", "X"),  # as Fluid declares it, whatever the grid
)
def grid_sampler(X: Images, Grid: Annotated[Tensor, shaped(None, None, None, 2)]) -> Tensor:
    """X (N, C, H, W) at the points Grid (N, H', W', 2), bilinear, corners at ±1, 0 outside."""
    return F.grid_sample(X, Grid, "bilinear", "zeros", align_corners=True)
