"""matrix_nms: scores sink with the overlap with better boxes, instead of boxes going."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.checks import rank, shaped
from refluid.ops.detection.nms import detections, pick, rows_of
from refluid.ops.detection.overlaps import overlaps
from refluid.ops.detection.suppression import Candidates, ranks
from refluid.ops.registry import operator


def _decay(overlap: Tensor, sigma: float | None) -> Tensor:
    """How much is left of the scores of (size, 4) boxes, best first, by their overlaps.

    A better box takes the more the less it is itself overlapped by better ones.
    """
    better = torch.ones_like(overlap, dtype=torch.bool).tril(-1)
    overlap = overlap.masked_fill(~better, 0.0)
    own = overlap.amax(1)[None, :]
    if sigma is None:
        left = (1 - overlap) / (1 - own)
    else:
        left = ((own.square() - overlap.square()) * sigma).exp()
    return left.masked_fill(~better, 1.0).amin(1)


def _decayed(found: Candidates, normalized: bool, sigma: float | None) -> Candidates:
    sizes = ranks(found.group)[2].tolist()
    factors = [
        _decay(overlaps(boxes, boxes, normalized), sigma)
        for boxes in torch.split_with_sizes(found.box, sizes)
    ]
    factor = torch.cat(factors) if factors else found.score
    return Candidates(found.group, found.score * factor, found.box, found.index)


@operator(
    "matrix_nms",
    outputs="Out Index",
    uses=None,
    lod="",
    makes_lod="Out Index",
    infer=detections(1),
)
def matrix_nms(
    BBoxes: Annotated[Tensor, shaped(None, None, 4)],
    Scores: Annotated[Tensor, rank(3)],
    *,
    background_label: int = 0,
    score_threshold: float,
    post_threshold: float = 0.0,
    nms_top_k: int,
    keep_top_k: int,
    normalized: bool = True,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
) -> tuple[Tensor, Tensor, Levels, Levels]:
    """Detections (rows, 6): label, score, box; a sequence per image, the best ones first.

    BBoxes (N, M, 4), Scores (N, C, M). Per class but `background_label`: the `nms_top_k` boxes
    of the best scores above `score_threshold`. Their scores sink, linearly in the overlap or as
    a Gaussian of it; those still above `post_threshold` compete for `keep_top_k` of the image.
    """
    images, classes, _ = Scores.shape
    found = pick(BBoxes, Scores, (), background_label, score_threshold, nms_top_k)
    found = _decayed(found, normalized, gaussian_sigma if use_gaussian else None)
    found = found[found.score > post_threshold].best_of_image(keep_top_k, classes)
    best_first = found[found.score.argsort(descending=True, stable=True)]
    found = best_first[(best_first.group // classes).argsort(stable=True)]
    out, index, lod = rows_of(found, classes, images)
    return out, index, lod, lod
