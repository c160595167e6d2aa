"""The layers of a two-stage detector work together: from anchors to pooled regions and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from tests.fluid.test_structure import build

L = fluid.layers
BOXES = np.array([[2, 2, 25, 28], [20, 30, 60, 55], [5, 5, 40, 40]], dtype="float32")


def _fed(name: str, *shape: int, dtype: str = "float32", levels: int = 0) -> fluid.Variable:
    return fluid.data(name=name, shape=[-1, *shape], dtype=dtype, lod_level=levels)


def _sequences(array: np.ndarray[Any, Any], *lengths: list[int]) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(array, list(lengths), fluid.CPUPlace())


def _detector() -> list[fluid.Variable]:
    features, info = _fed("features", 8, 8, 8), _fed("im_info", 3)
    boxes, crowd = _fed("gt_box", 4, levels=1), _fed("is_crowd", 1, dtype="int32", levels=1)
    classes = _fed("gt_class", 1, dtype="int32", levels=1)
    polygons = _fed("gt_segms", 2, levels=3)
    anchor, variance = L.anchor_generator(
        features, anchor_sizes=[16.0, 32.0], aspect_ratios=[1.0], stride=[8.0, 8.0]
    )
    scores = L.conv2d(features, num_filters=2, filter_size=1)
    moves = L.conv2d(features, num_filters=8, filter_size=1)
    rois, _ = L.generate_proposals(
        L.sigmoid(scores), moves, info, anchor, variance, pre_nms_top_n=50, post_nms_top_n=20
    )
    flat = L.transpose(scores, [0, 2, 3, 1]), L.transpose(moves, [0, 2, 3, 1])
    found = L.rpn_target_assign(
        L.reshape(flat[1], [0, -1, 4]),
        L.reshape(flat[0], [0, -1, 1]),
        L.reshape(anchor, [-1, 4]),
        L.reshape(variance, [-1, 4]),
        boxes,
        crowd,
        info,
        rpn_batch_size_per_im=16,
        use_random=False,
    )
    loss = L.sigmoid_cross_entropy_with_logits(found[0], L.cast(found[2], "float32"))
    regions, labels, *_ = L.generate_proposal_labels(
        rois, classes, crowd, boxes, info, batch_size_per_im=8, class_nums=4, use_random=False
    )
    masked, places, masks = L.generate_mask_labels(
        info, classes, crowd, polygons, regions, labels, num_classes=4, resolution=7
    )
    levels, restore = L.distribute_fpn_proposals(regions, 2, 3, 2, 30)
    parts = [L.roi_align(features, one, 3, 3, 0.125, 2) for one in levels]
    pooled = L.gather(L.concat(parts), restore)
    total = L.elementwise_add(L.mean(loss), L.mean(pooled))
    fluid.optimizer.SGD(0.1).minimize(total)
    return [total, regions, labels, masked, places, masks, pooled]


def test_a_training_step() -> None:
    fetches: list[fluid.Variable] = []
    main, startup = build(lambda: fetches.extend(_detector()))
    corners = BOXES[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)
    feed = {
        "features": np.random.RandomState(0).rand(2, 8, 8, 8).astype("float32"),
        "im_info": np.array([[64, 64, 1]] * 2, dtype="float32"),
        "gt_box": _sequences(BOXES, [1, 2]),
        "is_crowd": _sequences(np.zeros((3, 1), "int32"), [1, 2]),
        "gt_class": _sequences(np.array([[1], [3], [2]], "int32"), [1, 2]),
        "gt_segms": _sequences(corners, [1, 2], [1, 1, 1], [4, 4, 4]),
    }
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        got = executor.run(main, feed=feed, fetch_list=fetches, return_numpy=False)
    total, regions, labels, masked, places, masks, pooled = (np.array(one) for one in got)
    lengths = got[1].recursive_sequence_lengths()[0]
    assert np.isfinite(total).all()
    assert sum(lengths) == len(regions) == len(labels) == len(pooled)
    assert set(labels.ravel()) <= {0, 1, 2, 3}
    assert pooled.shape[1:] == (8, 3, 3)
    np.testing.assert_array_equal(masked, regions[places.ravel()])
    assert masks.shape == (len(masked), 4 * 49)
    assert (masks == 1).any()
