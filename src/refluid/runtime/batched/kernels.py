"""One kernel of a batched step: called once for all replicas where that can be, else by each."""

from __future__ import annotations

from torch import Tensor

from refluid.kernels.watching import gives_view, name_of
from refluid.runtime.batched.align import Unlike
from refluid.runtime.batched.by_vmap import batched, empty
from refluid.runtime.batched.rules import SUMMED, rule_of
from refluid.runtime.batched.values import WRITTEN, BatchedValues
from refluid.runtime.recorded.graph import Kernel, Value
from refluid.runtime.recorded.text import targets
from refluid.runtime.trees import IGNORED, Name, Tree, called, mapped


class BatchedKernels:
    """Writes kernels into a batched step. together: once for all where that can be."""

    def __init__(self, values: BatchedValues, *, together: bool) -> None:
        self._to, self._together = values, together
        self._empties: dict[Value, Tensor] = {}

    def write(self, kernel: Kernel) -> None:
        """Adds the calls that stand for the kernel in all replicas."""
        if not any(value in self._to.differing for value in (*kernel.uses, *kernel.outs) if value):
            self._kernel_of(kernel, "")
            return
        if "convolution" in name_of(kernel.func):
            raise Unlike("convolutions are not computed for all replicas at once")
        if not (self._together and self._call_together(kernel)):
            for rank in self._to.ranks():
                self._kernel_of(kernel, f"_{rank}")
            self._to.parts.update(value for value in kernel.outs if value is not None)

    def _kernel_of(self, kernel: Kernel, suffix: str) -> None:
        """The call as recorded, of one replica or for all."""
        args, kwargs = self._to.written((kernel.args, kernel.kwargs))
        self._assign(kernel, self._to.call(kernel, *args, **kwargs), suffix)

    def _assign(self, kernel: Kernel, call: Tree, suffix: str) -> None:
        used = set(kernel.uses)
        names = [
            Name(f"{value.name}{suffix}") if value and value not in used else None
            for value in kernel.outs
        ]
        self._to.set(targets(kernel, names), call, kernel.op)

    def _call_together(self, kernel: Kernel) -> bool:
        outs = [value for value in kernel.outs if value is not None]
        name = name_of(kernel.func)
        if len(outs) == 1 and outs[0] in self._to.differing.summed and name in SUMMED:
            call = SUMMED[name](self._to, kernel)
            if call is not None:
                self._to.set(Name(outs[0].name), call, kernel.op)
                self._to.same[outs[0]] = Value(outs[0].name)
                return True
        if kernel.draws or not self._in_place(kernel):
            return False
        first = next(iter(kernel.uses), None)
        views = gives_view(kernel.func)
        if name == "t" and first in self._to.one and outs[0] is not first:
            self._to.turned[outs[0]] = first
            return True
        if views and first not in self._to.one:
            return False
        rule = rule_of(kernel)
        call = rule(self._to, kernel) if rule is not None else None
        if call is None and not self._batched(kernel):
            return False
        if call is not None and call is not WRITTEN:
            self._assign(kernel, call, "")
        new = set(outs).difference(kernel.uses)
        self._to.one |= new
        if not views or first in self._to.own:
            self._to.own |= new
        return True

    def _batched(self, kernel: Kernel) -> bool:
        """Writes the calls that vmap makes of one; whether there are some."""
        used = list(dict.fromkeys(kernel.uses))
        if any(value.layout is None for value in used):
            return False
        given = {value: self._empty(value) for value in used}
        found = batched(kernel, given, self._to.differing, self._to.size)
        if found is None:
            return False
        calls, results = found
        names: dict[int, Tree] = {id(one): self._to.stacked(value) for value, one in given.items()}
        outs = list(zip(kernel.outs, results, strict=True))
        if any(value in given and one is not given[value] for value, one in outs if value):
            return False  # it overwrites what it is given, its rule doesn't
        ends = {id(one): Name(value.name) for value, one in outs if value and value not in given}
        prefix = next((value.name for value in kernel.outs if value), "between")
        for number, call in enumerate(calls):
            args, kwargs = self._to.written(mapped(call.given, lambda one: names.get(id(one), one)))
            made = call.made if isinstance(call.made, list | tuple) else (call.made,)
            target = [IGNORED] * len(made)
            for place, one in enumerate(made):
                if id(one) not in names:
                    between = Name(f"{prefix}_{number}_{place}")
                    names[id(one)] = target[place] = ends.get(id(one), between)
            several = isinstance(call.made, list | tuple)
            written = called(self._to.spelling.function(call.func, kwargs), *args, **kwargs)
            self._to.set(tuple(target) if several else target[0], written, kernel.op)
        for one, name in ends.items():
            if names[one] != name:  # it is what was given
                self._to.set(name, names[one], kernel.op)
        self._empties |= {value: one for value, one in outs if value}
        return True

    def _empty(self, value: Value) -> Tensor:
        """A tensor without elements like what is given of a value."""
        assert value.layout is not None
        if value not in self._to.differing:
            return empty(value.layout)
        known = self._empties.get(value)
        return empty(value.layout, self._to.size) if known is None else known

    def _in_place(self, kernel: Kernel) -> bool:
        """Whether all memory that the kernel writes is one tensor for all replicas."""
        written = [value for value in kernel.uses if value.storage in kernel.writes]
        return all(value in self._to.own for value in written) if kernel.writes else True
