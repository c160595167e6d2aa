"""`Declaring`: layers append operators to a program, with variables of dygraph as its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch

from refluid.build import Blocks, backend, using
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.eager import ParamBase, VarBase
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable


class Declaring(Blocks):
    """Appends to the default main program.

    callee: what is called for a function. held: variables of dygraph that the program takes, by
    their names in it. trying: how many trials this is within.
    """

    def __init__(self, callee: Callable[[Any], Any]) -> None:
        super().__init__()
        self.callee = callee
        self.held: dict[str, VarBase] = {}
        self._declared: dict[int, Variable] = {}
        self.trying = 0

    def at(self, block: Block) -> Declaring:
        other = copy(self)
        other._block = block
        return other

    def declared(self, var: VarBase) -> Variable:
        """The program's variable for one of dygraph."""
        found = self._declared.get(id(var))
        if found is None:
            found = self._declared[id(var)] = self._declare(var)
            self.held[found.name] = var
        return found

    def _declare(self, var: VarBase) -> Variable:
        block, name = default_main_program().global_block(), var.name
        while block.has_var(name):
            name = names.generate(var.name)
        given: dict[str, Any] = {"name": name, "shape": var.shape, "dtype": var.dtype}
        if isinstance(var, ParamBase):
            made: Variable = block.create_parameter(trainable=var.trainable, **given)
        else:
            made = block.create_var(persistable=True, **given)
        made.stop_gradient = var.stop_gradient
        return made

    def run(self, type: str, inputs: Any, outputs: Mapping[str, Any], attrs: Any) -> Operator:
        given = {slot: self._own(one) for slot, one in (inputs or {}).items()}
        made = {slot: self._own(one) for slot, one in outputs.items()}
        op = super().run(type, given, made, attrs)
        if not torch.is_grad_enabled():
            for one in made.values():
                for var in one if isinstance(one, list | tuple) else [one]:
                    if isinstance(var, Variable):
                        var.stop_gradient = True
        return op

    def _own(self, given: Any) -> Any:
        if isinstance(given, VarBase):
            return self.declared(given)
        if isinstance(given, list | tuple):
            return [self._own(one) for one in given]
        return given


def declaring() -> Declaring | None:
    """The backend that a program is being built with; None outside of `building`."""
    now = backend()
    return now if isinstance(now, Declaring) else None


@contextmanager
def building(callee: Callable[[Any], Any]) -> Iterator[Declaring]:
    """Layers append to the default main program, and take variables of dygraph.

    callee: what is called for a function.
    """
    made = Declaring(callee)
    with using(made), torch.enable_grad():
        yield made


@contextmanager
def new_block() -> Iterator[Block]:
    """Layers append to a new block of the program, which stays empty of what it is for."""
    program = default_main_program()
    block = program.create_block()
    before = program.current_block_idx
    try:
        yield block
    finally:
        program.current_block_idx = before
        program.rollback()


@contextmanager
def inside(block: Block) -> Iterator[None]:
    """Layers append to a block that is there already."""
    program = block.program
    before, program.current_block_idx = program.current_block_idx, block.idx
    try:
        yield
    finally:
        program.current_block_idx = before


@contextmanager
def tried() -> Iterator[None]:
    """What is appended within, in blocks of its own, is only looked at and goes away again."""
    program, now = default_main_program(), backend()
    count = len(program.blocks)
    if isinstance(now, Declaring):
        now.trying += 1
    kept = dict(names.current().ids)
    try:
        with new_block():
            yield
    finally:
        drop_blocks(count)
        names.current().ids.clear()
        names.current().ids.update(kept)
        if isinstance(now, Declaring):
            now.trying -= 1


def drop_blocks(count: int) -> None:
    """Takes all blocks but the first `count` away."""
    default_main_program().drop_blocks(count)


def is_array(value: Any) -> bool:
    """Whether a value is a variable that holds an array of tensors."""
    return isinstance(value, Variable) and value.type == VarType.LOD_TENSOR_ARRAY
