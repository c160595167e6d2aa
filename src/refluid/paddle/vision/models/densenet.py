"""DenseNet (Huang, 2017): each layer sees the results of all before it in its block."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, AvgPool2D, Dropout, MaxPool2D
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.norm import BatchNorm
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import concat, flatten
from refluid.paddle.vision.models.weights import refuse_pretrained

# Channels at first, how many each layer adds, and layers of each block.
_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
    264: (64, 32, (6, 12, 64, 48)),
}


class BNACConvLayer(Layer):
    """A batch norm with its positive part, then a convolution."""

    def __init__(self, of: int, to: int, size: int) -> None:
        super().__init__()
        self._batch_norm = BatchNorm(of, act="relu")
        self._conv = Conv2D(of, to, size, padding=size // 2, bias_attr=False)

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        found: Variable = self._conv(self._batch_norm(x))
        return found


class DenseLayer(Layer):
    """`growth` channels of those given, behind them."""

    def __init__(self, of: int, growth: int, wider: int, dropout: float) -> None:
        super().__init__()
        self.bn_ac_func1 = BNACConvLayer(of, wider * growth, 1)
        self.bn_ac_func2 = BNACConvLayer(wider * growth, growth, 3)
        self.dropout_func = Dropout(dropout, mode="downscale_in_infer") if dropout else None

    def forward(self, x: Variable) -> Variable:
        """(N, C + growth, H, W)."""
        made = self.bn_ac_func2(self.bn_ac_func1(x))
        return concat([x, made if self.dropout_func is None else self.dropout_func(made)], 1)


class TransitionLayer(Layer):
    """Half the channels, at half the size."""

    def __init__(self, of: int) -> None:
        super().__init__()
        self.conv_ac_func = BNACConvLayer(of, of // 2, 1)
        self.pool2d_avg = AvgPool2D(2, 2, 0)

    def forward(self, x: Variable) -> Variable:
        """(N, C / 2, H / 2, W / 2)."""
        found: Variable = self.pool2d_avg(self.conv_ac_func(x))
        return found


class ConvBNLayer(Layer):
    """A convolution, and a batch norm with its positive part."""

    def __init__(self, of: int, to: int, size: int, stride: int) -> None:
        super().__init__()
        self._conv = Conv2D(of, to, size, stride, size // 2, bias_attr=False)
        self._batch_norm = BatchNorm(to, act="relu")

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        found: Variable = self._batch_norm(self._conv(x))
        return found


class DenseNet(Layer):
    """DenseNet of 121, 161, 169, 201 or 264 layers; AssertionError for others.

    bn_size: how much wider layers are inside.
    """

    def __init__(
        self,
        layers: int = 121,
        bn_size: int = 4,
        dropout: float = 0.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        assert layers in _SIZES, f"supported layers are {[*_SIZES]} but input layer is {layers}"
        self.num_classes, self.with_pool = num_classes, with_pool
        channels, growth, counts = _SIZES[layers]
        self.conv1_func = ConvBNLayer(3, channels, 7, 2)
        self.pool2d_max = MaxPool2D(3, 2, 1)
        self._order: list[str] = []
        for number, count in enumerate(counts, 2):
            parts = []
            for place in range(1, count + 1):
                layer = DenseLayer(channels, growth, bn_size, dropout)
                parts.append((f"conv{number}_{place}", layer))
                channels += growth
            self._add(f"db_conv_{number}", Sequential(*parts))
            if number <= len(counts):
                self._add(f"tr_conv{number}_blk", TransitionLayer(channels))
                channels //= 2
        self.batch_norm = BatchNorm(channels, act="relu")
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.out = Linear(channels, num_classes)

    def _add(self, name: str, layer: Layer) -> None:
        self.add_sublayer(name, layer)
        self._order.append(name)

    def forward(self, x: Variable) -> Variable:
        """(N, num_classes)."""
        x = self.pool2d_max(self.conv1_func(x))
        for name in self._order:
            x = self._sub_layers[name](x)
        x = self.batch_norm(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.out(flatten(x, 1)) if self.num_classes > 0 else x


def _densenet(layers: int, pretrained: bool, settings: dict[str, Any]) -> DenseNet:
    refuse_pretrained(pretrained, f"densenet{layers}")
    return DenseNet(layers, **settings)


def densenet121(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 121 layers; RuntimeError for `pretrained`."""
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 161 layers; RuntimeError for `pretrained`."""
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 169 layers; RuntimeError for `pretrained`."""
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 201 layers; RuntimeError for `pretrained`."""
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 264 layers; RuntimeError for `pretrained`."""
    return _densenet(264, pretrained, kwargs)
