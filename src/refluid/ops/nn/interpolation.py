"""Images and volumes in another size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.reading import integers, unknown
from refluid.ops.registry import operator

_CHANNELS_LAST = {"NHWC", "NDHWC", "NWC"}


def _sizes(
    x: Tensor,
    given: Sequence[int],
    scale: float,
    OutSize: Tensor | None,
    SizeTensor: list[Tensor] | None,
    Scale: Tensor | None,
) -> list[int]:
    """Sizes of the result: by tensors, by a factor (in single precision), or by the attributes.

    Of a tensor of several factors, such as a converted model has for each dimension, Fluid takes
    the first for all sizes.
    """
    if SizeTensor:
        return integers(given, None, SizeTensor)
    if OutSize is not None:
        return integers(given, OutSize)
    if Scale is not None:
        if Scale.is_meta:
            return [unknown() for _ in given]
        if not Scale.numel():
            raise EnforceNotMet("Scale has no element, but has to have a factor")
        scale = float(Scale.flatten()[0].item())
    if scale <= 0:
        return list(given)
    return [int(np.float32(size) * np.float32(scale)) for size in x.shape[2:]]


def _places(size: int, wanted: int, corners: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Positions 0, 1, ... of the result, and how many elements of the source lie between two."""
    count = torch.arange(wanted, dtype=torch.float32, device=device)
    steps = (size - 1, wanted - 1) if corners else (size, wanted)
    return count, torch.tensor(steps[0], dtype=torch.float32, device=device) / max(steps[1], 1)


def _nearest(x: Tensor, dim: int, wanted: int, corners: bool, mode: int) -> Tensor:
    count, step = _places(x.shape[dim], wanted, corners, x.device)
    index = (count * step + (0.5 if corners else 0.0)).long()
    return x.index_select(dim, index.clamp(max=x.shape[dim] - 1))


def _linear(x: Tensor, dim: int, wanted: int, corners: bool, mode: int) -> Tensor:
    size = x.shape[dim]
    count, step = _places(size, wanted, corners, x.device)
    source = count * step
    low = source.long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    shape = [1] * x.dim()
    shape[dim] = wanted
    share = (source - low).reshape(shape).to(x.dtype)
    return x.index_select(dim, low) * (1.0 - share) + x.index_select(dim, high) * share


Resize = Callable[[Tensor, Sequence[int], bool, int], Tensor]


def _by_dimension(along: Callable[..., Tensor]) -> Resize:
    """Resizes one dimension after another."""

    def resize(x: Tensor, wanted: Sequence[int], corners: bool, mode: int) -> Tensor:
        for dim, size in enumerate(wanted, start=2):
            x = along(x, dim, size, corners, mode)
        return x

    return resize


def _by_kernel(mode: str, otherwise: Resize) -> Resize:
    """By torch's kernel, except where positions count from the corners of elements (mode 1)."""

    def resize(x: Tensor, wanted: Sequence[int], corners: bool, align_mode: int) -> Tensor:
        if not corners and align_mode != 0:
            return otherwise(x, wanted, corners, align_mode)
        for dim, size in enumerate(wanted, start=2):
            if size == 1:  # Fluid takes the first element, torch the middle
                x = x.narrow(dim, 0, 1)
        return F.interpolate(x, tuple(wanted), mode=mode, align_corners=corners)

    return resize


def _nearest_below(x: Tensor, wanted: Sequence[int], corners: bool, mode: int) -> Tensor:
    if corners:
        return _by_dimension(_nearest)(x, wanted, corners, mode)
    return F.interpolate(x, tuple(wanted), mode="nearest")


# The weight, half an element off, of the neighbour after the next one of a cubic kernel.
_FAR = -0.09375


def _cubic(x: Tensor, wanted: Sequence[int], corners: bool, mode: int) -> Tensor:
    for dim, size in enumerate(wanted, start=2):
        if size == 1 and not corners:  # Fluid samples at -0.5, torch the middle
            first, second = x.narrow(dim, 0, 1), x.narrow(dim, min(1, x.shape[dim] - 1), 1)
            x = first * (1.0 - _FAR) + second * _FAR
    return F.interpolate(x, tuple(wanted), mode="bicubic", align_corners=corners)


def _define(name: str, resize: Resize, sizes: Sequence[str], doc: str) -> None:
    def body(
        X: Tensor,
        OutSize: Tensor | None = None,
        SizeTensor: list[Tensor] | None = None,
        Scale: Tensor | None = None,
        *,
        data_layout: str = "NCHW",
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: float = 0.0,
        interp_method: str = "bilinear",
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        if X.dim() != len(sizes) + 2:
            raise EnforceNotMet(
                f"X has to have {len(sizes) + 2} dimensions, but has shape {list(X.shape)}"
            )
        x = X.movedim(-1, 1) if data_layout in _CHANNELS_LAST else X
        known = {"out_d": out_d, "out_h": out_h, "out_w": out_w}
        given = [known[size] for size in sizes]
        wanted = _sizes(x, given, scale, OutSize, SizeTensor, Scale)
        if min(wanted) <= 0:
            raise EnforceNotMet(f"sizes of Out have to be greater than 0, but are {wanted}")
        if x.is_meta:
            out = x.new_empty((*x.shape[:2], *wanted))
        else:
            out = resize(x, wanted, align_corners, align_mode)
        return out.movedim(1, -1) if data_layout in _CHANNELS_LAST else out

    body.__name__, body.__doc__ = name, doc
    operator(
        name,
        outputs="Out",
        uses="X OutSize SizeTensor Scale",
        differentiable="X",
        amp="keep",
        lod="",
        gradient_lod="none",
    )(body)


_PLANE, _VOLUME = ("out_h", "out_w"), ("out_d", "out_h", "out_w")
_TABLE: dict[str, tuple[Resize, tuple[str, ...], str]] = {
    "nearest_interp": (
        _nearest_below,
        _PLANE,
        "Images resized by nearest neighbours.",
    ),
    "bilinear_interp": (
        _by_kernel("bilinear", _by_dimension(_linear)),
        _PLANE,
        "Images resized by linear interpolation in both directions.",
    ),
    "trilinear_interp": (
        _by_kernel("trilinear", _by_dimension(_linear)),
        _VOLUME,
        "Volumes resized by linear interpolation in all three directions.",
    ),
    "bicubic_interp": (
        _cubic,
        _PLANE,
        "Images resized by cubic convolution (a = -0.75) in both directions.",
    ),
}
for _name, _row in _TABLE.items():
    _define(_name, *_row)
