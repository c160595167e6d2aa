"""Detection: deformable convolution, other pools and suppressions, pyramid levels, losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import refluid.fluid as fluid
from benchmarks.operator_cases.boxes import boxes, iou
from benchmarks.operator_cases.case import Array, Case, Random, Rows, normal, op
from benchmarks.operator_cases.proposals import detected

SIDE, CHANNELS = 28, 32
LEVELS = range(2, 6)


def _deformed(random: Random) -> Mapping[str, Array]:
    return {
        "Input": normal(random, 8, CHANNELS, SIDE, SIDE),
        "Offset": normal(random, 8, 18, SIDE, SIDE) * 2,
        "Mask": random.random_sample((8, 9, SIDE, SIDE)).astype("float32"),
        "Filter": normal(random, CHANNELS, CHANNELS, 3, 3),
    }


def _torch_deformed(x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """Samples of all 9 taps with one grid_sample, then one matrix product."""
    n = len(x)
    tap = torch.arange(9)
    place = torch.arange(SIDE)
    moves = offset.view(n, 9, 2, SIDE, SIDE)
    y = moves[:, :, 0] + (place[:, None] + (tap // 3 - 1).view(9, 1, 1))
    x_at = moves[:, :, 1] + (place + (tap % 3 - 1).view(9, 1, 1))
    grid = torch.stack((x_at, y), -1).view(n, 9 * SIDE, SIDE, 2) * (2 / (SIDE - 1)) - 1
    found = F.grid_sample(x, grid, padding_mode="zeros", align_corners=True)
    columns = found.view(n, CHANNELS, 9, -1) * mask.view(n, 1, 9, -1)
    return (weight.flatten(1) @ columns.flatten(1, 2)).view(n, -1, SIDE, SIDE)


def _pooled(random: Random) -> Mapping[str, Any]:
    rois = np.round(boxes(random, 256) * 800 * 0.7)
    return {"X": normal(random, 4, 64, 50, 50), "ROIs": Rows(rois, [64] * 4)}


def _torch_pool(x: Tensor, rois: Rows) -> Tensor:
    corners = (rois.values / 16 + 0.5).floor().long()
    image = torch.repeat_interleave(torch.arange(4), torch.tensor(rois.lengths))
    made = []
    for number, (left, top, right, bottom) in zip(image.tolist(), corners.tolist(), strict=True):
        region = x[number, :, top : bottom + 1, left : right + 1]
        made.append(F.adaptive_max_pool2d(region, 7))
    return torch.stack(made)


def _torch_matrix(box: Tensor, scores: Tensor) -> Tensor:
    """Image by image, class by class: scores decay by the overlap with better boxes."""
    found = []
    for image in range(len(box)):
        kept = []
        for label in range(1, scores.shape[1]):
            own = scores[image, label]
            some = (own > 0.01).nonzero()[:, 0]
            best, order = own[some].topk(min(400, len(some)))
            mine = box[image, some[order]]
            near = iou(mine, mine).triu(1)
            worst = near.amax(0)
            decay = ((1 - near) / (1 - worst[:, None])).amin(0)
            names = torch.full((len(best), 1), float(label))
            kept.append(torch.cat((names, (best * decay)[:, None], mine), 1))
        rows = torch.cat(kept)
        found.append(rows[rows[:, 1].topk(200).indices])
    return torch.cat(found)


def _levelled(random: Random) -> Mapping[str, Any]:
    corner = random.uniform(0, 400, (2000, 2))
    size = np.exp(random.uniform(2, 6.2, (2000, 2)))
    return {"FpnRois": Rows(np.concatenate((corner, corner + size), 1).astype("float32"), [2000])}


def _distribute(given: Mapping[str, Any]) -> Any:
    found = fluid.layers.distribute_fpn_proposals(given["FpnRois"], 2, 5, 4, 224)
    return fluid.layers.concat(found[0], axis=0)


def _torch_levels(rois: Rows) -> Tensor:
    size = rois.values[:, 2:] - rois.values[:, :2] + 1
    level = (size.prod(1).sqrt() / 224 + 1e-6).log2().floor() + 4
    level = level.clamp(LEVELS[0], LEVELS[-1])
    return torch.cat([rois.values[level == one] for one in LEVELS])


def _seen(random: Random) -> Mapping[str, Array]:
    return {
        "X": normal(random, 16384, 80),
        "Label": random.randint(0, 81, (16384, 1)).astype("int32"),
        "FgNum": np.array([500], "int32"),
    }


def _focal(x: Tensor, label: Tensor, count: Tensor) -> Tensor:
    truth = F.one_hot(label[:, 0].long(), 81)[:, 1:].to(x.dtype)
    loss = F.binary_cross_entropy_with_logits(x, truth, reduction="none")
    chance = torch.sigmoid(x)
    missed = chance + truth - 2 * chance * truth
    share = 0.75 - 0.5 * truth
    return share * missed.square() * loss / count


CASES = (
    Case(
        "deformable_conv",
        _deformed,
        op("deformable_conv", "Output", paddings=[1, 1]),
        _torch_deformed,
        ("Input", "Offset", "Mask", "Filter"),
        ("Filter",),
        reason="places as shares of the image round: taps on pixels may get the other slope",
    ),
    Case(
        "roi_pool",
        _pooled,
        op("roi_pool", spatial_scale=1 / 16, pooled_height=7, pooled_width=7),
        _torch_pool,
        ("X",),
    ),
    Case(
        "matrix_nms",
        detected(0.2),
        op("matrix_nms", score_threshold=0.01, nms_top_k=400, keep_top_k=200),
        _torch_matrix,
    ),
    Case(
        "distribute_fpn_proposals",
        _levelled,
        _distribute,
        _torch_levels,
        reason="also the LoD of each level and the order that puts them back",
    ),
    Case("sigmoid_focal_loss", _seen, op("sigmoid_focal_loss"), _focal, ("X",)),
)
