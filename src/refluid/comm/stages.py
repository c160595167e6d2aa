"""Exchanges in stages: while the messages of one are under way, another one does what it can.

An exchange is a generator that begins messages, and yields what must have come before its next
stage. In a stage every member waits only for what the others begin in the same stage or before. So
members that take the stages of the same exchanges in the same order never wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from refluid.comm.link import UnderWay

Stages = Generator[UnderWay, None, Any]
# A chunk is summed while the one before is on its way: elements, at most and at least.
_CHUNK, _LEAST = 1 << 20, 1 << 16
_CHUNKS = 4


def in_flight(exchanges: Iterable[Stages], most: int) -> Stages:
    """The stages of several, of which so many go on beside each other; all have as many stages."""
    going: deque[tuple[Stages, UnderWay]] = deque()
    try:
        for one in exchanges:
            going.append((one, next(one)))
            while len(going) >= most:
                yield from _one_on(going)
        while going:
            yield from _one_on(going)
    finally:
        for one, _ in going:
            one.close()
        going.clear()  # an error keeps this frame, and so the connections


def _one_on(going: deque[tuple[Stages, UnderWay]]) -> Stages:
    """The one that began its stage first takes the next one."""
    one, begun = going[0]
    yield begun
    going.popleft()
    following = next(one, None)
    if following is not None:
        going.append((one, following))


def finish(stages: Stages) -> Any:
    """Takes all stages that are left; gives what the exchange returns."""
    try:
        begun = next(stages)
        while True:
            begun.wait()
            begun = next(stages)
    except StopIteration as ended:
        return ended.value
    finally:
        stages.close()


def chunks(whole: Tensor) -> Iterator[Tensor]:
    """A flat tensor in parts that are exchanged one after the other."""
    size = min(max(-(-whole.numel() // _CHUNKS), _LEAST), _CHUNK)
    yield from torch.split(whole, size)
