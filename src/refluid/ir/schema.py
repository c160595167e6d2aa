"""What the IR knows of an operator type: its slots and attributes.

Operators register themselves here (see `refluid.ops.registry`); the IR only looks them up, so
that a program can be read, printed and rewritten without any operator being implemented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from refluid.ir.attributes import AttrType

if TYPE_CHECKING:
    from refluid.ir.checks import Check
    from refluid.ir.operator import Operator


@dataclass(frozen=True)
class Slot:
    """An input or output slot: `many` takes any number of variables, `optional` may be empty.

    checks: what the shape has to be.
    """

    name: str
    many: bool = False
    optional: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Attribute:
    """An attribute with its type and default; `required` ones have none.

    checks: what its value has to be. inner: none of Fluid's; passes set it, programs don't have it.
    """

    name: str
    kind: AttrType
    default: Any = None
    required: bool = False
    checks: tuple[Check, ...] = ()
    inner: bool = False


class OpSchema(Protocol):
    """The facts of one operator type."""

    @property
    def type(self) -> str: ...
    @property
    def inputs(self) -> tuple[Slot, ...]: ...
    @property
    def outputs(self) -> tuple[Slot, ...]: ...
    @property
    def attributes(self) -> dict[str, Attribute]: ...
    @property
    def called(self) -> str: ...

    def infer(self, op: Operator) -> None:
        """Sets shape, element type and LoD level of the operator's output variables."""


_schemas: dict[str, Callable[[], OpSchema]] = {}
_found: dict[str, OpSchema] = {}


def register(op_type: str, schema: Callable[[], OpSchema]) -> None:
    """Makes an operator type known; a second one of the same name is a ValueError.

    schema: gives its facts, when somebody asks for the first time.
    """
    if op_type in _schemas:
        raise ValueError(f"operator {op_type!r} is registered twice")
    _schemas[op_type] = schema


def find(op_type: str) -> OpSchema | None:
    """The schema of an operator type, or None where nobody has registered it."""
    found = _found.get(op_type)
    if found is None and op_type in _schemas:
        found = _found[op_type] = _schemas[op_type]()
    return found


def known() -> Iterable[str]:
    """All registered operator types."""
    return _schemas.keys()


def forget(op_type: str) -> None:
    """Takes a type out again, so that a better definition can replace it."""
    del _schemas[op_type]
    _found.pop(op_type, None)
