"""Calls of kernels in a joined step: one for all replicas where a rule says how."""

from __future__ import annotations

from typing import Any

from refluid.ops.registry import facts_of
from refluid.runtime.joined.align import Unlike
from refluid.runtime.joined.names import Names
from refluid.runtime.joined.rules import RULES, SUMMED, VIEWS, WRITTEN, Rule, name_of
from refluid.runtime.recorded.graph import Kernel, Line, Value
from refluid.runtime.recorded.text import targets
from refluid.runtime.trees import Name, Tree, called


class KernelText(Names):
    """Writes kernels. together: use the rules; without, every replica makes its own calls."""

    def __init__(self, *arguments: Any, together: bool) -> None:
        super().__init__(*arguments, together=together)
        sums = (pair for mean in self._means.values() for pair in mean.pairs)
        self._summed = {given for given, _ in sums if self._is_used_once(given)}
        self._rows = self._sparse_sums()

    def _is_used_once(self, value: Value) -> bool:
        if value.storage is None:
            return self._uses[value] == 1
        alone = sum(one.storage == value.storage for one in self._joint.counterparts) == 1
        return self._uses[value] == 1 and alone and value.storage not in self._written

    def _sparse_sums(self) -> set[Line]:
        """Lines whose sparse gradients are summed over replicas: they can take all ids at once."""
        makers: dict[Value, Line] = {}
        found: set[Line] = set()
        for step in self._joint.steps:
            if not isinstance(step, Line) or step.op is None or len(step.stores) != 1:
                continue
            (out,) = step.stores.values()
            # Rows of the replicas one after the other are the sum over all.
            sparse = facts_of(step.op.type).gives_rows and step.op.attrs.get("is_sparse")
            given = step.loads.values()
            if sparse or (step.op.type == "sum" and all(one in makers for one in given)):
                makers[out] = step
        wanted = [makers[value] for value in self._summed if value in makers]
        while wanted:
            line = wanted.pop()
            parts = list(line.loads.values()) if line.op and line.op.type == "sum" else []
            if all(map(self._is_used_once, parts)) and self._together:
                found.add(line)
                wanted += [makers[value] for value in parts]
        return found

    def _joint_kernel(self, kernel: Kernel) -> None:
        if not any(value in self._differing for value in (*kernel.uses, *kernel.outs) if value):
            self._kernel_of(kernel, "")
            return
        if not (self._together and self._call_together(kernel)):
            if "convolution" in name_of(kernel):
                raise Unlike("convolutions are not computed for all replicas at once")
            for rank in self._ranks():
                self._kernel_of(kernel, f"_{rank}")
            self._parts.update(value for value in kernel.outs if value is not None)

    def _kernel_of(self, kernel: Kernel, suffix: str) -> None:
        """The call as recorded, of one replica or for all."""
        args, kwargs = self._of((kernel.args, kernel.kwargs))
        self._assign(kernel, called(self._function(kernel), *args, **kwargs), suffix)

    def _assign(self, kernel: Kernel, call: Tree, suffix: str) -> None:
        used = set(kernel.uses)
        names = [
            Name(f"{value.name}{suffix}") if value and value not in used else None
            for value in kernel.outs
        ]
        self._set(targets(kernel, names), call, kernel.op)

    def _call_together(self, kernel: Kernel) -> bool:
        outs = [value for value in kernel.outs if value is not None]
        name = name_of(kernel)
        if len(outs) == 1 and outs[0] in self._summed and name in SUMMED:
            call = SUMMED[name](self, kernel)
            if call is not None:
                self._set(Name(outs[0].name), call, kernel.op)
                self._same[outs[0]] = Value(outs[0].name)
                return True
        rule: Rule | None = RULES.get(name)
        if rule is None or kernel.draws or not self._in_place(kernel):
            return False
        first = next(kernel.uses, None)
        views = name in VIEWS
        if name == "t" and first in self._one and outs[0] is not first:
            self._turned[outs[0]] = first
            return True
        if views and (first not in self._one or first is None):
            return False
        call = rule(self, kernel)
        if call is None:
            return False
        if call is not WRITTEN:
            self._assign(kernel, call, "")
        new = {value for value in outs if value not in set(kernel.uses)}
        self._one |= new
        if not views or first in self._own:
            self._own |= new
        return True

    def _in_place(self, kernel: Kernel) -> bool:
        """Whether all memory that the kernel writes is one tensor for all replicas."""
        written = [value for value in kernel.uses if value.storage in kernel.writes]
        return all(value in self._own for value in written) if kernel.writes else True
