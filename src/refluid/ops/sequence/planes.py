"""Convolution of images that all have sizes of their own: var_conv_2d."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core.offsets import Levels, Offsets
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from, sequences_of


@dataclass(frozen=True)
class Windows:
    """A square of elements around every stride-th element of an image."""

    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]

    @property
    def size(self) -> int:
        return self.channels * self.kernel[0] * self.kernel[1]

    def counts(self, rows: Offsets, columns: Offsets) -> tuple[Tensor, Tensor]:
        """How many windows there are down and across each image."""
        down = (rows.length_tensor() - 1) // self.stride[0] + 1
        return down, (columns.length_tensor() - 1) // self.stride[1] + 1


@dataclass(frozen=True)
class Gathering:
    """Where each window finds its elements, and the windows of each image."""

    index: Tensor
    places: Offsets


def _gather(
    windows: Windows, images: Offsets, rows: Offsets, columns: Offsets, device: torch.device
) -> Gathering:
    """Elements outside of an image are the one after all of them, number `images.total`."""
    down, across = windows.counts(rows, columns)
    places = Offsets.of_lengths((down * across).tolist())
    owner, place = places.owners(device), places.positions(device)
    across_here = across.to(device)[owner]
    height = rows.length_tensor(device)[owner].unsqueeze(1)
    width = columns.length_tensor(device)[owner].unsqueeze(1)
    element = torch.arange(windows.size, device=device)
    (kernel_h, kernel_w), (stride_h, stride_w) = windows.kernel, windows.stride
    inner = element % (kernel_h * kernel_w)
    y = (place // across_here * stride_h).unsqueeze(1) + inner // kernel_w - kernel_h // 2
    x = (place % across_here * stride_w).unsqueeze(1) + inner % kernel_w - kernel_w // 2
    channel = element // (kernel_h * kernel_w)
    index = images.tensor(device)[owner].unsqueeze(1) + (channel * height + y) * width + x
    outside = (y < 0) | (y >= height) | (x < 0) | (x >= width) | (index >= images.total)
    return Gathering(index.masked_fill_(outside, images.total), places)


def _planes(places: Offsets, channels: int, device: torch.device) -> tuple[Tensor, Offsets]:
    """From (places, channels) to images of channels one after another: which elements, flat."""
    planes = Offsets(start * channels for start in places.values)
    owner, element = planes.owners(device), planes.positions(device)
    area = places.length_tensor(device)[owner]
    place = places.tensor(device)[owner] + element % area
    return place * channels + element // area, planes


def _gathered(
    X: Tensor,
    lod_X: Levels,
    ROW: Tensor,
    lod_ROW: Levels,
    COLUMN: Tensor,
    lod_COLUMN: Levels,
    windows: Windows,
) -> tuple[Gathering, Tensor]:
    """The windows of all images, and their elements (windows, size)."""
    rows, columns = sequences_of(ROW, lod_ROW, "ROW"), sequences_of(COLUMN, lod_COLUMN, "COLUMN")
    found = _gather(windows, sequences_of(X, lod_X), rows, columns, X.device)
    return found, torch.cat((X.flatten(), X.new_zeros(1)))[found.index]


@operator(
    "var_conv_2d",
    outputs="Out Col",
    lod="",
    makes_lod="Out Col",
    differentiable="X W",
    infer=infer_from({"Out": lambda X: (-1, 1), "Col": lambda X: (-1, 1)}),
)
def var_conv_2d(
    X: Tensor,
    ROW: Tensor,
    COLUMN: Tensor,
    W: Tensor,
    *,
    lod_X: Levels,
    lod_ROW: Levels,
    lod_COLUMN: Levels,
    InputChannel: int = 1,
    OutputChannel: int = 1,
    StrideH: int = 1,
    StrideW: int = 1,
    KernelH: int = 1,
    KernelW: int = 1,
) -> tuple[Tensor, Tensor, Levels, Levels]:
    """Each image of X convolved with W (OutputChannel, InputChannel * KernelH * KernelW).

    Sequence i of X is an image (InputChannel, rows, columns), flat, as large as sequence i of
    ROW and COLUMN are long; elements missing at the end of X are 0. Windows are centred on every
    stride-th element, zeros are outside. Out and Col (the windows): images, flat, (elements, 1).
    """
    windows = Windows(InputChannel, (KernelH, KernelW), (StrideH, StrideW))
    found, elements = _gathered(X, lod_X, ROW, lod_ROW, COLUMN, lod_COLUMN, windows)
    out_index, outs = _planes(found.places, OutputChannel, X.device)
    col_index, cols = _planes(found.places, windows.size, X.device)
    out = (elements @ W.t()).flatten()[out_index].unsqueeze(1)
    return out, elements.flatten()[col_index].unsqueeze(1), (outs,), (cols,)


@gradient("var_conv_2d")
def var_conv_2d_grad(
    X: Tensor,
    ROW: Tensor,
    COLUMN: Tensor,
    W: Tensor,
    Out: Tensor,
    Col: Tensor,
    d_Out: Tensor,
    *,
    lod_X: Levels,
    lod_ROW: Levels,
    lod_COLUMN: Levels,
    InputChannel: int = 1,
    OutputChannel: int = 1,
    StrideH: int = 1,
    StrideW: int = 1,
    KernelH: int = 1,
    KernelW: int = 1,
) -> tuple[Tensor, Tensor]:
    """Each element of a window gets d_Out times W; W gets d_Out times the windows."""
    windows = Windows(InputChannel, (KernelH, KernelW), (StrideH, StrideW))
    found, elements = _gathered(X, lod_X, ROW, lod_ROW, COLUMN, lod_COLUMN, windows)
    out_index, _ = _planes(found.places, OutputChannel, X.device)
    d_flat = torch.empty_like(d_Out.flatten())
    d_flat[out_index] = d_Out.flatten()
    d_places = d_flat.reshape(-1, OutputChannel)
    d_all = X.new_zeros(X.numel() + 1)
    d_all.index_add_(0, found.index.flatten(), (d_places @ W).flatten())
    return d_all[:-1].reshape(X.shape).clone(), d_places.t() @ elements
