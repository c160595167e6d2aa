"""Boxes: priors, codes, overlaps, matching, what YOLO predicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.case import Array, Case, Random, Rows, draw, normal, op

ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326]
MASK, CLASSES, CELLS, STRIDE, SIDE = [6, 7, 8], 80, 13, 32, 416
PRIORS = 8732


def boxes(random: Random, *shape: int, size: float = 0.3) -> Array:
    """Boxes (..., 4) in the unit square."""
    low = random.random_sample((*shape, 2)) * (1 - size)
    high = low + random.random_sample((*shape, 2)) * size
    return np.concatenate((low, high), -1).astype("float32")


def iou(one: Tensor, other: Tensor) -> Tensor:
    """(..., N, 4), (..., M, 4) -> (..., N, M)."""
    low = torch.maximum(one[..., :, None, :2], other[..., None, :, :2])
    high = torch.minimum(one[..., :, None, 2:], other[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(part[..., 2:] - part[..., :2]).prod(-1) for part in (one, other)]
    return shared / (areas[0][..., :, None] + areas[1][..., None, :] - shared)


def _torch_priors(x: Tensor, image: Tensor) -> Tensor:
    sizes = [(60.0, 60.0), (60 * 2**0.5, 60 / 2**0.5), (60 / 2**0.5, 60 * 2**0.5)]
    sizes.append(((60 * 111) ** 0.5,) * 2)
    step = image.shape[3] / x.shape[3]
    rows, columns = torch.meshgrid(*(torch.arange(n) for n in x.shape[2:]), indexing="ij")
    center = (torch.stack((columns, rows), -1)[:, :, None] + 0.5) * step
    half = torch.tensor(sizes) / 2
    return torch.cat((center - half, center + half), -1).div_(image.shape[3]).clamp_(0, 1)


def _distances(random: Random) -> Mapping[str, Any]:
    lengths = [int(n) for n in random.randint(5, 25, 16)]
    near = random.random_sample((sum(lengths), PRIORS)).astype("float32")
    return {"DistMat": Rows(near, lengths)}


def _torch_match(given: Rows) -> Tensor:
    """Greedily the largest distance left, all images at once."""
    table = torch.nn.utils.rnn.pad_sequence(given.values.split(given.lengths), True, -1.0)
    images, rows, columns = table.shape
    found = torch.full((images, columns), -1)
    every = torch.arange(images)
    for _ in range(rows):
        best, place = table.view(images, -1).max(1)
        row, column = place // columns, place % columns
        real = best > 0
        found[every[real], column[real]] = row[real]
        table[every[real], row[real]] = -1
        table[every[real], :, column[real]] = -1
    return found


def _coded(random: Random) -> Mapping[str, Array]:
    return {"PriorBox": boxes(random, PRIORS), "TargetBox": normal(random, 16, PRIORS, 4) * 0.1}


def _decode(prior: Tensor, codes: Tensor) -> Tensor:
    size = prior[:, 2:] - prior[:, :2]
    center = prior[:, :2] + size / 2
    moved = codes[..., :2] * 0.1 * size + center
    half = torch.exp(codes[..., 2:] * 0.2) * size / 2
    return torch.cat((moved - half, moved + half), -1)


def _pairs(random: Random) -> Mapping[str, Array]:
    return {"X": boxes(random, 100), "Y": boxes(random, PRIORS)}


def _predicted(random: Random) -> Mapping[str, Array]:
    width = len(MASK) * (5 + CLASSES)
    return {"X": normal(random, 8, width, CELLS, CELLS)}


def _seen(random: Random) -> Mapping[str, Array]:
    """30 boxes per image, each in a cell of its own."""
    cells = np.stack([random.permutation(CELLS * CELLS)[:30] for _ in range(8)])
    corner = np.stack((cells % CELLS, cells // CELLS), -1)
    middle = (corner + random.uniform(0.1, 0.9, corner.shape)) / CELLS
    box = np.concatenate((middle, random.uniform(0.05, 0.5, middle.shape)), -1)
    label = random.randint(0, CLASSES, (8, 30)).astype("int32")
    return {**_predicted(random), "GTBox": box.astype("float32"), "GTLabel": label}


def _sized(random: Random) -> Mapping[str, Array]:
    return {**_predicted(random), "ImgSize": random.randint(300, 600, (8, 2)).astype("int32")}


def _corners(box: Tensor) -> Tensor:
    return torch.cat((box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2), -1)


def _raw_boxes(raw: Tensor) -> Tensor:
    """Centers and sizes (N, A, H, W, 4) in parts of the image."""
    cells = torch.arange(CELLS, dtype=torch.float32)
    shift = torch.stack((cells.expand(CELLS, -1), cells[:, None].expand(-1, CELLS)), -1)
    own = torch.tensor(ANCHORS, dtype=torch.float32).view(-1, 2)[MASK]
    center = (torch.sigmoid(raw[..., :2]) + shift) / CELLS
    return torch.cat((center, torch.exp(raw[..., 2:4]) * own[:, None, None] / SIDE), -1)


def _torch_boxes(x: Tensor, size: Tensor) -> Tensor:
    raw = x.view(8, len(MASK), -1, CELLS, CELLS).permute(0, 1, 3, 4, 2)
    whole = size.flip(1).float().repeat(1, 2)[:, None, None, None]
    box = _corners(_raw_boxes(raw)) * whole
    box = torch.minimum(box.clamp(min=0), whole - 1)
    sure = torch.sigmoid(raw[..., 4:5])
    scores = torch.sigmoid(raw[..., 5:]) * sure
    scores *= sure > 0.01
    scores.reshape(8, -1, CLASSES)
    return (box * (sure > 0.01)).reshape(8, -1, 4)


def _torch_yolo(x: Tensor, truth: Tensor, label: Tensor) -> Tensor:
    """YOLOv3's loss per image."""
    raw = x.view(8, len(MASK), -1, CELLS, CELLS).permute(0, 1, 3, 4, 2)
    with torch.no_grad():
        near = iou(_corners(_raw_boxes(raw)).reshape(8, -1, 4), _corners(truth)).amax(2)
        sizes = torch.tensor(ANCHORS, dtype=torch.float32).view(-1, 2) / SIDE
        zero = torch.zeros_like
        own = torch.cat((zero(truth[..., 2:]), truth[..., 2:]), -1)
        best = iou(own, torch.cat((zero(sizes), sizes), 1).expand(8, -1, -1)).argmax(2)
        image, place = (best >= MASK[0]).nonzero(as_tuple=True)
        box, anchor = truth[image, place], best[image, place]
        column, row = (box[:, :2] * CELLS).long().unbind(1)
        wanted = box[:, :2] * CELLS - torch.stack((column, row), 1)
        extent = (box[:, 2:] / sizes[anchor]).log()
        target = (near > 0.7).view(raw.shape[:4]).logical_not().float(), torch.zeros(raw.shape[:4])
        target[0][image, anchor - MASK[0], row, column] = 1
        target[1][image, anchor - MASK[0], row, column] = 1
        smooth = min(1 / CLASSES, 1 / 40)
        kinds = torch.full((len(image), CLASSES), smooth)
        kinds[torch.arange(len(image)), label[image, place].long()] = 1 - smooth
    found = raw[image, anchor - MASK[0], row, column]
    entropy = F.binary_cross_entropy_with_logits
    location = entropy(found[:, :2], wanted, reduction="none").sum(1)
    location = location + (found[:, 2:4] - extent).abs().sum(1)
    each = location * (2 - box[:, 2] * box[:, 3])
    each = each + entropy(found[:, 5:], kinds, reduction="none").sum(1)
    objects = entropy(raw[..., 4], target[1], target[0], reduction="none").sum((1, 2, 3))
    return objects.index_add(0, image, each)


