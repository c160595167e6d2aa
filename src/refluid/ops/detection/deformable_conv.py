"""Convolutions whose taps are moved by offsets, and pooling of regions with moved bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.detection.shapes import infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator


def _extent(size: int, window: int, stride: int, pad: int, dilation: int) -> int:
    return -1 if size < 0 else (size + 2 * pad - (dilation * (window - 1) + 1)) // stride + 1


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    (n, _, *size), dtype = inputs["Input"]
    filters, _, *window = inputs["Filter"][0]
    steps = op.attrs["strides"], op.attrs["paddings"], op.attrs["dilations"]
    out = [_extent(*each) for each in zip(size, window, *steps, strict=True)]
    return {"Output": ((n, filters, *out), dtype)}


def corner_taps(y: Tensor, x: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The four pixels around points of the zero-padded plane: their numbers, weights; (..., 4).

    Points a pixel or more outside take nothing, and so don't want to move in either.
    """
    # Each pixel by itself: kernels are slow where two or four numbers are all of a dimension.
    near = (y > -1) & (x > -1)
    down, across = _two_taps(y, height, near), _two_taps(x, width, None)
    rows = [(pixel * width, share) for pixel, share in down]
    both = [(one, other) for one in rows for other in across]
    places = torch.stack([row + column for (row, _), (column, _) in both], -1)
    return places, torch.stack([one * other for (_, one), (_, other) in both], -1)


def _two_taps(at: Tensor, size: int, near: Tensor | None) -> list[tuple[Tensor, Tensor]]:
    """The pixels before and after points along one axis, in it, and their weights.

    near: points that take anything at all, if not all do.
    """
    before = at.detach().floor()
    share, found = at - before, []
    for pixel, weight in ((before, 1 - share), (before + 1, share)):
        inside = (pixel >= 0) & (pixel < size)
        inside = inside if near is None else inside.logical_and_(near)
        found.append((pixel.clamp(0, size - 1).long(), torch.where(inside, weight, 0)))
    return found


def _steps(
    count: int, stride: int, pad: int, window: int, dilation: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Where windows begin along one axis, and the taps' distances from there."""
    return (
        torch.arange(count, device=like.device, dtype=like.dtype) * stride - pad,
        torch.arange(window, device=like.device, dtype=like.dtype) * dilation,
    )


def _columns(
    Input: Tensor,
    Offset: Tensor,
    Mask: Tensor | None,
    window: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Tensor:
    """What each window sees: (N * Ho * Wo, kh * kw, C)."""
    n, channels, height, width = Input.shape
    kh, kw = window
    ho, wo = Offset.shape[2:]
    y0, dy = _steps(ho, strides[0], paddings[0], kh, dilations[0], Offset)
    x0, dx = _steps(wo, strides[1], paddings[1], kw, dilations[1], Offset)
    # (N, Ho, Wo, taps, groups, 2)
    moved = Offset.reshape(n, groups, kh * kw, 2, ho, wo).permute(0, 4, 5, 2, 1, 3)
    taps_y, taps_x = (one.reshape(-1, 1) for one in torch.meshgrid(dy, dx, indexing="ij"))
    y = moved[..., 0] + (y0[:, None, None, None] + taps_y)
    x = moved[..., 1] + (x0[:, None, None] + taps_x)
    places, weight = corner_taps(y, x, height, width)
    if Mask is not None:
        share = Mask.reshape(n, groups, kh * kw, ho, wo).permute(0, 3, 4, 2, 1)
        weight = weight * share[..., None]
    image = torch.arange(n, device=Input.device).reshape(-1, 1, 1, 1, 1, 1)
    group = torch.arange(groups, device=Input.device)[:, None]
    index = (image * (height * width) + places) * groups + group
    pixels = Input.permute(0, 2, 3, 1).reshape(-1, channels // groups)
    found = F.embedding_bag(
        index.reshape(-1, 4), pixels, mode="sum", per_sample_weights=weight.reshape(-1, 4)
    )
    return found.reshape(n * ho * wo, kh * kw, channels)


def _convolve(
    Input: Tensor,
    Offset: Tensor,
    Mask: Tensor | None,
    Filter: Tensor,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    deformable_groups: int,
) -> Tensor:
    filters, channels, *window = Filter.shape
    taps = window[0] * window[1]
    sizes = zip(Input.shape[2:], window, strides, paddings, dilations, strict=True)
    made = [_extent(*each) for each in sizes]
    for name, given, each in (("Offset", Offset, 2), ("Mask", Mask, 1)):
        channels_of = each * deformable_groups * taps
        if given is not None and [*given.shape] != [len(Input), channels_of, *made]:
            raise EnforceNotMet(
                f"{name} needs {channels_of} channels ({each} x deformable_groups x filter size), "
                f"height and width of Output, {made}, and {len(Input)} images; it is "
                f"{list(given.shape)}"
            )
    seen = _columns(
        Input, Offset, Mask, window, strides, paddings, dilations, deformable_groups
    ).reshape(-1, taps, groups, channels)
    weight = Filter.reshape(groups, -1, channels, taps)
    if groups == 1:
        out = seen.reshape(-1, taps * channels) @ weight[0].transpose(1, 2).reshape(filters, -1).t()
    else:
        out = torch.einsum("ptgc,gmct->pgm", seen, weight)
    return out.reshape(Offset.shape[0], *Offset.shape[2:], filters).permute(0, 3, 1, 2)


def _whole_groups(out: Tensor, size: int) -> Tensor:
    """With the faults of Fluid's CPU zeros for the images after the last whole group of `size`."""
    count = out.shape[0]
    left_out = out.device.type == "cpu" and flags.value("refluid_fluid_cpu_faults")
    if not left_out or count % size == 0:
        return out
    keep = torch.arange(count, device=out.device) < count // size * size
    return out * keep.to(out.dtype).view(-1, 1, 1, 1)


@operator(
    "deformable_conv",
    outputs="Output",
    uses="Input Offset Mask Filter",
    amp="keep",
    infer=infer_by(_infer),
)
def deformable_conv(
    Input: Tensor,
    Offset: Tensor,
    Mask: Tensor,
    Filter: Tensor,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 64,
) -> Tensor:
    """Convolution of Input (N, C, H, W) whose taps are moved by Offset and weighted by Mask.

    Offset (N, deformable_groups * taps * 2, Ho, Wo) holds y and x of each tap, in pixels; Mask
    (N, deformable_groups * taps, Ho, Wo) a factor. Between pixels Input is interpolated. Images
    that don't fill a group of im2col_step are 0 with FLAGS_refluid_fluid_cpu_faults.
    """
    out = _convolve(
        Input, Offset, Mask, Filter, strides, paddings, dilations, groups, deformable_groups
    )
    return _whole_groups(out, im2col_step)


@operator(
    "deformable_conv_v1",
    outputs="Output",
    uses="Input Offset Filter",
    amp="keep",
    infer=infer_by(_infer),
    lod="",
)
def deformable_conv_v1(
    Input: Tensor,
    Offset: Tensor,
    Filter: Tensor,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 64,
) -> Tensor:
    """`deformable_conv` without factors."""
    out = _convolve(
        Input, Offset, None, Filter, strides, paddings, dilations, groups, deformable_groups
    )
    return _whole_groups(out, im2col_step)
