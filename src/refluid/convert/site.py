"""`Site`: one operator as its converter sees it, and what the converter writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from refluid.analysis.uses import Key
from refluid.convert.table import NoCounterpart
from refluid.convert.weights import Weight
from refluid.core.dtypes import VarType, to_torch
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.ops import registry

if TYPE_CHECKING:
    from refluid.convert.writer import Writer


@dataclass
class Expression:
    """What a variable is in the code: an expression, and whether it needs parentheses.

    scalar: no dimensions, where Fluid has one of size 1. lengths: the expression of the sequences'
    lengths, empty where there are none.
    """

    text: str
    loose: bool = False
    scalar: bool = False
    lengths: str = ""


@dataclass
class LoopState:
    """A variable that a loop carries: its name before a round and after it, and its local.

    before and after are the same variable where a round changes it in place.
    """

    before: Key
    after: Key
    local: str


class Site:
    """Reads inputs as expressions, gives outputs as expressions.

    x: safe to be followed by a method; arg: as an argument of a call.
    """

    def __init__(self, writer: Writer, op: Operator) -> None:
        self.writer, self.op = writer, op

    # -- what there is --------------------------------------------------------

    def has(self, slot: str) -> bool:
        """Whether the input is given."""
        return bool(self.op.input(slot))

    def names(self, slot: str) -> list[str]:
        """Fluid's names of an input."""
        return list(self.op.input(slot))

    def name(self, slot: str) -> str:
        """Fluid's name of an input's only variable."""
        return self.names(slot)[0]

    def var(self, slot: str, index: int = 0) -> Variable:
        """The variable's description."""
        return self.op.block.var_recursive(self.names(slot)[index])

    def shape(self, slot: str, index: int = 0) -> tuple[int, ...]:
        """Declared sizes of an input; -1 is unknown."""
        return tuple(self.var(slot, index).shape)

    def out_shape(self, slot: str = "Out", index: int = 0) -> tuple[int, ...]:
        """Declared sizes of an output."""
        return tuple(self.op.block.var_recursive(self.op.output(slot)[index]).shape)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; where the program doesn't say `default`, else the operator's own."""
        if name in self.op.attrs or default is not None:
            return self.op.attrs.get(name, default)
        definition = registry.find(self.op.type)
        known = definition.attributes.get(name) if definition is not None else None
        return None if known is None else known.default

    def is_parameter(self, slot: str) -> bool:
        """Whether the input's values are saved with the model."""
        return self.has(slot) and self.name(slot) in self.writer.source.values

    def needed(self, slot: str, index: int = 0) -> bool:
        """Whether anybody reads that output."""
        names = self.op.output(slot)
        return index < len(names) and self.writer.needs(names[index])

    def block(self) -> Block:
        """The block that the operator runs."""
        return next(iter(self.op.sub_blocks()))

    # -- expressions ----------------------------------------------------------

    def value(self, slot: str, index: int = 0) -> Expression:
        """The input."""
        return self.writer.value(self.names(slot)[index])

    def x(self, slot: str = "X", index: int = 0) -> str:
        """The input, as a tensor of the dimensions that Fluid has."""
        value = self.value(slot, index)
        if value.scalar:
            return f"{_closed(value)}.reshape(1)"
        return _closed(value)

    def arg(self, slot: str = "X", index: int = 0) -> str:
        """As `x`, where no parentheses are needed."""
        value = self.value(slot, index)
        return value.text if not value.scalar else self.x(slot, index)

    def number(self, slot: str = "X", index: int = 0) -> str:
        """The input, which may have no dimensions, for arithmetic."""
        return _closed(self.value(slot, index))

    def held(self, slot: str = "X", index: int = 0) -> str:
        """As `x`, for what is written more than once: a name."""
        self.writer.held(self.names(slot)[index])
        return self.x(slot, index)

    def module(self, maker: str, weights: Mapping[str, Weight]) -> str:
        """The submodule that has these parameters: `self.conv`."""
        return self.writer.members.module(maker, weights)

    # -- results --------------------------------------------------------------

    def give(
        self,
        text: str,
        slot: str = "Out",
        index: int = 0,
        *,
        loose: bool = False,
        scalar: bool = False,
        lengths: str | None = None,
    ) -> None:
        """Says what an output is. lengths: of its sequences; None: those of the first input."""
        if self.needed(slot, index):
            lengths = self._lengths() if lengths is None else self.writer.kept(lengths)
            value = Expression(text, loose, scalar, lengths)
            self.writer.give(self.op.output(slot)[index], value)

    def give_all(
        self, text: str, outputs: Sequence[tuple[str, int]], lengths: str | None = None
    ) -> None:
        """Says what several outputs are, as a tuple."""
        names = [
            self.op.output(slot)[index] if self.needed(slot, index) else None
            for slot, index in outputs
        ]
        lengths = self._lengths() if lengths is None else self.writer.kept(lengths)
        self.writer.give_all(names, text, lengths)

    def parts_of(self, text: str, count: int) -> list[str]:
        """Writes a call that gives a tuple; the names of its parts."""
        names: list[str] = []
        for _ in range(count):
            names.append(self.writer.fresh(*names))
        self.writer.line(f"{', '.join(names)} = {text}")
        return names

    def give_with_lengths(self, text: str, slot: str = "Out") -> None:
        """Says what an output is by a call that gives it and its sequences' lengths."""
        local, lengths = self.writer.fresh(), self.writer.fresh_lengths()
        self.writer.line(f"{local}, {lengths} = {text}")
        self.give(local, slot, lengths=lengths)

    def _lengths(self) -> str:
        for slot in self.op.inputs:
            for name in self.op.input(slot):
                known = self.writer.known(name)
                if known is not None and known.lengths:
                    return known.lengths
        return ""

    def lengths(self, slot: str = "X", index: int = 0) -> str:
        """The lengths of the input's sequences; NoCounterpart where it has none."""
        found = self.value(slot, index).lengths
        if not found:
            self.refuse("what it reads has no sequences in the converted part")
        return found

    def refuse(self, reason: str) -> None:
        """Raises NoCounterpart."""
        raise NoCounterpart(f"operator {self.op.type}: {reason}")

    def require(self, holds: object, reason: str) -> None:
        """Raises NoCounterpart unless `holds`."""
        if not holds:
            self.refuse(reason)


def _closed(value: Expression) -> str:
    return f"({value.text})" if value.loose else value.text


def short(value: Any) -> Any:
    """Float32 numbers that were read as floats, with the digits that they were written with."""
    if isinstance(value, list | tuple):
        return [short(one) for one in value]
    return float(str(np.float32(value))) if isinstance(value, float) else value


def torch_dtype(kind: Any) -> str:
    """`torch.float32` for Fluid's element type."""
    return str(to_torch(VarType(int(kind))))
