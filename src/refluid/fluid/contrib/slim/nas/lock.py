"""A lock between processes, on an open file."""

from __future__ import annotations

from typing import IO, Any

__all__ = ["lock", "unlock"]

LOCK_EX, LOCK_UN = 2, 8


def lock(file: IO[Any]) -> None:
    """Waits until no other process holds the lock, and takes it."""
    import fcntl  # not on Windows

    fcntl.flock(file, LOCK_EX)


def unlock(file: IO[Any]) -> None:
    """Gives the lock up."""
    import fcntl

    fcntl.flock(file, LOCK_UN)
