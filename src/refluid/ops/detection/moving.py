"""Boxes brought into the image, and corners given as distances from their pixel."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ir.checks import Check, rank
from refluid.ops.bounded import ImageSizes
from refluid.ops.detection.cells import numbers
from refluid.ops.detection.rois import away_from_zero
from refluid.ops.infer import infer_like
from refluid.ops.registry import operator


@operator("box_clip", outputs="Output", uses=None, infer=infer_like("Output", "Input"))
def box_clip(Input: Tensor, ImInfo: ImageSizes, *, lod_Input: Levels = ()) -> Tensor:
    """Boxes (..., 4), a sequence per image, cut at the borders of the unscaled images.

    ImInfo: (images, 3), height and width as scaled, and the scale.
    """
    if Input.shape[-1] != 4:
        raise EnforceNotMet(f"box_clip: the last size of Input has to be 4, not {Input.shape[-1]}")
    if not lod_Input and ImInfo.shape[0] != 1:
        raise EnforceNotMet(
            "box_clip: Input carries no LoD, so the image of a box is unknown; feed the boxes as "
            "a LoDTensor with one sequence per image"
        )
    if lod_Input and len(lod_Input[-1]) > len(ImInfo):
        raise EnforceNotMet(
            f"box_clip: the LoD of Input describes {len(lod_Input[-1])} images, but ImInfo has "
            f"only {len(ImInfo)} rows, one per image"
        )
    size = away_from_zero(ImInfo[:, [1, 0]] / ImInfo[:, 2:]) - 1
    if lod_Input:
        size = size[lod_Input[-1].owners(Input.device)]
    limit = size.repeat(1, 2).reshape(-1, *[1] * (Input.dim() - 2), 4)
    # An image of size 0 and scale 0 has no border: what compares with NaN stays.
    return torch.where(limit < Input, limit, Input).clamp(min=0)


_PAIRS = Check("of an even number of channels", lambda shape: shape[1] < 0 or shape[1] % 2 == 0)


@operator("polygon_box_transform", outputs="Output", uses=None, lod="")
def polygon_box_transform(Input: Annotated[Tensor, rank(4), _PAIRS]) -> Tensor:
    """(N, 2 * corners, H, W): where corners are, from how far left of and above a pixel they are.

    Pixels are 4 apart; channels are x and y in turn.
    """
    out = -Input
    out[:, 0::2] += 4 * numbers(Input.shape[3], Input)
    out[:, 1::2] += 4 * numbers(Input.shape[2], Input)[:, None]
    return out
