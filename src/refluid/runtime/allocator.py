"""Memory that operators freed stays in the process, ready for the next step; how much, flags say.

On the CPU malloc keeps it (`kernels/malloc.py`), on a GPU PyTorch itself.
"""

from __future__ import annotations

import functools
import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from refluid.core import flags
from refluid.kernels import malloc

_MEGABYTE = 1 << 20
_BLOCK = 16 * _MEGABYTE
_GROWING, _RESERVING = "auto_growth", "naive_best_fit"
_limits: dict[torch.device, int] = {}


def prepare(device: torch.device) -> None:
    """Sets the allocator of a device up as the flags say, before the first executor runs there.

    ValueError where `FLAGS_allocator_strategy` is none of auto_growth and naive_best_fit.
    """
    strategy = flags.value("allocator_strategy")
    if strategy not in (_GROWING, _RESERVING):
        raise ValueError(
            f"FLAGS_allocator_strategy must be {_GROWING!r} or {_RESERVING!r}, not {strategy!r}"
        )
    keep_freed_blocks()
    if device.type == "cuda":
        _limit(device, int(flags.value("gpu_memory_limit_mb")))
    if strategy == _RESERVING:
        reserve(device)


@functools.cache
def keep_freed_blocks() -> bool:
    """Whether malloc keeps what is freed: asked for once, unless `FLAGS_use_system_allocator`."""
    return not flags.value("use_system_allocator") and malloc.keep_freed_blocks()


def first_run(device: torch.device) -> AbstractContextManager[None]:
    """For the first run of a plan: large blocks are apart from the heap, and from small ones.

    Kernels make small things in their first run that stay: oneDNN's primitives above all. In a heap
    they would come to lie between the tensors of that run, and divide the memory these leave
    behind forever into pieces that nothing fits into. This way the heap's large blocks begin with
    the second run, without anything between them; and the next plan's small things find free
    blocks of their own.
    """
    if device.type != "cpu" or not keep_freed_blocks():
        return nullcontext()
    malloc.make_room_for_small_things()
    return malloc.large_blocks_apart()


def make_room(size: int) -> None:
    """Has malloc's heap end in so many bytes for large blocks, where it keeps what is freed."""
    if keep_freed_blocks():
        malloc.make_room(size)


def _limit(device: torch.device, megabytes: int) -> None:
    """Allows that much memory of a GPU; 0 for all of it."""
    if _limits.get(device, 0) == megabytes:
        return
    _limits[device] = megabytes
    total = torch.cuda.get_device_properties(device).total_memory
    share = min(1.0, megabytes * _MEGABYTE / total) if megabytes else 1.0
    torch.cuda.set_per_process_memory_fraction(share, device)


@functools.cache
def reserve(device: torch.device) -> int:
    """Takes the first chunk of memory, once, for later steps; its bytes.

    Flags: on the CPU `initial_cpu_memory_in_mb`, at most `fraction_of_cpu_memory_to_use` of what
    the machine has; on a GPU `initial_gpu_memory_in_mb` or `fraction_of_gpu_memory_to_use`.
    """
    size = _first_chunk(device)
    if device.type == "cuda":
        torch.empty(size, dtype=torch.uint8, device=device)
        return size
    blocks = [torch.empty(_BLOCK, dtype=torch.uint8).zero_() for _ in range(size // _BLOCK)]
    return _BLOCK * len(blocks)


def _first_chunk(device: torch.device) -> int:
    if device.type == "cuda":
        wanted = int(flags.value("initial_gpu_memory_in_mb")) * _MEGABYTE
        share = float(flags.value("fraction_of_gpu_memory_to_use"))
        return wanted or int(share * torch.cuda.mem_get_info(device)[0])
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = float(flags.value("fraction_of_cpu_memory_to_use")) * physical
    return int(min(most, int(flags.value("initial_cpu_memory_in_mb")) * _MEGABYTE))


def release(device: torch.device) -> None:
    """Gives memory that nobody uses at the moment back to the system or the GPU."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    else:
        malloc.trim()


def end_step(device: torch.device) -> None:
    """After each run: `count_run`; `FLAGS_free_idle_chunk` has freed memory given back at once."""
    if flags.value("free_idle_chunk"):
        release(device)
    count_run()


def count_run() -> None:
    """After each run: memory that runs keep using comes into huge pages."""
    _settled.end_run()


class _Settled:
    """Counts the runs of this process: after `first` of them, and each time there have been twice
    as many, memory is what later runs will use, and comes into huge pages.

    That takes no more than `share` of the time since the first run, or since the last time; what is
    left then comes with the next.
    """

    def __init__(self, first: int = 10, share: float = 0.05) -> None:
        self._runs, self._next, self._share = 0, first, share
        self._since = 0.0
        self._pages: Any = None

    def end_run(self) -> None:
        self._runs += 1
        if self._runs == 1:
            self._since = time.perf_counter()
        if self._runs >= self._next:
            self._next = 2 * self._runs
            if flags.value("refluid_huge_pages"):
                self._collapse()
                self._since = time.perf_counter()

    def _collapse(self) -> None:
        if self._pages is None:
            from refluid.kernels.huge_pages import HugePages  # few runs need none

            self._pages = HugePages()
        self._pages.collapse(self._share * (time.perf_counter() - self._since))


_settled = _Settled()
