"""What anchors are to learn: rpn_target_assign and retinanet_target_assign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.bounded import Boxes, ImageSizes, Matrix
from refluid.ops.detection.overlaps import iou_similarity
from refluid.ops.detection.pixel_boxes import encoded
from refluid.ops.detection.sampling import by_image, require_together, some
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator
from refluid.ops.signature import Random

_SAME = 1e-5
_OUTPUTS = "LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight"


@dataclass(frozen=True)
class AnchorMatch:
    """Anchors of one image compared with its boxes.

    anchors: the places of those that take part. best, box: overlap with and place of the box
    that each overlaps most. wanted: whether it overlaps some box most of all anchors.
    """

    anchors: Tensor
    boxes: Tensor
    best: Tensor
    box: Tensor
    wanted: Tensor


@dataclass(frozen=True)
class AnchorChoice:
    """Places in a match: foreground, background, and what Fluid adds to the foreground's moves.

    It takes the first foreground anchor once more, with a weight of 0, for each background anchor
    that was foreground before.
    """

    front: Tensor
    back: Tensor
    fake: Tensor


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    dtype = inputs["GtBoxes"][1]
    return {
        "LocationIndex": ((ROWS,), VarType.INT32),
        "ScoreIndex": ((ROWS,), VarType.INT32),
        "TargetBBox": ((ROWS, 4), dtype),
        "TargetLabel": ((ROWS, 1), VarType.INT32),
        "BBoxInsideWeight": ((ROWS, 4), dtype),
        "ForegroundNumber": ((ROWS, 1), VarType.INT32),
    }


def _match(anchors: Tensor, taking_part: Tensor, boxes: Tensor) -> AnchorMatch:
    shared = iou_similarity(anchors[taking_part], boxes, box_normalized=False)
    if boxes.shape[0] == 0:
        nothing = shared.new_zeros(len(shared))
        return AnchorMatch(taking_part, boxes, nothing, nothing.long(), nothing.bool())
    best, box = shared.max(1)
    most = shared.max(0).values if len(shared) else shared.new_zeros(len(boxes))
    return AnchorMatch(taking_part, boxes, best, box, ((shared - most).abs() < _SAME).any(1))


def _inside(anchors: Tensor, image: Tensor, margin: float) -> Tensor:
    """Places of the anchors that stay within `margin` of the image; all for a negative one."""
    if margin < 0:
        return torch.arange(len(anchors), device=anchors.device)
    low = (anchors[:, 0] >= -margin) & (anchors[:, 1] >= -margin)
    high = (anchors[:, 2] < image[1] + margin) & (anchors[:, 3] < image[0] + margin)
    return (low & high).nonzero()[:, 0]


def _choose(front: Tensor, back: Tensor) -> AnchorChoice:
    both = torch.isin(front, back)
    return AnchorChoice(front[~both], back, front[:1].repeat(int(both.sum())))


def _targets(
    anchors: Tensor, matches: list[AnchorMatch], chosen: list[AnchorChoice], labels: list[Tensor]
) -> tuple[Any, ...]:
    """The first five outputs, from the choices in each match and the foreground's labels; LoDs."""
    location, score, targets, label, weight = [], [], [], [], []
    for image, (match, choice, kinds) in enumerate(zip(matches, chosen, labels, strict=True)):
        first = image * len(anchors)
        moved = torch.cat([choice.fake, choice.front])
        location.append(match.anchors[moved] + first)
        score.append(match.anchors[torch.cat([choice.front, choice.back])] + first)
        targets.append(encoded(anchors[match.anchors[moved]], match.boxes[match.box[moved]]))
        label += [kinds, torch.zeros_like(choice.back)]
        real = targets[-1].new_zeros(len(moved), 4)
        real[len(choice.fake) :] = 1.0
        weight.append(real)
    moves, scores = ((Offsets.of_lengths(map(len, each)),) for each in (location, score))
    outputs = (
        torch.cat(location).int(),
        torch.cat(score).int(),
        torch.cat(targets),
        torch.cat(label).int()[:, None],
        torch.cat(weight),
    )
    return outputs, (moves, scores, moves, scores, moves)


