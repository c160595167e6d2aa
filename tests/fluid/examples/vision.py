"""Layers for images, and losses that compare embeddings."""

from __future__ import annotations

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build, free, x

L = fluid.layers


def _affine_channel() -> None:
    data = x(-1, 1, 2, 2, name="data")
    scale, bias = (
        L.create_parameter([1], "float32", default_initializer=fluid.initializer.Constant(value))
        for value in (2.0, 0.5)
    )
    L.affine_channel(data, scale=scale, bias=bias)


def _center_loss() -> None:
    data, label = x(20, 30), x(20, 1, name="y", dtype="int64")
    attr = fluid.initializer.Xavier(uniform=False)
    L.center_loss(data, label, 1000, alpha=0.01, param_attr=attr, update_center=True)


def _fsp() -> None:
    data = x(-1, 3, 32, 32, name="data")
    one = L.conv2d(input=data, num_filters=2, filter_size=3)
    L.fsp_matrix(one, L.conv2d(input=one, num_filters=2, filter_size=1))


def _grid_sampler() -> None:
    data, theta = x(-1, 10, 32, 32), x(-1, 2, 3, name="theta")
    L.grid_sampler(x=data, grid=L.affine_grid(theta=theta, out_shape=[3, 10, 32, 32]))


def _inplace_abn() -> None:
    hidden = L.fc(input=x(3, 7, 3, 7), size=200, param_attr="fc1.w")
    hidden = L.inplace_abn(input=hidden)
    L.inplace_abn(input=hidden, act="leaky_relu", act_alpha=0.2)


def _mean_iou() -> None:
    predict, label = (x(-1, 32, 32, name=name, dtype="int64") for name in ("predict", "label"))
    L.mean_iou(predict, label, 5)


def _npair_loss() -> None:
    anchor, positive = x(18, 6, name="anchor"), x(18, 6, name="positive")
    L.npair_loss(anchor, positive, x(18, name="labels"), l2_reg=0.002)


def _random_crop() -> None:
    np.random.seed(0)
    L.random_crop(x(-1, 3, 256, 256, name="img"), shape=[3, 224, 224])


EXAMPLES: dict[str, Build] = {
    "layers.add_position_encoding-0": lambda: L.add_position_encoding(
        input=x(-1, 64, 512, name="tensor"), alpha=1.0, beta=1.0
    ),
    "layers.affine_channel-0": _affine_channel,
    "layers.center_loss-0": _center_loss,
    "layers.fsp_matrix-0": _fsp,
    "layers.grid_sampler-0": _grid_sampler,
    "layers.inplace_abn-0": _inplace_abn,
    "layers.mean_iou-0": _mean_iou,
    "layers.npair_loss-0": _npair_loss,
    "layers.pixel_shuffle-0": lambda: L.pixel_shuffle(
        x=x(2, 9, 4, 4, name="input"), upscale_factor=3
    ),
    "layers.random_crop-0": _random_crop,
    "layers.resize_bilinear-0": lambda: L.resize_bilinear(
        x(-1, 3, 6, 10, name="input"), out_shape=[12, 12]
    ),
    "layers.resize_nearest-0": lambda: L.resize_nearest(
        x(-1, 3, 6, 10, name="input"), out_shape=[12, 12]
    ),
    "layers.spectral_norm-0": lambda: L.spectral_norm(
        free(2, 8, 32, 32, name="weight"), dim=1, power_iters=2
    ),
    "layers.temporal_shift-0": lambda: L.temporal_shift(
        x=x(-1, 4, 2, 2, name="input"), seg_num=2, shift_ratio=0.2
    ),
    "layers.unfold-0": lambda: L.unfold(x(100, 3, 224, 224, name="data"), [3, 3], 1, 1, 1),
    "layers.unfold-0+small": lambda: L.unfold(x(2, 3, 8, 8, name="data"), [3, 3], 1, 1, 1),
}
