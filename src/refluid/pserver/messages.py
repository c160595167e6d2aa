"""Messages between trainers and servers: what they ask, and named arrays; nothing executable.

`packing` has them as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

_MOST_JSON = 2**26
_VALUES = "json"


Array = np.ndarray[Any, Any]
NamedArray = tuple[str, Array]


class Filling(Protocol):
    """An array that is made where it is sent from."""

    @property
    def dtype(self) -> Any: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def fill(self, out: Array) -> None:
        """Writes its numbers, all of them, to an array of its type and shape."""


class MalformedMessage(ValueError):
    """Bytes that are no message; the text says what is wrong."""


class Kind(IntEnum):
    """What a message asks for, or that it is an answer."""

    HELLO = 1
    PUSH = 2
    PULL = 3
    ROWS = 4
    BEAT = 5
    LEAVE = 6
    EXPORT = 7
    IMPORT = 8
    SAVE = 9
    STATE = 10
    GATHER = 11
    END_PASS = 12
    CHANGE = 13
    FILL = 14
    CONDUCT = 15
    ANSWER = 64
    REFUSAL = 65


class MessageFlag(IntEnum):
    """What else a message says; several may be set."""

    WANTS_DENSE = 1  # of a push: answer with the parameters as they are then
    PENDING = 2  # of an answer: the push is there and waits for others; ask again
    AGAIN = 16  # of an answer: the push isn't there; send it again
    DELTA = 4  # of a push: what to add to parameters, rather than gradients
    READ_ONLY = 8  # of a pull of rows: those that aren't there are not made


class Remedy(StrEnum):
    """What a caller is told to do about a call that wasn't answered."""

    ENTER = "enter first"
    AGAIN = "try again"
    LAYOUT = "others are there"
    NEVER = "don't"


@dataclass
class TableMessage:
    """One call or answer. trainer -1: none. session: of this life of the trainer's process.

    sequence: the number of a push in its session; the same one again is the same push. job: which
    tables both sides believe in. epoch: which servers. filled: arrays besides that are made where
    they are sent from, anew each time.
    """

    kind: Kind
    trainer: int = -1
    session: int = 0
    sequence: int = 0
    job: int = 0
    flags: int = 0
    arrays: Sequence[NamedArray] = field(default_factory=list)
    epoch: int = 0
    filled: Sequence[tuple[str, Filling]] = ()

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The arrays as tensors of the same memory."""
        for name, array in self.arrays:
            yield name, torch.from_numpy(array)

    def kept(self, but: Callable[[TableMessage, str], bool] = lambda *_: False) -> TableMessage:
        """This, with arrays of its own. but: which of them, by name, stay where they are."""
        self.arrays = [(name, one if but(self, name) else one.copy()) for name, one in self.arrays]
        return self

    def made(self) -> TableMessage:
        """The message with what would be made where it is sent from among its arrays."""
        arrays = list(self.arrays)
        for name, filling in self.filled:
            arrays.append((name, np.empty(filling.shape, filling.dtype)))
            filling.fill(arrays[-1][1])
        return replace(self, arrays=arrays, filled=())

    def array(self, name: str) -> Array:
        """The first array of that name. MalformedMessage where there is none."""
        for one, found in self.arrays:
            if one == name:
                return found
        raise MalformedMessage(f"a message {self.kind.name} lacks {name!r}")

    def values(self) -> dict[str, Any]:
        """What `with_values` put in. MalformedMessage where that is none."""
        raw = self.array(_VALUES)
        if raw.dtype != np.uint8 or raw.nbytes > _MOST_JSON:
            raise MalformedMessage("values are text of at most 64 MB")
        try:
            found = json.loads(raw.tobytes())
        except (UnicodeDecodeError, RecursionError, ValueError) as error:
            raise MalformedMessage(f"values are no JSON: {error}") from error
        if not isinstance(found, dict):
            raise MalformedMessage("values are a JSON object")
        return found


def text_array(values: Mapping[str, Any]) -> NamedArray:
    """Numbers, text, and lists and dicts of them, as an array of a message."""
    raw = json.dumps(values).encode()
    return _VALUES, np.frombuffer(raw, np.uint8)


def as_array(value: Tensor) -> Array:
    """A tensor as an array of a message."""
    found: Array = value.detach().contiguous().numpy()
    return found


def named(values: Mapping[str, Tensor]) -> list[NamedArray]:
    """Tensors as arrays of a message."""
    return [(name, as_array(value)) for name, value in values.items()]


def refusal(meaning: Remedy, text: str, **others: Any) -> TableMessage:
    """The answer that says what is wrong with a call."""
    told = {"meaning": meaning, "text": text, **others}
    return TableMessage(Kind.REFUSAL, arrays=[text_array(told)])
