"""What Fluid makes of anchors and regions at the edges: detectors were tuned with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from refluid.core import flags
from refluid.core.offsets import Levels, Offsets
from tests.ops.test_region_pooling import body

ANCHORS = torch.tensor([[0.0, 0, 9, 9], [20, 20, 29, 29], [0, 0, 19, 19], [30, 0, 39, 9]])
IMAGE = torch.tensor([[50.0, 50.0, 1.0]])


def _lod(*lengths: int) -> Levels:
    return (Offsets.of_lengths(lengths),)


def _retinanet(boxes: list[list[int]], **changes: Any) -> Any:
    count = len(boxes)
    own = {f"lod_{name}": _lod(count) for name in ("GtBoxes", "GtLabels", "IsCrowd")}
    return body("retinanet_target_assign")(
        ANCHORS,
        torch.tensor(boxes, dtype=torch.float32),
        torch.arange(1, count + 1, dtype=torch.int32)[:, None],
        torch.zeros(count, 1, dtype=torch.int32),
        IMAGE,
        **own | changes,
    )


def test_an_anchor_that_is_background_after_all_counts_the_first_of_foreground_once_more() -> None:
    # Anchor 0 is the second box; anchor 1 is nearest to the first, but too far to be foreground.
    location, score, moves, label, weight, number, *lods = _retinanet(
        [[25, 25, 44, 44], [0, 0, 9, 9]]
    )
    assert location.tolist() == [0, 0]
    assert weight.tolist() == [[0.0] * 4, [1.0] * 4]
    assert torch.equal(moves[0], moves[1])
    assert score.tolist() == [0, 1, 2, 3]
    assert label[:, 0].tolist() == [2, 0, 0, 0]
    assert number.tolist() == [[3]]
    assert lods == [_lod(2), _lod(4), _lod(2), _lod(4), _lod(2), _lod(1)]


def test_a_box_that_nothing_overlaps_makes_all_anchors_foreground_first() -> None:
    location, _, _, label, weight, number, *_ = _retinanet([[45, 45, 49, 49]])
    assert location.tolist() == [0] * 4
    assert not weight.any()
    assert not label.any()
    assert number.tolist() == [[5]]


def test_a_cascade_takes_its_first_regions_for_the_boxes() -> None:
    rois = torch.tensor([[0.0, 0, 9, 9], [10, 10, 19, 19], [20, 20, 39, 39]])
    own = {f"lod_{name}": _lod(2) for name in ("GtClasses", "IsCrowd", "GtBoxes")}
    found, labels, *_, lod = body("generate_proposal_labels")(
        rois,
        torch.tensor([[1], [2]]),
        torch.tensor([[0], [1]]),
        torch.tensor([[10.0, 10, 19, 19], [40, 40, 49, 49]]),
        torch.tensor([[100.0, 100.0, 2.0]]),
        batch_size_per_im=4,
        fg_fraction=0.5,
        fg_thresh=0.5,
        bg_thresh_hi=0.5,
        bg_thresh_lo=0.0,
        bbox_reg_weights=(0.1, 0.1, 0.2, 0.2),
        class_nums=3,
        use_random=False,
        is_cascade_rcnn=True,
        random=lambda seed: None,
        lod_RpnRois=_lod(3),
        **own,
    )
    # As many as there are boxes aren't scaled, and the second is left out as the second box is a
    # crowd; the third, scaled to the image, is the first box.
    assert found.tolist() == [rois[2].tolist(), (2 * rois[0]).tolist()]
    assert labels[:, 0].tolist() == [1, 0]
    assert lod == _lod(2)


def _collected(lengths: list[int], scores: list[float], most: int) -> tuple[list[float], Levels]:
    found, lod = body("collect_fpn_proposals")(
        [torch.arange(len(scores)).repeat_interleave(4).reshape(-1, 4).float()],
        [torch.tensor(scores)],
        post_nms_topN=most,
        lods_MultiLevelRois=[_lod(*lengths)],
    )
    return found[:, 0].tolist(), lod


def test_on_fluids_cpu_collected_regions_end_with_the_last_image_that_has_some() -> None:
    assert _collected([1, 0, 2, 0], [0.1, 0.9, 0.8], 2) == ([1, 2], _lod(0, 0, 2, 0))
    assert _collected([2, 1], [0.1, 0.9, 0.0], 2) == ([1, 0], _lod(2, 0))
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        assert _collected([0, 2, 0], [0.9, 0.8], 2) == ([0, 1], _lod(0, 2))
        assert _collected([2, 1], [0.1, 0.9, 0.0], 2) == ([1, 0], _lod(2))


def test_of_equal_regions_the_last_is_collected_first() -> None:
    assert _collected([3], [0.5, 0.5, 0.5], 2) == ([2, 1], _lod(2))


def test_fluids_cpu_goes_on_by_one_image_per_region() -> None:
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        assert _collected([0, 0, 2], [0.9, 0.8], 2) == ([0, 1], _lod(0, 1, 1))
    assert _collected([0, 0, 2], [0.9, 0.8], 2) == ([0, 1], _lod(0, 0, 2))


@pytest.mark.parametrize("as_fluid, places", [(False, [1, 3]), (True, [1, 1])])
def test_places_of_masks_are_among_the_regions_of_all_images(
    as_fluid: bool, places: list[int]
) -> None:
    corners = [[10, 10], [50, 10], [50, 40], [10, 40], [60, 60], [90, 60], [75, 90]]
    regions = [[20, 20, 100, 80], [20, 20, 60, 80], [10, 10, 20, 20], [60, 60, 90, 90]]
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": as_fluid}):
        _, found, *_ = body("generate_mask_labels")(
            torch.tensor([[100.0, 100.0, 2.0], [100.0, 100.0, 1.0]]),
            torch.tensor([[2], [1]]),
            torch.zeros(2, 1, dtype=torch.int32),
            torch.tensor(corners, dtype=torch.float32),
            torch.tensor(regions, dtype=torch.float32),
            torch.tensor([[0], [2], [0], [1]], dtype=torch.int32),
            num_classes=3,
            resolution=2,
            lod_GtSegms=(*_lod(1, 1), *_lod(1, 1), *_lod(4, 3)),
            lod_Rois=_lod(2, 2),
        )
    assert found[:, 0].tolist() == places