@operator(
    "rpn_target_assign",
    outputs=_OUTPUTS,
    uses=None,
    lod="",
    makes_lod=_OUTPUTS,
    infer=infer_by(_infer),
)
def rpn_target_assign(
    Anchor: Matrix,
    GtBoxes: Boxes,
    IsCrowd: Tensor,
    ImInfo: ImageSizes,
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
) -> tuple[Any, ...]:
    """Foreground (F) and background anchors, `rpn_batch_size_per_im` per image, and their targets.

    Foreground anchors overlap a box by `rpn_positive_overlap`, or more than all other anchors;
    background ones, which take precedence, none by `rpn_negative_overlap`. Returns the places of
    the former (F) and of both, int32; the moves to the boxes (F, 4), labels 1 and 0, and weights
    of 1 (F, 4). F counts what Fluid adds, too: see `AnchorChoice`.
    """
    values = by_image(
        "rpn_target_assign",
        len(ImInfo),
        GtBoxes=(GtBoxes, lod_GtBoxes),
        IsCrowd=(IsCrowd.reshape(-1), lod_IsCrowd),
    )
    require_together(GtBoxes=lod_GtBoxes, IsCrowd=lod_IsCrowd)
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
        chosen.append(_choose(front, back))
    labels = [torch.ones_like(choice.front) for choice in chosen]
    outputs, lods = _targets(Anchor, matches, chosen, labels)
    return *outputs, *lods


@operator(
    "retinanet_target_assign",
    outputs=f"{_OUTPUTS} ForegroundNumber",
    uses=None,
    lod="",
    makes_lod=f"{_OUTPUTS} ForegroundNumber",
    infer=infer_by(_infer),
)
def retinanet_target_assign(
    Anchor: Matrix,
    GtBoxes: Boxes,
    GtLabels: Tensor,
    IsCrowd: Tensor,
    ImInfo: ImageSizes,
    *,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
    lod_GtBoxes: Levels = (),
    lod_GtLabels: Levels = (),
    lod_IsCrowd: Levels = (),
) -> tuple[Any, ...]:
    """All foreground and background anchors and their targets, as `rpn_target_assign`.

    Labels are the classes of the boxes, 0 for background. ForegroundNumber, int32 (N, 1), is one
    more than the number of foreground anchors of each image, with what Fluid adds to them.
    """
    values = by_image(
        "retinanet_target_assign",
        len(ImInfo),
        GtBoxes=(GtBoxes, lod_GtBoxes),
        GtLabels=(GtLabels.reshape(-1), lod_GtLabels),
        IsCrowd=(IsCrowd.reshape(-1), lod_IsCrowd),
    )
    require_together(GtBoxes=lod_GtBoxes, GtLabels=lod_GtLabels, IsCrowd=lod_IsCrowd)
    everywhere = torch.arange(len(Anchor), device=Anchor.device)
    matches, chosen, labels = [], [], []
    for image, (boxes, kinds, crowd) in zip(ImInfo, values, strict=True):
        match = _match(Anchor, everywhere, boxes[crowd == 0] * image[2])
        positive = match.wanted | (match.best >= positive_overlap)
        back = (match.best < negative_overlap).nonzero()[:, 0]
        choice = _choose(positive.nonzero()[:, 0], back)
        matches.append(match)
        chosen.append(choice)
        labels.append(kinds[crowd == 0][match.box[choice.front]].to(torch.int64))
    numbers = [len(choice.fake) + len(choice.front) + 1 for choice in chosen]
    counted = torch.tensor(numbers, dtype=torch.int32, device=Anchor.device)[:, None]
    outputs, lods = _targets(Anchor, matches, chosen, labels)
    each = (Offsets.of_lengths([1] * len(numbers)),)
    return *outputs, counted, *lods, each
