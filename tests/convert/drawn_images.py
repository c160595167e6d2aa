"""Images, boxes and regions at random sizes and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

import refluid.fluid as fluid
from tests.convert.drawing import Random, case, floats, pick
from tests.convert.networks import Network

layers = fluid.layers


@case
def image_rows(draw: Random) -> Any:
    height, width = (int(one) for one in draw.randint(4, 8, 2))
    kernel, stride = pick(draw, [2, 3], [1, 4], [4, 1]), pick(draw, 1, 2)

    def build() -> Network:
        given = fluid.data("x", [None, 4, height, width])
        found = layers.im2sequence(given, kernel, stride, pick(draw, 0, [1, 0, 1, 0]))
        shifted = layers.temporal_shift(given, 2, 0.25)
        deep = layers.image_resize(shifted, [7, 5], resample="NEAREST", align_corners=True)
        return ["x"], [layers.sequence_pool(found, "max"), deep], None

    return build, {"x": floats(draw, 4, 4, height, width)}


@case
def priors(draw: Random) -> Any:
    def build() -> Network:
        image = fluid.data("image", [None, 3, 32, 40])
        features = fluid.data("features", [None, 8, 4, 5])
        options = {"flip": bool(draw.randint(2)), "clip": bool(draw.randint(2))}
        boxes, variances = layers.prior_box(
            features, image, [4.0, 9.0], pick(draw, [6.0, 12.0], None), [1.0, 2.0, 0.5], **options,
            min_max_aspect_ratios_order=bool(draw.randint(2)),
        )  # fmt: skip
        dense, _ = layers.density_prior_box(
            features, image, [2, 1], [4.0, 8.0], [1.0, 2.0], flatten_to_2d=True
        )
        anchors, spread = layers.anchor_generator(features, [16.0, 32.0], [0.5, 2.0], stride=[8, 8])
        return ["image", "features"], [boxes, variances, dense, anchors, spread], None

    return build, {"image": floats(draw, 1, 3, 32, 40), "features": floats(draw, 1, 8, 4, 5)}


def corners(draw: Random, count: int, size: float = 1.0) -> Any:
    low = draw.uniform(0, 0.6, (count, 2))
    boxes = np.concatenate([low, low + draw.uniform(0.05, 0.4, (count, 2))], 1)
    return (boxes * size).astype("float32")


@case
def ssd(draw: Random) -> Any:
    count = int(draw.randint(4, 12))
    lengths = [[int(one) for one in draw.randint(1, 4, 2)]]
    total = sum(lengths[0])
    boxes = fluid.create_lod_tensor(corners(draw, total), lengths, fluid.CPUPlace())
    labels = draw.randint(1, 3, (total, 1))
    label = fluid.create_lod_tensor(labels, lengths, fluid.CPUPlace())

    def build() -> Network:
        location = fluid.data("l", [None, count, 4])
        scores = fluid.data("s", [None, count, 3])
        truth = fluid.data("b", [None, 4], lod_level=1)
        kind = fluid.data("k", [None, 1], "int64", lod_level=1)
        prior, spread = fluid.data("p", [count, 4]), fluid.data("v", [count, 4])
        loss = layers.ssd_loss(location, scores, truth, kind, prior, spread, overlap_threshold=0.3)
        found = layers.detection_output(
            location, layers.softmax(scores), prior, spread,
            nms_threshold=pick(draw, 0.3, 0.6), keep_top_k=pick(draw, 5, 100), score_threshold=0.2,
        )  # fmt: skip
        return ["l", "s", "b", "k", "p", "v"], [loss, found], None

    feeds = {
        "l": floats(draw, 2, count, 4), "s": floats(draw, 2, count, 3), "b": boxes, "k": label,
        "p": corners(draw, count), "v": np.full((count, 4), 0.1, "float32"),
    }  # fmt: skip
    return build, feeds


@case
def yolo(draw: Random) -> Any:
    size, classes = int(draw.randint(3, 6)), int(draw.randint(2, 5))
    boxes = draw.uniform(0.1, 0.9, (2, 6, 4)).astype("float32")
    boxes[:, 4:] = 0.0
    anchors = [10, 13, 16, 30, 33, 23]

    def build() -> Network:
        x = fluid.data("x", [None, 2 * (5 + classes), size, size])
        box, label = fluid.data("b", [None, 6, 4]), fluid.data("k", [None, 6], "int32")
        loss = layers.yolov3_loss(
            x, box, label, anchors, [0, 2], classes, 0.5, 8,
            use_label_smooth=bool(draw.randint(2)),
        )  # fmt: skip
        sizes = fluid.data("s", [None, 2], "int32")
        found, scores = layers.yolo_box(x, sizes, anchors[:4], classes, 0.3, 8)
        return ["x", "b", "k", "s"], [loss, found, scores], None

    feeds = {
        "x": floats(draw, 2, 2 * (5 + classes), size, size), "b": boxes,
        "k": draw.randint(0, classes, (2, 6)).astype("int32"),
        "s": np.array([[40, 30], [64, 50]], "int32"),
    }  # fmt: skip
    return build, feeds


@case
def regions(draw: Random) -> Any:
    def build() -> Network:
        scores, deltas = fluid.data("s", [None, 4, 5, 6]), fluid.data("d", [None, 16, 5, 6])
        info, features = fluid.data("i", [None, 3]), fluid.data("f", [None, 3, 5, 6])
        anchors, spread = layers.anchor_generator(features, [16.0, 32.0], [0.5, 1.0], stride=[8, 8])
        rois, probabilities = layers.generate_proposals(
            scores, deltas, info, anchors, spread, pick(draw, 50, 200), pick(draw, 7, 20), 0.5, 4.0
        )
        levels, order = layers.distribute_fpn_proposals(rois, 2, 3, 3, 16)
        pooled = layers.roi_align(features, rois, 2, 3, 1 / 8, pick(draw, -1, 2))
        best = layers.collect_fpn_proposals([rois, rois], [probabilities] * 2, 2, 3, 9)
        return ["s", "d", "i", "f"], [pooled, probabilities, *levels, order, best], None

    feeds = {
        "s": draw.permutation(240).reshape(2, 4, 5, 6).astype("float32") / 240,
        "d": floats(draw, 2, 16, 5, 6) / 4, "f": floats(draw, 2, 3, 5, 6),
        "i": np.array([[40, 48, 1], [36, 40, 1]], "float32"),
    }  # fmt: skip
    return build, feeds


@case
def deformable(draw: Random) -> Any:
    groups, stride = pick(draw, 1, 2), pick(draw, 1, 2)
    out = (6 - 1) // stride + 1

    def build() -> Network:
        x = fluid.data("x", [None, 4, 6, 6])
        offset = fluid.data("o", [None, 18 * groups, out, out])
        mask = fluid.data("m", [None, 9 * groups, out, out])
        found = layers.deformable_conv(
            x, offset, mask, 2, 3, stride, 1, groups=pick(draw, 1, 2), deformable_groups=groups,
            bias_attr=False,
        )  # fmt: skip
        return ["x", "o", "m"], [found], None

    feeds = {
        "x": floats(draw, 2, 4, 6, 6), "o": floats(draw, 2, 18 * groups, out, out),
        "m": floats(draw, 2, 9 * groups, out, out),
    }  # fmt: skip
    return build, feeds
