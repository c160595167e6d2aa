"""MultiSlot lines parsed by plain Python: the obviously right side of comparisons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from refluid.feed.multislot.parsing import LineSlot

_BLANKS = re.compile(rb"[ \t\r]+")
_INT = re.compile(rb"[+-]?[0-9]+")
_FLOAT = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"([+-]?)(inf|infinity|nan)", re.IGNORECASE)
_LARGEST = Fraction(float(np.finfo(np.float32).max)) + Fraction(2) ** 103
_HUGE_EXPONENT = 5000


class Bad(Exception):
    """The line can't be parsed."""


def parse_line(line: bytes, slots: Sequence[LineSlot]) -> list[list[Any]]:
    """The values of each slot; Bad for a malformed line."""
    tokens = iter([one for one in _BLANKS.split(line) if one])
    found = []
    for slot in slots:
        count = next(tokens, b"")
        if not re.fullmatch(rb"[0-9]{1,9}", count):
            raise Bad("count")
        size = int(count)
        if size == 0 or (slot.width and size != slot.width) or size % slot.unit:
            raise Bad("size")
        values = []
        for _ in range(size):
            token = next(tokens, None)
            if token is None:
                raise Bad("few")
            values.append(_value(token, slot.kind))
        found.append(values)
    return found


def _value(token: bytes, kind: str) -> Any:
    if kind == "text":
        return token
    if kind == "int64":
        if not _INT.fullmatch(token) or not -(2**63) <= int(token) < 2**64:
            raise Bad("int")
        return (int(token) + 2**63) % 2**64 - 2**63
    word = _WORD.fullmatch(token)
    if word:
        return np.float32(token.decode())
    if not _FLOAT.fullmatch(token):
        raise Bad("float")
    text = token.decode()
    exponent = re.search(r"[eE]([+-]?\d+)", text)
    if exponent and abs(int(exponent[1])) > _HUGE_EXPONENT:  # a Fraction would not fit in memory
        mantissa = Fraction(text[: exponent.start()])
        if mantissa and int(exponent[1]) > 0:
            raise Bad("range")
        return np.float32(-0.0 if text.startswith("-") else 0.0)
    exact = Fraction(text)
    if abs(exact) >= _LARGEST:
        raise Bad("range")
    return nearest(exact, text.startswith("-"))


def nearest(exact: Fraction, negative: bool) -> np.float32:
    """The float32 nearest to a fraction, ties to even, by search around a first guess."""
    if exact == 0:
        return np.float32(-0.0 if negative else 0.0)
    guess = np.float32(min(max(float(exact), -3.4028234e38), 3.4028234e38))
    with np.errstate(over="ignore", under="ignore"):
        around = {np.nextafter(guess, np.float32(way)) for way in (-np.inf, np.inf)} | {guess}
    finite = [one for one in around if np.isfinite(one)]
    best = min(
        finite, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.uint32)) & 1)
    )
    return np.float32(-0.0) if best == 0 and negative else np.float32(best)
