"""Where in the user's script something was created."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from refluid.core import flags
from refluid.core.own_frames import is_part

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_OWN = (_PACKAGE, "<")
_COMMANDS = f"{_PACKAGE}{os.sep}cli{os.sep}"
_FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)')


def user_frames(limit: int = 3) -> list[str]:
    """The innermost frames outside refluid and torch as lines of a traceback, innermost last.

    Each frame gives `  File "train.py", line 7, in main` and, where the source is at hand,
    its text.
    """
    frames: list[list[str]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < limit:
        code = frame.f_code
        if code.co_filename.startswith(_COMMANDS):
            break  # what follows started the script
        own = code.co_filename.startswith(_OWN) or is_part(code.co_filename)
        if not own and "runpy" not in code.co_filename:
            entry = [f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}']
            source = linecache.getline(code.co_filename, frame.f_lineno).strip()
            frames.append([*entry, f"    {source}"] if source else entry)
        frame = frame.f_back
    return [line for entry in reversed(frames) for line in entry]


def said(lines: Sequence[str]) -> str:
    """What messages show of `user_frames`: the innermost one, and where it was called from.

    FLAGS_call_stack_level=0: nothing; 2: all of them in full.
    """
    level = int(flags.value("call_stack_level"))
    starts = [place for place, line in enumerate(lines) if _FRAME.match(line)]
    if level != 1 or len(starts) < 2:
        return "\n".join(lines) if level else ""
    callers = [_FRAME.sub(r"\1:\2 in \3", lines[place]) for place in reversed(starts[:-1])]
    return "\n".join([*lines[starts[-1] :], f"  called from {', '.join(callers)}"])


def users_level() -> int:
    """The `stacklevel` by which the caller's `warnings.warn` names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
