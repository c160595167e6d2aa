"""Classifiers of the model zoo with named parameters, learning-rate schedules and weight decay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from refluid import fluid

L = fluid.layers
Network = Callable[[fluid.Variable], fluid.Variable]
CLASSES = 10


def train(network: Network, size: int, rate: Callable[[], fluid.Variable]) -> fluid.Variable:
    """Trains on images (N, 3, size, size) with momentum; returns the loss."""
    image = fluid.data("feed_image", [None, 3, size, size])
    label = fluid.data("feed_label", [None, 1], dtype="int64")
    fluid.data("feed_y_a", [None, 1], dtype="int64")
    probabilities = L.softmax(network(image))
    loss = L.mean(L.cross_entropy(input=probabilities, label=label))
    L.accuracy(input=probabilities, label=label, k=1)
    L.accuracy(input=probabilities, label=label, k=5)
    learning_rate = rate()
    learning_rate.persistable = True
    optimizer = fluid.optimizer.Momentum(
        learning_rate=learning_rate,
        momentum=0.9,
        regularization=fluid.regularizer.L2Decay(1e-4),
    )
    optimizer.minimize(loss)
    return loss


def in_steps() -> fluid.Variable:
    """A rate that falls to a tenth after 2, 4 and 6 steps."""
    return L.piecewise_decay([2, 4, 6], [0.001 * 0.1**power for power in range(4)])


def along_a_cosine() -> fluid.Variable:
    """A rate that falls along a cosine over 20 epochs of 2 steps."""
    return L.cosine_decay(0.001, step_each_epoch=2, epochs=20)


def _named(name: str, **options: Any) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, **options)


def _batch_norm(out: fluid.Variable, owner: str, act: str | None, **options: Any) -> fluid.Variable:
    return L.batch_norm(
        input=out,
        act=act,
        param_attr=_named(f"{owner}_scale"),
        bias_attr=_named(f"{owner}_offset"),
        moving_mean_name=f"{owner}_mean",
        moving_variance_name=f"{owner}_variance",
        **options,
    )


def _residual_conv(
    image: fluid.Variable,
    filters: int,
    size: int,
    name: str,
    stride: int = 1,
    act: str | None = None,
) -> fluid.Variable:
    out = L.conv2d(
        input=image,
        num_filters=filters,
        filter_size=size,
        stride=stride,
        padding=(size - 1) // 2,
        param_attr=_named(f"{name}_weights"),
        bias_attr=False,
        name=f"{name}.conv2d.output.1",
    )
    norm = f"bn_{name}" if name == "conv1" else f"bn{name.removeprefix('res')}"
    return _batch_norm(out, norm, act, name=f"{norm}.output.1")


def _bottleneck(image: fluid.Variable, filters: int, stride: int, name: str) -> fluid.Variable:
    out = _residual_conv(image, filters, 1, f"{name}_branch2a", act="relu")
    out = _residual_conv(out, filters, 3, f"{name}_branch2b", stride, "relu")
    out = _residual_conv(out, 4 * filters, 1, f"{name}_branch2c")
    short = image
    if image.shape[1] != 4 * filters or stride != 1:
        short = _residual_conv(image, 4 * filters, 1, f"{name}_branch1", stride)
    return L.elementwise_add(x=short, y=out, act="relu", name=f"{name}.add.output.5")


def resnet50(image: fluid.Variable) -> fluid.Variable:
    """Logits of a residual network of 50 layers."""
    out = _residual_conv(image, 64, 7, "conv1", 2, "relu")
    out = L.pool2d(input=out, pool_size=3, pool_stride=2, pool_padding=1, pool_type="max")
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=2):
        for position in range(blocks):
            stride = 2 if position == 0 and stage > 2 else 1
            out = _bottleneck(out, filters, stride, f"res{stage}{chr(ord('a') + position)}")
    out = L.pool2d(input=out, pool_type="avg", global_pooling=True)
    limit = 1.0 / math.sqrt(out.shape[1])
    uniform = fluid.initializer.Uniform(-limit, limit)
    return L.fc(input=out, size=CLASSES, param_attr=fluid.ParamAttr(initializer=uniform))


def _mobile_conv(
    image: fluid.Variable, filters: int, size: int, stride: int, name: str, groups: int = 1
) -> fluid.Variable:
    out = L.conv2d(
        input=image,
        num_filters=filters,
        filter_size=size,
        stride=stride,
        padding=(size - 1) // 2,
        groups=groups,
        use_cudnn=groups == 1,
        param_attr=_named(f"{name}_weights", initializer=fluid.initializer.MSRA()),
        bias_attr=False,
    )
    return _batch_norm(out, f"{name}_bn", "relu")


_SEPARABLE = [
    ("conv2_1", 64, 1),
    ("conv2_2", 128, 2),
    ("conv3_1", 128, 1),
    ("conv3_2", 256, 2),
    ("conv4_1", 256, 1),
    ("conv4_2", 512, 2),
    *[(f"conv5_{position}", 512, 1) for position in range(1, 6)],
    ("conv5_6", 1024, 2),
    ("conv6", 1024, 1),
]


def mobilenet_v1(image: fluid.Variable) -> fluid.Variable:
    """Logits of a network of depthwise separable convolutions."""
    out = _mobile_conv(image, 32, 3, 2, "conv1")
    for name, filters, stride in _SEPARABLE:
        channels = out.shape[1]
        out = _mobile_conv(out, channels, 3, stride, f"{name}_dw", groups=channels)
        out = _mobile_conv(out, filters, 1, 1, f"{name}_sep")
    out = L.pool2d(input=out, pool_type="avg", global_pooling=True)
    weight = _named("fc7_weights", initializer=fluid.initializer.MSRA())
    return L.fc(input=out, size=CLASSES, param_attr=weight, bias_attr=_named("fc7_offset"))


def vgg11(image: fluid.Variable) -> fluid.Variable:
    """Logits of VGG with 11 layers."""
    out = image
    for stage, (filters, count) in enumerate(
        ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)), start=1
    ):
        for position in range(1, count + 1):
            out = L.conv2d(
                input=out,
                num_filters=filters,
                filter_size=3,
                padding=1,
                act="relu",
                param_attr=_named(f"conv{stage}_{position}_weights"),
                bias_attr=False,
            )
        out = L.pool2d(input=out, pool_size=2, pool_type="max", pool_stride=2)
    for name in ("fc6", "fc7"):
        out = L.fc(out, 4096, act="relu", **_attributes(name))
        out = L.dropout(x=out, dropout_prob=0.5)
    return L.fc(out, CLASSES, **_attributes("fc8"))


def _attributes(name: str) -> dict[str, Any]:
    return {"param_attr": _named(f"{name}_weights"), "bias_attr": _named(f"{name}_offset")}
