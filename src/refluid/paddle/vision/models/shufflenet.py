"""ShuffleNet, version 2 (Ma, 2018)."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.vision import channel_shuffle
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, MaxPool2D, ReLU, Swish
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import concat, flatten, split
from refluid.paddle.vision.models.blocks import ConvNormActivation
from refluid.paddle.vision.models.weights import refuse_pretrained

# By scale: channels of the three stages, and of the last convolution.
_CHANNELS = {
    0.25: (24, 48, 96, 512),
    0.33: (32, 64, 128, 512),
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (224, 488, 976, 2048),
}
_REPEATS = (4, 8, 4)
_ACTIVATIONS = {"relu": ReLU, "swish": Swish, None: None}


class ShuffledResidual(Layer):
    """Half the channels as they are, half convolved; then mixed."""

    def __init__(self, channels: int, act: Any) -> None:
        super().__init__()
        half = channels // 2
        self._conv_pw = ConvNormActivation(half, half, 1, activation=act)
        self._conv_dw = ConvNormActivation(half, half, 3, 1, half, None)
        self._conv_linear = ConvNormActivation(half, half, 1, activation=act)

    def forward(self, inputs: Variable) -> Variable:
        """(N, C, H, W)."""
        first, second = split(inputs, 2, 1)
        second = self._conv_linear(self._conv_dw(self._conv_pw(second)))
        return channel_shuffle(concat([first, second], 1), 2)


class InvertedResidualDS(Layer):
    """Two ways to half the size, their channels mixed."""

    def __init__(self, of: int, to: int, act: Any) -> None:
        super().__init__()
        half = to // 2
        self._conv_dw_1 = ConvNormActivation(of, of, 3, 2, of, None)
        self._conv_linear_1 = ConvNormActivation(of, half, 1, activation=act)
        self._conv_pw_2 = ConvNormActivation(of, half, 1, activation=act)
        self._conv_dw_2 = ConvNormActivation(half, half, 3, 2, half, None)
        self._conv_linear_2 = ConvNormActivation(half, half, 1, activation=act)

    def forward(self, inputs: Variable) -> Variable:
        """(N, C, H / 2, W / 2)."""
        first = self._conv_linear_1(self._conv_dw_1(inputs))
        second = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(inputs)))
        return channel_shuffle(concat([first, second], 1), 2)


class ShuffleNetV2(Layer):
    """ShuffleNet of version 2; NotImplementedError for other scales than 0.25, 0.33, .. 2.

    act: `relu` or `swish`; RuntimeError for others.
    """

    def __init__(
        self,
        scale: float = 1.0,
        act: str = "relu",
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        if scale not in _CHANNELS:
            raise NotImplementedError(f"This scale size:[{scale}] is not implemented!")
        if act not in _ACTIVATIONS:
            raise RuntimeError(f"The activation function is not supported: {act}.")
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        kind = _ACTIVATIONS[act]
        *stages, last = _CHANNELS[scale]
        self._conv1 = ConvNormActivation(3, 24, 3, 2, activation=kind)
        self._max_pool = MaxPool2D(3, 2, 1)
        self._order: list[str] = []
        before = 24
        for number, (channels, repeats) in enumerate(zip(stages, _REPEATS, strict=True), 2):
            for place in range(1, repeats + 1):
                block: Layer = (
                    InvertedResidualDS(before, channels, kind)
                    if place == 1
                    else ShuffledResidual(channels, kind)
                )
                self._order.append(f"{number}_{place}")
                self.add_sublayer(self._order[-1], block)
            before = channels
        self._last_conv = ConvNormActivation(before, last, 1, activation=kind)
        if with_pool:
            self._pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = Linear(last, num_classes)

    def forward(self, inputs: Variable) -> Variable:
        """(N, num_classes)."""
        x: Variable = self._max_pool(self._conv1(inputs))
        for name in self._order:
            x = self._sub_layers[name](x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        if self.num_classes > 0:
            x = self._fc(flatten(x, 1))
        return x


def _shufflenet(name: str, scale: float, pretrained: bool, settings: Any) -> ShuffleNetV2:
    refuse_pretrained(pretrained, f"shufflenet_v2_{name}")
    return ShuffleNetV2(scale, **settings)


def shufflenet_v2_x0_25(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 of a quarter of the channels; RuntimeError for `pretrained`."""
    return _shufflenet("x0_25", 0.25, pretrained, kwargs)


def shufflenet_v2_x0_33(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 of a third of the channels; RuntimeError for `pretrained`."""
    return _shufflenet("x0_33", 0.33, pretrained, kwargs)


def shufflenet_v2_x0_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 of half the channels; RuntimeError for `pretrained`."""
    return _shufflenet("x0_5", 0.5, pretrained, kwargs)


def shufflenet_v2_x1_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 of all channels; RuntimeError for `pretrained`."""
    return _shufflenet("x1_0", 1.0, pretrained, kwargs)


def shufflenet_v2_x1_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 of half as many channels again; RuntimeError for `pretrained`."""
    return _shufflenet("x1_5", 1.5, pretrained, kwargs)


def shufflenet_v2_x2_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 of twice the channels; RuntimeError for `pretrained`."""
    return _shufflenet("x2_0", 2.0, pretrained, kwargs)


def shufflenet_v2_swish(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNet 2 with swish; RuntimeError for `pretrained`."""
    return _shufflenet("swish", 1.0, pretrained, {"act": "swish", **kwargs})
