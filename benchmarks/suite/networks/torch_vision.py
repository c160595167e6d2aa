"""Image networks in PyTorch."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from benchmarks.suite.networks.fluid_vision import (
    MOBILENET_BLOCKS,
    RESNET50_STAGES,
    VGG16_STAGES,
)
from benchmarks.suite.networks.torch_modules import Batch


class Classifier(nn.Module):
    """`logits` of an image; the loss is their cross entropy."""

    def logits(self, image: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, feed: Batch) -> Tensor:
        return functional.cross_entropy(self.logits(feed["image"]), feed["label"].squeeze(1))


class Mlp(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def logits(self, image: Tensor) -> Tensor:
        hidden = functional.relu(self.fc1(image))
        hidden = functional.relu(self.fc2(hidden))
        found: Tensor = self.fc3(hidden)
        return found


class Conv(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc = nn.Linear(800, 10)

    def logits(self, image: Tensor) -> Tensor:
        hidden = functional.max_pool2d(functional.relu(self.conv1(image)), 2)
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        found: Tensor = self.fc(hidden.flatten(1))
        return found


class ConvNorm(nn.Module):
    """Convolution without bias, then batch norm; padded so that stride 1 keeps the size."""

    def __init__(
        self, channels: int, filters: int, size: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        padding = (size - 1) // 2
        self.conv = nn.Conv2d(channels, filters, size, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, image: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.conv(image))
        return normed


class Bottleneck(nn.Module):
    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.reduce = ConvNorm(channels, filters, 1)
        self.spatial = ConvNorm(filters, filters, 3, stride)
        self.expand = ConvNorm(filters, filters * 4, 1)
        same = stride == 1 and channels == filters * 4
        self.short = nn.Identity() if same else ConvNorm(channels, filters * 4, 1, stride)

    def forward(self, image: Tensor) -> Tensor:
        hidden = functional.relu(self.reduce(image), inplace=True)
        hidden = functional.relu(self.spatial(hidden), inplace=True)
        return functional.relu(self.expand(hidden) + self.short(image), inplace=True)


class ResNet50(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 64, 7, 2)
        blocks: list[nn.Module] = []
        channels = 64
        for stage, (filters, count) in enumerate(RESNET50_STAGES):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Bottleneck(channels, filters, stride))
                channels = filters * 4
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, 1000)

    def logits(self, image: Tensor) -> Tensor:
        hidden = functional.relu(self.stem(image), inplace=True)
        hidden = functional.max_pool2d(hidden, 3, 2, 1)
        found: Tensor = self.fc(self.blocks(hidden).mean((2, 3)))
        return found


class MobileNet(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 32, 3, 2)
        blocks = []
        channels = 32
        for filters, stride in MOBILENET_BLOCKS:
            depthwise = ConvNorm(channels, channels, 3, stride, channels)
            pointwise = ConvNorm(channels, filters, 1)
            act = nn.ReLU(inplace=True)
            blocks.append(nn.ModuleDict({"0": depthwise, "1": pointwise, "act": act}))
            channels = filters
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(channels, 1000)

    def logits(self, image: Tensor) -> Tensor:
        hidden = functional.relu(self.stem(image), inplace=True)
        for block in self.blocks:
            assert isinstance(block, nn.ModuleDict)
            hidden = block["act"](block["1"](block["act"](block["0"](hidden))))
        found: Tensor = self.fc(hidden.mean((2, 3)))
        return found


class Vgg16(Classifier):
    def __init__(self) -> None:
        super().__init__()
        convs = []
        channels = 3
        for filters, count in VGG16_STAGES:
            for _ in range(count):
                convs.append(nn.Conv2d(channels, filters, 3, padding=1))
                channels = filters
        self.convs = nn.ModuleList(convs)
        self.fc1 = nn.Linear(25088, 4096)
        self.fc2 = nn.Linear(4096, 4096)
        self.fc3 = nn.Linear(4096, 1000)

    def logits(self, image: Tensor) -> Tensor:
        convs = iter(self.convs)
        for _, count in VGG16_STAGES:
            for _ in range(count):
                image = functional.relu(next(convs)(image), inplace=True)
            image = functional.max_pool2d(image, 2)
        hidden = functional.relu(self.fc1(image.flatten(1)), inplace=True)
        found: Tensor = self.fc3(functional.relu(self.fc2(hidden), inplace=True))
        return found
