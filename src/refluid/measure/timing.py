"""Time rivals fairly: in one process, in turns, so that a noisy moment hits them all."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Feed = dict[str, npt.NDArray[np.generic]]
TrainStep = Callable[[Feed], float]
F = TypeVar("F")


@dataclass(frozen=True)
class Times:
    """Seconds of each step, by block."""

    blocks: tuple[tuple[float, ...], ...]

    @property
    def median(self) -> float:
        return statistics.median(second for block in self.blocks for second in block)

    @property
    def block_medians(self) -> list[float]:
        return [statistics.median(block) for block in self.blocks]


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one side is as another, with the range over the blocks."""

    value: float
    low: float
    high: float


def ratio(ours: Times, theirs: Times) -> Ratio:
    """Their median step over ours; the range pairs the blocks that ran one after the other."""
    pairs = [b / a for a, b in zip(ours.block_medians, theirs.block_medians, strict=True)]
    return Ratio(theirs.median / ours.median, min(pairs), max(pairs))


def first_losses(step: Callable[[F], float], feeds: Sequence[F], count: int = 3) -> list[float]:
    return [step(feed) for feed in islice(cycle(feeds), count)]


def alternate(
    rivals: Mapping[str, Callable[[F], float]],
    feeds: Sequence[F],
    *,
    blocks: int,
    steps: int,
    warmup: int,
    before: Callable[[str], None] = lambda _: None,
    tick: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Times]:
    """Step times of all rivals: `warmup` steps each, then `blocks` rounds of `steps` steps each.

    A step ends when its loss is a Python number, so work queued on a device is included. The order
    of the rivals turns by one every round. `before` is called with a rival's name before it runs,
    `tick` after every block. clock: what is measured, by default the time that passes.
    """
    for name, step in rivals.items():
        before(name)
        first_losses(step, feeds, warmup)
    names = list(rivals)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for turn in range(blocks):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            before(name)
            with no_collection():
                found[name].append(_block(rivals[name], feeds, steps, clock))
            tick()
    return {name: Times(tuple(times)) for name, times in found.items()}


def _block(
    step: Callable[[F], float], feeds: Sequence[F], steps: int, clock: Callable[[], float]
) -> tuple[float, ...]:
    times = []
    step(feeds[-1])  # brings this rival's weights back into the caches
    for feed in islice(cycle(feeds), steps):
        begin = clock()
        step(feed)
        times.append(clock() - begin)
    return tuple(times)


@contextmanager
def no_collection() -> Iterator[None]:
    """Garbage of earlier blocks is collected now, and none is during this one."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
