"""MultiSlot text to numbers, as compiled code; `multislot.py` is the interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.feed.multislot.decimal import INFINITE, float_bits
from refluid.kernels.compiled import compiled

# Kinds of slots.
INT, FLOAT, TEXT = 0, 1, 2
# What can be wrong with a line, or with a number in it.
FINE, EMPTY, MISSING, BAD_COUNT, NO_VALUES, WRONG_COUNT, FEW, BAD_NUMBER, RANGE = range(9)
HARD = 9  # a float of more digits than are looked at here, where they matter
# Fields of the state: see `parse_lines`.
AT, ROWS, INTS, FLOATS, HARDS, SLOT, WHERE, FOUND = range(8)

_TENS = np.array([10.0**power for power in range(11)], np.float32)
_WORDS = np.array([list(word.ljust(8).encode()) for word in ("inf", "infinity", "nan")], np.uint8)
_SIZES = np.array([3, 8, 3])
_NO_EXPONENT = 1 << 40
_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_U0, _U1, _U10 = np.uint64(0), np.uint64(1), np.uint64(10)
_ZERO = np.uint64(48)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(1 << 63)


@compiled
def _ends(data: Any, at: Any, end: Any) -> Any:
    """Whether a number may end before this byte."""
    if at >= end:
        return True
    byte = data[at]
    return byte in (_SPACE, _NEWLINE, _TAB, _RETURN)


@compiled
def _read_int(data: Any, at: Any, end: Any, out: Any, place: Any) -> Any:
    """Reads a whole number of 64 bits, signed or unsigned, to `out[place]`."""
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    value, first = np.int64(0), at
    stop = at + min(end - at, 18)
    while at < stop and 48 <= data[at] <= 57:
        value = value * 10 + (np.int64(data[at]) - 48)
        at += 1
    if at == stop and at < end and 48 <= data[at] <= 57:
        wide = np.uint64(value)
        while at < end and 48 <= data[at] <= 57:
            digit = np.uint64(data[at] - 48)
            if wide > (_ALL - digit) // _U10:
                return RANGE, at
            wide = wide * _U10 + digit
            at += 1
        if negative and wide > _HALF:
            return RANGE, at
        value = np.int64(wide)
    if at == first or not _ends(data, at, end):
        return BAD_NUMBER, at
    out[place] = -value if negative else value
    return FINE, at


@compiled
def _read_word(data: Any, at: Any, end: Any, out: Any, place: Any, negative: Any) -> Any:
    """Reads inf, infinity or nan, in any case, to `out[place]`."""
    for number in range(len(_WORDS)):
        word, size = _WORDS[number], _SIZES[number]
        same = at + size <= end and _ends(data, at + size, end)
        for place_in in range(size):
            same = same and data[at + place_in] | 32 == word[place_in]
        if same:
            value = np.float32(np.inf) if number < 2 else np.float32(np.nan)
            out[place] = -value if negative else value
            return FINE, at + size
    return BAD_NUMBER, at


@compiled
def _read_exponent(data: Any, at: Any, end: Any) -> Any:
    """The number after an "e", `_NO_EXPONENT` if there is none; what is too large for any use
    becomes 100 million."""
    down = at < end and data[at] == 45
    if at < end and (down or data[at] == 43):
        at += 1
    exponent, first = np.int64(0), at
    while at < end and 48 <= data[at] <= 57:
        exponent = min(exponent * 10 + (np.int64(data[at]) - 48), np.int64(100000000))
        at += 1
    if at == first:
        return _NO_EXPONENT, at
    return (-exponent if down else exponent), at


@compiled
def _read_float(data: Any, at: Any, end: Any, out: Any, bits: Any, place: Any) -> Any:
    """Reads a decimal number to `out[place]`, whose bits are `bits[place]`."""
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    value, power, seen, kept, lost = np.int64(0), np.int64(0), 0, 0, False
    fraction = False
    while at < end:
        byte = data[at]
        if 48 <= byte <= 57:
            seen += 1
            if kept < 18:
                value = value * 10 + (np.int64(byte) - 48)
                kept += value != 0
                power -= fraction
            else:
                lost = lost or byte != 48
                power += not fraction
        elif byte == 46 and not fraction:
            fraction = True
        else:
            break
        at += 1
    if seen == 0 and fraction:
        return BAD_NUMBER, at
    if seen == 0:
        return _read_word(data, at, end, out, place, negative)
    if at < end and (data[at] == 101 or data[at] == 69):
        exponent, at = _read_exponent(data, at + 1, end)
        if exponent == _NO_EXPONENT:
            return BAD_NUMBER, at
        power += exponent
    if not _ends(data, at, end):
        return BAD_NUMBER, at
    sign = np.uint32(0x80000000) if negative else np.uint32(0)
    if value == 0:
        bits[place] = sign
    elif value < 1 << 24 and -10 <= power <= 10 and not lost:
        number = np.float32(value)
        number = number * _TENS[power] if power >= 0 else number / _TENS[-power]
        out[place] = -number if negative else number
    else:
        found = float_bits(np.uint64(value), power)
        if lost and found != float_bits(np.uint64(value + 1), power):
            return HARD, at
        if found == INFINITE:
            return RANGE, at
        bits[place] = found | sign
    return FINE, at


@compiled
def _read_count(data: Any, at: Any, end: Any) -> Any:
    """How many values a slot has, -1 where no count stands there, and the byte after it."""
    count, start = np.int64(0), at
    while at < start + 9 and 48 <= data[at] <= 57:
        count = count * 10 + (np.int64(data[at]) - 48)
        at += 1
    return (count if at > start and _ends(data, at, end) else -1), at


@compiled
def _after_blanks(data: Any, at: Any) -> Any:
    while data[at] == _SPACE or data[at] == _TAB or data[at] == _RETURN:
        at += _U1
    return at


@compiled
def _read_ints(data: Any, at: Any, end: Any, count: Any, out: Any, place: Any) -> Any:
    """Reads `count` whole numbers to `out[place:]`; what is wrong, and where."""
    for number in range(count):
        at = _after_blanks(data, at)
        if data[at] == _NEWLINE:
            return FEW, at
        start, value = at, _U0
        digit = np.uint64(data[at]) - _ZERO
        while digit < _U10:
            value = value * _U10 + digit
            at += _U1
            digit = np.uint64(data[at]) - _ZERO
        if _U0 < at - start < np.uint64(19) and (data[at] == _SPACE or data[at] == _NEWLINE):
            out[place + number] = np.int64(value)
        else:
            result, stop = _read_int(data, np.int64(start), end, out, place + number)
            if result != FINE:
                return result, start
            at = np.uint64(stop)
    return FINE, at


@compiled
def _read_floats(data: Any, at: Any, end: Any, count: Any, state: Any, out: Any) -> Any:
    """Reads `count` numbers to `out[1][state[FLOATS]:]`; what is wrong, and where."""
    _, floats, bits, hard = out
    for _ in range(count):
        at = _after_blanks(data, at)
        if data[at] == _NEWLINE:
            return FEW, at
        result, stop = _read_float(data, np.int64(at), end, floats, bits, state[FLOATS])
        if result == HARD and state[HARDS] < len(hard):
            row = state[HARDS]
            hard[row, 0], hard[row, 1], hard[row, 2] = state[FLOATS], np.int64(at), stop
            state[HARDS] += 1
            result = FINE
        if result != FINE:
            return result, at
        state[FLOATS] += 1
        at = np.uint64(stop)
    return FINE, at


@compiled
def _skip_words(data: Any, at: Any, count: Any) -> Any:
    for _ in range(count):
        at = _after_blanks(data, at)
        if data[at] == _NEWLINE:
            return FEW, at
        while not _ends(data, np.int64(at), np.int64(at) + 1):
            at += _U1
    return FINE, at


@compiled
def _parse_line(data: Any, end: Any, slots: Any, state: Any, out: Any, counts: Any) -> Any:
    """Parses the line at `state[AT]`, to which it adds its length."""
    at = np.uint64(state[AT])
    for slot in range(len(slots)):
        state[SLOT] = slot
        at = _after_blanks(data, at)
        if data[at] == _NEWLINE:
            return MISSING if slot else EMPTY
        count = np.int64(data[at]) - 48
        state[WHERE] = np.int64(at)
        if 0 < count < 10 and data[at + _U1] == _SPACE:
            at += _U1
        else:
            count, stop = _read_count(data, np.int64(at), end)
            at = np.uint64(stop)
        state[FOUND] = count
        if count <= 0:
            return NO_VALUES if count == 0 else BAD_COUNT
        width = slots[slot, 1]
        if (width > 0 and count != width) or (slots[slot, 2] > 1 and count % slots[slot, 2]):
            return WRONG_COUNT
        counts[slot] = count
        if slots[slot, 0] == INT:
            result, at = _read_ints(data, at, end, count, out[0], state[INTS])
            state[INTS] += count
        elif slots[slot, 0] == FLOAT:
            result, at = _read_floats(data, at, end, count, state, out)
        else:
            result, at = _skip_words(data, at, count)
        if result != FINE:
            state[WHERE] = np.int64(at)
            return result
    while data[at] != _NEWLINE:
        at += _U1
    state[AT] = np.int64(at) + 1
    return FINE


@compiled
def parse_lines(data: Any, end: Any, slots: Any, state: Any, out: Any, counts: Any) -> Any:
    """Parses the lines of `data[state[AT]:end]`; FINE, or what is wrong with the line it stops at.

    data: its last byte before `end` is a newline. slots: per slot its kind, width and unit.
    out: the int64 and float32 values, row after row, the bits of the latter, and for each hard
    float its place, first byte and end. counts: values per row and slot. state: AT the next byte
    (or the bad line's first), ROWS, INTS, FLOATS, HARDS filled so far, SLOT, WHERE, FOUND of the
    error.
    """
    while state[AT] < end:
        before_ints, before_floats, before_hards = state[INTS], state[FLOATS], state[HARDS]
        result = _parse_line(data, end, slots, state, out, counts[state[ROWS]])
        if result != FINE:
            state[INTS], state[FLOATS], state[HARDS] = before_ints, before_floats, before_hards
            return result
        state[ROWS] += 1
    return FINE
