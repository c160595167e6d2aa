"""YOLOv3 and the focal loss, against their formulas told one prediction at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import refluid.ops  # noqa: F401
from refluid.core.errors import EnforceNotMet
from tests.ops.test_nms import body

ANCHORS = (10, 13, 16, 30, 33, 23, 30, 61)
MAP = {"class_num": 3, "anchors": ANCHORS, "anchor_mask": (1, 3), "downsample_ratio": 8}


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _cell(x: Tensor, i: int, j: int, anchor: tuple[int, int], scale: float) -> list[float]:
    """Center and size in parts of a map of 4 by 4 cells of 8 pixels."""
    cx, cy = ((_sigmoid(float(x[k])) - 0.5) * scale + 0.5 for k in (0, 1))
    w, h = (math.exp(float(x[2 + k])) * anchor[k] / 32 for k in (0, 1))
    return [(j + cx) / 4, (i + cy) / 4, w, h]


@pytest.mark.parametrize("scale", [1.0, 1.2])
@pytest.mark.parametrize("clip", [True, False])
def test_yolo_box(scale: float, clip: bool) -> None:
    torch.manual_seed(1)
    x, sizes = torch.randn(2, 16, 4, 4), torch.tensor([[40, 30], [64, 100]], dtype=torch.int32)
    boxes, scores = body("yolo_box")(
        x,
        sizes,
        class_num=3,
        anchors=ANCHORS[:4],
        downsample_ratio=8,
        conf_thresh=0.4,
        clip_bbox=clip,
        scale_x_y=scale,
    )
    assert boxes.shape == (2, 32, 4) and scores.shape == (2, 32, 3)
    for n, a, i, j in np.ndindex(2, 2, 4, 4):
        raw = x[n, a * 8 : a * 8 + 8, i, j]
        place = (a * 4 + i) * 4 + j
        sure = _sigmoid(float(raw[4]))
        if sure < 0.4:
            assert not boxes[n, place].any() and not scores[n, place].any()
            continue
        height, width = sizes[n].tolist()
        cx, cy, w, h = _cell(raw, i, j, ANCHORS[2 * a : 2 * a + 2], scale)
        wanted = [(cx - w / 2) * width, (cy - h / 2) * height]
        wanted += [(cx + w / 2) * width, (cy + h / 2) * height]
        if clip:
            low, high = (
                (max(one, 0) for one in wanted[:2]),
                zip(wanted[2:], (width, height), strict=True),
            )
            wanted = [*low, *(min(one, size - 1) for one, size in high)]
        np.testing.assert_allclose(boxes[n, place], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(scores[n, place], torch.sigmoid(raw[5:]) * sure, rtol=1e-5)


def test_channels_must_fit_the_anchors() -> None:
    with pytest.raises(EnforceNotMet, match="2 anchors of 3 classes"):
        body("yolo_box")(
            torch.rand(1, 15, 2, 2), torch.ones(1, 2), class_num=3, anchors=(1, 2, 3, 4)
        )


def _ground_truth() -> tuple[Tensor, Tensor, Tensor]:
    """Boxes of three images, of which the last has none, in cells of their own."""
    boxes = torch.zeros(3, 4, 4, dtype=torch.float64)
    boxes[0, :3] = torch.tensor([[0.1, 0.6, 0.5, 0.9], [0.9, 0.3, 0.3, 0.4], [0.4, 0.4, 0.9, 1.8]])
    boxes[1, :1] = torch.tensor([[0.5, 0.5, 0.45, 0.9]])
    labels = torch.tensor([[2, 0, 1, -1], [1, 0, 9, 0], [0, 0, 0, 0]], dtype=torch.int32)
    scores = torch.tensor([[1.0, 0.5, 0.7, 0], [0.3, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
    return boxes, labels, scores


def _entropy(logit: float, wanted: float) -> float:
    return max(logit, 0) - logit * wanted + math.log1p(math.exp(-abs(logit)))


def _overlap(one: list[float], other: list[float]) -> float:
    shared = 1.0
    for k in (0, 1):
        low = max(one[k] - one[k + 2] / 2, other[k] - other[k + 2] / 2)
        high = min(one[k] + one[k + 2] / 2, other[k] + other[k + 2] / 2)
        shared *= max(high - low, 0.0)
    return shared / (one[2] * one[3] + other[2] * other[3] - shared)


def _loss(x: Tensor, boxes: Tensor, labels: Tensor, scores: Tensor, smooth: bool) -> float:
    """The loss of one image (2 * 8, 4, 4)."""
    rest = min(1 / 3, 1 / 40) if smooth else 0.0
    truth = [box.tolist() for box in boxes if box[2] > 0]
    raw = x.reshape(2, 8, 4, 4)
    mask = np.zeros((2, 4, 4))
    for a, i, j in np.ndindex(2, 4, 4):
        anchor = ANCHORS[2:4] if a == 0 else ANCHORS[6:8]
        own = _cell(raw[a, :, i, j], i, j, anchor, 1.0)
        if max((_overlap(own, box) for box in truth), default=0.0) > 0.5:
            mask[a, i, j] = -1
    total = 0.0
    for box, label, score in zip(truth, labels.tolist(), scores.tolist(), strict=False):
        like = [
            _overlap([0, 0, w / 32, h / 32], [0, 0, *box[2:]])
            for w, h in zip(ANCHORS[0::2], ANCHORS[1::2], strict=True)
        ]
        best = int(np.argmax(like))
        if best not in (1, 3):
            continue
        a, i, j = (1, 3).index(best), int(box[1] * 4), int(box[0] * 4)
        found = raw[a, :, i, j].tolist()
        mask[a, i, j] = score
        scale = (2 - box[2] * box[3]) * score
        total += scale * (_entropy(found[0], box[0] * 4 - j) + _entropy(found[1], box[1] * 4 - i))
        for k in (0, 1):
            total += scale * abs(found[2 + k] - math.log(box[2 + k] * 32 / ANCHORS[2 * best + k]))
        for kind in range(3):
            total += score * _entropy(found[5 + kind], 1 - rest if kind == label else rest)
    for a, i, j in np.ndindex(2, 4, 4):
        if mask[a, i, j] > 0:
            total += mask[a, i, j] * _entropy(float(raw[a, 4, i, j]), 1.0)
        elif mask[a, i, j] == 0:
            total += _entropy(float(raw[a, 4, i, j]), 0.0)
    return total


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("scored", [True, False])
def test_yolov3_loss_and_its_gradient(smooth: bool, scored: bool) -> None:
    torch.manual_seed(2)
    x = torch.randn(3, 16, 4, 4, dtype=torch.float64)
    boxes, labels, scores = _ground_truth()
    given = MAP | {"use_label_smooth": smooth}
    score = scores if scored else None
    loss, mask, match = body("yolov3_loss")(x, boxes, labels, score, ignore_thresh=0.5, **given)
    assert loss.shape == (3,) and mask.shape == (3, 2, 4, 4)
    assert match.tolist() == [[0, -1, 1, -1], [0, -1, -1, -1], [-1] * 4]
    weights = scores if scored else torch.ones_like(scores)
    wanted = [_loss(x[n], boxes[n], labels[n], weights[n], smooth) for n in range(3)]
    np.testing.assert_allclose(loss, wanted, rtol=1e-10)

    x.requires_grad_()
    flowing = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    again, _, _ = body("yolov3_loss")(x, boxes, labels, score, ignore_thresh=0.5, **given)
    (expected,) = torch.autograd.grad(again, x, flowing)
    found, *others = body("yolov3_loss_grad")(
        x.detach(), boxes, labels, score, mask, match, flowing, **given
    )
    assert others == [None] * 3
    torch.testing.assert_close(found, expected)


def test_of_boxes_in_one_cell_the_last_decides() -> None:
    torch.manual_seed(3)
    x, boxes = (
        torch.randn(1, 16, 4, 4),
        torch.tensor([[[0.1, 0.6, 0.5, 0.9], [0.2, 0.7, 0.5, 1.0]]]),
    )
    labels, flowing = torch.tensor([[2, 0]], dtype=torch.int32), torch.ones(1)
    both = body("yolov3_loss")(x, boxes, labels, torch.tensor([[0.5, 0.7]]), **MAP)
    assert both[1].max() == pytest.approx(0.7)
    last = body("yolov3_loss")(x, boxes[:, 1:], labels[:, 1:], torch.tensor([[0.7]]), **MAP)
    gradient = body("yolov3_loss_grad")
    score = torch.tensor([[0.5, 0.7]])
    one = gradient(x, boxes, labels, score, *both[1:], flowing, **MAP)[0]
    other = gradient(x, boxes[:, 1:], labels[:, 1:], score[:, 1:], *last[1:], flowing, **MAP)[0]
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("gamma", [0.0, 2.0, 1.5])
def test_sigmoid_focal_loss(gamma: float) -> None:
    torch.manual_seed(4)
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    label = torch.tensor([[0], [1], [3], [-1], [2], [0]], dtype=torch.int32)
    count = torch.tensor([3], dtype=torch.int32)
    given = {"gamma": gamma, "alpha": 0.3}
    p = torch.sigmoid(x)
    positive = label == torch.arange(1, 4)
    wanted = torch.where(
        positive,
        -0.3 * (1 - p) ** gamma * p.log() / 3,
        -0.7 * p**gamma * (1 - p).log() / 3 * (label != -1),
    )
    out = body("sigmoid_focal_loss")(x.detach(), label, count, **given)
    torch.testing.assert_close(out, wanted.detach())
    flowing = torch.randn(6, 3, dtype=torch.float64)
    (expected,) = torch.autograd.grad(wanted, x, flowing)
    found = body("sigmoid_focal_loss_grad")(x.detach(), label, count, flowing, **given)
    torch.testing.assert_close(found, expected)
    nobody = body("sigmoid_focal_loss")(
        x.detach(), label, torch.zeros(1, dtype=torch.int32), **given
    )
    torch.testing.assert_close(nobody, out * 3)
