"""What is measured: the facts that both sides of a comparison share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Feed = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Workload:
    """One network and how it is trained; `steps` are those of one timed block.

    `batches` differing batches are fed in turn: enough that the network can't learn them by heart,
    for then gradients become denormal numbers, and processors are slow with those.

    `tolerance` bounds the relative difference between refluid's and PyTorch's losses in the first
    steps; `reason` says why it is what it is.
    """

    name: str
    title: str
    batch: int
    image: tuple[int, ...]
    classes: int
    optimizer: str
    learning_rate: float
    momentum: float
    batches: int
    steps: int
    warmup: int
    tolerance: float
    reason: str

    def feeds(self) -> list[Feed]:
        """The same random batches every time: image float32, label int64 [batch, 1]."""
        random = np.random.default_rng(7)
        return [
            {
                "image": random.standard_normal((self.batch, *self.image), np.float32),
                "label": random.integers(0, self.classes, (self.batch, 1)),
            }
            for _ in range(self.batches)
        ]


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="mlp",
            title="MLP 784-128-64-10, batch 64, Adam",
            batch=64,
            image=(784,),
            classes=10,
            optimizer="adam",
            learning_rate=0.001,
            momentum=0.0,
            batches=256,
            steps=200,
            warmup=50,
            tolerance=1e-4,
            reason="three matrix products: float32 rounding alone",
        ),
        Workload(
            name="conv",
            title="Convolutional net for digits, batch 64, Adam",
            batch=64,
            image=(1, 28, 28),
            classes=10,
            optimizer="adam",
            learning_rate=0.001,
            momentum=0.0,
            batches=64,
            steps=40,
            warmup=10,
            tolerance=1e-3,
            reason="convolutions sum in any order, and Adam divides rounding by small gradients",
        ),
        Workload(
            name="resnet50",
            title="ResNet-50, batch 8, 224 x 224, Momentum",
            batch=8,
            image=(3, 224, 224),
            classes=1000,
            optimizer="momentum",
            learning_rate=0.01,
            momentum=0.9,
            batches=4,
            steps=2,
            warmup=1,
            tolerance=1e-3,
            reason="53 batch norms over 8 images magnify the rounding of convolutions every step",
        ),
    )
}
