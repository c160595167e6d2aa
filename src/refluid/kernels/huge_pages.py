"""Memory that a process keeps using comes into huge pages, of 2 MiB on x86-64, where Linux lets it.

A processor looks up where a page of memory lies, and remembers few of them; with 4 KiB pages a
matrix of some megabytes is more than it remembers, and a product that reads it by columns looks up
each time. In a virtual machine a look-up takes several times as long. The kernel gives huge pages
by itself only where an administrator has it do so ("always"); where it is asked to by programs
("madvise", the usual setting), so does this.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from refluid.kernels.mapped_pages import regions

_LOGGER = logging.getLogger("refluid")
_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_PAGES = Path("/proc/self/pagemap")
_NAMES = ("[heap]", "[anon")
_PRESENT, _ENTRY = 63, 8  # the bit and the bytes of an entry of _PAGES
_COLLAPSE = 25  # madvise's MADV_COLLAPSE, of Linux 6.1
# A huge page is made of pages of which so many sixteenths are in memory: the rest comes with it.
_LEAST = 15
_AT_ONCE = 512  # huge pages that are looked at together


class HugePages:
    """Which memory of the process has become huge pages."""

    def __init__(self) -> None:
        self._size = _size() if _asked_for() else 0
        self._small = os.sysconf("SC_PAGE_SIZE")
        self._done: set[int] = set()

    def collapse(self, seconds: float = math.inf) -> int:
        """Has all anonymous memory that is in use become huge pages; gives the bytes of new ones.

        Each takes a fifth of a millisecond, or ten where the host of a virtual machine has to find
        the memory first. What isn't begun after so many seconds is left for another call. 0 where
        this system doesn't do it.
        """
        end, before = time.perf_counter() + seconds, len(self._done)
        try:
            for number in self._candidates() if self._size else ():
                if _advise(number * self._size, self._size):
                    self._done.add(number)
                if time.perf_counter() >= end:
                    break
        except OSError as error:
            _LOGGER.debug("no huge pages: %s", error)
            self._size = 0
        return (len(self._done) - before) * self._size

    def _candidates(self) -> Iterator[int]:
        """The numbers of huge pages, counted from address 0, that memory in use would fill."""
        each = self._size // self._small
        with _PAGES.open("rb", buffering=0) as pages:
            for begin, end in _anonymous():
                last = end // self._size
                for first in range(-(-begin // self._size), last, _AT_ONCE):
                    count = min(_AT_ONCE, last - first)
                    read = os.pread(pages.fileno(), count * each * _ENTRY, first * each * _ENTRY)
                    read = read[: len(read) // (each * _ENTRY) * each * _ENTRY]
                    present = np.frombuffer(read, np.uint64) >> np.uint64(_PRESENT)
                    full = present.reshape(-1, each).sum(1) * 16 >= _LEAST * each
                    numbers = (first + np.flatnonzero(full)).tolist()
                    yield from (one for one in numbers if one not in self._done)


def _asked_for() -> bool:
    """Whether the system has huge pages for programs that ask."""
    try:
        return "[never]" not in (_SETTINGS / "enabled").read_text()
    except OSError:
        return False


def _size() -> int:
    try:
        return int((_SETTINGS / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return 0


def _anonymous() -> Iterator[tuple[int, int]]:
    """Where private memory begins and ends that is written to and belongs to no file."""
    for begin, end, rights, name in regions():
        if rights == "rw-p" and (not name or name.startswith(_NAMES)):
            yield begin, end


def _advise(address: int, size: int) -> bool:
    """Whether all of it is huge pages now; OSError where the system doesn't know what is asked."""
    if _madvise()(address, size, _COLLAPSE) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EPERM):
        raise OSError(error, os.strerror(error))
    return False


@cache
def _madvise() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
