"""Memory shared by a worker process and the process that reads what it wrote.

An area has no name in any file system: nothing is left when the processes are gone, however
they ended. Its first byte says whether the reader is done with it, so giving it back takes
neither a message nor a lock. The reader looks for areas to give back whenever it opens another;
a callback of the freed objects would swallow a KeyboardInterrupt that arrives inside it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref

import numpy as np
import numpy.typing as npt

from refluid.core.errors import EnforceNotMet

_FREE, _TAKEN = 0, 1
# Data begin here, so that they are aligned as processors like it.
DATA = 64


def anonymous_file(size: int) -> int:
    """A descriptor of memory of `size` bytes; EnforceNotMet where there is no room for it."""
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("refluid", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, size)
            return descriptor
        with tempfile.TemporaryFile() as file:
            # Writing to a hole for which the disk has no room would end the process.
            os.posix_fallocate(file.fileno(), 0, size)
            return os.dup(file.fileno())
    except OSError as error:
        raise EnforceNotMet(
            f"no room for a batch of {size} bytes that a worker process shares: {error}; make "
            "batches smaller, or give the reader fewer workers"
        ) from error


class OwnAreas:
    """The worker's side: finds or makes an area that is free."""

    def __init__(self) -> None:
        self._areas: list[mmap.mmap] = []

    def take(self, size: int) -> tuple[int, mmap.mmap, int | None]:
        """A free area for `size` bytes of data: its number, and its descriptor if it is new.

        A free one that is too small is replaced by a new one of the same number.
        """
        number = len(self._areas)
        for index, area in enumerate(self._areas):
            if area[0] == _FREE:
                if len(area) >= size + DATA:
                    area[0] = _TAKEN
                    return index, area, None
                number = index
        pages = -(-(size + size // 8 + DATA) // mmap.PAGESIZE)
        descriptor = anonymous_file(pages * mmap.PAGESIZE)
        area = mmap.mmap(descriptor, pages * mmap.PAGESIZE)
        area[0] = _TAKEN
        self._areas[number : number + 1] = [area]
        return number, area, descriptor


class LentAreas:
    """The reader's side: opens areas and gives back those that nothing refers to any more."""

    def __init__(self) -> None:
        self._areas: dict[int, mmap.mmap] = {}
        self._lent: dict[int, tuple[mmap.mmap, weakref.ref[npt.NDArray[np.uint8]]]] = {}

    @property
    def lent(self) -> int:
        """How many areas objects still refer to."""
        self._give_back()
        return len(self._lent)

    def attach(self, number: int, descriptor: int) -> None:
        """Takes note of a new area; closes its descriptor."""
        try:
            self._areas[number] = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def lend(self, number: int) -> memoryview:
        """The data of an area; the area is given back once nothing refers to them."""
        self._give_back()
        area = self._areas[number]
        loan: npt.NDArray[np.uint8] = np.frombuffer(area, np.uint8)
        self._lent[number] = area, weakref.ref(loan)
        return loan.data[DATA:]

    def copy(self, number: int) -> bytearray:
        """A copy of the data of an area, which is free at once."""
        area = self._areas[number]
        with memoryview(area) as view:
            data = bytearray(view[DATA:])
        area[0] = _FREE
        return data

    def _give_back(self) -> None:
        for number, (area, loan) in list(self._lent.items()):
            if loan() is None:
                del self._lent[number]
                area[0] = _FREE
