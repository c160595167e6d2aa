"""Variables of which all replicas hold the same tensor while they run as one step."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.core.scope import Cell
from refluid.runtime.recorded.graph import equal

Pairs = Sequence[tuple[Cell, Cell]]


class Shared:
    """The variables of other replicas that hold what replica 0's hold.

    Replicas in threads need values of their own: `separate` gives them copies. changes: how
    often tensors became several.
    """

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Cell, Cell]] = {}
        self.changes = 0

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def hold(self, same: Pairs, own: Pairs) -> bool:
        """Makes the `same` variables one tensor each, the `own` ones several.

        False where replicas that ran apart have different values in `same`. What was one tensor
        and is another in replica 0 now, because the user set it, is so in all.
        """
        for first, other in same:
            if other.value is first.value:
                continue
            if id(other) not in self._pairs and not equal(first.value, other.value):
                return False
            other.value = first.value
            self._pairs[id(other)] = first, other
        for first, other in own:
            if other.value is first.value and isinstance(first.value, Tensor):
                other.value = first.value.clone()
                self._pairs.pop(id(other), None)
                self.changes += 1
        return True

    def separate(self) -> None:
        """Gives every replica values of its own.

        What was set in replica 0 is set in all, unless its shape or type is another: then that
        replica's error is the only one, and goes away with the value.
        """
        for first, other in self._pairs.values():
            if _meta(other.value) == _meta(first.value):
                other.value = first.value
            if isinstance(other.value, Tensor):
                other.value = other.value.clone()
        self._pairs.clear()
        self.changes += 1


def _meta(value: object) -> object:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else type(value)
