"""What a recording consists of: values, kernel calls and lines that stay as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from refluid.ir.operator import Operator
from refluid.kernels.watching import OpOverload, makes_several
from refluid.runtime.steps import Call, Step
from refluid.runtime.trees import ROW, Formula, Name, entry, leaves, mapped


@dataclass(frozen=True)
class Layout:
    """Shape, strides, element type and device of a tensor."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def empty(self) -> Tensor:
        """A tensor like that."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)

    @property
    def is_dense(self) -> bool:
        """Whether it has each element of its memory once, in whatever order."""
        pairs = zip(self.shape, self.stride, strict=True)
        return 1 + sum((size - 1) * by for size, by in pairs) == self.shape.numel()

    @property
    def is_ordered(self) -> bool:
        """Whether it fills its memory, and might do so in another order of its dimensions."""
        return sum(size > 1 for size in self.shape) > 1 and self.is_dense


@dataclass(eq=False)
class Value:
    """One tensor (a storage seen with one geometry), or another object, of a recorded step.

    `storage` numbers the memory, None for other objects; `layout` is what such a tensor is made
    of; `constant` is the tensor itself where it is the same in every step, or the entry of the
    row that holds it. `plain`: an object through which no tensor can be reached. `settled`: the
    shapes of what is fed decide the shape of the tensor, or the object itself. `certain`: they
    decide the elements too, as of what is computed from shapes alone.
    """

    name: str
    storage: int | None = None
    layout: Layout | None = None
    constant: Tensor | Entry | None = None
    plain: bool = False
    settled: bool = True
    certain: bool = False


@dataclass(frozen=True)
class Entry:
    """What follows from the sizes of what is fed: where it stands in the row of those sizes."""

    position: int

    @property
    def found(self) -> Formula:
        """The expression that finds it."""
        return entry(ROW, self.position)


@dataclass(eq=False)
class Kernel:
    """A call of an ATen operator; `args` and `kwargs` hold `Value`s where tensors were."""

    func: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: list[Value | None]
    writes: frozenset[int]
    op: Operator | None = None

    @cached_property
    def uses(self) -> tuple[Value, ...]:
        """The values it reads."""
        return tuple(values_in((self.args, self.kwargs)))

    def take(self, others: Mapping[Value, Value]) -> None:
        """Reads other values, where there are others."""
        if others.keys().isdisjoint(self.uses):
            return

        def leaf(one: Any) -> Any:
            return others.get(one, one) if isinstance(one, Value) else one

        self.args, self.kwargs = mapped((self.args, self.kwargs), leaf)
        del self.uses

    @property
    def name(self) -> str:
        """The operator's name, without its overload."""
        return str(self.func.overloadpacket.__name__)

    @property
    def is_sized(self) -> bool:
        """Whether a number in its arguments follows from the sizes of what is fed."""
        return any(isinstance(leaf, Entry) for leaf in leaves((self.args, self.kwargs)))

    @property
    def makes_several(self) -> bool:
        """Whether it returns several tensors, or a list of them."""
        return makes_several(self.func)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return torch.Tag.nondeterministic_seeded in self.func.tags


@dataclass(eq=False)
class Line:
    """A step of the plan that is kept: its local variables and the values they stand for."""

    step: Step
    loads: dict[Name, Value]
    stores: dict[Name, Value]

    @property
    def op(self) -> Operator | None:
        """The operator that it belongs to."""
        return self.step.op

    @property
    def uses(self) -> Iterator[Value]:
        """The values it reads."""
        yield from self.loads.values()

    @property
    def outs(self) -> list[Value | None]:
        """The values it makes."""
        return list(self.stores.values())

    @property
    def may_write(self) -> bool:
        """Whether it might write what it gets: only calls without effects say that they don't."""
        step = self.step
        return type(step) is not Call or bool(step.effects or step.overwrites)

    @property
    def writes_anything(self) -> bool:
        """Whether it gets an object that may lead to tensors nobody sees here."""
        return any(one.storage is None and not one.plain for one in self.loads.values())


@dataclass(eq=False)
class Compiled:
    """Kernels that one compiled function replaces; it returns what it writes or makes."""

    function: Callable[..., Any]
    ins: list[Value]
    outs: list[Value | None]
    op: Operator | None = None

    @property
    def uses(self) -> Iterator[Value]:
        """The values it reads."""
        yield from self.ins


Part = Kernel | Line


class Versions:
    """How often memory was written, or handed to a line that may write it, by the steps so far."""

    def __init__(self) -> None:
        self._counts: Counter[int | None] = Counter()
        self._all = 0

    def note(self, step: Part) -> None:
        """One more step."""
        if isinstance(step, Kernel):
            self._counts.update(step.writes)
        else:
            self._counts.update(value.storage for value in step.loads.values())
            self._all += step.writes_anything

    def of(self, value: Value) -> tuple[int, int]:
        """Equal ones of a value say that nobody has written to it between."""
        return self._counts[value.storage], self._all


def places(values: Iterable[Value | None]) -> set[int]:
    """The memory that they lie in."""
    return {one.storage for one in values if one is not None and one.storage is not None}


def seen_by_kernels_alone(steps: Iterable[Part | Compiled]) -> set[int]:
    """Memory that a kernel of these steps makes, and that nothing but kernels ever sees."""
    made, others = set[int](), set[int]()
    for step in steps:
        used, given = places(step.uses), places(step.outs)
        if isinstance(step, Kernel):
            made |= given - used
        else:
            others |= used | given
    return made - others


def values_in(tree: Any) -> Iterator[Value]:
    """The values in nested tuples, lists and dictionaries."""
    return (leaf for leaf in leaves(tree) if isinstance(leaf, Value))


class Differs(Exception):
    """Trees that should be nested alike are not."""


def replace_together(trees: Sequence[Any], change: Callable[[tuple[Any, ...]], Any]) -> Any:
    """The nesting that all trees have, with `change` applied to the leaves of each place.

    Raises Differs where they are not nested alike, or leaves of one place differ in type.
    """
    first = trees[0]
    if any(type(tree) is not type(first) for tree in trees):
        raise Differs
    if isinstance(first, list | tuple):
        if len({len(tree) for tree in trees}) > 1:
            raise Differs
        rows = zip(*trees, strict=True)
        return type(first)(replace_together(row, change) for row in rows)
    if isinstance(first, dict):
        if any(tree.keys() != first.keys() for tree in trees):
            raise Differs
        return {key: replace_together([tree[key] for tree in trees], change) for key in first}
    return change(tuple(trees))


def equal(one: object, other: object) -> bool:
    """Whether two tensors have the same shape, type and elements; other things are the same one."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
