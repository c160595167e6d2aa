"""Normalization, convolution, pooling, resizing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.case import Array, Case, Random, draw, normal, op

IMAGES = (16, 64, 28, 28)


def _scaled(**shapes: Any) -> Callable[[Random], Mapping[str, Array]]:
    """X with Scale and Bias, and running statistics where shapes names them."""

    def inputs(random: Random) -> Mapping[str, Array]:
        made = {name: normal(random, *shape) for name, shape in shapes.items()}
        if "Variance" in made:
            made["Variance"] = np.abs(made["Variance"]) + 0.5
        return made

    return inputs


def _conv(
    name: str,
    filters: tuple[int, ...],
    images: tuple[int, ...] = IMAGES,
    reason: str = "",
    **attrs: Any,
) -> Case:
    stride, padding, groups = attrs["strides"], attrs["paddings"], attrs.get("groups", 1)
    apply = {4: F.conv2d, 5: F.conv3d}[len(filters)]
    return Case(
        name,
        draw(Input=images, Filter=filters),
        op(name.partition(",")[0], "Output", dilations=[1] * len(stride), **attrs),
        lambda x, w: apply(x, w, None, stride, padding, 1, groups),
        ("Input", "Filter"),
        ("Filter",),
        reason=reason,
    )


def _pool(name: str, peer: Callable[[Tensor], Tensor], **attrs: Any) -> Case:
    build = op("pool2d", ksize=[3, 3], strides=[2, 2], paddings=[1, 1], **attrs)
    return Case(f"pool2d, {name}", draw(X=(16, 64, 56, 56)), build, peer, ("X",))


def _grid(random: Random) -> Mapping[str, Array]:
    grid = random.uniform(-0.9, 0.9, (8, 32, 32, 2)).astype("float32")
    return {"X": normal(random, 8, 32, 32, 32), "Grid": grid}


def _linear(x: Tensor) -> Tensor:
    return F.interpolate(x, size=(56, 56), mode="bilinear", align_corners=True)


CASES = (
    Case(
        "layer_norm",
        draw(X=(4096, 512), Scale=(512,), Bias=(512,)),
        op("layer_norm", "Y", begin_norm_axis=1),
        lambda x, w, b: F.layer_norm(x, (512,), w, b),
        ("X", "Scale", "Bias"),
        ("Scale", "Bias"),
    ),
    Case(
        "batch_norm",
        _scaled(X=IMAGES, Scale=(64,), Bias=(64,), Mean=(64,), Variance=(64,)),
        op("batch_norm", "Y"),
        lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, True),
        ("X", "Scale", "Bias"),
        ("Scale", "Bias", "Mean", "Variance"),
    ),
    Case(
        "batch_norm, fixed statistics",
        _scaled(X=IMAGES, Scale=(64,), Bias=(64,), Mean=(64,), Variance=(64,)),
        op("batch_norm", "Y", is_test=True),
        lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b),
        (),
        ("Scale", "Bias", "Mean", "Variance"),
    ),
    Case(
        "group_norm",
        draw(X=IMAGES, Scale=(64,), Bias=(64,)),
        op("group_norm", "Y", groups=8),
        lambda x, w, b: F.group_norm(x, 8, w, b),
        ("X", "Scale", "Bias"),
        ("Scale", "Bias"),
        reason="Fluid's gradient operator is given Y instead of X, which has to be computed back",
    ),
    Case(
        "instance_norm",
        draw(X=IMAGES, Scale=(64,), Bias=(64,)),
        op("instance_norm", "Y"),
        lambda x, w, b: F.instance_norm(x, None, None, w, b),
        ("X", "Scale", "Bias"),
        ("Scale", "Bias"),
    ),
    Case(
        "lrn",
        draw(X=(16, 64, 14, 14)),
        op("lrn", n=5, alpha=1e-4, beta=0.75, k=1.0),
        lambda x: F.local_response_norm(x, 5, 5e-4),
        ("X",),
    ),
    _conv("conv2d, 3 x 3", (64, 64, 3, 3), strides=[1, 1], paddings=[1, 1]),
    _conv("conv2d, 1 x 1", (128, 64, 1, 1), strides=[1, 1], paddings=[0, 0]),
    _conv(
        "conv2d, in 8 groups",
        (64, 8, 3, 3),
        strides=[1, 1],
        paddings=[1, 1],
        groups=8,
    ),
    _conv(
        "depthwise_conv2d",
        (64, 1, 3, 3),
        strides=[1, 1],
        paddings=[1, 1],
        groups=64,
    ),
    _conv(
        "conv3d",
        (16, 16, 3, 3, 3),
        (4, 16, 8, 28, 28),
        strides=[1, 1, 1],
        paddings=[1, 1, 1],
    ),
    Case(
        "conv2d_transpose",
        draw(Input=(8, 64, 14, 14), Filter=(64, 32, 4, 4)),
        op("conv2d_transpose", "Output", strides=[2, 2], paddings=[1, 1], dilations=[1, 1]),
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1),
        ("Input", "Filter"),
        ("Filter",),
    ),
    _pool("greatest", lambda x: F.max_pool2d(x, 3, 2, 1), pooling_type="max"),
    _pool(
        "mean",
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        pooling_type="avg",
        exclusive=True,
    ),
    _pool("whole image", lambda x: x.mean((2, 3), True), pooling_type="avg", global_pooling=True),
    Case(
        "bilinear_interp",
        draw(X=IMAGES),
        op("bilinear_interp", out_h=56, out_w=56, align_corners=True),
        _linear,
        ("X",),
    ),
    Case(
        "grid_sampler",
        _grid,
        op("grid_sampler", "Output"),
        lambda x, grid: F.grid_sample(x, grid, align_corners=True),
        ("X", "Grid"),
    ),
    Case(
        "affine_channel",
        draw(X=IMAGES, Scale=(64,), Bias=(64,)),
        op("affine_channel", data_layout="NCHW"),
        lambda x, w, b: torch.addcmul(b[:, None, None], x, w[:, None, None]),
        ("X", "Scale", "Bias"),
    ),
    Case(
        "prelu, a number per channel",
        draw(X=IMAGES, Alpha=(1, 64, 1, 1)),
        op("prelu", mode="channel"),
        lambda x, a: F.prelu(x, a.view(64)),
        ("X", "Alpha"),
        ("Alpha",),
    ),
    Case(
        "unfold",
        draw(X=(8, 32, 28, 28)),
        op("unfold", "Y", kernel_sizes=[3, 3], strides=[1, 1], paddings=[1] * 4, dilations=[1, 1]),
        lambda x: F.unfold(x, 3, 1, 1),
        ("X",),
    ),
    Case(
        "pixel_shuffle",
        draw(X=(16, 64, 28, 28)),
        op("pixel_shuffle", upscale_factor=2),
        lambda x: F.pixel_shuffle(x, 2),
        ("X",),
    ),
)
