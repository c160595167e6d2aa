"""Regions and detections of several images, told apart by how many each has: Paddle 2's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.offsets import Offsets
from refluid.ir.checks import shaped
from refluid.ir.operator import Operator
from refluid.ops.bounded import Boxes, Images, Positive, PositiveFloat
from refluid.ops.detection.matrix import matrix_nms
from refluid.ops.detection.overlaps import overlap_of
from refluid.ops.detection.pixel_boxes import clipped, decoded
from refluid.ops.detection.proposals import large_enough
from refluid.ops.detection.pyramid import by_level
from refluid.ops.detection.roi_align import means_of_samples
from refluid.ops.detection.roi_pool import psroi_pool
from refluid.ops.detection.rois import images_of
from refluid.ops.detection.shapes import ROWS, infer_by, pooled
from refluid.ops.detection.suppression import Candidates, suppress
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator

ImageShapes = Annotated[Tensor, shaped(None, 2)]


@operator(
    "roi_align_v2",
    outputs="Out",
    uses="X ROIs RoisNum",
    differentiable="X",
    infer=pooled(lambda op, channels: channels),
)
def roi_align_v2(
    X: Images,
    ROIs: Boxes,
    RoisNum: Tensor,
    *,
    spatial_scale: PositiveFloat = 1.0,
    pooled_height: Positive = 1,
    pooled_width: Positive = 1,
    sampling_ratio: int = -1,
    aligned: bool = True,
) -> Tensor:
    """`roi_align`; where `aligned`, coordinates are of pixels' corners, and regions of any size."""
    image = images_of("roi_align", ROIs, (), X.shape[0], counts=RoisNum)
    box = ROIs.detach() * spatial_scale
    size = box[:, 2:] - box[:, :2]
    start, extent = (box[:, :2] - 0.5, size) if aligned else (box[:, :2], size.clamp(min=1))
    return means_of_samples(X, image, start, extent, (pooled_height, pooled_width), sampling_ratio)


@operator(
    "psroi_pool_v2",
    outputs="Out",
    uses="X ROIs RoisNum",
    differentiable="X",
    infer=pooled(lambda op, channels: int(op.attrs["output_channels"])),
)
def psroi_pool_v2(
    X: Images,
    ROIs: Boxes,
    RoisNum: Tensor,
    *,
    output_channels: int,
    spatial_scale: PositiveFloat = 1.0,
    pooled_height: Positive = 1,
    pooled_width: Positive = 1,
) -> Tensor:
    """`psroi_pool`."""
    out: Tensor = psroi_pool(
        X,
        ROIs,
        output_channels=output_channels,
        spatial_scale=spatial_scale,
        pooled_height=pooled_height,
        pooled_width=pooled_width,
        lod_ROIs=(Offsets.of_lengths(RoisNum.tolist()),),
    )
    return out


