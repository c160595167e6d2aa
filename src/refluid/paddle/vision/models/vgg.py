"""VGG (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, Dropout, MaxPool2D, ReLU
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.norm import BatchNorm2D
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import flatten
from refluid.paddle.vision.models.weights import refuse_pretrained

__all__ = ["VGG", "vgg11", "vgg13", "vgg16", "vgg19"]

# How many convolutions of 64, 128, 256, 512 and 512 channels.
_CONVOLUTIONS = {
    "vgg11": [1, 1, 2, 2, 2],
    "vgg13": [2, 2, 2, 2, 2],
    "vgg16": [2, 2, 3, 3, 3],
    "vgg19": [2, 2, 4, 4, 4],
}
_WIDTHS = [64, 128, 256, 512, 512]


class VGG(Layer):
    """A network of 3x3 convolutions: `features`, and three linear maps unless num_classes is 0."""

    def __init__(self, features: Any, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.features = features
        self.num_classes, self.with_pool = num_classes, with_pool
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(512 * 7 * 7, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, num_classes),
            )

    def forward(self, x: Variable) -> Variable:
        """Logits (N, num_classes)."""
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(flatten(x, 1))
        return x


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> Sequential:
    """Convolutions of these widths, each with its activation, and poolings where it says `M`."""
    layers: list[Any] = []
    channels = 3
    for width in cfg:
        if isinstance(width, str):
            layers.append(MaxPool2D(2, 2))
            continue
        layers.append(Conv2D(channels, width, 3, padding=1))
        layers += [BatchNorm2D(width), ReLU()] if batch_norm else [ReLU()]
        channels = width
    return Sequential(*layers)


def _widths(name: str) -> list[int | str]:
    found: list[int | str] = []
    for width, count in zip(_WIDTHS, _CONVOLUTIONS[name], strict=True):
        found += [*[width] * count, "M"]
    return found


def _made(name: str, pretrained: bool, batch_norm: bool, settings: Any) -> VGG:
    refuse_pretrained(pretrained, name)
    return VGG(make_layers(_widths(name), batch_norm), **settings)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 11 layers."""
    return _made("vgg11", pretrained, batch_norm, kwargs)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 13 layers."""
    return _made("vgg13", pretrained, batch_norm, kwargs)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 16 layers."""
    return _made("vgg16", pretrained, batch_norm, kwargs)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 19 layers."""
    return _made("vgg19", pretrained, batch_norm, kwargs)
