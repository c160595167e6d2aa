"""Damaged bytes, drawn from a seed, and which errors are clear answers to them."""

from __future__ import annotations

import random
import traceback

from refluid.core.errors import EnforceNotMet, EOFException

KINDS = ["flip"] * 6 + ["cut", "insert", "drop", "double", "noise"]


def mutated(data: bytes, seed: int) -> bytes:
    """`data` with some bits flipped, or bytes cut off, put in, left out, doubled or drawn anew."""
    source = random.Random(seed)
    kind, changed = source.choice(KINDS), bytearray(data)
    at, size = source.randrange(len(data)), source.randrange(1, 40)
    if kind == "flip":
        for _ in range(source.choice([1, 1, 1, 2, 4])):
            changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif kind == "cut":
        del changed[at:]
    elif kind == "insert":
        changed[at:at] = source.randbytes(source.randrange(1, 9))
    elif kind == "drop":
        del changed[at : at + size]
    elif kind == "double":
        changed[at:at] = changed[at : at + size]
    else:
        changed[at : at + 4] = source.randbytes(len(changed[at : at + 4]))
    return bytes(changed)


def is_clear(error: BaseException) -> bool:
    """Whether it is Fluid's error, or a ValueError that refluid raises on purpose."""
    if isinstance(error, EnforceNotMet | EOFException):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = "refluid" in last.filename and (last.line or "").startswith("raise ")
    return type(error) is ValueError and ours
