"""Batches from worker processes: time that they cost the consumer, and how many come."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from refluid import fluid
from refluid.feed.workers import Stream

BATCH = (64, 3, 224, 224)
_PAUSE = 0.015


class Batches(IterableDataset[torch.Tensor]):
    """For torch's loader: the same batch again and again, in new memory."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        batch = torch.from_numpy(_batch())
        while True:
            yield batch.clone()


def _batch() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 255, BATCH, np.uint8)


def _batches() -> Iterator[Any]:
    batch = _batch()
    while True:
        yield batch


def consumer_seconds(take: Callable[[], Any], count: int) -> float:
    """Median time to get a batch that is ready: the worker has time between two calls."""
    times = []
    for _ in range(count):
        time.sleep(_PAUSE)
        start = time.perf_counter()
        take()
        times.append(time.perf_counter() - start)
    return statistics.median(times[count // 4 :])


def transport(count: int) -> tuple[float, float]:
    """Consumer time per uint8 batch of 64x3x224x224: refluid, torch's DataLoader."""
    stream = Stream("benchmark", [_batches], 2, rotate=True, lend=6).items()
    ours = consumer_seconds(lambda: torch.from_numpy(next(stream)), count)
    stream.close()  # type: ignore[attr-defined]
    loader = iter(DataLoader(Batches(), batch_size=None, num_workers=1))
    theirs = consumer_seconds(lambda: next(loader), count)
    return ours, theirs


class Crops(Dataset[Any]):
    """Image pipeline without files: random crop and flip of a stored image, bytes in and out."""

    def __init__(self, count: int) -> None:
        self._image = np.random.default_rng(1).integers(0, 255, (256, 256, 3), np.uint8)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        top, left = np.random.randint(0, 32, 2)
        crop = self._image[top : top + 224, left : left + 224]
        if index % 2:
            crop = crop[:, ::-1]
        return np.ascontiguousarray(crop.transpose(2, 0, 1)), np.array([index % 10])


def _samples_per_second(batches: Any, samples: int) -> float:
    start = time.perf_counter()
    for _ in batches:
        pass
    return samples / (time.perf_counter() - start)


def throughput(workers: int, samples: int, rounds: int) -> list[tuple[float, float]]:
    """Samples per second of each round: refluid's DataLoader, torch's; the same dataset."""
    crops = Crops(samples)
    with fluid.program_guard(fluid.Program()):
        feeds = [
            fluid.data("image", [None, *BATCH[1:]], "uint8"),
            fluid.data("label", [None, 1], "int64"),
        ]
    place, size = fluid.CPUPlace(), BATCH[0]
    ours = fluid.io.DataLoader(crops, feeds, place, batch_size=size, num_workers=workers)
    theirs: Any = DataLoader(crops, batch_size=size, num_workers=workers)
    return [
        (_samples_per_second(ours, samples), _samples_per_second(theirs, samples))
        for _ in range(rounds)
    ]
