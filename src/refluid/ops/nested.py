"""Operators that run a block: what enters it, what it leaves, and what its gradient is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from refluid.ir.attributes import AttrType
from refluid.ir.operator import Operator
from refluid.ir.schema import Attribute

BLOCK = Attribute("sub_block", AttrType.BLOCK, required=True)
SKIP = Attribute("skip_eager_deletion_vars", AttrType.STRINGS, [])

# (name at the start of a round, name at the end of the former round).
Carried = Sequence[tuple[str, str]]


class Gradients(Protocol):
    """What a gradient operator is made of, its gradient block being finished."""

    @property
    def known(self) -> Collection[str]:
        """Outputs of the forward operator that have a gradient."""

    @property
    def read(self) -> list[str]:
        """Variables whose gradients the block takes from outside, in order of first use."""

    def of(self, variable: str) -> str:
        """Name of the gradient of an outer variable."""

    def given(self, outputs: Iterable[str]) -> list[str]:
        """Gradients of outputs that are there, or that are zeros where gradients are stopped."""

    def made(self, names: Iterable[str], inner: Iterable[str] | None = None) -> list[str]:
        """Gradients of outer variables, which the block knows by the names `inner`."""


@dataclass(frozen=True)
class BlockGradient:
    """The gradient operator, `type_grad`: its slots, and the gradients that flow into it.

    attrs: its attributes beside the block, None for those of the forward operator. lists: more.
    """

    inputs: Mapping[str, Sequence[str]]
    outputs: Mapping[str, Sequence[str]]
    given: list[str]
    attrs: Mapping[str, Any] | None = None
    lists: Mapping[str, list[str]] = field(default_factory=dict)


def _every(op: Operator, known: set[str]) -> set[str]:
    return known


def _nothing(op: Operator) -> Carried:
    return ()


@dataclass(frozen=True)
class Nested:
    """What an operator does with its block.

    - `record`: output slot of what the runs of the block leave for its gradient block.
    - `gradient`: makes its gradient operator; None where it has none.
    - `entering`: whose gradients enter the gradient block, of the outputs that have one.
    - `carried`: what the block hands from one round to the next.
    - `stepped`: input slot of variables of which the block sees a time step (axis 0) at once.
    - `stacked`: output slot of values that the block makes a time step of at once.
    - `branches`: the block runs once or not at all.
    """

    record: str = ""
    gradient: Callable[[Operator, Gradients], BlockGradient] | None = None
    entering: Callable[[Operator, set[str]], set[str]] = _every
    carried: Callable[[Operator], Carried] = _nothing
    stepped: str = ""
    stacked: str = ""
    branches: bool = False
