"""How the values of all replicas stand in the batched step: under which names, in which tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from refluid.ir.operator import Operator
from refluid.runtime.batched.align import Aligned, Unlike
from refluid.runtime.batched.differing import Differing
from refluid.runtime.batched.exchange import stack
from refluid.runtime.recorded.graph import Kernel, Value, values_in
from refluid.runtime.recorded.spelling import Spelling
from refluid.runtime.steps import Bind
from refluid.runtime.trees import Formula, Name, Tree, called, method

# What a rule gives that wrote its call down itself.
WRITTEN = Formula("", ())


class BatchedValues:
    """What holds which values, in the steps that `spelling` has so far.

    one: values that one tensor holds for all replicas; own: those of them that lie there and
    nowhere else. parts: those of which each replica's has a name. turned: transposed matrices that
    are not written down yet. same: values that are another one.
    """

    def __init__(
        self, namespace: Mapping[str, Any], aligned: Aligned, differing: Differing
    ) -> None:
        self.spelling = Spelling(namespace, self.name)
        self.size, self.aligned, self.differing = aligned.size, aligned, differing
        self.one: set[Value] = set()
        self.own: set[Value] = set()
        self.parts: set[Value] = set()
        self.turned: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}
        # Matrices for all replicas at once.
        self._flats: dict[Value, Name] = {}
        self._made_flat: set[Value] = set()
        self._unfolded: set[Value] = set()
        self._tiled: dict[Value, Tensor] = {}
        self._stack = self.spelling.source.constant("stack", stack)
        self._rank = 0

    def set(self, target: Tree, value: Tree, op: Operator | None = None) -> None:
        """Adds `target = value`."""
        self.spelling.add(Bind(target, value, op=op))

    def ranks(self) -> Iterator[int]:
        """All ranks; the names of values are those of that replica meanwhile."""
        former = self._rank
        for rank in range(self.size):
            self._rank = rank
            yield rank
        self._rank = former

    def each(self, value: Value) -> list[Tree]:
        """All replicas' values."""
        return [self.name(value) for _ in self.ranks()]

    def of_each(self, value: Value) -> tuple[Name, ...]:
        """The names under which replicas hold a value of their own."""
        return tuple(Name(f"{value.name}_{rank}") for rank in range(self.size))

    def differs(self, one: Any) -> bool:
        """Whether replicas have different values of it, or of a value in it."""
        return any(value in self.differing for value in values_in(one))

    def name(self, value: Value) -> Tree:
        """A value in a step, as that of the present rank where they differ."""
        value = self.same.get(value, value)
        if value not in self.differing:
            return self.spelling.plain(value)
        if value.constant is not None:
            constant = self.aligned.of(value, self._rank).constant
            return self.spelling.source.constant(f"k{value.name}_{self._rank}", constant)
        if value not in self.parts:
            self.stacked(value)
            self.parts.add(value)
            self.set(self.of_each(value), method(Name(value.name), "unbind", 0))
        return self.of_each(value)[self._rank]

    def written(self, one: Any) -> Tree:
        """Anything that is the same in all replicas."""
        return self.spelling.of(one)

    def stacked(self, value: Value, rank: int | None = None) -> Tree:
        """The values of all replicas as one tensor."""
        value = self.same.get(value, value)
        if value not in self.differing:
            return self.spelling.plain(value)
        name: Tree = Name(value.name)
        if value in self.turned and value not in self.one:
            base = self.turned[value]
            self.set(name, Formula("{}.mT", (self.stacked(base),)))
            self.one.add(value)
            self.own |= {value} if base in self.own else set()
        if value in self._made_flat and value not in self._unfolded:
            assert value.layout is not None
            self._unfolded.add(value)
            self.set(name, method(_flat_name(value), "view", self.size, *value.layout.shape))
        if value not in self.one:
            if value not in self.parts and value.constant is None:
                raise Unlike("a value differs that replicas do not make each for themselves")
            parts = called(self._stack, self.each(value))
            if value.storage in self.differing.written or value.constant is not None:
                name = parts
            else:
                self.one.add(value)
                self.set(name, parts)
        assert value.layout is not None
        missing = 0 if rank is None else rank - len(value.layout.shape)
        return Formula(f"{{}}[:, {'None, ' * missing}]", (name,)) if missing > 0 else name

    def flat(self, value: Value) -> Tree:
        """The rows of all replicas' matrices as one matrix."""
        if value not in self._flats:
            rows = method(self.stacked(value), "flatten", 0, 1)
            if value.storage in self.differing.written:
                return rows
            self._flats[value] = _flat_name(value)
            self.set(_flat_name(value), rows)
        return self._flats[value]

    def flat_columns(self, value: Value) -> Tree:
        """The columns of all replicas' matrices as one matrix."""
        base = self.turned.get(value)
        if base is not None:
            return method(self.flat(base), "t")
        return method(method(self.stacked(value), "transpose", 0, 1), "flatten", 1)

    def made_flat(self, value: Value, call: Tree) -> Tree:
        """Writes down that a call makes the rows of all replicas."""
        self._flats[value] = _flat_name(value)
        self._made_flat.add(value)
        self.set(_flat_name(value), call)
        return WRITTEN

    def is_flat(self, kernel: Kernel) -> bool:
        """Whether the kernel can be called with matrices of the rows of all replicas."""
        given, outs = list(kernel.uses), list(kernel.outs)
        rows = {self._rows_of(value) for value in (*given, *outs)} - {0}
        written = [value for value in given if value.storage in kernel.writes]
        return len(rows) == 1 and -1 not in rows and all(v in self._made_flat for v in written)

    def _rows_of(self, value: Value | None) -> int:
        """The rows of one replica's matrix, 0 for what any matrix goes with, -1 for all others."""
        if value is None or value.layout is None:
            return -1
        shape = value.layout.shape
        if value in self.differing:
            old = value in self.one or value in self.parts
            known = value in self._flats or (
                value in self.one and value.storage not in self.differing.written
            )
            return shape[0] if len(shape) == 2 and (known or not old) else -1
        if len(shape) < 2:
            return 0
        return shape[0] if len(shape) == 2 and value.constant is not None else -1

    def rows(self, one: Any) -> Tree:
        """A matrix of the rows of all replicas, or what goes with any."""
        if not isinstance(one, Value) or (one.layout and len(one.layout.shape) < 2):
            return self.written(one)
        if one in self.differing:
            return self.flat(one)
        assert isinstance(one.constant, Tensor)
        tiled = self._tiled.setdefault(one, one.constant.repeat(self.size, 1))
        return self.spelling.source.constant(f"k{one.name}_f", tiled)

    def call(self, kernel: Kernel, *arguments: Tree, **options: Tree) -> Tree:
        """A call of the kernel, with other arguments than those recorded."""
        function = self.spelling.function(kernel.func, kernel.kwargs, kernel.op)
        return called(function, *arguments, **options)


def _flat_name(value: Value) -> Name:
    return Name(f"{value.name}_f")
