"""The variables whose gradients somebody may ask for after `backward`: those still referred to.

torch keeps the gradient of a value that was computed only if it is told to before it computes
gradients, which costs as much as an operator. So results are noted as they are made, and those that
are still there when gradients are computed are told to keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import ref

from torch import Tensor

if TYPE_CHECKING:
    from refluid.eager.tensor import VarBase

_LEAST = 4096


class Live:
    """Results that were made since gradients were last computed.

    keeps_rows: whether rows of gradients are added to variables; not while gradients are asked for
    by `grad`, which changes no variable.
    """

    def __init__(self) -> None:
        self.keeps_rows = True
        self._made: list[ref[Any]] = []
        self._limit = _LEAST

    def add(self, var: VarBase) -> None:
        """A result that takes a gradient."""
        self._made.append(ref(var))
        if len(self._made) > self._limit:
            self._made = [one for one in self._made if one() is not None]
            self._limit = max(_LEAST, 2 * len(self._made))

    @contextmanager
    def dense(self) -> Iterator[None]:
        """Gradients are tensors within the `with`, also those of rows."""
        former, self.keeps_rows = self.keeps_rows, False
        try:
            yield
        finally:
            self.keeps_rows = former

    @contextmanager
    def keep_gradients(self, *, again: bool = False) -> Iterator[None]:
        """Within the block gradients are computed; those that are still there keep theirs.

        again: whether others may be computed of the same values later. All stay until the end of
        the block: torch looks whether one is there, and then takes it, and another thread that lets
        go of the last one who had it in between ends the process.
        """
        made, self._limit = self._made, _LEAST
        there = [var for one in made if (var := one()) is not None]
        values = [value for one in there if _has_gradient(value := one._value)]
        for value in values:
            value.retain_grad()
        self._made = [ref(one) for one in there] if again else []
        yield


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and not value.is_leaf


live = Live()
