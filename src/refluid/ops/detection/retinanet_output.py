"""retinanet_detection_output: the detections of a RetinaNet from all levels of its pyramid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.detection.overlaps import overlap_of
from refluid.ops.detection.pixel_boxes import clipped, decoded
from refluid.ops.detection.shapes import infer_by
from refluid.ops.detection.suppression import Candidates, suppress
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    (_, boxes, values), dtype = inputs["BBoxes"]
    return {"Out": ((boxes, values + 2), dtype)}


def _level(
    boxes: Tensor, scores: Tensor, anchors: Tensor, limit: float, most: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The `most` best above `limit` of each image: images, classes, scores and decoded boxes."""
    flat = scores.reshape(len(scores), -1)
    order = flat.argsort(dim=1, descending=True, stable=True)
    order = order[:, :most] if most > -1 else order
    image, rank = (flat.gather(1, order) > limit).nonzero(as_tuple=True)
    best = order[image, rank]
    classes = scores.shape[2]
    at = best // classes
    return image, best % classes, flat[image, best], decoded(anchors[at], boxes[image, at])


@operator(
    "retinanet_detection_output",
    outputs="Out",
    uses=None,
    lod="",
    makes_lod="Out",
    infer=infer_by(_infer),
)
def retinanet_detection_output(
    BBoxes: list[Tensor],
    Scores: list[Tensor],
    Anchors: list[Tensor],
    ImInfo: Tensor,
    *,
    score_threshold: float,
    nms_top_k: int,
    nms_threshold: float,
    nms_eta: float,
    keep_top_k: int,
) -> tuple[Tensor, Levels]:
    """Rows of label (from 1), score and box in the original image, by image and falling score.

    By level: BBoxes (N, M, 4) refine Anchors (M, 4), Scores (N, M, classes). Boxes of a class
    that overlap a better one by more than `nms_threshold` go; `keep_top_k` stay per image.
    """
    levels = [len(given) for given in (BBoxes, Scores, Anchors)]
    if len(set(levels)) > 1:
        raise EnforceNotMet(
            "BBoxes, Scores and Anchors are lists of one variable per level, but there are "
            f"{levels[0]}, {levels[1]} and {levels[2]}"
        )
    made = []
    for level, given in enumerate(zip(BBoxes, Scores, Anchors, strict=True)):
        # The last level has no limit, so that an unsure image shows something.
        limit = score_threshold if level + 1 < len(BBoxes) else 0.0
        made.append(_level(*given, limit, nms_top_k))
    image, kind, score, box = (torch.cat(parts) for parts in zip(*made, strict=True))
    scale = ImInfo[:, 2]
    height, width = (torch.round(ImInfo[:, axis] / scale)[image] for axis in (0, 1))
    box = clipped(box / scale[image, None], height, width)
    classes = Scores[0].shape[2]
    found = Candidates(image * classes + kind, score, box, image).ranked()
    kept = suppress(found, overlap_of(4, normalized=False), nms_threshold, nms_eta)
    # One group per image: its detections of all classes by falling score.
    kept = replace(kept, index=kept.group % classes, group=kept.group // classes).ranked()
    kept = kept.best(keep_top_k)
    rows = torch.cat([(kept.index + 1).to(box.dtype)[:, None], kept.score[:, None], kept.box], 1)
    return rows, (Offsets.of_lengths(torch.bincount(kept.group, minlength=len(ImInfo)).tolist()),)
