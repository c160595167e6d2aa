"""What anchors are to learn: rpn_target_assign and retinanet_target_assign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.detection.overlaps import iou_similarity
from refluid.ops.detection.pixel_boxes import encoded
from refluid.ops.detection.sampling import by_image, some
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import Spec
from refluid.ops.registry import operator
from refluid.ops.signature import Random

_SAME = 1e-5
_OUTPUTS = "LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight"


@dataclass(frozen=True)
class Match:
    """Anchors of one image compared with its boxes.

    anchors: the places of those that take part. best, box: overlap with and place of the box
    that each overlaps most. wanted: whether it overlaps some box most of all anchors.
    """

    anchors: Tensor
    boxes: Tensor
    best: Tensor
    box: Tensor
    wanted: Tensor


def _infer(op: Operator, inputs: Mapping[str, Spec]) -> dict[str, Spec]:
    dtype = inputs["GtBoxes"][1]
    return {
        "LocationIndex": ((ROWS,), VarType.INT32),
        "ScoreIndex": ((ROWS,), VarType.INT32),
        "TargetBBox": ((ROWS, 4), dtype),
        "TargetLabel": ((ROWS, 1), VarType.INT32),
        "BBoxInsideWeight": ((ROWS, 4), dtype),
        "ForegroundNumber": ((ROWS, 1), VarType.INT32),
    }


def _match(anchors: Tensor, taking_part: Tensor, boxes: Tensor) -> Match:
    shared = iou_similarity(anchors[taking_part], boxes, box_normalized=False)
    if boxes.shape[0] == 0:
        nothing = shared.new_zeros(len(shared))
        return Match(taking_part, boxes, nothing, nothing.long(), nothing.bool())
    best, box = shared.max(1)
    most = shared.max(0).values if len(shared) else shared.new_zeros(len(boxes))
    return Match(taking_part, boxes, best, box, ((shared - most).abs() < _SAME).any(1))


def _inside(anchors: Tensor, image: Tensor, margin: float) -> Tensor:
    """Places of the anchors that stay within `margin` of the image; all for a negative one."""
    if margin < 0:
        return torch.arange(len(anchors), device=anchors.device)
    low = (anchors[:, 0] >= -margin) & (anchors[:, 1] >= -margin)
    high = (anchors[:, 2] < image[1] + margin) & (anchors[:, 3] < image[0] + margin)
    return (low & high).nonzero()[:, 0]


def _targets(
    anchors: Tensor, matches: list[Match], chosen: list[tuple[Tensor, Tensor]], labels: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The first five outputs, from the places of foreground and background in each match."""
    location, score, targets, label = [], [], [], []
    for image, (match, (front, back), kinds) in enumerate(
        zip(matches, chosen, labels, strict=True)
    ):
        first = image * len(anchors)
        location.append(match.anchors[front] + first)
        score += [match.anchors[front] + first, match.anchors[back] + first]
        targets.append(encoded(anchors[match.anchors[front]], match.boxes[match.box[front]]))
        label += [kinds, torch.zeros_like(back)]
    target = torch.cat(targets)
    return (
        torch.cat(location).int(),
        torch.cat(score).int(),
        target,
        torch.cat(label).int()[:, None],
        torch.ones_like(target),
    )


@operator(
    "rpn_target_assign",
    outputs=_OUTPUTS,
    uses=None,
    lod="",
    infer=infer_by(_infer),
)
def rpn_target_assign(
    Anchor: Tensor,
    GtBoxes: Tensor,
    IsCrowd: Tensor,
    ImInfo: Tensor,
    *,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    rpn_fg_fraction: float = 0.25,
    use_random: bool = True,
    random: Random,
    lod_GtBoxes: Levels = (),
    lod_IsCrowd: Levels = (),
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Foreground (F) and background anchors, `rpn_batch_size_per_im` per image, and their targets.

    Foreground anchors overlap a box by `rpn_positive_overlap`, or more than all other anchors;
    background ones, which take precedence, none by `rpn_negative_overlap`. Returns the places of
    the former (F) and of both, int32; the moves to the boxes (F, 4), labels 1 and 0, and weights
    of 1 (F, 4).
    """
    values = by_image(
        "rpn_target_assign",
        len(ImInfo),
        GtBoxes=(GtBoxes, lod_GtBoxes),
        IsCrowd=(IsCrowd.reshape(-1), lod_IsCrowd),
    )
    generator = random(0) if use_random else None
    matches, chosen = [], []
    for image, (boxes, crowd) in zip(ImInfo, values, strict=True):
        taking_part = _inside(Anchor, image, rpn_straddle_thresh)
        match = _match(Anchor, taking_part, boxes[crowd == 0] * image[2])
        positive = match.wanted | (match.best >= rpn_positive_overlap)
        most = int(rpn_fg_fraction * rpn_batch_size_per_im)
        front = some(positive.nonzero()[:, 0], most, generator, use_random)
        back = (match.best < rpn_negative_overlap).nonzero()[:, 0]
        back = some(back, rpn_batch_size_per_im - len(front), generator, use_random)
        matches.append(match)
        chosen.append((front[~torch.isin(front, back)], back))
    labels = [torch.ones_like(front) for front, _ in chosen]
    return _targets(Anchor, matches, chosen, labels)


@operator(
    "retinanet_target_assign",
    outputs=f"{_OUTPUTS} ForegroundNumber",
    uses=None,
    lod="",
    infer=infer_by(_infer),
)
def retinanet_target_assign(
    Anchor: Tensor,
    GtBoxes: Tensor,
    GtLabels: Tensor,
    IsCrowd: Tensor,
    ImInfo: Tensor,
    *,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
    lod_GtBoxes: Levels = (),
    lod_GtLabels: Levels = (),
    lod_IsCrowd: Levels = (),
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All foreground and background anchors and their targets, as `rpn_target_assign`.

    Labels are the classes of the boxes, 0 for background. ForegroundNumber, int32 (N, 1), is one
    more than the number of foreground anchors of each image.
    """
    values = by_image(
        "retinanet_target_assign",
        len(ImInfo),
        GtBoxes=(GtBoxes, lod_GtBoxes),
        GtLabels=(GtLabels.reshape(-1), lod_GtLabels),
        IsCrowd=(IsCrowd.reshape(-1), lod_IsCrowd),
    )
    everywhere = torch.arange(len(Anchor), device=Anchor.device)
    matches, chosen, labels = [], [], []
    for image, (boxes, kinds, crowd) in zip(ImInfo, values, strict=True):
        match = _match(Anchor, everywhere, boxes[crowd == 0] * image[2])
        negative = match.best < negative_overlap
        positive = (match.wanted | (match.best >= positive_overlap)) & ~negative
        front, back = positive.nonzero()[:, 0], negative.nonzero()[:, 0]
        matches.append(match)
        chosen.append((front, back))
        labels.append(kinds[crowd == 0][match.box[front]].to(torch.int64))
    numbers = [len(front) + 1 for front, _ in chosen]
    counted = torch.tensor(numbers, dtype=torch.int32, device=Anchor.device)[:, None]
    return *_targets(Anchor, matches, chosen, labels), counted
