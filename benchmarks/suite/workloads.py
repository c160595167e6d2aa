"""What is trained: sizes, data and optimizer of every workload, shared by all rivals.

Peers import this in environments of their own: NumPy is all it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.suite import data
from refluid.measure.timing import Feed


@dataclass(frozen=True)
class Optimizer:
    """`clip` bounds the global norm of the gradients; 0 leaves them as they are."""

    kind: str
    rate: float
    momentum: float = 0.9
    clip: float = 0.0


ADAM = Optimizer("adam", 1e-3)
SLOW_ADAM = Optimizer("adam", 1e-4)
MOMENTUM = Optimizer("momentum", 0.01)
# At ten times this rate a few steps magnify rounding to percents.
CAREFUL = Optimizer("momentum", 0.001)
ROUNDING = "float32 rounding alone"
ADAM_ROUNDING = "Adam divides rounding by small gradients"
NORMS = "batch norms over few images magnify the rounding of convolutions every step"


@dataclass(frozen=True)
class Workload:
    """One network and how it is trained.

    `batches` differing batches are fed in turn: enough that the network can't learn them by heart,
    for then gradients become denormal numbers, and processors are slow with those. `tolerance`
    bounds the relative difference of losses in the first steps; `reason` says why it is what it is.
    Peers of another formula (sparse Adam from paddle 3 on) are allowed ten times as much.
    """

    name: str
    title: str
    batch: int
    feed: Callable[[np.random.Generator], Feed]
    optimizer: Optimizer
    batches: int
    tolerance: float
    reason: str
    quick: bool = False
    other_formula: tuple[str, ...] = ()
    wide_images: bool = False

    def feeds(self) -> list[Feed]:
        """The same random batches every time."""
        random = np.random.default_rng(7)
        return [self.feed(random) for _ in range(self.batches)]

    def first(self) -> Feed:
        """The first of `feeds`."""
        return self.feed(np.random.default_rng(7))


def _image(name: str, title: str, batch: int, size: int, tolerance: float, reason: str) -> Workload:
    return Workload(
        name,
        f"{title}, batch {batch}, {size} x {size}, Momentum",
        batch,
        data.images(batch, (3, size, size), 1000),
        CAREFUL,
        4,
        tolerance,
        reason,
        wide_images=True,
    )


ALL = (
    Workload(
        "mlp",
        "MLP 784-128-64-10, batch 64, Adam",
        64,
        data.images(64, (784,), 10),
        ADAM,
        256,
        1e-4,
        ROUNDING,
        quick=True,
    ),
    Workload(
        "conv",
        "Convolutional net for digits, batch 64, Adam",
        64,
        data.images(64, (1, 28, 28), 10),
        ADAM,
        64,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
    ),
    _image("resnet50", "ResNet-50", 8, 224, 1e-3, NORMS),
    _image("mobilenet", "MobileNet", 8, 224, 1e-3, NORMS),
    _image("vgg16", "VGG-16", 4, 224, 1e-3, "sums over 25088 inputs"),
    Workload(
        "lstm",
        "LSTM language model, 2 x 650, 35 words, batch 20, SGD",
        20,
        data.language(20, 35, 10000),
        Optimizer("sgd", 1.0, clip=5.0),
        16,
        1e-4,
        ROUNDING,
        quick=True,
    ),
    Workload(
        "lstm_lod",
        "LSTM language model with LoD, 256, 10 to 30 words, batch 32, Adam",
        32,
        data.lod_language(32, 10, 30, 10000),
        ADAM,
        16,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
    ),
    Workload(
        "tagger",
        "GRU-CRF tagger with LoD, 2 x 128, 10 to 40 words, batch 32, Adam",
        32,
        data.tagging(32, 10, 40, 20000, 57),
        ADAM,
        16,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
    ),
    Workload(
        "transformer",
        "Transformer, 3 + 3 layers of 256, 32 positions, batch 16, Adam",
        16,
        data.translation(16, 32, 8000),
        SLOW_ADAM,
        16,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
    ),
    Workload(
        "bert",
        "BERT base, 12 layers of 768, 64 positions, batch 4, Adam",
        4,
        data.masked(4, 64, 10, 30522),
        SLOW_ADAM,
        8,
        1e-3,
        ADAM_ROUNDING,
    ),
    Workload(
        "seq2seq",
        "seq2seq with attention, LSTM of 256, 20 words, batch 32, Adam",
        32,
        data.translation(32, 20, 10000),
        ADAM,
        16,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
    ),
    Workload(
        "ctr",
        "CTR-DNN, 26 slots of 10, 3 x 400, batch 1000, sparse Adam",
        1000,
        data.clicks(1000, 13, 26, 100_001),
        ADAM,
        64,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
        other_formula=("paddle3",),
    ),
    Workload(
        "deepfm",
        "DeepFM, 39 fields of 10, 128-64-32, batch 512, sparse Adam",
        512,
        data.fields(512, 39, 100_001),
        ADAM,
        64,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
        other_formula=("paddle3",),
    ),
    Workload(
        "ncf",
        "NCF (NeuMF), 6040 users, 3706 items, batch 256, sparse Adam",
        256,
        data.ratings(256, 6040, 3706),
        ADAM,
        64,
        1e-3,
        ADAM_ROUNDING,
        quick=True,
        other_formula=("paddle3",),
    ),
    Workload(
        "word2vec",
        "word2vec, skip-gram, 5 negatives, 50000 words of 128, batch 256, SGD",
        256,
        data.skipgrams(256, 6, 50_000),
        Optimizer("sgd", 0.5),
        64,
        1e-4,
        ROUNDING,
        quick=True,
    ),
)
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in ALL}
