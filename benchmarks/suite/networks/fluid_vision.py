"""Image networks as Fluid programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.suite.networks.fluid_layers import class_loss, linear, named

RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
MOBILENET_BLOCKS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
VGG16_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def mlp(fluid: Any, feed: Mapping[str, Any]) -> Any:
    hidden = linear(fluid, feed["image"], "fc1", 128, "relu")
    hidden = linear(fluid, hidden, "fc2", 64, "relu")
    return _probability_loss(fluid, linear(fluid, hidden, "fc3", 10, "softmax"), feed["label"])


def conv(fluid: Any, feed: Mapping[str, Any]) -> Any:
    hidden = feed["image"]
    for name, filters in (("conv1", 20), ("conv2", 50)):
        hidden = fluid.layers.conv2d(hidden, filters, 5, act="relu", **named(fluid, name))
        hidden = fluid.layers.pool2d(hidden, pool_size=2, pool_type="max", pool_stride=2)
    return _probability_loss(fluid, linear(fluid, hidden, "fc", 10, "softmax"), feed["label"])


def _probability_loss(fluid: Any, probability: Any, label: Any) -> Any:
    return fluid.layers.mean(fluid.layers.cross_entropy(input=probability, label=label))


def _conv_norm(
    fluid: Any,
    image: Any,
    name: str,
    filters: int,
    size: int,
    stride: int = 1,
    act: str | None = None,
    groups: int = 1,
) -> Any:
    hidden = fluid.layers.conv2d(
        image,
        filters,
        size,
        stride=stride,
        padding=(size - 1) // 2,
        groups=groups,
        param_attr=fluid.ParamAttr(name=f"{name}.conv.weight"),
        bias_attr=False,
    )
    return fluid.layers.batch_norm(
        hidden,
        act=act,
        moving_mean_name=f"{name}.norm.running_mean",
        moving_variance_name=f"{name}.norm.running_var",
        **named(fluid, f"{name}.norm"),
    )


def _bottleneck(fluid: Any, image: Any, name: str, filters: int, stride: int) -> Any:
    hidden = _conv_norm(fluid, image, f"{name}.reduce", filters, 1, act="relu")
    hidden = _conv_norm(fluid, hidden, f"{name}.spatial", filters, 3, stride, act="relu")
    hidden = _conv_norm(fluid, hidden, f"{name}.expand", filters * 4, 1)
    if stride != 1 or image.shape[1] != filters * 4:
        image = _conv_norm(fluid, image, f"{name}.short", filters * 4, 1, stride)
    return fluid.layers.elementwise_add(hidden, image, act="relu")


def _classified(fluid: Any, image: Any, label: Any) -> Any:
    pooled = fluid.layers.pool2d(image, pool_type="avg", global_pooling=True)
    return class_loss(fluid, linear(fluid, pooled, "fc", 1000), label)


def resnet50(fluid: Any, feed: Mapping[str, Any]) -> Any:
    hidden = _conv_norm(fluid, feed["image"], "stem", 64, 7, 2, act="relu")
    hidden = fluid.layers.pool2d(
        hidden, pool_size=3, pool_type="max", pool_stride=2, pool_padding=1
    )
    block = 0
    for stage, (filters, count) in enumerate(RESNET50_STAGES):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            hidden = _bottleneck(fluid, hidden, f"blocks.{block}", filters, stride)
            block += 1
    return _classified(fluid, hidden, feed["label"])


def mobilenet(fluid: Any, feed: Mapping[str, Any]) -> Any:
    hidden = _conv_norm(fluid, feed["image"], "stem", 32, 3, 2, "relu")
    channels = 32
    for block, (filters, stride) in enumerate(MOBILENET_BLOCKS):
        name = f"blocks.{block}"
        hidden = _conv_norm(fluid, hidden, f"{name}.0", channels, 3, stride, "relu", channels)
        hidden = _conv_norm(fluid, hidden, f"{name}.1", filters, 1, 1, "relu")
        channels = filters
    return _classified(fluid, hidden, feed["label"])


def vgg16(fluid: Any, feed: Mapping[str, Any]) -> Any:
    hidden = feed["image"]
    layer = 0
    for filters, count in VGG16_STAGES:
        for _ in range(count):
            attrs = named(fluid, f"convs.{layer}")
            hidden = fluid.layers.conv2d(hidden, filters, 3, padding=1, act="relu", **attrs)
            layer += 1
        hidden = fluid.layers.pool2d(hidden, pool_size=2, pool_type="max", pool_stride=2)
    hidden = linear(fluid, hidden, "fc1", 4096, "relu")
    hidden = linear(fluid, hidden, "fc2", 4096, "relu")
    return class_loss(fluid, linear(fluid, hidden, "fc3", 1000), feed["label"])
