"""How an error that ends a script is printed: the user's lines, and what the error says.

Frames of refluid, typer and torch are shown with FLAGS_call_stack_level=2.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from traceback import FrameSummary

from refluid.core import flags
from refluid.core.own_frames import is_part

_MOST_FRAMES = 3
_BEFORE_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_BEFORE_OTHER = "\nDuring handling of the above exception, another exception occurred:\n"
_HINT = "(FLAGS_call_stack_level=2 shows refluid's and torch's lines too)"


def report(error: Exception) -> None:
    """Prints the error to stderr, or hands it to the hook that the script has set."""
    if sys.excepthook is not sys.__excepthook__ or int(flags.value("call_stack_level")) > 1:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        sys.stderr.write("\n".join(lines_of(error)) + "\n")


def lines_of(error: BaseException) -> Iterator[str]:
    """What is printed, in lines."""
    chain = list(_chain(error))
    for number, (one, between) in enumerate(reversed(chain)):
        yield from _one(one)
        if number + 1 < len(chain):
            yield between
    if any(is_part(frame.filename) for frame in traceback.extract_tb(error.__traceback__)):
        yield _HINT


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The error and those before it in which the user has a part, each with what stands after."""
    seen: set[int] = set()
    one: BaseException | None = error
    between = ""
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if one is error or one.__traceback__ is None or _frames(one):
            yield one, between
        cause = one.__cause__
        between = _BEFORE_OTHER if cause is None else _BEFORE_CAUSE
        one = cause if cause is not None or one.__suppress_context__ else one.__context__


def _frames(error: BaseException) -> list[FrameSummary]:
    found = traceback.extract_tb(error.__traceback__)
    return [frame for frame in found if not is_part(frame.filename)]


def _one(error: BaseException) -> Iterator[str]:
    frames = _frames(error)
    if frames:
        yield "Traceback (most recent call last):"
    outer = len(frames) - _MOST_FRAMES
    if outer > 0:
        names = (f"{one.filename}:{one.lineno} in {one.name}" for one in frames[:outer])
        yield f"  {', '.join(names)} ..."
    shown: list[str] = []
    for frame in frames[max(outer, 0) :]:
        shown.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        if frame.line:
            shown.append(f"    {frame.line}")
    yield from shown
    yield from _without(shown, _said(error))


def _said(error: BaseException) -> list[str]:
    """What Python prints of the error itself, refluid's own by their bare names."""
    text = "".join(traceback.TracebackException.from_exception(error).format_exception_only())
    module = type(error).__module__
    return (
        text.removeprefix(f"{module}." if module.startswith("refluid.") else "")
        .rstrip()
        .splitlines()
    )


def _without(shown: list[str], said: list[str]) -> Iterator[str]:
    """The message but for places that the traceback above it has shown."""
    skipping, header = False, ""
    for line in said:
        if line.startswith('  File "'):
            skipping = line in shown
        elif not line.startswith("    ") and not line.startswith("  called from "):
            skipping = False
        if line.endswith(" made here:"):
            header = line  # only said where a place follows
        elif not skipping and not line.startswith("  [operator < "):
            if header and line.startswith("  File "):
                yield header
            header = ""
            yield line
