"""The steps of a plan that calls the kernels of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.core import flags
from refluid.runtime.recorded.gradient_runs import flushing, gradient_runs, keeping
from refluid.runtime.recorded.graph import Compiled, Kernel, Line, Part, Value
from refluid.runtime.recorded.spelling import Spelling
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Clear, Compound, Step
from refluid.runtime.trees import IGNORED, ROW, Name, Tree


class Text:
    """Writes what was recorded as the steps of `step(F, C, L)`."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.to = Spelling(namespace)
        self.to.kept.add(ROW)
        on_cpu = namespace["device"].type == "cpu"
        self._flushes = on_cpu and flags.value("refluid_flushed_gradients")

    def write(self, parts: Sequence[Part | Compiled]) -> PlanSource:
        """All parts; every value is freed after its last use."""
        read = {value for part in parts for value in part.uses}
        begins, ends = gradient_runs(parts) if self._flushes else (set(), set())
        for place, part in enumerate(parts):
            if place in begins:
                self.to.add(flushing(self.to.source))
            self._part(part, read)
            if place in ends:
                self.to.add(keeping(self.to.source))
        return self.to.finished()

    def _part(self, part: Part | Compiled, read: set[Value]) -> None:
        if isinstance(part, Kernel):
            self._kernel(part)
        elif isinstance(part, Compiled):
            self._compiled(part)
        elif isinstance(part.step, Compound):
            self._compound(part, read)
        else:
            names = {name: self.to.plain(value) for name, value in part.loads.items()}
            stores = {name: Name(value.name) for name, value in part.stores.items()}
            self.to.add(with_names(part.step, names, stores))

    def _kernel(self, kernel: Kernel) -> None:
        used = set(kernel.uses)
        new = [value if value and value not in used else None for value in kernel.outs]
        target = targets(kernel, [Name(value.name) if value else None for value in new])
        args, kwargs = self.to.of((kernel.args, kernel.kwargs))
        function = self.to.function(kernel.func, kernel.kwargs, kernel.op)
        self.to.add(Call(target, function, args, kwargs, op=kernel.op))

    def _compiled(self, part: Compiled) -> None:
        function = self.to.source.constant("compiled", part.function)
        names = tuple(Name(value.name) for value in part.outs if value is not None)
        given = tuple(map(self.to.plain, part.ins))
        self.to.add(Call(names or None, function, given, op=part.op))

    def _compound(self, line: Line, read: set[Value]) -> None:
        """A loop or branch may leave names unset, or delete them, in one step and not in another:
        all have a value before it, and none after it."""
        inside = sorted(line.loads.keys() | line.stores.keys())
        self.to.kept |= line.step.reads | line.step.writes
        for name in inside:
            value = self.to.plain(line.loads[name]) if name in line.loads else None
            self.to.add(Bind(name, value))
        self.to.add(line.step)
        for name, value in line.stores.items():
            if value in read:
                self.to.add(Bind(Name(value.name), name))
        if inside:
            self.to.add(Clear(tuple(inside)))


def targets(kernel: Kernel, names: Sequence[Name | None]) -> Tree:
    """What the results of a kernel are assigned to; None where they have no names."""
    if not any(names):
        return None
    if len(names) == 1 and not kernel.makes_several:
        return names[0]
    return tuple(name or IGNORED for name in names)


def with_names(step: Step, taken: Mapping[Name, Tree], given: Mapping[Name, Tree]) -> Step:
    """The step with other names of what it takes and of what it sets."""
    return step.renamed(
        lambda one: taken.get(one, one) if isinstance(one, Name) else one,
        lambda one: given.get(one, one) if isinstance(one, Name) else one,
    )
