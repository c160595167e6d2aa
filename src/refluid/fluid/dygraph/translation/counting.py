"""What loops over tensors go through: so many elements, each found by its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from refluid.fluid.dygraph.translation.declaring import is_array
from refluid.fluid.dygraph.translation.values import TensorArray, is_tensor
from refluid.fluid.functions.control.arrays import array_length, array_read
from refluid.fluid.functions.tensor.assignment import cast
from refluid.fluid.functions.tensor.shaping import shape as shape_of


@dataclass(frozen=True)
class Counted:
    """What a loop over a tensor goes through. size: how many elements. element: the one of a place.

    start, step: of the places.
    """

    size: Any
    element: Callable[[Any], Any]
    start: Any = 0
    step: Any = 1


def counted(items: Any) -> Any:
    """What is gone through in the program; anything else as it is."""
    if isinstance(items, TensorArray):
        return Counted(items.length(), items.__getitem__)
    if is_array(items):
        return Counted(array_length(items), lambda place: array_read(items, place))
    if is_tensor(items):
        if not items.shape:
            raise TypeError("a tensor without dimensions can't be looped over")
        size = items.shape[0]
        known = size if size >= 0 else cast(shape_of(items)[0], "int64")
        return Counted(known, lambda place: items[place])
    return items
