"""Under which names the values of all replicas stand in the source of a joined step."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from refluid.ir.operator import Operator
from refluid.kernels.calls import FAST
from refluid.runtime.joined.align import Joint, Unlike
from refluid.runtime.joined.differing import Differing
from refluid.runtime.joined.exchange import each, stack, total
from refluid.runtime.joined.lines import Meaning
from refluid.runtime.joined.rules import name_of
from refluid.runtime.recorded.graph import Kernel, Line, Value, values_in
from refluid.runtime.recorded.text import Text


class Names(Text):
    """Lines written so far, and which values have which names.

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
        self.source.constants |= {"stack": stack, "total": total, "each": each}
        self.size, self.calls = joint.size, 0
        self._joint, self._means, self._differing = joint, means, differing
        self._together = together
        self._ops: list[tuple[str, Operator | None]] = []
        self._one: set[Value] = set()
        self._own: set[Value] = set()
        self._parts: set[Value] = set()
        # Matrices for all replicas at once, and transposed ones that are not written down yet.
        self._flats: dict[Value, str] = {}
        self._made_flat: set[Value] = set()
        self._unfolded: set[Value] = set()
        self._tiled: dict[Value, Tensor] = {}
        self._turned: dict[Value, Value] = {}
        self._same: dict[Value, Value] = {}
        self._rank = 0
        self._uses = Counter(value for step in joint.steps for value in set(step.uses))
        steps = joint.steps
        self._written = {place for one in steps if isinstance(one, Kernel) for place in one.writes}
        lines = [one for one in steps if isinstance(one, Line) and means[one].overwrites]
        self._written |= {value.storage or 0 for one in lines for value in one.loads.values()}

    def _say(self, text: str, op: Operator | None = None) -> None:
        self._ops.append((text, op))
        self.calls += 1

    def _ranks(self) -> Iterator[int]:
        """All ranks; the names of values are those of that replica meanwhile."""
        former = self._rank
        for rank in range(self.size):
            self._rank = rank
            yield rank
        self._rank = former

    def _each(self, value: Value) -> list[str]:
        """The names of all replicas' values."""
        return [self._name(value) for _ in self._ranks()]

    def differs(self, one: Any) -> bool:
        """Whether replicas have different values of it, or of a value in it."""
        return any(value in self._differing for value in values_in(one))

    def _name(self, value: Value) -> str:
        value = self._same.get(value, value)
        if value not in self._differing:
            return super()._name(value)
        if value.constant is not None:
            constant = self._joint.of(value, self._rank).constant
            return self.source.constant(f"k{value.name}_{self._rank}", constant)
        if value not in self._parts:
            self.stacked(value)
            self._parts.add(value)
            names = ", ".join(f"{value.name}_{rank}" for rank in range(self.size))
            self._say(f"{names} = {value.name}.unbind(0)")
        return f"{value.name}_{self._rank}"

    def written(self, one: Any) -> str:
        """Anything that is the same in all replicas."""
        return self._of(one)

    def stacked(self, value: Value, rank: int | None = None) -> str:
        """The values of all replicas as one tensor."""
        value = self._same.get(value, value)
        if value not in self._differing:
            return super()._name(value)
        name = value.name
        if value in self._turned and value not in self._one:
            base = self._turned[value]
            self._say(f"{name} = {self.stacked(base)}.mT")
            self._one.add(value)
            self._own |= {value} if base in self._own else set()
        if value in self._made_flat and value not in self._unfolded:
            assert value.layout is not None
            self._unfolded.add(value)
            shape = ", ".join(map(str, (self.size, *value.layout.shape)))
            self._say(f"{name} = {name}_f.view({shape})")
        if value not in self._one:
            if value not in self._parts and value.constant is None:
                raise Unlike("a value differs that replicas do not make each for themselves")
            parts = self._each(value)
            if value.storage in self._written or value.constant is not None:
                name = f"stack([{', '.join(parts)}])"
            else:
                self._one.add(value)
                self._say(f"{name} = stack([{', '.join(parts)}])")
        assert value.layout is not None
        missing = 0 if rank is None else rank - len(value.layout.shape)
        return f"{name}[:, {'None, ' * missing}]" if missing > 0 else name

    def flat(self, value: Value) -> str:
        """The rows of all replicas' matrices as one matrix."""
        if value not in self._flats:
            text = f"{self.stacked(value)}.flatten(0, 1)"
            if value.storage in self._written:
                return text
            self._flats[value] = f"{value.name}_f"
            self._say(f"{value.name}_f = {text}")
        return self._flats[value]

    def flat_columns(self, value: Value) -> str:
        """The columns of all replicas' matrices as one matrix."""
        base = self._turned.get(value)
        if base is not None:
            return f"{self.flat(base)}.t()"
        return f"{self.stacked(value)}.transpose(0, 1).flatten(1)"

    def made_flat(self, value: Value, call: str) -> str:
        """Writes down that a call makes the rows of all replicas; "" as there is no more to say."""
        self._flats[value] = f"{value.name}_f"
        self._made_flat.add(value)
        self._say(f"{value.name}_f = {call}")
        return ""

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
                value in self._one and value.storage not in self._written
            )
            return shape[0] if len(shape) == 2 and (known or not old) else -1
        if len(shape) < 2:
            return 0
        return shape[0] if len(shape) == 2 and value.constant is not None else -1

    def rows(self, one: Any) -> str:
        """A matrix of the rows of all replicas, or what goes with any."""
        if not isinstance(one, Value) or (one.layout and len(one.layout.shape) < 2):
            return self.written(one)
        if one in self._differing:
            return self.flat(one)
        assert isinstance(one.constant, Tensor)
        tiled = self._tiled.setdefault(one, one.constant.repeat(self.size, 1))
        return self.source.constant(f"k{one.name}_f", tiled)

    def call(self, kernel: Kernel, *arguments: str) -> str:
        """A call of the kernel, with other arguments than those recorded."""
        name = name_of(kernel).split("::")[-1]
        function = kernel.func if "out" in kernel.kwargs else FAST.get(name, kernel.func)
        return f"{self.source.constant(f'{name}_kernel', function)}({', '.join(arguments)})"

    def _free_after_last_use(self) -> None:
        found = []
        last: dict[str, int] = {}
        for number, (text, _) in enumerate(self._ops):
            nodes = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Name)]
            names = {one.id for one in nodes if one.id.startswith("z") and one.id[1:2].isdigit()}
            last |= dict.fromkeys(names - self.source.constants.keys(), number)
            found.append(names)
        for number, (text, op) in enumerate(self._ops):
            for part in text.splitlines():
                self.source.add(part, op)
            dead = sorted(name for name in found[number] if last.get(name) == number)
            if dead and number < len(self._ops) - 1:
                self.source.add(f"del {', '.join(dead)}")
