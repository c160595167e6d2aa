"""Layers of detection networks."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fluid.examples.feeds import Build, x

L = fluid.layers
_NMS = {
    "background_label": 0,
    "score_threshold": 0.5,
    "nms_top_k": 400,
    "nms_threshold": 0.3,
    "keep_top_k": 200,
    "normalized": False,
}


def _rows(name: str, *shape: int) -> fluid.Variable:
    """Sequences of rows of that shape."""
    return fluid.data(name=name, shape=[-1, *shape], dtype="float32", lod_level=1)


def _bipartite_match() -> None:
    overlap = L.iou_similarity(x(-1, 4), x(-1, 4, name="y"))
    L.bipartite_match(overlap)


def _box_coder() -> None:
    variance = [0.1, 0.1, 0.2, 0.2]
    prior, target = x(512, 4, name="prior_box_encode"), x(81, 4, name="target_box_encode")
    L.box_coder(prior, variance, target, code_type="encode_center_size")
    prior, target = x(512, 4, name="prior_box_decode"), x(512, 81, 4, name="target_box_decode")
    L.box_coder(prior, variance, target, "decode_center_size", box_normalized=False, axis=1)


def _box_decoder_and_assign() -> None:
    names = {"prior_box": (-1, 4), "prior_box_var": (4,), "target_box": (-1, 324)}
    boxes = [x(*shape, name=name) for name, shape in names.items()]
    L.box_decoder_and_assign(*boxes, x(-1, 81, name="scores"), 4.135)


def _maps() -> dict[str, fluid.Variable]:
    return {
        "input": x(-1, 3, 6, 9, name="input"),
        "image": x(-1, 3, 9, 12, name="image"),
    }


def _density_prior_box() -> None:
    L.density_prior_box(
        **_maps(),
        densities=[4, 2, 1],
        fixed_sizes=[32.0, 64.0, 128.0],
        fixed_ratios=[1.0],
        clip=True,
        flatten_to_2d=True,
    )


def _detection_output() -> None:
    prior, variance = x(10, 4, name="prior_box"), x(10, 4, name="prior_box_var")
    loc, scores = x(2, 21, 4, name="target_box"), x(2, 21, 10, name="scores")
    L.detection_output(loc, scores, prior, variance, return_index=True)


def _multi_box_head(**sizes: Any) -> None:
    shapes = [(512, 19), (1024, 10), (512, 5), (256, 3), (256, 2), (128, 1)]
    image = x(-1, 3, 300, 300, name="data")
    maps = [
        x(-1, channels, size, size, name=f"conv{number}")
        for number, (channels, size) in enumerate(shapes, 1)
    ]
    ratios = [[2.0], [2.0, 3.0], [2.0, 3.0], [2.0, 3.0], [2.0], [2.0]]
    L.multi_box_head(maps, image, 300, 21, ratios, flip=True, clip=True, **sizes)


_SIZES = {
    "min_sizes": [60.0, 105.0, 150.0, 195.0, 240.0, 285.0],
    "max_sizes": [[], 150.0, 195.0, 240.0, 285.0, 300.0],
}


def _locality_aware_nms() -> None:
    options = {name: value for name, value in _NMS.items() if name != "background_label"}
    L.locality_aware_nms(x(-1, 81, 8, name="bboxes"), x(-1, 1, 81, name="scores"), **options)


def _target_assign() -> None:
    rows = fluid.data(name="x", shape=[4, 20, 4], dtype="double", lod_level=1)
    L.target_assign(rows, x(8, 20, name="indices", dtype="int32"), mismatch_value=0)


EXAMPLES: dict[str, Build] = {
    "layers.bipartite_match-0": _bipartite_match,
    "layers.box_clip-0": lambda: L.box_clip(_rows("boxes", 8, 4), x(-1, 3, name="im_info")),
    "layers.box_coder-0": _box_coder,
    "layers.box_decoder_and_assign-0": _box_decoder_and_assign,
    "layers.density_prior_box-0": _density_prior_box,
    "layers.detection_output-0": _detection_output,
    "layers.locality_aware_nms-0": _locality_aware_nms,
    "layers.multi_box_head-0": lambda: _multi_box_head(min_ratio=20, max_ratio=90),
    "layers.multi_box_head-1": lambda: _multi_box_head(**_SIZES),
    "layers.multiclass_nms-0": lambda: L.multiclass_nms(
        _rows("bboxes", 81, 4), _rows("scores", 81), **_NMS
    ),
    "layers.polygon_box_transform-0": lambda: L.polygon_box_transform(x(4, 10, 5, 5, name="input")),
    "layers.prior_box-0": lambda: L.prior_box(**_maps(), min_sizes=[100.0], clip=True, flip=True),
    "layers.target_assign-0": _target_assign,
    "layers.yolo_box-0": lambda: L.yolo_box(
        x(-1, 255, 13, 13),
        x(-1, 2, name="img_size", dtype="int64"),
        anchors=[10, 13, 16, 30, 33, 23],
        class_num=80,
        conf_thresh=0.01,
        downsample_ratio=32,
    ),
}
