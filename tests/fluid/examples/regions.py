"""Layers of two-stage detectors: proposals, pooling of regions, deformable convolution."""

from __future__ import annotations

from refluid import fluid
from tests.fluid.examples.feeds import Build, x

L = fluid.layers


def _sequence(*shape: int, name: str) -> fluid.Variable:
    return fluid.data(name=name, shape=list(shape), dtype="float32", lod_level=1)


def _proposals() -> None:
    L.generate_proposals(
        scores=x(-1, 4, 5, 5, name="scores"),
        bbox_deltas=x(-1, 16, 5, 5, name="bbox_deltas"),
        im_info=x(-1, 3, name="im_info"),
        anchors=x(-1, 5, 4, 4, name="anchors"),
        variances=x(-1, 5, 10, 4, name="variances"),
    )


def _collected() -> None:
    rois = [_sequence(-1, 4, name=f"roi_{level}") for level in range(4)]
    scores = [_sequence(-1, 1, name=f"score_{level}") for level in range(4)]
    L.collect_fpn_proposals(rois, scores, min_level=2, max_level=5, post_nms_top_n=2000)


def _retinanet() -> None:
    sizes = {"low": 44, "high": 11}
    L.retinanet_detection_output(
        bboxes=[x(1, size, 4, name=f"bboxes_{level}") for level, size in sizes.items()],
        scores=[x(1, size, 10, name=f"scores_{level}") for level, size in sizes.items()],
        anchors=[x(size, 4, name=f"anchors_{level}") for level, size in sizes.items()],
        im_info=x(1, 3, name="im_info"),
        score_threshold=0.05,
        nms_top_k=1000,
        keep_top_k=100,
        nms_threshold=0.45,
        nms_eta=1.0,
    )


def _deformable() -> None:
    data, offset = x(-1, 3, 32, 32, name="data"), x(-1, 18, 32, 32, name="offset")
    mask = x(-1, 9, 32, 32, name="mask")
    L.deformable_conv(data, offset, mask, num_filters=2, filter_size=3, padding=1)
    L.deformable_conv(data, offset, None, num_filters=2, filter_size=3, padding=1, modulated=False)


def _offsets() -> fluid.Variable:
    return x(-1, name="rois_lod", dtype="int64")


EXAMPLES: dict[str, Build] = {
    "layers.collect_fpn_proposals-0": _collected,
    "layers.deformable_conv-0": _deformable,
    "layers.distribute_fpn_proposals-0": lambda: L.distribute_fpn_proposals(
        _sequence(-1, 4, name="data"), min_level=2, max_level=5, refer_level=4, refer_scale=224
    ),
    "layers.generate_proposals-0": _proposals,
    "layers.psroi_pool-0": lambda: L.psroi_pool(
        x(100, 490, 28, 28), _sequence(-1, 4, name="rois"), 10, 1.0, 7, 7
    ),
    "layers.retinanet_detection_output-0": _retinanet,
    "layers.roi_align-0": lambda: L.roi_align(
        x(-1, 256, 32, 32, name="data"), x(-1, 4, name="rois"), 7, 7, 0.5, -1, rois_lod=_offsets()
    ),
    "layers.roi_perspective_transform-0": lambda: L.roi_perspective_transform(
        x(100, 256, 28, 28), _sequence(-1, 8, name="rois"), 7, 7, 1.0
    ),
    "layers.roi_pool-0": lambda: L.roi_pool(
        x(-1, 1, 4, 4, name="input"), x(-1, 4, name="roi"), 1, 1, 1.0, _offsets()
    ),
}
