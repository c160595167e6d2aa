"""generate_proposals: the regions a region proposal network proposes, image by image."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.bounded import Images, ImageSizes
from refluid.ops.detection.overlaps import overlap_of
from refluid.ops.detection.pixel_boxes import clipped, decoded
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.detection.suppression import Candidates, suppress
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator
from refluid.ops.required import require_equal, require_rows


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    dtype = inputs["Scores"][1]
    return {"RpnRois": ((ROWS, 4), dtype), "RpnRoiProbs": ((ROWS, 1), dtype)}


def large_enough(boxes: Tensor, images: Tensor, smallest: float) -> Tensor:
    """Which boxes are at least `smallest` wide and high in the original image, and centred in it.

    images: height, width and scale (..., 3). A box is at least one pixel wide and high.
    """
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + (size + 1) / 2
    large = size / images[..., 2:] + 1 >= max(smallest, 1.0)
    return (large & (centre <= images[..., [1, 0]])).all(-1)


def _require_sizes(scores: Tensor, deltas: Tensor, images: Tensor) -> None:
    """EnforceNotMet unless each score has four deltas, and each image a size."""
    count, anchors, height, width = scores.shape
    require_equal("BboxDeltas", deltas, "what Scores need", (count, 4 * anchors, height, width))
    require_rows("ImInfo", images, "Scores", count)


@operator(
    "generate_proposals",
    outputs="RpnRois RpnRoiProbs RpnRoisLod?",
    uses=None,
    lod="",
    makes_lod="RpnRois RpnRoiProbs",
    infer=infer_by(_infer),
)
def generate_proposals(
    Scores: Images,
    BboxDeltas: Images,
    ImInfo: ImageSizes,
    Anchors: Tensor,
    Variances: Tensor,
    *,
    pre_nms_topN: int,
    post_nms_topN: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
) -> tuple[Tensor, Tensor, Tensor, Levels, Levels]:
    """The best boxes of each image (rows x1, y1, x2, y2), their scores and their numbers.

    Scores (N, A, H, W) and BboxDeltas (N, 4 * A, H, W) refine Anchors (H, W, A, 4): the
    `pre_nms_topN` best are decoded, clipped to the image, small ones dropped, overlapping ones
    suppressed, and at most `post_nms_topN` stay. A score without anchor proposes nothing.
    """
    n = Scores.shape[0]
    _require_sizes(Scores, BboxDeltas, ImInfo)
    anchors, variances = Anchors.reshape(-1, 4), Variances.reshape(-1, 4)
    if len(variances) < len(anchors):
        raise EnforceNotMet(
            f"Variances {list(Variances.shape)} has fewer rows than Anchors {list(Anchors.shape)}"
        )
    scores = Scores.permute(0, 2, 3, 1).reshape(n, -1)[:, : len(anchors)]
    deltas = BboxDeltas.permute(0, 2, 3, 1).reshape(n, -1, 4)
    count = scores.shape[1]
    if 0 < pre_nms_topN < count:
        count = pre_nms_topN
    best, place = torch.sort(scores, dim=1, descending=True, stable=True)
    best, place = best[:, :count], place[:, :count]
    moves = deltas.gather(1, place[..., None].expand(-1, -1, 4)) * variances[place]
    images = ImInfo[:, None]
    boxes = clipped(decoded(anchors[place], moves), images[..., 0], images[..., 1])
    image, rank = large_enough(boxes, images, min_size).nonzero(as_tuple=True)
    found = Candidates(image, best[image, rank], boxes[image, rank], rank)
    kept = suppress(found, overlap_of(4, normalized=False), nms_thresh, eta)
    if post_nms_topN > 0:
        kept = kept.best(post_nms_topN)
    numbers = torch.bincount(kept.group, minlength=n)
    lod = (Offsets.of_lengths(numbers.tolist()),)
    return kept.box, kept.score[:, None], numbers, lod, lod
