"""What readers must not leave behind: threads, processes, memory that processes share."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Seconds after which what is waited for will never come.
PATIENCE = 60.0
_OURS = ("refluid", "paddle.reader")
# Threads kept for the next step of plans, replicas and exchanges, the one that closes readers, and
# those of parameter servers and their trainers, which other tests may still end.
_KEPT = ("refluid-", "refluid exchange", "refluid closing")
_KEPT += ("refluid heartbeat", "refluid door", "refluid sender", "refluid receiver")
_KEPT += ("refluid geo", "refluid ahead", "refluid mover")
_TASKS = Path("/proc/self/task")
# Memory of a reader's workers, rather than of servers' messages.
_MEMORY, _MESSAGES = "memfd:refluid", "memfd:refluid messages"


def until(done: Callable[[], bool]) -> None:
    """Waits for what another thread is doing."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def threads() -> list[str]:
    """Names of the running threads that belong to readers."""
    names = [one.name for one in threading.enumerate() if _runs(one)]
    return [name for name in names if name.startswith(_OURS) and not name.startswith(_KEPT)]


def _runs(thread: threading.Thread) -> bool:
    """Whether there is such a thread: Python lists one for ever whose start Ctrl-C interrupted."""
    number = thread.native_id
    return number is not None and (not _TASKS.exists() or (_TASKS / str(number)).exists())


def processes() -> list[str]:
    """The running processes that belong to readers."""
    return [one.name for one in multiprocessing.active_children() if one.name.startswith(_OURS)]


def memory() -> list[str]:
    """Shared memory of readers that this process maps."""
    maps = Path(f"/proc/{os.getpid()}/maps")
    if not maps.exists():
        return []
    lines = maps.read_text().splitlines()
    return [line for line in lines if _MEMORY in line and _MESSAGES not in line]


def assert_nothing_left() -> None:
    """Waits a moment for what is just ending."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and (threads() or processes() or memory()):
        time.sleep(0.02)
    left = threads(), processes(), memory()
    assert left == ([], [], []), left
