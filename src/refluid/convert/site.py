"""`Site`: one operator as its converter sees it, and what the converter writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from refluid.convert.table import NoCounterpart
from refluid.core.dtypes import VarType, to_torch
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

if TYPE_CHECKING:
    from refluid.convert.writer import Writer

Change = Callable[[Tensor], Tensor]


def turned(value: Tensor) -> Tensor:
    """Fluid's matrix (inputs, outputs) as torch.nn.Linear has it."""
    return value.t().contiguous()


@dataclass(frozen=True)
class Weight:
    """A parameter of a submodule: Fluid's name, and how its values lie in PyTorch."""

    name: str
    change: Change | None = None


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
        return self.writer.source.var(self.names(slot)[index])

    def shape(self, slot: str, index: int = 0) -> tuple[int, ...]:
        """Declared sizes of an input; -1 is unknown."""
        return tuple(self.var(slot, index).shape)

    def out_shape(self, slot: str = "Out", index: int = 0) -> tuple[int, ...]:
        """Declared sizes of an output."""
        return tuple(self.writer.source.var(self.op.output(slot)[index]).shape)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; `default` where the program doesn't say."""
        return self.op.attrs.get(name, default)

    def is_parameter(self, slot: str) -> bool:
        """Whether the input's values are saved with the model."""
        return self.has(slot) and self.name(slot) in self.writer.source.values

    def needed(self, slot: str, index: int = 0) -> bool:
        """Whether anybody reads that output."""
        names = self.op.output(slot)
        return index < len(names) and self.writer.needs(names[index])

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
        return self.writer.module(maker, weights)

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
            lengths = self._lengths() if lengths is None else lengths
            value = Expression(text, loose, scalar, lengths)
            self.writer.give(self.op.output(slot)[index], value)

    def give_all(self, text: str, outputs: Sequence[tuple[str, int]]) -> None:
        """Says what several outputs are, as a tuple."""
        names = [
            self.op.output(slot)[index] if self.needed(slot, index) else None
            for slot, index in outputs
        ]
        self.writer.give_all(names, text, self._lengths())

    def _lengths(self) -> str:
        for slot in self.op.inputs:
            for name in self.op.input(slot):
                known = self.writer.values.get(name)
                if known is not None and known.lengths:
                    return known.lengths
        return ""

    def lengths(self, slot: str = "X") -> str:
        """The lengths of the input's sequences; NoCounterpart where it has none."""
        found = self.value(slot).lengths
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


def torch_dtype(kind: Any) -> str:
    """`torch.float32` for Fluid's element type."""
    return str(to_torch(VarType(int(kind))))
