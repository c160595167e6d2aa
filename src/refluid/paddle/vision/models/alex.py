"""AlexNet (Krizhevsky, 2012)."""

from __future__ import annotations

import math
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.framework.attributes import ParamAttr
from refluid.paddle.nn.functional.activation import relu
from refluid.paddle.nn.initializer import Uniform
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import Dropout, MaxPool2D, ReLU
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import flatten
from refluid.paddle.vision.models.weights import refuse_pretrained


def _drawn(limit: float) -> dict[str, Any]:
    return {
        name: ParamAttr(initializer=Uniform(-limit, limit)) for name in ("weight_attr", "bias_attr")
    }


def _convolution(of: int, to: int, size: int, stride: int, padding: int) -> Any:
    limit = 1.0 / math.sqrt(of * size * size)
    return Conv2D(of, to, size, stride, padding, **_drawn(limit))


class ConvPoolLayer(Layer):
    """A convolution, its positive part, and the largest of each window of 3 x 3."""

    def __init__(self, of: int, to: int, size: int, stride: int, padding: int) -> None:
        super().__init__()
        self.relu = ReLU()
        self._conv = _convolution(of, to, size, stride, padding)
        self._pool = MaxPool2D(3, 2, 0)

    def forward(self, inputs: Variable) -> Variable:
        """(N, C, H, W)."""
        found: Variable = self._pool(self.relu(self._conv(inputs)))
        return found


class AlexNet(Layer):
    """AlexNet of images (N, 3, 224, 224). num_classes: 0 for what is before the linear layers."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = ConvPoolLayer(3, 64, 11, 4, 2)
        self._conv2 = ConvPoolLayer(64, 192, 5, 1, 2)
        self._conv3 = _convolution(192, 384, 3, 1, 1)
        self._conv4 = _convolution(384, 256, 3, 1, 1)
        self._conv5 = ConvPoolLayer(256, 256, 3, 1, 1)
        if num_classes > 0:
            limit = 1.0 / math.sqrt(256 * 6 * 6)
            self._drop1 = Dropout(0.5, mode="downscale_in_infer")
            self._fc6 = Linear(256 * 6 * 6, 4096, **_drawn(limit))
            self._drop2 = Dropout(0.5, mode="downscale_in_infer")
            self._fc7 = Linear(4096, 4096, **_drawn(limit))
            self._fc8 = Linear(4096, num_classes, **_drawn(limit))

    def forward(self, inputs: Variable) -> Any:
        """(N, num_classes)."""
        x = self._conv2(self._conv1(inputs))
        x = relu(self._conv4(relu(self._conv3(x))))
        x = self._conv5(x)
        if self.num_classes > 0:
            x = relu(self._fc6(self._drop1(flatten(x, 1))))
            x = self._fc8(relu(self._fc7(self._drop2(x))))
        return x


def alexnet(pretrained: bool = False, **kwargs: Any) -> AlexNet:
    """AlexNet; there are no trained weights: RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "alexnet")
    return AlexNet(**kwargs)
