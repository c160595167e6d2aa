"""Where a job's processes write: a file for each, the first one's also on the console."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_EVERY = 0.1
_LAST = 20
_WENT = re.compile(r"^ +PeerFailed: trainer (\d+) of \d+ went away", re.MULTILINE)


def log_file(folder: Path, rank: int) -> Path:
    """The file of trainer `rank`, by Fluid's name."""
    return folder / f"workerlog.{rank}"


def server_log(folder: Path, number: int) -> Path:
    """The file of server `number`."""
    return folder / f"serverlog.{number}"


@contextmanager
def shown(path: Path, to: TextIO | None = None) -> Iterator[None]:
    """Within the block what is appended to a file is copied to the console as it comes."""
    out = to or sys.stdout
    ended = threading.Event()
    thread = threading.Thread(target=_copy, args=(path, out, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _copy(path: Path, out: TextIO, ended: threading.Event) -> None:
    position = 0
    last = False
    while True:
        if path.is_file():
            with path.open("rb") as file:
                file.seek(position)
                new = file.read()
            position += len(new)
            if new:
                out.write(new.decode(errors="replace"))
                out.flush()
        if last:
            return
        last = ended.wait(_EVERY)


def last_lines(path: Path, count: int = _LAST) -> str:
    """The end of a log, indented; empty where there is nothing."""
    if not path.is_file():
        return ""
    lines = path.read_text(errors="replace").splitlines()[-count:]
    return "".join(f"    {line}\n" for line in lines)


def missed(path: Path) -> int | None:
    """The trainer that went away, where the end of a log says that one did."""
    found = _WENT.findall(last_lines(path))
    return int(found[-1]) if found else None
