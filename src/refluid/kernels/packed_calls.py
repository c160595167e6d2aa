"""How kept machine code is called: arguments become packed addresses, sizes and numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from refluid.kernels.argument_kinds import Elements, address_of

# What a loop's code gives where it failed.
FAILED = -(2**63)
# How numbers are packed, by NumPy's kinds; others as whole numbers with a sign.
_CODES = {"f": "d", "u": "Q"}

# What must hold of a tensor, its address and sizes; the same of an array.
_TENSOR = "{0}.dtype is {1} and {0}.dim() == {2} and {0}.is_contiguous() and {0}.is_cpu"
_ARRAY = "{0}.dtype == {1} and {0}.ndim == {2} and {0}.flags.c_contiguous"
_ADDRESS = {True: "{0}.data_ptr(), *{0}.shape", False: "address({0}), *{0}.shape"}
_CALL = """
def call({0}):
    if not ({1}):
        return otherwise({0})
    found = entry(pack({2}))
    if found == failed:
        raise RuntimeError("a compiled loop failed")
    return found

def packed({0}):
    return pack({2})
"""
_NUMBER = struct.Struct("q")


def caller_of(entry: Any, otherwise: Callable[..., Any], kinds: Any) -> Callable[..., Any]:
    """A function of the loop's own arguments, written for these kinds: others go by `otherwise`.

    Its `bind` takes all but a last whole number, unchecked, and gives a function of that.
    """
    layout: list[str] = []
    passed: list[str] = []
    checks: list[str] = []
    known: dict[str, Any] = {}

    def put(place: str, kind: Any) -> None:
        name = f"kind{len(known)}"
        if isinstance(kind, Elements):
            known[name] = kind.dtype
            checks.append((_TENSOR if kind.of_torch else _ARRAY).format(place, name, kind.rank))
            passed.append(_ADDRESS[kind.of_torch].format(place))
            layout.append("q" * (1 + kind.rank))
        elif isinstance(kind, tuple):
            checks.append(f"len({place}) == {len(kind)}")
            for number, one in enumerate(kind):
                put(f"{place}[{number}]", one)
        else:
            known[name] = kind
            checks.append(f"type({place}) is {name}")
            passed.append(place)
            layout.append(_CODES.get(np.dtype(kind).kind, "q"))

    names = [f"a{number}" for number in range(len(kinds))]
    for name, kind in zip(names, kinds, strict=True):
        put(name, kind)
    known |= {"entry": entry, "otherwise": otherwise, "failed": FAILED, "address": address_of}
    known["pack"] = struct.Struct("".join(layout)).pack
    exec(_CALL.format(", ".join(names), " and ".join(checks), ", ".join(passed)), known)
    if kinds and kinds[-1] is int:
        known["call"].bind = partial(_bound, entry, known["packed"])
    made: Callable[..., Any] = known["call"]
    return made


def _bound(entry: Any, packed: Callable[..., bytes], *given: Any) -> Callable[[int], int]:
    first = packed(*given, 0)[: -_NUMBER.size]

    def run(number: int, _held: Any = given) -> int:  # what lies at the packed addresses stays
        found = int(entry(first + _NUMBER.pack(number)))
        if found == FAILED:
            raise RuntimeError("a compiled loop failed")
        return found

    return run
