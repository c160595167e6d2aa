"""Images as sequences of their patches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.offsets import Levels, Offsets
from refluid.ops.bounded import Images
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from
from refluid.ops.sequence.padded import unpad_rows

SizePair = tuple[int, int]


def _count(size: int, kernel: int, stride: int, pads: int) -> int:
    """How many windows fit; what is left over at the end is left out."""
    return 1 + (size + pads - kernel) // stride


def _padding(
    shape: Sequence[int], kernels: SizePair, strides: SizePair, pads: Sequence[int]
) -> list[int]:
    """What is put around the images, as `F.pad` takes it, so that the windows cover all of it.

    At the end it may be negative: what no window reaches is left out.
    """
    up, left, down, right = pads
    rows = _count(shape[0], kernels[0], strides[0], up + down)
    columns = _count(shape[1], kernels[1], strides[1], left + right)
    height = (rows - 1) * strides[0] + kernels[0]
    width = (columns - 1) * strides[1] + kernels[1]
    return [left, width - left - shape[1], up, height - up - shape[0]]


def _real_counts(
    real: Tensor, kernels: SizePair, strides: SizePair, pads: Sequence[int], scale: Sequence[int]
) -> list[SizePair]:
    """Rows and columns of windows in images whose size, before it was scaled down, is known."""
    return [
        (
            _count(-(-int(height) // scale[0]), kernels[0], strides[0], pads[0] + pads[2]),
            _count(-(-int(width) // scale[1]), kernels[1], strides[1], pads[1] + pads[3]),
        )
        for height, width in real.tolist()
    ]


def _cut(patches: Tensor, counts: list[SizePair]) -> tuple[Tensor, Offsets]:
    """Of the windows (N, rows, columns, K) the first rows and columns that each image has."""
    sizes = torch.tensor(counts, device=patches.device)
    rows = torch.arange(patches.shape[1], device=patches.device)
    columns = torch.arange(patches.shape[2], device=patches.device)
    inside = (rows < sizes[:, :1]).unsqueeze(2) & (columns < sizes[:, 1:]).unsqueeze(1)
    return patches[inside], Offsets.of_lengths(inside.flatten(1).sum(1).tolist())


@operator(
    "im2sequence",
    gradient_lod="none",
    outputs="Out",
    lod="",
    makes_lod="Out",
    uses="X",
    differentiable="X",
    infer=infer_from(
        # Fluid declares as many rows as there are images.
        {"Out": lambda X, kernels: (X[0], X[1] * kernels[0] * kernels[1])},
        levels={"Out": lambda X: 1},
    ),
)
def im2sequence(
    X: Images,
    Y: Tensor | None = None,
    *,
    kernels: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
    out_stride: Sequence[int] = (1, 1),
) -> tuple[Tensor, Levels]:
    """Each image of X (N, C, H, W) as the sequence of its windows, rows of C * kernel elements.

    paddings: up, left, down, right. Y (N, 2): the images' own heights and widths, of which X
    has one in out_stride; windows beyond them are left out.
    """
    size, step = (kernels[0], kernels[1]), (strides[0], strides[1])
    around = _padding(X.shape[2:], size, step, paddings)
    patches = F.unfold(F.pad(X, around), size, stride=step).transpose(1, 2)
    count, windows, width = patches.shape
    if Y is None:
        offsets = Offsets.of_lengths([windows] * count)
        return unpad_rows(patches, offsets), (offsets,)
    columns = _count(X.shape[3], size[1], step[1], paddings[1] + paddings[3])
    grid = patches.reshape(count, windows // columns, columns, width)
    rows, offsets = _cut(grid, _real_counts(Y, size, step, paddings, out_stride))
    return rows, (offsets,)


@gradient("im2sequence", shape_only="X")
def im2sequence_grad(
    X: Tensor,
    d_Out: Tensor,
    *,
    kernels: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
) -> Tensor:
    """For each pixel the sum of the gradients of the windows that it is in."""
    size, step = (kernels[0], kernels[1]), (strides[0], strides[1])
    left, right, up, down = _padding(X.shape[2:], size, step, paddings)
    height, width = X.shape[2:]
    whole = (height + up + down, width + left + right)
    patches = d_Out.reshape(X.shape[0], -1, d_Out.shape[1]).transpose(1, 2)
    images = F.fold(patches, whole, size, stride=step)
    return F.pad(images, (-left, -right, -up, -down)).contiguous()
