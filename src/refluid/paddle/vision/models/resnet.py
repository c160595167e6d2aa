"""ResNet (He et al., 2015), ResNeXt (Xie et al., 2016) and wide ResNet."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import AdaptiveAvgPool2D, MaxPool2D, ReLU
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.norm import BatchNorm2D
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor import manipulation, math
from refluid.paddle.vision.models.weights import refuse_pretrained

__all__ = [
    "ResNet",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext50_64x4d",
    "resnext101_32x4d",
    "resnext101_64x4d",
    "resnext152_32x4d",
    "resnext152_64x4d",
    "wide_resnet50_2",
    "wide_resnet101_2",
]

_BLOCKS = {
    18: [2, 2, 2, 2],
    34: [3, 4, 6, 3],
    50: [3, 4, 6, 3],
    101: [3, 4, 23, 3],
    152: [3, 8, 36, 3],
}


class BasicBlock(Layer):
    """Two 3x3 convolutions and a way around them."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = BatchNorm2D if norm_layer is None else norm_layer
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = Conv2D(inplanes, planes, 3, padding=1, stride=stride, bias_attr=False)
        self.bn1 = norm(planes)
        self.relu = ReLU()
        self.conv2 = Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Variable) -> Variable:
        """The block's result."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        around = x if self.downsample is None else self.downsample(x)
        made: Variable = self.relu(math.add(out, around))
        return made


class BottleneckBlock(Layer):
    """1x1, 3x3 and 1x1 convolutions, the middle one narrow, and a way around them."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = BatchNorm2D if norm_layer is None else norm_layer
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm(width)
        self.conv2 = Conv2D(
            width,
            width,
            3,
            padding=dilation,
            stride=stride,
            groups=groups,
            dilation=dilation,
            bias_attr=False,
        )
        self.bn2 = norm(width)
        self.conv3 = Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = norm(planes * self.expansion)
        self.relu = ReLU()
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Variable) -> Variable:
        """The block's result."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        around = x if self.downsample is None else self.downsample(x)
        made: Variable = self.relu(math.add(out, around))
        return made


class ResNet(Layer):
    """A residual network of (N, 3, H, W).

    block: BasicBlock or BottleneckBlock. depth: 18, 34, 50, 101 or 152. width: of the narrow
    convolutions, for each of `groups`. num_classes: 0 for features. with_pool: the mean over
    pixels.
    """

    def __init__(
        self,
        block: Any,
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        counts = _BLOCKS[depth]
        self.groups, self.base_width = groups, width
        self.num_classes, self.with_pool = num_classes, with_pool
        self._planes = 64
        self.conv1 = Conv2D(3, 64, kernel_size=7, stride=2, padding=3, bias_attr=False)
        self.bn1 = BatchNorm2D(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2D(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._stage(block, 64, counts[0], 1)
        self.layer2 = self._stage(block, 128, counts[1], 2)
        self.layer3 = self._stage(block, 256, counts[2], 2)
        self.layer4 = self._stage(block, 512, counts[3], 2)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = Linear(512 * block.expansion, num_classes)

    def _stage(self, block: Any, planes: int, count: int, stride: int) -> Sequential:
        wide = planes * block.expansion
        around = None
        if stride != 1 or self._planes != wide:
            around = Sequential(
                Conv2D(self._planes, wide, 1, stride=stride, bias_attr=False), BatchNorm2D(wide)
            )
        sizes = {"groups": self.groups, "base_width": self.base_width}
        layers = [block(self._planes, planes, stride, around, **sizes)]
        self._planes = wide
        layers += [block(wide, planes, **sizes) for _ in range(count - 1)]
        return Sequential(*layers)

    def forward(self, x: Variable) -> Variable:
        """Logits (N, num_classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.fc(manipulation.flatten(x, 1))
        return x


def _made(name: str, block: Any, depth: int, pretrained: bool, settings: Any) -> ResNet:
    refuse_pretrained(pretrained, name)
    return ResNet(block, depth, **settings)


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 18 layers."""
    return _made("resnet18", BasicBlock, 18, pretrained, kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 34 layers."""
    return _made("resnet34", BasicBlock, 34, pretrained, kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers."""
    return _made("resnet50", BottleneckBlock, 50, pretrained, kwargs)


def resnet101(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers."""
    return _made("resnet101", BottleneckBlock, 101, pretrained, kwargs)


def resnet152(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 152 layers."""
    return _made("resnet152", BottleneckBlock, 152, pretrained, kwargs)


def resnext50_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers, 32 groups of width 4."""
    settings = {**kwargs, "groups": 32, "width": 4}
    return _made("resnext50_32x4d", BottleneckBlock, 50, pretrained, settings)


def resnext50_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers, 64 groups of width 4."""
    settings = {**kwargs, "groups": 64, "width": 4}
    return _made("resnext50_64x4d", BottleneckBlock, 50, pretrained, settings)


def resnext101_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 101 layers, 32 groups of width 4."""
    settings = {**kwargs, "groups": 32, "width": 4}
    return _made("resnext101_32x4d", BottleneckBlock, 101, pretrained, settings)


def resnext101_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 101 layers, 64 groups of width 4."""
    settings = {**kwargs, "groups": 64, "width": 4}
    return _made("resnext101_64x4d", BottleneckBlock, 101, pretrained, settings)


def resnext152_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 152 layers, 32 groups of width 4."""
    settings = {**kwargs, "groups": 32, "width": 4}
    return _made("resnext152_32x4d", BottleneckBlock, 152, pretrained, settings)


def resnext152_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 152 layers, 64 groups of width 4."""
    settings = {**kwargs, "groups": 64, "width": 4}
    return _made("resnext152_64x4d", BottleneckBlock, 152, pretrained, settings)


def wide_resnet50_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers, twice as wide inside."""
    return _made("wide_resnet50_2", BottleneckBlock, 50, pretrained, {**kwargs, "width": 128})


def wide_resnet101_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers, twice as wide inside."""
    return _made("wide_resnet101_2", BottleneckBlock, 101, pretrained, {**kwargs, "width": 128})
