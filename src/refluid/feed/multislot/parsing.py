"""MultiSlot text: per line and slot `count v1 .. vn`, separated by blanks.

A line has all slots in order. Tabs, a carriage return and tokens after the last slot are
accepted; anything else is an error that says where and what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from refluid.core.errors import EnforceNotMet
from refluid.feed.multislot import kernel
from refluid.feed.multislot.columns import Array, Columns, by_slot

_SHOWN = 40
_ROOM_FOR_HARD = 256
_SEARCHED = 1 << 12
_NEWLINE = ord("\n")


class BadLine(EnforceNotMet):
    """A line that isn't what the slots say: names file, line, slot and what was expected."""


@dataclass(frozen=True)
class LineSlot:
    """One slot of a line.

    kind: "int64", "float32" or "text" (counted like the others, then skipped). width: the values
    it must have, 0 for any number that is a multiple of `unit`. used: whether values are kept.
    """

    name: str
    kind: str
    width: int = 0
    unit: int = 1
    used: bool = True

    @property
    def size(self) -> str:
        """How many values are right."""
        if self.width:
            return f"exactly {self.width}, as its variable is dense"
        return "at least 1" if self.unit == 1 else f"a multiple of {self.unit}"


_KINDS = {"int64": kernel.INT, "float32": kernel.FLOAT, "text": kernel.TEXT}
_MEANINGS = {"int64": "a whole number", "float32": "a number", "text": "a word"}


@dataclass(frozen=True)
class Parsed:
    """The rows of a piece of text, or those before the bad line and what is wrong with it."""

    columns: Columns
    error: BadLine | None


class MultiSlotParser:
    """Turns lines into columns. One thread at a time; each thread needs its own.

    skip_bad_lines: bad lines are left out and counted in `skipped` instead of being an error.
    """

    def __init__(self, slots: Sequence[LineSlot], skip_bad_lines: bool = False) -> None:
        if not slots:
            raise ValueError("a MultiSlot line needs at least one slot: call set_use_var")
        self.slots = tuple(slots)
        self.skip_bad_lines = skip_bad_lines
        self.skipped = 0
        self._table = np.array([(_KINDS[s.kind], s.width, s.unit) for s in slots], np.int64)
        self._used = [place for place, slot in enumerate(slots) if slot.used]
        self._hard = np.empty((_ROOM_FOR_HARD, 3), np.int64)
        self._room(1 << 16)

    def _room(self, size: int) -> None:
        """Makes place for what `size` bytes of text can hold."""
        self._size = size
        self._ints = np.empty(size // 2 + 2, np.int64)
        self._floats = np.empty(size // 2 + 2, np.float32)
        # A slot takes two bytes for its count and two for a value.
        self._counts = np.empty((size // (4 * len(self.slots)) + 2, len(self.slots)), np.int32)

    def parse(self, text: bytes | bytearray, size: int, file: str, line: int) -> Parsed:
        """The rows of the lines `text[:size]`; the last one needs no end.

        file, line: where the text is from and the number of its first line, for the error.
        """
        if size > self._size:
            self._room(size)
        data = np.frombuffer(text, np.uint8, size)
        if size and data[-1] != _NEWLINE:
            data = np.append(data, np.uint8(_NEWLINE))
        state = np.zeros(8, np.int64)
        while True:
            out = (self._ints, self._floats, self._floats.view(np.uint32), self._hard)
            wrong = kernel.parse_lines(data, len(data), self._table, state, out, self._counts)
            if wrong == kernel.HARD:
                self._hard = np.concatenate([self._hard, np.empty_like(self._hard)])
            elif wrong == kernel.FINE:
                return Parsed(self._columns(data, state), None)
            elif self.skip_bad_lines:
                self.skipped += 1
                state[kernel.AT] = _line_end(data, int(state[kernel.AT]))
            else:
                before = int(np.count_nonzero(data[: state[kernel.AT]] == _NEWLINE))
                where = f"{file}, line {line + before}"
                error = BadLine(f"{where}: {self._reason(data, int(wrong), state)}")
                return Parsed(self._columns(data, state), error)

    def _columns(self, data: Array, state: Array) -> Columns:
        for place, start, stop in self._hard[: state[kernel.HARDS]]:
            self._floats[place] = nearest_float32(bytes(data[start:stop]).decode())
        counts = self._counts[: state[kernel.ROWS]]
        return by_slot(self._table, self._used, self._ints, self._floats, counts)

    def _reason(self, data: Array, wrong: int, state: Array) -> str:
        """What is wrong with the line at which the kernel stopped."""
        place, at = int(state[kernel.SLOT]), int(state[kernel.WHERE])
        slot = self.slots[place]
        return _REASONS[wrong].format(
            slot=f"slot {slot.name!r} (number {place + 1} of {len(self.slots)})",
            slots=len(self.slots),
            token=_token(data, at),
            count=int(state[kernel.FOUND]),
            size=slot.size,
            meaning=_MEANINGS[slot.kind],
            kind=slot.kind,
        )


_REASONS = {
    kernel.EMPTY: "the line is empty, but must hold {slots} slots",
    kernel.MISSING: "the line ends before {slot}: expected its count",
    kernel.BAD_COUNT: "{slot}: expected the count of its values, found {token}",
    kernel.NO_VALUES: "{slot}: has 0 values, expected {size}; let the data generator write a "
    "value that stands for nothing, such as 0",
    kernel.WRONG_COUNT: "{slot}: has {count} values, expected {size}",
    kernel.FEW: "{slot}: the line ends before the {count} values that its count says",
    kernel.BAD_NUMBER: "{slot}: expected {meaning} ({kind}), found {token}",
    kernel.RANGE: "{slot}: {token} does not fit into {kind}",
}


def _token(data: Array, at: int) -> str:
    """What stands at a place, up to the next blank."""
    found = bytes(data[at : at + _SHOWN + 1]).split(maxsplit=1)[:1]
    text = found[0].decode(errors="backslashreplace") if found else ""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _line_end(data: Array, at: int) -> int:
    """The first byte of the next line."""
    while at < len(data):
        ends = np.flatnonzero(data[at : at + _SEARCHED] == _NEWLINE)
        if len(ends):
            return at + int(ends[0]) + 1
        at += _SEARCHED
    return len(data)


def nearest_float32(text: str) -> np.float32:
    """The float32 nearest to a decimal number, exactly; of two as near, the even one.

    A double first, as Python reads it, could round twice.
    """
    exact = Fraction(text)
    with np.errstate(over="ignore", under="ignore"):
        first = np.float32(float(text))
        around = [first, *(np.nextafter(first, np.float32(way)) for way in (-np.inf, np.inf))]
    finite = [one for one in around if np.isfinite(one)]
    return min(
        finite, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.uint32)) & 1)
    )
