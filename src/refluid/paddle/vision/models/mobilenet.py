"""MobileNet, versions 1 and 2 (Howard, 2017; Sandler, 2018)."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, Dropout, ReLU6
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.norm import BatchNorm2D
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import flatten
from refluid.paddle.vision.models.blocks import ConvNormActivation, divisible
from refluid.paddle.vision.models.weights import refuse_pretrained

# Names of the blocks of version 1, channels before and after, stride.
_FIRST = {
    "conv2_1": (32, 64, 1),
    "conv2_2": (64, 128, 2),
    "conv3_1": (128, 128, 1),
    "conv3_2": (128, 256, 2),
    "conv4_1": (256, 256, 1),
    "conv4_2": (256, 512, 2),
    **{f"conv5_{number}": (512, 512, 1) for number in range(1, 6)},
    "conv5_6": (512, 1024, 2),
    "conv6": (1024, 1024, 1),
}
# Of version 2: how much wider blocks are inside, channels, how many blocks, stride of the first.
_SECOND = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class DepthwiseSeparable(Layer):
    """A filter for each channel, then a mixture of channels at each place."""

    def __init__(self, of: int, to: int, stride: int) -> None:
        super().__init__()
        self._depthwise_conv = ConvNormActivation(of, of, 3, stride, of)
        self._pointwise_conv = ConvNormActivation(of, to, 1)

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        found: Variable = self._pointwise_conv(self._depthwise_conv(x))
        return found


class MobileNetV1(Layer):
    """MobileNet of version 1. scale: of the numbers of channels."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        self.conv1 = ConvNormActivation(3, int(32 * scale), 3, 2)
        for name, (of, to, stride) in _FIRST.items():
            self.add_sublayer(name, DepthwiseSeparable(int(of * scale), int(to * scale), stride))
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = Linear(int(1024 * scale), num_classes)

    def forward(self, x: Variable) -> Variable:
        """(N, num_classes)."""
        x = self.conv1(x)
        for name in _FIRST:
            x = self._sub_layers[name](x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


class InvertedResidual(Layer):
    """Wider inside than at its ends, which are added where they are alike."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int) -> None:
        super().__init__()
        inside = round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        parts: list[Any] = []
        if expand_ratio != 1:
            parts.append(ConvNormActivation(inp, inside, 1, activation=ReLU6))
        parts += [
            ConvNormActivation(inside, inside, 3, stride, inside, ReLU6),
            Conv2D(inside, oup, 1, bias_attr=False),
            BatchNorm2D(oup),
        ]
        self.conv = Sequential(*parts)

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        made: Variable = self.conv(x)
        return x + made if self.use_res_connect else made


class MobileNetV2(Layer):
    """MobileNet of version 2. scale: of the numbers of channels."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        size, last = divisible(32 * scale), divisible(1280 * max(1.0, scale))
        parts: list[Any] = [ConvNormActivation(3, size, 3, 2, activation=ReLU6)]
        for ratio, channels, count, stride in _SECOND:
            to = divisible(channels * scale)
            for number in range(count):
                parts.append(InvertedResidual(size, to, stride if number == 0 else 1, ratio))
                size = to
        parts.append(ConvNormActivation(size, last, 1, activation=ReLU6))
        self.features = Sequential(*parts)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(Dropout(0.2), Linear(last, num_classes))

    def forward(self, x: Variable) -> Variable:
        """(N, num_classes)."""
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """MobileNet 1; there are no trained weights: RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "mobilenet_v1")
    return MobileNetV1(scale=scale, **kwargs)


def mobilenet_v2(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """MobileNet 2; there are no trained weights: RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "mobilenet_v2")
    return MobileNetV2(scale=scale, **kwargs)
