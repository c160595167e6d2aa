"""Memory that operators freed stays in the process, ready for the next step; how much, flags say.

PyTorch's CPU tensors come from the C library's malloc. glibc asks the kernel for every block above
a threshold and returns large free memory at the end of its heap, so that a training step faults
the same pages in again, step after step: on ResNet-50 a fifth of the step. On a GPU PyTorch keeps
freed blocks itself.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from refluid.core import flags

_MEGABYTE = 1 << 20
# Parameters of glibc's mallopt, and the greatest values it takes.
_TRIM_THRESHOLD, _MOST_TRIMMED = -1, 2**31 - 1
_MMAP_THRESHOLD, MAPPED = -3, 32 * _MEGABYTE
# The heap grows by so much more than was asked for, so that blocks above the threshold fit into
# its end. (With 512 MiB ResNet-50 would take 13% more memory: blocks then share one heap.)
_TOP_PAD, AHEAD = -2, 128 * _MEGABYTE
_BLOCK, _BLOCKS = 16 * _MEGABYTE, 1024
_GROWING, _RESERVING = "auto_growth", "naive_best_fit"
_room = 0


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
    """Has malloc keep freed blocks of up to 128 MiB; True if this C library does so.

    Happens once per process, unless `FLAGS_use_system_allocator` is set.
    """
    if flags.value("use_system_allocator") or not _is_glibc():
        return False
    settings = (_MMAP_THRESHOLD, MAPPED), (_TRIM_THRESHOLD, _MOST_TRIMMED), (_TOP_PAD, AHEAD)
    return all(_set(parameter, value) for parameter, value in settings)


@contextmanager
def first_run(device: torch.device) -> Iterator[None]:
    """For the first run of a plan: blocks of a megabyte and more are mapped one by one.

    Kernels make small things in their first run that stay: oneDNN's primitives above all. In a heap
    they would come to lie between the tensors of that run, and divide the memory these leave
    behind forever into pieces that nothing fits into. This way the heap's large blocks begin with
    the second run, without anything between them.
    """
    if device.type != "cpu" or not keep_freed_blocks():
        yield
        return
    _set(_MMAP_THRESHOLD, _MEGABYTE)
    try:
        yield
    finally:
        _set(_MMAP_THRESHOLD, MAPPED)


def make_room(size: int) -> None:
    """Has malloc's heap end in so many bytes of free memory, in one piece that nobody touched yet.

    Blocks above the threshold are taken from there as long as they fit, and go back there, so that
    their pages are faulted in once instead of in every step. Only the main thread has that heap.
    """
    global _room
    if not size or not keep_freed_blocks() or not _in_main_thread():
        return
    _room = max(_room, size)
    _set(_TOP_PAD, min(_room + AHEAD, _MOST_TRIMMED))
    _grow()
    _set(_TOP_PAD, AHEAD)


def _grow() -> None:
    """Takes blocks from malloc until the heap grows, and gives them back."""
    library = ctypes.CDLL(None)
    library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
    malloc, free, sbrk = library.malloc, library.free, library.sbrk
    taken: list[ctypes.c_void_p] = []
    end = sbrk(0)
    while sbrk(0) == end and len(taken) < _BLOCKS:
        taken.append(ctypes.c_void_p(malloc(_BLOCK)))
    for block in taken:
        free(block)


def _set(parameter: int, value: int) -> bool:
    return bool(ctypes.CDLL(None).mallopt(parameter, value))


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@functools.cache
def _is_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"


@functools.cache
def _limit(device: torch.device, megabytes: int) -> None:
    """Allows that much memory of a GPU; 0 for all of it."""
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
    elif _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)
        make_room(_room)


def end_step(device: torch.device) -> None:
    """After each run: `FLAGS_free_idle_chunk` has freed memory given back at once."""
    if flags.value("free_idle_chunk"):
        release(device)
