"""Random networks of one family each, and what is fed to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import refluid.fluid as fluid
from tests.convert.networks import Network

Random = np.random.RandomState
Case = Callable[[Random], tuple[Callable[[], Network], dict[str, Any]]]
CASES: dict[str, Case] = {}


def case(build: Case) -> Case:
    CASES[build.__name__] = build
    return build


def rows(draw: Random, width: int, longest: int = 6, ids: int = 0) -> Any:
    """Sequences of rows of floats, or of numbers below `ids`."""
    lengths = draw.randint(1, longest + 1, draw.randint(2, 6)).tolist()
    shape = (sum(lengths), width)
    data = draw.randint(0, ids, shape) if ids else draw.uniform(-1, 1, shape).astype("float32")
    return fluid.create_lod_tensor(data, [lengths], fluid.CPUPlace())


def with_lengths(draw: Random, like: Any, width: int, ids: int = 0) -> Any:
    lengths = like.recursive_sequence_lengths()
    shape = (sum(lengths[0]), width)
    data = draw.randint(0, ids, shape) if ids else draw.uniform(-1, 1, shape).astype("float32")
    return fluid.create_lod_tensor(data, lengths, fluid.CPUPlace())


def pick(draw: Random, *choices: Any) -> Any:
    return choices[draw.randint(len(choices))]


def floats(draw: Random, *shape: int) -> Any:
    return draw.uniform(-1, 1, shape).astype("float32")