CASES = (
    Case(
        "prior_box",
        draw(Input=(1, 8, 38, 38), Image=(1, 3, 300, 300)),
        op(
            "prior_box",
            "Boxes",
            min_sizes=[60.0],
            max_sizes=[111.0],
            aspect_ratios=[2.0],
            variances=[0.1, 0.1, 0.2, 0.2],
            flip=True,
            clip=True,
        ),
        _torch_priors,
        reason="variances are written out as well, and one kernel per step on small tensors",
    ),
    Case(
        "box_coder, decoding",
        _coded,
        op(
            "box_coder",
            "OutputBox",
            code_type="decode_center_size",
            variance=[0.1, 0.1, 0.2, 0.2],
        ),
        _decode,
    ),
    Case("iou_similarity", _pairs, op("iou_similarity"), iou),
    Case(
        "bipartite_match", _distances, op("bipartite_match", "ColToRowMatchIndices"), _torch_match
    ),
    Case(
        "yolo_box",
        _sized,
        op(
            "yolo_box",
            "Boxes",
            class_num=CLASSES,
            anchors=[ANCHORS[2 * k + j] for k in MASK for j in (0, 1)],
            downsample_ratio=STRIDE,
        ),
        _torch_boxes,
    ),
    Case(
        "yolov3_loss",
        _seen,
        op(
            "yolov3_loss",
            "Loss",
            class_num=CLASSES,
            anchors=ANCHORS,
            anchor_mask=MASK,
            downsample_ratio=STRIDE,
            ignore_thresh=0.7,
        ),
        _torch_yolo,
        ("X",),
    ),
)
