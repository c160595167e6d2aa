"""Suppression, proposals, and pooling of regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.boxes import boxes, iou
from benchmarks.operator_cases.case import Array, Case, Random, Rows, normal, op

IMAGES, CLASSES, PRIORS = 8, 21, 8732
HEIGHT, WIDTH, ANCHORS = 38, 50, 15


def nms(box: Tensor, limit: float) -> Tensor:
    """Indices of boxes, best first, that no better one overlaps too much: one after the other."""
    over = (iou(box, box) > limit).numpy()
    gone, kept = np.zeros(len(box), bool), []
    for place in range(len(box)):
        if not gone[place]:
            kept.append(place)
            gone |= over[place]
    return torch.tensor(kept, dtype=torch.long)


def detected(spread: float) -> Any:
    """Clusters of boxes around a few objects, as detectors give them; or no clusters at all."""

    def inputs(random: Random) -> Mapping[str, Array]:
        owner = random.randint(0, 20, (IMAGES, PRIORS))
        objects = boxes(random, IMAGES, 20)
        box = np.take_along_axis(objects, owner[..., None].repeat(4, 2), 1)
        box = box + random.standard_normal(box.shape) * spread
        box[..., 2:] = np.maximum(box[..., 2:], box[..., :2] + 0.02)
        scores = random.dirichlet(np.full(CLASSES, 0.05), (IMAGES, PRIORS)).transpose(0, 2, 1)
        return {"BBoxes": box.astype("float32"), "Scores": scores.astype("float32")}

    return inputs


def _torch_detections(box: Tensor, scores: Tensor) -> Tensor:
    """Image by image, class by class."""
    found = []
    for image in range(IMAGES):
        kept = []
        for label in range(1, CLASSES):
            own = scores[image, label]
            some = (own > 0.01).nonzero()[:, 0]
            best, order = own[some].topk(min(400, len(some)))
            mine = box[image, some[order]]
            stay = nms(mine, 0.45)
            names = torch.full((len(stay), 1), float(label))
            kept.append(torch.cat((names, best[stay, None], mine[stay]), 1))
        rows = torch.cat(kept)
        top = rows[:, 1].topk(min(200, len(rows))).indices
        found.append(rows[top.sort().values])
    return torch.cat(found)


def _regions(random: Random) -> Mapping[str, Array]:
    corner = boxes(random, HEIGHT, WIDTH, ANCHORS, size=0.4) * 600
    return {
        "Scores": random.random_sample((2, ANCHORS, HEIGHT, WIDTH)).astype("float32"),
        "BboxDeltas": normal(random, 2, 4 * ANCHORS, HEIGHT, WIDTH) * 0.1,
        "ImInfo": np.array([[600, 800, 1], [600, 800, 1]], "float32"),
        "Anchors": corner,
        "Variances": np.ones_like(corner),
    }


def _torch_proposals(
    scores: Tensor, deltas: Tensor, info: Tensor, anchors: Tensor, variances: Tensor
) -> Tensor:
    found = []
    for image in range(len(scores)):
        place = scores[image].permute(1, 2, 0).reshape(-1).topk(6000).indices
        move = deltas[image].permute(1, 2, 0).reshape(-1, 4)[place] * variances.view(-1, 4)[place]
        anchor = anchors.view(-1, 4)[place]
        size = anchor[:, 2:] - anchor[:, :2] + 1
        center = anchor[:, :2] + size / 2 + move[:, :2] * size
        half = torch.exp(move[:, 2:]) * size / 2
        whole = info[image, [1, 0, 1, 0]] - 1
        box = torch.minimum(torch.cat((center - half, center + half - 1), 1).clamp(min=0), whole)
        size = box[:, 2:] - box[:, :2] + 1
        inside = (box[:, :2] + size / 2 <= info[image, [1, 0]]).all(1)
        box = box[(size >= 1).all(1) & inside]
        pixels = torch.cat((box[:, :2], box[:, 2:] + 1), 1)
        found.append(box[nms(pixels, 0.7)[:1000]])
    return torch.cat(found)


def _pooled(random: Random) -> Mapping[str, Any]:
    rois = boxes(random, 512) * 800 * 0.7 + np.float32(16)
    return {"X": normal(random, 4, 64, 50, 50), "ROIs": Rows(rois, [128] * 4)}


def _samples(rois: Tensor, bins: int, ratio: int) -> Tensor:
    box = rois / 16
    extent = (box[:, 2:] - box[:, :2]).clamp(min=1)
    at = (torch.arange(bins * ratio) + 0.5) / (bins * ratio)
    x, y = (box[:, k, None] + at * extent[:, k, None] for k in (0, 1))
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), -1)
    return grid * (2 / 49) - 1


def _torch_align(x: Tensor, rois: Rows) -> Tensor:
    """Bilinear samples of each image's regions, then the mean of 2 x 2."""
    made = []
    for image, own in enumerate(rois.values.split(rois.lengths)):
        grid = _samples(own, 7, 2).reshape(1, -1, 14, 2)
        found = F.grid_sample(x[image : image + 1], grid, padding_mode="border", align_corners=True)
        found = found.view(x.shape[1], -1, 14, 14).transpose(0, 1)
        made.append(F.avg_pool2d(found, 2))
    return torch.cat(made)


_LIMITS = {
    "background_label": 0,
    "score_threshold": 0.01,
    "nms_top_k": 400,
    "nms_threshold": 0.45,
    "keep_top_k": 200,
}

CASES = (
    Case(
        "multiclass_nms, clusters",
        detected(0.01),
        op("multiclass_nms", **_LIMITS),
        _torch_detections,
    ),
    Case(
        "multiclass_nms, scattered",
        detected(0.2),
        op("multiclass_nms", **_LIMITS),
        _torch_detections,
    ),
    Case(
        "generate_proposals",
        _regions,
        op(
            "generate_proposals",
            "RpnRois",
            pre_nms_topN=6000,
            post_nms_topN=1000,
            nms_thresh=0.7,
            min_size=0.0,
            eta=1.0,
        ),
        _torch_proposals,
    ),
    Case(
        "roi_align",
        _pooled,
        op("roi_align", spatial_scale=1 / 16, pooled_height=7, pooled_width=7, sampling_ratio=2),
        _torch_align,
        ("X",),
    ),
)
