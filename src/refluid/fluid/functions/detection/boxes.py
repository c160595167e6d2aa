"""Boxes (xmin, ymin, xmax, ymax): their overlap, their coding, the image's borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.ir.variable import Variable

__all__ = [
    "box_clip",
    "box_coder",
    "box_decoder_and_assign",
    "iou_similarity",
    "polygon_box_transform",
]


def iou_similarity(
    x: Variable, y: Variable, box_normalized: bool = True, name: str | None = None
) -> Variable:
    """(N, 4), (M, 4) -> (N, M): shared area by covered area of each two boxes.

    box_normalized: False for boxes in pixels that hold their last one. The LoD is that of `x`.
    """
    attrs = {"box_normalized": box_normalized}
    return op("iou_similarity", {"X": x, "Y": y}, attrs, name=name)


def box_coder(
    prior_box: Variable,
    prior_box_var: Variable | Sequence[float] | None,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    name: str | None = None,
    axis: int = 0,
) -> Variable:
    """Boxes as differences in center and size from prior boxes (M, 4), or back.

    'encode_center_size': target (N, 4) -> (N, M, 4). 'decode_center_size': differences
    (N, M, 4) -> boxes (N, M, 4), the priors lying along dimension 1, or dimension 0 if `axis`
    is 1. The differences are divided by the variances, (M, 4) or four numbers, in encoding.

    Raises TypeError for variances that are neither.
    """
    attrs: dict[str, Any] = {
        "code_type": code_type,
        "box_normalized": box_normalized,
        "axis": axis,
    }
    inputs = {"PriorBox": prior_box, "TargetBox": target_box}
    if isinstance(prior_box_var, Variable):
        inputs["PriorBoxVar"] = prior_box_var
    elif isinstance(prior_box_var, list | tuple):
        attrs["variance"] = list(prior_box_var)
    elif prior_box_var is not None:
        raise TypeError(
            f"Input variance of box_coder must be Variable or list, but received {prior_box_var!r}"
        )
    return op("box_coder", inputs, attrs, name=name)


def box_clip(input: Variable, im_info: Variable, name: str | None = None) -> Variable:
    """Boxes (..., 4), a sequence per image, cut at the borders of the unscaled images.

    im_info: (images, 3), height, width and scale of the scaled images.
    """
    return op("box_clip", {"Input": input, "ImInfo": im_info}, name=name)


def polygon_box_transform(input: Variable, name: str | None = None) -> Variable:
    """(N, 2 * corners, H, W): corners from their distances to pixels, which are 4 apart."""
    return op("polygon_box_transform", {"Input": input}, name=name)


def box_decoder_and_assign(
    prior_box: Variable,
    prior_box_var: Variable,
    target_box: Variable,
    box_score: Variable,
    box_clip: float,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Boxes (N, classes * 4) decoded per class, and (N, 4) those of the best class but class 0.

    prior_box (N, 4), prior_box_var (4), target_box (N, classes * 4), box_score (N, classes).
    box_clip: the highest logarithm of a change in size.
    """
    inputs = {
        "PriorBox": prior_box,
        "PriorBoxVar": prior_box_var,
        "TargetBox": target_box,
        "BoxScore": box_score,
    }
    kinds = dict.fromkeys(("DecodeBox", "OutputAssignBox"), prior_box.dtype)
    attrs = {"box_clip": box_clip}
    decoded, assigned = op("box_decoder_and_assign", inputs, attrs, kinds, name=name)
    return decoded, assigned
