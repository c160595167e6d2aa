"""Suppression against the algorithm as it is told: one box after the other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import refluid.ops  # noqa: F401
from refluid.core.offsets import Offsets
from refluid.ops.detection.overlaps import overlaps
from refluid.ops.detection.polygons import polygon_areas, polygon_overlaps
from refluid.ops.registry import find
from tests.choices import crossed

BASE = {"score_threshold": 0.2, "nms_top_k": -1, "keep_top_k": -1, "nms_threshold": 0.3}


def body(op_type: str) -> Callable[..., Any]:
    definition = find(op_type)
    assert definition is not None and definition.body is not None
    return definition.body


def boxes_of(random: np.random.RandomState, *shape: int, size: float = 0.5) -> Tensor:
    low = random.random_sample((*shape, 2))
    extent = random.random_sample((*shape, 2)) * size
    return torch.from_numpy(np.concatenate([low, low + extent], -1))


def iou(one: Tensor, other: Tensor, normalized: bool = True) -> float:
    more = 0 if normalized else 1
    low, high = torch.maximum(one[:2], other[:2]), torch.minimum(one[2:], other[2:])
    if (high < low).any():
        return 0.0
    areas = [float((box[2:] - box[:2] + more).prod()) for box in (one, other)]
    shared = float((high - low + more).prod())
    return shared / (sum(areas) - shared)


def greedy(boxes: Tensor, scores: Tensor, **given: Any) -> list[int]:
    """Indices that survive, best first."""
    order = scores.argsort(descending=True, stable=True).tolist()
    order = [i for i in order if scores[i] > given["score_threshold"]]
    order = order[: given["nms_top_k"]] if given["nms_top_k"] > -1 else order
    kept: list[int] = []
    limit = given["nms_threshold"]
    normalized, eta = given.get("normalized", True), given.get("nms_eta", 1.0)
    for i in order:
        if all(iou(boxes[i], boxes[j], normalized) <= limit for j in kept):
            kept.append(i)
            limit *= eta if eta < 1 and limit > 0.5 else 1.0
    return kept


def expected(boxes: Tensor, scores: Tensor, **given: Any) -> list[list[tuple[int, int]]]:
    """(label, index) of the detections of each image, by label."""
    found = []
    for image in range(len(boxes)):
        own = [
            (label, index)
            for label in range(scores.shape[1])
            if label != given.get("background_label", 0)
            for index in greedy(boxes[image], scores[image, label], **given)
        ]
        if given["keep_top_k"] > -1:
            best = sorted(own, key=lambda one: -float(scores[image, one[0], one[1]]))
            own = [one for one in own if one in best[: given["keep_top_k"]]]
        found.append(own)
    return found


OPTIONS: list[dict[str, Any]] = [
    {},
    {"nms_top_k": 7},
    {"keep_top_k": 5},
    {"background_label": -1, "nms_top_k": 20, "keep_top_k": 9},
    {"background_label": 2, "normalized": False},
    {"nms_threshold": 0.8, "nms_eta": 0.7},
    {"score_threshold": 0.9},
]


@pytest.mark.parametrize(
    ("count", "options"),
    crossed(
        [40, 300],
        OPTIONS,
        fast=[*((40, one) for one in OPTIONS), *((300, OPTIONS[one]) for one in (1, 3, 4, 6))],
    ),
)
def test_multiclass_nms_is_greedy(options: dict[str, Any], count: int) -> None:
    random = np.random.RandomState(3)
    boxes = boxes_of(random, 2, count)
    scores = torch.from_numpy(random.random_sample((2, 3, count)))
    given = BASE | options
    out, index, lod, _ = body("multiclass_nms2")(boxes, scores, **given)
    wanted = expected(boxes, scores, **given)
    assert lod[0].lengths == [len(own) for own in wanted]
    rows = [(image, *one) for image, own in enumerate(wanted) for one in own]
    assert index.dtype == torch.int32
    assert index[:, 0].tolist() == [image * count + place for image, _, place in rows]
    for row, (image, label, place) in zip(out, rows, strict=True):
        assert row[0] == label and row[1] == scores[image, label, place]
        assert torch.equal(row[2:], boxes[image, place])
    same, _ = body("multiclass_nms")(boxes, scores, **given)
    assert torch.equal(same, out)


def test_boxes_per_class_and_sequences() -> None:
    random = np.random.RandomState(5)
    boxes, scores = boxes_of(random, 9, 3), torch.from_numpy(random.random_sample((9, 3)))
    lod = (Offsets([0, 4, 4, 9]),)
    out, index, levels, _ = body("multiclass_nms2")(boxes, scores, lod_BBoxes=lod, **BASE)
    wanted = []
    for start, end in ((0, 4), (4, 4), (4, 9)):
        for label in (1, 2):
            own = greedy(boxes[start:end, label], scores[start:end, label], **BASE)
            wanted.append([(start + place) * 3 + label for place in sorted(own)])
    assert index[:, 0].tolist() == list(chain(*wanted))
    assert levels[0].lengths == [len(a) + len(b) for a, b in zip(*[iter(wanted)] * 2, strict=True)]
    assert torch.equal(out[:, 2:], boxes.reshape(-1, 4)[index[:, 0].long()])


def test_nothing_detected() -> None:
    boxes, scores = torch.rand(2, 5, 4), torch.zeros(2, 3, 5)
    out, lod = body("multiclass_nms")(boxes, scores, **BASE)
    assert out.tolist() == [[-1.0]] and lod[0].values == (0, 1)
    out, index, lod, _ = body("multiclass_nms2")(boxes, scores, **BASE)
    assert out.shape == (0, 6) and index.shape == (0, 1) and lod[0].lengths == [0, 0]
    out, index, lod, _ = body("matrix_nms")(
        boxes, scores, score_threshold=0.1, nms_top_k=5, keep_top_k=5
    )
    assert out.shape == (0, 6) and index.shape == (0, 1) and lod[0].lengths == [0, 0]
    for box, score in ((boxes, scores), (torch.rand(2, 0, 8), scores[..., :0])):
        out, lod = body("locality_aware_nms")(box, score, **BASE)
        assert out.tolist() == [[-1.0]] and lod[0].values == (0, 1)


@pytest.mark.parametrize("gaussian", [False, True])
def test_matrix_nms_decays_scores(gaussian: bool) -> None:
    random = np.random.RandomState(7)
    boxes = boxes_of(random, 2, 30)
    scores = torch.from_numpy(random.random_sample((2, 3, 30)))
    out, index, lod, _ = body("matrix_nms")(
        boxes,
        scores,
        score_threshold=0.3,
        post_threshold=0.2,
        nms_top_k=12,
        keep_top_k=8,
        use_gaussian=gaussian,
        gaussian_sigma=1.5,
    )
    wanted = []
    for image in range(2):
        own = []
        for label in (1, 2):
            order = scores[image, label].argsort(descending=True).tolist()[:12]
            order = [i for i in order if scores[image, label, i] > 0.3]
            most: list[float] = []
            for place, i in enumerate(order):
                by = [iou(boxes[image, j], boxes[image, i]) for j in order[:place]]
                factors = [
                    np.exp((m * m - o * o) * 1.5) if gaussian else (1 - o) / (1 - m)
                    for o, m in zip(by, most, strict=True)
                ]
                most.append(max(by, default=0.0))
                score = float(scores[image, label, i]) * min(factors, default=1.0)
                own += [(score, label, image * 30 + i)] if score > 0.2 else []
        wanted.append(sorted(own, reverse=True)[:8])
    assert lod[0].lengths == [len(own) for own in wanted]
    flat = list(chain(*wanted))
    assert index[:, 0].tolist() == [one[2] for one in flat]
    assert out[:, 0].tolist() == [one[1] for one in flat]
    np.testing.assert_allclose(out[:, 1], [one[0] for one in flat], rtol=1e-12)


def test_locality_aware_nms_merges_neighbours_in_order() -> None:
    random = np.random.RandomState(11)
    base = boxes_of(random, 1, 60).repeat_interleave(3, 1)
    boxes = base + torch.from_numpy(random.random_sample(base.shape)) * 0.05
    scores = torch.from_numpy(random.random_sample((1, 1, 180)))
    out, lod = body("locality_aware_nms")(boxes, scores, **BASE)
    merged: list[tuple[Tensor, float]] = []
    for box, score in zip(boxes[0], scores[0, 0].tolist(), strict=True):
        if merged and iou(box, merged[-1][0]) > 0.3:
            other, weight = merged[-1]
            both = (box * score + other * weight) / (score + weight)
            merged[-1] = both, score + weight
        else:
            merged.append((box, score))
    heads = torch.stack([box for box, _ in merged])
    weights = torch.tensor([weight for _, weight in merged], dtype=torch.float64)
    kept = greedy(heads, weights, **BASE)
    assert lod[0].lengths == [len(kept)]
    torch.testing.assert_close(out[:, 2:], heads[kept])
    torch.testing.assert_close(out[:, 1], weights[kept])


def test_polygons_that_are_boxes_overlap_like_boxes() -> None:
    random = np.random.RandomState(13)
    one, other = boxes_of(random, 20), boxes_of(random, 15)
    corners = [box[:, [0, 1, 2, 1, 2, 3, 0, 3]] for box in (one, other)]
    torch.testing.assert_close(polygon_overlaps(*corners), overlaps(one, other, True))


def test_polygons_of_known_overlap() -> None:
    triangles = torch.tensor([[0.0, 0, 2, 0, 0, 2], [2, 2, 0, 2, 2, 0], [5, 5, 6, 5, 5, 6]])
    assert polygon_areas(triangles).tolist() == [2, 2, 0.5]
    square = torch.tensor([[0.0, 0, 1, 0, 1, 1, 0, 1]])
    diamond = torch.tensor([[0.5, -0.5, 1.5, 0.5, 0.5, 1.5, -0.5, 0.5]])
    assert polygon_overlaps(square, diamond).item() == pytest.approx(1 / 2)
    found = polygon_overlaps(triangles, triangles)
    torch.testing.assert_close(found, torch.eye(3))
