"""glibc's malloc keeps the memory that tensors leave behind, ready for the next step.

PyTorch's CPU tensors come from the C library's malloc. glibc asks the kernel for every block above
a threshold and returns large free memory at the end of its heap, so that a training step faults
the same pages in again, step after step: on ResNet-50 a fifth of the step.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MEGABYTE = 1 << 20
# Parameters of glibc's mallopt, and the greatest values it takes.
_TRIM_THRESHOLD, _MOST_TRIMMED = -1, 2**31 - 1
_MMAP_THRESHOLD, MAPPED = -3, 32 * _MEGABYTE
# The heap grows by so much more than was asked for, so that blocks above the threshold fit into
# its end. (With 512 MiB ResNet-50 would take 13% more memory: blocks then share one heap.)
_TOP_PAD, AHEAD = -2, 128 * _MEGABYTE
_BLOCK, _BLOCKS = 16 * _MEGABYTE, 1024
# Sizes of the free blocks for small things, and how many there are of each.
_SMALL = (_MEGABYTE // 16, 64), (_MEGABYTE, 4)
_room = 0
_between: list[int] = []
_making = threading.Lock()


@functools.cache
def keep_freed_blocks() -> bool:
    """Has malloc keep freed blocks of up to 128 MiB, once; True if this C library does so."""
    settings = (_MMAP_THRESHOLD, MAPPED), (_TRIM_THRESHOLD, _MOST_TRIMMED), (_TOP_PAD, AHEAD)
    return _is_glibc() and all(_set(parameter, value) for parameter, value in settings)


@contextmanager
def large_blocks_apart() -> Iterator[None]:
    """Within it blocks of a megabyte and more are mapped one by one, outside the heap."""
    _set(_MMAP_THRESHOLD, _MEGABYTE)
    try:
        yield
    finally:
        _set(_MMAP_THRESHOLD, MAPPED)


def make_room_for_small_things() -> None:
    """Leaves blocks for small things free, apart from the large ones.

    malloc takes the smallest free block that fits, and divides it. Small things that stay divide
    these, instead of the memory that large tensors leave behind: nothing large would fit into its
    parts. Pages of the blocks that lie between them aren't touched.
    """
    malloc, free = _malloc_and_free()
    with _making:
        while _between:
            free(_between.pop())
        _set(_TOP_PAD, 0)  # no room for large blocks comes with them
        for size, number in _SMALL:
            blocks = sorted(malloc(size) for _ in range(2 * number + 1))
            for block in blocks[1::2]:
                free(block)
            _between.extend(blocks[::2])
        _set(_TOP_PAD, AHEAD)


def make_room(size: int) -> None:
    """Has malloc's heap end in so many bytes of free memory, in one piece that nobody touched yet.

    Blocks above the threshold are taken from there as long as they fit, and go back there, so that
    their pages are faulted in once instead of in every step. Only the main thread has that heap.
    """
    global _room
    if not size or threading.current_thread() is not threading.main_thread():
        return
    _room = max(_room, size)
    _set(_TOP_PAD, min(_room + AHEAD, _MOST_TRIMMED))
    _grow()
    _set(_TOP_PAD, AHEAD)


def _grow() -> None:
    """Takes blocks from malloc until the heap grows, and gives them back."""
    malloc, free = _malloc_and_free()
    sbrk = ctypes.CDLL(None).sbrk
    sbrk.restype = ctypes.c_void_p
    taken: list[int] = []
    end = sbrk(0)
    while sbrk(0) == end and len(taken) < _BLOCKS:
        taken.append(malloc(_BLOCK))
    for block in taken:
        free(block)


@functools.cache
def _malloc_and_free() -> tuple[Callable[[int], int], Callable[[int], None]]:
    """With addresses as numbers."""
    library = ctypes.CDLL(None)
    malloc, free = library.malloc, library.free
    malloc.restype, malloc.argtypes, free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    return malloc, free


def trim() -> None:
    """Gives free memory back to the system; the room at the heap's end is made anew."""
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)
        make_room(_room)


def _new_lock() -> None:
    """For a forked process, in which nobody makes room."""
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def _set(parameter: int, value: int) -> bool:
    return bool(ctypes.CDLL(None).mallopt(parameter, value))


@functools.cache
def _is_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"
