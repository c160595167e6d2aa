"""What layers with parameters share: bias and activation after the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from refluid.build import op
from refluid.core.whole import elements, is_whole
from refluid.eager import KeptAttributes, ParamBase
from refluid.fluid.dygraph.layers import Layer


def several(value: int | Sequence[int], count: int, what: str) -> list[int]:
    """A size for each dimension, of one for all or of as many."""
    return [value] * count if is_whole(value) else elements(value, what)


class Following(Layer):
    """A layer whose operator does what is set on the layer later, under Fluid's names.

    _followed: the operator's attribute for each of these names, `_stride` being `strides`.
    """

    _followed: ClassVar[dict[str, str]] = {}
    _options: dict[str, Any]

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._followed and "_options" in vars(self):
            self._follow(self._followed[name], value)

    def _follow(self, attribute: str, value: Any) -> None:
        self._options = KeptAttributes(self._options | {attribute: value})


class FormerNames(Layer):
    """A layer whose parameters have the names that Fluid 1.5 and 1.6 had for them, too.

    _former: the name of today for each. One that is given a variable which is no parameter, as
    tables of positions are, uses that from then on.
    """

    _former: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        known = self._former.get(name)
        return super().__getattr__(name) if known is None else getattr(self, known)

    def __setattr__(self, name: str, value: Any) -> None:
        known = self._former.get(name)
        if known is None or isinstance(value, ParamBase):
            super().__setattr__(known or name, value)
        else:
            vars(self)[known] = value


class Activated(Following):
    """A layer whose result gets a bias and an activation."""

    def __init__(self, dtype: Any, act: str | None, name_scope: str | None = None) -> None:
        super().__init__(name_scope, dtype)
        if act is not None and not isinstance(act, str):
            raise TypeError(f"{act!r} is no activation; give the name of one, such as 'relu'")
        self._act = act

    def _finished(self, out: Any, bias: Any, axis: int) -> Any:
        """Bias added along `axis`, and the activation."""
        if bias is not None:
            out = op("elementwise_add", {"X": out, "Y": bias}, {"axis": axis})
        return self._activated(out)

    def _activated(self, out: Any) -> Any:
        return out if self._act is None else op(self._act, {"X": out})
