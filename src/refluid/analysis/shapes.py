"""`Shapes`: those that a program's variables have for given feeds, without running it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress

from refluid.analysis.sizes import size_of
from refluid.analysis.uses import Key
from refluid.core.errors import EnforceNotMet
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import find, nested_of


class Shapes:
    """Shapes and bytes of variables; an unknown size counts as the first one of the first feed."""

    def __init__(self, block: Block, fed: Mapping[str, tuple[int, ...]]) -> None:
        self.unknown = next((shape[0] for shape in fed.values() if shape), 1)
        program = block.program.clone()
        self.blocks = program.blocks
        for name, shape in fed.items():
            _describe(program.blocks[block.idx], name, shape)
        _infer(program.blocks[block.idx])

    def known_alone(self) -> Shapes:
        """The same, but variables of unknown size count nothing."""
        other = copy.copy(self)
        other.unknown = 0
        return other

    def persistable(self, key: Key) -> bool:
        var = self.blocks[key[0]].vars.get(key[1])
        return var is not None and var.persistable

    def bytes(self, key: Key) -> int:
        """Bytes of a variable, an array's as if all its items were one; 0 for what is no tensor
        or isn't described."""
        return size_of(self.blocks[key[0]].vars.get(key[1])).given(self.unknown)

    def rows(self, block: Block, name: str) -> int:
        """The first size of a variable."""
        var = self.blocks[block.idx].find_var_recursive(name)
        shape = var.shape if var is not None and var.has_description() else ()
        return self.unknown if not shape or shape[0] < 0 else int(shape[0])


def _infer(block: Block) -> None:
    """Shapes of all that the block's operators make, in their order; blocks inside included."""
    for op in block.ops:
        for inner in op.sub_blocks():
            nested = nested_of(op)
            if nested is not None and nested.stepped:
                _enter_step(op, inner)
            _infer(inner)
            if nested is not None and nested.stepped:
                _leave_step(op, inner)
        definition = find(op.type)
        if definition is not None:
            with suppress(EnforceNotMet):  # what can't be inferred stays as declared
                definition.infer(op)


def _enter_step(op: Operator, block: Block) -> None:
    """The step's inputs are one time step of the outer ones, its states start as the outer ones."""
    for name in op.input("inputs"):
        shape = _shape(op.block, name)
        if shape:
            _describe(block, name, shape[1:])
    if op.attr("has_states"):
        for outer, inner in zip(op.input("initial_states"), op.attr("ex_states"), strict=False):
            _describe(block, inner, _shape(op.block, outer))


def _leave_step(op: Operator, block: Block) -> None:
    steps = _shape(op.block, op.input("inputs")[0])[:1]
    for name in op.output("outputs"):
        inner = block.vars.get(name)
        if inner is not None and inner.has_description() and steps:
            _describe(op.block, name, (*steps, *inner.shape))


def _shape(block: Block, name: str) -> tuple[int, ...]:
    var = block.find_var_recursive(name)
    return tuple(var.shape) if var is not None and var.has_description() else ()


def _describe(block: Block, name: str, shape: tuple[int, ...]) -> None:
    var = block.find_var_recursive(name)
    if var is not None and shape:
        var.describe(shape=shape, dtype=None)
