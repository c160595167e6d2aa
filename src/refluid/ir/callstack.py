"""Where in the user's script something was created."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_OWN = (_PACKAGE, "<")


def user_frames(limit: int = 3) -> list[str]:
    """The innermost frames outside refluid, innermost last, as lines of a Python traceback.

    Each frame gives `  File "train.py", line 7, in main` and, where the source is at hand,
    its text.
    """
    frames: list[list[str]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < limit:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN) and "runpy" not in code.co_filename:
            entry = [f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}']
            source = linecache.getline(code.co_filename, frame.f_lineno).strip()
            frames.append([*entry, f"    {source}"] if source else entry)
        frame = frame.f_back
    return [line for entry in reversed(frames) for line in entry]


def users_level() -> int:
    """The `stacklevel` by which the caller's `warnings.warn` names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
