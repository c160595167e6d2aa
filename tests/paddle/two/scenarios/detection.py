"""`paddle.vision.ops`: results, and gradients of pools and convolutions."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np


def _boxes(random, count, size, least=0.3):
    corner = random.uniform(0, size * 0.7, (count, 2))
    return np.concatenate(
        [corner, corner + random.uniform(least, size * 0.6, (count, 2))], 1
    ).astype("float32")


def _numbers(random, *shape):
    return random.uniform(-1.5, 1.5, shape).astype("float32")


def _parts(value):
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _parts(part)]
    return [value]


def _of(call):
    """The results of `call(paddle.vision.ops, tensor, random)`, and gradients of what it took."""

    def run(paddle):
        paddle.disable_static()
        random, taken = np.random.RandomState(5), []

        def tensor(array, slope=False):
            taken.append(paddle.to_tensor(array, stop_gradient=not slope))
            return taken[-1]

        found, loss = {}, 0.0
        for number, out in enumerate(_parts(call(paddle.vision.ops, tensor, random))):
            found[f"out{number}"] = out.numpy()
            if not out.stop_gradient:
                weights = np.random.RandomState(6).uniform(0.5, 1.5, out.shape).astype("float32")
                loss = loss + (out * paddle.to_tensor(weights)).sum()
        if not isinstance(loss, float):
            loss.backward()
            for number, one in enumerate(taken):
                if one.grad is not None:
                    found[f"grad{number}"] = one.grad.numpy()
        return found

    return run


def _pooled(name, channels=3, least=0.3, **settings):
    def call(ops, tensor, random):
        x = tensor(_numbers(random, 2, channels, 9, 8), True)
        counts = tensor(np.array([4, 3], "int32"))
        return getattr(ops, name)(x, tensor(_boxes(random, 7, 16, least)), counts, **settings)

    return _of(call)


def _deformed(masked, biased, groups=1, **settings):
    def call(ops, tensor, random):
        x = tensor(_numbers(random, 2, 4, 6, 7), True)
        weight = tensor(_numbers(random, 6, 4 // groups, 3, 3), True)
        shape = (2, 18, 6, 7)
        offset = tensor(_numbers(random, *shape), True)
        mask = (
            tensor(random.uniform(0, 1, (2, 9, 6, 7)).astype("float32"), True) if masked else None
        )
        bias = tensor(_numbers(random, 6), True) if biased else None
        return ops.deform_conv2d(
            x, offset, weight, bias, padding=1, groups=groups, mask=mask, **settings
        )

    return _of(call)


def _proposals(**settings):
    def call(ops, tensor, random):
        n, a, h, w = 2, 3, 4, 5
        scores = tensor(
            random.permutation(n * a * h * w).reshape(n, a, h, w).astype("float32") / 99
        )
        deltas = tensor(_numbers(random, n, 4 * a, h, w) * 0.4)
        sizes = tensor(np.array([[22, 30], [30, 24]], "float32"))
        anchors = tensor(_boxes(random, h * w * a, 26).reshape(h, w, a, 4))
        variances = tensor(random.uniform(0.1, 1, (h, w, a, 4)).astype("float32"))
        return ops.generate_proposals(
            scores, deltas, sizes, anchors, variances, return_rois_num=True, **settings
        )

    return _of(call)


def _levels(**settings):
    def call(ops, tensor, random):
        rois = tensor(_boxes(random, 12, 300))
        counts = tensor(np.array([5, 7], "int32"))
        return ops.distribute_fpn_proposals(rois, 2, 5, 4, 100, rois_num=counts, **settings)

    return _of(call)


def _suppressed(scored, grouped, **settings):
    def call(ops, tensor, random):
        boxes = tensor(_boxes(random, 30, 20))
        scores = tensor(random.permutation(30).astype("float32")) if scored else None
        groups, known = None, None
        if grouped:
            groups, known = tensor(random.randint(0, 3, 30)), [0, 1, 2]
        return ops.nms(boxes, 0.25, scores, groups, known, **settings)

    return _of(call)


def _matrix(**settings):
    def call(ops, tensor, random):
        boxes = tensor(np.stack([_boxes(random, 20, 10) for _ in range(2)]))
        scores = tensor(random.uniform(0, 1, (2, 3, 20)).astype("float32"))
        return ops.matrix_nms(boxes, scores, 0.3, 0.1, 10, 8, return_index=True, **settings)

    return _of(call)


def _yolo_box(**settings):
    def call(ops, tensor, random):
        x = tensor(_numbers(random, 2, 14, 4, 4))
        sizes = tensor(np.array([[60, 70], [50, 64]], "int32"))
        return ops.yolo_box(x, sizes, [10, 13, 16, 30], 2, 0.3, 16, **settings)

    return _of(call)


def _yolo_loss(scored, **settings):
    def call(ops, tensor, random):
        x = tensor(_numbers(random, 2, 14, 4, 4), True)
        boxes = tensor(random.uniform(0.1, 0.6, (2, 3, 4)).astype("float32"))
        labels = tensor(random.randint(0, 2, (2, 3)).astype("int32"))
        scores = tensor(random.uniform(0.3, 1, (2, 3)).astype("float32")) if scored else None
        return ops.yolo_loss(
            x, boxes, labels, [10, 13, 16, 30, 33, 23], [0, 2], 2, 0.6, 16, scores, **settings
        )

    return _of(call)


def _priors(**settings):
    def call(ops, tensor, random):
        planes = tensor(_numbers(random, 1, 3, 4, 5)), tensor(_numbers(random, 1, 3, 32, 40))
        return ops.prior_box(*planes, [8.0, 12.0], [14.0, 20.0], [1.0, 2.0], **settings)

    return _of(call)


def _coded(kind, **settings):
    def call(ops, tensor, random):
        priors = tensor(_boxes(random, 5, 10))
        variances = tensor(random.uniform(0.1, 1, (5, 4)).astype("float32"))
        encodes = kind == "encode_center_size"
        targets = tensor(_boxes(random, 3, 10) if encodes else _numbers(random, 3, 5, 4))
        return ops.box_coder(priors, variances, targets, kind, **settings)

    return _of(call)


def _layers(paddle):
    paddle.disable_static()
    random, ops = np.random.RandomState(5), paddle.vision.ops
    x = paddle.to_tensor(_numbers(random, 2, 8, 6, 6))
    boxes = paddle.to_tensor(_boxes(random, 3, 6))
    counts = paddle.to_tensor(np.array([1, 2], "int32"))
    pools = [ops.RoIAlign(2, 0.7), ops.RoIPool([2, 3], 0.7), ops.PSRoIPool(2, 0.7)]
    found = {f"pool{n}": one(x, boxes, counts).numpy() for n, one in enumerate(pools)}
    layer = ops.DeformConv2D(8, 4, [1, 3], padding=[0, 1], groups=2)
    for one in layer.parameters():
        one.set_value(_numbers(random, *one.shape))
    offset = paddle.to_tensor(_numbers(random, 2, 6, 6, 6))
    mask = paddle.to_tensor(random.uniform(0, 1, (2, 3, 6, 6)).astype("float32"))
    found |= {"plain": layer(x, offset).numpy(), "masked": layer(x, offset, mask).numpy()}
    return found | {name: np.array(one.shape) for name, one in layer.named_parameters()}


def _read(paddle):
    paddle.disable_static()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bytes"
        path.write_bytes(np.random.RandomState(5).randint(0, 255, 30).astype("uint8").tobytes())
        return {"bytes": paddle.vision.ops.read_file(str(path)).numpy()}


SCENARIOS = {
    "roi_pool": _pooled("roi_pool", output_size=3, spatial_scale=0.5),
    # Gradients of regions of less than a pixel are wrong in Paddle.
    "roi_align": _pooled("roi_align", least=2.1, output_size=(2, 3), spatial_scale=0.5),
    "roi_align_unaligned": _pooled("roi_align", output_size=2, aligned=False, sampling_ratio=2),
    "psroi_pool": _pooled("psroi_pool", 12, output_size=2, spatial_scale=0.5),
    "deform": _deformed(False, True),
    "deform_masked": _deformed(True, False, 2, dilation=1),
    "proposals": _proposals(nms_thresh=0.4, min_size=3.0),
    "proposals_pixels": _proposals(nms_thresh=0.4, pixel_offset=True, post_nms_top_n=6),
    "proposals_some": _proposals(pre_nms_top_n=20, nms_thresh=0.7, eta=0.9),
    "levels": _levels(),
    "levels_pixels": _levels(pixel_offset=True),
    "nms": _suppressed(False, False),
    "nms_scores": _suppressed(True, False),
    "nms_groups": _suppressed(True, True, top_k=8),
    "matrix_nms": _matrix(),
    "matrix_nms_gaussian": _matrix(use_gaussian=True, normalized=False, background_label=-1),
    "yolo_box": _yolo_box(),
    "yolo_box_unclipped": _yolo_box(clip_bbox=False, scale_x_y=1.1),
    "yolo_loss": _yolo_loss(True),
    "yolo_loss_hard": _yolo_loss(False, use_label_smooth=False, scale_x_y=1.1),
    "priors": _priors(flip=True, clip=True),
    "priors_ordered": _priors(min_max_aspect_ratios_order=True, steps=[8.0, 8.0], offset=0.4),
    "encode": _coded("encode_center_size"),
    "decode": _coded("decode_center_size", box_normalized=False),
    "layers": _layers,
    "read_file": _read,
}
