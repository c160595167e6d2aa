"""What detection layers refuse, and layers of which there is no recorded program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.fluid.examples.feeds import Build, x
from tests.fluid.test_structure import build

L = fluid.layers


def _map(size: int = 4) -> fluid.Variable:
    return x(-1, 8, size, size, name=f"map{size}")


def _image() -> fluid.Variable:
    return x(-1, 3, 64, 64, name="image")


def _yolo(**given: Any) -> fluid.Variable:
    options = {"anchors": [10, 13], "class_num": 3, "conf_thresh": 0.1, "downsample_ratio": 8}
    return L.yolo_box(_map(), x(-1, 2, name="size", dtype="int32"), **options | given)


def _ssd() -> None:
    rows = [fluid.data(name, [-1, 4], lod_level=1) for name in ("box", "label")]
    L.ssd_loss(_map(), _map(2), *rows, _map(1), mining_type="hard_example")


def _distributed(min_level: Any) -> None:
    L.distribute_fpn_proposals(x(3, 4), min_level, 5, 4, 224)


def _collected(rois: Any) -> None:
    L.collect_fpn_proposals(rois, [x(3, 1, name="scores")], 2, 2, 9)


REFUSED: list[tuple[type[Exception], str, Build]] = [
    (ValueError, "steps", lambda: L.prior_box(_map(), _image(), [9.0], steps=[1.0])),
    (TypeError, "densities", lambda: L.density_prior_box(_map(), _image(), 2, [8.0], [1.0])),
    (ValueError, "length", lambda: L.density_prior_box(_map(), _image(), [2], [8.0, 9.0], [1.0])),
    (ValueError, "stride", lambda: L.anchor_generator(_map(), [32.0], [1.0])),
    (TypeError, "variance", lambda: L.box_coder(x(3, 4), "ones", x(2, 4, name="y"))),
    (TypeError, "Variable", lambda: L.iou_similarity(x(3, 4), [[0, 0, 1, 1]])),
    (TypeError, "anchors", lambda: _yolo(anchors=10)),
    (TypeError, "class_num", lambda: _yolo(class_num=3.0)),
    (ValueError, "mining_type", _ssd),
    (ValueError, "ratio", lambda: L.multi_box_head([_map()] * 3, _image(), 64, 3, [[2.0]] * 3)),
    (ValueError, "at least min_level", lambda: L.distribute_fpn_proposals(x(3, 4), 5, 2, 4, 224)),
    (TypeError, "'min_level' has to be int", lambda: _distributed(2.0)),
    (ValueError, "at least min_level", lambda: L.collect_fpn_proposals([], [], 3, 2, 9)),
    (TypeError, "'multi_rois' has to be a list", lambda: _collected(x(3, 4))),
    (TypeError, "'bboxes' has to be a list", lambda: L.retinanet_detection_output(*[x(3, 4)] * 4)),
    (ValueError, "one per input", lambda: L.multi_box_head([_map()], _image(), 64, 3, [], 1, 2)),
]


@pytest.mark.parametrize(("kind", "message", "layer"), REFUSED)
def test_refused(kind: type[Exception], message: str, layer: Build) -> None:
    with pytest.raises(kind, match=message):
        build(layer)


def test_head_of_one_map_keeps_its_shapes() -> None:
    found: list[Any] = []
    head = {"min_sizes": [[10.0, 20.0]], "max_sizes": [[15.0, 30.0]], "steps": [16.0]}
    build(lambda: found.extend(L.multi_box_head([_map()], _image(), 64, 3, [[2.0]], **head)))
    assert [one.shape for one in found] == [(-1, 512), (-1, 384), (4, 4, 8, 4), (4, 4, 8, 4)]


@pytest.mark.parametrize("indexed", [True, False])
def test_detections_with_their_indices(indexed: bool) -> None:
    given = {"score_threshold": 0.1, "nms_top_k": 10, "keep_top_k": 5, "return_index": indexed}
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        boxes, scores = x(-1, 6, 4, name="boxes"), x(-1, 2, 6, name="scores")
        found = [
            fluid.contrib.layers.multiclass_nms2(boxes, scores, **given),
            L.matrix_nms(boxes, scores, post_threshold=0.0, **given),
        ]
    assert [op.type for op in main.global_block().ops] == ["multiclass_nms2", "matrix_nms"]
    fetches = [one for pair in found for one in (pair if indexed else [pair])]
    random = np.random.RandomState(0)
    low = random.random_sample((2, 6, 2))
    feed = {
        "boxes": np.concatenate([low, low + 0.1], -1).astype("float32"),
        "scores": random.random_sample((2, 2, 6)).astype("float32") + 0.2,
    }
    results = fluid.Executor(fluid.CPUPlace()).run(
        main, feed=feed, fetch_list=fetches, return_numpy=False
    )
    rows = feed["boxes"].reshape(-1, 4)
    for place in range(0, len(results), 2 if indexed else 1):
        detections = np.array(results[place])
        assert detections.shape[1] == 6
        assert len(results[place].recursive_sequence_lengths()[0]) == 2
        if indexed:
            index = np.array(results[place + 1])[:, 0]
            assert np.array_equal(rows[index], detections[:, 2:])
