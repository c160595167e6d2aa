"""deformable_psroi_pooling: means of samples in bins of a region, each bin moved by an offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.detection.deformable_conv import corner_taps
from refluid.ops.detection.rois import add_up, away_from_zero, images_of, pulled_back
from refluid.ops.detection.shapes import infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import gradient, operator

_SMALLEST = 0.1


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    size = op.attrs["pooled_height"], op.attrs["pooled_width"]
    shape = (inputs["ROIs"][0][0], op.attrs["output_dim"], *size)
    return dict.fromkeys(("TopCount", "Output"), (shape, inputs["Input"][1]))


def _parts(bins: int, parts: int, device: torch.device) -> Tensor:
    """The part that each of `bins` belongs to when they are divided into `parts`."""
    return (torch.arange(bins, device=device) * parts // bins).clamp(0, parts - 1)


def _moved(Trans: Tensor, part_size: Sequence[int], size: tuple[int, int], std: float) -> Tensor:
    """Offsets by RoI, class, bin and axis (x, y), in region sizes: (R, K, ph, pw, 2)."""
    rows = _parts(size[0], part_size[0], Trans.device)
    columns = _parts(size[1], part_size[1], Trans.device)
    by_bin = Trans[:, :, rows[:, None], columns] * std
    return by_bin.reshape(len(by_bin), by_bin.shape[1] // 2, 2, *size).permute(0, 1, 3, 4, 2)


def _sampled(start: Tensor, extent: Tensor, shift: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Coordinates of the samples of each bin: rows and columns, (R, K, ph, pw, samples ** 2)."""
    bins = shift.shape[2:4]
    ticks = [torch.arange(count, device=start.device, dtype=start.dtype) for count in bins]
    inner = torch.arange(samples, device=start.device, dtype=start.dtype)

    def along(axis: int, grid: Tensor, count: int) -> Tensor:
        begin, size = (one[:, axis, None, None, None] for one in (start, extent))
        at = begin + grid * (size / count) + shift[..., axis] * size
        return at[..., None] + inner * (size / count / samples)[..., None]

    x = along(0, ticks[1], bins[1])[..., None, :]
    y = along(1, ticks[0][:, None], bins[0])[..., :, None]
    square = (*y.shape[:-1], samples)
    return y.expand(square).flatten(-2), x.expand(square).flatten(-2)


@operator(
    "deformable_psroi_pooling",
    outputs="TopCount Output",
    uses="Input ROIs Trans TopCount",
    differentiable="Input Trans",
    lod="",
    infer=infer_by(_infer),
)
def deformable_psroi_pooling(
    Input: Tensor,
    ROIs: Tensor,
    Trans: Tensor,
    *,
    no_trans: bool,
    spatial_scale: float,
    output_dim: int,
    group_size: Sequence[int],
    pooled_height: int,
    pooled_width: int,
    part_size: Sequence[int],
    sample_per_part: int,
    trans_std: float,
    lod_ROIs: Levels = (),
) -> tuple[Tensor, Tensor]:
    """Each bin as the mean of its samples inside Input, and how many those are.

    Trans (R, 2 * classes, part height, part width) moves the bins of a class by a share of the
    region, `trans_std` times. With `group_size` (gh, gw) a bin takes the channels for its place:
    Input has output_dim * gh * gw channels.
    """
    image = images_of("deformable_psroi_pooling", ROIs, lod_ROIs, Input.shape[0])
    n, _, height, width = Input.shape
    size = pooled_height, pooled_width
    start = away_from_zero(ROIs[:, :2]) * spatial_scale - 0.5
    end = (away_from_zero(ROIs[:, 2:]) + 1) * spatial_scale - 0.5
    shift = ROIs.new_zeros(ROIs.shape[0], 1, *size, 2)
    if not no_trans:
        shift = _moved(Trans, part_size, size, trans_std)
    y, x = _sampled(start, (end - start).clamp(min=_SMALLEST), shift, sample_per_part)
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    places, weight = corner_taps(y, x, height, width)
    count = inside.sum(-1).to(Input.dtype)
    weight = torch.where(inside[..., None], weight, 0) / count.clamp(min=1)[..., None, None]
    classes = shift.shape[1]
    group = _parts(size[0], group_size[0], Input.device)[:, None] * group_size[1]
    group = group + _parts(size[1], group_size[1], Input.device)
    groups = group_size[0] * group_size[1]
    kind = torch.arange(classes, device=Input.device).reshape(-1, 1, 1, 1, 1)
    plane = image.reshape(-1, 1, 1, 1, 1, 1) * (height * width) + places
    index = (plane * groups + group[..., None, None]) * classes + kind
    channels = output_dim // classes
    pixels = Input.reshape(n, classes, channels, groups, height, width).permute(0, 4, 5, 3, 1, 2)
    out = add_up(pixels.reshape(-1, channels), index.flatten(4), weight.flatten(4))
    shape = (ROIs.shape[0], output_dim, *size)
    counted = count[:, :, None].expand(-1, -1, channels, -1, -1).reshape(shape)
    return counted, out.permute(0, 1, 4, 2, 3).reshape(shape)


@gradient("deformable_psroi_pooling", like="deformable_psroi_pooling")
def deformable_psroi_pooling_grad(
    Input: Tensor,
    ROIs: Tensor,
    Trans: Tensor,
    TopCount: Tensor,
    d_Output: Tensor,
    **settings: Any,
) -> tuple[Tensor | None, Tensor]:
    """d_Output brought back to the pixels, and to the offsets: 0 where they are not used."""

    def forward(pixels: Tensor, offsets: Tensor) -> Tensor:
        out: Tensor = deformable_psroi_pooling(pixels, ROIs, offsets, **settings)[1]
        return out

    d_input, d_trans = pulled_back(forward, d_Output, Input, Trans)
    return d_input, torch.zeros_like(Trans) if d_trans is None else d_trans
