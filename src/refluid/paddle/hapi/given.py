"""What users give a `Model`, as lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refluid.ir.variable import Variable
from refluid.paddle.static.specs import InputSpec


def listed(given: Any) -> list[Any]:
    """A list of one, of several, or of nothing for None."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def specs(given: Any, of: str) -> list[InputSpec]:
    """Descriptions of what a network is given. TypeError for anything else."""
    found = list(given.values()) if isinstance(given, Mapping) else listed(given)
    if isinstance(given, Mapping):
        for name, one in given.items():
            one.name = one.name or name
    for number, one in enumerate(found):
        if not isinstance(one, InputSpec):
            raise TypeError(f"{of} of paddle.Model are InputSpec, not {type(one).__name__}")
        if one.name is None:
            one.name = f"{of.rstrip('s')}_{number}" if len(found) > 1 else of.rstrip("s")
    return found


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """An array, of a variable too."""
    return value.numpy() if isinstance(value, Variable) else np.asarray(value)


def parted(batch: Any, count: int | None) -> tuple[list[Any], list[Any]]:
    """Inputs and labels of a batch. count: how many are inputs; all but the last where None."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    values = listed(batch)
    inputs = max(len(values) - 1, 1) if count is None else count
    return values[:inputs], values[inputs:]


def size_of(values: Sequence[Any]) -> int:
    """How many samples a batch has."""
    shape = getattr(values[0], "shape", None) if values else None
    sizes = shape() if callable(shape) else shape
    return int(sizes[0]) if sizes else len(values)
