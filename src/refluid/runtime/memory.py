"""`Memory`: when a plan frees what nobody needs any more, and what it does to need less."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

import torch

from refluid.core import flags
from refluid.kernels.holders import Storage, storage_of

_GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Memory:
    """Part of what a plan is made for.

    in_place: operators may write over an input that nobody needs any more. optimize: memory is
    passed on from dead values to later ones, and updates done in small groups. garbage: bytes of
    dead values that wait to be freed together; 0: each is freed at once, infinite: at the end of
    the step. share: of the dead values only the largest, with this part of all bytes, are freed
    before the end. wait: for the GPU before anything is freed.
    """

    in_place: bool = True
    optimize: bool = False
    garbage: float = 0.0
    share: float = 1.0
    wait: bool = False

    @property
    def frees(self) -> bool:
        """Whether anything is freed before the step ends."""
        return math.isfinite(self.garbage) and self.share > 0

    @property
    def collects(self) -> bool:
        """Whether dead values wait for others, or for the GPU."""
        return self.frees and (self.garbage > 0 or self.wait)


EAGER = Memory()


def memory_as_set(
    device: torch.device, *, in_place: bool = True, optimize: bool | None = False
) -> Memory:
    """What flags and the options of a strategy say; `optimize` None: where nothing is freed."""
    threshold = float(flags.value("eager_delete_tensor_gb"))
    garbage = math.inf if threshold < 0 else threshold * _GIGABYTE
    share = min(1.0, max(0.0, float(flags.value("memory_fraction_of_eager_deletion"))))
    wait = device.type == "cuda" and not flags.value("fast_eager_deletion_mode")
    optimize = math.isinf(garbage) if optimize is None else optimize
    return Memory(in_place, optimize, garbage, share, wait)


class Garbage:
    """The dead values of one step. When they reach `limit` bytes, all of them are freed."""

    def __init__(self, limit: float, device: torch.device | None = None) -> None:
        self._limit, self._device = limit, device
        self._held: dict[int, tuple[Storage, Any]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, *values: Any) -> None:
        """Takes values that the plan drops; memory that several of them share counts once."""
        with self._lock:
            for value in values:
                storage = storage_of(value)
                if storage is not None and storage.key not in self._held:
                    self._held[storage.key] = storage, value
                    self._bytes += value.untyped_storage().nbytes()
            if self._bytes >= self._limit:
                self._free()

    def _free(self) -> None:
        if self._device is not None:
            torch.cuda.synchronize(self._device)
        self._held.clear()
        self._bytes = 0
