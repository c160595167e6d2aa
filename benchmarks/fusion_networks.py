"""The networks on which fusions are measured: for each pass one that it is meant for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refluid import fluid
from refluid.measure.timing import Feed

layers = fluid.layers


@dataclass(frozen=True)
class FusionCase:
    """A pass and a network for it: `build` takes the image and gives what the loss is made of."""

    name: str
    title: str
    passes: tuple[str, ...]
    build: Callable[[Any], Any]
    shape: tuple[int, ...]
    classes: int
    steps: int


def convolutions(image: Any) -> Any:
    """Four 3x3 convolutions with bias and relu."""
    for _ in range(4):
        image = layers.conv2d(image, 32, 3, padding=1, act="relu")
    return layers.pool2d(image, global_pooling=True, pool_type="avg")


def perceptron(image: Any) -> Any:
    """Eight layers of 256 with relu."""
    for _ in range(8):
        image = layers.fc(image, 256, act="relu")
    return image


def _norm(image: Any, filters: int, act: str | None = None) -> Any:
    plain = layers.conv2d(image, filters, 1, bias_attr=False)
    return layers.batch_norm(plain, act=act)


def residual(image: Any) -> Any:
    """Four residual blocks of 1x1 convolutions."""
    image = _norm(image, 64, "relu")
    for _ in range(4):
        image = layers.elementwise_add(image, _norm(_norm(image, 16, "relu"), 64), act="relu")
    return layers.pool2d(image, global_pooling=True, pool_type="avg")


def separable(image: Any) -> Any:
    """Blocks of relu and depthwise convolution beside one of 1x1, as Xception's narrower ones."""
    image = layers.conv2d(image, 64, 1, bias_attr=False)
    for _ in range(4):
        branch = layers.conv2d(
            layers.relu(image), 64, 3, padding=1, groups=64, use_cudnn=False, bias_attr=False
        )
        beside = layers.conv2d(image, 64, 1, bias_attr=False)
        image = layers.elementwise_add(beside, layers.conv2d(branch, 64, 1, bias_attr=False))
    return layers.pool2d(image, global_pooling=True, pool_type="avg")


def sums(image: Any) -> Any:
    """Eight activated sums with a shortcut, each of a scaled copy."""
    for _ in range(8):
        image = layers.elementwise_add(image, layers.scale(image, 0.5), act="relu")
    return image


def attending(image: Any) -> Any:
    """Two layers of attention of four heads, each with a shortcut."""
    for _ in range(2):
        asked, keys, values = (
            layers.transpose(
                layers.reshape(layers.fc(image, 256, 2, bias_attr=False), [0, 0, 4, 64]),
                [0, 2, 1, 3],
            )
            for _ in range(3)
        )
        weights = layers.softmax(layers.matmul(asked, keys, transpose_y=True, alpha=0.125))
        mixed = layers.transpose(layers.matmul(weights, values), [0, 2, 1, 3])
        image = layers.elementwise_add(image, layers.reshape(mixed, [0, 0, 256]))
    return layers.reduce_mean(image, dim=1)


CASES = (
    FusionCase(
        "conv_bias",
        "4 convolutions 3x3 of 32, 32x32 images, batch 16",
        ("fuse_conv_bias",),
        convolutions,
        (16, 3, 32, 32),
        10,
        10,
    ),
    FusionCase(
        "gemm_bias", "8 layers of 256, batch 64", ("fuse_gemm_bias",), perceptron, (64, 256), 10, 60
    ),
    FusionCase(
        "gemm_epilogue",
        "8 layers of 256 with relu, batch 64",
        ("fuse_gemm_epilogue",),
        perceptron,
        (64, 256),
        10,
        60,
    ),
    FusionCase(
        "elewise_add_act",
        "8 activated sums of two terms, 512 x 4096",
        ("fuse_elewise_add_act_ops",),
        sums,
        (512, 4096),
        10,
        10,
    ),
    FusionCase(
        "bn_act",
        "4 residual blocks 16-64, 32x32 images, batch 16",
        ("fuse_bn_act_ops",),
        residual,
        (16, 3, 32, 32),
        10,
        10,
    ),
    FusionCase(
        "bn_add_act",
        "4 residual blocks 16-64, 32x32 images, batch 16",
        ("fuse_bn_add_act_ops",),
        residual,
        (16, 3, 32, 32),
        10,
        10,
    ),
    FusionCase(
        "relu_depthwise_conv",
        "4 separable blocks of 64, 32x32 images, batch 16",
        ("fuse_relu_depthwise_conv",),
        separable,
        (16, 3, 32, 32),
        10,
        10,
    ),
    FusionCase(
        "softmax_cross_entropy",
        "one layer of 10,000 classes, batch 256",
        ("fuse_softmax_cross_entropy",),
        lambda image: image,
        (256, 64),
        10_000,
        10,
    ),
    FusionCase(
        "attention",
        "2 layers of attention, 4 heads of 64, 64 places, batch 16",
        ("fuse_attention",),
        attending,
        (16, 64, 256),
        10,
        10,
    ),
)


def trained(case: FusionCase) -> tuple[Any, Any, str]:
    """Program, startup program and the name of the loss."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = fluid.data("image", [None, *case.shape[1:]])
        label = fluid.data("label", [None, 1], "int64")
        guess = layers.fc(case.build(image), case.classes, act="softmax")
        loss = layers.mean(layers.cross_entropy(guess, label))
        fluid.optimizer.SGD(0.001).minimize(loss)
    return main, startup, loss.name


def feeds(case: FusionCase) -> list[Feed]:
    """Four random batches, the same every time."""
    random = np.random.default_rng(7)
    return [
        {
            "image": random.standard_normal(case.shape, np.float32),
            "label": random.integers(0, case.classes, (case.shape[0], 1)),
        }
        for _ in range(4)
    ]
