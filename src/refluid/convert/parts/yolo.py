"""Boxes and loss of YOLO v3."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def yolo_boxes(
    x: Tensor, anchors: list[int], scale: float, downsample: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Center, width and height (N, A, H, W) in parts of the image of x (N, A, 5 + C, H, W)."""
    height, width = x.shape[3:]
    moved = torch.sigmoid(x[:, :, :2]) * scale - 0.5 * (scale - 1)
    across = (torch.arange(width, device=x.device) + moved[:, :, 0]) / height
    down = (torch.arange(height, device=x.device)[:, None] + moved[:, :, 1]) / height
    w, h = x.new_tensor(anchors).reshape(-1, 2, 1, 1).unbind(1)
    whole = downsample * height
    return across, down, x[:, :, 2].exp() * w / whole, x[:, :, 3].exp() * h / whole


def yolo_box(
    x: Tensor,
    sizes: Tensor,
    anchors: list[int],
    classes: int,
    downsample: int,
    threshold: float,
    clip: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Boxes (N, A * H * W, 4) in pixels and scores (.., classes); 0 below the threshold."""
    x = x.reshape(len(x), -1, 5 + classes, *x.shape[2:])
    across, down, w, h = yolo_boxes(x, anchors, scale, downsample)
    height, width = sizes.to(x.dtype).reshape(-1, 2, 1, 1, 1).unbind(1)
    left, right = (across - w / 2) * width, (across + w / 2) * width
    top, bottom = (down - h / 2) * height, (down + h / 2) * height
    if clip:
        left, top = left.clamp(min=0), top.clamp(min=0)
        right, bottom = torch.minimum(right, width - 1), torch.minimum(bottom, height - 1)
    confidence = torch.sigmoid(x[:, :, 4])
    sure = (confidence >= threshold).to(x.dtype)
    boxes = torch.stack([left, top, right, bottom], -1) * sure[..., None]
    scores = torch.sigmoid(x[:, :, 5:]) * (confidence * sure)[:, :, None]
    return boxes.flatten(1, 3), scores.movedim(2, -1).flatten(1, 3)


def yolo_anchors(boxes: Tensor, anchors: Tensor, mask: list[int]) -> Tensor:
    """The place in `mask` of the anchor most like each box (N, B) in shape, -1 for none."""
    shared = torch.minimum(boxes[..., None, 2:], anchors.to(boxes.dtype)).prod(-1)
    like = shared / (boxes[..., None, 2:].prod(-1) + anchors.prod(-1) - shared)
    place = torch.full((len(anchors),), -1, device=boxes.device)
    place[mask] = torch.arange(len(mask), device=boxes.device)
    return place[like.argmax(-1)]


def centered_overlaps(predicted: list[Tensor], boxes: Tensor) -> Tensor:
    """Shared by covered area (N, B, P) of boxes of a center, a width and a height."""
    (x, y, w, h), (bx, by, bw, bh) = predicted, boxes[..., None].unbind(2)
    wide = torch.minimum(x + w / 2, bx + bw / 2) - torch.maximum(x - w / 2, bx - bw / 2)
    high = torch.minimum(y + h / 2, by + bh / 2) - torch.maximum(y - h / 2, by - bh / 2)
    shared = wide.clamp(min=0) * high.clamp(min=0)
    return shared / (w * h + bw * bh - shared)


def yolo_loss(
    x: Tensor,
    boxes: Tensor,
    labels: Tensor,
    scores: Tensor | None,
    anchors: list[int],
    mask: list[int],
    classes: int,
    downsample: int,
    ignore: float,
    smooth: bool,
    scale: float,
) -> Tensor:
    """The loss (N) of x (N, A * (5 + C), H, W); boxes (N, B, 4): center and size, zeros for none.

    A box trains the cell of its center and the anchor most like it, if that is one of `mask`. Other
    predictions are to be no object, unless they overlap a box by more than `ignore`.
    """
    n, planes = len(x), len(mask)
    x = x.reshape(n, planes, 5 + classes, *x.shape[2:])
    size = x.shape[3] * downsample
    sizes = torch.tensor(anchors, device=x.device).reshape(-1, 2)
    filled = (boxes[..., 2:] >= 1e-6).all(-1)
    anchor = yolo_anchors(boxes, sizes / size, mask).masked_fill(~filled, -1)
    own = sizes[mask].flatten().tolist()
    predicted = [one.flatten(1)[:, None] for one in yolo_boxes(x, own, scale, downsample)]
    overlap = centered_overlaps(predicted, boxes).masked_fill(~filled[..., None], 0.0).amax(1)
    wanted = torch.where(overlap > ignore, -1.0, 0.0).detach()

    image, number = (anchor >= 0).nonzero(as_tuple=True)
    plane, box = anchor[image, number], boxes[image, number]
    weight = x.new_ones(len(box)) if scores is None else scores[image, number].to(x.dtype)
    scaled = box[:, :2] * x.new_tensor([x.shape[4], x.shape[3]])
    column, row = scaled.long().unbind(1)
    cell = (plane * x.shape[3] + row) * x.shape[4] + column
    for which in range(len(box)):  # the last box of a cell counts
        wanted[image[which], cell[which]] = weight[which]

    found = x.movedim(2, -1)[image, plane, row, column]
    rest = min(1 / classes, 1 / 40) if smooth else 0.0
    kind = F.one_hot(labels[image, number].long(), classes) * (1 - 2 * rest) + rest
    entropy = F.binary_cross_entropy_with_logits
    size_wanted = (box[:, 2:] * size / sizes[mask][plane]).log()
    location = entropy(found[:, :2], scaled - scaled.floor(), reduction="none").sum(1)
    location = (location + (found[:, 2:4] - size_wanted).abs().sum(1)) * weight
    location = location * (2.0 - box[:, 2] * box[:, 3])
    kinds = entropy(found[:, 5:], kind.to(x.dtype), reduction="none").sum(1) * weight
    objects = entropy(x[:, :, 4].flatten(1), (wanted > 1e-5).to(x.dtype), reduction="none")
    objects = objects * torch.where(wanted > 1e-5, wanted, (wanted > -0.5).to(x.dtype))
    return objects.sum(1).index_add(0, image, location + kinds)
