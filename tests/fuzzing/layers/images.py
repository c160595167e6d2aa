"""Layers for images and volumes."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers


def _padding(net: Net) -> Any:
    return net.one("SAME", "SAME", "VALID", 0, 1, [1, 0], [0, 1, 1, 0])


@layer((4,), weight=5)
def conv2d(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    groups = x.shape[1] if net.chance(0.3) else 1
    return L.conv2d(
        x,
        groups * net.one(1, 2),
        net.one(1, 2, 3, [3, 2]),
        net.one(1, 2, 3, [2, 1]),
        _padding(net),
        net.one(1, 1, 2),
        groups,
        act=net.one(None, "relu"),
        bias_attr=net.one(None, False),
    )


@layer((4,), weight=2)
def conv2d_transpose(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    return L.conv2d_transpose(
        x,
        net.one(2, 3),
        filter_size=net.one(2, 3),
        padding=_padding(net),
        stride=net.one(1, 2),
        dilation=net.one(1, 1, 2),
    )


@layer((4,), weight=4)
def pool2d(net: Net, x: Any) -> Any:
    return L.pool2d(
        x,
        net.one(1, 2, 3),
        net.one("max", "avg"),
        net.one(1, 2, 3),
        _padding(net) if net.chance(0.7) else 0,
        net.chance(0.15),
        ceil_mode=net.chance(0.4),
        exclusive=net.chance(0.7),
    )


@layer((4,), weight=1.5)
def adaptive_pool2d(net: Net, x: Any) -> Any:
    return L.adaptive_pool2d(x, net.one(1, 2, [3, 2]), net.one("max", "avg"))


@layer((5,), weight=4)
def conv3d(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    padding = net.one("SAME", "VALID", 0, 1)
    return L.conv3d(x, 2, net.one(1, 2, 3), net.one(1, 2), padding, act=net.one(None, "relu"))


@layer((5,), weight=1.5)
def conv3d_transpose(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    padding = net.one("SAME", "VALID", 0, 1)
    return L.conv3d_transpose(x, 2, filter_size=net.one(2, 3), padding=padding, stride=2)


@layer((5,), weight=4)
def pool3d(net: Net, x: Any) -> Any:
    padding = net.one("SAME", "VALID", 0, 1)
    kind = net.one("max", "avg")
    return L.pool3d(x, net.one(2, 3), kind, net.one(1, 2), padding, ceil_mode=net.chance(0.4))


@layer((4,), weight=2)
def resized(net: Net, x: Any) -> Any:
    how = net.one("resize_bilinear", "resize_nearest")
    align, mode = net.chance(0.5), net.one(0, 1)
    sizes = (
        {"out_shape": [net.one(3, 5), 4]} if net.chance(0.4) else {"scale": net.one(2, 1.5, 0.5)}
    )
    if how == "resize_bilinear":
        return L.resize_bilinear(x, **sizes, align_corners=align, align_mode=mode)
    return L.resize_nearest(x, **sizes, align_corners=align)


@layer((4,))
def resized_like_another(net: Net, x: Any) -> Any:
    size = L.slice(L.shape(net.like(x)), [0], [2], [4])
    return L.resize_nearest(x, out_shape=L.cast(size + 1, "int32"))


@layer((4,), weight=0.7)
def resized_short(net: Net, x: Any) -> Any:
    need(all(known(size) for size in x.shape[2:]))
    return L.image_resize_short(x, 4)


@layer((4,))
def unfolded(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    return L.unfold(x, [2, 2], strides=net.one(1, 2), paddings=net.one(0, 1))


@layer((4,))
def space_to_depth(net: Net, x: Any) -> Any:
    need(known(x.shape[1]) and x.shape[1] % 4 == 0)
    return L.space_to_depth(x, 2)


@layer((4,))
def pixel_shuffle(net: Net, x: Any) -> Any:
    need(known(x.shape[1]) and x.shape[1] % 4 == 0)
    return L.pixel_shuffle(x, 2)


@layer((4,), weight=0.7)
def shuffle_channel(net: Net, x: Any) -> Any:
    need(known(x.shape[1]) and x.shape[1] % 2 == 0)
    return L.shuffle_channel(x, 2)


@layer((4,), weight=0.7)
def affine_channel(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    scale = L.create_parameter([x.shape[1]], "float32")
    bias = L.create_parameter([x.shape[1]], "float32")
    return L.affine_channel(x, scale, bias)


@layer((4,), exact=True)
def maxout(net: Net, x: Any) -> Any:
    need(known(x.shape[1]) and x.shape[1] % 2 == 0)
    return L.maxout(x, 2)


@layer((4,))
def sampled_grid(net: Net, x: Any) -> Any:
    """x at moved places of itself."""
    moved = L.conv2d(x, 2, 1) if known(x.shape[1]) else None
    need(moved is not None)
    return L.grid_sampler(x, L.transpose(L.tanh(moved), [0, 2, 3, 1]))


@layer((4,), weight=0.7)
def shifted_in_time(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    return L.temporal_shift(x, seg_num=net.one(1, 2), shift_ratio=0.25)


@layer((4,), weight=0.7)
def image_rows(net: Net, x: Any) -> Any:
    """Every row of pixels as a step of time."""
    need(known(x.shape[1]))
    return L.reduce_mean(L.transpose(x, [0, 3, 1, 2]), 3)
