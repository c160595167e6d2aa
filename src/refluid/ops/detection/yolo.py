"""yolo_box: boxes and scores from what YOLOv3 predicts per cell and anchor."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import shaped
from refluid.ops.bounded import Images, Pairs, Positive
from refluid.ops.detection.cells import numbers
from refluid.ops.indicating import indicator
from refluid.ops.registry import operator


def per_anchor(X: Tensor, anchors: int, class_num: int, where: str) -> Tensor:
    """(N, anchors * (5 + classes), H, W) as (N, anchors, 5 + classes, H, W)."""
    if X.shape[1] != anchors * (5 + class_num):
        raise EnforceNotMet(
            f"{where}: X has {X.shape[1]} channels, but {anchors} anchors of {class_num} classes "
            f"need {anchors} * (5 + {class_num}) = {anchors * (5 + class_num)}"
        )
    return X.reshape(X.shape[0], anchors, 5 + class_num, *X.shape[2:])


def centers(raw: Tensor, scale_x_y: float) -> tuple[Tensor, Tensor]:
    """Centers x, y (N, A, H, W) in parts of the map, from raw (N, A, 5 + C, H, W).

    Fluid counts columns in parts of the height, too: maps are square.
    """
    height, width = raw.shape[3:]
    moved = torch.sigmoid(raw[:, :, :2]) * scale_x_y - 0.5 * (scale_x_y - 1)
    x = (numbers(width, raw) + moved[:, :, 0]) / height
    y = (numbers(height, raw)[:, None] + moved[:, :, 1]) / height
    return x, y


def extents(raw: Tensor, sizes: Tensor, downsample: int) -> tuple[Tensor, Tensor]:
    """Width and height (N, A, H, W) in parts of the network's input, of anchors' sizes (A, 2).

    The input is as wide as it is high, as in Fluid.
    """
    w, h = sizes.to(raw.dtype).reshape(-1, 2, 1, 1).unbind(1)
    whole = downsample * raw.shape[3]
    return raw[:, :, 2].exp() * w / whole, raw[:, :, 3].exp() * h / whole


@operator("yolo_box", outputs="Boxes Scores", uses=None, lod="")
def yolo_box(
    X: Images,
    ImgSize: Annotated[Tensor, shaped(None, 2)],
    *,
    class_num: Positive,
    anchors: Pairs = (),
    downsample_ratio: int = 32,
    conf_thresh: float = 0.01,
    clip_bbox: bool = True,
    scale_x_y: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Boxes (N, anchors * H * W, 4) in pixels of the image and Scores (.., classes).

    ImgSize: int32 (N, 2), height and width of the images. Boxes and scores are 0 where the
    confidence is below `conf_thresh`. clip_bbox: boxes end at the image's borders. Maps should be
    square: as in Fluid the height counts for both directions.
    """
    if ImgSize.shape[0] != X.shape[0]:
        raise EnforceNotMet(
            f"yolo_box: ImgSize has {ImgSize.shape[0]} rows, but X has {X.shape[0]} images"
        )
    sizes = torch.tensor(anchors, device=X.device).reshape(-1, 2)
    raw = per_anchor(X, len(sizes), class_num, "yolo_box")
    (x, y), (w, h) = centers(raw, scale_x_y), extents(raw, sizes, downsample_ratio)
    height, width = ImgSize.to(X.dtype).reshape(-1, 2, 1, 1, 1).unbind(1)
    left, right = (x - w / 2) * width, (x + w / 2) * width
    top, bottom = (y - h / 2) * height, (y + h / 2) * height
    if clip_bbox:
        left, top = left.clamp(min=0), top.clamp(min=0)
        right, bottom = torch.minimum(right, width - 1), torch.minimum(bottom, height - 1)
    confidence = torch.sigmoid(raw[:, :, 4])
    sure = indicator(torch.ge, confidence, conf_thresh)
    boxes = torch.stack((left, top, right, bottom), -1).mul_(sure[..., None])
    scores = torch.sigmoid(raw[:, :, 5:]).mul_(confidence.mul_(sure)[:, :, None])
    return boxes.flatten(1, 3), scores.movedim(2, -1).flatten(1, 3)
