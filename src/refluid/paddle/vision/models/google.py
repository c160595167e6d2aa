"""GoogLeNet (Szegedy, 2015)."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.activation import relu
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, AvgPool2D, Dropout, MaxPool2D
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import concat, flatten
from refluid.paddle.vision.models.weights import refuse_pretrained

# Of each part: channels given; of the four ways, for the second and third before and after.
_PARTS = {
    "_ince3a": (192, 64, 96, 128, 16, 32, 32),
    "_ince3b": (256, 128, 128, 192, 32, 96, 64),
    "_ince4a": (480, 192, 96, 208, 16, 48, 64),
    "_ince4b": (512, 160, 112, 224, 24, 64, 64),
    "_ince4c": (512, 128, 128, 256, 24, 64, 64),
    "_ince4d": (512, 112, 144, 288, 32, 64, 64),
    "_ince4e": (528, 256, 160, 320, 32, 128, 128),
    "_ince5a": (832, 256, 160, 320, 32, 128, 128),
    "_ince5b": (832, 384, 192, 384, 48, 128, 128),
}
# After which parts images are made smaller, and after which the two other results are taken.
_POOLED = ("_ince3b", "_ince4e")
_LOOKED_AT = {"_ince4a": "o1", "_ince4d": "o2"}


class ConvLayer(Layer):
    """A convolution without bias that keeps sizes but for its stride."""

    def __init__(self, of: int, to: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self._conv = Conv2D(of, to, size, stride, (size - 1) // 2, bias_attr=False)

    def forward(self, inputs: Variable) -> Variable:
        """(N, C, H, W)."""
        found: Variable = self._conv(inputs)
        return found


class Inception(Layer):
    """Filters of one, three and five, and of the greatest around, side by side."""

    def __init__(
        self, of: int, one: int, to3: int, three: int, to5: int, five: int, pool: int
    ) -> None:
        super().__init__()
        self._conv1 = ConvLayer(of, one, 1)
        self._conv3r, self._conv3 = ConvLayer(of, to3, 1), ConvLayer(to3, three, 3)
        self._conv5r, self._conv5 = ConvLayer(of, to5, 1), ConvLayer(to5, five, 5)
        self._pool = MaxPool2D(3, 1, 1)
        self._convprj = ConvLayer(of, pool, 1)

    def forward(self, inputs: Variable) -> Variable:
        """(N, C, H, W)."""
        ways = [
            self._conv1(inputs),
            self._conv3(self._conv3r(inputs)),
            self._conv5(self._conv5r(inputs)),
            self._convprj(self._pool(inputs)),
        ]
        return relu(concat(ways, 1))


class GoogLeNet(Layer):
    """GoogLeNet, with the results of two places before the last besides its own."""

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self._conv = ConvLayer(3, 64, 7, 2)
        self._pool = MaxPool2D(3, 2)
        self._conv_1, self._conv_2 = ConvLayer(64, 64, 1), ConvLayer(64, 192, 3)
        for name, sizes in _PARTS.items():
            setattr(self, name, Inception(*sizes))
        if with_pool:
            self._pool_5 = AdaptiveAvgPool2D(1)
            self._pool_o1, self._pool_o2 = AvgPool2D(5, 3), AvgPool2D(5, 3)
        if num_classes > 0:
            self._drop = Dropout(0.4, mode="downscale_in_infer")
            self._fc_out = Linear(1024, num_classes)
            for place, channels in (("o1", 512), ("o2", 528)):
                setattr(self, f"_conv_{place}", ConvLayer(channels, 128, 1))
                setattr(self, f"_fc_{place}", Linear(1152, 1024))
                setattr(self, f"_drop_{place}", Dropout(0.7, mode="downscale_in_infer"))
                setattr(self, f"_out{place[1]}", Linear(1024, num_classes))

    def forward(self, inputs: Variable) -> Any:
        """[(N, num_classes), the same after the fourth part, and after the seventh]."""
        x = self._pool(self._conv(inputs))
        x = self._pool(self._conv_2(self._conv_1(x)))
        others: dict[str, Variable] = {}
        for name in _PARTS:
            x = getattr(self, name)(x)
            if name in _LOOKED_AT:
                others[_LOOKED_AT[name]] = x
            if name in _POOLED:
                x = self._pool(x)
        if self.with_pool:
            x = self._pool_5(x)
            others = {place: getattr(self, f"_pool_{place}")(one) for place, one in others.items()}
        if self.num_classes > 0:
            x = self._fc_out(flatten(self._drop(x), 1))
            others = {place: self._guess(place, one) for place, one in others.items()}
        return [x, *others.values()]

    def _guess(self, place: str, x: Variable) -> Variable:
        x = getattr(self, f"_fc_{place}")(flatten(getattr(self, f"_conv_{place}")(x), 1))
        if place == "o1":  # as in Paddle, whose second place has no activation
            x = relu(x)
        found: Variable = getattr(self, f"_out{place[1]}")(getattr(self, f"_drop_{place}")(x))
        return found


def googlenet(pretrained: bool = False, **kwargs: Any) -> GoogLeNet:
    """GoogLeNet; RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "googlenet")
    return GoogLeNet(**kwargs)