def _kept(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    return {"Index": ((ROWS,), VarType.INT64)}


@operator("nms", outputs="Index", uses=None, infer=infer_by(_kept))
def nms(
    X: Boxes,
    Scores: Tensor | None = None,
    Groups: Tensor | None = None,
    *,
    iou_threshold: float = 0.3,
    groups: Sequence[int] = (),
    top_k: int = -1,
) -> Tensor:
    """Indices of boxes that no better one of their group overlaps by more, the best first.

    Without Scores boxes are better the earlier they come. Boxes of groups that `groups` doesn't
    have go; of the rest the `top_k` best stay.
    """
    count = X.shape[0]
    index = torch.arange(count, device=X.device)
    score = -index.to(X.dtype) if Scores is None else Scores.reshape(-1)
    group = index.new_zeros(count) if Groups is None else Groups.reshape(-1)
    found = Candidates(group, score, X, index)
    if Groups is not None:
        found = found[torch.isin(group, group.new_tensor(list(groups)))]
    kept = suppress(found.ranked(), overlap_of(4, normalized=True), iou_threshold)
    best = kept.index[kept.score.argsort(descending=True, stable=True)]
    return best if top_k < 0 else best[:top_k]


def _detected(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    return {
        "Out": ((ROWS, 6), inputs["BBoxes"][1]),
        "Index": ((ROWS, 1), VarType.INT32),
        "RoisNum": (inputs["BBoxes"][0][:1], VarType.INT32),
    }


@operator("matrix_nms_v2", outputs="Out Index RoisNum", uses=None, infer=infer_by(_detected))
def matrix_nms_v2(
    BBoxes: Tensor,
    Scores: Tensor,
    *,
    background_label: int = 0,
    score_threshold: float,
    post_threshold: float = 0.0,
    nms_top_k: int,
    keep_top_k: int,
    normalized: bool = True,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """`matrix_nms`, and how many detections each image has."""
    out, index, levels, _ = matrix_nms(
        BBoxes,
        Scores,
        background_label=background_label,
        score_threshold=score_threshold,
        post_threshold=post_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        normalized=normalized,
        use_gaussian=use_gaussian,
        gaussian_sigma=gaussian_sigma,
    )
    counts = BBoxes.new_tensor(levels[-1].lengths, dtype=torch.int32)
    found = int(counts.sum())  # where nothing is found, one row says so
    return out[:found], index[:found].int(), counts


def _distributed(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    images = inputs["RoisNum"][0] if "RoisNum" in inputs else (1,)
    return {
        "MultiFpnRois": ((ROWS, 4), inputs["FpnRois"][1]),
        "RestoreIndex": ((ROWS, 1), VarType.INT32),
        "MultiLevelRoisNum": (images, VarType.INT32),
    }


@operator(
    "distribute_fpn_proposals_v2",
    outputs="MultiFpnRois* RestoreIndex MultiLevelRoisNum*",
    uses=None,
    infer=infer_by(_distributed),
)
def distribute_fpn_proposals_v2(
    FpnRois: Boxes,
    RoisNum: Tensor | None = None,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
) -> tuple[list[Tensor], Tensor, list[Tensor]]:
    """`distribute_fpn_proposals`; without RoisNum all regions are of one image."""
    counts = FpnRois.new_tensor([len(FpnRois)]) if RoisNum is None else RoisNum
    image = images_of("distribute_fpn_proposals", FpnRois, (), len(counts), counts=counts)
    levels = (min_level, max_level, refer_level, refer_scale)
    parts, place, bounds = by_level(
        FpnRois, image, len(counts), levels, normalized=not pixel_offset
    )
    return parts, place, [row.to(FpnRois.device) for row in bounds.diff(dim=1).int()]


def _proposed(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    shape, dtype = inputs["Scores"]
    return {
        "RpnRois": ((ROWS, 4), dtype),
        "RpnRoiProbs": ((ROWS, 1), dtype),
        "RpnRoisNum": (shape[:1], VarType.INT32),
    }


@operator(
    "generate_proposals_v2",
    outputs="RpnRois RpnRoiProbs RpnRoisNum",
    uses=None,
    infer=infer_by(_proposed),
)
def generate_proposals_v2(
    Scores: Images,
    BboxDeltas: Images,
    ImShape: ImageShapes,
    Anchors: Tensor,
    Variances: Tensor,
    *,
    pre_nms_topN: int,
    post_nms_topN: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
    pixel_offset: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """`generate_proposals` of images of that height and width, which nobody scaled."""
    n = Scores.shape[0]
    anchors, variances = Anchors.reshape(-1, 4), Variances.reshape(-1, 4)
    scores = Scores.permute(0, 2, 3, 1).reshape(n, -1)
    deltas = BboxDeltas.permute(0, 2, 3, 1).reshape(n, -1, 4)
    best, place = torch.sort(scores, dim=1, descending=True, stable=True)
    if pre_nms_topN > 0:
        best, place = best[:, :pre_nms_topN], place[:, :pre_nms_topN]
    moves = deltas.gather(1, place[..., None].expand(-1, -1, 4)) * variances[place]
    height, width = ImShape[:, None].unbind(-1)
    boxes = decoded(anchors[place], moves, normalized=not pixel_offset)
    boxes = clipped(boxes, height, width, normalized=not pixel_offset)
    if pixel_offset:
        images = torch.stack([height, width, torch.ones_like(width)], -1)
        large = large_enough(boxes, images, min_size)
    else:
        large = ((boxes[..., 2:] - boxes[..., :2]) >= max(min_size, 1.0)).all(-1)
    image, rank = large.nonzero(as_tuple=True)
    found = Candidates(image, best[image, rank], boxes[image, rank], rank)
    kept = suppress(found, overlap_of(4, normalized=not pixel_offset), nms_thresh, eta)
    if post_nms_topN > 0:
        kept = kept.best(post_nms_topN)
    return kept.box, kept.score[:, None], torch.bincount(kept.group, minlength=n).int()
