"""Under which names the values of all replicas stand in a joined step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from refluid.ir.operator import Operator
from refluid.runtime.joined.align import Joint, Unlike
from refluid.runtime.joined.differing import Differing
from refluid.runtime.joined.exchange import each, stack, total
from refluid.runtime.joined.lines import Meaning
from refluid.runtime.recorded.graph import Kernel, Line, Value, values_in
from refluid.runtime.recorded.text import Text
from refluid.runtime.steps import Bind, Free, Step
from refluid.runtime.trees import Formula, Name, Reference, Tree, called, method

# What a rule gives that wrote its call down itself.
WRITTEN = Formula("", ())


class Names(Text):
    """Steps written so far, and which values have which names.

    `_one` has the values that one tensor holds for all replicas, `_own` those of them that lie
    there and nowhere else; `_parts` has those of which each replica's has a name.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        joint: Joint,
        means: Mapping[Line, Meaning],
        differing: Differing,
        *,
        together: bool,
    ) -> None:
        super().__init__(namespace)
        self._stack = self.source.constant("stack", stack)
        self._total = self.source.constant("total", total)
        self._copies = self.source.constant("each", each)
        self.size, self.calls = joint.size, 0
        self._joint, self._means, self._differing = joint, means, differing
        self._together = together
        self._steps: list[Step] = []
        self._plans_own: set[Reference] = set()
        self._one: set[Value] = set()
        self._own: set[Value] = set()
        self._parts: set[Value] = set()
        # Matrices for all replicas at once, and transposed ones that are not written down yet.
        self._flats: dict[Value, Name] = {}
        self._made_flat: set[Value] = set()
        self._unfolded: set[Value] = set()
        self._tiled: dict[Value, Tensor] = {}
        self._turned: dict[Value, Value] = {}
        self._same: dict[Value, Value] = {}
        self._empties: dict[Value, Tensor] = {}
        self._rank = 0

    def _say(self, step: Step) -> None:
        self._steps.append(step)
        self.calls += 1

    def _set(self, target: Tree, value: Tree, op: Operator | None = None) -> None:
        self._say(Bind(target, value, op=op))

    def _ranks(self) -> Iterator[int]:
        """All ranks; the names of values are those of that replica meanwhile."""
        former = self._rank
        for rank in range(self.size):
            self._rank = rank
            yield rank
        self._rank = former

    def _each(self, value: Value) -> list[Tree]:
        """All replicas' values."""
        return [self._name(value) for _ in self._ranks()]

    def _of_each(self, value: Value) -> tuple[Name, ...]:
        """The names under which replicas hold a value of their own."""
        return tuple(Name(f"{value.name}_{rank}") for rank in range(self.size))

    def differs(self, one: Any) -> bool:
        """Whether replicas have different values of it, or of a value in it."""
        return any(value in self._differing for value in values_in(one))

    def _name(self, value: Value) -> Tree:
        value = self._same.get(value, value)
        if value not in self._differing:
            return super()._name(value)
        if value.constant is not None:
            constant = self._joint.of(value, self._rank).constant
            return self.source.constant(f"k{value.name}_{self._rank}", constant)
        if value not in self._parts:
            self.stacked(value)
            self._parts.add(value)
            self._set(self._of_each(value), method(Name(value.name), "unbind", 0))
        return self._of_each(value)[self._rank]

    def written(self, one: Any) -> Tree:
        """Anything that is the same in all replicas."""
        return self._of(one)

    def stacked(self, value: Value, rank: int | None = None) -> Tree:
        """The values of all replicas as one tensor."""
        value = self._same.get(value, value)
        if value not in self._differing:
            return super()._name(value)
        name: Tree = Name(value.name)
        if value in self._turned and value not in self._one:
            base = self._turned[value]
            self._set(name, Formula("{}.mT", (self.stacked(base),)))
            self._one.add(value)
            self._own |= {value} if base in self._own else set()
        if value in self._made_flat and value not in self._unfolded:
            assert value.layout is not None
            self._unfolded.add(value)
            self._set(name, method(_flat_name(value), "view", self.size, *value.layout.shape))
        if value not in self._one:
            if value not in self._parts and value.constant is None:
                raise Unlike("a value differs that replicas do not make each for themselves")
            parts = called(self._stack, self._each(value))
            if value.storage in self._differing.written or value.constant is not None:
                name = parts
            else:
                self._one.add(value)
                self._set(name, parts)
        assert value.layout is not None
        missing = 0 if rank is None else rank - len(value.layout.shape)
        return Formula(f"{{}}[:, {'None, ' * missing}]", (name,)) if missing > 0 else name

    def flat(self, value: Value) -> Tree:
        """The rows of all replicas' matrices as one matrix."""
        if value not in self._flats:
            rows = method(self.stacked(value), "flatten", 0, 1)
            if value.storage in self._differing.written:
                return rows
            self._flats[value] = _flat_name(value)
            self._set(_flat_name(value), rows)
        return self._flats[value]

    def flat_columns(self, value: Value) -> Tree:
        """The columns of all replicas' matrices as one matrix."""
        base = self._turned.get(value)
        if base is not None:
            return method(self.flat(base), "t")
        return method(method(self.stacked(value), "transpose", 0, 1), "flatten", 1)

    def made_flat(self, value: Value, call: Tree) -> Tree:
        """Writes down that a call makes the rows of all replicas."""
        self._flats[value] = _flat_name(value)
        self._made_flat.add(value)
        self._set(_flat_name(value), call)
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
        if value in self._differing:
            old = value in self._one or value in self._parts
            known = value in self._flats or (
                value in self._one and value.storage not in self._differing.written
            )
            return shape[0] if len(shape) == 2 and (known or not old) else -1
        if len(shape) < 2:
            return 0
        return shape[0] if len(shape) == 2 and value.constant is not None else -1

    def rows(self, one: Any) -> Tree:
        """A matrix of the rows of all replicas, or what goes with any."""
        if not isinstance(one, Value) or (one.layout and len(one.layout.shape) < 2):
            return self.written(one)
        if one in self._differing:
            return self.flat(one)
        assert isinstance(one.constant, Tensor)
        tiled = self._tiled.setdefault(one, one.constant.repeat(self.size, 1))
        return self.source.constant(f"k{one.name}_f", tiled)

    def call(self, kernel: Kernel, *arguments: Tree, **options: Tree) -> Tree:
        """A call of the kernel, with other arguments than those recorded."""
        function = self._function(kernel.func, kernel.kwargs, kernel.op)
        return called(function, *arguments, **options)

    def _free_after_last_use(self) -> None:
        found = [
            {one for one in step.reads | step.writes if isinstance(one, Name)} - self._plans_own
            for step in self._steps
        ]
        last = {name: number for number, names in enumerate(found) for name in names}
        for number, step in enumerate(self._steps):
            self.source.add(step)
            dead = sorted(name for name in found[number] if last[name] == number)
            if dead and number < len(self._steps) - 1:
                self.source.add(Free(tuple(dead)))


def _flat_name(value: Value) -> Name:
    return Name(f"{value.name}_f")
