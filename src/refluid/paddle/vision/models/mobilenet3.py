"""MobileNet, version 3 (Howard, 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import (
    AdaptiveAvgPool2D,
    Dropout,
    Hardsigmoid,
    Hardswish,
    ReLU,
)
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.norm import BatchNorm2D
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import flatten
from refluid.paddle.vision.models.blocks import ConvNormActivation, divisible
from refluid.paddle.vision.models.weights import refuse_pretrained

# Of each block: size of its filters, channels before, inside and after, whether channels are
# weighed, whether its activation is hardswish, and its stride.
Block = tuple[int, int, int, int, bool, bool, int]
_SMALL: tuple[Block, ...] = (
    (3, 16, 16, 16, True, False, 2),
    (3, 16, 72, 24, False, False, 2),
    (3, 24, 88, 24, False, False, 1),
    (5, 24, 96, 40, True, True, 2),
    (5, 40, 240, 40, True, True, 1),
    (5, 40, 240, 40, True, True, 1),
    (5, 40, 120, 48, True, True, 1),
    (5, 48, 144, 48, True, True, 1),
    (5, 48, 288, 96, True, True, 2),
    (5, 96, 576, 96, True, True, 1),
    (5, 96, 576, 96, True, True, 1),
)
_LARGE: tuple[Block, ...] = (
    (3, 16, 16, 16, False, False, 1),
    (3, 16, 64, 24, False, False, 2),
    (3, 24, 72, 24, False, False, 1),
    (5, 24, 72, 40, True, False, 2),
    (5, 40, 120, 40, True, False, 1),
    (5, 40, 120, 40, True, False, 1),
    (3, 40, 240, 80, False, True, 2),
    (3, 80, 200, 80, False, True, 1),
    (3, 80, 184, 80, False, True, 1),
    (3, 80, 184, 80, False, True, 1),
    (3, 80, 480, 112, True, True, 1),
    (3, 112, 672, 112, True, True, 1),
    (5, 112, 672, 160, True, True, 2),
    (5, 160, 960, 160, True, True, 1),
    (5, 160, 960, 160, True, True, 1),
)
_NORM = partial(BatchNorm2D, momentum=0.99, epsilon=0.001)


class SqueezeExcitation(Layer):
    """Channels weighed by what all of them are on average."""

    def __init__(self, channels: int, between: int) -> None:
        super().__init__()
        self.avgpool = AdaptiveAvgPool2D(1)
        self.fc1, self.fc2 = Conv2D(channels, between, 1), Conv2D(between, channels, 1)
        self.activation, self.scale_activation = ReLU(), Hardsigmoid()

    def forward(self, input: Variable) -> Variable:
        """(N, C, H, W)."""
        weights = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        found: Variable = weights * input
        return found


class WeighedResidual(Layer):
    """Wider inside than at its ends, which are added where they are alike."""

    def __init__(self, of: int, inside: int, to: int, settings: Sequence[Any]) -> None:
        super().__init__()
        size, weighs, swish, stride = settings
        act = Hardswish if swish else ReLU
        self.use_res_connect = stride == 1 and of == to
        self.expand = of != inside
        if self.expand:
            self.expand_conv = ConvNormActivation(of, inside, 1, activation=act, norm=_NORM)
        self.bottleneck_conv = ConvNormActivation(
            inside, inside, size, stride, inside, act, norm=_NORM
        )
        self.use_se = weighs
        if weighs:
            self.mid_se = SqueezeExcitation(inside, divisible(inside // 4))
        self.linear_conv = ConvNormActivation(inside, to, 1, activation=None, norm=_NORM)

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        made = self.bottleneck_conv(self.expand_conv(x) if self.expand else x)
        made = self.linear_conv(self.mid_se(made) if self.use_se else made)
        found: Variable = x + made if self.use_res_connect else made
        return found


class MobileNetV3(Layer):
    """MobileNet of version 3 of these blocks. scale: of the numbers of channels."""

    def __init__(
        self,
        config: Sequence[Block],
        last_channel: int,
        scale: float = 1.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool

        def scaled(channels: int) -> int:
            return divisible(channels * scale)

        first, last = scaled(config[0][1]), scaled(config[-1][3])
        inside = 6 * last
        self.conv = ConvNormActivation(3, first, 3, 2, activation=Hardswish, norm=_NORM)
        self.blocks = Sequential(
            *(
                WeighedResidual(scaled(of), scaled(within), scaled(to), (size, *how))
                for size, of, within, to, *how in config
            )
        )
        self.lastconv = ConvNormActivation(last, inside, 1, activation=Hardswish, norm=_NORM)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(inside, last_channel),
                Hardswish(),
                Dropout(0.2),
                Linear(last_channel, num_classes),
            )

    def forward(self, x: Variable) -> Variable:
        """(N, num_classes)."""
        x = self.lastconv(self.blocks(self.conv(x)))
        if self.with_pool:
            x = self.avgpool(x)
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


class MobileNetV3Small(MobileNetV3):
    """The small one, of 11 blocks."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__(_SMALL, divisible(1024 * scale), scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    """The large one, of 15 blocks."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__(_LARGE, divisible(1280 * scale), scale, num_classes, with_pool)


def mobilenet_v3_small(
    pretrained: bool = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV3Small:
    """The small MobileNet 3; RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "mobilenet_v3_small")
    return MobileNetV3Small(scale=scale, **kwargs)


def mobilenet_v3_large(
    pretrained: bool = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV3Large:
    """The large MobileNet 3; RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "mobilenet_v3_large")
    return MobileNetV3Large(scale=scale, **kwargs)
