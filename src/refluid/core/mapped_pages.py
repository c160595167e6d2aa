"""Pages of files that a library mapped into this process, given back to the system."""

from __future__ import annotations

import ctypes
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_DONTNEED = 4


def mapped_ranges(path: Path) -> list[tuple[int, int]]:
    """Where a file is mapped that nobody writes to by memory: address and bytes of each range.

    None are found where the system doesn't tell, as Linux does.
    """
    if not _MAPS.exists():
        return []
    found = []
    for line in _MAPS.read_text().splitlines():
        place, rights, *_, name = line.split(maxsplit=5)
        if name == str(path.resolve()) and rights == "r--s":
            start, _, end = place.partition("-")
            found.append((int(start, 16), int(end, 16) - int(start, 16)))
    return found


def give_back(ranges: list[tuple[int, int]]) -> None:
    """Takes the pages of these ranges out of the process, where they come back when they are read.

    They stay in the system's cache of files as long as there is room.
    """
    if ranges:
        libc = ctypes.CDLL(None)
        for start, size in ranges:
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONTNEED)
