"""The launcher's live line: how fast all trainers are, and what they wait for."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from refluid.comm.pulse import NONE, Beat
from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_file
from refluid.feed.live import on_terminal, told

_FILE = "progress.json"
_PLAIN, _RECENT = 10.0, 5.0


def note(folder: Path, beats: Mapping[int, Beat]) -> None:
    """Leaves the beats of all trainers where the launcher finds them."""
    text = json.dumps({str(rank): beat for rank, beat in beats.items()}).encode()
    with contextlib.suppress(EnforceNotMet):  # training needs no line
        write_file(folder / _FILE, lambda file: file.write(text), durable=False)


def noted(folder: Path) -> dict[int, Beat]:
    """What was left last; nothing yet where there is none."""
    try:
        found = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {int(rank): Beat(*beat) for rank, beat in found.items()}


def line(now: Mapping[int, Beat], then: Mapping[int, Beat], size: int) -> str:
    """`step 120, 41.2 ms a step, 3,100 samples/s of 4 trainers, 18% waiting, slowest: trainer 2`.

    Of the time between two moments. The slowest trainer computes longest in each step: the others
    wait for it. Empty where nothing was done.
    """
    recent: dict[int, Beat] = {}
    for rank, beat in now.items():
        before = then.get(rank, NONE)
        if beat.steps < before.steps:  # all have begun again
            before = NONE
        recent[rank] = beat.since(before)
    recent = {rank: beat for rank, beat in recent.items() if beat.steps and beat.seconds > 0}
    if not recent:
        return ""
    seconds = sum(beat.seconds for beat in recent.values())
    step = seconds / sum(beat.steps for beat in recent.values())
    rows = sum(beat.rows / beat.seconds for beat in recent.values())
    waited = sum(beat.waited for beat in recent.values()) / seconds
    computes = {rank: (one.seconds - one.waited) / one.steps for rank, one in recent.items()}
    slowest = max(computes, key=lambda rank: (computes[rank], -rank))
    parts = [
        f"step {max(beat.steps for beat in now.values()) + 1:,}",
        f"{step * 1e3:.3g} ms a step",
    ]
    if rows:
        parts.append(f"{rows:,.4g} samples/s of {size} trainers")
    parts.append(f"{waited:.0%} waiting for communication")
    parts.append(f"slowest: trainer {slowest}, {computes[slowest] * 1e3:.3g} ms of its own")
    return ", ".join(parts)


class _Line:
    """What is shown: about the last seconds."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        self._earlier: deque[tuple[float, dict[int, Beat]]] = deque()

    def __call__(self) -> str:
        found, moment = noted(self._folder), time.monotonic()
        if not self._earlier or found != self._earlier[-1][1]:
            self._earlier.append((moment, found))
        while len(self._earlier) > 2 and moment - self._earlier[1][0] > _RECENT:
            self._earlier.popleft()
        then = self._earlier[0][1] if len(self._earlier) > 1 else {}
        return line(self._earlier[-1][1], then, self._size)


@contextmanager
def live(
    folder: Path, size: int, out: TextIO | None = None, every: float = _PLAIN
) -> Iterator[None]:
    """Within the block a line says how the trainers do, as of `live_line`."""
    (folder / _FILE).unlink(missing_ok=True)
    with live_line(_Line(folder, size), out, every):
        yield


@contextmanager
def live_line(
    shown: Callable[[], str], out: TextIO | None = None, every: float = _PLAIN
) -> Iterator[None]:
    """Within the block the line that `shown` gives is at the bottom of the terminal.

    Where stderr is no terminal, one is printed there (or to `out`) every so many seconds, unless it
    is empty or was the last one.
    """
    if on_terminal() and out is None:
        from rich.text import Text

        with told(lambda: Text(shown())):
            yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_print, args=(shown, out or sys.stderr, ended, every))
    thread.daemon = True
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _print(shown: Callable[[], str], out: TextIO, ended: threading.Event, every: float) -> None:
    before = ""
    while not ended.wait(every):
        text = shown()
        if text and text != before:
            print(f"refluid: {text}", file=out, flush=True)
        before = text
