"""Generators and variables for tests of loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refluid import fluid

CPU = fluid.CPUPlace()


def samples(count: int) -> Callable[[], Iterator[Any]]:
    return lambda: ((np.full(2, one, "float32"), [one]) for one in range(count))


def batches(count: int) -> Callable[[], Iterator[Any]]:
    return lambda: (
        (np.full((3, 2), one, "float32"), np.full((3, 1), one, "int64")) for one in range(count)
    )


def ids(data: Any) -> list[Any]:
    """The labels in what a loader gave, flat: of all places."""
    found = []
    for one in data:
        tensor = one["label"] if isinstance(one, dict) else one[1]
        found += np.array(tensor)[:, 0].tolist()
    return found


def flat(batches: list[list[int]]) -> list[int]:
    return [one for batch in batches for one in batch]


def from_generator(feeds: Any, **options: Any) -> Any:
    return fluid.io.DataLoader.from_generator(feeds, 4, **options)
