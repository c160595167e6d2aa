"""`desc` of programs and their parts: what Fluid's modules describe them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_makers: dict[type, Callable[[Any], Any]] = {}


def describe_by(makers: Mapping[type, Callable[[Any], Any]]) -> None:
    """Says what makes the description of each kind of part."""
    _makers.update(makers)


class Described:
    """A program or a part of one."""

    @property
    def desc(self) -> Any:
        """It as Fluid's description of it: `core.Graph(program.desc)`, `op.desc.set_type(..)`."""
        return next(_makers[kind] for kind in type(self).__mro__ if kind in _makers)(self)
