"""SqueezeNet (Iandola, 2016)."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.activation import relu
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, Dropout, MaxPool2D
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.tensor.manipulation import concat, squeeze
from refluid.paddle.vision.models.weights import refuse_pretrained

# Of each fire: channels of its input, of what it squeezes to, and of each of its two ways.
_FIRES = {
    "1.0": ((96, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)),
    "1.1": ((64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)),
}
_LATER = ((256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256))
# After which fires images are made smaller.
_POOLED = {"1.0": (3, 7), "1.1": (2, 4)}


class MakeFireConv(Layer):
    """A convolution, and its positive part."""

    def __init__(self, of: int, to: int, size: int, padding: int = 0) -> None:
        super().__init__()
        self._conv = Conv2D(of, to, size, padding=padding)

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        return relu(self._conv(x))


class MakeFire(Layer):
    """Few channels, of which one by one and three by three filters make many, side by side."""

    def __init__(self, of: int, between: int, to: int) -> None:
        super().__init__()
        self._conv = MakeFireConv(of, between, 1)
        self._conv_path1 = MakeFireConv(between, to, 1)
        self._conv_path2 = MakeFireConv(between, to, 3, 1)

    def forward(self, inputs: Variable) -> Variable:
        """(N, 2 C, H, W)."""
        x = self._conv(inputs)
        return concat([self._conv_path1(x), self._conv_path2(x)], 1)


class SqueezeNet(Layer):
    """SqueezeNet `1.0` or `1.1`; AssertionError for others."""

    def __init__(self, version: str, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        assert version in _FIRES, (
            f"supported versions are {[*_FIRES]} but input version is {version}"
        )
        self.version, self.num_classes, self.with_pool = version, num_classes, with_pool
        if version == "1.0":
            self._conv = Conv2D(3, 96, 7, 2)
        else:
            self._conv = Conv2D(3, 64, 3, 2, 1)
        self._pool = MaxPool2D(3, 2, 0)
        for number, sizes in enumerate((*_FIRES[version], *_LATER), 1):
            setattr(self, f"_conv{number}", MakeFire(*sizes))
        if num_classes > 0:
            self._drop = Dropout(0.5, mode="downscale_in_infer")
            self._conv9 = Conv2D(512, num_classes, 1)
        if with_pool:
            self._avg_pool = AdaptiveAvgPool2D(1)

    def forward(self, inputs: Variable) -> Any:
        """(N, num_classes)."""
        x = self._pool(relu(self._conv(inputs)))
        for number in range(1, 9):
            x = getattr(self, f"_conv{number}")(x)
            if number in _POOLED[self.version]:
                x = self._pool(x)
        if self.num_classes > 0:
            x = relu(self._conv9(self._drop(x)))
        if self.with_pool:
            x = squeeze(self._avg_pool(x), [2, 3])
        return x


def squeezenet1_0(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.0; there are no trained weights: RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "squeezenet1_0")
    return SqueezeNet("1.0", **kwargs)


def squeezenet1_1(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.1; there are no trained weights: RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "squeezenet1_1")
    return SqueezeNet("1.1", **kwargs)
