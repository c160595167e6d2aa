"""Inception, version 3 (Szegedy, 2016)."""

from __future__ import annotations

from typing import Any, ClassVar

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import LayerList
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, AvgPool2D, Dropout, MaxPool2D
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import concat, reshape
from refluid.paddle.vision.models.blocks import ConvNormActivation
from refluid.paddle.vision.models.weights import refuse_pretrained

# A convolution: channels before (0: those given to the part) and after, size, padding, stride.
Step = tuple[int, int, Any, Any, int]


def _step(of: int, to: int, size: Any = 1, padding: Any = 0, stride: int = 1) -> Step:
    return of, to, size, padding, stride


def _wide(of: int, to: int, size: int) -> Step:
    return _step(of, to, (1, size), (0, size // 2))


def _high(of: int, to: int, size: int) -> Step:
    return _step(of, to, (size, 1), (size // 2, 0))


class _Ways(Layer):
    """Convolutions one after the other along several ways; their results side by side.

    ways: names of the convolutions of each; a list at the end is of those that share what came
    before. The last way is the pooled one.
    """

    ways: ClassVar[tuple[tuple[Any, ...], ...]]

    def __init__(self, of: int, steps: dict[str, Step], pool: Layer, pooled: int = 0) -> None:
        super().__init__()
        for name, (before, to, size, padding, stride) in steps.items():
            made = ConvNormActivation(before or of, to, size, stride, padding=padding)
            self.add_sublayer(name, made)
        self.branch_pool = pool
        if pooled:
            self.branch_pool_conv = ConvNormActivation(of, pooled, 1, padding=0)

    def forward(self, x: Variable) -> Variable:
        """(N, C, H, W)."""
        found: list[Variable] = []
        for way in self.ways:
            made = x
            for step in way:
                if isinstance(step, list):
                    found.append(concat([self._sub_layers[name](made) for name in step], 1))
                else:
                    made = self._sub_layers[step](made)
            if not isinstance(way[-1], list):
                found.append(made)
        pooled = self.branch_pool(x)
        own = self._sub_layers.get("branch_pool_conv")
        return concat([*found, pooled if own is None else own(pooled)], 1)


def _average() -> Layer:
    made: Layer = AvgPool2D(3, 1, 1, exclusive=False)
    return made


class InceptionA(_Ways):
    """Filters of one, five, and twice three."""

    ways = (
        ("branch1x1",),
        ("branch5x5_1", "branch5x5_2"),
        ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"),
    )

    def __init__(self, num_channels: int, pool_features: int) -> None:
        steps = {
            "branch1x1": _step(0, 64),
            "branch5x5_1": _step(0, 48),
            "branch5x5_2": _step(48, 64, 5, 2),
            "branch3x3dbl_1": _step(0, 64),
            "branch3x3dbl_2": _step(64, 96, 3, 1),
            "branch3x3dbl_3": _step(96, 96, 3, 1),
        }
        super().__init__(num_channels, steps, _average(), pool_features)


class InceptionB(_Ways):
    """Half the size, by filters of three and of twice three."""

    ways = (("branch3x3",), ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"))

    def __init__(self, num_channels: int) -> None:
        steps = {
            "branch3x3": _step(0, 384, 3, 0, 2),
            "branch3x3dbl_1": _step(0, 64),
            "branch3x3dbl_2": _step(64, 96, 3, 1),
            "branch3x3dbl_3": _step(96, 96, 3, 0, 2),
        }
        super().__init__(num_channels, steps, MaxPool2D(3, 2))


class InceptionC(_Ways):
    """Filters of seven, a row and a column at a time."""

    ways = (
        ("branch1x1",),
        ("branch7x7_1", "branch7x7_2", "branch7x7_3"),
        tuple(f"branch7x7dbl_{number}" for number in range(1, 6)),
    )

    def __init__(self, num_channels: int, channels_7x7: int) -> None:
        own = channels_7x7
        steps = {
            "branch1x1": _step(0, 192),
            "branch7x7_1": _step(0, own),
            "branch7x7_2": _wide(own, own, 7),
            "branch7x7_3": _high(own, 192, 7),
            "branch7x7dbl_1": _step(0, own),
            "branch7x7dbl_2": _high(own, own, 7),
            "branch7x7dbl_3": _wide(own, own, 7),
            "branch7x7dbl_4": _high(own, own, 7),
            "branch7x7dbl_5": _wide(own, 192, 7),
        }
        super().__init__(num_channels, steps, _average(), 192)


class InceptionD(_Ways):
    """Half the size, by filters of three and of seven."""

    ways = (
        ("branch3x3_1", "branch3x3_2"),
        tuple(f"branch7x7x3_{number}" for number in range(1, 5)),
    )

    def __init__(self, num_channels: int) -> None:
        steps = {
            "branch3x3_1": _step(0, 192),
            "branch3x3_2": _step(192, 320, 3, 0, 2),
            "branch7x7x3_1": _step(0, 192),
            "branch7x7x3_2": _wide(192, 192, 7),
            "branch7x7x3_3": _high(192, 192, 7),
            "branch7x7x3_4": _step(192, 192, 3, 0, 2),
        }
        super().__init__(num_channels, steps, MaxPool2D(3, 2))


class InceptionE(_Ways):
    """Filters of three by rows and columns, beside each other."""

    ways = (
        ("branch1x1",),
        ("branch3x3_1", ["branch3x3_2a", "branch3x3_2b"]),
        ("branch3x3dbl_1", "branch3x3dbl_2", ["branch3x3dbl_3a", "branch3x3dbl_3b"]),
    )

    def __init__(self, num_channels: int) -> None:
        steps = {
            "branch1x1": _step(0, 320),
            "branch3x3_1": _step(0, 384),
            "branch3x3_2a": _wide(384, 384, 3),
            "branch3x3_2b": _high(384, 384, 3),
            "branch3x3dbl_1": _step(0, 448),
            "branch3x3dbl_2": _step(448, 384, 3, 1),
            "branch3x3dbl_3a": _wide(384, 384, 3),
            "branch3x3dbl_3b": _high(384, 384, 3),
        }
        super().__init__(num_channels, steps, _average(), 192)


class InceptionStem(Layer):
    """What all parts come after."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1a_3x3 = ConvNormActivation(3, 32, 3, 2, padding=0)
        self.conv_2a_3x3 = ConvNormActivation(32, 32, 3, padding=0)
        self.conv_2b_3x3 = ConvNormActivation(32, 64, 3, padding=1)
        self.max_pool = MaxPool2D(3, 2)
        self.conv_3b_1x1 = ConvNormActivation(64, 80, 1, padding=0)
        self.conv_4a_3x3 = ConvNormActivation(80, 192, 3, padding=0)

    def forward(self, x: Variable) -> Variable:
        """(N, 192, H, W)."""
        x = self.max_pool(self.conv_2b_3x3(self.conv_2a_3x3(self.conv_1a_3x3(x))))
        found: Variable = self.max_pool(self.conv_4a_3x3(self.conv_3b_1x1(x)))
        return found


class InceptionV3(Layer):
    """Inception of version 3."""

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self.inception_stem = InceptionStem()
        self.inception_block_list = LayerList(
            [
                *(InceptionA(of, pool) for of, pool in ((192, 32), (256, 64), (288, 64))),
                InceptionB(288),
                *(InceptionC(768, own) for own in (128, 160, 160, 192)),
                InceptionD(768),
                InceptionE(1280),
                InceptionE(2048),
            ]
        )
        if with_pool:
            self.avg_pool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.dropout = Dropout(0.2, mode="downscale_in_infer")
            self.fc = Linear(2048, num_classes)

    def forward(self, x: Variable) -> Variable:
        """(N, num_classes)."""
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        if self.with_pool:
            x = self.avg_pool(x)
        if self.num_classes > 0:
            x = self.fc(self.dropout(reshape(x, [-1, 2048])))
        return x


def inception_v3(pretrained: bool = False, **kwargs: Any) -> InceptionV3:
    """Inception 3; RuntimeError for `pretrained`."""
    refuse_pretrained(pretrained, "inception_v3")
    return InceptionV3(**kwargs)
