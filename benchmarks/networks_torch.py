"""The networks in eager PyTorch, trained as people who want speed train them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.workloads import Feed, Workload

Weights = Mapping[str, npt.NDArray[np.float32]]

RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        hidden = functional.relu(self.fc1(image))
        hidden = functional.relu(self.fc2(hidden))
        logits: Tensor = self.fc3(hidden)
        return logits


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc = nn.Linear(800, 10)

    def forward(self, image: Tensor) -> Tensor:
        hidden = functional.max_pool2d(functional.relu(self.conv1(image)), 2)
        hidden = functional.max_pool2d(functional.relu(self.conv2(hidden)), 2)
        logits: Tensor = self.fc(hidden.flatten(1))
        return logits


class ConvNorm(nn.Module):
    """Convolution without bias, then batch norm; padded so that stride 1 keeps the size."""

    def __init__(self, channels: int, filters: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size, stride, (size - 1) // 2, bias=False)
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


class ResNet50(nn.Module):
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

    def forward(self, image: Tensor) -> Tensor:
        hidden = functional.relu(self.stem(image), inplace=True)
        hidden = functional.max_pool2d(hidden, 3, 2, 1)
        hidden = self.blocks(hidden).mean((2, 3))
        logits: Tensor = self.fc(hidden)
        return logits


NETWORKS: Mapping[str, type[nn.Module]] = {"mlp": Mlp, "conv": Conv, "resnet50": ResNet50}

OPTIMIZERS: Mapping[str, Callable[[nn.Module, Workload], torch.optim.Optimizer]] = {
    "adam": lambda module, work: torch.optim.Adam(
        module.parameters(), lr=work.learning_rate, fused=True
    ),
    "momentum": lambda module, work: torch.optim.SGD(
        module.parameters(), lr=work.learning_rate, momentum=work.momentum, fused=True
    ),
}


class TorchStep:
    """Calling it with a feed trains one step and returns the loss.

    `weights` (by state_dict name; those of fully connected layers lie as in Fluid, [in, out])
    replace the initial ones. ValueError where they don't match the network.
    """

    def __init__(
        self,
        work: Workload,
        device: str,
        *,
        weights: Weights | None = None,
        channels_last: bool = False,
    ) -> None:
        self.device = torch.device(device)
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        module = NETWORKS[work.name]()
        if weights is not None:
            _copy_weights(weights, module)
        self.module = module.to(self.device)
        self.module.to(memory_format=self.format)  # type: ignore[call-overload]
        self.optimizer = OPTIMIZERS[work.optimizer](self.module, work)

    def __call__(self, feed: Feed) -> float:
        image = torch.from_numpy(feed["image"]).to(self.device, non_blocking=True)
        if self.format is torch.channels_last:
            image = image.contiguous(memory_format=self.format)
        label = torch.from_numpy(feed["label"]).to(self.device, non_blocking=True).squeeze(1)
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.module(image), label)
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.item()


def _copy_weights(weights: Weights, module: nn.Module) -> None:
    state = {
        name: tensor
        for name, tensor in module.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    if set(weights) != set(state):
        odd = sorted(set(weights) ^ set(state))
        raise ValueError(f"weights and network differ in {odd[:5]} ({len(odd)} names)")
    for name, tensor in state.items():
        value = torch.from_numpy(weights[name])
        if tensor.dim() == 2:
            value = value.T
        if value.shape != tensor.shape:
            raise ValueError(f"{name} is {tuple(value.shape)}, expected {tuple(tensor.shape)}")
        tensor.copy_(value)
