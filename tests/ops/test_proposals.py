"""Proposals of a two-stage detector, their levels and their targets, against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.detection.rasterising import rasterised
from tests.ops.test_region_pooling import body, numbers

IMAGES = torch.tensor([[40.0, 60.0, 1.0], [50.0, 30.0, 2.0]], dtype=torch.float64)


def _lod(*lengths: int) -> Levels:
    return (Offsets.of_lengths(lengths),)


def _boxes(count: int, seed: int, size: float = 30.0) -> Tensor:
    corners = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed)).double() * size
    corners[:, 2:] += corners[:, :2]
    return corners


def _overlap(one: list[float], other: list[float]) -> float:
    wide, high = (min(one[a + 2], other[a + 2]) - max(one[a], other[a]) + 1 for a in (0, 1))
    shared = max(wide, 0) * max(high, 0)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (one, other)]
    return shared / (sum(areas) - shared)


def _decoded(anchor: list[float], move: list[float], info: list[float]) -> list[float]:
    wide, high = anchor[2] - anchor[0] + 1, anchor[3] - anchor[1] + 1
    x, y = anchor[0] + wide / 2 + move[0] * wide, anchor[1] + high / 2 + move[1] * high
    wide, high = wide * math.exp(move[2]), high * math.exp(move[3])
    corners = [x - wide / 2, y - high / 2, x + wide / 2 - 1, y + high / 2 - 1]
    limits = [info[1], info[0], info[1], info[0]]
    return [max(min(at, limit - 1), 0) for at, limit in zip(corners, limits, strict=True)]


def _proposed(scores: Tensor, moves: Tensor, anchors: Tensor, info: Tensor, eta: float) -> Any:
    """Of one image: boxes and scores, one candidate after another."""
    order = scores.argsort(descending=True)[:40].tolist()
    kept: list[tuple[list[float], float]] = []
    limit, (height, width, scale) = 0.7, info.tolist()
    for place in order:
        box = _decoded(anchors[place].tolist(), moves[place].tolist(), info.tolist())
        sides = box[2] - box[0], box[3] - box[1]
        middle = box[0] + (sides[0] + 1) / 2, box[1] + (sides[1] + 1) / 2
        if min(sides) / scale + 1 < 4 or middle[0] > width or middle[1] > height:
            continue
        if all(_overlap(box, other) <= limit for other, _ in kept):
            kept.append((box, float(scores[place])))
            limit *= eta if limit > 0.5 else 1
    return kept[:12]


@pytest.mark.parametrize("eta", [1.0, 0.9])
def test_generate_proposals(eta: float) -> None:
    scores, moves = numbers(2, 3, 4, 5), numbers(2, 12, 4, 5, seed=1) * 0.3
    anchors = _boxes(60, 2).reshape(4, 5, 3, 4)
    rois, best, counts, *lods = body("generate_proposals")(
        scores,
        moves,
        IMAGES,
        anchors,
        torch.full_like(anchors, 0.5),
        pre_nms_topN=40,
        post_nms_topN=12,
        nms_thresh=0.7,
        min_size=4.0,
        eta=eta,
    )
    wanted = [
        _proposed(
            scores[image].permute(1, 2, 0).reshape(-1),
            0.5 * moves[image].permute(1, 2, 0).reshape(-1, 4),
            anchors.reshape(-1, 4),
            IMAGES[image],
            eta,
        )
        for image in range(2)
    ]
    assert counts.tolist() == [len(one) for one in wanted]
    assert lods == [_lod(*counts.tolist())] * 2
    np.testing.assert_allclose(rois, [box for one in wanted for box, _ in one])
    np.testing.assert_allclose(best[:, 0], [score for one in wanted for _, score in one])


def test_levels_there_and_back() -> None:
    rois = torch.cat([_boxes(9, 0, 20.0), _boxes(9, 1, 200.0)])[torch.arange(18) % 9 * 2 % 17]
    parts, restore, lods = body("distribute_fpn_proposals")(
        rois, min_level=2, max_level=5, refer_level=4, refer_scale=100, lod_FpnRois=_lod(7, 0, 11)
    )
    torch.testing.assert_close(torch.cat(parts)[restore[:, 0].long()], rois)
    assert [len(part) for part in parts] == [lod[-1].total for lod in lods]
    for level, part in enumerate(parts, start=2):
        for x1, y1, x2, y2 in part.tolist():
            scale = math.sqrt((x2 - x1 + 1) * (y2 - y1 + 1)) / 100
            assert level == min(max(math.floor(4 + math.log2(scale)), 2), 5)
    assert sum((lod[-1].length_tensor() for lod in lods), torch.zeros(3)).tolist() == [7, 0, 11]


def test_collected_are_the_best() -> None:
    rois, scores = [_boxes(5, 0), _boxes(4, 1)], [numbers(5, 1), numbers(4, 1, seed=1)]
    found, lod = body("collect_fpn_proposals")(
        rois, scores, post_nms_topN=6, lods_MultiLevelRois=[_lod(2, 3), _lod(4, 0)]
    )
    image = [0, 0, 1, 1, 1, 0, 0, 0, 0]
    best = torch.cat(scores)[:, 0].argsort(descending=True)[:6].tolist()
    wanted = sorted(best, key=lambda place: image[place])
    torch.testing.assert_close(found, torch.cat(rois)[wanted])
    assert lod == _lod(*[sum(image[place] == one for place in best) for one in (0, 1)])


@pytest.mark.parametrize("kept", [0, 3])
def test_images_without_regions_stay_in_the_lod_of_collected(kept: int) -> None:
    rois, scores = [_boxes(kept, 0), _boxes(0, 1)], [numbers(kept, 1), numbers(0, 1)]
    found, lod = body("collect_fpn_proposals")(
        rois, scores, post_nms_topN=6, lods_MultiLevelRois=[_lod(kept, 0), _lod(0, 0)]
    )
    assert found.shape == (kept, 4) and lod == _lod(kept, 0)


def test_what_takes_collected_regions_runs_without_any() -> None:
    images = numbers(2, 3, 8, 8)
    rois, lod = body("collect_fpn_proposals")(
        [_boxes(0, 0)], [numbers(0, 1)], post_nms_topN=6, lods_MultiLevelRois=[_lod(0, 0)]
    )
    settings = {"min_level": 2, "max_level": 3, "refer_level": 2, "refer_scale": 8}
    parts, place, lods = body("distribute_fpn_proposals")(rois, **settings, lod_FpnRois=lod)
    assert place.shape == (0, 1)
    for part, levels in zip(parts, lods, strict=True):
        sizes = {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0}
        pooled = body("roi_align")(images, part, **sizes, sampling_ratio=2, lod_ROIs=levels)
        assert pooled.shape == (0, 3, 2, 2)


RPN: dict[str, Any] = {
    "rpn_batch_size_per_im": 10,
    "rpn_straddle_thresh": 2.0,
    "rpn_positive_overlap": 0.5,
    "rpn_negative_overlap": 0.3,
    "rpn_fg_fraction": 0.5,
}


def _assigned(draw: bool, **changes: Any) -> Any:
    anchors, boxes = _boxes(80, 0), _boxes(5, 1, 15.0)
    crowd = torch.tensor([[0], [1], [0], [0], [0]], dtype=torch.int32)
    result = body("rpn_target_assign")(
        anchors,
        boxes,
        crowd,
        IMAGES,
        use_random=draw,
        random=lambda seed: torch.Generator().manual_seed(3),
        lod_GtBoxes=_lod(3, 2),
        lod_IsCrowd=_lod(3, 2),
        **RPN | changes,
    )
    return anchors, boxes, result


def test_rpn_target_assign() -> None:
    anchors, boxes, (location, score, target, label, weight, *lods) = _assigned(draw=False)
    fronts, backs, fakes = [], [], []
    for image, own in enumerate(([boxes[0], boxes[2]], [boxes[3], boxes[4]])):
        height, width, scale = IMAGES[image].tolist()
        inside = [
            place
            for place, (x1, y1, x2, y2) in enumerate(anchors.tolist())
            if min(x1, y1) >= -2 and x2 < width + 2 and y2 < height + 2
        ]
        table = [
            [_overlap(anchors[place].tolist(), (box * scale).tolist()) for box in own]
            for place in inside
        ]
        most = [max(column) for column in zip(*table, strict=True)]
        wanted = [
            place
            for place, row in zip(inside, table, strict=True)
            if max(row) >= 0.5 or any(abs(a - b) < 1e-5 for a, b in zip(row, most, strict=True))
        ][:5]
        far = [place for place, row in zip(inside, table, strict=True) if max(row) < 0.3]
        far = far[: 10 - len(wanted)]
        fronts.append([place + 80 * image for place in wanted if place not in far])
        backs.append([place + 80 * image for place in far])
        # The first one once more for each that became background.
        fakes.append([wanted[0] + 80 * image for place in wanted if place in far])
    assert location.tolist() == fakes[0] + fronts[0] + fakes[1] + fronts[1]
    moves = _lod(*(len(fakes[image]) + len(fronts[image]) for image in (0, 1)))
    scores = _lod(*(len(fronts[image]) + len(backs[image]) for image in (0, 1)))
    assert lods == [moves, scores, moves, scores, moves]
    assert score.tolist() == fronts[0] + backs[0] + fronts[1] + backs[1]
    assert label[:, 0].tolist() == [1] * len(fronts[0]) + [0] * len(backs[0]) + (
        [1] * len(fronts[1]) + [0] * len(backs[1])
    )
    assert target.shape == weight.shape == (len(location), 4)
    assert {one.dtype for one in (location, score, label)} == {torch.int32}


def test_random_anchors_are_a_choice_of_all() -> None:
    everything = _assigned(draw=False, rpn_batch_size_per_im=1000)[2]
    drawn = _assigned(draw=True)[2]
    assert set(drawn[1].tolist()) <= set(everything[1].tolist())
    assert len(set(drawn[1].tolist())) == len(drawn[1]) <= 20
    assert drawn[1].tolist() != _assigned(draw=False)[2][1].tolist()


def test_images_without_boxes() -> None:
    anchors, none = _boxes(20, 0), torch.zeros(0, 4, dtype=torch.float64)
    lods = {f"lod_{name}": _lod(0, 0) for name in ("GtBoxes", "GtLabels", "IsCrowd")}
    flags = torch.zeros(0, 1, dtype=torch.int32)
    _, _, _, label, weight, number, *_ = body("retinanet_target_assign")(
        anchors, none, flags, flags, IMAGES, **lods
    )
    assert label.tolist() == [[0]] * 40
    assert (weight.shape, number.tolist()) == ((0, 4), [[1], [1]])
    with pytest.raises(EnforceNotMet, match="LoD of GtBoxes"):
        body("retinanet_target_assign")(anchors, none, flags, flags, IMAGES)


@pytest.mark.parametrize("agnostic", [False, True])
def test_generate_proposal_labels(agnostic: bool) -> None:
    boxes = torch.tensor([[0, 0, 9, 9], [20, 20, 39, 39]], dtype=torch.float64)
    rois = torch.tensor([[0, 0, 9, 10], [20, 20, 39, 30], [50, 50, 59, 59]], dtype=torch.float64)
    lods = {f"lod_{name}": _lod(2) for name in ("GtClasses", "IsCrowd", "GtBoxes")}
    found, labels, moves, inside, outside, *made = body("generate_proposal_labels")(
        rois * 2,
        torch.tensor([[2], [1]]),
        torch.tensor([[0], [1]]),
        boxes,
        torch.tensor([[200.0, 200.0, 2.0]], dtype=torch.float64),
        batch_size_per_im=4,
        fg_fraction=0.75,
        fg_thresh=0.6,
        bg_thresh_hi=0.6,
        bg_thresh_lo=0.0,
        bbox_reg_weights=(0.1, 0.1, 0.2, 0.2),
        class_nums=3,
        use_random=False,
        is_cls_agnostic=agnostic,
        random=lambda seed: None,
        lod_RpnRois=_lod(3),
        **lods,
    )
    # The second box is a crowd, so that it is no region itself.
    torch.testing.assert_close(found, torch.stack([boxes[0], rois[0], rois[1], rois[2]]) * 2)
    assert labels[:, 0].tolist() == [2, 2, 0, 0]
    place = slice(4, 8) if agnostic else slice(8, 12)
    shrunk = [0, (4.5 - 5) / 11 / 0.1, 0, math.log(10 / 11) / 0.2]
    np.testing.assert_allclose(moves[1, place], shrunk, atol=1e-12)
    assert inside.sum(1).tolist() == [4, 4, 0, 0]
    assert (moves != 0).sum() == 2
    assert torch.equal(inside, outside)
    assert made == [_lod(4)] * 5


def test_masks_of_foreground_regions() -> None:
    corners = [[10, 10], [50, 10], [50, 40], [10, 40], [60, 60], [90, 60], [75, 90]]
    regions = [[20, 20, 100, 80], [20, 20, 60, 80], [10, 10, 20, 20], [4, 4, 30, 30]]
    info = torch.tensor([[100.0, 100.0, 2.0], [100.0, 100.0, 1.0]])
    rois, places, masks, lod, *_ = body("generate_mask_labels")(
        info,
        torch.tensor([[2], [1]]),
        torch.zeros(2, 1, dtype=torch.int32),
        torch.tensor(corners, dtype=torch.float32),
        torch.tensor(regions, dtype=torch.float32),
        torch.tensor([[0], [2], [0], [0]], dtype=torch.int32),
        num_classes=3,
        resolution=4,
        lod_GtSegms=(*_lod(1, 1), *_lod(1, 1), *_lod(4, 3)),
        lod_Rois=_lod(2, 2),
    )
    assert rois.tolist() == [regions[1], regions[2]]
    assert (places.tolist(), lod) == ([[1], [2]], _lod(1, 1))
    by_class = masks.reshape(2, 3, 16)
    assert by_class[0, 2].tolist() == [1] * 16
    assert by_class[0, :2].unique().tolist() == by_class[1].unique().tolist() == [-1]


def test_a_rasterised_triangle() -> None:
    triangle = torch.tensor([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    square = torch.tensor([[1.0, 1.0], [4.0, 1.0], [4.0, 3.0], [1.0, 3.0]])
    outline = torch.tensor([0, 0, 0, 2, 2, 2, 2])
    found = rasterised(torch.cat([triangle, square]), outline, 3, 6)
    assert found.sum((1, 2)).tolist() == [15, 0, 6]
    assert found[2, 1:3, 1:4].all()
