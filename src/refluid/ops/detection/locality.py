"""locality_aware_nms: neighbouring boxes that overlap are averaged before suppression."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.checks import rank
from refluid.ops.bounded import Outlines
from refluid.ops.detection.nms import detections, or_nothing, require_same_boxes, rows_of
from refluid.ops.detection.overlaps import Overlap, overlap_of
from refluid.ops.detection.suppression import Candidates, suppress
from refluid.ops.registry import operator

_WINDOW = 16


def _run(
    boxes: Tensor, scores: Tensor, overlap: Overlap, threshold: float
) -> tuple[int, Tensor, Tensor]:
    """How many boxes from the first on are merged into one, that box (D), and its score.

    Each box is compared with the average, weighted by scores, of those before it.
    """
    window = _WINDOW
    while True:
        part, weight = boxes[:window], scores[:window]
        total = weight.cumsum(0)
        average = (part * weight[:, None]).cumsum(0) / total[:, None]
        average[0] = part[0]
        alike = overlap(part[1:, None], average[:-1, None]).reshape(-1) > threshold
        apart = (~alike).nonzero()
        if len(apart) or window >= len(boxes):
            end = int(apart[0]) + 1 if len(apart) else len(part)
            return end, average[end - 1], total[end - 1]
        window *= 2


def _merge(
    boxes: Tensor, scores: Tensor, overlap: Overlap, threshold: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes (M, D) and scores with each run of neighbours averaged; and who heads a run."""
    boxes, scores = boxes.clone(), scores.clone()
    heads = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    alike = overlap(boxes[1:, None], boxes[:-1, None]).reshape(-1) > threshold
    end = 0
    for start in alike.nonzero().reshape(-1).tolist():
        if start < end:
            continue
        count, box, score = _run(boxes[start:], scores[start:], overlap, threshold)
        end = start + count
        heads[start + 1 : end] = False
        boxes[start], scores[start] = box, score
    return boxes, scores, heads


@operator(
    "locality_aware_nms", outputs="Out", uses=None, lod="", makes_lod="Out", infer=detections(0)
)
def locality_aware_nms(
    BBoxes: Outlines,
    Scores: Annotated[Tensor, rank(3)],
    *,
    background_label: int = -1,
    score_threshold: float,
    nms_top_k: int,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
    keep_top_k: int,
    normalized: bool = True,
) -> tuple[Tensor, Levels]:
    """`multiclass_nms` of boxes (N, M, D) and Scores (N, C, M), after merging neighbours.

    A box that overlaps the one before it by more than `nms_threshold` is averaged with it,
    weighted by the scores, which add up.
    """
    require_same_boxes(BBoxes, Scores)
    images, classes, _ = Scores.shape
    overlap = overlap_of(BBoxes.shape[2], normalized)
    none = torch.zeros(0, dtype=torch.int64, device=BBoxes.device)
    parts = [Candidates(none, Scores.new_empty(0), BBoxes.new_empty((0, BBoxes.shape[2])), none)]
    for image in range(images):
        for label in range(classes):
            if label != background_label:
                box, score, heads = _merge(
                    BBoxes[image], Scores[image, label], overlap, nms_threshold
                )
                index = (heads & (score > score_threshold)).nonzero().reshape(-1)
                group = torch.full_like(index, image * classes + label)
                parts.append(Candidates(group, score[index], box[index], index))
    found = Candidates.joined(parts).ranked().best(nms_top_k)
    found = suppress(found, overlap, nms_threshold, nms_eta)
    return or_nothing(*_labelled(found.best_of_image(keep_top_k, classes), classes, images))


def _labelled(found: Candidates, classes: int, images: int) -> tuple[Tensor, Levels]:
    out, _, lod = rows_of(found, classes, images)
    return out, lod
