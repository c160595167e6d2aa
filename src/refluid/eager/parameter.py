"""`ParamBase`: a variable with its value, or without it at first, that an optimizer trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refluid.core.all_parameters import note
from refluid.eager.tensor import VarBase

_lazy = 0  # how many `lazily` this is within


@contextmanager
def lazily() -> Iterator[None]:
    """Parameters made within get their first values, and memory for them, by `initialize` alone."""
    global _lazy
    _lazy += 1
    try:
        yield
    finally:
        _lazy -= 1


class ParamBase(VarBase):
    """A `VarBase` that an optimizer trains."""

    counted_elsewhere = False
    _first: Callable[[VarBase], None] | None = None  # gives it its value

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        name: str,
        trainable: bool = True,
        optimize_attr: dict[str, Any] | None = None,
        regularizer: Any = None,
        gradient_clip_attr: Any = None,
        do_model_average: bool | None = None,
        is_distributed: bool = False,
        need_clip: bool = True,
        split_in: int = 0,
        stop_gradient: bool | None = None,
        **_static: Any,
    ) -> None:
        stops = not trainable if stop_gradient is None else stop_gradient
        super().__init__(name=name, stop_gradient=stops, persistable=True, dtype=dtype, shape=shape)
        self.optimize_attr = {"learning_rate": 1.0} if optimize_attr is None else optimize_attr
        self.regularizer = regularizer
        self.gradient_clip_attr = gradient_clip_attr
        self.do_model_average = do_model_average
        self.is_distributed = is_distributed
        self.need_clip = need_clip
        self.split_in = split_in
        note(self)

    def begin(self, first: Callable[[VarBase], None]) -> None:
        """Has it given its first value, now or when `initialize` asks for it."""
        if _lazy:
            self._first = first
        else:
            first(self)

    def initialize(self) -> None:
        """Gives a parameter that was made lazily its first value. AssertionError if it has one."""
        first, self._first = self._first, None
        assert first is not None, (
            f"parameter {self.name!r} was made with its value, or has it by now"
        )
        trainable = self.trainable
        first(self)
        self.trainable = trainable

    @property
    def trainable(self) -> bool:
        """Whether it is trained."""
        return not self._stops

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self.stop_gradient = not trainable
