"""`DenseTables`: slices of dense parameters on a server, updated by plans of their operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace
from refluid.core.scope import Scope
from refluid.engine.group import Group
from refluid.engine.prepare import prepare
from refluid.engine.strategy import DEFAULT
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.program import Program, copy_op
from refluid.runtime.allocator import count_run


class DenseTables:
    """Variables of a scope, and the operators that update them.

    program: where the blocks stand. updates: gradient -> the block that updates by it, and the
    slice that it updates. schedule: the block that makes learning rates, if any.
    """

    def __init__(
        self,
        program: Program,
        updates: Mapping[str, tuple[Block, str]],
        schedule: Block | None,
        scope: Scope,
    ) -> None:
        self.scope = scope
        self._program, self._updates, self._schedule = program, dict(updates), schedule
        self._group = Group([CPUPlace()])
        self._programs: dict[tuple[str, ...], Program] = {}
        self._copies: Mapping[str, Tensor] | None = None
        self.names = tuple(name for _, name in self._updates.values())
        self._gradient_of = {name: gradient for gradient, (_, name) in self._updates.items()}

    def values(self) -> dict[str, Tensor]:
        """The slices by name, as they are: not copies."""
        return {name: self.value(name) for name in self.names}

    def copies(self) -> Mapping[str, Tensor]:
        """The slices as they are, copied once for all who ask until they change."""
        if self._copies is None:
            self._copies = {name: value.clone() for name, value in self.values().items()}
        return self._copies

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Sets slices. EnforceNotMet where a value doesn't fit; nothing has changed then."""
        for name, value in values.items():
            self.check(name, value)
        for name, value in values.items():
            self.value(name).copy_(value)
        self._copies = None

    def value(self, name: str) -> Tensor:
        """A variable. EnforceNotMet where it has no value."""
        cell = self.scope.find_var(name)
        if cell is None or not isinstance(cell.value, Tensor):
            raise EnforceNotMet(f"{name} has no value: run the server's startup program first")
        value: Tensor = cell.value
        return value

    def schedule(self, steps: int = 1) -> None:
        """Takes the learning rates that many steps on."""
        if self._schedule is not None:
            for _ in range(steps):
                self._run((), (self._schedule,), {})

    def update(self, gradients: Mapping[str, Tensor]) -> None:
        """Updates slices by their gradients, all at once. gradients: by name of the slice."""
        fed = {self.check(name, value): value for name, value in gradients.items()}
        if fed:
            names = tuple(sorted(fed))
            self._run(names, [self._updates[name][0] for name in names], fed)

    def add(self, changes: Mapping[str, Tensor]) -> None:
        """Adds to slices."""
        for name, change in changes.items():
            self.check(name, change)
            self.value(name).add_(change)
        self._copies = None

    def state(self) -> dict[str, Tensor]:
        """All variables that have a value, slices and what optimizers keep: not copies."""
        cells = [self.scope.find_var(name) for name in self.scope.local_var_names()]
        return {cell.name: cell.value for cell in cells if cell and isinstance(cell.value, Tensor)}

    def check(self, name: str, value: Tensor) -> str:
        """The gradient that updates a slice. EnforceNotMet where `value` doesn't fit the slice."""
        found = self._gradient_of.get(name)
        if found is None:
            raise EnforceNotMet(f"this server has no parameter {name!r}")
        own = self.value(name)
        if own.shape != value.shape or own.dtype != value.dtype:
            raise EnforceNotMet(
                f"{name} is {tuple(own.shape)} {own.dtype}, and was sent {tuple(value.shape)} "
                f"{value.dtype}"
            )
        return found

    def _run(self, names: tuple[str, ...], blocks: Sequence[Block], fed: Mapping[str, Any]) -> None:
        program = self._programs.get(names)
        if program is None:
            program = self._programs[names] = _joined(self._program, blocks, names)
        step = prepare(program, names, (), DEFAULT, self._group)
        step.run(self.scope, [fed[name] for name in names])
        count_run()
        self._copies = None


def _joined(program: Program, blocks: Sequence[Block], fed: Sequence[str]) -> Program:
    """A program that runs several blocks one after the other."""
    made = program.clone()
    block = made.global_block()
    for one in blocks:
        block.vars |= {name: var.copy_to(block) for name, var in one.vars.items()}
    Editor(block).assign(copy_op(op, block) for one in blocks for op in one.ops)
    for name in fed:
        block.vars[name].persistable = False
    return made


def mean_of(values: Sequence[Tensor]) -> Tensor:
    """The mean of tensors, added up in their order."""
    total = values[0].clone()
    for value in values[1:]:
        total.add_(value)
    return total.div_(len(values)) if len(values) > 1 else total
