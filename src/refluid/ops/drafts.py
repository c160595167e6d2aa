"""Operators on their way: what decorators said of each, until somebody asks for its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from refluid.ir import schema
from refluid.ir.operator import Operator
from refluid.ops.definition import OperatorDef
from refluid.ops.facts import Facts, check
from refluid.ops.nested import Nested
from refluid.ops.signature import Body


class Draft:
    """What has been said of one operator: flags of its decorator, and what else was added.

    make: gives its definition, of what was added.
    """

    def __init__(
        self, make: Callable[..., OperatorDef], flags: Mapping[str, Any], said: dict[str, Any]
    ) -> None:
        self.make, self.flags, self.said = make, flags, said

    def built(self) -> OperatorDef:
        return self.make(**self.said)


_drafts: dict[str, Draft] = {}
_built: dict[str, OperatorDef] = {}


def find(op_type: str) -> OperatorDef | None:
    """The operator of that type, or None."""
    found = _built.get(op_type)
    if found is None and op_type in _drafts:
        found = _built.setdefault(op_type, _drafts[op_type].built())
    return found


def defined(op_type: str) -> OperatorDef:
    """The operator of that type; LookupError where there is none."""
    found = find(op_type)
    if found is None:
        raise LookupError(f"there is no operator {op_type!r}")
    return found


_PLAIN = Facts()


def facts_of(op_type: str) -> Facts:
    """What is known of an operator; nothing remarkable of one that nobody knows."""
    return find(op_type) or _PLAIN


def nested_of(op: Operator) -> Nested | None:
    """What an operator does with its block; None of one that has none."""
    definition = find(op.type)
    return None if definition is None else definition.nested


def with_fact(name: str) -> frozenset[str]:
    """The operators in whose decorators a fact stands."""
    return frozenset(op_type for op_type, draft in _drafts.items() if draft.flags.get(name))


def operators() -> list[OperatorDef]:
    """All operators, by name."""
    return [defined(name) for name in sorted(_drafts)]


def add(
    op_type: str, make: Callable[..., OperatorDef], flags: Mapping[str, Any] = {}, **said: Any
) -> None:
    """Begins an operator; ValueError for a second one of the same type, TypeError for what is no
    flag."""
    check(flags)
    schema.register(op_type, lambda: defined(op_type))
    _drafts[op_type] = Draft(make, flags, said)


def drafted(op_type: str) -> bool:
    """Whether there is an operator of that type."""
    return op_type in _drafts


def say(op_type: str, **more: Any) -> None:
    """Adds to what was said of an operator; ValueError once its definition was asked for."""
    if op_type in _built:
        raise ValueError(f"operator {op_type!r} is in use already: nothing can be added to it")
    _drafts[op_type].said |= more


def said(op_type: str, name: str) -> Any:
    """What was said of an operator until now under that name, or None."""
    return _drafts[op_type].said.get(name)


def forget(op_type: str) -> None:
    """Takes an operator out again, so that another may have its name."""
    schema.forget(op_type)
    del _drafts[op_type]
    _built.pop(op_type, None)


Choose = Callable[..., Body | None]


def of_ranks(op_type: str) -> Callable[[Choose], Choose]:
    """Registers a function that gives such a body, for tensors of known ranks.

    It takes a tuple of ranks, an entry for each input slot (None for one that isn't given, or is
    a list), and the attributes as the body does. None where the body is to be called itself. Used
    where autograd watches, and its gradient is Fluid's.
    """

    def decorate(choose: Choose) -> Choose:
        say(op_type, of_ranks=choose)
        return choose

    return decorate


# Updates by gradients and a learning rate.
SteadyStep = Callable[[list[Tensor], float], None]
Prepare = Callable[..., SteadyStep | None]
# Updates by gradients that are rows, and a learning rate of each table: False, and nothing done,
# where these can't be done so.
RowsStep = Callable[[list[Any], list[Tensor]], bool]
PrepareRows = Callable[..., RowsStep | None]


def steady(op_type: str) -> Callable[[Prepare], Prepare]:
    """Registers a function that prepares calls of several operators of that type at once.

    It takes the tensors that stay from call to call (slot -> one of each operator) and attributes
    as the body does, and gives what is called with gradients and learning rate in its stead. None
    where they aren't such that it could.
    """

    def decorate(prepare: Prepare) -> Prepare:
        say(op_type, steady=prepare)
        return prepare

    return decorate


def steady_rows(op_type: str) -> Callable[[PrepareRows], PrepareRows]:
    """Registers a function as `steady` does, for gradients that are rows of tables."""

    def decorate(prepare: PrepareRows) -> PrepareRows:
        say(op_type, steady_rows=prepare)
        return prepare

    return decorate
