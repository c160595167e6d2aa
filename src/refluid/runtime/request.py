"""What a plan is made for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from refluid.comm import ALONE, Communicator
from refluid.ir.block import Block
from refluid.runtime.kernels import TORCHS_CHOICE, KernelSettings
from refluid.runtime.memory import EAGER, Memory


@dataclass(frozen=True)
class Instruments:
    """What a plan is watched for.

    time: events go to the log. meter: memory and arithmetic of one step. check: outputs must be
    finite, `fast`: as seen at the end of the step. wait: for the device, after each operator.
    junk: what operators allocate is filled with it.
    """

    time: bool = False
    meter: bool = False
    check: bool = False
    fast: bool = False
    wait: bool = False
    junk: bool = False

    def __bool__(self) -> bool:
        return self != UNWATCHED


UNWATCHED = Instruments()


@dataclass(frozen=True)
class Request:
    """A block, what it is fed and what is fetched, and how it is to be run.

    lends: fetched values are only looked at, so they may be what others hold. overlaps: exchanges
    go on while later operators run, until their results are needed. counts: loops whose rounds are
    known before the first one count in Python. sums_rows: gradients that loops add up wait for the
    rows of all rounds.
    """

    block: Block
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    device: torch.device
    fed_lods: frozenset[str] = frozenset()
    memory: Memory = EAGER
    comm: Communicator = ALONE
    threads: int = 1
    instruments: Instruments = UNWATCHED
    kernels: KernelSettings = TORCHS_CHOICE
    updates_last: bool = True
    compiles: bool = False
    lends: bool = False
    overlaps: bool = False
    counts: bool = True
    sums_rows: bool = True
